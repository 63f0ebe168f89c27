"""Which blocks of a spread history have entries, as far as an epoch knows.

Neighbours of blocks are asked for one or two at a time: of 600 blocks, a change needs one. What is
hard is that the epoch empties blocks and fills new ones meanwhile. Replies tell of the blocks as
they were stored, and stay true of them; so neighbours are remembered as stored, and what the epoch
did is laid over them when they are looked for.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from state.primitives.cells import UNKNOWN, Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

Neighbour: TypeAlias = int | Literal[Unknown.UNKNOWN] | None
"""A block; None: there is none; UNKNOWN: it must be asked for."""

WINDOW: Final = 2
"""How many neighbours are asked for at a time: the next one, and one more if that is emptied."""


class BlockOrder:
    """The numbers of one history's blocks that have entries.

    Args:
        newest: The highest number that a stored block can have; -1: no block is stored.

    Characteristics:
        cost    O(log n) of the blocks that are known
    """

    __slots__ = ("_above", "_below", "_emptied", "_filled", "_newest", "is_whole")

    def __init__(self, newest: int) -> None:
        self.is_whole = newest < 0
        """Whether all blocks with entries are known to be filled."""
        self._newest = newest
        self._filled: list[int] = []
        """Blocks that are known to have entries now, ascending."""
        self._emptied: set[int] = set()
        """Blocks that are known to have none now."""
        self._below: dict[int, int | None] = {}
        """Number -> the highest stored one up to it."""
        self._above: dict[int, int | None] = {}
        """Number -> the lowest stored one from it on."""

    def fill(self, number: int) -> None:
        """Know that a block has entries."""
        self._emptied.discard(number)
        at = bisect_left(self._filled, number)
        if self._filled[at : at + 1] != [number]:
            insort(self._filled, number)

    def empty(self, number: int) -> None:
        """Know that a block has none."""
        self._emptied.add(number)
        at = bisect_left(self._filled, number)
        if self._filled[at : at + 1] == [number]:
            del self._filled[at]

    def below(self, number: int) -> Neighbour:
        """The highest block with entries up to this number."""
        at = bisect_right(self._filled, number)
        known = self._filled[at - 1] if at else None
        if self.is_whole or (known is not None and known >= min(number, self._newest)):
            return known
        place = self._below_emptied(number)
        return self._below.get(place, UNKNOWN) if place >= 0 else None

    def above(self, number: int) -> Neighbour:
        """The lowest block with entries from this number on."""
        at = bisect_left(self._filled, number)
        known = self._filled[at] if at < len(self._filled) else None
        if self.is_whole or known == number:
            return known
        place = self._above_emptied(number)
        stored = self._above.get(place, UNKNOWN) if place <= self._newest else None
        # Where no stored block has entries, what there is was filled by the epoch.
        return known if stored is None else stored

    def unknown_below(self, number: int) -> int | None:
        """Up to which number to ask, to know `below`; None if it is known."""
        return self._below_emptied(number) if self.below(number) is UNKNOWN else None

    def unknown_above(self, number: int) -> int | None:
        """From which number on to ask, to know `above`; None if it is known."""
        return self._above_emptied(number) if self.above(number) is UNKNOWN else None

    def _below_emptied(self, number: int) -> int:
        """This number, or one below it where nothing between has entries any more."""
        place = min(number, self._newest)
        while (found := self._below.get(place, place)) in self._emptied:
            place = found - 1
        return place

    def _above_emptied(self, number: int) -> int:
        """This number, or one above it where nothing between has entries any more."""
        place = number
        while (found := self._above.get(place, place)) in self._emptied:
            place = found + 1
        return place

    def learn_below(self, number: int, found: Sequence[int]) -> None:
        """Take the stored blocks up to a number, highest first: `WINDOW`, or all."""
        for each in found:
            self._below[number] = each
            number = each - 1
        if len(found) < WINDOW:
            self._below[number] = None

    def learn_above(self, number: int, found: Sequence[int]) -> None:
        """Take the stored blocks from a number on, lowest first: `WINDOW`, or all."""
        for each in found:
            self._above[number] = each
            number = each + 1
        if len(found) < WINDOW:
            self._above[number] = None
