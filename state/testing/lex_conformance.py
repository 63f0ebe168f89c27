"""The contract of a state backend, as tests: members of a sorted set by their bytes.

Part of `state.testing.conformance`; a fixture `stand` is a fresh pipeline for each test.
"""

# ruff: noqa: D102 - the name of a test says what holds

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from state.backends.interface import (
    HashPut,
    HashScan,
    LexCount,
    LexRange,
    LexRemove,
    SortedLength,
    SortedPut,
    SortedScores,
)
from state.errors import InvariantViolation, StateCorrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.backends.interface import Write
    from state.testing.stand import Stand

O = b"map:key:order"  # noqa: E741 - short, as the other names of structures in these suites
MEMBERS = [b"a", b"b", b"ba", b"bb", b"c"]
WITHIN: dict[tuple[bytes, bytes], Sequence[bytes]] = {
    (b"-", b"+"): MEMBERS,
    (b"-", b"[b"): MEMBERS[:2],
    (b"-", b"(b"): MEMBERS[:1],
    (b"[b", b"+"): MEMBERS[1:],
    (b"(b", b"+"): MEMBERS[2:],
    (b"[b", b"(c"): MEMBERS[1:4],
    (b"[b", b"[b"): [b"b"],
    (b"(b", b"[b"): [],
    (b"[", b"[bzz"): MEMBERS[:4],
    (b"[c", b"[a"): [],
    (b"+", b"-"): [],
    (b"-", b"-"): [],
    (b"+", b"+"): [],
}
"""What of `MEMBERS` lies between two bounds."""


def put(members: Sequence[bytes]) -> SortedPut:
    """A write that adds members of one score."""
    return SortedPut(O, [each for member in members for each in (0, member)])


class LexConformance:
    """Ranges by bytes: read, counted and removed."""

    @pytest.mark.parametrize("bounds", WITHIN, ids=repr)
    def test_a_range_by_bytes_keeps_its_bounds(
        self, stand: Stand, bounds: tuple[bytes, bytes]
    ) -> None:
        expected = [*WITHIN[bounds]]

        forth, back, count = stand.after(
            [put(MEMBERS[::-1])],
            LexRange(0, O, *bounds),
            LexRange(0, O, *bounds, reverse=True),
            LexCount(0, O, *bounds),
        )

        assert (forth, back, count) == (expected, expected[::-1], len(expected))

    @pytest.mark.parametrize("bounds", WITHIN, ids=repr)
    def test_a_range_by_bytes_is_removed(self, stand: Stand, bounds: tuple[bytes, bytes]) -> None:
        rest = [each for each in MEMBERS if each not in WITHIN[bounds]]

        left, length, scores = stand.after(
            [put(MEMBERS), LexRemove(O, *bounds)],
            LexRange(0, O, b"-", b"+"),
            SortedLength(0, O),
            SortedScores(0, O, MEMBERS),
        )

        assert (left, length) == (rest, len(rest))
        assert scores == [0.0 if each in rest else None for each in MEMBERS]

    def test_a_limit_takes_from_the_end_where_the_range_begins(self, stand: Stand) -> None:
        first, last, none, backwards, many = stand.after(
            [put(MEMBERS)],
            LexRange(0, O, b"-", b"+", 2),
            LexRange(0, O, b"-", b"(c", 2, reverse=True),
            LexRange(0, O, b"-", b"+", 0),
            LexRange(0, O, b"[c", b"[a", 2, reverse=True),
            LexRange(0, O, b"(a", b"+", 99),
        )

        assert first == [b"a", b"b"]
        assert last == [b"bb", b"ba"]
        assert none == backwards == []
        assert many == MEMBERS[1:]

    def test_bytes_of_members_are_unsigned(self, stand: Stand) -> None:
        members = [b"", b"\x00", b"\x01", b"\t", b"\n", b"\r\n", b"-", b"[", b"\x7f", b"\x80\x00"]
        members += [b"\xff", b"\xff\x00"]

        whole, high, low = stand.after(
            [put(members[::-1])],
            LexRange(0, O, b"-", b"+"),
            LexRange(0, O, b"(\x7f", b"[\xff"),
            LexRange(0, O, b"-", b"(\x01"),
        )

        assert whole == members
        assert high == [b"\x80\x00", b"\xff"]
        assert low == [b"", b"\x00"]

    def test_a_set_that_a_range_emptied_is_none(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [put(MEMBERS), LexRemove(O, b"-", b"+")], run)
        stand.run_epoch(2, [HashPut(O, [b"a", b"1"])], run)

        assert stand.begin(3, run).fetch([HashScan(0, O)]) == [{b"a": b"1"}]

    def test_nothing_lies_in_what_was_never_written(self, stand: Stand) -> None:
        found = stand.after(
            [LexRemove(O, b"-", b"+")],
            LexRange(0, O, b"-", b"+"),
            LexRange(0, O, b"[a", b"+", 3, reverse=True),
            LexCount(0, O, b"-", b"+"),
        )

        assert found == [[], [], 0]

    def test_removals_and_additions_go_in_order(self, stand: Stand) -> None:
        writes: list[Write] = [put([b"a", b"b"]), LexRemove(O, b"[b", b"+"), put([b"c"])]

        assert stand.after(writes, LexRange(0, O, b"-", b"+")) == [[b"a", b"c"]]

    def test_a_range_of_many_members_is_one_command(self, stand: Stand) -> None:
        members = [b"%05d" % each for each in range(20_000)]
        run = stand.open_run()
        stand.run_epoch(1, [put(members)], run)
        transaction = stand.begin(2, run)
        transaction.fetch([])
        before = transaction.statistics()

        (found,) = transaction.fetch([LexRange(0, O, b"[00100", b"(15000")])
        transaction.commit({0: [LexRemove(O, b"[00100", b"(15000")]})
        seen = transaction.statistics()
        stand.close(2, run=run)

        assert found == members[100:15_000]
        assert (seen.commands - before.commands, seen.reads, seen.writes) == (2, 14_900, 1)
        assert stand.begin(3, run).fetch([SortedLength(0, O)]) == [5_100]

    @pytest.mark.parametrize("bounds", [(b"a", b"+"), (b"-", b""), (b"-x", b"+"), (b"-", b"]a")])
    def test_malformed_bounds_are_refused(self, stand: Stand, bounds: tuple[bytes, bytes]) -> None:
        run = stand.open_run()

        for read in (LexRange(0, O, *bounds), LexCount(0, O, *bounds)):
            with pytest.raises(InvariantViolation):
                stand.begin(1, run).fetch([read])
        with pytest.raises(InvariantViolation):
            stand.attempt(1, {0: [LexRemove(O, *bounds)]}, run)

    def test_a_range_of_another_type_is_refused(self, stand: Stand) -> None:
        run = stand.open_run()
        stand.run_epoch(1, [HashPut(O, [b"a", b"1"])], run)

        with pytest.raises(StateCorrupt):
            stand.begin(2, run).fetch([LexRange(0, O, b"-", b"+")])
        stand.run_epoch(2, [LexRemove(O, b"-", b"+")], run)
        with pytest.raises(StateCorrupt):
            stand.begin(3, run).fetch([])
