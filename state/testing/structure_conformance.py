"""What hashes, sorted sets, streams and counters of a state backend do, as tests."""

# ruff: noqa: D102 - the name of a test says what holds

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from state.backends.interface import (
    Drop,
    HashAdd,
    HashDelete,
    HashGet,
    HashKeys,
    HashLength,
    HashPut,
    HashReplace,
    HashScan,
    ScoreRemove,
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
from state.testing.lex_conformance import LexConformance

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

    @pytest.mark.parametrize("length", [1, 10_000])
    def test_a_replaced_hash_has_what_replaces_it_and_nothing_else(
        self, stand: Stand, length: int
    ) -> None:
        long = [b"b", b"2" * length, b"c", b"3" * length]
        writes: list[Write] = [HashPut(H, [b"a", b"1", b"b", b"1"]), HashReplace(H, long)]

        assert stand.after(writes, HashScan(0, H)) == [
            dict(zip(long[0::2], long[1::2], strict=True))
        ]

    def test_replacing_and_putting_keep_their_order(self, stand: Stand) -> None:
        long = b"x" * 10_000
        writes: list[Write] = [
            HashReplace(H, [b"a", long]),
            HashPut(H, [b"b", b"1"]),
            HashReplace(H, [b"a", long, b"c", b"1"]),
            HashPut(H, [b"d", b"1"]),
            HashReplace(b"other", [b"a", long]),
        ]

        whole, other = stand.after(writes, HashScan(0, H), HashScan(0, b"other"))

        assert whole == {b"a": long, b"c": b"1", b"d": b"1"}
        assert other == {b"a": long}

    def test_a_hash_replaced_by_nothing_is_gone(self, stand: Stand) -> None:
        writes: list[Write] = [HashPut(H, [b"a", b"1"]), HashReplace(H, [])]

        assert stand.after(writes, HashScan(0, H), HashLength(0, H)) == [{}, 0]

    def test_many_hashes_are_replaced_at_once(self, stand: Stand) -> None:
        long = b"x" * 10_000
        names = [b"h%d" % number for number in range(40)]
        writes: list[Write] = [HashReplace(name, [b"a", long, b"b", name]) for name in names]

        found = stand.after(writes, *(HashScan(0, name) for name in names))

        assert found == [{b"a": long, b"b": name} for name in names]

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

        reads = (HashScan(0, H), HashKeys(0, H), HashLength(0, H))
        assert stand.after(writes, *reads) == [{b"b": b"2"}, [b"b"], 1]

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

    def test_members_up_to_a_score_are_gone(self, stand: Stand) -> None:
        held: Write = SortedPut(Z, [1, b"a", 2, b"b", 2.5, b"c"])
        run = stand.open_run()
        stand.run_epoch(1, [ScoreRemove(Z, 9), held], run)
        stand.run_epoch(2, [ScoreRemove(Z, 2), SortedPut(Z, [-1, b"a"])], run)

        (left,) = stand.begin(3, run).fetch([SortedTop(0, Z, 9)])
        assert left == [(b"c", 2.5), (b"a", -1.0)]
        stand.run_epoch(3, [ScoreRemove(Z, 3)], run)
        assert stand.begin(4, run).fetch([SortedLength(0, Z)]) == [0]

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
