"""Many elements in one key, and many keys with one: costs stay what they are documented to be.

What `benchmarks/bench_state_sizes.py` measures at 1,000,000 is asserted here at a size that fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.descriptors import JSON, SortedMapDescriptor, StateDescriptor
from state.execution.sync import run_now
from state.lexicographic import lexicographic_codec
from state.primitives.session import PRIMITIVE_THRESHOLDS
from state.ttl import Cleanup, TtlConfig
from state.types import parse_type
from tests.state.primitives.driver import Driver, Operation
from tests.state.primitives.driver import descriptor as descriptor_of

if TYPE_CHECKING:
    from state.testing.stand import Stand

ENTRIES = 50_000
AN_EPOCH = 10_000
TTL = TtlConfig(1_000, cleanup=Cleanup(background_keys_max=AN_EPOCH))
MIDDLE = ENTRIES // 2


def described(kind: str) -> StateDescriptor:
    if kind != "sorted_map":
        return descriptor_of(kind, TTL)
    codec = lexicographic_codec([parse_type("BIGINT NOT NULL")])
    return SortedMapDescriptor(name="state", key_codec=codec, codec=JSON, ttl=TTL)


async def put(handle: Any, kind: str, number: int) -> None:
    match kind:
        case "value":
            await handle.update(number)
        case "list":
            await handle.add(number)
        case "map":
            await handle.put(number, number)
        case _:
            await handle.add((number,), number)


def fill(state: Driver, kind: str, *, is_one_key: bool) -> None:
    """Elements in epochs of their own times, in the order of their numbers."""
    for start in range(0, ENTRIES, AN_EPOCH):
        session = state.session(start // AN_EPOCH)
        handle = state.handle(session)
        for number in range(start, start + AN_EPOCH):
            session.set_key(JSON.encode(["k" if is_one_key else number]), 0)
            run_now(put(handle, kind, number), session)
        state.sessions.end(session)


COSTS: list[tuple[str, Operation, tuple[int, int, int, int]]] = [
    ("list", lambda s: s.add(1), (2, 3, 1, 3)),
    ("list", lambda s: s.is_empty(), (1, 2, 1, 0)),
    ("map", lambda s: s.get(MIDDLE), (2, 3, 2, 0)),
    ("map", lambda s: s.put(MIDDLE, 1), (3, 4, 2, 2)),
    ("map", lambda s: s.put(ENTRIES, 1), (3, 4, 2, 3)),
    ("map", lambda s: s.remove(ENTRIES), (3, 4, 2, 3)),
    ("sorted_map", lambda s: s.values_at((MIDDLE,)), (2, 3, 2, 0)),
    ("sorted_map", lambda s: s.first_entry(), (2, 3, 17, 0)),
    ("sorted_map", lambda s: s.add((ENTRIES,), 1), (2, 3, 1, 3)),
    # The read tells which stamps go; written are the range, the stamp and the header.
    ("sorted_map", lambda s: s.clear_entry_at((ENTRIES,)), (3, 4, 2, 3)),
]
"""Round trips, commands, fields read and written, as with a few elements: see `test_costs`."""


def expire(state: Driver) -> list[int]:
    """How many elements each epoch without a record removes, until one removes none."""
    removed = []
    while count := state.clean(10_000):
        removed.append(count)
    return removed


@pytest.mark.parametrize("kind", ["list", "map", "sorted_map"])
def test_one_key_with_very_many_elements(stand: Stand, kind: str) -> None:
    state = Driver(stand, described(kind), PRIMITIVE_THRESHOLDS)
    fill(state, kind, is_one_key=True)

    for _, operation, expected in (each for each in COSTS if each[0] == kind):
        state.at(5, operation)
        cost = state.cost
        assert (cost.round_trips, cost.commands, cost.reads, cost.writes) == expected

    removed = expire(state)
    assert max(removed) <= AN_EPOCH
    assert sum(removed) == ENTRIES + (kind == "list")
    assert state.names() == []


@pytest.mark.parametrize("kind", ["value", "map"])
def test_very_many_keys_with_one_element(stand: Stand, kind: str) -> None:
    state = Driver(stand, described(kind), PRIMITIVE_THRESHOLDS)
    fill(state, kind, is_one_key=False)

    state.at(5, lambda s: s.clear(), key="none")
    assert state.cost.round_trips <= 2

    removed = expire(state)
    assert removed == [AN_EPOCH] * (ENTRIES // AN_EPOCH)
    assert state.names() == []


@pytest.mark.parametrize("kind", ["list", "map", "sorted_map"])
def test_cleaning_a_part_of_a_key_reads_no_element_that_lives(stand: Stand, kind: str) -> None:
    state = Driver(stand, described(kind), PRIMITIVE_THRESHOLDS)
    fill(state, kind, is_one_key=True)

    # The elements of the first epoch alone are expired.
    assert state.clean(1_000) == AN_EPOCH

    # What is due, the header, the oldest stamps with one behind them; never a value.
    assert state.cost.reads < 2 * AN_EPOCH
    assert state.clean(1_000) == 0
