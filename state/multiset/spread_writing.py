"""Writing spread histories: the entries that came, went or were replaced, or a whole history."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from state.backends.interface import (
    Drop,
    HashDelete,
    HashPut,
    HashReplace,
    ScoreRemove,
    SortedPut,
    SortedRemove,
)
from state.multiset.block_lines import NO_LINES, lines_of_block
from state.multiset.changes import differs
from state.multiset.index import (
    buckets_for,
    buckets_of,
    digests_of,
    lines_of,
    write_lines,
)
from state.multiset.known_index import KnownIndex, matches_after, split_buckets
from state.multiset.segments import (
    SEGMENT_BYTES_MIN,
    by_hash,
    segment_name,
    segments_max,
    with_entries,
)
from state.multiset.spread import BLOCK_ENTRIES, STATE, SpreadNames, block_of
from state.multiset.text import NEWEST, Header, pieces_before_rows
from state.multiset.vectors import distinct, is_among, places_of, taken
from state.row_pieces import integer_texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from state.backends.interface import Write
    from state.multiset.block_lines import BlockLines
    from state.multiset.epoch_result import EpochResult, Puts, Rows
    from state.multiset.index import Characters
    from state.multiset.numbered import Numbered
    from state.multiset.segments import SegmentMerge
    from state.multiset.spread_history import SpreadHistory
    from state.multiset.touched import Matching
    from state.row_pieces import RowPieces

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_T = TypeVar("_T")

REPLACED_LINES_MIN = 256
"""An index of which fewer lines are to be written is not replaced as a whole."""


class SpreadWriter:
    """Writes of one history that is to be spread."""

    def __init__(self, epoch: EpochResult, key: int, puts: Puts, rows: Rows) -> None:
        self._epoch = epoch
        self._key = key
        self._puts = puts
        self._rows = rows
        self._names = SpreadNames.of(epoch.histories.keys[key])
        self._writes: list[Write] = []
        self._segments: tuple[int, ...] = ()
        """The first block of each segment."""
        self.header = Header(1)
        """Of the history, once it is written."""
        self.index: KnownIndex | None = None
        """What is written of its index, by sequence number, where that is known as a whole."""
        self.blocks: dict[int, bytes] = {}
        """The blocks that are written, by number."""
        self.dropped: list[int] = []
        """Numbers of the blocks that are gone."""

    def change(
        self, matching: Matching, merge: tuple[SegmentMerge, Mapping[bytes, bytes]] | None = None
    ) -> list[Write]:
        """Write what changed of a history that was spread and stays so.

        Args:
            matching: What tells digests.
            merge: Segments to put together before, and all of their blocks.
        """
        epoch = self._epoch
        history = epoch.histories.spread[self._key]
        self._segments = history.header.segments
        if merge is not None:
            self._writes += merge[0].writes(merge[1])
            self._segments = merge[0].left(self._segments, merge[1])
        mine = epoch.entries_of(self._key)
        removed = epoch.histories.entries.sequence[mine][epoch.outcome.entry_removed[mine]]
        puts = self._puts
        gone = np.concatenate((removed, history.expired))
        touched = distinct(block_of(np.concatenate((gone, puts.sequence))))
        loaded = epoch.histories.entries.sequence[mine]
        held = _lines_that_stay(touched, loaded, epoch.stays[mine], history)
        written = self._change_blocks(held, history)
        segments = self._segments
        buckets = self._change_index(history, gone, matching)
        self._drop_blocks(touched[~is_among(touched, written)], segments)
        self._put_header(buckets)
        return self._writes

    def _change_index(self, history: SpreadHistory, removed: Integers, matching: Matching) -> int:
        """Write the buckets that gained or lost a line, or are split as the history grew.

        Args:
            history: What was read of it.
            removed: Sequence numbers of entries that are gone.
            matching: What tells digests where the history was looked up without them.

        Returns:
            How many buckets there are now.
        """
        index, puts = history.index, self._puts
        was = history.header.buckets
        buckets = max(was, buckets_for(int(self._epoch.outcome.size[self._key])))
        if history.expired.size:
            gone = is_among(index.numbers, removed).nonzero()[0]
        else:
            gone = history.found_line
            if removed.size < gone.size:
                gone = gone[is_among(history.found, removed)]
        stays = np.ones(len(index.lines), np.bool_)
        stays[gone] = False
        fresh = puts.is_new.nonzero()[0]
        if history.digests is None:
            digests = digests_of(matching.index_of_groups(puts.group[fresh]))
        else:
            first = int(history.groups[0]) if history.groups.size else 0
            digests = history.digests[puts.group[fresh] - first]
        new = lines_of(digests, puts.sequence[fresh])
        old_bucket, new_bucket = index.bucket, buckets_of(new, buckets)
        changed = np.zeros(buckets, np.bool_)
        changed[new_bucket] = changed[old_bucket[gone]] = True
        if buckets > was:
            old_bucket = split_buckets(index, buckets, was, changed)
        # Lines of new entries last: their numbers are higher than all others.
        kept = places_of(stays)
        bucket = np.concatenate([taken(old_bucket, kept), new_bucket])
        lines = np.concatenate([taken(index.lines, kept), new])
        chosen = None if changed.all() else changed[bucket].nonzero()[0]
        if len(index.read) == was:
            numbers = np.concatenate([taken(index.numbers, kept), puts.sequence[fresh]])
            matches = matches_after(index.matches, kept, matching, puts.group[fresh])
            if self._segments:
                ascending = numbers if index.is_ascending else np.sort(numbers)
                self._segments = with_entries(self._segments, ascending)
            self._know_index(
                KnownIndex(
                    list(range(buckets)), lines, bucket, numbers, matches, index.is_ascending
                )
            )
            if _is_most(len(lines) if chosen is None else chosen.size, len(lines)):
                self._replace_index(lines, bucket)
                return buckets
        written = self._put_buckets(lines, bucket, chosen)
        changed[written] = False
        emptied = changed[:was].nonzero()[0].tolist()
        if emptied:
            self._writes.append(HashDelete(self._names.index, integer_texts(emptied)))
        return buckets

    def _know_index(self, index: KnownIndex) -> None:
        """Keep what the index consists of now; with TTL it is never gone on from."""
        if self._epoch.policy.ttl_ms:
            return
        self.index = index.by_number()

    def _put_buckets(
        self, lines: Characters, bucket: Integers, chosen: Integers | None
    ) -> Integers:
        """Write the buckets of the chosen lines, None is all, and say which they are."""
        numbers, texts = write_lines(lines, bucket, chosen)
        if texts:
            fields = integer_texts(numbers)
            self._writes.append(HashPut(self._names.index, _interleaved(fields, texts)))
        return numbers

    def _replace_index(self, lines: Characters, bucket: Integers) -> None:
        """Write all buckets, those of each in the order of their numbers; remove all others."""
        numbers, texts = write_lines(lines, bucket)
        pairs = _interleaved(integer_texts(numbers), texts)
        self._writes.append(HashReplace(self._names.index, pairs))

    def whole(self, matching: Matching) -> list[Write]:
        """Write a history in full that was packed, or is new."""
        epoch, puts = self._epoch, self._puts
        entries, packed = epoch.histories.entries, epoch.histories.packed
        mine = epoch.entries_of(self._key)
        kept = mine.start + epoch.stays[mine].nonzero()[0]
        old = matching.index_of_rows(packed.rows(epoch.histories.packed_entry[kept]))
        new = matching.index_of_groups(puts.group)
        sequence = np.append(entries.sequence[kept], puts.sequence)
        self._replace_blocks(kept)
        lines = lines_of(digests_of(chain(old, new)), sequence)
        buckets = buckets_for(sequence.size)
        bucket = buckets_of(lines, buckets)
        numbered = _as_numbers(old, matching, puts.group)
        index = KnownIndex(list(range(buckets)), lines, bucket, sequence, numbered).by_number()
        self._know_index(index)
        self._replace_index(index.lines, index.bucket)
        self._put_header(buckets)
        return self._writes

    def _change_blocks(self, held: Mapping[int, BlockLines], history: SpreadHistory) -> Integers:
        """Write the blocks that are not as they were, but those of which nothing is left.

        Args:
            held: What stays of them, by number.
            history: What was read of the history.

        Returns:
            The numbers of the blocks that are written, ascending.
        """
        puts, now_ms = self._puts, self._epoch.now_ms
        block = block_of(puts.sequence)
        starts = differs(block).nonzero()[0]
        with_puts, limits = block[starts].tolist(), [*starts.tolist(), block.size]
        if puts.is_new.all():
            # What comes stands behind what stays.
            heads = integer_texts(with_puts)
            for place, number in enumerate(with_puts):
                if number in held:
                    heads[place] = held[number].behind(heads[place])
            texts = dict(zip(with_puts, self._new_lines().joined(heads, limits), strict=True))
        else:
            lines = [*zip(puts.sequence.tolist(), self._new_lines().texts(), strict=True)]
            texts = {
                number: held.get(number, NO_LINES).with_others(b"%d" % number, lines[low:high])
                for number, (low, high) in zip(with_puts, pairwise(limits), strict=True)
            }
        oldest = dict.fromkeys(with_puts, now_ms)
        for number, mine in held.items():
            if number in texts:
                oldest[number] = min(mine.oldest_ms, now_ms)
            else:
                texts[number], oldest[number] = mine.behind(b"%d" % number), mine.oldest_ms
        numbers = sorted(texts)
        self.blocks = {number: texts[number] for number in numbers}
        if numbers:
            self._put_blocks(history.header.following, segments_max(history.size))
            # What is remembered is there unread, too, so that all attempts write the same.
            known = history.blocks.keys() | {*history.unread.tolist()}
            fresh = [number for number in numbers if number not in known]
            self._note_blocks(fresh, [oldest[number] for number in numbers])
        return np.array(numbers, np.int64)

    def _put_blocks(self, following: int, segments_most: int) -> None:
        """Write `blocks`: those that are new into a segment of their own, if they are many.

        Args:
            following: The sequence number that came next before the epoch.
            segments_most: Segments that the history may have.
        """
        blocks, texts = self._names.blocks, self.blocks
        # One that had this number may be there.
        new = [number for number in texts if number > (following - 1) // BLOCK_ENTRIES]
        is_long = sum(len(texts[number]) for number in new) >= SEGMENT_BYTES_MIN
        if not is_long or len(self._segments) >= segments_most:
            new = []
        for name, numbers in by_hash(blocks, self._segments, sorted(texts.keys() - set(new))):
            self._writes.append(HashPut(name, self._pairs_of(numbers)))
        if new:
            self._writes.append(HashReplace(segment_name(blocks, new[0]), self._pairs_of(new)))
            self._segments = (*self._segments, new[0])

    def _replace_blocks(self, kept: Integers) -> None:
        """Write the blocks of a history in full: of these loaded entries and the epoch's puts."""
        epoch = self._epoch
        packed, place = epoch.histories.packed, epoch.histories.packed_entry[kept]
        sequence = np.append(epoch.histories.entries.sequence[kept], self._puts.sequence)
        if not sequence.size:
            return
        lines = self._new_lines()
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
        numbers = block[start].tolist()
        texts = lines.joined(integer_texts(numbers), [*start.tolist(), sequence.size])
        self.blocks = dict(zip(numbers, texts, strict=True))
        self._writes.append(HashReplace(self._names.blocks, self._pairs_of(numbers)))
        self._note_blocks(numbers, np.minimum.reduceat(written, start).tolist())

    def _pairs_of(self, numbers: Sequence[int]) -> list[bytes]:
        """These of `blocks`, as fields and values."""
        texts = [self.blocks[number] for number in numbers]
        return _interleaved(integer_texts(numbers), texts)

    def _note_blocks(self, fresh: Sequence[int], oldest: Sequence[int]) -> None:
        """Say of `blocks` which of them were not there before, and how old each is."""
        fields = integer_texts([*self.blocks])
        if fresh:
            pairs = _interleaved(fresh, integer_texts(fresh))
            self._writes.append(SortedPut(self._names.order, pairs))
        self._writes.append(SortedPut(self._names.stamps, _interleaved(oldest, fields)))

    def _new_lines(self) -> RowPieces:
        """Lines of the epoch's puts."""
        before = pieces_before_rows(self._puts.sequence, self._epoch.now_ms)
        return self._rows.pieces_of_changes(self._puts.content, before)

    def _drop_blocks(self, blocks: Integers, segments: Sequence[int]) -> None:
        """Remove blocks that hold nothing any more.

        Args:
            blocks: Their numbers, ascending.
            segments: The first block of each segment, those included that have no more entries.
        """
        if not blocks.size:
            return
        self.dropped = blocks.tolist()
        names, gone = self._names, integer_texts(blocks)
        blank = set(segments).difference(self._segments)
        empty = {segment_name(names.blocks, first) for first in blank}
        for name, numbers in by_hash(names.blocks, segments, self.dropped):
            is_empty = name in empty
            self._writes.append(
                Drop(name) if is_empty else HashDelete(name, integer_texts(numbers))
            )
        oldest = 0
        if self.index is not None:
            # Below the oldest entry that is left there are no blocks but these.
            oldest = int(blocks.searchsorted(block_of(self.index.numbers[:1]))[0])
        if oldest:
            self._writes.append(ScoreRemove(names.order, self.dropped[oldest - 1]))
        self._writes.append(SortedRemove(names.order, gone[oldest:]))
        self._writes.append(SortedRemove(names.stamps, gone))

    def _put_header(self, buckets: int) -> None:
        key, outcome = self._key, self._epoch.outcome
        shown = int(outcome.shown[key])
        # One that was emptied within the epoch is numbered anew: what lies behind is gone.
        last = (int(outcome.following[key]) - 1) // BLOCK_ENTRIES
        self.header = Header(
            following=int(outcome.following[key]),
            shown=NEWEST if shown == int(outcome.newest[key]) else shown,
            size=int(outcome.size[key]),
            buckets=buckets,
            segments=tuple(first for first in self._segments if first <= last),
        )
        flat = [self._epoch.histories.keys[key], self.header.format()]
        self._writes.append(HashPut(STATE, flat))


