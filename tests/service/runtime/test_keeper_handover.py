"""Pipelines from one service to the next, and their deletion: who ends what, and in which order."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import structlog

from service.runtime.errors import RegistryUnavailable
from service.runtime.planned_offsets import unusable_checkpoint
from service.runtime.supervisor import PipelineStatus, Supervisor
from state.errors import Fenced
from tests.service.runtime.rig import LIMITS, LOOK_MS, PLAN, Rig, in_rig


@in_rig
async def test_next_service_adopts_a_running_query(rig: Rig) -> None:
    await rig.running()
    rig.ledgers.epochs["p"] = 4

    await rig.replace_service()

    assert (rig.status.state, rig.status.run, rig.status.epoch) == ("RUNNING", 1, 4)
    assert rig.queries.started_count == 1


@in_rig
async def test_next_service_looks_for_no_query_before_it_has_asked_for_the_session(
    rig: Rig,
) -> None:
    await rig.running()
    rig.queries.log.clear()
    rig.queries.session_error = RegistryUnavailable("away")
    await rig.supervisor.close()
    rig.supervisor = Supervisor(rig.ports(), scan_interval_ms=LOOK_MS)
    await rig.supervisor.start()
    await rig.clock.parked()
    assert (rig.queries.log, rig.status) == ([], PipelineStatus())

    await rig.look()
    await rig.clock.parked(2)

    assert rig.queries.log == ["reconnect"]
    assert (rig.status.state, rig.status.run) == ("RUNNING", 1)


@in_rig
async def test_next_service_takes_over_from_the_checkpoint_when_the_query_is_gone(rig: Rig) -> None:
    await rig.running()
    rig.queries.looks.clear()

    await rig.replace_service()

    assert (rig.status.state, rig.status.run, rig.status.restarts) == ("RUNNING", 2, 0)


@in_rig
async def test_next_service_learns_that_the_query_failed_meanwhile(rig: Rig) -> None:
    await rig.running()
    rig.query_ends("state-lost")

    await rig.replace_service()

    assert (rig.status.state, rig.error_code) == ("FAILED", "state-lost")


@in_rig
async def test_next_service_stops_what_was_unwanted_meanwhile(rig: Rig) -> None:
    await rig.running()
    rig.registry.update("p", desired="STOPPED")

    await rig.replace_service()

    assert rig.status.state == "STOPPED"
    assert rig.queries.alive == []


@in_rig
async def test_query_of_another_version_is_replaced_not_adopted(rig: Rig) -> None:
    await rig.running()
    noted = rig.registry.get("p").query
    assert noted is not None
    rig.registry.note_query("p", replace(noted, version="0.0.1"))

    await rig.replace_service()

    assert rig.queries.log[-2:] == ["stop query-1", "start p run 2"]


@in_rig
async def test_query_that_was_never_noted_is_ended_first(rig: Rig) -> None:
    await rig.running()
    rig.registry.note_query("p", None)
    rig.queries.looks.clear()
    rig.queries.log.clear()

    await rig.replace_service()

    assert rig.queries.log == ["reconnect", "stop named p", "start p run 2"]


@in_rig
async def test_deleted_pipeline_is_stopped_then_dropped_then_forgotten(rig: Rig) -> None:
    await rig.running()
    record = rig.registry.delete("p")

    rig.supervisor.wake("p")
    await rig.forgotten()

    assert rig.queries.alive == []
    assert rig.starter.discarded == [record.id]
    assert rig.ledgers.dropped == ["p"]
    assert rig.status == PipelineStatus()


@in_rig
async def test_state_of_a_deleted_pipeline_stays_until_its_query_is_over(rig: Rig) -> None:
    await rig.running()
    rig.queries.away = True
    rig.registry.delete("p")

    rig.supervisor.wake("p")
    await rig.settle()

    assert (rig.status.state, rig.ledgers.dropped) == ("STOPPING", [])
    rig.queries.away = False
    rig.clock.ms += LIMITS.backoff_max_ms
    rig.supervisor.wake("p")
    await rig.forgotten()
    assert rig.ledgers.dropped == ["p"]


@in_rig
async def test_deletion_that_a_dying_service_left_is_finished_by_the_next(rig: Rig) -> None:
    await rig.running()
    await rig.supervisor.close()
    rig.registry.delete("p")

    rig.supervisor = Supervisor(rig.ports(), scan_interval_ms=10**9)
    await rig.supervisor.start()
    await rig.clock.parked()
    await rig.forgotten()

    assert rig.queries.alive == []
    assert rig.ledgers.dropped == ["p"]


@in_rig
async def test_name_can_be_used_again_after_deletion(rig: Rig) -> None:
    await rig.running()
    rig.registry.delete("p")
    rig.supervisor.wake("p")
    await rig.forgotten()

    await rig.running()

    assert rig.status.run == 2, "the run counter outlives the pipeline"


@in_rig
async def test_a_restart_outlives_the_service_that_was_asked_for_it(rig: Rig) -> None:
    await rig.running()
    await rig.supervisor.close()
    rig.registry.order_restart("p")

    await rig.replace_service()
    await rig.settle()

    assert rig.queries.log[-2:] == ["stop query-1", "start p run 2"]
    assert rig.registry.get("p").restart_ms is None
    await rig.replace_service()
    assert rig.queries.started_count == 2


@in_rig
async def test_a_start_of_a_failed_pipeline_outlives_the_service_that_was_asked_for_it(
    rig: Rig,
) -> None:
    await rig.running()
    rig.query_ends("state-lost")
    await rig.look()
    assert rig.status.state == "FAILED"
    await rig.supervisor.close()
    rig.registry.order_start("p")

    await rig.replace_service()
    await rig.settle()

    assert (rig.status.state, rig.status.run) == ("RUNNING", 2)
    kept = rig.registry.get("p")
    assert (kept.start_ms, kept.failure) == (None, None)


@in_rig
async def test_a_start_that_was_taken_back_before_anybody_looked_is_forgotten(rig: Rig) -> None:
    rig.registry.create("p", PLAN)
    rig.registry.order_start("p")

    await rig.order("STOPPED")

    assert (rig.status.state, rig.queries.started_count) == ("STOPPED", 0)
    assert rig.registry.get("p").start_ms is None


@in_rig
async def test_a_start_is_tried_once_and_not_at_each_look(rig: Rig) -> None:
    await rig.running()
    rig.query_ends("state-lost")
    await rig.look()
    rig.starter.refused = True

    await rig.order("RUNNING")
    assert (rig.status.state, rig.error_code) == ("FAILED", "plan.unsupported")
    rig.starter.refused = False
    rig.supervisor.wake("p")
    await rig.settle()

    assert rig.status.state == "FAILED"
    await rig.replace_service()
    assert (rig.status.state, rig.error_code) == ("FAILED", "plan.unsupported")


@in_rig
async def test_a_run_that_was_overtaken_is_not_started_in_spark(rig: Rig) -> None:
    def overtaken(name: str, run: int) -> None:
        rig.ledgers.runs[name] += 1
        raise Fenced("run 2 owns the pipeline, this is run 1")

    rig.ledgers.require_run = overtaken
    rig.registry.create("p", PLAN)

    await rig.order("RUNNING")

    assert (rig.status.state, rig.error_code) == ("RESTARTING", "state-fenced")
    assert rig.queries.started_count == 0


@in_rig
async def test_a_restart_that_is_asked_for_while_one_is_made_is_made_too(rig: Rig) -> None:
    """Options that were changed in between count."""
    await rig.running()
    rig.queries.holds = asyncio.Event()
    rig.registry.order_restart("p")
    rig.supervisor.wake("p")
    await rig.queries.asked.wait()
    rig.clock.ms += 1
    rig.registry.order_restart("p")
    rig.supervisor.wake("p")

    rig.queries.holds.set()
    await rig.settle()

    assert rig.registry.get("p").restart_ms is None
    assert rig.queries.started_count >= 2
    assert rig.status.state == "RUNNING"


@in_rig
async def test_a_query_is_noted_once_redis_is_back(rig: Rig) -> None:
    """With its options: readers would take what it writes for that of the run before."""
    rig.registry.create("p", PLAN)
    note = rig.registry.note_query
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.registry, "note_query", _no_redis)
        await rig.order("RUNNING")
        assert rig.status.waiting is not None
    assert rig.registry.get("p").run_options is None

    assert rig.registry.note_query == note
    await rig.clock.advance(LIMITS.backoff_max_ms)

    found = rig.registry.get("p")
    assert found.query is not None
    assert (found.query.query_id, found.run_options is None) == ("query-1", False)
    assert (rig.status.state, rig.queries.started_count) == ("RUNNING", 1)


def _no_redis(*_: object) -> None:
    raise RegistryUnavailable("Redis does not answer")


@in_rig
async def test_a_checkpoint_that_cannot_be_removed_is_told_and_tried_again(rig: Rig) -> None:
    await rig.running()
    rig.starter.discard_error = unusable_checkpoint(
        "removed", PermissionError(13, "Permission denied")
    )
    rig.registry.delete("p")
    with structlog.testing.capture_logs() as lines:
        rig.supervisor.wake("p")
        await rig.settle()

    assert (rig.status.state, rig.error_code) == ("STOPPING", "checkpoint-unusable")
    assert "Permission denied" in str(rig.status.error)
    assert [each["code"] for each in lines if each["event"] == "pipeline not stopped"]
    rig.starter.discard_error = None
    rig.supervisor.wake("p")
    await rig.forgotten()
