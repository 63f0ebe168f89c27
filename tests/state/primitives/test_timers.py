"""Timers in state: those of an epoch and those of the epochs before are one set."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from state.backends.interface import SortedPut
from state.descriptors import TimersDescriptor
from state.errors import InvariantViolation, StateCorrupt
from state.execution.timers import Timer
from state.testing.sessions import SessionStand
from state.testing.stand import heap_stand, redis_stand
from state.testing.timers_machine import TimersMachine
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import redis

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


def run(open_stand: Callable[[], AbstractContextManager[Stand]], examples: int) -> None:
    machine: Any = type("Machine", (TimersMachine,), {"open_stand": staticmethod(open_stand)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def test_timers_are_a_set_wherever_epochs_end_on_heap() -> None:
    run(lambda: contextlib.nullcontext(heap_stand()), settings.default.max_examples)


def test_timers_are_a_set_wherever_epochs_end_on_redis(redis_client: redis.Redis) -> None:
    """A quarter of the examples: an epoch is several round trips."""

    @contextlib.contextmanager
    def fresh() -> Iterator[Stand]:
        redis_client.flushall()
        with redis_stand(redis_client) as stand:
            yield stand

    run(fresh, settings.default.max_examples // 4)
