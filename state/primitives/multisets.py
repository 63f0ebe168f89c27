"""Multiset state: rows of a key in the order in which they came, found by what they match.

It keeps what retractions need: which rows there are, which one is the newest or the oldest now, and
what stands beside one. An entry has a sequence number, which is its place: it is given once and
never again while the history has entries (FLINK-39740), and a row that takes the place of another
keeps its number. Of several entries that match, the oldest one is replaced or removed.

Histories lie in the layout of `state.multiset`, so that what a materializer wrote, for whole epochs
at once, can be read and changed here one change at a time, and the other way round.

Time to live. Each entry has its stamp, with a TTL or without, so a TTL that is switched on counts
from the times at which entries were written. Entries expire by their own stamps, wherever they
stand. With `NEVER_RETURN_EXPIRED` every operation first removes what is expired of its key: sizes
and results are those of the live entries. With `RETURN_EXPIRED_IF_NOT_CLEANED_UP` an expired entry
is as good as any until clean-up comes by or a read shows it, which is the last time. What a removal
tells of the newest entry is no read: it neither refreshes nor removes it.

Source: FLIP-544, Flink's SequencedMultiSetState, with its StateChangeInfo and TTL section.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from state.multiset.interface import Added, NotFound, RemovedAll, RemovedLast, RemovedOther
from state.multiset.spread import BLOCK_ENTRIES
from state.primitives.handle import StateHandle
from state.primitives.multiset_cell import MultisetCell
from state.primitives.multiset_look import FEW_STAMPS, Look
from state.primitives.multiset_text import match_digest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.descriptors import MultisetDescriptor
    from state.primitives.session import StateSession
    from state.primitives.write_batch import WriteBatch

__all__ = [
    "Added",
    "MultisetHandle",
    "NotFound",
    "RemovedAll",
    "RemovedLast",
    "RemovedOther",
    "SequencedRow",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SequencedRow(Generic[T]):
    """One entry of a history."""

    sequence: int
    """Its place: higher than those of all entries before it."""
    row: T
    stamp_ms: int
    """When it was last written, or read where reads count."""


Removal: TypeAlias = NotFound | RemovedAll | RemovedLast[SequencedRow[T]] | RemovedOther


class MultisetHandle(StateHandle[MultisetCell], Generic[T]):
    """A sequenced multiset of rows a key.

    Characteristics, for the first touch of a key in an epoch; the commit is one round trip more.
    Packed, each operation reads one field in one round trip, and a change writes one. Spread:

                        round trips, fields read           fields written
        append          2, 3: header; index, newest block  3: header, index, block
        add, new        as append                          as append
        add, replacing  3, 4: and the block of the match   1: block
        remove          3, 4: and the block of the match   3: header, index, block
        remove, newest  2, 3                               3
        remove, none    2, 3                               0
        find            3, 4: and the block of the match
        last            2, 2: header; newest block
        first           3, 4: header; two of the order; block
        entry_before,   2, 4: header; block, two of the    0
        entry_after     order; 3, 5 if it is in the next block
        entries         2, 1 and all blocks
        size, is_empty  1, 1
        clear           1, 1                               1 and the structures, dropped

    The index is a bucket of it, of some 32 entries, or 16 in a long history; once in as many
    additions one more is split, which is read, and both parts are written. A new block, once in
    sixteen additions, writes a member of the order and one of the stamps, and reads no block; an
    emptied one removes them. Where the newest blocks were emptied, two of the order and a block are
    read in two more round trips. With a TTL, every operation but `clear` and `entries` reads the
    two oldest stamps in the second round trip, and a change writes one in the expiry index, and one
    for the block if its oldest stamp is another. What is expired costs its blocks and buckets.

    A change does not depend on the length of a history; the bytes of a bucket grow with the number
    of copies of one row.
    """

    def __init__(self, session: StateSession, descriptor: MultisetDescriptor[T]) -> None:
        super().__init__(session, descriptor)
        self._codec = descriptor.codec
        self._match = descriptor.match

    def new_cell(self, key: bytes, key_group: int) -> MultisetCell:
        """A cell that knows nothing yet."""
        return MultisetCell(self, key, key_group)

    def write_all(self, cells: Iterable[MultisetCell], batch: WriteBatch) -> None:
        """Give what must be stored of all cells, and of the index: of most, nothing."""
        for cell in cells:
            cell.write(batch)
            if self.may_have_stamps and cell.concerns_index:
                cell.write_index(self.expiry, batch)

    async def append(self, row: T) -> Added:
        """Put a row at the end, even if an equal one is there."""
        text, digest = self._written(row)
        cell = await self._ready(digest, appends=True)
        return self._append(cell, digest, text)

    async def add(self, row: T) -> Added:
        """Put a row in the place of the oldest entry that it matches, else at the end."""
        text, digest = self._written(row)
        cell = await self._ready(digest, appends=True)
        numbers = cell.numbers_of(digest)
        if not numbers:
            return self._append(cell, digest, text)
        sequence = numbers[0]
        await self._know(cell, sequence)
        cell.put(sequence, (self._stamp(cell.entry(sequence)[0]), text))
        return Added(was_empty=False, size=cell.size)

    async def remove(self, row: T) -> Removal[T]:
        """Remove the oldest entry that a row matches, and tell what is the newest then.

        The order of calls is that of Flink's `StateChangeInfo`: nothing found, the only one, the
        newest one, another one.
        """
        digest = self._written(row)[1]
        cell = await self._ready(digest, reads_newest=True)
        numbers = cell.numbers_of(digest)
        if not numbers:
            return NotFound(cell.size)
        sequence = numbers[0]
        is_newest = await cell.is_newest(sequence)
        cell.remove(sequence, digest)
        if not cell.size:
            return RemovedAll()
        result: Removal[T] = RemovedOther(cell.size)
        if is_newest:
            now_last = await cell.newest()
            assert now_last is not None
            result = RemovedLast(self._sequenced(cell, now_last), cell.size)
        await cell.settle()
        return result

    async def find(self, row: T) -> SequencedRow[T] | None:
        """The oldest entry that a row matches; None if there is none."""
        digest = self._written(row)[1]
        cell = await self._ready(digest)
        numbers = cell.numbers_of(digest)
        if not numbers:
            return None
        await self._know(cell, numbers[0])
        return await self._shown(cell, numbers[0])

    async def last(self) -> SequencedRow[T] | None:
        """The newest entry; None if there is none."""
        cell = await self._ready(reads_newest=True)
        return await self._shown(cell, await cell.newest())

    async def first(self) -> SequencedRow[T] | None:
        """The oldest entry; None if there is none."""
        cell = await self._ready(reads_oldest=True)
        return await self._shown(cell, await cell.after(0))

    async def entry_before(self, sequence: int) -> SequencedRow[T] | None:
        """The newest entry below a sequence number, whether that has an entry or not."""
        cell = await self._ready(below=sequence - 1)
        return await self._shown(cell, await cell.before(sequence))

    async def entry_after(self, sequence: int) -> SequencedRow[T] | None:
        """The oldest entry above a sequence number, whether that has an entry or not."""
        cell = await self._ready(above=sequence + 1)
        return await self._shown(cell, await cell.after(sequence))

    async def entries(self) -> list[SequencedRow[T]]:
        """All entries, oldest first."""
        cell = await self.loaded()
        await cell.complete()
        await self._sweep(cell)
        shown = [self._sequenced(cell, sequence) for sequence, _ in cell]
        await self._read(cell, [each.sequence for each in shown])
        return shown

    async def size(self) -> int:
        """How many entries there are."""
        return (await self._ready()).size

    async def is_empty(self) -> bool:
        """Whether there is none."""
        return not (await self._ready()).size

    async def clear(self) -> None:
        """Remove all entries, however many."""
        (await self.loaded()).wipe()

    def digest_of(self, text: bytes) -> bytes:
        """What stands for a canonical row in the index."""
        match = self._match
        return match_digest(text if match is None else self._match_of(self._codec.decode(text)))

    def _match_of(self, row: T) -> bytes:
        match = self._match
        return b"" if match is None else match.codec.encode(match.of(row))

    def _written(self, row: T) -> tuple[bytes, bytes]:
        """Canonical row of a given row, and what stands for it in the index."""
        text = self._codec.encode(row)
        return text, match_digest(text if self._match is None else self._match_of(row))

    def _stamp(self, old_ms: int | None = None) -> int:
        """The stamp that a write of now gives, to a new entry or in place of an old one."""
        session = self.session
        stamp_ms = self.rules.written(
            old_ms,
            replaces=old_ms is not None,
            clock=session.clock,
            event_ms=session.event_ms,
        )
        if stamp_ms is None:
            stamp_ms = session.clock.stamp(self.rules.config, session.event_ms)
        return stamp_ms

    def _append(self, cell: MultisetCell, digest: bytes, text: bytes) -> Added:
        was_empty = not cell.size
        cell.append(digest, (self._stamp(), text))
        return Added(was_empty, cell.size)

    async def _ready(
        self,
        digest: bytes | None = None,
        *,
        appends: bool = False,
        reads_newest: bool = False,
        reads_oldest: bool = False,
        below: int | None = None,
        above: int | None = None,
    ) -> MultisetCell:
        """The current key's cell without what is expired, and with what an operation needs at once.

        Args:
            digest: Of match columns.
            appends: The block that the next entry belongs to.
            reads_newest: The block that most likely has the newest entry.
            reads_oldest: Which blocks are the oldest.
            below: The block of this sequence number, and those before it.
            above: The block of this sequence number, and those behind it.
        """
        cell = await self.loaded()
        if not cell.is_complete:
            look = Look(cell)
            if digest is not None:
                look.digests((digest,))
            if appends:
                look.block(cell.following // BLOCK_ENTRIES, is_there=False)
                look.origin()
            if reads_newest:
                look.block(cell.newest_stored, is_there=False)
            if reads_oldest:
                look.above(0)
            if below is not None:
                number = min(below // BLOCK_ENTRIES, cell.newest_stored)
                look.block(number, is_there=False)
                look.below(number - 1)
            if above is not None:
                look.block(above // BLOCK_ENTRIES, is_there=False)
                look.above(above // BLOCK_ENTRIES + 1)
            if cell.wants_stamps:
                look.stamps(FEW_STAMPS)
            await cell.learn(look)
            await cell.give_stamps()
        await self._sweep(cell)
        return cell

    async def _sweep(self, cell: MultisetCell) -> None:
        if not self.rules.shows_expired and cell.may_be_due(self.expired_until_ms):
            await cell.sweep()

    async def _know(self, cell: MultisetCell, sequence: int) -> None:
        """See that the block of an entry is known."""
        look = Look(cell)
        look.block(sequence // BLOCK_ENTRIES)
        await cell.learn(look)

    def _sequenced(self, cell: MultisetCell, sequence: int) -> SequencedRow[T]:
        stamp_ms, text = cell.entry(sequence)
        return SequencedRow(sequence, self._codec.decode(text), stamp_ms)

    async def _shown(self, cell: MultisetCell, sequence: int | None) -> SequencedRow[T] | None:
        """An entry as a read of now shows it."""
        if sequence is None:
            return None
        shown = self._sequenced(cell, sequence)
        await self._read(cell, (sequence,))
        return shown

    async def _read(self, cell: MultisetCell, sequences: Sequence[int]) -> None:
        """What a read does to the entries that it shows."""
        rules, session = self.rules, self.session
        if not rules.is_enabled:
            return
        expired = []
        for sequence in sequences:
            stamp_ms, text = cell.entry(sequence)
            if stamp_ms <= self.expired_until_ms:
                expired.append(sequence)
            elif rules.refreshes_on_read:
                refreshed_ms = rules.refreshed(stamp_ms, session.clock, session.event_ms)
                if refreshed_ms is not None and refreshed_ms != stamp_ms:
                    cell.put(sequence, (refreshed_ms, text))
        if expired or not cell.is_complete:
            await cell.forget(expired)
            await cell.settle()
