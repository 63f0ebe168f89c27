"""The contract of a state backend, as tests: structures, attempts, runs.

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
    HashScan,
    LexRemove,
    SortedLength,
    SortedPut,
    SortedRange,
    SortedRemove,
    SortedScores,
    SortedTop,
    StreamAppend,
    StreamLength,
    StreamScan,
)
from state.errors import Fenced, InvariantViolation, StateCorrupt, ViewMoved
from state.testing.lex_conformance import LexConformance
from state.testing.stand import NODE

if TYPE_CHECKING:
    from state.backends.interface import Read, Write
    from state.testing.stand import Stand

H, Z, S = b"history", b"expiry", b"orphans"
AWKWARD = [
    b"",
    b"\x00",
    b"\xff\xfe",
    b"a\r\nb",
    "\N{SNOWMAN}".encode(),
    b"*?[]{}\\",
    b"x" * 100_000,
]
"""Bytes that a careless layer would alter."""

MALFORMED: dict[str, Write] = {
    "field without value": HashPut(H, [b"a"]),
    "score without member": SortedPut(Z, [1.0]),
    "score that is NaN": SortedPut(Z, [math.nan, b"a"]),
    "stream without room": StreamAppend(S, [[b"a", b"b"]], 0),
    "stream entry without pairs": StreamAppend(S, [[b"a"]], 1),
    "one id for two entries": StreamAppend(S, [[b"a", b"b"]] * 2, 2, b"1-0"),
    "bound without a bracket": LexRemove(Z, b"a", b"+"),
    "inexact number": HashAdd(H, b"a", 2**60),
    "name of the protocol": HashPut(b"meta", [b"run", b"9"]),
    "no name": Drop(b""),
}


class StructureConformance(LexConformance):
    """Each read sees what each write left, epoch after epoch."""

    def test_what_was_never_written_is_absent(self, stand: Stand) -> None:
        absent = stand.after(
            [], HashGet(0, H, [b"a"]), HashScan(0, H), SortedTop(0, Z, 3), StreamScan(0, S, None, 3)
        )

        assert absent == [[None], {}, [], []]

    def test_lengths_of_what_was_never_written_are_zero(self, stand: Stand) -> None:
        assert stand.after([], HashLength(0, H), SortedLength(0, Z), StreamLength(0, S)) == [0] * 3

    def test_values_come_in_the_order_asked_for(self, stand: Stand) -> None:
        writes: list[Write] = [HashPut(H, [b"a", b"1", b"b", b"2", b"c", b"3"])]

        (values,) = stand.after(writes, HashGet(0, H, [b"c", b"nothing", b"a", b"c"]))

        assert values == [b"3", None, b"1", b"3"]

    def test_a_second_put_replaces_the_first(self, stand: Stand) -> None:
        writes: list[Write] = [HashPut(H, [b"a", b"1", b"a", b"2"]), HashPut(H, [b"a", b"3"])]

        assert stand.after(writes, HashScan(0, H)) == [{b"a": b"3"}]

    def test_bytes_stay_as_they_are(self, stand: Stand) -> None:
        pairs = [each for one in AWKWARD for each in (one, one[::-1])]

        values, scan = stand.after([HashPut(H, pairs)], HashGet(0, H, AWKWARD), HashScan(0, H))

        assert values == [each[::-1] for each in AWKWARD]
        assert scan == dict(zip(AWKWARD, values, strict=True))

    def test_names_may_hold_any_bytes(self, stand: Stand) -> None:
        names = [b"history:" + each[:40] for each in AWKWARD if each]
        writes: list[Write] = [HashPut(name, [b"a", name]) for name in names]

        assert stand.after(writes, *(HashGet(0, n, [b"a"]) for n in names)) == [[n] for n in names]

    def test_deleted_fields_are_gone_and_others_stay(self, stand: Stand) -> None:
        writes: list[Write] = [
            HashPut(H, [b"a", b"1", b"b", b"2"]),
            HashDelete(H, [b"a", b"never"]),
        ]

        assert stand.after(writes, HashScan(0, H), HashLength(0, H)) == [{b"b": b"2"}, 1]

    def test_a_number_in_a_field_is_added_to(self, stand: Stand) -> None:
        writes: list[Write] = [HashAdd(H, b"n", 5), HashAdd(H, b"n", -7), HashAdd(H, b"big", 2**50)]

        assert stand.after(writes, HashScan(0, H)) == [{b"n": b"-2", b"big": b"%d" % 2**50}]

    def test_the_top_is_highest_first_and_ties_go_by_bytes(self, stand: Stand) -> None:
        writes: list[Write] = [SortedPut(Z, [1, b"low", 3, b"b", 3, b"a", 2.5, b"middle"])]

        top, all_ = stand.after(writes, SortedTop(0, Z, 2), SortedTop(0, Z, 99))

        assert top == [(b"b", 3.0), (b"a", 3.0)]
        assert all_ == [*top, (b"middle", 2.5), (b"low", 1.0)]

    def test_the_top_below_a_score_includes_it(self, stand: Stand) -> None:
        writes: list[Write] = [SortedPut(Z, [score for n in range(6) for score in (n, b"m%d" % n)])]

        some, one, all_, none, nothing = stand.after(
            writes,
            SortedTop(0, Z, 2, 3),
            SortedTop(0, Z, 1, 3.5),
            SortedTop(0, Z, 9, 1),
            SortedTop(0, Z, 9, -1),
            SortedTop(0, Z, 0, 3),
        )

        assert some == [(b"m3", 3.0), (b"m2", 2.0)]
        assert one == [(b"m3", 3.0)]
        assert all_ == [(b"m1", 1.0), (b"m0", 0.0)]
        assert none == nothing == []

    def test_a_range_includes_both_bounds(self, stand: Stand) -> None:
        writes: list[Write] = [SortedPut(Z, [score for n in range(6) for score in (n, b"m%d" % n)])]

        inside, first, low, none = stand.after(
            writes,
            SortedRange(0, Z, 2, 4),
            SortedRange(0, Z, 2, 4, 1),
            SortedRange(0, Z, -math.inf, 1),
            SortedRange(0, Z, 4.5, 4.9),
        )

        assert inside == [(b"m2", 2.0), (b"m3", 3.0), (b"m4", 4.0)]
        assert first == inside[:1]
        assert low == [(b"m0", 0.0), (b"m1", 1.0)]
        assert none == []

    def test_scores_are_exact_up_to_milliseconds_of_today(self, stand: Stand) -> None:
        scores = [1_767_225_600_123, 2**53, 0.1, -5, math.inf]
        writes: list[Write] = [
            SortedPut(Z, [e for n, s in enumerate(scores) for e in (s, b"%d" % n)])
        ]
        members = [b"%d" % n for n in range(len(scores))]

        (found,) = stand.after(writes, SortedScores(0, Z, [*members, b"none"]))

        assert found == [*map(float, scores), None]

    def test_a_second_score_moves_a_member(self, stand: Stand) -> None:
        writes: list[Write] = [SortedPut(Z, [1, b"a", 2, b"b"]), SortedPut(Z, [3, b"a"])]

        assert stand.after(writes, SortedTop(0, Z, 9)) == [[(b"a", 3.0), (b"b", 2.0)]]

    def test_removed_members_are_gone(self, stand: Stand) -> None:
        writes: list[Write] = [SortedPut(Z, [1, b"a", 2, b"b"]), SortedRemove(Z, [b"a", b"never"])]

        assert stand.after(writes, SortedTop(0, Z, 9), SortedLength(0, Z)) == [[(b"b", 2.0)], 1]

    def test_dropped_structures_are_gone(self, stand: Stand) -> None:
        writes: list[Write] = [
            HashPut(H, [b"a", b"1"]),
            SortedPut(Z, [1, b"a"]),
            Drop(H),
            Drop(Z),
            Drop(b"no"),
        ]

        assert stand.after(writes, HashScan(0, H), SortedLength(0, Z)) == [{}, 0]

    def test_a_name_may_get_another_type_once_it_is_dropped(self, stand: Stand) -> None:
        writes: list[Write] = [HashPut(H, [b"a", b"1"]), Drop(H), SortedPut(H, [1, b"a"])]

        assert stand.after(writes, SortedTop(0, H, 1)) == [[(b"a", 1.0)]]

    def test_writes_are_carried_out_in_order(self, stand: Stand) -> None:
        writes: list[Write] = [
            HashPut(H, [b"a", b"1"]),
            HashDelete(H, [b"a"]),
            HashPut(H, [b"a", b"2"]),
            SortedPut(Z, [1, b"a"]),
            Drop(Z),
            SortedPut(Z, [2, b"b"]),
        ]

        assert stand.after(writes, HashScan(0, H), SortedTop(0, Z, 9)) == [
            {b"a": b"2"},
            [(b"b", 2.0)],
        ]

    def test_stream_entries_are_numbered_by_epoch(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [StreamAppend(S, [[b"k", b"a"], [b"k", b"b"]], 10)], run)
        stand.run_epoch(2, [], run)
        stand.run_epoch(3, [StreamAppend(S, [[b"k", b"c"]], 10)] * 2, run)

        (entries,) = stand.begin(4, run).fetch([StreamScan(0, S, None, 10)])

        assert [each for each, _ in entries] == [b"1-0", b"1-1", b"3-0", b"3-1"]
        assert entries[0][1] == [b"k", b"a"]

    def test_a_stream_keeps_the_newest_entries(self, stand: Stand) -> None:
        writes: list[Write] = [StreamAppend(S, [[b"k", b"%d" % n] for n in range(5_000)], 3)]

        entries, length = stand.after(writes, StreamScan(0, S, None, 10), StreamLength(0, S))

        assert [fields[1] for _, fields in entries] == [b"4997", b"4998", b"4999"]
        assert length == 3

    def test_a_stream_is_read_on_from_an_entry(self, stand: Stand) -> None:
        writes: list[Write] = [StreamAppend(S, [[b"k", b"%d" % n] for n in range(5)], 10)]

        (page,) = stand.after(writes, StreamScan(0, S, b"1-1", 2))

        assert page == [(b"1-2", [b"k", b"2"]), (b"1-3", [b"k", b"3"])]

    def test_an_entry_may_bring_its_id(self, stand: Stand) -> None:
        writes: list[Write] = [
            StreamAppend(S, [[b"k", b"a"]], 10, b"1-7"),
            StreamAppend(S, [[b"k", b"b"]], 10),
        ]

        (entries,) = stand.after(writes, StreamScan(0, S, None, 10))

        assert [each for each, _ in entries] == [b"1-7", b"1-8"]

    def test_more_than_a_command_can_carry_is_written(self, stand: Stand) -> None:
        fields = [b"%d" % n for n in range(9_001)]
        writes: list[Write] = [
            HashPut(H, [each for one in fields for each in (one, one)]),
            SortedPut(Z, [each for n, one in enumerate(fields) for each in (n, one)]),
            SortedRemove(Z, fields[:8_500]),
        ]

        scan, length = stand.after(writes, HashScan(0, H), SortedLength(0, Z))

        assert scan == dict(zip(fields, fields, strict=True))
        assert length == 501

    def test_thousands_of_small_writes_are_written(self, stand: Stand) -> None:
        writes: list[Write] = [HashPut(b"h%d" % n, [b"a", b"%d" % n]) for n in range(3_000)]

        values = stand.after(writes, *(HashGet(0, b"h%d" % n, [b"a"]) for n in range(3_000)))

        assert values == [[b"%d" % n] for n in range(3_000)]

    def test_empty_reads_and_writes_do_nothing(self, stand: Stand) -> None:
        writes: list[Write] = [
            HashPut(H, []),
            SortedPut(H, []),
            HashDelete(S, []),
            StreamAppend(Z, [], 5),
        ]
        reads: list[Read] = [HashGet(0, H, []), SortedScores(0, Z, []), SortedTop(0, Z, 0)]

        assert stand.after(writes, *reads) == [[], [], []]


class StateBackendConformance(StructureConformance):
    """Attempts and runs: who sees what, who may write, and what counts."""

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
