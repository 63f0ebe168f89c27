"""What operations on a spread sorted map read, and how its cell learns it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from state.backends.interface import LexCount, LexRange, SortedLength, SortedRange
from state.primitives.intervals import TOP
from state.primitives.sorted_text import LAST, bounds_of, entry_of_member

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.primitives.intervals import Cut
    from state.primitives.sorted_cell import SortedCell
    from state.primitives.sorted_known import KnownOrder

PROBE: Final = 16
"""How many elements a look from one end of an interval takes at least."""
RUN: Final = 128
"""How many expired elements are tried to be removed by one command."""


class Gaps:
    """The request for all elements of some intervals, and for the first ones behind the last."""

    __slots__ = ("_ahead", "_cell", "_gaps", "count", "known_until", "reads")

    def __init__(
        self, cell: KnownOrder, gaps: Sequence[tuple[Cut, Cut]], read_ahead: int = 0
    ) -> None:
        self._cell = cell
        self._gaps = gaps
        self.known_until = gaps[-1][1]
        """Where what is known ends, once it is answered."""
        self.count = 0
        """How many elements came."""
        self.reads = [LexRange(cell.key_group, cell.order, *bounds_of(*each)) for each in gaps]
        self._ahead = None
        if read_ahead and self.known_until != TOP:
            self._ahead = Probe(cell, self.known_until, TOP, reverse=False, count=read_ahead)
            self.reads += self._ahead.reads

    def take(self, replies: Sequence[Any]) -> None:
        """Let the cell learn them."""
        count = len(self._gaps)
        for (low, high), members in zip(self._gaps, replies[:count], strict=True):
            self._cell.learn(low, high, members)
        if self._ahead is not None:
            self._ahead.take(replies[count:])
            self.known_until = self._ahead.known_until
        self.count = sum(map(len, replies))


class Count:
    """The request for the number of elements in some intervals."""

    __slots__ = ("count", "reads")

    def __init__(self, cell: KnownOrder, gaps: Sequence[tuple[Cut, Cut]]) -> None:
        self.count = 0
        self.reads = [LexCount(cell.key_group, cell.order, *bounds_of(*each)) for each in gaps]

    def take(self, replies: Sequence[Any]) -> None:
        """Add up."""
        self.count = sum(replies)


class Probe:
    """The request for a few elements from one end of an interval."""

    __slots__ = ("_cell", "_low", "_reverse", "count", "known_until", "reads")

    def __init__(
        self, cell: KnownOrder, low: Cut, high: Cut, *, reverse: bool, count: int = PROBE
    ) -> None:
        self._cell, self._low, self._reverse = cell, low, reverse
        self.known_until = high
        """Where what it shows whole ends, once it is answered."""
        self.count = max(count, PROBE)
        bounds = bounds_of(low, high)
        self.reads = [LexRange(cell.key_group, cell.order, *bounds, self.count, reverse)]

    def take(self, replies: Sequence[Any]) -> None:
        """Let the cell learn the part of the interval that the elements show whole."""
        low, members = self._low, replies[0]
        if len(members) == self.count:
            key, number, _ = entry_of_member(members[-1])
            if self._reverse:
                low = (key, number)
            else:
                self.known_until = (key, number, LAST)
        self._cell.learn(low, self.known_until, members[::-1] if self._reverse else members)


class Expired:
    """The request for the oldest stamps of a spread map."""

    __slots__ = ("_cell", "_elements_max", "reads", "unseen")

    def __init__(self, cell: SortedCell, elements_max: int) -> None:
        self._cell = cell
        self._elements_max = elements_max
        # What the epoch has touched stands there with stamps that may hold no more.
        limit = elements_max + cell.touched_count + 1
        self.reads = (
            SortedRange(cell.key_group, cell.stamps, -math.inf, math.inf, limit),
            SortedLength(cell.key_group, cell.stamps),
        )
        self.unseen: list[tuple[Cut, Cut]] = []
        """Where expired elements are that are not known, in order."""

    def take(self, replies: Sequence[Any]) -> None:
        """Let the cell remove what is expired and known."""
        if not self._cell.is_complete:
            oldest, stamped_count = replies
            self.unseen = self._cell.expired_unseen(oldest, stamped_count, self._elements_max)


class Runs:
    """The request for what lies between elements that are to be removed: often nothing.

    What arrives by time mostly expires in the order of the map. If a run of elements has no others
    in between, one command removes it; else each of its elements needs one.
    """

    __slots__ = ("_elements", "intervals", "reads")

    def __init__(self, cell: SortedCell, elements: Sequence[tuple[Cut, Cut]]) -> None:
        self._elements = [elements[at : at + RUN] for at in range(0, len(elements), RUN)]
        self.reads = [
            LexCount(cell.key_group, cell.order, *bounds_of(each[0][0], each[-1][1]))
            for each in self._elements
        ]
        self.intervals: list[tuple[Cut, Cut]] = []
        """The elements and nothing else, in as few intervals as was found."""

    def take(self, replies: Sequence[Any]) -> None:
        """Compare."""
        for run, count in zip(self._elements, replies, strict=True):
            self.intervals += [(run[0][0], run[-1][1])] if count == len(run) else run
