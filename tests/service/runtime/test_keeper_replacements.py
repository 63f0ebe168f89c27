"""Another statement in the place of a pipeline's: whole, or as before, whatever fails when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.runtime.errors import PipelineNotFound, SavepointPending, StartFailed
from service.runtime.records import PipelineOptions, Replacement, SavepointOrder
from state.errors import SavepointMismatch, SinkTakenOver, StateUnavailable
from tests.service.runtime.fakes import savepoint_failed
from tests.service.runtime.rig import LIMITS, PLAN, in_rig

if TYPE_CHECKING:
    from tests.service.runtime.rig import Rig

OTHER: dict[str, Any] = {"nodes": [], "flinkVersion": "2.3"}
SAVED = SavepointOrder("s1", False, 0)


async def _put(rig: Rig) -> None:
    rig.registry.order_replacement("p", Replacement(OTHER, PipelineOptions(), SAVED))
    rig.supervisor.wake("p")
    await rig.settle()


async def _closes_an_epoch(rig: Rig) -> None:
    rig.ledgers.epochs["p"] = rig.ledgers.epochs.get("p", 0) + 1
    await rig.look()


def outcome(rig: Rig) -> tuple[str, str | None]:
    replaced = rig.registry.get("p").replaced
    assert replaced is not None
    return replaced.outcome, replaced.error[0] if replaced.error else None


@in_rig
async def test_it_is_saved_checked_dropped_restored_and_started(rig: Rig) -> None:
    await rig.running()
    before = rig.registry.get("p")
    rig.ledgers.epochs["p"] = 4

    await _put(rig)

    record = rig.registry.get("p")
    assert rig.savepoints.log == ["save s1", "restore s1"]
    assert rig.ledgers.dropped == ["p"]
    assert rig.starter.discarded == [before.id]
    assert (record.plan, record.id != before.id) == (OTHER, True)
    assert record.version > before.version
    assert record.restore is not None
    assert (record.restore.savepoint, record.restore.done) == ("s1", True)
    assert record.restore.notes == ("table t is new",)
    assert rig.status.state == "RUNNING"
    # Until it has closed an epoch, it may go again.
    assert record.replacement is not None
    await _closes_an_epoch(rig)
    assert outcome(rig) == ("REPLACED", None)
    assert rig.registry.get("p").replacement is None


@in_rig
async def test_a_pipeline_that_is_stopped_gets_it_and_stays_so(rig: Rig) -> None:
    rig.registry.create("p", PLAN)
    rig.supervisor.wake("p")
    await rig.settle()

    await _put(rig)

    assert rig.status.state == "STOPPED"
    assert rig.queries.started_count == 0
    assert outcome(rig) == ("REPLACED", None)
    assert rig.registry.get("p").plan == OTHER


@pytest.mark.parametrize("error", [savepoint_failed(), SavepointMismatch("it does not fit")])
def test_what_cannot_be_saved_or_does_not_fit_changes_nothing(
    error: Exception, redis_client: Any
) -> None:
    @in_rig
    async def scenario(rig: Rig) -> None:
        await rig.running()
        before = rig.registry.get("p")
        if isinstance(error, SavepointMismatch):
            rig.savepoints.check_error = error
        else:
            rig.savepoints.save_error = error

        await _put(rig)

        record = rig.registry.get("p")
        assert outcome(rig) == ("REFUSED", error.code)  # type: ignore[attr-defined]  # both have one
        assert (record.id, record.plan, record.restore) == (before.id, PLAN, None)
        assert rig.ledgers.dropped == []
        assert rig.status.state == "RUNNING"
        assert rig.queries.started_count == 2

    scenario(redis_client)


@in_rig
async def test_one_that_does_not_start_goes_again(rig: Rig) -> None:
    await rig.running()
    rig.queries.start_error = StartFailed("no such table", code="dataflow.invalid-table-option")
    rig.registry.order_replacement("p", Replacement(OTHER, PipelineOptions(), SAVED))
    rig.supervisor.wake("p")
    # The old one starts again.
    while not rig.queries.log[-1].startswith("stop"):
        await rig.settle()
    await rig.settle()
    rig.queries.start_error = None
    rig.registry.order_start("p")
    rig.supervisor.wake("p")
    await rig.settle()

    record = rig.registry.get("p")
    assert outcome(rig) == ("TAKEN_BACK", "dataflow.invalid-table-option")
    assert record.plan == PLAN
    assert rig.savepoints.log == ["save s1", "restore s1", "restore s1"]
    assert rig.ledgers.dropped == ["p", "p"]
    assert rig.status.state == "RUNNING"


@in_rig
async def test_one_that_fails_in_its_first_epoch_goes_again(rig: Rig) -> None:
    await rig.running()
    await _put(rig)

    rig.query_ends("sink-refused")
    await rig.look()

    assert outcome(rig) == ("TAKEN_BACK", "sink-refused")
    assert rig.registry.get("p").plan == PLAN
    assert rig.status.state == "RUNNING"
    assert rig.status.restarts == 0


@in_rig
async def test_one_that_has_closed_an_epoch_stays(rig: Rig) -> None:
    await rig.running()
    await _put(rig)
    await _closes_an_epoch(rig)

    rig.query_ends("sink-refused")
    await rig.look()

    assert outcome(rig) == ("REPLACED", None)
    assert rig.registry.get("p").plan == OTHER
    assert (rig.status.state, rig.error_code) == ("FAILED", "sink-refused")


@in_rig
async def test_an_epoch_that_was_closed_before_the_failure_was_seen_counts(rig: Rig) -> None:
    await rig.running()
    await _put(rig)
    rig.ledgers.epochs["p"] = 1

    rig.query_ends("sink-refused")
    await rig.look()

    assert outcome(rig) == ("REPLACED", None)
    assert rig.registry.get("p").plan == OTHER


@in_rig
async def test_a_restore_that_fails_brings_the_former_statement_back(rig: Rig) -> None:
    await rig.running()
    rig.savepoints.restore_error = SinkTakenOver("another pipeline has table t")
    rig.registry.order_replacement("p", Replacement(OTHER, PipelineOptions(), SAVED))
    rig.supervisor.wake("p")
    await rig.settle()

    assert rig.savepoints.log == ["save s1", "restore s1", "restore s1"]
    assert outcome(rig) == ("TAKEN_BACK", "sink-taken-over")
    assert (rig.status.state, rig.error_code) == ("FAILED", "sink-taken-over")
    rig.savepoints.restore_error = None
    await rig.order("RUNNING")
    assert rig.status.state == "RUNNING"
    assert rig.registry.get("p").plan == PLAN


@in_rig
async def test_another_service_carries_it_on_from_where_it_was(rig: Rig) -> None:
    await rig.running()
    rig.ledgers.clear_error = StateUnavailable("redis does not answer")
    await _put(rig)
    phase = rig.registry.get("p").replacement
    assert phase is not None
    assert phase.phase == "switching"

    rig.ledgers.clear_error = None
    await rig.replace_service()
    await rig.clock.advance(LIMITS.backoff_max_ms)

    assert rig.savepoints.log == ["save s1", "restore s1"]
    assert rig.registry.get("p").plan == OTHER
    assert rig.status.state == "RUNNING"


@in_rig
async def test_what_would_meddle_is_refused_meanwhile(rig: Rig) -> None:
    await rig.running()
    await _put(rig)

    with pytest.raises(SavepointPending):
        rig.registry.order_savepoint("p", SavepointOrder("s2", True, 0), stop=False)
    with pytest.raises(SavepointPending):
        rig.registry.order_replacement("p", Replacement(PLAN, PipelineOptions(), SAVED))
    with pytest.raises(SavepointPending):
        rig.registry.update("p", options=PipelineOptions(tick_interval_ms=100))
    with pytest.raises(SavepointPending):
        rig.registry.delete("p")
    rig.registry.delete("p", drop_savepoint=True)
    with pytest.raises(PipelineNotFound):
        rig.registry.get("p")
