"""What a keeper does, and says, while Spark or Redis is away."""

from __future__ import annotations

import asyncio

from service.runtime.errors import QueryStillRunning
from service.runtime.records import SavepointOrder
from service.runtime.status import Neighbour, StatusError, Waiting
from state.errors import StateUnavailable
from tests.service.runtime.rig import LIMITS, PLAN, Rig, in_rig


@in_rig
async def test_silent_spark_is_waited_for_without_a_limit(rig: Rig) -> None:
    await rig.running()
    rig.queries.away = True

    await rig.look()
    for _ in range(20):
        await rig.clock.advance(LIMITS.backoff_max_ms)
    assert (rig.status.state, rig.error_code) == ("RESTARTING", "spark.unavailable")

    rig.queries.away = False
    await rig.clock.advance(LIMITS.backoff_max_ms)
    assert (rig.status.state, rig.status.restarts, rig.status.run) == ("RUNNING", 0, 1)
    assert rig.queries.started_count == 1


@in_rig
async def test_a_start_without_spark_says_what_it_waits_for_and_since_when(rig: Rig) -> None:
    rig.queries.away = True
    rig.registry.create("p", PLAN)

    await rig.order("RUNNING")
    since = rig.clock.ms
    for _ in range(3):
        await rig.clock.advance(LIMITS.backoff_max_ms)

    assert rig.status.state == "RESTARTING"
    assert rig.status.waiting == Waiting(Neighbour.SPARK, since)
    assert rig.status.since_ms == since
    assert rig.status.error == StatusError("spark.unavailable", "Spark Connect does not answer")
    rig.queries.away = False
    await rig.clock.advance(LIMITS.backoff_max_ms)
    assert (rig.status.state, rig.status.waiting, rig.status.error) == ("RUNNING", None, None)


@in_rig
async def test_a_spark_that_is_silent_is_told_before_it_is_given_up(rig: Rig) -> None:
    rig.queries.holds = asyncio.Event()
    rig.registry.create("p", PLAN)
    rig.registry.update("p", desired="RUNNING")

    rig.supervisor.wake("p")
    await rig.queries.asked.wait()

    assert rig.status.state == "STARTING"
    assert rig.status.waiting == Waiting(Neighbour.SPARK, rig.clock.ms)
    rig.queries.holds.set()
    await rig.settle()
    assert (rig.status.state, rig.status.waiting) == ("RUNNING", None)


@in_rig
async def test_what_is_waited_for_follows_who_is_away(rig: Rig) -> None:
    rig.registry.create("p", PLAN)
    rig.ledgers.error = StateUnavailable("Redis is away")
    await rig.order("RUNNING")
    first = rig.status.waiting
    rig.ledgers.error, rig.queries.away = None, True
    await rig.clock.advance(LIMITS.backoff_max_ms)

    assert first == Waiting(Neighbour.REDIS, rig.clock.ms - LIMITS.backoff_max_ms)
    assert rig.status.waiting == Waiting(Neighbour.SPARK, rig.clock.ms)
    assert rig.error_code == "spark.unavailable"


@in_rig
async def test_a_pipeline_that_is_not_to_run_does_not_restart_while_spark_is_away(rig: Rig) -> None:
    rig.queries.away = True
    rig.registry.create("p", PLAN)

    rig.supervisor.wake("p")
    await rig.settle()

    assert (rig.status.state, rig.error_code) == ("CREATED", "spark.unavailable")
    rig.queries.away = False
    await rig.clock.advance(LIMITS.backoff_max_ms)
    assert (rig.status.state, rig.status.waiting, rig.error_code) == ("STOPPED", None, None)


@in_rig
async def test_the_reason_of_a_failure_outlives_a_neighbour_that_is_away(rig: Rig) -> None:
    await rig.running()
    rig.query_ends("state-lost")
    await rig.look()
    assert (rig.status.state, rig.error_code) == ("FAILED", "state-lost")
    rig.savepoints.save_error = StateUnavailable("Redis is away")
    rig.registry.order_savepoint("p", SavepointOrder("s1", True, 0), stop=False)
    rig.supervisor.wake("p")
    await rig.settle()

    assert (rig.status.state, rig.error_code) == ("FAILED", "state-lost")
    assert rig.status.waiting == Waiting(Neighbour.REDIS, rig.clock.ms)


@in_rig
async def test_waits_for_a_silent_neighbour_grow(rig: Rig) -> None:
    rig.registry.create("p", PLAN)
    rig.ledgers.error = StateUnavailable("Redis is away")
    await rig.order("RUNNING")
    delays = []

    for _ in range(5):
        delays.append(rig.clock.remaining_ms())
        await rig.clock.advance(LIMITS.backoff_max_ms)

    assert delays == [500, 1_000, 2_000, 4_000, 4_000]
    rig.ledgers.error = None
    await rig.clock.advance(LIMITS.backoff_max_ms)
    assert rig.status.state == "RUNNING"


@in_rig
async def test_stop_waits_for_a_silent_spark(rig: Rig) -> None:
    await rig.running()
    rig.queries.away = True

    await rig.order("STOPPED")
    assert (rig.status.state, rig.error_code) == ("STOPPING", "spark.unavailable")

    rig.queries.away = False
    await rig.clock.advance(LIMITS.backoff_max_ms)
    assert (rig.status.state, rig.error_code) == ("STOPPED", None)
    assert rig.queries.alive == []


@in_rig
async def test_nothing_is_started_beside_a_query_that_does_not_end(rig: Rig) -> None:
    await rig.running()
    rig.queries.stop_error = QueryStillRunning("the query has not ended")

    await rig.restart()
    await rig.clock.advance(LIMITS.backoff_max_ms)

    assert (rig.status.state, rig.error_code) == ("STOPPING", "query.still-running")
    assert rig.queries.started_count == 1
    rig.queries.stop_error = None
    await rig.clock.advance(LIMITS.backoff_max_ms)
    assert (rig.status.state, rig.status.run) == ("RUNNING", 2)


@in_rig
async def test_unexpected_error_is_counted_and_shows_no_details(rig: Rig) -> None:
    rig.registry.create("p", PLAN)
    rig.queries.start_error = ZeroDivisionError("secret")

    await rig.order("RUNNING")

    assert (rig.status.state, rig.error_code) == ("RESTARTING", "internal")
    assert "secret" not in str(rig.status)
