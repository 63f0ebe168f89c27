"""The contract of a ledger, as tests: runs, the marker, sinks' effects, the end of a pipeline."""

# ruff: noqa: D102 - the name of a test says what holds

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from state.backends.interface import (
    ApplyStaged,
    CounterAdd,
    EpochCheck,
    HashDelete,
    HashGet,
    HashLength,
    HashPut,
    HashScan,
    SortedPut,
    StreamAppend,
    StreamScan,
)
from state.errors import Fenced, InvariantViolation, StagedWritesGone, StateCorrupt, StateLost
from state.testing.stand import NODE, PARALLELISM

if TYPE_CHECKING:
    from state.backends.interface import Effect
    from state.testing.stand import Stand

TABLE, PROGRESS, STAGE = b"table:orders", b"progress", b"stage:1:orders:0:x"


class LedgerConformance:
    """Runs, epochs and effects."""

    def test_runs_are_numbered_from_one(self, stand: Stand) -> None:
        assert [stand.open_run() for _ in range(3)] == [1, 2, 3]

    def test_a_new_pipeline_is_before_its_first_epoch(self, stand: Stand) -> None:
        marker = stand.ledger.marker()

        assert (marker.epoch, marker.run, marker.offsets) == (0, 0, "{}")
        assert stand.ledger.check(1) is EpochCheck.PROCEED

    def test_closing_sets_the_marker(self, stand: Stand) -> None:
        run = stand.open_run()

        assert stand.ledger.close_epoch(stand.stamp(1, run), {"b": [1, None], "a": {"x": 2}}, [])

        marker = stand.ledger.marker()
        assert (marker.epoch, marker.run) == (1, run)
        assert marker.offsets == '{"a":{"x":2},"b":[1,null]}'
        assert marker.closed_ms > 1_700_000_000_000

    def test_an_epoch_may_run_only_behind_its_predecessor(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.close(1, run=run)
        stand.close(2, run=run)

        assert stand.ledger.check(3) is EpochCheck.PROCEED
        assert stand.ledger.check(2) is EpochCheck.CLOSED
        for wrong in (1, 4):
            with pytest.raises(StateLost, match=rf"\b2\b.*\b{wrong}\b"):
                stand.ledger.check(wrong)

    def test_closing_again_does_nothing(self, stand: Stand) -> None:
        run = stand.open_run()
        effects: list[Effect] = [CounterAdd(b"n", 1), StreamAppend(PROGRESS, [[b"j", b"{}"]], 9)]

        assert stand.close(1, effects, run) is True
        marker = stand.ledger.marker()
        assert stand.close(1, effects, run) is False

        assert stand.slot(StreamScan(0, PROGRESS, None, 9)) == [(b"1-0", [b"j", b"{}"])]
        assert stand.ledger.marker() == marker

    def test_closing_again_with_other_offsets_is_refused(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.close(1, run=run)

        with pytest.raises(StateLost):
            stand.close(1, run=run, offset=99)

    @pytest.mark.parametrize("epoch", [1, 4])
    def test_closing_out_of_turn_is_refused(self, stand: Stand, epoch: int) -> None:
        run = stand.open_run()
        stand.close(1, run=run)
        stand.close(2, run=run)

        with pytest.raises(StateLost, match=rf"\b2\b.*\b{epoch}\b"):
            stand.close(epoch, [HashPut(TABLE, [b"a", b"1"])], run)
        assert stand.slot(HashLength(0, TABLE)) == 0

    def test_an_older_run_cannot_close(self, stand: Stand) -> None:
        first = stand.open_run()
        stand.open_run()

        with pytest.raises(Fenced):
            stand.close(1, [HashPut(TABLE, [b"a", b"1"])], first)
        assert (stand.ledger.marker().epoch, stand.slot(HashLength(0, TABLE))) == (0, 0)

    def test_a_run_that_was_never_opened_cannot_close(self, stand: Stand) -> None:
        """The run counter went back: this is another Redis, or an older one."""
        run = stand.open_run()

        with pytest.raises(StateLost):
            stand.close(1, run=run + 1)

    def test_only_the_newest_run_owns_the_pipeline(self, stand: Stand) -> None:
        first = stand.open_run()
        stand.ledger.require_run(stand.stamp(1, first))
        second = stand.open_run()

        stand.ledger.require_run(stand.stamp(1, second))
        with pytest.raises(Fenced, match=f"run {second} owns"):
            stand.ledger.require_run(stand.stamp(1, first))
        with pytest.raises(StateLost):
            stand.ledger.require_run(stand.stamp(1, second + 1))

    def test_effects_are_applied_in_order(self, stand: Stand) -> None:
        run = stand.open_run()
        effects: list[Effect] = [
            HashPut(TABLE, [b"a", b"1", b"b", b"2"]),
            HashDelete(TABLE, [b"a"]),
            StreamAppend(PROGRESS, [[b"j", b"{}"]], 9, b"1-0"),
        ]

        stand.close(1, effects, run)

        assert stand.slot(HashScan(0, TABLE)) == {b"b": b"2"}
        assert stand.slot(StreamScan(0, PROGRESS, None, 9)) == [(b"1-0", [b"j", b"{}"])]

    def test_effects_are_bounded(self, stand: Stand) -> None:
        run = stand.open_run()
        for epoch in range(1, 6):
            effect = StreamAppend(PROGRESS, [[b"j", b"%d" % epoch]], 2, b"%d-0" % epoch)
            stand.close(epoch, [effect], run)

        assert [e for e, _ in stand.slot(StreamScan(0, PROGRESS, None, 9))] == [b"4-0", b"5-0"]

    def test_names_may_be_given_in_full(self, stand: Stand) -> None:
        run = stand.open_run()
        prefix = b"tailrace:{%b}:" % stand.pipeline.encode()
        chunks = stand.ledger.stage(
            (prefix + STAGE).decode(), [HashPut(prefix + TABLE, [b"a", b"1"])]
        )

        stand.close(1, [ApplyStaged(prefix + STAGE, chunks)], run)

        assert stand.slot(HashScan(0, TABLE)) == {b"a": b"1"}

    def test_staged_writes_are_applied_at_their_place(self, stand: Stand) -> None:
        run = stand.open_run()
        pairs = [each for n in range(9_000) for each in (b"%d" % n, b"x")]
        chunks = stand.ledger.stage(STAGE, [HashPut(TABLE, pairs)])

        stand.close(
            1,
            [
                HashPut(TABLE, [b"1", b"before"]),
                ApplyStaged(STAGE, chunks),
                HashPut(TABLE, [b"2", b"behind"]),
            ],
            run,
        )

        assert stand.slot(HashGet(0, TABLE, [b"0", b"1", b"2"])) == [b"x", b"x", b"behind"]
        assert stand.slot(HashLength(0, TABLE)) == 9_000

    def test_only_named_staged_writes_are_applied(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.ledger.stage(b"stage:lost", [HashPut(TABLE, [b"a", b"lost"])])
        chunks = stand.ledger.stage(STAGE, [HashPut(TABLE, [b"b", b"1"])])

        stand.close(1, [ApplyStaged(STAGE, chunks)], run)

        assert stand.slot(HashScan(0, TABLE)) == {b"b": b"1"}

    def test_staging_nothing_is_allowed(self, stand: Stand) -> None:
        run = stand.open_run()
        chunks = stand.ledger.stage(STAGE, [])

        assert chunks == 0
        assert stand.close(1, [ApplyStaged(STAGE, chunks)], run)

    def test_a_staged_list_that_is_missing_stops_everything(self, stand: Stand) -> None:
        run = stand.open_run()
        chunks = stand.ledger.stage(STAGE, [HashPut(TABLE, [b"b", b"1"])])
        effects: list[Effect] = [CounterAdd(b"n", 1), HashPut(TABLE, [b"a", b"1"])]

        for bad in (ApplyStaged(b"stage:other", chunks), ApplyStaged(STAGE, chunks + 1)):
            with pytest.raises(StagedWritesGone):
                stand.close(1, [*effects, ApplyStaged(STAGE, chunks), bad], run)

        assert stand.slot(HashLength(0, TABLE)) == 0
        assert stand.close(1, [*effects, ApplyStaged(STAGE, chunks)], run)
        assert stand.slot(HashScan(0, TABLE)) == {b"a": b"1", b"b": b"1"}

    def test_staged_lists_do_not_outlive_their_epoch(self, stand: Stand) -> None:
        run = stand.open_run()
        chunks = stand.ledger.stage(STAGE, [HashPut(TABLE, [b"a", b"1"])])
        stand.close(1, [], run)

        with pytest.raises(StagedWritesGone):
            stand.close(2, [ApplyStaged(STAGE, chunks)], run)

    def test_staged_lists_do_not_outlive_their_run(self, stand: Stand) -> None:
        stand.open_run()
        chunks = stand.ledger.stage(STAGE, [HashPut(TABLE, [b"a", b"1"])])
        second = stand.open_run()

        with pytest.raises(StagedWritesGone):
            stand.close(1, [ApplyStaged(STAGE, chunks)], second)

    def test_an_effect_that_does_not_fit_stops_everything(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.close(1, [HashPut(TABLE, [b"a", b"1"])], run)

        for bad in (SortedPut(TABLE, [1, b"a"]), CounterAdd(TABLE, 1)):
            with pytest.raises(StateCorrupt):
                stand.close(2, [HashPut(TABLE, [b"a", b"2"]), bad], run)

        assert stand.slot(HashScan(0, TABLE)) == {b"a": b"1"}
        assert stand.ledger.check(2) is EpochCheck.PROCEED

    def test_a_taken_stream_id_stops_everything(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.close(1, [StreamAppend(PROGRESS, [[b"j", b"1"]], 9, b"7-0")], run)

        for bad in (b"7-0", b"2-0", None):
            effect = StreamAppend(PROGRESS, [[b"j", b"2"]], 9, bad)
            with pytest.raises(StateCorrupt):
                stand.close(2, [HashPut(TABLE, [b"a", b"1"]), effect], run)

        assert stand.slot(HashLength(0, TABLE)) == 0

    @pytest.mark.parametrize("name", [b"run", b"marker", b"stages", b""])
    def test_the_protocols_own_names_are_refused(self, stand: Stand, name: bytes) -> None:
        run = stand.open_run()

        with pytest.raises(InvariantViolation):
            stand.close(1, [HashPut(name, [b"a", b"1"])], run)
        with pytest.raises(InvariantViolation):
            stand.ledger.stage(STAGE, [HashPut(name, [b"a", b"1"])])
        with pytest.raises(InvariantViolation):
            stand.ledger.stage(name, [])

    def test_promoting_changes_nothing_that_is_seen(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(TABLE, [b"a", b"1"])], run)
        stand.attempt(2, {0: [HashPut(TABLE, [b"a", b"2"])]}, run)

        for _ in range(2):
            stand.ledger.promote_all([NODE, "no_such_node"], PARALLELISM)

        assert stand.begin(2, run).fetch([HashGet(0, TABLE, [b"a"])]) == [[b"1"]]

    def test_a_dropped_pipeline_leaves_its_run_counter_only(self, stand: Stand) -> None:
        first = stand.open_run()
        stand.run_epoch(1, [HashPut(TABLE, [b"a", b"1"])], first)
        stand.close(2, [HashPut(TABLE, [b"a", b"1"])], first)

        stand.ledger.drop()

        assert stand.ledger.marker().epoch == 0
        assert stand.slot(HashLength(0, TABLE)) == 0
        assert stand.view(NODE).fetch([HashLength(0, TABLE)]) == [0]
        assert stand.open_run() > first + 1

    def test_a_dropped_pipeline_fences_what_lives_on(self, stand: Stand) -> None:
        run = stand.open_run()
        orphan = stand.begin(1, run)
        orphan.fetch([])

        stand.ledger.drop()

        with pytest.raises(Fenced):
            orphan.commit({0: [HashPut(TABLE, [b"a", b"1"])]})
        with pytest.raises(Fenced):
            stand.close(1, run=run)

    def test_dropping_twice_is_dropping_once(self, stand: Stand) -> None:
        stand.ledger.drop()
        stand.ledger.drop()

        assert stand.ledger.marker().epoch == 0
