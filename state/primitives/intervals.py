"""Which parts of an order are known: disjoint half-open intervals between cuts.

A *cut* is a place in the order of tuples of bytes: everything below it lies on one side, the rest
on the other. Two cuts, the first one included and the second one not, are an interval; an interval
whose second cut is not above the first one is empty.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Cut: TypeAlias = tuple[bytes, ...]

BOTTOM: Final[Cut] = ()
"""Below everything."""
TOP: Final[Cut] = (b"\xff",)
"""Above everything: no UTF-8 text has this byte."""


class Intervals:
    """A set of tuples, as the intervals that it fills.

    Characteristics:
        cost    O(log n) to look, O(n) at most to add, n the number of intervals

    >>> known = Intervals()
    >>> known.add((b"b",), (b"d",))
    >>> list(known.gaps((b"a",), (b"f",)))
    [((b'a',), (b'b',)), ((b'd',), (b'f',))]
    """

    __slots__ = ("_ends", "_starts", "is_all")

    def __init__(self) -> None:
        self._starts: list[Cut] = []
        self._ends: list[Cut] = []
        self.is_all = False
        """Whether everything is filled; it stays so."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is filled."""
        return not self._starts

    def add(self, low: Cut, high: Cut) -> None:
        """Fill an interval; it merges with those that it overlaps or touches."""
        if self.is_all or low >= high:
            return
        first = bisect_left(self._ends, low)
        last = bisect_right(self._starts, high)
        if first < last:
            low = min(low, self._starts[first])
            high = max(high, self._ends[last - 1])
        self._starts[first:last] = [low]
        self._ends[first:last] = [high]
        self.is_all = low == BOTTOM and high == TOP

    def add_all(self, intervals: Iterable[tuple[Cut, Cut]]) -> None:
        """Fill many intervals at the cost of sorting them."""
        every = sorted([*zip(self._starts, self._ends, strict=True), *intervals])
        self._starts, self._ends = [], []
        for low, high in every:
            if self._ends and low <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], high)
            elif low < high:
                self._starts.append(low)
                self._ends.append(high)
        self.is_all = self._starts == [BOTTOM] and self._ends == [TOP]

    def gaps(self, low: Cut, high: Cut) -> Iterator[tuple[Cut, Cut]]:
        """What of an interval is not filled, lowest first."""
        for at in range(bisect_right(self._ends, low), len(self._ends)):
            if self._starts[at] >= high:
                break
            if low < self._starts[at]:
                yield low, self._starts[at]
            low = self._ends[at]
        if low < high:
            yield low, high

    def last_gap(self, low: Cut, high: Cut) -> tuple[Cut, Cut] | None:
        """What of an interval is not filled, the highest such part; None if there is none."""
        at = bisect_left(self._starts, high)
        if at and self._ends[at - 1] >= high:
            at -= 1
            high = self._starts[at]
        if at and self._ends[at - 1] > low:
            low = self._ends[at - 1]
        return (low, high) if low < high else None

    def fills(self, low: Cut, high: Cut) -> bool:
        """Whether an interval is filled."""
        return next(self.gaps(low, high), None) is None
