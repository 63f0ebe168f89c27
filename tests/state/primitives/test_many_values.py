"""Values that are read and written many at once are what values with cells are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.backends.interface import HashPut, HashScan, SortedRange
from state.descriptors import JSON, ValueDescriptor
from state.execution.sync import run_now
from state.testing.sessions import SessionStand
from state.testing.stand import heap_stand
from state.ttl import DISABLED, TtlClock, TtlConfig, UpdateType

if TYPE_CHECKING:
    from state.backends.interface import Write
    from state.primitives.session import StateSession
    from state.primitives.value import ValueHandle

AGE = 1_577_836_800_000
"""Stamps of our age have the usual length."""
KEYS = [b'["%d"]' % number for number in range(6)]
PAIRS = [(key, number % 2) for number, key in enumerate(KEYS)]
VALUES = st.one_of(st.none(), st.integers(0, 2))
EPOCH = st.fixed_dictionaries(
    {
        "written": st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4),
        "beside": st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=2),
    }
)


def ran(epochs: list[dict[str, Any]], *, at_once: bool, start_ms: int, **fields: Any) -> list[Any]:
    """What is read and committed in each epoch, and what is stored at the end."""
    stand = SessionStand(heap_stand(), key_groups=(0, 1))
    descriptor = ValueDescriptor(name="state", codec=JSON, **fields)
    told: list[Any] = []
    for number, epoch in enumerate(epochs):
        session = stand.begin(TtlClock(start_ms + 3 * number))
        handle = session.value(descriptor)
        session.prefetch([(descriptor, PAIRS)], at_once=at_once)
        told.append(handle.read_all(KEYS))
        put = {key: b"%d" % value for key, value in epoch["written"].items() if value is not None}
        handle.write_all_json(list(put), put.values())
        handle.clear_all([key for key, value in epoch["written"].items() if value is None])
        told += [one(session, handle, *each) for each in epoch["beside"].items()]
        session.clean_up((0, 1))
        writes = session.writes()
        told.append({group: set(map(fields_of, each)) for group, each in writes.items()})
        stand.commit(writes)
    indexes = [SortedRange(each, b"state:expiry", 0, 1 << 60) for each in (0, 1)]
    return [told, stand.fetch(HashScan(0, b"state"), HashScan(1, b"state"), *indexes)]


def one(session: StateSession, handle: ValueHandle[Any], key: bytes, value: Any) -> Any:
    """Read a key by itself, and write it, as a timer may."""
    session.set_key(key, dict(PAIRS)[key])
    before = run_now(handle.value(), session)
    run_now(handle.update(value), session)
    return before, run_now(handle.value(), session)


def fields_of(write: Write) -> tuple[Any, ...]:
    """A write, in whatever order it names its fields."""
    if isinstance(write, HashPut):
        pairs = zip(write.pairs[::2], write.pairs[1::2], strict=True)
        return type(write), write.name, frozenset(pairs)
    return type(write), write.name, *map(str, vars_of(write))


def vars_of(write: Write) -> list[Any]:
    """The other fields of a write."""
    return [
        sorted(map(str, held)) if isinstance(held, list) else held
        for held in (getattr(write, name) for name in type(write).__slots__)
    ]


@pytest.mark.parametrize("ttl", [DISABLED, TtlConfig(5)])
@pytest.mark.parametrize("start_ms", [0, AGE])
@given(epochs=st.lists(EPOCH, max_size=4))
def test_they_read_and_store_the_same(
    ttl: TtlConfig, start_ms: int, epochs: list[dict[str, Any]]
) -> None:
    at_once, by_cells = (
        ran(epochs, at_once=each, ttl=ttl, start_ms=start_ms) for each in (True, False)
    )
    assert at_once == by_cells


def test_what_a_rule_may_be_about_has_a_cell() -> None:
    """An element whose TTL was switched off, or on, or is over, or that a read prolongs."""
    told: dict[str, int] = {}
    for name, then, now in (
        ("plain", {}, {}),
        ("living", {"ttl": TtlConfig(9)}, {"ttl": TtlConfig(9)}),
        ("dead", {"ttl": TtlConfig(5)}, {"ttl": TtlConfig(5)}),
        ("lived", {"ttl": TtlConfig(9)}, {"is_stamped": True}),
        ("mortal", {}, {"ttl": TtlConfig(9), "enabled_ms": AGE + 1}),
        ("read", {"ttl": TtlConfig(9)}, {"ttl": TtlConfig(9, UpdateType.ON_READ_AND_WRITE)}),
    ):
        stand = SessionStand(heap_stand(), key_groups=(0, 1))
        for number, fields in enumerate((then, now)):
            session = stand.begin(TtlClock(AGE + 5 * number))
            descriptor = ValueDescriptor(name="state", codec=JSON, **fields)
            handle = session.value(descriptor)
            session.prefetch([(descriptor, PAIRS)], at_once=True)
            told[name] = len(handle.cells)
            expected = None if name == "dead" or not number else b"1"
            assert handle.read_all(KEYS) == [expected, *[None] * 5]
            handle.write_all_json(KEYS[:1], [b"1"])
            stand.end(session)
    assert told == {"plain": 0, "living": 0, "dead": 1, "lived": 6, "mortal": 6, "read": 6}
