"""One key of multiset state: what expires of its history, and what is written of it.

Of the blocks that an epoch has not seen, a cell knows how old their entries may be. That is enough
to find what is expired, wherever it stands, so that an entry that was written anew never keeps
older ones behind it alive. In the end it writes the difference between what was and what is, or all
of it where the layout changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from state.multiset.index import (
    bucket_of,
    buckets_for,
    buckets_of_each,
    origin_of,
    write_bucket,
)
from state.multiset.segments import block_hash, block_hashes
from state.multiset.spread import BLOCK_ENTRIES
from state.multiset.text import Header
from state.primitives.multiset_history import KnownHistory
from state.primitives.multiset_look import FEW_STAMPS, IndexedAt, Look
from state.primitives.multiset_text import write_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.primitives.cells import MaybeKnown
    from state.primitives.multiset_history import Block
    from state.primitives.write_batch import WriteBatch

_NOTHING: Final[Block] = {}


class MultisetCell(KnownHistory):
    """The history of one key."""

    __slots__ = ()

    def may_be_due(self, until_ms: float) -> bool:
        """Whether an entry may be expired, or is not known, where stamps up to a time are."""
        if not self.is_complete:
            return True
        return self._floor_ms is not None and self._floor_ms <= until_ms

    @property
    def concerns_index(self) -> bool:
        """Whether the expiry index may have to be told something."""
        return self._is_changed or self._is_index_known or self.is_due

    async def sweep(self) -> None:
        """Remove what is expired: all of it, wherever it is.

        Cost: nothing where nothing is. Else a round trip for the blocks of expired entries that are
        not known, one for their buckets, and one for each eightfold of due blocks.
        """
        until_ms = self._until_ms
        if until_ms is None:
            return
        if not self.is_complete and (self._swept_ms is None or self._swept_ms < until_ms):
            await self._see_due(until_ms)
            self._swept_ms = until_ms
        await self._forget_expired(self.size)
        await self.settle()

    async def forget(self, sequences: Sequence[int]) -> None:
        """Remove known entries by their numbers; a round trip if their buckets are unknown."""
        if not sequences:
            return
        if len(sequences) == self.size:
            self.wipe()
            return
        digests = [self._handle.digest_of(self.entry(each)[1]) for each in sequences]
        look = Look(self)
        look.digests(digests)
        await self.learn(look)
        for sequence, digest in zip(sequences, digests, strict=True):
            self.remove(sequence, digest)

    async def give_stamps(self) -> None:
        """Where a TTL was switched on: give all blocks their stamps, once, if some lack them."""
        if self._lacks_stamps and not self.is_complete:
            await self.complete()
            self._change()

    async def settle(self) -> None:
        """After a removal: see to it that a history that fell to `low` can be packed."""
        if self._is_changed and self.size <= self._handle.thresholds.low:
            await self.complete()

    async def clean(self, elements_max: int) -> int:
        """Remove expired entries; of a spread history by the blocks with the oldest stamps."""
        handle = self._handle
        if not self.is_loaded:
            await handle.answered(self)
        until_ms, before = self._until_ms, self.size
        if until_ms is None:
            return 0
        if not self.is_complete:
            await self._see_due(until_ms, max(1, elements_max // BLOCK_ENTRIES))
        await self._forget_expired(elements_max)
        await self.settle()
        if not self._is_changed:
            # Nothing was due: what the index says of the key may be older than what it has.
            await handle.answered(IndexedAt(self, handle.expiry))
        return before - self.size

    def oldest_ms(self) -> int | None:
        """The oldest stamp, or a bound below it where not all entries are known."""
        if not self._is_changed and not self._is_index_known:
            return self.indexed_ms if isinstance(self.indexed_ms, int) else None
        if not self.size or not self._is_stamped:
            return None
        oldest = [ms for block in self.blocks.values() for ms, _ in block.values()]
        unseen_ms = None if self.is_complete else self._unseen_ms
        return min(oldest if unseen_ms is None else (*oldest, unseen_ms), default=None)

    def index_scores(self) -> tuple[int | None, MaybeKnown]:
        """The score that the expiry index is to have for the key, and what it has at most."""
        indexed_ms, floor_ms = self.indexed_ms, self._floor_ms
        if not self.size or not self.is_complete or floor_ms is None:
            return super().index_scores()
        # Whichever entry is the oldest: it may be no older than the index says.
        is_told = isinstance(indexed_ms, int) and floor_ms >= indexed_ms
        return (None, None) if is_told else super().index_scores()

    @property
    def _until_ms(self) -> int | None:
        """The newest stamp that is expired now; None without a TTL."""
        rules = self._handle.rules
        if not rules.is_enabled:
            return None
        return rules.config.newest_expired_ms(self._handle.session.clock.now(rules.config))

    @property
    def _unseen_ms(self) -> int | None:
        """No entry of a block that is not known has an older stamp; None if none has one."""
        oldest = self._oldest or []
        unseen = next((ms for number, ms in oldest if number not in self.blocks), None)
        if unseen is None and oldest and not self._saw_all_stamps:
            return oldest[-1][1]
        return unseen

    async def _see_due(self, until_ms: int, blocks_max: int | None = None) -> None:
        """Know the blocks with stamps up to a time: all, or so many of them."""
        limit = FEW_STAMPS
        if self._oldest is None:
            look = Look(self)
            look.stamps(limit)
            await self.learn(look)
        await self.give_stamps()
        if self.is_complete:
            return
        while True:
            oldest = self._oldest or []
            due = [number for number, ms in oldest if ms <= until_ms]
            is_enough = blocks_max is not None and len(due) >= blocks_max
            if is_enough or self._saw_all_stamps or len(due) < len(oldest):
                break
            limit = 8 * max(limit, len(oldest))
            look = Look(self)
            look.stamps(limit)
            await self.learn(look)
        look = Look(self)
        for number in due[:blocks_max]:
            look.block(number)
        await self.learn(look)

    async def _forget_expired(self, entries_max: int) -> None:
        """Remove known entries that are expired, at most so many."""
        until_ms = self._until_ms
        if until_ms is None or self._floor_ms is None or self._floor_ms > until_ms:
            return
        rules, clock = self._handle.rules, self._handle.session.clock
        expired = [number for number, (ms, _) in self if rules.is_expired(ms, clock)]
        await self.forget(expired[:entries_max])
        self._floor_ms = min((ms for _, (ms, _) in self), default=None)

    # Writing.

    def write(self, batch: WriteBatch) -> None:
        """What changed, in the layout that the size asks for now."""
        if not self._is_changed:
            return
        key_group, state = self.key_group, self._handle.state
        spread = self._spreads()
        if self._was_spread and not (spread and self._stays_spread):
            self._drop(batch)
        if not self.size:
            if self._stored is not None:
                batch.delete(key_group, state, self.key)
            return
        header = Header(self.following, None, self._shown)
        if spread:
            if not self._stays_spread:
                self.buckets, self.segments = buckets_for(self.size), ()
            header = replace(header, size=self.size, buckets=self.buckets, segments=self.segments)
            self._write_blocks(batch)
            self._write_buckets(batch)
            text = header.format()
        else:
            text = write_lines(header.format(), self)
        if text != self._stored:
            batch.put(key_group, state, self.key, text)

    def _drop(self, batch: WriteBatch) -> None:
        names = self.names
        for name in (names.order, *block_hashes(names.blocks, self.segments), names.index):
            batch.drop(self.key_group, name)
        batch.drop(self.key_group, names.stamps)

    def _write_blocks(self, batch: WriteBatch) -> None:
        """The difference between what blocks held and what they hold."""
        before = self._blocks_before if self._stays_spread else dict.fromkeys(self.blocks, _NOTHING)
        for number in sorted(before):
            old, new = before[number], self.blocks[number]
            if old != new:
                self._write_block(batch, number, old, new)
        if self._lacks_stamps and self._stays_spread:
            for number, block in self.blocks.items():
                if block and number not in before:
                    self._write_stamp(batch, number, {}, block)

    def _write_block(self, batch: WriteBatch, number: int, old: Block, new: Block) -> None:
        key_group, names, member = self.key_group, self.names, b"%d" % number
        blocks = block_hash(names.blocks, self.segments, number)
        if new:
            batch.put(key_group, blocks, member, write_lines(member, new.items()))
            if not old:
                batch.score(key_group, names.order, member, number)
            self._write_stamp(batch, number, old, new)
            return
        batch.delete(key_group, blocks, member)
        batch.unscore(key_group, names.order, member)
        batch.unscore(key_group, names.stamps, member)

    def _write_stamp(self, batch: WriteBatch, number: int, old: Block, new: Block) -> None:
        oldest_ms = min(new.values())[0]
        was_ms = min(old.values())[0] if old and not self._lacks_stamps else None
        if was_ms != oldest_ms:
            batch.score(self.key_group, self.names.stamps, b"%d" % number, oldest_ms)

    def _write_buckets(self, batch: WriteBatch) -> None:
        """Buckets that gained or lost a line, or were split."""
        if not self._stays_spread and not self._has_all_digests:
            self._index_all()
        lines: dict[int, list[tuple[bytes, int]]] = {}
        buckets = buckets_of_each([*self._digests], self.buckets)
        for bucket, (digest, sequences) in zip(buckets, self._digests.items(), strict=True):
            if sequences:
                named = [(digest, sequence) for sequence in sequences]
                lines.setdefault(bucket, []).extend(named)
        changed = self._changed_buckets() if self._stays_spread else set(lines)
        for number in sorted(changed):
            field = b"%d" % number
            if number in lines:
                batch.put(self.key_group, self.names.index, field, write_bucket(lines[number]))
            elif number < self._buckets_before:
                batch.delete(self.key_group, self.names.index, field)

    def _changed_buckets(self) -> set[int]:
        changed = {
            bucket_of(digest, self.buckets)
            for digest, sequences in self._digests_before.items()
            if sequences != self._digests.get(digest, [])
        }
        for number in range(self._buckets_before, self.buckets):
            # What a bucket gave to a new one may have passed through others that are as new.
            changed |= {number, origin_of(number, self._buckets_before)}
        return changed

    def _spreads(self) -> bool:
        thresholds = self._handle.thresholds
        if self._stays_spread:
            return self.size > thresholds.low or not self.is_complete
        return self.size >= thresholds.high
