"""Clean-up without an access: what is due leaves, side structures and all, within its bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import HashScan, SortedRange
from state.descriptors import JSON
from state.execution.sync import run_now
from state.testing.sessions import LAYOUTS
from state.ttl import Cleanup, TimeCharacteristic, TtlClock, TtlConfig, Visibility
from tests.state.primitives.driver import Driver, Operation, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand


async def fill_multiset(state: Any) -> None:
    for row in (1, 2, 3):
        await state.append(row)


FILL: dict[str, Operation] = {
    "value": lambda s: s.update(1),
    "reducing": lambda s: s.add(1),
    "aggregating": lambda s: s.add(1),
    "list": lambda s: s.add_all([1, 2, 3]),
    "map": lambda s: s.put_all({1: 1, 2: 2, 3: None}),
    "sorted_map": lambda s: s.put((1,), [1, 2, 3]),
    "multiset": lambda s: fill_multiset(s),
}
ELEMENTS = {kind: 1 if kind in ("value", "reducing", "aggregating") else 3 for kind in FILL}
"""How many elements that gives a key."""
KINDS = pytest.mark.parametrize("kind", FILL)
BOTH = pytest.mark.parametrize("layout", LAYOUTS)


def driver(stand: Stand, kind: str, layout: str, ttl_ms: int = 100, **ttl: Any) -> Driver:
    return Driver(stand, descriptor(kind, TtlConfig(ttl_ms, **ttl)), LAYOUTS[layout])


def due(state: Driver) -> list[Any]:
    (scores,) = state.sessions.fetch(SortedRange(0, b"state:expiry", -1, 10**15))
    return list(scores)


@KINDS
@BOTH
def test_an_epoch_without_a_record_removes_what_is_due(
    stand: Stand, kind: str, layout: str
) -> None:
    state = driver(stand, kind, layout)
    for ms, key in ((0, "a"), (10, "b"), (20, "c")):
        state.at(ms, FILL[kind], key=key)
    elements = ELEMENTS[kind]

    assert state.clean(99) == 0
    assert state.clean(110) == 2 * elements
    assert due(state) == [(b'["c"]', 20.0)]
    assert state.clean(120) == elements
    assert state.names() == []


@BOTH
@pytest.mark.parametrize("visibility", Visibility)
def test_only_expired_elements_of_a_collection_go(
    stand: Stand, layout: str, visibility: Visibility
) -> None:
    state = driver(stand, "map", layout, visibility=visibility)
    for ms in (0, 30, 60):
        state.at(ms, lambda s, ms=ms: s.put(ms, ms))

    assert state.clean(130) == 2
    assert due(state) == [(b'["k"]', 60.0)]
    assert state.at(130, lambda s: s.entries()) == [(60, 60)]


def test_a_bound_that_lags_behind_is_put_right(stand: Stand) -> None:
    """Of a spread map the oldest entry is written anew: the index finds that out when it is due."""
    state = driver(stand, "map", "spread")
    for ms in (0, 30, 60):
        state.at(ms, lambda s, ms=ms: s.put(ms, ms))
    state.at(90, lambda s: s.put(0, 0))
    assert due(state) == [(b'["k"]', 0.0)]

    assert state.clean(100) == 0

    assert due(state) == [(b'["k"]', 30.0)]
    assert state.clean(130) == 1
    assert state.at(130, lambda s: s.keys()) == [0, 60]


@BOTH
def test_what_an_epoch_refreshed_stays(stand: Stand, layout: str) -> None:
    state = driver(stand, "map", layout)
    state.at(0, lambda s: s.put_all({1: 1, 2: 2}))
    session = state.session(100)
    handle = state.handle(session)
    session.set_key(JSON.encode(["k"]), 0)
    run_now(handle.put(1, 9), session)

    session.clean_up((0,))
    state.sessions.end(session)

    assert session.statistics().cleaned == 1
    assert state.at(101, lambda s: s.entries()) == [(1, 9)]
    assert due(state) == [(b'["k"]', 100.0)]


@KINDS
def test_the_background_is_bounded_and_takes_the_oldest_first(stand: Stand, kind: str) -> None:
    state = driver(stand, kind, "packed", cleanup=Cleanup(background_keys_max=4))
    for ms in range(10):
        state.at(ms, FILL[kind], key=f"k{ms}")
    elements = ELEMENTS[kind]

    assert [state.clean(500) for _ in range(4)] == [4 * elements, 4 * elements, 2 * elements, 0]
    assert state.names() == []


def test_a_huge_key_is_cleaned_in_bounded_steps(stand: Stand) -> None:
    state = driver(stand, "list", "spread", cleanup=Cleanup(background_keys_max=100))
    state.at(0, lambda s: s.add_all(range(250)))
    state.at(50, lambda s: s.add(250))

    assert [state.clean(120) for _ in range(4)] == [100, 100, 50, 0]
    assert due(state) == [(b'["k"]', 50.0)]
    assert state.at(120, lambda s: s.get()) == [250]


@pytest.mark.parametrize(("bound", "a_key"), [(1_000, 250), (400, 100), (100, 64)])
def test_due_keys_share_the_bound_of_what_goes_in_an_epoch(
    stand: Stand, bound: int, a_key: int
) -> None:
    """But of each goes what a packed one may have, else many keys would never be done."""
    state = driver(stand, "list", "spread", cleanup=Cleanup(background_keys_max=bound))
    for n in range(4):
        state.at(0, lambda s: s.add_all(range(250)), key=f"k{n}")

    assert state.clean(120) == 4 * a_key


def test_cleaning_a_spread_key_does_not_look_at_what_lives(stand: Stand) -> None:
    state = driver(stand, "map", "spread")
    state.at(0, lambda s: s.put_all({n: n for n in range(5)}))
    state.at(50, lambda s: s.put_all({n: n for n in range(5, 1000)}))

    assert state.clean(120) == 5

    # What is due, the header, then the oldest 1001 stamps at most, and how many there are; one
    # row and one stamp for each removal, header and index.
    assert (state.cost.round_trips, state.cost.commands) == (4, 6)
    assert state.cost.reads == 1 + 1 + 1000 + 1
    assert state.cost.writes == 2 * 5 + 2


def test_what_is_not_due_costs_one_look(stand: Stand) -> None:
    state = driver(stand, "value", "packed")
    state.at(0, FILL["value"])

    assert state.clean(99) == 0

    assert (state.cost.round_trips, state.cost.commands, state.cost.reads) == (1, 2, 0)


@KINDS
@BOTH
@pytest.mark.parametrize("key_groups", [(), (0,)])
def test_what_is_due_may_come_with_what_is_prefetched(
    stand: Stand, kind: str, layout: str, key_groups: tuple[int, ...]
) -> None:
    """What the epoch has written again lives, and is not due any more."""
    state = driver(stand, kind, layout)
    for at_ms, key in ((0, "old"), (0, "again"), (50, "young")):
        state.at(at_ms, FILL[kind], key=key)
    session = state.session(120)
    handle = state.handle(session)
    again = JSON.encode(["again"])
    session.prefetch([(state.descriptor, [(again, 0)])], key_groups=key_groups)
    session.set_key(again, 0)
    run_now(handle.clear(), session)
    run_now(FILL[kind](handle), session)

    session.clean_up((0,))
    state.sessions.end(session)

    assert session.statistics().cleaned == ELEMENTS[kind]
    assert due(state) == [(b'["young"]', 50.0), (b'["again"]', 120.0)]
    assert [state.clean(ms) for ms in (149, 150, 219, 220)] == [0, ELEMENTS[kind]] * 2
    assert state.names() == []


@pytest.mark.parametrize(("key_groups", "round_trips"), [((), 2), ((0,), 1)])
def test_what_is_asked_for_ahead_costs_no_round_trip(
    stand: Stand, key_groups: tuple[int, ...], round_trips: int
) -> None:
    state = driver(stand, "value", "packed")
    state.at(0, FILL["value"])
    session = state.session(99)
    state.handle(session)

    session.prefetch([(state.descriptor, [(b'["k"]', 0)])], key_groups=key_groups)
    session.prefetch([(state.descriptor, [(b'["k"]', 0)])], key_groups=key_groups)
    session.clean_up((0,))

    told = session.statistics().transaction
    assert (told.round_trips, told.commands) == (round_trips, 3)


def test_only_what_is_known_before_the_first_record_is_asked_for_ahead(stand: Stand) -> None:
    cleanup = Cleanup(incremental_entries=2, background=False)
    state = driver(stand, "value", "packed", cleanup=cleanup)
    for n in range(5):
        state.at(0, FILL["value"], key=f"k{n}")
    session = state.session(200)
    handle = state.handle(session)
    session.prefetch([(state.descriptor, [(b'["other"]', 0)])], key_groups=(0,))
    session.set_key(b'["other"]', 0)
    run_now(handle.value(), session)

    session.clean_up((0,))

    assert session.statistics().cleaned == 2


def test_a_clock_that_is_set_asks_again_for_what_is_due(stand: Stand) -> None:
    state = driver(stand, "value", "packed")
    state.at(0, FILL["value"])
    session = state.session(99)
    state.handle(session)
    session.prefetch([], key_groups=(0,))
    session.clock = TtlClock(100)

    session.clean_up((0,))

    assert session.statistics().cleaned == 1


def test_incremental_clean_up_is_paid_for_by_accesses(stand: Stand) -> None:
    cleanup = Cleanup(incremental_entries=2, background=False)
    state = driver(stand, "value", "packed", cleanup=cleanup)
    for ms in range(10):
        state.at(ms, FILL["value"], key=f"k{ms}")

    def access(times: int) -> int:
        session = state.session(500)
        handle = state.handle(session)
        for n in range(times):
            session.set_key(JSON.encode([f"other{n}"]), 0)
            run_now(handle.value(), session)
        session.clean_up((0,))
        state.sessions.end(session)
        return session.statistics().cleaned

    assert [access(0), access(1), access(3), access(9)] == [0, 2, 6, 2]
    assert state.names() == []


def paid_for(state: Driver, records: list[int], accesses: list[int]) -> int:
    """What an epoch removes, which makes keys of these groups current, and accesses in these."""
    session = state.session(500)
    handle = state.handle(session)
    for key_group in records:
        session.set_key(b"[-1]", key_group)
    for key_group in accesses:
        session.stored_key, session.key_group = b"[-2]", key_group
        run_now(handle.clear(), session)
    session.clean_up(state.sessions.key_groups)
    state.sessions.end(session)
    return session.statistics().cleaned


@pytest.mark.parametrize(
    ("on_record", "records", "accesses", "cleaned"),
    [
        (True, [], [], 0),
        (True, [0], [], 3),
        (True, [0, 0, 1], [], 9),
        (True, [], [0], 3),
        (True, [0], [0], 6),
        (True, [2, 2, 2, 2], [], 10),
        (True, [0, 1, 2] * 4, [0, 1, 2] * 4, 30),
        (False, [0, 1, 2], [], 0),
        (False, [0], [0], 3),
        (False, [1], [0, 0], 6),
        (False, [], [0, 1, 1], 9),
    ],
)
def test_a_record_or_an_access_pays_for_so_many_keys_of_its_key_group(
    stand: Stand, on_record: bool, records: list[int], accesses: list[int], cleaned: int
) -> None:
    """Three a time, of ten that are due in each of three key groups."""
    cleanup = Cleanup(3, incremental_on_record=on_record, background=False)
    state = Driver(stand, descriptor("map", TtlConfig(100, cleanup=cleanup)), LAYOUTS["packed"])
    state.sessions.key_groups = (0, 1, 2)
    session = state.session(0)
    handle = state.handle(session)
    for each in range(30):
        session.set_key(b"[%d]" % each, each % 3)
        run_now(handle.put(1, 1), session)
    state.sessions.end(session)

    assert paid_for(state, records, accesses) == cleaned


@pytest.mark.parametrize("kind", FILL)
def test_every_kind_is_cleaned_by_records_alone(stand: Stand, kind: str) -> None:
    """An epoch of records that access another state, or none, still pays; until nothing is left."""
    cleanup = Cleanup(1, incremental_on_record=True, background=False)
    state = driver(stand, kind, "packed", cleanup=cleanup)
    for each in range(3):
        state.at(0, FILL[kind], key=f"k{each}")
    elements = ELEMENTS[kind]

    removed = [paid_for(state, [0] * each, []) // elements for each in (0, 1, 2)]

    assert removed == [0, 1, 2]
    assert state.names() == []


def test_the_background_and_what_is_paid_for_add_up(stand: Stand) -> None:
    cleanup = Cleanup(2, incremental_on_record=True, background_keys_max=4)
    state = driver(stand, "value", "packed", cleanup=cleanup)
    for each in range(20):
        state.at(0, FILL["value"], key=f"k{each}")

    def epoch(records: int) -> int:
        session = state.session(500)
        state.handle(session)
        for _ in range(records):
            session.set_key(b"[-1]", 0)
        session.clean_up((0,))
        state.sessions.end(session)
        return session.statistics().cleaned

    assert [epoch(0), epoch(3), epoch(1)] == [4, 4 + 6, 4 + 2]
    assert state.names() == []


def test_without_background_only_an_access_cleans(stand: Stand) -> None:
    state = driver(stand, "value", "packed", cleanup=Cleanup(background=False))
    state.at(0, FILL["value"])

    assert state.clean(500) == 0
    assert state.at(500, lambda s: s.value()) is None
    assert state.names() == []


@BOTH
@KINDS
def test_by_timer_leaves_nothing_that_is_due(stand: Stand, kind: str, layout: str) -> None:
    cleanup = Cleanup(background_keys_max=1, by_timer=True)
    state = driver(stand, kind, layout, cleanup=cleanup)
    for ms in range(10):
        state.at(ms, FILL[kind], key=f"k{ms}")

    state.clean(109)

    assert state.names() == []


def test_every_key_group_and_state_is_cleaned_in_the_same_round_trips(stand: Stand) -> None:
    state = driver(stand, "value", "packed")
    state.sessions.key_groups = (0, 1, 2)
    other = descriptor("map", TtlConfig(50), "other")
    session = state.session(0)
    for key_group in range(3):
        for handle in (state.handle(session), session.map(other)):
            session.set_key(b"[%d]" % key_group, key_group)
            run_now(FILL[handle.descriptor.kind](handle), session)
    state.sessions.end(session)

    session = state.session(100)
    state.handle(session), session.map(other)
    session.clean_up((0, 1, 2))
    state.sessions.end(session)

    assert session.statistics().cleaned == 3 * (1 + 3)
    assert state.cost.round_trips == 3
    assert state.names() == []


@pytest.mark.parametrize(
    ("time", "early", "late"),
    [
        (TimeCharacteristic.EVENT_BY_WATERMARK, TtlClock(9000, 119), TtlClock(9000, 120)),
        (TimeCharacteristic.EVENT_BY_PROCESSING, TtlClock(119, 9000), TtlClock(120, 9000)),
    ],
)
def test_event_time_expires_by_the_record(
    stand: Stand, time: TimeCharacteristic, early: TtlClock, late: TtlClock
) -> None:
    state = driver(stand, "value", "packed", time=time)
    session = state.sessions.begin(TtlClock(50, 10))
    session.set_key(b'["k"]', 0, event_ms=20)
    run_now(state.handle(session).update(1), session)
    state.sessions.end(session)
    assert state.sessions.fetch(HashScan(0, b"state")) == [{b'["k"]': b"@20 1"}]

    def look(clock: TtlClock) -> tuple[Any, int]:
        session = state.sessions.begin(clock)
        handle = state.handle(session)
        session.set_key(b'["k"]', 0)
        value = run_now(handle.value(), session)
        session.clean_up((0,))
        state.sessions.transaction.fetch([])
        return value, len(session.writes())

    assert look(early) == (1, 0)
    assert look(late) == (None, 1)
