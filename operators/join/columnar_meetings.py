"""Which stays each change of a join's side meets, on columns, and section by section of an epoch.

A **section** is the changes of both sides between two ranks. All that a section needs has a bounded
size, so a hot key costs the memory of what it emits, and not of all its pairs at once beside that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from operators.join.columnar_side import ColumnarSide, Met

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

PAIRS_AT_ONCE = 1 << 16
"""So many pairs of a change and a stay are looked at together, and those of one change."""


class Pairs(NamedTuple):
    """Changes with the stays that they meet: by change, those of one by their names."""

    cause: Integers
    """Rows of changes."""
    place: Integers
    """Which stay, of `Met`."""

    def where(self, flags: Flags) -> Pairs:
        """Some of them."""
        return Pairs(self.cause[flags], self.place[flags])


class Meetings:
    """The changes of a side, and the stays of the other one.

    Args:
        mine: The side.
        kept: Its keys, by number, but for those that the other path is to see.
        met: The other side's stays of these keys.
    """

    def __init__(self, mine: ColumnarSide, kept: Sequence[int], met: Met) -> None:
        self.met = met
        changes = mine.changes
        self.kinds = changes.batch.kinds
        self.ranks = changes.batch.order
        count = len(changes.batch)
        self.counts = np.zeros(count, np.int64)
        """By row: how many stays its key has."""
        self.is_kept = np.zeros(count, np.bool_)
        """By row: whether it is of one of these keys."""
        self._start = np.zeros(count, np.int64)
        if kept:
            keys = [mine.at[each] for each in kept]
            of_key = np.zeros(len(changes.keys), np.int64)
            has_key = np.zeros(len(changes.keys), np.bool_)
            of_key[keys] = met.counts
            has_key[keys] = True
            self.counts[changes.row_of] = of_key[changes.key_of]
            self._start[changes.row_of] = (np.cumsum(of_key) - of_key)[changes.key_of]
            self.is_kept[changes.row_of] = has_key[changes.key_of]

    def rows_of(self, low: int, high: int) -> range:
        """The rows of changes with these ranks."""
        start, stop = self.ranks.searchsorted([low, high]).tolist()
        return range(start, stop)

    def pairs(self, rows: range) -> Pairs:
        """The stays that these changes meet."""
        counts = self.counts[rows.start : rows.stop]
        cause = np.repeat(np.arange(rows.start, rows.stop), counts)
        if not cause.size:
            return Pairs(cause, cause)
        behind = self._start[rows.start : rows.stop] - (np.cumsum(counts) - counts)
        found = Pairs(cause, np.arange(cause.size) + np.repeat(behind, counts))
        met = self.met
        if met.since is None or met.until is None:
            return found
        ranks = self.ranks[cause]
        return found.where((met.since[found.place] < ranks) & (ranks < met.until[found.place]))

    def numbers_met(self, rows: range, pairs: Pairs) -> Integers:
        """By change: how many rows it meets, each as often as it is there."""
        times = self.met.times[pairs.place]
        found = np.bincount(pairs.cause - rows.start, weights=times, minlength=len(rows))
        return found.astype(np.int64)


def sections(meetings: Sequence[Meetings]) -> Iterator[tuple[int, int]]:
    """Ranks, from and to, whose changes have no more pairs than are looked at together.

    Where one change alone has more, it is a section: they are no more than its key has rows.
    """
    of_rank = np.zeros(sum(each.ranks.size for each in meetings), np.int64)
    for each in meetings:
        of_rank[each.ranks] = each.counts
    ends = np.cumsum(of_rank)
    low = before = 0
    while low < ends.size:
        high = int(ends.searchsorted(before + PAIRS_AT_ONCE, side="right"))
        high = max(high, low + 1)
        yield low, high
        low, before = high, int(ends[high - 1])
