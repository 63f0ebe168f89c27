"""Savepoints and restores in the state machine of a pipeline: never beside a query, never lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.runtime.errors import PipelineNotFound, SavepointPending, StartFailed
from service.runtime.records import RestoreOrder, SavepointOrder
from state.errors import SavepointCorrupt, StateLost, StateUnavailable
from tests.service.runtime.fakes import savepoint_failed
from tests.service.runtime.rig import LIMITS, PLAN, in_rig

if TYPE_CHECKING:
    from tests.service.runtime.rig import Rig

ORDER = SavepointOrder("s1", True, 0)
RESTORE = RestoreOrder("other", "s1")


async def _order(rig: Rig, *, stop: bool = False) -> None:
    rig.registry.order_savepoint("p", ORDER, stop=stop)
    rig.supervisor.wake("p")
    await rig.settle()


@in_rig
async def test_a_running_pipeline_is_stopped_saved_and_started_again(rig: Rig) -> None:
    await rig.running()

    await _order(rig)

    assert rig.savepoints.log == ["save s1"]
    assert rig.status.state == "RUNNING"
    assert rig.queries.started_count == 2
    assert rig.registry.get("p").savepoint is None
    assert rig.status.restarts == 0


@in_rig
async def test_with_stop_it_stays_stopped(rig: Rig) -> None:
    await rig.running()

    await _order(rig, stop=True)

    assert rig.savepoints.log == ["save s1"]
    assert rig.status.state == "STOPPED"
    assert rig.queries.started_count == 1


@in_rig
async def test_a_failed_pipeline_is_saved_and_not_tried_again(rig: Rig) -> None:
    await rig.running()
    rig.queries.start_error = StartFailed("no")
    rig.query_ends("state-corrupt")
    await rig.look()
    assert rig.status.state == "FAILED"

    await _order(rig)

    assert rig.savepoints.log == ["save s1"]
    assert rig.status.state == "FAILED"


@in_rig
async def test_a_savepoint_that_fails_is_no_failure_of_the_pipeline(rig: Rig) -> None:
    await rig.running()
    rig.savepoints.save_error = savepoint_failed()

    await _order(rig)

    assert rig.status.state == "RUNNING"
    assert rig.status.restarts == 0
    assert rig.registry.get("p").savepoint is None


@in_rig
async def test_while_redis_is_away_the_order_waits(rig: Rig) -> None:
    await rig.running()
    rig.savepoints.save_error = StateUnavailable("redis does not answer")
    await _order(rig)
    assert rig.registry.get("p").savepoint == ORDER
    with pytest.raises(SavepointPending):
        rig.registry.order_savepoint("p", ORDER, stop=False)

    rig.savepoints.save_error = None
    await rig.clock.advance(LIMITS.backoff_max_ms)

    assert rig.savepoints.log[-1] == "save s1"
    assert rig.registry.get("p").savepoint is None
    await rig.clock.advance(LIMITS.backoff_max_ms)
    assert rig.status.state == "RUNNING"


@in_rig
async def test_an_order_outlives_the_service(rig: Rig) -> None:
    await rig.running()
    await rig.supervisor.close()
    rig.registry.order_savepoint("p", ORDER, stop=False)

    await rig.replace_service()
    await rig.look()

    assert rig.savepoints.log == ["save s1"]
    assert rig.status.state == "RUNNING"


@in_rig
async def test_a_deletion_does_not_overtake_an_order_that_the_next_service_takes(rig: Rig) -> None:
    await rig.running()
    await rig.supervisor.close()
    rig.registry.order_savepoint("p", ORDER, stop=False)
    with pytest.raises(SavepointPending, match="s1"):
        rig.registry.delete("p")

    await rig.replace_service()
    await rig.look()
    rig.registry.delete("p")
    rig.supervisor.wake("p")
    await rig.forgotten()

    assert rig.savepoints.log == ["save s1"]
    assert rig.ledgers.dropped == ["p"]


@in_rig
async def test_an_order_that_nobody_can_follow_is_given_up_with_its_pipeline(rig: Rig) -> None:
    await rig.running()
    rig.savepoints.save_error = StateUnavailable("redis does not answer")
    await _order(rig)

    rig.registry.delete("p", drop_savepoint=True)
    rig.supervisor.wake("p")
    await rig.forgotten()

    assert rig.ledgers.dropped == ["p"]
    assert rig.savepoints.log == ["save s1"]


@in_rig
async def test_a_deleted_pipeline_leaves_its_savepoint_before_anything_goes(rig: Rig) -> None:
    await rig.running()
    rig.savepoints.save_error = savepoint_failed()
    rig.registry.delete("p", keep=ORDER)
    rig.supervisor.wake("p")
    await rig.settle()
    assert rig.starter.discarded == rig.ledgers.dropped == []

    rig.savepoints.save_error = None
    rig.supervisor.wake("p")
    await rig.forgotten()

    assert rig.savepoints.log == ["save s1", "save s1"]
    assert len(rig.starter.discarded) == len(rig.ledgers.dropped) == 1


@in_rig
async def test_one_that_cannot_leave_a_savepoint_can_be_dropped(rig: Rig) -> None:
    await rig.running()
    rig.savepoints.save_error = savepoint_failed()
    rig.registry.delete("p", keep=ORDER)
    rig.supervisor.wake("p")
    await rig.settle()

    with pytest.raises(SavepointPending, match="s1"):
        rig.registry.delete("p")
    rig.registry.delete("p", drop_savepoint=True)
    rig.supervisor.wake("p")
    await rig.forgotten()

    assert rig.ledgers.dropped == ["p"]
    with pytest.raises(PipelineNotFound):
        rig.registry.delete("p")


@in_rig
async def test_a_restored_pipeline_starts_when_all_is_there(rig: Rig) -> None:
    rig.savepoints.restore_error = StateUnavailable("redis does not answer")
    rig.registry.create("p", PLAN, restore=RESTORE, desired="RUNNING")
    rig.supervisor.wake("p")
    await rig.settle()
    assert rig.queries.started_count == 0
    with pytest.raises(SavepointPending):
        rig.registry.order_savepoint("p", ORDER, stop=False)
    with pytest.raises(SavepointPending):
        rig.registry.delete("p", keep=ORDER)

    rig.savepoints.restore_error = None
    await rig.clock.advance(LIMITS.backoff_max_ms)
    await rig.clock.advance(LIMITS.backoff_max_ms)

    assert rig.savepoints.log == ["restore s1"] * 2
    assert rig.status.state == "RUNNING"
    restored = rig.registry.get("p").restore
    assert restored is not None
    assert restored.done
    await rig.restart()
    assert rig.savepoints.log == ["restore s1"] * 2


@in_rig
async def test_a_restore_that_cannot_be_fails_until_it_is_ordered_again(rig: Rig) -> None:
    rig.savepoints.restore_error = SavepointCorrupt("part 3 was cut off")
    rig.registry.create("p", PLAN, restore=RESTORE)
    rig.supervisor.wake("p")
    await rig.settle()
    assert rig.status.state == "FAILED"
    assert rig.error_code == "savepoint-corrupt"
    await rig.clock.advance(LIMITS.backoff_max_ms)
    assert rig.savepoints.log == ["restore s1"]

    rig.savepoints.restore_error = None
    await rig.order("RUNNING")

    assert rig.status.state == "RUNNING"
    assert rig.savepoints.log == ["restore s1"] * 2


@in_rig
async def test_lost_state_names_the_savepoint_to_go_back_to(rig: Rig) -> None:
    rig.ledgers.error = StateLost("marker 3, checkpoint 5")
    rig.registry.create("p", PLAN)
    await rig.order("RUNNING")
    assert rig.status.error is not None
    told = rig.status.error.message
    assert told.startswith("marker 3, checkpoint 5; restore the redis that belongs to")
    assert told.endswith("; there is no savepoint")

    rig.savepoints.last = "the latest savepoint is p/s1, of epoch 2"
    await rig.order("RUNNING")
    assert rig.status.error.message.endswith("; the latest savepoint is p/s1, of epoch 2")
