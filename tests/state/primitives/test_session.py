"""The session: one cache, few round trips, no lost writes."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from state.backends.interface import HashGet, HashLength, SortedScores
from state.descriptors import JSON, MapDescriptor, ValueDescriptor
from state.errors import InvalidName
from state.execution.requests import wait_for
from state.execution.sync import run_now, run_together
from state.primitives.session import StateSession, stored_key
from state.testing.sessions import PACKED, SPREAD, SessionStand
from state.testing.stand import heap_stand
from state.ttl import TtlClock, TtlConfig

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from state.backends.interface import Read
    from state.execution.requests import Request
    from state.testing.stand import Stand

COUNTS = ValueDescriptor(name="counts", codec=JSON)
NAMES = MapDescriptor(name="names", key_codec=JSON, codec=JSON, ttl=TtlConfig(100))
K = b'["k"]'


async def count(handle: Any) -> int:
    held = (await handle.value()) or 0
    await handle.update(held + 1)
    return held


class Reading:
    """A request that keeps its replies."""

    def __init__(self, *reads: Read) -> None:
        self.reads = reads
        self.replies: Any = None

    def take(self, replies: Any) -> None:
        self.replies = replies


def test_requests_share_a_round_trip_and_each_gets_its_replies(stand: Stand) -> None:
    sessions = SessionStand(stand)
    session = sessions.begin(TtlClock(0))
    counts = session.value(COUNTS)
    for n in range(3):
        session.set_key(b"[%d]" % n, 0)
        run_now(counts.update(n), session)
    sessions.end(session)
    session = sessions.begin(TtlClock(1))
    requests = [
        Reading(HashGet(0, b"counts", [b"[2]", b"[0]"]), HashLength(0, b"counts")),
        Reading(),
        Reading(SortedScores(0, b"none", [b"x"]), HashGet(0, b"counts", [b"[1]"])),
        Reading(HashGet(0, b"other", [b"[1]"])),
    ]

    session.execute(requests)

    assert [each.replies for each in requests] == [
        [[b"2", b"0"], 3],
        [],
        [[None], [b"1"]],
        [[None]],
    ]
    cost = sessions.transaction.statistics()
    # Begin, two HMGET, a HLEN, a ZMSCORE: the fields of one hash share a command.
    assert (cost.round_trips, cost.commands) == (1, 5)


def test_prefetching_leaves_nothing_to_ask_for(stand: Stand) -> None:
    sessions = SessionStand(stand)
    session = sessions.begin(TtlClock(0))
    counts, names = session.value(COUNTS), session.map(NAMES)

    session.prefetch([(COUNTS, [(K, 0), (b"[2]", 0)]), (NAMES, [(K, 0)])])
    session.set_key(K, 0)
    run_now(count(counts), session)
    run_now(names.put("a", 1), session)

    assert session.statistics().requests == 3
    assert session.statistics().transaction.round_trips == 1


def test_a_reply_that_comes_late_does_not_undo_a_write(stand: Stand) -> None:
    """A prefetch may be in flight for a cell that an operation has overwritten meanwhile."""
    sessions = SessionStand(stand)
    session = sessions.begin(TtlClock(0))
    session.set_key(K, 0)
    run_now(session.value(COUNTS).update(1), session)
    sessions.end(session)

    session = sessions.begin(TtlClock(1))
    counts = session.value(COUNTS)
    session.set_key(K, 0)
    cell = counts.cell()
    run_now(counts.update(2), session)
    cell.take([[b"1"]])

    assert run_now(counts.value(), session) == 2


@pytest.mark.parametrize("thresholds", [PACKED, SPREAD])
def test_two_requests_for_one_key_lose_no_write(stand: Stand, thresholds: Any) -> None:
    sessions = SessionStand(stand, thresholds=thresholds)
    session = sessions.begin(TtlClock(0))
    session.set_key(K, 0)
    run_now(session.map(NAMES).put_all({"a": 0, "b": 0}), session)
    sessions.end(session)

    session = sessions.begin(TtlClock(1))
    names = session.map(NAMES)
    session.set_key(K, 0)
    run_together([names.put("a", 1), names.put("b", 2), names.put("c", 3)], session)
    sessions.end(session)

    session = sessions.begin(TtlClock(2))
    session.set_key(K, 0)
    assert run_now(session.map(NAMES).entries(), session) == [("a", 1), ("b", 2), ("c", 3)]


def test_coroutines_of_many_keys_share_each_step(stand: Stand) -> None:
    sessions = SessionStand(stand)
    session = sessions.begin(TtlClock(0))
    counts = session.value(COUNTS)
    started: list[tuple[Any, Any]] = []
    for n in range(10):
        session.set_key(b"[%d]" % n, 0)
        coroutine = count(counts)
        started.append((session.context, coroutine))

    requests = []
    for context, coroutine in started:
        session.context = context
        requests.append(coroutine.send(None))
    session.execute(requests)
    for context, coroutine in started:
        session.context = context
        with pytest.raises(StopIteration):
            coroutine.send(None)
    sessions.end(session)

    assert sessions.transaction.statistics().round_trips == 2
    session = sessions.begin(TtlClock(0))
    counts = session.value(COUNTS)
    session.prefetch([(COUNTS, [(b"[%d]" % n, 0) for n in range(10)])])
    for n in range(10):
        session.set_key(b"[%d]" % n, 0)
        assert run_now(counts.value(), session) == 1


def test_a_local_backend_never_suspends() -> None:
    sessions = SessionStand(heap_stand(), thresholds=SPREAD, is_local=True)
    for ms in range(3):
        session = sessions.begin(TtlClock(ms))
        names = session.map(NAMES)
        session.set_key(K, 0)
        operation: Coroutine[Request, None, Any]
        for operation in (names.put(ms, ms), names.get(0), names.entries(), names.remove(7)):
            with pytest.raises(StopIteration):
                operation.send(None)
        sessions.end(session)


def test_namespaces_of_a_key_are_apart(stand: Stand) -> None:
    sessions = SessionStand(stand)
    session = sessions.begin(TtlClock(0))
    counts = session.value(COUNTS)
    session.set_key(K, 0)
    run_now(counts.update("none"), session)
    session.set_namespace(b"[1]")
    run_now(counts.update("one"), session)
    context = session.context
    session.set_key(b"[9]", 0)
    session.context = context

    assert run_now(counts.value(), session) == "one"
    session.set_namespace(b"")
    assert run_now(counts.value(), session) == "none"
    sessions.end(session)
    assert sessions.fetch(HashGet(0, b"counts", [K, stored_key(K, b"[1]")])) == [
        [b'"none"', b'"one"']
    ]


def test_one_name_is_one_state() -> None:
    session = SessionStand(heap_stand()).begin(TtlClock(0))

    assert session.value(COUNTS) is session.value(COUNTS)
    with pytest.raises(InvalidName, match="two different states"):
        session.map(MapDescriptor(name="counts", key_codec=JSON, codec=JSON))
    with pytest.raises(InvalidName, match="two different states"):
        session.value(ValueDescriptor(name="counts", codec=JSON, ttl=TtlConfig(5)))


def test_writes_do_not_depend_on_the_order_of_access() -> None:
    def writes(keys: list[bytes]) -> Any:
        session = SessionStand(heap_stand()).begin(TtlClock(0))
        names = session.map(NAMES)
        for key in keys:
            session.set_key(key, 0)
            run_now(names.put_all({"b": 1, "a": 2}), session)
        return session.writes()

    keys = [b"[%d]" % n for n in range(5)]
    assert writes(keys) == writes(keys[::-1])


def test_an_error_closes_what_was_running() -> None:
    session: StateSession = SessionStand(heap_stand()).begin(TtlClock(0))
    closed = []

    async def waits() -> None:
        try:
            await wait_for(Reading())
        finally:
            closed.append(True)

    async def fails() -> None:
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        run_together([waits(), fails()], session)
    assert closed == [True]


def test_a_closed_session_leaves_nothing_to_the_collector_of_garbage(stand: Stand) -> None:
    sessions = SessionStand(stand)
    session = sessions.begin(TtlClock(0))
    counts = session.value(COUNTS)
    session.set_key(K, 0)
    run_now(count(counts), session)
    sessions.end(session)
    gone = weakref.ref(session)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        session.close()
        del session, counts

        assert gone() is None
    finally:
        if was_enabled:
            gc.enable()
