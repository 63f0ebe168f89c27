"""Timers in state: those of an epoch and those of the epochs before are one set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.backends.interface import SortedPut
from state.descriptors import TimersDescriptor
from state.errors import InvariantViolation, StateCorrupt
from state.execution.timers import Timer
from state.testing.sessions import SessionStand
from state.testing.stand import heap_stand
from state.ttl import TtlClock

if TYPE_CHECKING:
    from state.primitives.session import StateSession
    from state.primitives.timers import TimersHandle
    from state.testing.stand import Stand

EVENT = TimersDescriptor(name="event_timers")
KEY_GROUPS = range(2)


class Epochs:
    """Epochs that each read their timers up to a time."""

    def __init__(self, stand: Stand) -> None:
        self.stand = SessionStand(stand, key_groups=KEY_GROUPS)

    def begin(self, until_ms: int) -> tuple[StateSession, TimersHandle]:
        session = self.stand.begin(TtlClock(0))
        timers = session.timers(EVENT)
        timers.load(KEY_GROUPS, until_ms)
        return session, timers


def group_of(key: bytes) -> int:
    return key[-1] % len(KEY_GROUPS)


def test_what_is_due_comes_by_time_then_key_and_fires_by_time_then_namespace(stand: Stand) -> None:
    epochs = Epochs(stand)
    session, timers = epochs.begin(0)
    for key, time_ms, namespace in (
        (b"b", 5, b""),
        (b"a", 5, b"w2"),
        (b"a", 5, b"w1"),
        (b"a", 9, b""),
    ):
        timers.register(key, group_of(key), time_ms, namespace)
    timers.register(b"a", group_of(b"a"), 5, b"w1")
    epochs.stand.end(session)

    session, timers = epochs.begin(7)

    assert timers.due(7) == [(b"a", 1), (b"a", 1), (b"b", 0)]
    assert timers.take(b"a", 1, 7) == Timer(5, b"a", 1, b"w1")
    assert timers.take(b"a", 1, 7) == Timer(5, b"a", 1, b"w2")
    assert timers.take(b"a", 1, 7) is None
    epochs.stand.end(session)
    assert Epochs.begin(epochs, 100)[1].due(100) == [(b"b", 0), (b"a", 1)]


def test_reading_costs_one_round_trip_and_firing_one_member_each(stand: Stand) -> None:
    epochs = Epochs(stand)
    session, timers = epochs.begin(0)
    for time_ms in (1, 2, 3, 50):
        timers.register(b"k", 1, time_ms)
    epochs.stand.end(session)

    session, timers = epochs.begin(10)
    while timers.take(b"k", 1, 10):
        pass
    # Registered and fired in the epoch: never stored.
    timers.register(b"k", 1, 7)
    assert timers.take(b"k", 1, 10) is not None

    assert session.statistics().transaction.round_trips == 1
    assert session.statistics().transaction.reads == 3
    epochs.stand.end(session)
    assert session.statistics().transaction.writes == 3


def test_nothing_is_left_when_all_have_fired_or_were_removed(stand: Stand) -> None:
    epochs = Epochs(stand)
    session, timers = epochs.begin(0)
    timers.register(b"k", 1, 5)
    timers.register(b"k", 1, 500)
    epochs.stand.end(session)
    session, timers = epochs.begin(5)
    timers.take(b"k", 1, 5)
    timers.remove(b"k", 1, 500)
    epochs.stand.end(session)

    assert epochs.stand.names() == []


def test_what_was_not_read_is_not_told(stand: Stand) -> None:
    epochs = Epochs(stand)
    _, timers = epochs.begin(5)

    with pytest.raises(InvariantViolation, match="not read up to 6 ms"):
        timers.due(6)
    with pytest.raises(InvariantViolation, match="read once"):
        timers.load(KEY_GROUPS, 6)


def test_a_member_of_something_else_is_refused_without_its_text(stand: Stand) -> None:
    epochs = Epochs(stand)
    epochs.stand.begin(TtlClock(0))
    epochs.stand.commit({1: [SortedPut(b"event_timers", [1.0, b"secret"])]})

    with pytest.raises(StateCorrupt) as caught:
        epochs.begin(5)

    assert "secret" not in str(caught.value)


KEYS = st.sampled_from([b"a", b"b", b"c"])
TIMES = st.integers(0, 12)
NAMESPACES = st.sampled_from([b"", b"n"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("register"), KEYS, TIMES, NAMESPACES),
        st.tuples(st.just("remove"), KEYS, TIMES, NAMESPACES),
        st.tuples(st.just("take"), KEYS, TIMES, st.just(b"")),
        st.tuples(st.just("end"), KEYS, TIMES, st.just(b"")),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS)
def test_timers_are_a_set_wherever_epochs_end(steps: list[tuple[str, bytes, int, bytes]]) -> None:
    epochs = Epochs(heap_stand())
    session, timers = epochs.begin(12)
    model: set[tuple[int, bytes, bytes]] = set()
    for what, key, time_ms, namespace in steps:
        match what:
            case "register":
                timers.register(key, group_of(key), time_ms, namespace)
                model.add((time_ms, key, namespace))
            case "remove":
                timers.remove(key, group_of(key), time_ms, namespace)
                model.discard((time_ms, key, namespace))
            case "take":
                mine = sorted((t, n) for t, k, n in model if k == key and t <= time_ms)
                taken = timers.take(key, group_of(key), time_ms)
                assert taken == (
                    Timer(mine[0][0], key, group_of(key), mine[0][1]) if mine else None
                )
                model -= {(mine[0][0], key, mine[0][1])} if mine else set()
            case _:
                epochs.stand.end(session)
                session, timers = epochs.begin(12)
        assert timers.due(12) == [(k, group_of(k)) for _, k, _ in sorted(model)]
    epochs.stand.end(session)
    assert bool(epochs.stand.names()) == bool(model)
