"""The contract of a state backend, as tests: attempts and runs.

A backend's tests subclass `StateBackendConformance` and `LedgerConformance` (in
`state.testing.ledger_conformance`) and give a fixture `stand`, a fresh pipeline for each test.
"""

# ruff: noqa: D102 - the name of a test says what holds

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from state.backends.interface import (
    CounterAdd,
    Drop,
    HashAdd,
    HashDelete,
    HashGet,
    HashLength,
    HashPut,
    HashReplace,
    HashScan,
    LexRemove,
    ScoreRemove,
    SortedPut,
    SortedTop,
    StreamAppend,
    StreamLength,
)
from state.errors import Fenced, InvariantViolation, StateCorrupt, ViewMoved
from state.testing.stand import NODE, PARALLELISM
from state.testing.structure_conformance import StructureConformance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.backends.interface import Write
    from state.testing.stand import Stand

H, Z, S = b"history", b"expiry", b"orphans"
MALFORMED: dict[str, Write] = {
    "field without value": HashPut(H, [b"a"]),
    "field without value that replaces": HashReplace(H, [b"a"]),
    "score without member": SortedPut(Z, [1.0]),
    "score that is NaN": SortedPut(Z, [math.nan, b"a"]),
    "stream without room": StreamAppend(S, [[b"a", b"b"]], 0),
    "stream entry without pairs": StreamAppend(S, [[b"a"]], 1),
    "one id for two entries": StreamAppend(S, [[b"a", b"b"]] * 2, 2, b"1-0"),
    "bound without a bracket": LexRemove(Z, b"a", b"+"),
    "inexact number": HashAdd(H, b"a", 2**60),
    "inexact bound": ScoreRemove(Z, 2**60),
    "name of the protocol": HashPut(b"meta", [b"run", b"9"]),
    "name of a part of what is pending": HashReplace(b"pending#1", [b"a", b"1"]),
    "name of a part of what is offered": Drop(b"offered#1"),
    "no name": Drop(b""),
}


