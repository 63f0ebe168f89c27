"""Writing spread histories: the entries that came, went or were replaced, or a whole history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from state.backends.interface import HashDelete, HashPut, HashReplace, SortedPut, SortedRemove
from state.multiset.changes import differs
from state.multiset.index import (
    buckets_for,
    buckets_of,
    digests_of,
    lines_of,
    origin_of,
    write_lines,
)
from state.multiset.probing import KnownIndex
from state.multiset.spread import STATE, SpreadNames, block_of
from state.multiset.text import NEWEST, Header, pieces_before_rows
from state.multiset.vectors import distinct, is_among

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from state.backends.interface import Write
    from state.multiset.changes import Groups, KeyedChanges, Outcome
    from state.multiset.histories import Histories
    from state.multiset.index import Characters
    from state.multiset.probing import SpreadHistory
    from state.multiset.strategy import HistoryPolicy
    from state.multiset.touched import Matching
    from state.row_pieces import Piece, RowPieces

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_T = TypeVar("_T")

REPLACED_LINES_MIN = 256
"""An index of which fewer lines are to be written is not replaced as a whole."""


class Rows(Protocol):
    """The rows of the epoch's changes."""

    def of_changes(
        self, changes: Integers, before: Sequence[str | pa.Array] = ()
    ) -> pa.BinaryArray:
        """Canonical rows of the changes at these positions, with texts before each."""

    def pieces_of_changes(self, changes: Integers, before: Sequence[Piece]) -> RowPieces:
        """The same in pieces: for the blocks of a history, which have many rows each."""


@dataclass(frozen=True, slots=True)
class EpochResult:
    """What an epoch found and did: all that is to be written follows from it."""

    policy: HistoryPolicy
    histories: Histories
    changes: KeyedChanges
    groups: Groups
    outcome: Outcome
    replace: bool
    now_ms: int

    @property
    def stays(self) -> Flags:
        """Per loaded entry: it is still there, as it was."""
        return ~self.outcome.entry_removed & (self.outcome.entry_content < 0)

    def entries_of(self, key: int) -> slice:
        """The loaded entries of a key."""
        low, high = self.histories.entries.key.searchsorted([key, key + 1]).tolist()
        return slice(low, high)


@dataclass(frozen=True, slots=True)
class Puts:
    """Entries whose row an epoch wrote: born ones and replaced ones, by key and number."""

    key: Integers
    sequence: Integers
    group: Integers
    """Only set where an index or an upsert key asks for it."""
    is_new: Flags
    content: Integers
    """The change whose row it is."""

    def of(self, chosen: slice | Integers) -> Puts:
        """Some of them."""
        return Puts(
            self.key[chosen],
            self.sequence[chosen],
            self.group[chosen],
            self.is_new[chosen],
            self.content[chosen],
        )

    def of_key(self, key: int) -> Puts:
        """Those of a key."""
        low, high = self.key.searchsorted([key, key + 1]).tolist()
        return self.of(slice(low, high))


