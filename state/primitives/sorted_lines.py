"""The lines of a packed sorted map as they are stored: in order, and taken apart where one is read.

Most operations want little of a packed map: an addition none of it, a range that is read and then
cleared its first few lines. To take all lines apart at each load, and to put them together again,
was most of what such an epoch cost.

A line has no number, its place is its number. So what is cut off in front is remembered, and what
is asked for by number, or removed from the middle, needs all elements.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from state.primitives.sorted_text import LAST, entry_of_line, no_element, text_of_cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from state.primitives.intervals import Cut
    from state.primitives.sorted_text import Entry

_TAB: Final = ord("\t")
"""Looking for a number among bytes takes a tenth of the time that looking for bytes takes."""


class PackedLines:
    """Lines of a packed map whose elements have no stamps.

    Characteristics:
        cost    O(log n) for an interval, and a step for each element in it
    """

    __slots__ = ("_first", "_lines", "_read_count")

    def __init__(self, lines: list[bytes]) -> None:
        """Take the lines of a stored text.

        Raises:
            StateCorrupt: One of them is no element.
        """
        if [each for each in lines if _TAB not in each]:
            raise no_element()
        self._lines = lines
        self._first = 0
        """The number of the first line that is there."""
        self._read_count = 0

    def places(self, low: Cut, high: Cut) -> tuple[int, int] | None:
        """Where an interval begins and ends among the lines that are there.

        None where that takes numbers, or more was read than there are lines: then it is cheaper to
        have all elements at hand.
        """
        if (len(low) > 1 and low[1] != LAST) or (len(high) > 1 and high[1] != LAST):
            return None
        if self._read_count > len(self._lines):
            return None
        start = bisect_left(self._lines, text_of_cut(low)) if low else 0
        return start, max(start, bisect_left(self._lines, text_of_cut(high)))

    def entries(self, start: int, end: int) -> list[Entry]:
        """The elements of some lines."""
        self._read_count += end - start
        first = self._first
        lines = enumerate(self._lines[start:end], first + start)
        return [entry_of_line(each, at) for at, each in lines]

    def all_entries(self) -> list[Entry]:
        """The elements of all lines."""
        return self.entries(0, len(self._lines))

    def cut_off(self, end: int) -> None:
        """Remove the first lines."""
        del self._lines[:end]
        self._first += end

    def with_added(self, entries: Iterable[Entry]) -> list[bytes]:
        """All lines, with those of elements that were added, in order.

        Each is inserted by itself, as packed maps are short (`Thresholds.high`).
        """
        lines = [*self._lines]
        for key, _, text in entries:
            line = b"%b\t%b" % (key, text)
            # Behind those of its user key, whatever they hold.
            lines.insert(bisect_left(lines, key + b"\t" + LAST), line)
        return lines
