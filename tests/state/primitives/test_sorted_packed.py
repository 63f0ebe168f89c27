"""Sorted maps of many keys as lines: what is read and written at once, and beside operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state.execution.sync import run_now
from state.multiset.strategy import Thresholds
from state.ttl import DISABLED, TtlConfig
from tests.state.primitives.driver import Driver, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand

THRESHOLDS = Thresholds(high=4, low=2)
KEYS = tuple(b'["%b"]' % each for each in (b"empty", b"short", b"long"))
SHORT = [b"0000000000000000001\t1", b"0000000000000000002\t2"]


def filled(stand: Stand, ttl: TtlConfig = DISABLED) -> Driver:
    """A state with a packed map and a spread one."""
    state = Driver(stand, descriptor("sorted_map", ttl), THRESHOLDS)
    for key, count in (("short", 2), ("long", 5)):
        numbers = range(1, count + 1)
        state.together(0, *(lambda h, n=n: h.add((n,), n) for n in numbers), key=key)
    return state


def loaded(state: Driver) -> tuple[Any, Any]:
    """A session and its handle, with all keys loaded ahead."""
    session = state.session(1)
    handle = state.handle(session)
    session.prefetch([(state.descriptor, [(key, 0) for key in KEYS])], at_once=True)
    return session, handle


def test_lines_are_those_of_packed_maps(stand: Stand) -> None:
    state = filled(stand)
    session, handle = loaded(state)
    assert handle.packed_lines(KEYS) == [[], SHORT, None]
    assert handle.packed_lines([b'["never loaded"]']) == [None]
    state.sessions.end(session)


def test_lines_that_are_put_are_stored_as_if_they_had_been_added(stand: Stand) -> None:
    state = filled(stand)
    session, handle = loaded(state)
    handle.pack_lines(KEYS[:2], [SHORT, [*SHORT, b"0000000000000000003\t3"]])
    assert handle.packed_lines(KEYS[:2]) == [None, None]
    state.sessions.end(session)

    for key, count in (("empty", 2), ("short", 3)):
        found = state.at(2, lambda h: h.entries(), key=key)
        assert found == [((n,), [n]) for n in range(1, count + 1)]
    again, handle = loaded(state)
    assert handle.packed_lines(KEYS[:1]) == [SHORT]
    assert not again.writes()


def test_operations_see_what_was_loaded_and_what_was_put(stand: Stand) -> None:
    state = filled(stand)
    session, handle = loaded(state)
    handle.pack_lines([KEYS[1]], [[SHORT[1]]])
    found = []
    for key in KEYS:
        session.set_key(key, 0)
        run_now(handle.add((9,), 9), session)
        found.append([key for key, _ in run_now(handle.entries(), session)])
    assert found == [[(9,)], [(2,), (9,)], [(1,), (2,), (3,), (4,), (5,), (9,)]]
    state.sessions.end(session)

    sizes = [len(state.at(2, lambda h: h.entries(), key=key)) for key in ("empty", "short", "long")]
    assert sizes == [1, 2, 6]


def test_a_state_with_stamps_has_no_lines(stand: Stand) -> None:
    state = filled(stand, TtlConfig(1_000))
    session, handle = loaded(state)
    assert handle.packed_lines(KEYS) == [None, None, None]
    state.sessions.end(session)
