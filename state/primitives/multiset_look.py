"""What operations on a spread history read, and how its cell learns it."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from state.backends.interface import (
    HashGet,
    HashScan,
    SortedLength,
    SortedRange,
    SortedScores,
    SortedTop,
)
from state.errors import StateCorrupt
from state.multiset.segments import block_hashes, block_reads
from state.primitives.multiset_order import WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.backends.interface import Read
    from state.primitives.multiset_history import KnownHistory

FEW_STAMPS: Final = 2
"""How many of the oldest stamps an access reads: one that is due, and one that tells it is all."""


class Look:
    """The request for some parts of a spread history, in one round trip.

    Parts that are known when they are asked for are left out; without any, `reads` is empty.
    """

    def __init__(self, cell: KnownHistory) -> None:
        self._cell = cell
        self._buckets: set[int] = set()
        self._blocks: dict[int, bool] = {}
        """Each with whether it must be there."""
        self._below: int | None = None
        self._above: int | None = None
        self._stamps = 0

    def digests(self, digests: Iterable[bytes]) -> None:
        """Ask which entries digests stand for."""
        for digest in digests:
            self._bucket(self._cell.unknown_bucket(digest))

    def origin(self) -> None:
        """Ask for the bucket of the index that is split when an entry is appended, if one is."""
        self._bucket(self._cell.unknown_origin())

    def _bucket(self, number: int | None) -> None:
        if number is not None:
            self._buckets.add(number)

    def block(self, number: int, *, is_there: bool = True) -> None:
        """Ask for a block, which is known to be there or not."""
        if number not in self._cell.blocks and 0 <= number <= self._cell.newest_stored:
            self._blocks[number] = is_there

    def below(self, number: int) -> None:
        """Ask for the highest blocks up to a number."""
        if number >= 0:
            self._below = self._cell.order.unknown_below(number)

    def above(self, number: int) -> None:
        """Ask for the lowest blocks from a number on."""
        self._above = self._cell.order.unknown_above(max(number, 0))

    def stamps(self, limit: int) -> None:
        """Ask for the blocks with the oldest stamps, so many of them."""
        self._stamps = limit

    @property
    def reads(self) -> Sequence[Read]:
        """The parts, those of each kind in one read."""
        key_group, names = self._cell.key_group, self._cell.names
        reads: list[Read] = []
        if self._buckets:
            wanted = [b"%d" % each for each in sorted(self._buckets)]
            reads.append(HashGet(key_group, names.index, wanted))
        if self._blocks:
            reads += block_reads(key_group, names.blocks, self._cell.segments, sorted(self._blocks))
        if self._below is not None:
            reads.append(SortedTop(key_group, names.order, WINDOW, self._below))
        if self._above is not None:
            reads.append(SortedRange(key_group, names.order, self._above, math.inf, WINDOW))
        if self._stamps:
            reads.append(SortedRange(key_group, names.stamps, -math.inf, math.inf, self._stamps))
            if self._cell.may_lack_stamps:
                reads.append(SortedLength(key_group, names.stamps))
                reads.append(SortedLength(key_group, names.order))
        return reads

    def take(self, replies: Sequence[Any]) -> None:
        """Let the cell learn the parts.

        Raises:
            StateCorrupt: A block is not there that must be, or something is not as we write it.
        """
        cell, rest = self._cell, iter(replies)
        if self._buckets:
            for number, text in zip(sorted(self._buckets), next(rest), strict=True):
                cell.learn_bucket(number, text)
        if self._blocks:
            wanted, texts = sorted(self._blocks), list[bytes | None]()
            while len(texts) < len(wanted):
                texts += next(rest)
            for number, text in zip(wanted, texts, strict=True):
                if text is None and self._blocks[number]:
                    raise StateCorrupt(f"block {number} of a history is missing")
                cell.learn_block(number, text)
        if self._below is not None:
            cell.order.learn_below(self._below, [int(member) for member, _ in next(rest)])
        if self._above is not None:
            cell.order.learn_above(self._above, [int(member) for member, _ in next(rest)])
        if self._stamps:
            oldest = next(rest)
            lacking = cell.may_lack_stamps and next(rest) != next(rest)
            cell.learn_stamps(oldest, is_all=len(oldest) < self._stamps, are_lacking=lacking)


class WholeHistory:
    """The request for all blocks of a spread history."""

    __slots__ = ("_cell", "reads")

    def __init__(self, cell: KnownHistory) -> None:
        self._cell = cell
        hashes = block_hashes(cell.names.blocks, cell.segments)
        self.reads = tuple(HashScan(cell.key_group, name) for name in hashes)

    def take(self, replies: Sequence[Any]) -> None:
        """Let the cell have the blocks that it does not know."""
        if not self._cell.is_complete:
            self._cell.learn_whole(dict(chain.from_iterable(each.items() for each in replies)))


class IndexedAt:
    """The request for what the expiry index says of a key."""

    __slots__ = ("_cell", "reads")

    def __init__(self, cell: KnownHistory, expiry: bytes) -> None:
        self._cell = cell
        self.reads = (SortedScores(cell.key_group, expiry, [cell.key]),)

    def take(self, replies: Sequence[Any]) -> None:
        """Let the cell know it."""
        ((score,),) = replies
        self._cell.learn_index(None if score is None else int(score))
