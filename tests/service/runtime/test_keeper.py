"""The transitions of the table in `service.runtime.keeper`, by a clock moved by hand.

Redis is real; Spark, the dataflow and the ledger do as told. `Rig.settle` returns when the keeper
waits for time or an order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.runtime.launcher import package_version
from service.runtime.records import PipelineOptions, QueryHandle
from service.runtime.status import PERMANENT_CODES, StatusError
from service.settings import ExecutionSettings
from state.errors import FormatVersionMismatch, StateLost, StateUnavailable
from tests.service.runtime.rig import LIMITS, PLAN, Rig, in_rig

if TYPE_CHECKING:
    import redis


@in_rig
async def test_wanted_pipeline_is_started_in_a_new_run(rig: Rig) -> None:
    rig.registry.create("p", PLAN)

    await rig.order("RUNNING")

    assert (rig.status.state, rig.status.run, rig.status.query_id) == ("RUNNING", 1, "query-1")
    assert rig.registry.get("p").query == QueryHandle(
        session_id="session",
        query_id="query-1",
        run_id="run-1",
        run=1,
        version=package_version(),
    )


@in_rig
async def test_created_pipeline_that_is_not_wanted_stays_stopped(rig: Rig) -> None:
    rig.registry.create("p", PLAN)

    rig.supervisor.wake("p")
    await rig.settle()

    assert rig.status.state == "STOPPED"
    assert rig.queries.started_count == 0
    assert rig.clock.remaining_ms() is None


@in_rig
async def test_the_options_of_a_start_are_noted_and_outlive_its_query(rig: Rig) -> None:
    rig.registry.create("p", PLAN, options=PipelineOptions(default_ttl_ms=5))
    await rig.order("RUNNING")
    rig.registry.update("p", options=PipelineOptions(default_ttl_ms=9))
    await rig.order("STOPPED")

    held = rig.registry.get("p")

    assert held.query is None
    assert held.in_force(ExecutionSettings()).default_ttl_ms == 5
    await rig.order("RUNNING")
    assert rig.registry.get("p").in_force(ExecutionSettings()).default_ttl_ms == 9


@in_rig
async def test_a_query_whose_start_was_not_answered_is_ended_before_the_next_one(rig: Rig) -> None:
    rig.registry.create("p", PLAN)
    rig.queries.loses_reply = True
    await rig.order("RUNNING")
    assert rig.status.state == "RESTARTING"

    await rig.clock.advance(500)

    assert rig.status.state == "RUNNING"
    assert rig.queries.alive == ["query-2"]


@in_rig
async def test_a_query_whose_start_was_not_answered_does_not_outlive_a_stop(rig: Rig) -> None:
    rig.registry.create("p", PLAN)
    rig.queries.loses_reply = True
    await rig.order("RUNNING")

    await rig.order("STOPPED")

    assert rig.status.state == "STOPPED"
    assert rig.queries.alive == []


@in_rig
async def test_running_query_is_looked_at_and_its_epoch_shown(rig: Rig) -> None:
    await rig.running()
    rig.ledgers.epochs["p"] = 7

    await rig.look()

    assert (rig.status.state, rig.status.epoch) == ("RUNNING", 7)


@in_rig
async def test_unwanted_query_is_stopped(rig: Rig) -> None:
    await rig.running()

    await rig.order("STOPPED")

    assert rig.status.state == "STOPPED"
    assert rig.queries.alive == []
    assert rig.registry.get("p").query is None


@in_rig
async def test_restart_stops_the_query_before_the_next_one_starts(rig: Rig) -> None:
    await rig.running()
    rig.queries.log.clear()

    await rig.restart()

    assert rig.queries.log == ["stop query-1", "start p run 2"]
    assert (rig.status.state, rig.status.run, rig.status.restarts) == ("RUNNING", 2, 0)


@in_rig
async def test_orders_for_what_is_so_already_change_nothing(rig: Rig) -> None:
    await rig.running()

    await rig.order("RUNNING")
    await rig.order("RUNNING")

    assert rig.queries.started_count == 1


@in_rig
async def test_changed_options_wait_for_the_next_start(rig: Rig) -> None:
    await rig.running()

    rig.registry.update("p", options=PipelineOptions(tick_interval_ms=5))
    await rig.look()

    assert (rig.status.state, rig.queries.started_count) == ("RUNNING", 1)


@in_rig
async def test_failed_query_is_started_again_after_a_delay(rig: Rig) -> None:
    await rig.running()
    rig.query_ends("state-incarnation-changed")

    await rig.look()

    assert (rig.status.state, rig.status.restarts) == ("RESTARTING", 1)
    assert rig.error_code == "state-incarnation-changed"
    assert rig.clock.remaining_ms() == 500

    await rig.clock.advance(500)
    assert (rig.status.state, rig.status.run) == ("RUNNING", 2)
    assert rig.error_code is None


@in_rig
async def test_delay_doubles_up_to_its_limit(rig: Rig) -> None:
    await rig.running()
    delays = []

    for _ in range(LIMITS.restarts_max):
        rig.query_ends()
        await rig.look()
        delays.append(rig.clock.remaining_ms())
        await rig.clock.advance(4_000)

    assert delays == [500, 1_000, 2_000]


@in_rig
async def test_pipeline_fails_once_its_restarts_are_used_up(rig: Rig) -> None:
    await rig.running()

    for _ in range(LIMITS.restarts_max):
        rig.query_ends()
        await rig.look()
        await rig.clock.advance(4_000)
    rig.query_ends()
    await rig.look()

    assert (rig.status.state, rig.error_code) == ("FAILED", "query.failed")
    assert rig.clock.remaining_ms() is None
    assert rig.queries.started_count == 1 + LIMITS.restarts_max
    assert rig.registry.get("p").failure is not None


@in_rig
async def test_restarts_count_from_nothing_after_a_long_time_without_failure(rig: Rig) -> None:
    await rig.running()
    rig.query_ends()
    await rig.look()
    await rig.clock.advance(500)
    await rig.look()
    assert rig.status.restarts == 1

    await rig.clock.advance(LIMITS.reset_ms)

    assert rig.status.restarts == 0


@pytest.mark.parametrize("code", sorted(PERMANENT_CODES))
def test_failure_beyond_repair_is_never_tried_again(redis_client: redis.Redis, code: str) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.running()
        rig.query_ends(code)
        await rig.look()

        assert (rig.status.state, rig.error_code) == ("FAILED", code)
        await rig.clock.advance(10**8)
        assert rig.queries.started_count == 1

        await rig.replace_service()
        assert (rig.status.state, rig.error_code) == ("FAILED", code)
        assert rig.queries.started_count == 1

    in_rig(scenario)(redis_client)


@in_rig
async def test_user_can_have_a_failed_pipeline_tried_again(rig: Rig) -> None:
    await rig.running()
    rig.query_ends("state-lost")
    await rig.look()

    await rig.order("RUNNING")

    assert (rig.status.state, rig.status.restarts) == ("RUNNING", 0)
    assert rig.error_code is None
    assert rig.registry.get("p").failure is None


@in_rig
async def test_failed_pipeline_can_be_stopped(rig: Rig) -> None:
    await rig.running()
    rig.query_ends("state-lost")
    await rig.look()

    await rig.order("STOPPED")

    assert (rig.status.state, rig.error_code) == ("STOPPED", None)


@in_rig
async def test_failure_by_exhausted_restarts_is_tried_again_by_the_next_service(rig: Rig) -> None:
    await rig.running()
    for _ in range(LIMITS.restarts_max + 1):
        rig.query_ends()
        await rig.look()
        await rig.clock.advance(4_000)
    assert rig.status.state == "FAILED"

    await rig.replace_service()

    assert rig.status.state == "RUNNING"


@in_rig
async def test_plan_that_cannot_run_fails_without_a_run(rig: Rig) -> None:
    rig.registry.create("p", PLAN)
    rig.starter.refused = True

    await rig.order("RUNNING")

    assert (rig.status.state, rig.error_code) == ("FAILED", "plan.unsupported")
    assert rig.ledgers.runs == {}


@in_rig
async def test_lost_state_at_the_opening_of_a_run_fails(rig: Rig) -> None:
    rig.registry.create("p", PLAN)
    rig.ledgers.error = StateLost("marker 3, checkpoint 5")

    await rig.order("RUNNING")

    assert (rig.status.state, rig.error_code) == ("FAILED", "state-lost")


@in_rig
async def test_what_is_to_be_done_about_a_failure_is_told_with_it(rig: Rig) -> None:
    rig.registry.create("p", PLAN)
    rig.ledgers.error = FormatVersionMismatch("format 4", hint="go on with the newer version")

    await rig.order("RUNNING")

    told = "format 4; go on with the newer version"
    assert rig.status.state == "FAILED"
    assert rig.status.error == StatusError("state-format-version-mismatch", told)
    # A service that is started later tells it, too.
    failure = rig.registry.get("p").failure
    assert failure is not None
    assert failure.message == told


@in_rig
async def test_what_is_to_be_done_about_a_silent_neighbour_is_told_with_it(rig: Rig) -> None:
    rig.registry.create("p", PLAN)
    rig.ledgers.error = StateUnavailable("redis is full", hint="give it more memory")

    await rig.order("RUNNING")

    assert rig.status.state == "RESTARTING"
    assert rig.status.error == StatusError(
        "state-unavailable", "redis is full; give it more memory"
    )


@in_rig
async def test_query_that_someone_else_stopped_is_started_again(rig: Rig) -> None:
    await rig.running()
    rig.query_ends(None)

    await rig.look()

    assert (rig.status.state, rig.error_code) == ("RESTARTING", "query.ended")


@in_rig
async def test_query_that_went_with_its_session_is_started_again(rig: Rig) -> None:
    await rig.running()
    rig.queries.looks.clear()

    await rig.look()
    assert (rig.status.state, rig.error_code) == ("RESTARTING", "query.gone")

    await rig.clock.advance(500)
    assert (rig.status.state, rig.status.run) == ("RUNNING", 2)
