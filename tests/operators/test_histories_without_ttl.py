"""Histories whose TTL is switched off again: what only a TTL needs does not outlive them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from operators.changelog import Change, RowKind
from operators.testing.harness import NODE, MaterializerHarness, Step
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec
from service.runtime.operators import OperatorInfo
from state.backends.heap import HeapBackend
from state.multiset.strategy import Strategy
from state.registry import register_states
from state.ttl import TtlClock

SPEC = MaterializerSpec(INTEGERS.types, INTEGERS.names, key=(1,), upsert_key=None)


def of_each_key(kind: RowKind) -> list[Change]:
    return [Change(kind, (key, key, "a")) for key in range(9)]


@pytest.mark.parametrize("strategy", list(Strategy))
def test_nothing_is_left_of_keys_that_are_emptied(strategy: Strategy) -> None:
    never = replace(SPEC, strategy=strategy, high=2, low=1)
    harness = MaterializerHarness.on_heap(never)
    harness.run([Step(time_ms=1_000), *of_each_key(RowKind.INSERT)])
    harness.restart(replace(never, ttl_ms=10_000, ttl_enabled_ms=1_000))
    harness.run([Step(time_ms=1_001), *of_each_key(RowKind.UPDATE_AFTER)])
    harness.run_epoch([])
    assert {b"history:expiry", b"history:swept"} <= harness.stored_names()

    harness.restart(replace(never, ttl_enabled_ms=1_000, is_stamped=True))
    harness.run([Step(time_ms=99_000), *of_each_key(RowKind.DELETE)])
    harness.run([Step(time_ms=99_001), *of_each_key(RowKind.DELETE)])
    for _ in ("finds no key", "forgets the walk"):
        harness.run_epoch([])

    assert {each for each in harness.stored_names() if each.startswith(b"history")} == set()


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_key_that_is_walked_while_a_retraction_finds_nothing_of_it_expires(
    strategy: Strategy,
) -> None:
    """It is touched and stays as it is: the walk is its only way into the index of expiry."""
    never = replace(SPEC, strategy=strategy, high=2, low=1)
    harness = MaterializerHarness.on_heap(never)
    harness.run([Step(time_ms=1_000), *of_each_key(RowKind.INSERT)])
    harness.restart(replace(never, ttl_ms=10_000, ttl_enabled_ms=1_000))
    orphans = [Change(RowKind.DELETE, (key, key, "b")) for key in range(9)]
    for time_ms in range(1_001, 1_005):
        harness.run([Step(time_ms=time_ms), *orphans])

    harness.run([Step(time_ms=11_000)])
    for _ in ("drops what is due", "finds no key", "forgets the walk"):
        harness.run_epoch([])

    assert {each for each in harness.stored_names() if each.startswith(b"history")} == set()


@pytest.mark.parametrize("strategy", list(Strategy))
def test_what_came_without_a_ttl_is_found_though_it_was_off_for_less_than_a_millisecond(
    strategy: Strategy,
) -> None:
    """When it was switched on is the same as the time before."""
    never = replace(SPEC, strategy=strategy, high=2, low=1)
    mortal = replace(never, ttl_ms=10_000, ttl_enabled_ms=1_000)
    first, *others = of_each_key(RowKind.INSERT)
    harness = MaterializerHarness.on_heap(never)
    harness.run([Step(time_ms=1_000), first])
    harness.restart(mortal)
    harness.run_epoch([])
    harness.restart(replace(never, ttl_enabled_ms=1_000, is_stamped=True))
    harness.run(others)
    harness.restart(mortal)
    for _ in range(9):
        harness.run_epoch([])

    harness.run([Step(time_ms=11_000)])
    for _ in ("drops what is due", "finds no key", "forgets the walk"):
        harness.run_epoch([])

    assert {each for each in harness.stored_names() if each.startswith(b"history")} == set()


def test_a_materializer_is_told_of_its_past() -> None:
    ledger = HeapBackend().ledger()
    register_states(ledger, NODE, [replace(SPEC, ttl_ms=5).descriptor], TtlClock(0))
    register_states(ledger, NODE, [SPEC.descriptor], TtlClock(10))
    spec = replace(SPEC, ttl_ms=7)
    states = register_states(ledger, NODE, [spec.descriptor], TtlClock(20))

    told = OperatorInfo(NODE, 1, MaterializerSpec.KIND, spec).with_past(states).spec

    assert isinstance(told, MaterializerSpec)
    assert (told.ttl_enabled_ms, told.is_stamped) == (20, True)
    assert MaterializerSpec.from_json(told.to_json()) == told
