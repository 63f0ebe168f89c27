"""Which changes follow when ranks shift: steps, each with the rank that it is about.

Ranks are row numbers from 1. A row that comes, goes or moves shifts the rows between; where ranks
are emitted each shifted rank is an update of one row to another:

    rows A B C, D comes to rank 2 of 3        rows A B C D, B goes, ranks 1 to 3 are shown
    -U B 2   +U D 2                           -U B 2   +U C 2
    -U C 3   +U B 3                           -U C 3   +U D 3

where they are not, only who enters and who leaves the range:

    -D C   +I D                               -D B   +I D

Without ranks, but with a range that begins behind rank 1, the updates of shifted ranks are emitted
without their ranks. That adds up as long as -U is emitted. Where it is not, whoever leaves would
stay: then what the steps add up to is emitted, as -D and +I. (Flink emits the bare +U, and rows
that left the range stay in the sink.)

Source: Flink's AbstractTopNFunction and its subclasses (2.3), held to recordings of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from operators.changelog import Row, RowKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from operators.keyed import InputChange


class Step(NamedTuple):
    """A change at a rank."""

    kind: RowKind
    row: Row
    rank: int


def inserted(row: Row, rank: int, displaced: Sequence[Row], end: int | None) -> Iterator[Step]:
    """A row comes to a rank; the displaced ones had that rank and those behind it up to the end."""
    for before in displaced:
        yield from _updated(before, row, rank)
        row, rank = before, rank + 1
    if end is None or rank <= end:
        yield Step(RowKind.INSERT, row, rank)


def removed(row: Row, rank: int, following: Sequence[Row], end: int | None) -> Iterator[Step]:
    """A row with a rank goes; those following have that rank and those behind it up to the end."""
    for after in following:
        yield from _updated(row, after, rank)
        row, rank = after, rank + 1
    if end is None or rank <= end:
        yield Step(RowKind.DELETE, row, rank)


def risen(old: Row, old_rank: int, new: Row, rank: int, between: Sequence[Row]) -> Iterator[Step]:
    """A row that is replaced by a better one; those between had the ranks from its new one on.

    The old row is taken back before the new one is put, since both have one unique key: behind the
    first row that gives way.
    """
    if not between:
        yield from _updated(old, new, old_rank)
        return
    yield Step(RowKind.UPDATE_BEFORE, between[0], rank)
    yield Step(RowKind.UPDATE_BEFORE, old, old_rank)
    yield Step(RowKind.UPDATE_AFTER, new, rank)
    for at, (row, after) in enumerate(pairwise(between), rank + 1):
        yield from _updated(after, row, at)
    yield Step(RowKind.UPDATE_AFTER, between[-1], old_rank)


def fallen(old: Row, old_rank: int, new: Row, rank: int, between: Sequence[Row]) -> Iterator[Step]:
    """A row that is replaced by a worse one; those between have the ranks from its old one on."""
    yield Step(RowKind.UPDATE_BEFORE, old, old_rank)
    for at, row in enumerate(between, old_rank):
        yield Step(RowKind.UPDATE_BEFORE, row, at + 1)
        yield Step(RowKind.UPDATE_AFTER, row, at)
    yield Step(RowKind.UPDATE_AFTER, new, rank)


def _updated(before: Row, after: Row, rank: int) -> Iterator[Step]:
    yield Step(RowKind.UPDATE_BEFORE, before, rank)
    yield Step(RowKind.UPDATE_AFTER, after, rank)


class Ranking:
    """What is shown of steps: ranks of a range, with or without their numbers.

    Args:
        start: The first rank that is shown.
        with_number: Rows are emitted with their rank.
        update_before: -U is emitted.
        encode: Gives equal bytes for equal rows.
    """

    __slots__ = ("_encode", "_start", "_update_before", "_with_number", "counts_ranks", "is_bare")

    def __init__(
        self,
        *,
        start: int,
        with_number: bool,
        update_before: bool,
        encode: Callable[[Row], bytes],
    ) -> None:
        self._start = start
        self._with_number = with_number
        self._update_before = update_before
        self._encode = encode
        self.counts_ranks = with_number or start > 1
        """Whether steps must say of each shifted rank, not only who enters and leaves."""
        self.is_bare = with_number and start == 1 and not update_before
        """Whether of each shifted rank just +U is sent, with its number."""

    def emit(self, change: InputChange, steps: Iterator[Step], end: int | None) -> None:
        """Send what is shown of these steps."""
        shown = [
            each for each in steps if each.rank >= self._start and (end is None or each.rank <= end)
        ]
        if self.counts_ranks and not self._with_number and not self._update_before:
            shown = self._net(shown)
        for kind, row, rank in shown:
            if self._update_before or kind is not RowKind.UPDATE_BEFORE:
                change.emit(kind, (*row, rank) if self._with_number else row)

    def _net(self, steps: list[Step]) -> list[Step]:
        """What steps add up to, as -D and +I."""
        weights: dict[bytes, int] = {}
        for each in steps:
            text = self._encode(each.row)
            weights[text] = weights.get(text, 0) + each.kind.weight
        net = []
        for kind in (RowKind.DELETE, RowKind.INSERT):
            for each in steps:
                text = self._encode(each.row)
                if weights[text] * kind.weight > 0:
                    weights[text] -= kind.weight
                    net.append(Step(kind, each.row, each.rank))
        return net
