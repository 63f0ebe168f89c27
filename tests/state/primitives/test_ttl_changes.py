"""A pipeline's TTL changes, and no state is lost: on, off, longer, shorter, other update type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import HashScan
from state.execution.sync import run_now
from state.registry import extend_ttl, extension_ms
from state.testing.sessions import LAYOUTS
from state.ttl import DISABLED, Cleanup, TtlClock, TtlConfig, UpdateType
from tests.state.primitives.driver import Driver, Operation, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand

TTL = TtlConfig(100)


async def row_of(state: Any) -> Any:
    found = await state.last()
    return None if found is None else found.row


FILL: dict[str, Operation] = {
    "value": lambda s: s.update(1),
    "reducing": lambda s: s.add(1),
    "aggregating": lambda s: s.add(1),
    "list": lambda s: s.add(1),
    "map": lambda s: s.put(1, 1),
    "sorted_map": lambda s: s.put((1,), [1]),
    "multiset": lambda s: s.add("row"),
}
READ: dict[str, Operation] = {
    "value": lambda s: s.value(),
    "reducing": lambda s: s.get(),
    "aggregating": lambda s: s.get(),
    "list": lambda s: s.get(),
    "map": lambda s: s.get(1),
    "sorted_map": lambda s: s.values_at((1,)),
    "multiset": lambda s: row_of(s),
}
VISIBLE = {
    "value": 1,
    "reducing": 1,
    "aggregating": "4",
    "list": [1],
    "map": 1,
    "sorted_map": [1],
    "multiset": "row",
}


class World:
    """A driver of one kind, and what reading it gives."""

    def __init__(self, stand: Stand, kind: str, layout: str, ttl: TtlConfig) -> None:
        self.kind = kind
        self.state = Driver(stand, descriptor(kind, ttl), LAYOUTS[layout])

    def fill(self, ms: int, key: str = "k") -> None:
        self.state.at(ms, FILL[self.kind], key=key)

    def lives(self, ms: int, key: str = "k") -> bool:
        found = self.state.at(ms, READ[self.kind], key=key)
        assert found in (None, VISIBLE[self.kind])
        return found is not None

    def counts_from(self, *, written_ms: int, enabled_ms: int) -> int:
        """Since when what was written without a TTL is judged, once there is one.

        Entries of a multiset have their times always; all else has none, and gets "now".
        """
        return written_ms if self.kind == "multiset" else enabled_ms


@pytest.fixture(params=[(kind, layout) for kind in FILL for layout in LAYOUTS], ids="-".join)
def world(request: pytest.FixtureRequest, stand: Stand) -> Any:
    kind, layout = request.param
    return lambda ttl: World(stand, kind, layout, ttl)


def test_switched_on_everything_lives_from_then(world: Any) -> None:
    it = world(DISABLED)
    it.fill(950)

    it.state.change(TTL, 1000)

    since_ms = it.counts_from(written_ms=950, enabled_ms=1000)
    assert it.lives(since_ms + 99)
    assert not it.lives(since_ms + 100)
    assert it.state.names() == []


def test_switched_on_the_background_finds_what_has_no_stamp(world: Any) -> None:
    it = world(DISABLED)
    for key in ("a", "b"):
        it.fill(0, key)
    it.state.change(TTL, 1000)
    it.fill(1050, "c")

    assert it.state.clean(1099) == 0
    assert it.state.clean(1100) == 2
    assert it.state.clean(1100) == 0
    assert it.state.clean(1150) == 1
    it.state.clean(1151)
    assert it.state.names() == []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["value", "map"])
def test_an_element_gets_its_stamp_at_the_next_write(stand: Stand, kind: str, layout: str) -> None:
    it = World(stand, kind, layout, DISABLED)
    it.fill(0)
    it.state.change(TTL, 1000)

    it.fill(1050)

    assert it.lives(1149)
    assert not it.lives(1150)


def test_switched_off_everything_lives_for_ever(world: Any) -> None:
    it = world(TTL)
    it.fill(0)

    it.state.change(DISABLED, 50)

    assert it.lives(10**9)
    assert it.state.clean(10**9) == 0


def test_switched_off_and_on_stamps_count_again(world: Any) -> None:
    it = world(TTL)
    it.fill(0, "stamped")
    it.state.change(DISABLED, 50)
    it.fill(60, "not stamped")

    it.state.change(TTL, 80)

    assert it.lives(99, "stamped")
    assert not it.lives(100, "stamped")
    since_ms = it.counts_from(written_ms=60, enabled_ms=80)
    assert it.lives(since_ms + 99, "not stamped")
    assert not it.lives(since_ms + 100, "not stamped")
    assert it.state.names() == []


def test_switched_off_clearing_leaves_no_stamp_behind(world: Any) -> None:
    it = world(TTL)
    it.fill(0)
    it.state.change(DISABLED, 50)

    it.state.at(60, lambda s: s.clear())

    assert it.state.names() == []


def test_longer_counts_from_the_stamps_there_are(world: Any) -> None:
    it = world(TTL)
    it.fill(0)

    it.state.change(TtlConfig(300), 50)

    assert it.state.clean(299) == 0
    assert it.lives(299)
    assert it.state.clean(300) == 1
    assert it.state.names() == []


def test_shorter_counts_from_the_stamps_there_are(world: Any) -> None:
    it = world(TtlConfig(300))
    it.fill(0)
    it.fill(40, "later")

    it.state.change(TTL, 120)

    assert not it.lives(120)
    assert it.lives(139, "later")
    assert it.state.clean(140) == 1
    assert it.state.names() == []


def test_another_update_type_counts_from_its_first_access(world: Any) -> None:
    it = world(TTL)
    it.fill(0)

    it.state.change(TtlConfig(100, UpdateType.ON_READ_AND_WRITE), 50)
    assert it.lives(90)
    assert it.lives(189)
    it.state.change(TTL, 189)
    assert it.lives(250)

    assert not it.lives(289)
    assert it.state.names() == []


@pytest.mark.parametrize("before", [each for each in UpdateType if each is not UpdateType.DISABLED])
@pytest.mark.parametrize("after", [each for each in UpdateType if each is not UpdateType.DISABLED])
def test_from_any_update_type_to_any_other_nothing_is_lost(
    world: Any, before: UpdateType, after: UpdateType
) -> None:
    """What is stored keeps its stamp, whichever accesses counted before and count from now on."""
    it = world(TtlConfig(100, before))
    it.fill(0)

    it.state.change(TtlConfig(100, after), 50)

    assert it.state.clean(99) == 0
    assert it.lives(99)
    expires_ms = 199 if after is UpdateType.ON_READ_AND_WRITE else 100
    assert it.state.clean(expires_ms - 1) == 0
    assert it.state.clean(expires_ms) == 1
    assert it.state.names() == []


def test_extending_prolongs_every_life_by_the_downtime(world: Any) -> None:
    it = world(TTL)
    it.fill(0)
    stand = it.state.sessions.stand

    extend_ttl(stand.ledger, 1000)
    it.state.sessions.reopen()

    def lives(ms: int) -> bool:
        clock = TtlClock(ms, extension_ms=extension_ms(stand.ledger))
        session = it.state.sessions.begin(clock)
        session.set_key(b'["k"]', 0)
        found = run_now(READ[it.kind](it.state.handle(session)), session)
        session.clean_up((0,))
        it.state.sessions.end(session)
        return found is not None

    assert lives(1099)
    assert not lives(1100)
    assert it.state.names() == []


def test_a_spread_collection_of_both_is_cleaned_in_two_steps(stand: Stand) -> None:
    """Elements from before TTL was switched on expire together, those after by their stamps."""
    state = Driver(stand, descriptor("map", DISABLED), LAYOUTS["spread"])
    state.at(0, lambda s: s.put_all({n: n for n in range(20)}))
    state.change(TTL, 1000)
    state.at(1050, lambda s: s.put_all({n: n for n in range(15, 25)}))

    assert state.at(1099, lambda s: s.keys()) == sorted(range(25), key=str)
    assert state.clean(1100) == 15
    assert state.at(1149, lambda s: s.keys()) == sorted(range(15, 25))
    assert state.clean(1150) == 10
    state.clean(1151)
    assert state.names() == []


@pytest.mark.parametrize("leaves", ["put", "remove"])
def test_switched_off_a_spread_map_leaves_the_index_with_its_last_stamp(
    stand: Stand, leaves: str
) -> None:
    """Else the index would have the key as long as it lives: no clean-up looks there."""
    state = Driver(stand, descriptor("map", TTL), LAYOUTS["spread"])
    state.at(0, lambda s: s.put_all({n: n for n in range(4)}))
    state.change(DISABLED, 50)
    state.at(50, lambda s: s.put(9, 9))
    asking = state.cost.commands

    for n in range(4):
        assert b"state:expiry" in state.names()
        if leaves == "put":
            state.at(60 + n, lambda s, n=n: s.put(n, 0))
        else:
            state.at(60 + n, lambda s, n=n: s.remove(n))

    assert state.names() == [b"state", b'state:["k"]:rows']
    size = 5 if leaves == "put" else 1
    assert state.sessions.fetch(HashScan(0, b"state")) == [
        {b'["k"]': b"spread\t1\t%d\t0\t-" % size}
    ]
    state.at(70, lambda s: s.put(9, 8))
    # Header, field and commit, but no question for stamps any more.
    assert state.cost.commands == asking - 1


def test_what_came_without_a_ttl_is_looked_for_each_time_it_is_switched_on(stand: Stand) -> None:
    state = Driver(stand, descriptor("value", DISABLED), LAYOUTS["packed"])
    state.at(0, lambda s: s.update(1), key="first")
    state.change(TTL, 1_000)
    state.at(1_050, lambda s: s.update(0), key="stays")
    assert state.clean(1_100) == 1
    assert state.sessions.fetch(HashScan(0, b"state:swept")) == [{b"enabled_ms": b"1000"}]

    state.change(DISABLED, 2_000)
    state.at(2_000, lambda s: s.update(2), key="second")
    state.change(TTL, 3_000)
    state.at(3_050, lambda s: s.update(0), key="stays")

    assert [state.clean(ms) for ms in (3_099, 3_100)] == [0, 1]
    assert state.sessions.fetch(HashScan(0, b"state:swept")) == [{b"enabled_ms": b"3000"}]


def test_nothing_is_walked_where_nothing_is_stored(stand: Stand) -> None:
    state = Driver(stand, descriptor("value", DISABLED), LAYOUTS["packed"])
    state.change(TTL, 1_000)

    assert state.clean(1_100) == 0

    assert state.cost.round_trips == 1


def test_the_walk_is_bounded_by_key_groups_and_remembers_what_is_done(stand: Stand) -> None:
    state = Driver(stand, descriptor("value", DISABLED), LAYOUTS["packed"])
    groups = (0, 1, 2)
    state.sessions.key_groups = groups
    session = state.session(0)
    for n in range(30):
        session.set_key(b"[%d]" % n, n % 3)
        run_now(state.handle(session).update(n), session)
    state.sessions.end(session)
    state.change(TtlConfig(100, cleanup=Cleanup(background_keys_max=15)), 1000)
    session = state.session(1050)
    session.set_key(b"[0]", 0)
    run_now(state.handle(session).update(0), session)
    state.sessions.end(session)

    def clean() -> int:
        session = state.session(1100)
        state.handle(session)
        session.clean_up(groups)
        state.sessions.end(session)
        return session.statistics().cleaned

    # One key group an epoch: two would be 20 keys.
    assert [clean() for _ in range(4)] == [9, 10, 10, 0]
    assert state.sessions.fetch(HashScan(0, b"state:swept")) == [{b"enabled_ms": b"1000"}]
    # Nothing is due, nothing to walk: the size and the note of each key group.
    assert state.cost.reads == 3 * 2
    state.at(1101, lambda s: s.clear(), key="none")
    session = state.session(1101)
    session.set_key(b"[0]", 0)
    run_now(state.handle(session).clear(), session)
    state.sessions.end(session)
    clean()
    assert state.names() == []
