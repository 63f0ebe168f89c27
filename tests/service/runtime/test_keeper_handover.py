"""Pipelines from one service to the next, and their deletion: who ends what, and in which order."""

from __future__ import annotations

from dataclasses import replace

from service.runtime.supervisor import PipelineStatus, Supervisor
from tests.service.runtime.rig import LIMITS, Rig, in_rig


@in_rig
async def test_next_service_adopts_a_running_query(rig: Rig) -> None:
    await rig.running()
    rig.ledgers.epochs["p"] = 4

    await rig.replace_service()

    assert (rig.status.state, rig.status.run, rig.status.epoch) == ("RUNNING", 1, 4)
    assert rig.queries.started_count == 1


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

    assert rig.queries.log == ["stop named p", "start p run 2"]


@in_rig
async def test_deleted_pipeline_is_stopped_then_dropped_then_forgotten(rig: Rig) -> None:
    await rig.running()
    record = rig.registry.delete("p")

    await rig.supervisor.forget("p")
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

    await rig.supervisor.forget("p")
    await rig.settle()

    assert (rig.status.state, rig.ledgers.dropped) == ("STOPPING", [])
    rig.queries.away = False
    rig.clock.ms += LIMITS.backoff_max_ms
    await rig.supervisor.forget("p")
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
    await rig.supervisor.forget("p")
    await rig.forgotten()

    await rig.running()

    assert rig.status.run == 2, "the run counter outlives the pipeline"