class SpreadWriter:
    """Writes of one history that is to be spread."""

    def __init__(self, epoch: EpochResult, key: int, puts: Puts, rows: Rows) -> None:
        self._epoch = epoch
        self._key = key
        self._puts = puts
        self._rows = rows
        self._names = SpreadNames.of(epoch.histories.keys[key])
        self._writes: list[Write] = []
        self.header = Header(1)
        """Of the history, once it is written."""
        self.index: KnownIndex | None = None
        """What is written of its index, by sequence number, where that is known as a whole."""
        self.blocks: dict[int, bytes] = {}
        """The blocks that are written, by number."""
        self.dropped: list[int] = []
        """Numbers of the blocks that are gone."""

    def change(self) -> list[Write]:
        """Write what changed of a history that was spread and stays so."""
        epoch = self._epoch
        history = epoch.histories.spread[self._key]
        mine = epoch.entries_of(self._key)
        removed = epoch.histories.entries.sequence[mine][epoch.outcome.entry_removed[mine]]
        puts = self._puts
        touched = distinct(block_of(np.concatenate([removed, history.expired, puts.sequence])))
        kept = mine.start + epoch.stays[mine].nonzero()[0]
        kept = kept[is_among(block_of(epoch.histories.entries.sequence[kept]), touched)]
        written = self._put_blocks(kept, history)
        self._drop_blocks(touched[~is_among(touched, written)])
        self._put_header(self._change_index(history, np.append(removed, history.expired)))
        return self._writes

    def _change_index(self, history: SpreadHistory, removed: Integers) -> int:
        """Write the buckets that gained or lost a line, or are split as the history grew.

        Args:
            history: What was read of it.
            removed: Sequence numbers of entries that are gone.

        Returns:
            How many buckets there are now.
        """
        index, puts = history.index, self._puts
        was = history.header.buckets
        buckets = max(was, buckets_for(int(self._epoch.outcome.size[self._key])))
        stays = np.ones(len(index.lines), np.bool_)
        if history.expired.size:
            stays = ~is_among(index.numbers, removed)
        else:
            stays[history.found_line[is_among(history.found, removed)]] = False
        fresh = puts.is_new.nonzero()[0]
        first = int(history.groups[0]) if history.groups.size else 0
        new = lines_of(history.digests[puts.group[fresh] - first], puts.sequence[fresh])
        old_bucket, new_bucket = index.bucket.copy(), buckets_of(new, buckets)
        changed = np.zeros(buckets, np.bool_)
        changed[new_bucket] = changed[old_bucket[~stays]] = True
        if buckets > was:
            is_split = np.zeros(was, np.bool_)
            is_split[[origin_of(each, was) for each in range(was, buckets)]] = True
            splits = is_split[old_bucket].nonzero()[0]
            split_bucket = buckets_of(index.lines.take(splits, axis=0), buckets)
            changed[old_bucket[splits]] = changed[split_bucket] = True
            old_bucket[splits] = split_bucket
        # Lines of new entries last: their numbers are higher than all others.
        kept = stays.nonzero()[0]
        bucket = np.concatenate([old_bucket[kept], new_bucket])
        lines = np.concatenate([index.lines.take(kept, axis=0), new])
        chosen = changed[bucket]
        if len(index.read) == was:
            numbers = np.concatenate([index.numbers[kept], puts.sequence[fresh]])
            self._know_index(buckets, lines, bucket, numbers)
            if _is_most(chosen):
                self._replace_index(lines, bucket)
                return buckets
        written = self._put_buckets(lines, bucket, chosen.nonzero()[0])
        changed[written] = False
        emptied = changed[:was].nonzero()[0].tolist()
        if emptied:
            self._writes.append(HashDelete(self._names.index, [b"%d" % each for each in emptied]))
        return buckets

    def _know_index(
        self, buckets: int, lines: Characters, bucket: Integers, numbers: Integers
    ) -> None:
        """Keep what the index consists of now; with TTL it is never gone on from."""
        if self._epoch.policy.ttl_ms:
            return
        if (numbers[1:] < numbers[:-1]).any():
            by_number = np.argsort(numbers)
            lines, bucket, numbers = lines[by_number], bucket[by_number], numbers[by_number]
        self.index = KnownIndex(list(range(buckets)), lines, bucket, numbers)

    def _put_buckets(self, lines: Characters, bucket: Integers, chosen: Integers) -> Integers:
        """Write the buckets of the chosen lines, and say which they are."""
        numbers, texts = write_lines(lines, bucket, chosen)
        if texts:
            fields = [b"%d" % each for each in numbers.tolist()]
            self._writes.append(HashPut(self._names.index, _interleaved(fields, texts)))
        return numbers

    def _replace_index(self, lines: Characters, bucket: Integers) -> None:
        """Write all buckets, those of each in the order of their numbers; remove all others."""
        numbers, texts = write_lines(lines, bucket)
        fields = [b"%d" % each for each in numbers.tolist()]
        self._writes.append(HashReplace(self._names.index, _interleaved(fields, texts)))

    def whole(self, matching: Matching) -> list[Write]:
        """Write a history in full that was packed, or is new."""
        epoch, puts = self._epoch, self._puts
        entries, packed = epoch.histories.entries, epoch.histories.packed
        mine = epoch.entries_of(self._key)
        kept = mine.start + epoch.stays[mine].nonzero()[0]
        sequence, matches = puts.sequence, matching.index_of_groups(puts.group)
        if kept.size:
            old = packed.rows(epoch.histories.packed_entry[kept])
            matches = [*matching.index_of_rows(old), *matches]
            sequence = np.append(entries.sequence[kept], sequence)
        self._put_blocks(kept, None)
        lines = lines_of(digests_of(matches), sequence)
        if (sequence[1:] < sequence[:-1]).any():
            by_number = np.argsort(sequence)
            lines, sequence = lines[by_number], sequence[by_number]
        buckets = buckets_for(sequence.size)
        bucket = buckets_of(lines, buckets)
        self._know_index(buckets, lines, bucket, sequence)
        self._replace_index(lines, bucket)
        self._put_header(buckets)
        return self._writes

    def _put_blocks(self, kept: Integers, known: SpreadHistory | None) -> Integers:
        """Write the blocks of these loaded entries and of the epoch's puts.

        Args:
            kept: Loaded entries that stay as they are.
            known: What was read of the history, if it was spread: its blocks are in the order.

        Returns:
            The numbers of the blocks, ascending.
        """
        epoch, names = self._epoch, self._names
        packed, place = epoch.histories.packed, epoch.histories.packed_entry[kept]
        sequence = np.append(epoch.histories.entries.sequence[kept], self._puts.sequence)
        if not sequence.size:
            return sequence
        new = pieces_before_rows(self._puts.sequence, epoch.now_ms)
        lines = self._rows.pieces_of_changes(self._puts.content, new)
        written = np.full(self._puts.key.size, epoch.now_ms)
        if kept.size:
            lines = packed.pieces(place).then(lines)
            written = np.append(packed.written_ms[place], written)
            if (sequence[1:] < sequence[:-1]).any():
                by_number = np.argsort(sequence)
                sequence, written = sequence[by_number], written[by_number]
                lines = lines.take(by_number.tolist())
        block = block_of(sequence)
        start = differs(block).nonzero()[0]
        numbers = block[start]
        fields = [b"%d" % number for number in numbers.tolist()]
        texts = lines.joined(fields, [*start.tolist(), sequence.size])
        self.blocks = dict(zip(numbers.tolist(), texts, strict=True))
        put = HashReplace if known is None else HashPut
        self._writes.append(put(names.blocks, _interleaved(fields, texts)))
        fresh = [each for each in self.blocks if known is None or each not in known.blocks]
        if fresh:
            members = [b"%d" % number for number in fresh]
            self._writes.append(SortedPut(names.order, _interleaved(fresh, members)))
        oldest = np.minimum.reduceat(written, start).tolist()
        self._writes.append(SortedPut(names.stamps, _interleaved(oldest, fields)))
        return numbers

    def _drop_blocks(self, blocks: Integers) -> None:
        """Remove blocks that hold nothing any more."""
        if not blocks.size:
            return
        self.dropped = blocks.tolist()
        names, gone = self._names, [b"%d" % number for number in self.dropped]
        self._writes.append(HashDelete(names.blocks, gone))
        self._writes.append(SortedRemove(names.order, gone))
        self._writes.append(SortedRemove(names.stamps, gone))

    def _put_header(self, buckets: int) -> None:
        key, outcome = self._key, self._epoch.outcome
        shown = int(outcome.shown[key])
        self.header = Header(
            following=int(outcome.following[key]),
            shown=NEWEST if shown == int(outcome.newest[key]) else shown,
            size=int(outcome.size[key]),
            buckets=buckets,
        )
        flat = [self._epoch.histories.keys[key], self.header.format()]
        self._writes.append(HashPut(STATE, flat))


def _is_most(chosen: Flags) -> bool:
    """Whether what is written of an index is most of it, and much.

    Args:
        chosen: Per line that the index has now: it is to be written.
    """
    written = int(chosen.sum())
    return written >= REPLACED_LINES_MIN and 2 * written >= chosen.size


def _interleaved(left: Sequence[_T], right: Sequence[bytes]) -> list[_T | bytes]:
    flat: list[_T | bytes] = [b""] * (2 * len(left))
    flat[0::2] = left
    flat[1::2] = right
    return flat
