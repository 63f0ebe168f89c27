"""The walk for keys without a timer: what it costs, gives and remembers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import HashScan
from state.descriptors import JSON, TimersDescriptor, ValueDescriptor
from state.execution.sync import run_now
from state.testing.sessions import SessionStand
from state.ttl import DISABLED, Cleanup, TtlClock, TtlConfig
from tests.state.primitives.conftest import stand

if TYPE_CHECKING:
    from state.testing.stand import Stand

__all__ = ["stand"]

GROUPS = (0, 1, 2)
VALUES = [ValueDescriptor(name=name, codec=JSON) for name in ("one", "two")]
SWEPT = b"timers:swept"


class World:
    """Keys of three key groups in two states, and timers that are to let them go."""

    def __init__(self, stand: Stand) -> None:
        self.sessions = SessionStand(stand, key_groups=GROUPS)

    def put(self, value: int | None, *numbers: int, ttl_ms: int = 0) -> None:
        """Write keys of these numbers into a state, or out of both, in an epoch."""
        session = self.sessions.begin(TtlClock(0))
        session.timers(self.timers(ttl_ms, 0))
        for number in numbers:
            session.set_key(b"[%02d]" % number, number % 3)
            for each in VALUES if value is None else VALUES[value : value + 1]:
                state = session.value(each)
                run_now(state.clear() if value is None else state.update(1), session)
        session.clean_up(GROUPS)
        self.sessions.end(session)

    def found(self, *, enabled_ms: int | None = 1_000, keys_max: int = 15) -> list[int]:
        """The keys that an epoch is given, by number; `round_trips` is what its reads cost."""
        session = self.sessions.begin(TtlClock(2_000))
        timers = session.timers(self.timers(100, enabled_ms, keys_max))
        timers.load(GROUPS, 2_000)
        found = timers.untimed_keys()
        session.clean_up(GROUPS)
        self.round_trips = session.statistics().transaction.round_trips
        self.sessions.end(session)
        numbers = [int(key[1:3]) for key, _ in found]
        assert [group for _, group in found] == [number % 3 for number in numbers]
        return numbers

    def swept(self) -> list[Any]:
        """What each key group remembers."""
        return self.sessions.fetch(*(HashScan(group, SWEPT) for group in GROUPS))

    @staticmethod
    def timers(ttl_ms: int, enabled_ms: int | None, keys_max: int = 15) -> TimersDescriptor:
        cleanup = Cleanup(background_keys_max=keys_max)
        return TimersDescriptor(
            name="timers",
            ttl=TtlConfig(ttl_ms, cleanup=cleanup) if ttl_ms else DISABLED,
            enabled_ms=enabled_ms,
            forgets=("one", "two"),
        )


@pytest.fixture
def world(stand: Stand) -> World:
    return World(stand)


def test_keys_of_several_states_are_given_once_whole_key_groups_within_the_bound(
    world: World,
) -> None:
    world.put(0, *range(24))
    world.put(1, 0, 24, 25)

    # Ten in the first, one of them twice; with the second there would be more than fifteen.
    assert world.found() == [0, 3, 6, 9, 12, 15, 18, 21, 24]
    assert world.swept() == [{b"enabled_ms": b"1000"}, {}, {}]
    assert world.round_trips == 2
    assert world.found(keys_max=17) == [1, 4, 7, 10, 13, 16, 19, 22, 25, *range(2, 24, 3)]
    assert world.found() == []
    assert world.round_trips == 1


def test_a_key_group_that_is_larger_than_the_bound_is_walked_alone(world: World) -> None:
    world.put(0, *range(9))

    assert world.found(keys_max=1) == [0, 3, 6]
    assert world.found(keys_max=1) == [1, 4, 7]


def test_a_ttl_that_is_switched_on_anew_is_walked_for_anew(world: World) -> None:
    world.put(0, 0, 1)
    assert world.found() == [0, 1]
    assert world.found(enabled_ms=1_001) == [0, 1]


def test_an_epoch_without_a_ttl_forgets_the_walk_of_its_key_groups(world: World) -> None:
    world.put(0, 0)
    assert world.found() == [0]
    world.put(0, 3)
    assert world.swept() == [{}, {}, {}]
    assert world.found() == [0, 3]


def test_the_last_key_takes_along_that_its_key_group_was_walked(world: World) -> None:
    world.put(0, 0)
    assert world.found() == [0]
    world.put(None, 0, ttl_ms=100)
    assert world.found() == []
    assert world.swept() == [{}, {}, {}]


def test_a_ttl_from_the_beginning_asks_for_nothing(world: World) -> None:
    world.put(0, *range(9))
    assert world.found(enabled_ms=None) == []
    assert world.round_trips == 1
    assert world.swept() == [{}, {}, {}]
