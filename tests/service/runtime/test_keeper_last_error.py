"""The last error of a pipeline outlives its restarts, until it is well again or started anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.runtime.gateway import QueryLook, QueryState
from service.runtime.records import Failure
from service.runtime.spark_errors import QueryError
from tests.service.runtime.rig import LIMITS, Rig, in_rig

if TYPE_CHECKING:
    from tests.service.runtime.fakes import ManualClock

FULL = QueryError("query.failed", "no room", "ENOSPC")


def last_error(rig: Rig) -> Failure | None:
    return rig.registry.get("p").failure


async def failed_and_again(rig: Rig, error: QueryError = FULL, waiters: int = 1) -> int:
    """Let the query end by an error and the next one run; when it ended."""
    (alive,) = rig.queries.alive
    rig.queries.looks[alive] = QueryLook(QueryState.ENDED, error)
    await rig.look()
    await rig.clock.parked(waiters)
    at_ms = rig.clock.ms
    await rig.clock.advance(LIMITS.backoff_max_ms)
    await rig.clock.parked(waiters)
    await rig.look()
    await rig.clock.parked(waiters)
    assert (rig.status.state, rig.error_code) == ("RUNNING", None)
    return at_ms


async def pass_time(clock: ManualClock) -> None:
    await clock.advance(LIMITS.reset_ms)


@in_rig
async def test_a_loop_of_restarts_does_not_look_healthy_in_between(rig: Rig) -> None:
    await rig.running()
    assert last_error(rig) is None

    for count in (1, 2):
        at_ms = await failed_and_again(rig)

        told = Failure("query.failed", "no room", at_ms, False, "ENOSPC", count)
        assert last_error(rig) == told
        assert rig.status.failures == count


@in_rig
async def test_it_is_kept_while_nothing_is_closed_however_long_the_query_runs(rig: Rig) -> None:
    await rig.running()
    await failed_and_again(rig)

    await pass_time(rig.clock)
    await pass_time(rig.clock)

    assert last_error(rig) is not None
    await failed_and_again(rig)
    assert rig.status.failures == 2


@in_rig
async def test_it_is_forgotten_once_epochs_have_closed_for_a_while(rig: Rig) -> None:
    rig.ledgers.epochs["p"] = 4
    await rig.running()
    await rig.look()
    await failed_and_again(rig)
    rig.ledgers.epochs["p"] = 5
    await rig.look()
    assert last_error(rig) is not None, "one epoch is no recovery"

    await pass_time(rig.clock)

    assert last_error(rig) is None
    assert rig.status.failures == 0


@in_rig
async def test_another_service_tells_it_and_counts_on(rig: Rig) -> None:
    await rig.running()
    await failed_and_again(rig)
    before = last_error(rig)

    await rig.replace_service()
    await rig.look()
    await rig.clock.parked(2)

    assert rig.status.state == "RUNNING"
    assert last_error(rig) == before
    assert rig.status.failures == 1
    await failed_and_again(rig, waiters=2)
    assert rig.status.failures == 2


@in_rig
async def test_a_sink_that_is_waited_for_is_told_too(rig: Rig) -> None:
    await rig.running()

    await failed_and_again(rig, QueryError("sink-unavailable", "no room", "ENOSPC"))
    at_ms = await failed_and_again(rig, QueryError("sink-unavailable", "no room", "ENOSPC"))

    told = Failure("sink-unavailable", "no room", at_ms, False, "ENOSPC", 2)
    assert last_error(rig) == told
    assert rig.status.restarts == 0, "waits have no limit"


@in_rig
async def test_a_stop_keeps_it_and_a_start_begins_anew(rig: Rig) -> None:
    await rig.running()
    rig.query_ends("state-lost")
    await rig.look()
    kept = last_error(rig)
    assert kept is not None
    assert kept.permanent

    await rig.order("STOPPED")
    assert rig.status.state == "STOPPED"
    stopped = last_error(rig)
    assert stopped is not None
    assert (stopped.code, stopped.at_ms, stopped.permanent) == ("state-lost", kept.at_ms, False)

    await rig.replace_service()
    assert rig.status.state == "STOPPED", "it is in nobody's way"
    await rig.order("RUNNING")
    await rig.clock.parked(2)
    assert (rig.status.state, rig.status.failures) == ("RUNNING", 0)
    assert last_error(rig) is None


@in_rig
async def test_an_error_of_our_own_is_told_by_its_class(rig: Rig) -> None:
    rig.registry.create("p", {"nodes": []})
    rig.queries.start_error = ZeroDivisionError("secret 7")
    await rig.order("RUNNING")

    told = last_error(rig)
    assert told is not None
    assert (told.code, told.cause) == ("internal", "ZeroDivisionError")
    assert "secret" not in told.message
