"""Values that are read and written many at once are what values with cells are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.backends.interface import HashPut, HashScan
from state.descriptors import JSON, ValueDescriptor
from state.execution.sync import run_now
from state.testing.sessions import SessionStand
from state.testing.stand import heap_stand
from state.ttl import DISABLED, TtlClock, TtlConfig

if TYPE_CHECKING:
    from state.backends.interface import Write
    from state.primitives.session import StateSession
    from state.primitives.value import ValueHandle

KEYS = [b'["%d"]' % number for number in range(6)]
PAIRS = [(key, number % 2) for number, key in enumerate(KEYS)]
VALUES = st.one_of(st.none(), st.integers(0, 2))
EPOCH = st.fixed_dictionaries(
    {
        "written": st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4),
        "beside": st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=2),
    }
)


def ran(epochs: list[dict[str, Any]], *, at_once: bool, **fields: Any) -> list[Any]:
    """What is read and committed in each epoch, and what is stored at the end."""
    stand = SessionStand(heap_stand(), key_groups=(0, 1))
    descriptor = ValueDescriptor(name="state", codec=JSON, **fields)
    told: list[Any] = []
    for number, epoch in enumerate(epochs):
        session = stand.begin(TtlClock(3 * number))
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
    return [told, stand.fetch(HashScan(0, b"state"), HashScan(1, b"state"))]


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
@given(epochs=st.lists(EPOCH, max_size=4))
def test_they_read_and_store_the_same(ttl: TtlConfig, epochs: list[dict[str, Any]]) -> None:
    assert ran(epochs, at_once=True, ttl=ttl) == ran(epochs, at_once=False, ttl=ttl)


def test_only_states_without_stamps_have_no_cells() -> None:
    """An element that had a TTL once still has its stamp."""
    session = SessionStand(heap_stand(), key_groups=(0, 1)).begin(TtlClock(0))
    for name, fields, cells in (
        ("plain", {}, 0),
        ("living", {"ttl": TtlConfig(5)}, len(KEYS)),
        ("lived", {"is_stamped": True}, len(KEYS)),
    ):
        descriptor = ValueDescriptor(name=name, codec=JSON, **fields)
        handle = session.value(descriptor)
        session.prefetch([(descriptor, PAIRS)], at_once=True)
        assert len(handle.cells) == cells
        assert handle.read_all(KEYS) == [None] * len(KEYS)
