"""What an epoch comes to for a sink that need not see what happened in between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from operators.batch import ChangeBatch
from operators.changelog import Change, RowKind
from operators.net_changes import net_changes
from operators.testing.harness import MaterializerHarness
from operators.testing.operator_harness import Of, delete, insert
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec
from tests.operators.stage import Epoch, Stage, changes_of

PASSING = Epoch((Of(0, insert(2, 1, "b")), Of(0, delete(2, 1, "b"))), 20)


def test_net_changes_come_in_the_order_of_the_last_emissions() -> None:
    emitted = [(RowKind.INSERT, 5), (RowKind.UPDATE_AFTER, 9), (RowKind.UPDATE_AFTER, 5)]
    emitted += [(RowKind.UPDATE_AFTER, 7), (RowKind.DELETE, 1)]
    batch = ChangeBatch(
        columns=(pa.array([key for _, key in emitted], pa.int32()),),
        kinds=np.array([kind for kind, _ in emitted], np.int8),
        order=np.arange(10, 15),
        key_groups=np.arange(5, dtype=np.int32),
    )

    found = net_changes(batch, INTEGERS.types[:1], (0,))

    assert found.columns[0].to_pylist() == [9, 5, 7, 1]
    assert found.order.tolist() == [11, 12, 13, 14]
    assert found.key_groups.tolist() == [1, 2, 3, 4]
    kinds = [RowKind.UPDATE_AFTER, RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE]
    assert found.kinds.tolist() == kinds


def test_a_row_that_came_and_went_takes_back_what_expired_unseen() -> None:
    """The sink was not told of the expiry, so it may still have a row of the key."""
    spec = MaterializerSpec(INTEGERS.types, INTEGERS.names, (1,), None, ttl_ms=10, net_changes=True)
    harness = MaterializerHarness.on_heap(spec)
    harness.run_epoch([(0, Change(RowKind.INSERT, (1, 1, "a")))])
    harness.now_ms += 10

    passing = [Change(kind, (2, 1, "b")) for kind in (RowKind.INSERT, RowKind.DELETE)]
    emitted = harness.run_epoch([*enumerate(passing)])

    assert [each.change for each in emitted] == passing[1:]


def test_what_expired_unseen_is_taken_back_by_a_run_without_a_ttl() -> None:
    """Switching the TTL off brings back no row that the sink has and state forgot."""
    spec = MaterializerSpec(INTEGERS.types, INTEGERS.names, (1,), None, ttl_ms=10, net_changes=True)
    stage = Stage.on_heap(spec)
    stage.run(Epoch((Of(0, insert(1, 1, "a")),), 0))
    stage.run(Epoch((), 10))
    stage.restart(replace(spec, ttl_ms=0))

    assert changes_of(stage, stage.run(PASSING)) == [delete(2, 1, "b")]


@pytest.mark.parametrize("ttl_ms", [10, 0])
def test_what_expired_unseen_is_taken_back_by_a_run_that_emits_expiry(ttl_ms: int) -> None:
    spec = MaterializerSpec(INTEGERS.types, INTEGERS.names, (1,), None, ttl_ms=10, net_changes=True)
    stage = Stage.on_heap(spec)
    stage.run(Epoch((Of(0, insert(1, 1, "a")),), 0))
    stage.run(Epoch((), 10))
    stage.restart(replace(spec, ttl_ms=ttl_ms, emit_expired=True))

    assert changes_of(stage, stage.run(PASSING)) == [delete(2, 1, "b")]


@pytest.mark.parametrize("emits", [True, False])
def test_nothing_is_taken_back_of_a_sink_that_was_told_of_every_expiry(emits: bool) -> None:
    """The run before had no TTL, or emitted what expired."""
    spec = MaterializerSpec(INTEGERS.types, INTEGERS.names, (1,), None, net_changes=True)
    stage = Stage.on_heap(replace(spec, emit_expired=True, ttl_ms=10) if emits else spec)
    stage.run(Epoch((Of(0, insert(1, 9, "a")),), 0))
    stage.restart(replace(spec, emit_expired=True, ttl_ms=30))

    assert changes_of(stage, stage.run(PASSING)) == []