def _lines_that_stay(
    touched: Integers, loaded: Integers, stays: Flags, history: SpreadHistory
) -> dict[int, BlockLines]:
    """By number, what stays of blocks: none where nothing does.

    Args:
        touched: Numbers of the blocks that are not as they were, ascending.
        loaded: Sequence numbers of the loaded entries, ascending.
        stays: Which of them stay as they are.
        history: What was read of the history.

    Raises:
        StateCorrupt: A block has other entries than those that were loaded, or expired.
    """
    kept, known = loaded[stays], loaded
    if history.expired.size:
        known = np.sort(np.append(loaded, history.expired))
    low, high = (block_of(kept).searchsorted(touched, side) for side in ("left", "right"))
    first, end = (block_of(known).searchsorted(touched, side) for side in ("left", "right"))
    some = (low < high).nonzero()[0]
    columns = (touched, low, high, end - first)
    return {
        number: lines_of_block(history.blocks[number], kept[start:stop].tolist(), count)
        for number, start, stop, count in zip(*(c[some].tolist() for c in columns), strict=True)
    }


def _as_numbers(texts: Sequence[bytes], matching: Matching, groups: Integers) -> Numbered | None:
    """Texts of match columns, and behind them those of groups, as numbers, where they are alike."""
    numbered = matching.numbered(groups)
    values = None if numbered is None else numbered.read(texts)
    if numbered is None or values is None:
        return None
    return numbered.with_values(np.append(values, numbered.values))


def _is_most(written: int, size: int) -> bool:
    """Whether so many lines that are to be written are most of an index, and many."""
    return written >= REPLACED_LINES_MIN and 2 * written >= size


def _interleaved(left: Sequence[_T], right: Sequence[bytes]) -> list[_T | bytes]:
    flat: list[_T | bytes] = [b""] * (2 * len(left))
    flat[0::2] = left
    flat[1::2] = right
    return flat