class StateBackendConformance(StructureConformance):
    """Attempts and runs: who sees what, who may write, and what counts."""

    def test_what_is_expected_comes_as_if_it_were_fetched(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(H, [b"a", b"1", b"b", b"2"])], run)
        transaction = stand.begin(2, run)

        begun = transaction.expect([])
        first = transaction.expect([HashGet(0, H, [b"a"]), HashGet(0, H, [])])
        second = transaction.expect([HashGet(0, H, [b"b"])])

        assert transaction.fetch([HashScan(0, H)]) == [{b"a": b"1", b"b": b"2"}]
        assert (second(), first(), begun()) == ([[b"2"]], [[b"1"], []], [])
        assert transaction.fetch([HashGet(0, H, [b"b"])]) == [[b"2"]]

    def test_an_epoch_may_be_committed_while_something_is_expected(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(H, [b"a", b"1"])], run)
        transaction = stand.begin(2, run)
        transaction.expect([HashGet(0, H, [b"a"])])

        transaction.commit({0: [HashPut(H, [b"a", b"2"])]})
        stand.close(2, [], run)

        assert stand.begin(3, run).fetch([HashGet(0, H, [b"a"])]) == [[b"2"]]

    def test_a_commit_in_two_halves_is_a_commit(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(H, [b"a", b"1"])], run)
        transaction = stand.begin(2, run)
        transaction.expect([HashGet(0, H, [b"a"])])
        writes: dict[int, Sequence[Write]] = {0: [HashReplace(H, [b"b", b"x" * 10_000])], 1: []}

        transaction.committing(writes)()
        other = stand.begin(2, run)
        other.fetch([])
        with pytest.raises(InvariantViolation, match="different"):
            other.committing({0: [HashReplace(H, [b"b", b"y" * 10_000])]})()
        stand.close(2, [], run)

        assert stand.begin(3, run).fetch([HashScan(0, H)]) == [{b"b": b"x" * 10_000}]
        assert transaction.statistics().writes == 1
        with pytest.raises(InvariantViolation):
            transaction.committing(writes)()

    def test_a_commit_in_two_halves_of_a_stale_run_is_refused(self, stand: Stand) -> None:
        transaction = stand.begin(1, stand.open_run())
        transaction.fetch([])
        stand.open_run()

        with pytest.raises(Fenced):
            transaction.committing({0: [HashPut(H, [b"a", b"1"])]})()

    def test_nobody_need_wait_for_what_is_expected(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(H, [b"a", b"1"])], run)
        for _ in range(3):
            stand.begin(2, run).expect([HashGet(0, H, [b"a"])])

        assert stand.begin(2, run).fetch([HashGet(0, H, [b"a"])]) == [[b"1"]]

    def test_what_is_expected_of_a_newer_run_is_refused(self, stand: Stand) -> None:
        waiting = stand.begin(1, stand.open_run()).expect([])
        stale = stand.begin(1, stand.open_run() - 1)

        with pytest.raises(Fenced):
            stale.expect([HashGet(0, H, [b"a"])])()
        del waiting

    def test_a_version_tells_which_state_is_read(self, stand: Stand) -> None:
        """What an epoch wrote has one version, until another one writes, or a run begins."""
        run = stand.open_run()
        first = stand.attempt(1, {0: [HashPut(b"h", [b"a", b"1"])]})
        stand.close(1)
        second = stand.begin(2)
        assert second.version_read(0) == first.version_written(0) is not None
        assert second.version_written(0) != first.version_written(0)
        assert second.version_read(1) != first.version_written(1)
        second.commit({1: [HashPut(b"h", [b"a", b"1"])]})
        stand.close(2)
        third = stand.begin(3)
        assert third.version_read(0) == first.version_written(0)
        assert third.version_read(1) == second.version_written(1)
        assert third.version_read(0) != third.version_read(1)
        other = stand.begin(3, node="2_other")
        other.fetch([])
        assert other.version_read(0) != third.version_read(0)
        assert stand.open_run() == run + 1
        assert stand.begin(3, run + 1).version_read(0) != first.version_written(0)

    def test_a_version_that_was_not_closed_is_not_read(self, stand: Stand) -> None:
        stand.open_run()
        first = stand.attempt(1, {0: [HashPut(b"h", [b"a", b"1"])]})
        again = stand.begin(1)
        assert again.version_read(0) != first.version_written(0) == again.version_written(0)
        with pytest.raises(InvariantViolation):
            again.version_read(PARALLELISM)

    def test_key_groups_do_not_share_state(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.attempt(1, {0: [HashPut(H, [b"a", b"0"])], 1: [HashPut(H, [b"a", b"1"])]}, run)
        stand.close(1, run=run)

        values = stand.begin(2, run).fetch([HashGet(n, H, [b"a"]) for n in range(3)])

        assert values == [[b"0"], [b"1"], [None]]

    def test_nodes_do_not_share_state(self, stand: Stand) -> None:
        run = stand.open_run(NODE, "2_join")
        stand.attempt(1, {0: [HashPut(H, [b"a", b"1"])]}, run)
        stand.attempt(1, {0: [HashPut(H, [b"a", b"2"])]}, run, node="2_join")
        stand.close(1, run=run)

        read = [HashGet(0, H, [b"a"])]

        assert stand.begin(2, run).fetch(read) == [[b"1"]]
        assert stand.begin(2, run, node="2_join").fetch(read) == [[b"2"]]

    def test_an_epoch_sees_the_one_before_without_promoting(self, stand: Stand) -> None:
        run = stand.open_run()
        for epoch in range(1, 5):
            transaction = stand.begin(epoch, run)
            (value,) = transaction.fetch([HashGet(0, H, [b"n"])])
            assert value == [None if epoch == 1 else b"%d" % (epoch - 1)]
            transaction.commit({0: [HashPut(H, [b"n", b"%d" % epoch])]})
            stand.close(epoch, run=run)

    def test_another_attempt_sees_what_the_first_one_saw(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(H, [b"a", b"1"])], run)
        stand.attempt(2, {0: [HashPut(H, [b"a", b"2"])]}, run)

        assert stand.begin(2, run).fetch([HashGet(0, H, [b"a"])]) == [[b"1"]]

    def test_a_later_fetch_sees_the_same_state(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(H, [b"a", b"1"])], run)
        transaction = stand.begin(2, run)
        transaction.fetch([])
        stand.attempt(2, {0: [HashPut(H, [b"a", b"2"])]}, run)

        assert transaction.fetch([HashGet(0, H, [b"a"])]) == [[b"1"]]

    def test_two_attempts_that_commit_count_once(self, stand: Stand) -> None:
        run = stand.open_run()
        writes: list[Write] = [HashAdd(H, b"n", 1), StreamAppend(S, [[b"k", b"v"]], 9)]
        stand.attempt(1, {0: writes}, run)
        stand.attempt(1, {0: writes}, run)
        stand.close(1, run=run)

        seen = stand.begin(2, run).fetch([HashScan(0, H), StreamLength(0, S)])

        assert seen == [{b"n": b"1"}, 1]

    def test_a_late_begin_leaves_the_commit_of_another_attempt(self, stand: Stand) -> None:
        """A zombie that begins, and dies, after the attempt that counts has committed."""
        run = stand.open_run()
        stand.attempt(1, {0: [HashPut(H, [b"a", b"1"])]}, run)
        stand.begin(1, run).fetch([])
        stand.close(1, run=run)

        assert stand.begin(2, run).fetch([HashGet(0, H, [b"a"])]) == [[b"1"]]

    def test_attempts_that_differ_are_reported(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.attempt(1, {0: [HashPut(H, [b"a", b"1"])]}, run)

        with pytest.raises(InvariantViolation):
            stand.attempt(1, {0: [HashPut(H, [b"a", b"2"])]}, run)
        stand.close(1, run=run)

        assert stand.begin(2, run).fetch([HashGet(0, H, [b"a"])]) == [[b"1"]]

    def test_a_new_run_discards_what_was_not_closed(self, stand: Stand) -> None:
        first = stand.open_run()
        stand.run_epoch(1, [HashPut(H, [b"a", b"1"])], first)
        stand.attempt(2, {0: [HashPut(H, [b"a", b"2"])]}, first)

        second = stand.open_run()
        stand.attempt(2, {1: [HashPut(H, [b"a", b"other"])]}, second)
        stand.close(2, run=second)

        values = stand.begin(3, second).fetch([HashGet(n, H, [b"a"]) for n in (0, 1)])
        assert values == [[b"1"], [b"other"]]

    def test_a_new_run_keeps_what_was_closed(self, stand: Stand) -> None:
        stand.run_epoch(1, [HashPut(H, [b"a", b"1"])], stand.open_run())

        second = stand.open_run()

        assert stand.begin(2, second).fetch([HashGet(0, H, [b"a"])]) == [[b"1"]]

    @pytest.mark.parametrize("begun", [False, True], ids=["before begin", "after begin"])
    def test_an_older_run_is_fenced(self, stand: Stand, begun: bool) -> None:
        first = stand.open_run()
        stale = stand.begin(1, first)
        if begun:
            stale.fetch([])
        stand.open_run()

        with pytest.raises(Fenced):
            stale.commit({2: [HashPut(H, [b"a", b"1"])]})

    @pytest.mark.parametrize("begun", [False, True], ids=["before begin", "after begin"])
    def test_an_attempt_of_a_promoted_epoch_is_fenced(self, stand: Stand, begun: bool) -> None:
        run = stand.open_run()
        stale = stand.begin(1, run)
        if begun:
            stale.fetch([])
        stand.run_epoch(1, [HashPut(H, [b"a", b"1"])], run)
        stand.ledger.promote_all([NODE], 4)

        with pytest.raises(Fenced):
            stale.commit({0: [HashPut(H, [b"a", b"1"])]})

    def test_a_commit_needs_no_fetch(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.begin(1, run).commit({0: [HashPut(H, [b"a", b"1"])]})
        stand.close(1, run=run)

        assert stand.begin(2, run).fetch([HashGet(0, H, [b"a"])]) == [[b"1"]]

    def test_a_transaction_ends_with_its_commit(self, stand: Stand) -> None:
        transaction = stand.attempt(1, {}, stand.open_run())

        with pytest.raises(InvariantViolation):
            transaction.fetch([])
        with pytest.raises(InvariantViolation):
            transaction.commit({})

    def test_other_key_groups_are_refused(self, stand: Stand) -> None:
        stamp = stand.stamp(1, stand.open_run())

        with pytest.raises(InvariantViolation):
            stand.backend.begin(NODE, stamp, [0]).fetch([HashLength(1, H)])
        with pytest.raises(InvariantViolation):
            stand.backend.begin(NODE, stamp, [0]).commit({1: []})

    @pytest.mark.parametrize("write", MALFORMED.values(), ids=MALFORMED.keys())
    def test_malformed_writes_are_refused_at_the_commit(self, stand: Stand, write: Write) -> None:
        run = stand.open_run()

        with pytest.raises(InvariantViolation):
            stand.attempt(1, {0: [HashPut(H, [b"a", b"1"]), write]}, run)

        stand.close(1, run=run)
        assert stand.begin(2, run).fetch([HashScan(0, H)]) == [{}]

    @pytest.mark.parametrize(
        "write",
        [
            SortedPut(H, [1, b"a"]),
            LexRemove(H, b"-", b"+"),
            HashAdd(H, b"a", 1),
            CounterAdd(H, 1),
        ],
        ids=["other type", "no sorted set", "no number", "no counter"],
    )
    def test_writes_that_do_not_fit_leave_state_alone(self, stand: Stand, write: Write) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(H, [b"a", b"text"])], run)
        stand.run_epoch(2, [HashPut(b"other", [b"a", b"1"]), write], run)

        with pytest.raises(StateCorrupt):
            stand.begin(3, run).fetch([])
        with pytest.raises(StateCorrupt):
            stand.ledger.promote_all([NODE], 4)

    def test_a_read_of_another_type_is_refused(self, stand: Stand) -> None:
        with pytest.raises(StateCorrupt):
            stand.after([HashPut(H, [b"a", b"1"])], SortedTop(0, H, 1))

    def test_costs_are_counted(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(H, [b"a", b"1", b"b", b"2"])], run)

        transaction = stand.begin(2, run)
        transaction.fetch([HashGet(0, H, [b"a", b"x"]), HashScan(0, H)])
        transaction.commit({0: [HashPut(H, [b"a", b"3"])], 1: [HashDelete(H, [b"a"])], 2: []})
        seen = transaction.statistics()

        assert (seen.reads, seen.writes, seen.round_trips) == (4, 2, 2)
        assert seen.commands == 4 + 2 + 2  # a begin each of four key groups, reads, commits
        assert seen.commit_ns > 0

    def test_a_view_shows_only_what_is_closed(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(H, [b"a", b"1"])], run)
        stand.attempt(2, {0: [HashPut(H, [b"a", b"2"])]}, run)

        view = stand.view(NODE)
        assert (view.fetch([HashGet(0, H, [b"a"]), HashGet(3, H, [])]), view.epoch) == (
            [[b"1"], []],
            1,
        )

        stand.close(2, run=run)
        view = stand.view(NODE)
        assert (view.fetch([HashGet(0, H, [b"a"])]), view.epoch) == ([[b"2"]], 2)

    def test_a_view_stays_in_its_epoch(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(H, [b"a", b"1"])], run)
        view = stand.view(NODE)
        view.fetch([HashLength(0, H)])
        stand.run_epoch(2, [HashPut(H, [b"a", b"2"])], run)

        with pytest.raises(ViewMoved):
            view.fetch([HashLength(0, H)])
        with pytest.raises(ViewMoved):
            view.scan_hash(0, H)

    def test_a_view_pages_through_a_hash(self, stand: Stand) -> None:
        held = {b"%d" % n: b"v%d" % n for n in range(1_000)}
        stand.run_epoch(1, [HashPut(H, [e for p in held.items() for e in p])], stand.open_run())
        view = stand.view(NODE)

        seen: dict[bytes, bytes] = {}
        cursor, pages = 0, 0
        while pages == 0 or cursor:
            cursor, page = view.scan_hash(0, H, cursor, count=50)
            seen.update(page)
            pages += 1

        assert seen == held
        assert pages > 5

    def test_a_page_may_be_of_matching_fields(self, stand: Stand) -> None:
        pairs = [b'["a"]', b"1", b'["ab"]', b"2", b'["b"]', b"3"]
        stand.run_epoch(1, [HashPut(H, pairs)], stand.open_run())

        cursor, page = stand.view(NODE).scan_hash(0, H, 0, rb'\["a*')

        assert cursor == 0
        assert dict(page) == {b'["a"]': b"1", b'["ab"]': b"2"}
