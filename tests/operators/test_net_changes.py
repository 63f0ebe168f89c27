"""What an epoch comes to for a sink that need not see what happened in between."""

from __future__ import annotations

from operators.changelog import Change, RowKind
from operators.testing.harness import MaterializerHarness
from operators.testing.strategies import INTEGERS
from operators.upsert_materializer import MaterializerSpec


def test_a_row_that_came_and_went_takes_back_what_expired_unseen() -> None:
    """The sink was not told of the expiry, so it may still have a row of the key."""
    spec = MaterializerSpec(INTEGERS.types, INTEGERS.names, (1,), None, ttl_ms=10, net_changes=True)
    harness = MaterializerHarness.on_heap(spec)
    harness.run_epoch([(0, Change(RowKind.INSERT, (1, 1, "a")))])
    harness.now_ms += 10

    passing = [Change(kind, (2, 1, "b")) for kind in (RowKind.INSERT, RowKind.DELETE)]
    emitted = harness.run_epoch([*enumerate(passing)])

    assert [each.change for each in emitted] == passing[1:]
