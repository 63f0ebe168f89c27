"""The expiry index: written when a key comes and goes, set right when it is due, never too late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import HashPut, SortedPut, SortedRange
from state.descriptors import JSON
from state.execution.sync import run_now
from state.testing.sessions import LAYOUTS
from state.ttl import TIME_MAX, Cleanup, TimeCharacteristic, TtlClock, TtlConfig, Visibility
from tests.state.primitives.driver import Driver, Operation, descriptor

if TYPE_CHECKING:
    from state.testing.stand import Stand

PUT: dict[str, Operation] = {
    "value": lambda s: s.update(1),
    "reducing": lambda s: s.add(1),
    "list": lambda s: s.update([1]),
    "map": lambda s: s.put(1, 1),
}
READ: dict[str, Operation] = {
    "value": lambda s: s.value(),
    "reducing": lambda s: s.get(),
    "list": lambda s: s.get(),
    "map": lambda s: s.get(1),
}
READ_ALL: dict[str, Operation] = {"list": lambda s: s.get(), "map": lambda s: s.entries()}
TODAY_MS = 1_767_225_600_000
KINDS = pytest.mark.parametrize("kind", PUT)
BEGINNINGS = pytest.mark.parametrize("begin_ms", [0, TODAY_MS], ids=["small", "today"])


def driver(stand: Stand, kind: str, layout: str = "packed", **ttl: Any) -> Driver:
    return Driver(stand, descriptor(kind, TtlConfig(100, **ttl)), LAYOUTS[layout])


def index(state: Driver) -> dict[bytes, float]:
    (scores,) = state.sessions.fetch(SortedRange(0, b"state:expiry", -1, 10**15))
    return dict(scores)


@BEGINNINGS
@KINDS
def test_what_is_written_again_stays_in_the_index_until_it_is_due(
    stand: Stand, kind: str, begin_ms: int
) -> None:
    state = driver(stand, kind)
    state.at(begin_ms, PUT[kind])

    state.together(begin_ms + 60, READ[kind], PUT[kind])
    assert index(state) == {b'["k"]': begin_ms}
    assert state.clean(begin_ms + 99) == 0
    assert index(state) == {b'["k"]': begin_ms}

    assert state.clean(begin_ms + 100) == 0
    assert index(state) == {b'["k"]': begin_ms + 60}
    assert state.clean(begin_ms + 160) == 1
    assert state.names() == []


@BEGINNINGS
@pytest.mark.parametrize("kind", ["list", "map"])
def test_a_spread_key_that_is_due_and_was_read_whole_stays_in_the_index(
    stand: Stand, kind: str, begin_ms: int
) -> None:
    state = driver(stand, kind, "spread")
    for ms in (0, 60):
        state.at(begin_ms + ms, READ_ALL[kind])
        state.at(begin_ms + ms, PUT[kind])
    session = state.session(begin_ms + 100)
    session.set_key(b'["k"]', 0)
    run_now(READ_ALL[kind](state.handle(session)), session)

    session.clean_up((0,))
    state.sessions.end(session)

    assert index(state) == {b'["k"]': begin_ms + 60}
    assert state.clean(begin_ms + 160) == 1
    assert state.names() == []


@BEGINNINGS
@KINDS
def test_an_older_stamp_moves_the_index_back(stand: Stand, kind: str, begin_ms: int) -> None:
    """In event time a later record may be an older one."""
    state = driver(stand, kind, time=TimeCharacteristic.EVENT_BY_PROCESSING)

    def put(event_ms: int) -> None:
        session = state.session(begin_ms + 90)
        session.set_key(b'["k"]', 0, event_ms=begin_ms + event_ms)
        handle = state.handle(session)
        run_now(READ[kind](handle), session)
        run_now(PUT[kind](handle), session)
        state.sessions.end(session)

    put(50)
    put(20)

    assert index(state) == {b'["k"]': begin_ms + 20}
    assert state.clean(begin_ms + 119) == 0
    assert state.clean(begin_ms + 120) == 1
    assert state.names() == []


@BEGINNINGS
@KINDS
def test_a_clock_that_went_back_expires_nothing_too_late(
    stand: Stand, kind: str, begin_ms: int
) -> None:
    state = driver(stand, kind)
    state.at(begin_ms + 50, PUT[kind])

    state.together(begin_ms + 20, READ[kind], PUT[kind])

    assert index(state) == {b'["k"]': begin_ms + 20}
    assert state.clean(begin_ms + 120) == 1
    assert state.names() == []


@BEGINNINGS
@pytest.mark.parametrize("kind", ["value", "map", "list"])
@pytest.mark.parametrize("visibility", Visibility)
def test_an_access_after_the_clean_up_finds_what_it_left(
    stand: Stand, kind: str, visibility: Visibility, begin_ms: int
) -> None:
    """Clean-up settles most keys by their stored text; a cell that is made then must know it."""
    state = driver(stand, kind, visibility=visibility)
    for key in ("gone", "again", "live"):
        state.at(begin_ms, PUT[kind], key=key)
    state.together(begin_ms + 60, READ[kind], PUT[kind], key="live")
    session = state.session(begin_ms + 100)
    handle = state.handle(session)

    session.clean_up((0,))
    session.clean_up((0,))
    found = []
    for key in ("gone", "again", "live"):
        session.set_key(JSON.encode([key]), 0)
        found.append(run_now(READ[kind](handle), session))
    session.set_key(b'["again"]', 0)
    run_now(PUT[kind](handle), session)
    state.sessions.end(session)

    assert session.statistics().cleaned == 2
    assert found == [None, None, [1] if kind == "list" else 1]
    assert index(state) == {b'["again"]': begin_ms + 100, b'["live"]': begin_ms + 60}
    assert state.clean(begin_ms + 200) == 2
    assert state.names() == []


@pytest.mark.parametrize("kind", ["value", "map"])
@pytest.mark.parametrize("bound", [20, 30, 40, 100])
def test_many_keys_of_one_stamp_leave_by_the_bound(stand: Stand, kind: str, bound: int) -> None:
    """The index is cut off by score; where the bound cuts through a score, key by key."""
    state = driver(stand, kind, cleanup=Cleanup(background_keys_max=bound))
    for ms in (0, 1, 2):
        session = state.session(TODAY_MS + ms)
        for n in range(30):
            session.set_key(b"[%d,%d]" % (ms, n), 0)
            run_now(PUT[kind](state.handle(session)), session)
        state.sessions.end(session)
    live = {b"[0,7]", b"[1,8]"}
    for key in live:
        session = state.session(TODAY_MS + 50)
        session.set_key(key, 0)
        run_now(READ[kind](state.handle(session)), session)
        run_now(PUT[kind](state.handle(session)), session)
        state.sessions.end(session)

    cleaned = []
    while len(left := index(state)) > len(live):
        cleaned.append(state.clean(TODAY_MS + 120))
        assert len(left) - len(index(state)) == cleaned[-1] <= bound

    assert sum(cleaned) == 88
    assert index(state) == dict.fromkeys(live, TODAY_MS + 50.0)
    assert state.clean(TODAY_MS + 150) == 2
    assert state.names() == []


def test_all_leave_when_the_input_has_ended(stand: Stand) -> None:
    state = driver(stand, "value", time=TimeCharacteristic.EVENT_BY_WATERMARK)
    session = state.sessions.begin(TtlClock(TODAY_MS, TODAY_MS))
    for n in range(30):
        session.set_key(b"[%d]" % n, 0, event_ms=TODAY_MS)
        run_now(PUT["value"](state.handle(session)), session)
    state.sessions.end(session)

    session = state.sessions.begin(TtlClock(TODAY_MS, TIME_MAX))
    state.handle(session)
    session.clean_up((0,))
    state.sessions.end(session)

    assert session.statistics().cleaned == 30
    assert state.names() == []


def test_cutting_the_index_costs_one_write(stand: Stand) -> None:
    state = driver(stand, "value")
    session = state.session(TODAY_MS)
    for n in range(30):
        session.set_key(b"[%d]" % n, 0)
        run_now(PUT["value"](state.handle(session)), session)
    state.sessions.end(session)

    assert state.clean(TODAY_MS + 100) == 30

    # What is due and its texts; the fields, and one cut. Begin, a range, a HMGET, a commit.
    assert (state.cost.reads, state.cost.writes) == (30 + 30, 30 + 1)
    assert (state.cost.round_trips, state.cost.commands) == (3, 4)


def test_what_the_index_has_of_no_key_leaves_it(stand: Stand) -> None:
    state = driver(stand, "value")
    state.store(SortedPut(b"state:expiry", [0, b'["nothing"]']))

    assert state.clean(100) == 0

    assert state.names() == []


@pytest.mark.parametrize("head", [b"@1767225600 ", b"@17672256000000 ", b"@-176722560000 "])
def test_stamps_of_other_lengths_are_judged_as_numbers(stand: Stand, head: bytes) -> None:
    state = driver(stand, "value")
    state.store(HashPut(b"state", [b'["k"]', head + b"1"]))
    session = state.sessions.begin(TtlClock(TODAY_MS))
    session.set_key(b'["k"]', 0)

    value = run_now(state.handle(session).value(), session)

    assert value == (1 if int(head[1:]) + 100 > TODAY_MS else None)


@pytest.mark.parametrize("kind", ["value", "map"])
def test_a_space_in_a_value_ends_no_stamp(stand: Stand, kind: str) -> None:
    """A stamp of eleven digits, and a space where one of thirteen would end."""
    state = driver(stand, kind)
    element = b'@86400000000 " 1"'
    text = element if kind == "value" else b"packed\t1\t0\n1\t" + element
    state.store(HashPut(b"state", [b'["k"]', text]))

    assert state.at(TODAY_MS, READ[kind]) is None


def test_what_is_older_than_1970_lives_until_its_time(stand: Stand) -> None:
    """A minus sign is below all digits, and a stamp with one may be as long as those of today."""
    state = driver(stand, "value", time=TimeCharacteristic.EVENT_BY_WATERMARK)
    for event_ms in (-300_000_000_000, -123_456_789_012):
        session = state.sessions.begin(TtlClock(TODAY_MS, -400_000_000_000))
        session.set_key(b'["k"]', 0, event_ms=event_ms)
        run_now(PUT["value"](state.handle(session)), session)
        state.sessions.end(session)

    def clean(watermark_ms: int) -> int:
        session = state.sessions.begin(TtlClock(TODAY_MS, watermark_ms))
        state.handle(session)
        session.clean_up((0,))
        state.sessions.end(session)
        return session.statistics().cleaned

    assert clean(-250_000_000_000) == 0
    assert clean(-123_456_788_913) == 0
    assert clean(-123_456_788_912) == 1
    assert state.names() == []
