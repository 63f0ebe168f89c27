"""Writing what an epoch did to its keys' histories.

Only what changed is written: a packed history as a whole, of a spread one the entries that came,
went or were replaced. Entries that lived and died inside the epoch are never written.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from state.backends.interface import (
    Drop,
    HashDelete,
    HashGet,
    HashPut,
    HashScan,
    SortedPut,
    SortedRemove,
)
from state.multiset.changes import Report, differs
from state.multiset.epoch_result import EpochResult, Puts, Rows
from state.multiset.index import buckets_of, digests_of
from state.multiset.memory import NO_BLOCKS, Remembered
from state.multiset.segments import SegmentMerge, block_hashes
from state.multiset.spread import BLOCK_ENTRIES, EXPIRY, STATE, SpreadNames
from state.multiset.spread_writing import SpreadWriter
from state.multiset.strategy import Strategy
from state.multiset.text import (
    FEW,
    before_rows,
    packed_headers,
    parse_packed,
    pieces_before_rows,
    write_packed,
)
from state.multiset.vectors import bytes_of, order_of
from state.multiset.walk import walked_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from state.backends.interface import EpochTransaction, Read, Write
    from state.multiset.memory import Blocks, HistoryMemory
    from state.multiset.spread_history import SpreadHistory
    from state.multiset.touched import Matching

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class HistoryWriter:
    """Turns the outcome of an epoch into writes, a list for each key group."""

    def __init__(self, epoch: EpochResult) -> None:
        self._epoch = epoch
        policy, histories, outcome = epoch.policy, epoch.histories, epoch.outcome
        count, missed = len(histories.keys), int(Report.MISSED)
        self.altered = histories.expired > 0
        """Per key: its history is not what it was."""
        if count == 1:
            self.altered |= bool((outcome.report < missed).any())
        else:
            self.altered[epoch.changes.key[outcome.report < missed]] = True
        self._was_spread = np.zeros(count, np.bool_)
        self._was_spread[list(histories.spread)] = True
        spread_next = policy.spread_after(outcome.size, self._was_spread)
        self._lives = self.altered & (outcome.size > 0)
        self._to_spread = self._lives & spread_next
        self._to_packed = self._lives & ~spread_next
        self.migrations = int(
            (
                (self._to_spread & ~self._was_spread & histories.was_stored)
                | (self._to_packed & self._was_spread)
            ).sum()
        )
        """Histories that change their layout."""
        self._written: dict[int, SpreadWriter] = {}
        """Of the histories that are spread now, by key."""
        self._scans: dict[int, dict[bytes, bytes]] = {}
        self._merges: dict[int, tuple[SegmentMerge, dict[bytes, bytes]]] = {}
        """By key: segments that are put together, and all of their blocks."""
        self._writes: dict[int, list[Write]] = {}

    # The last round trip before the commit.

    def fetch(
        self, transaction: EpochTransaction, matching: Matching, emitted: Integers
    ) -> pa.BinaryArray:
        """Read what the writes still need, and rows of loaded entries that are to be emitted.

        Returns:
            The rows of these entries, canonical.
        """
        if self._epoch.histories.spread:
            self._fetch_missing(transaction, matching)
        return self._epoch.histories.packed.rows(self._epoch.histories.packed_entry[emitted])

    def _fetch_missing(self, transaction: EpochTransaction, matching: Matching) -> None:
        """Read histories to pack, segments to put together, and the index of what expired."""
        packs = (self._to_packed & self._was_spread).nonzero()[0].tolist()
        scans = [(key, name) for key in packs for name in self._block_hashes(key)]
        reads: list[Read] = [HashScan(self._key_group(key), name) for key, name in scans]
        merges = self._wanted_merges()
        merged = [
            (key, read) for key, each in merges.items() for read in each.reads(self._key_group(key))
        ]
        reads += [read for _, read in merged]
        open_ = [(each, self._stale_buckets(each, matching)) for each in self._partly_expired()]
        reads += [
            HashGet(
                self._key_group(each.key),
                self._names(each.key).index,
                [b"%d" % bucket for bucket in buckets],
            )
            for each, buckets in open_
        ]
        replies = transaction.fetch(reads) if reads else []
        for (key, _), reply in zip(scans, replies[: len(scans)], strict=True):
            self._scans.setdefault(key, {}).update(reply)
        self._merges = {key: (each, {}) for key, each in merges.items()}
        for (key, _), reply in zip(merged, replies[len(scans) :], strict=False):
            self._merges[key][1].update(reply)
        behind = replies[len(scans) + len(merged) :]
        for (each, buckets), reply in zip(open_, behind, strict=True):
            each.index.learn(buckets, reply)

    def _wanted_merges(self) -> dict[int, SegmentMerge]:
        """Segments to put together, by key, of histories that stay spread."""
        found = dict[int, SegmentMerge]()
        for key, history in self._epoch.histories.spread.items():
            header = history.header
            if header.segments and self._to_spread[key]:
                last = (header.following - 1) // BLOCK_ENTRIES
                newest = (int(self._epoch.outcome.following[key]) - 1) // BLOCK_ENTRIES
                blocks = self._names(key).blocks
                merge = SegmentMerge.wanted(blocks, header.segments, history.size, last, newest)
                if merge is not None:
                    found[key] = merge
        return found

    def _partly_expired(self) -> list[SpreadHistory]:
        """Spread histories that stay so and lost entries to their time."""
        return [
            each
            for each in self._epoch.histories.spread.values()
            if each.expired.size and self._to_spread[each.key]
        ]

    def _stale_buckets(self, history: SpreadHistory, matching: Matching) -> list[int]:
        """Index buckets of expired entries, but those that were read anyway."""
        rows = self._epoch.histories.packed.rows(history.expired_place)
        digests = digests_of(matching.index_of_rows(rows))
        buckets = buckets_of(digests, history.header.buckets).tolist()
        return sorted(set(buckets).difference(history.index.read))

    # The writes.

    def writes(self, rows: Rows, matching: Matching) -> dict[int, list[Write]]:
        """The writes of the epoch, by key group."""
        puts = self._puts()
        self._write_packed(puts, rows)
        for key in self._to_spread.nonzero()[0].tolist():
            mine = puts.of_key(key)
            writer = SpreadWriter(self._epoch, key, mine, rows)
            self._writes.setdefault(self._key_group(key), []).extend(
                writer.change(matching, self._merges.get(key))
                if self._was_spread[key]
                else writer.whole(matching)
            )
            self._written[key] = writer
        self._write_emptied()
        if self._epoch.policy.ttl_ms:
            self._write_expiry(puts)
        for key_group, note in self._epoch.histories.notes:
            self._add(key_group, note)
        return self._writes

    def remembering(
        self, transaction: EpochTransaction, memory: HistoryMemory
    ) -> Callable[[], None]:
        """What remembers what was written of long histories, and no other, once it is stored."""
        kept: list[tuple[bytes, Remembered]] = []
        for key, writer in self._written.items():
            version = transaction.version_written(self._key_group(key))
            if version is None:
                continue
            blocks = self._blocks_before(key).after(writer.blocks, writer.dropped)
            held = Remembered(version, writer.header, writer.index, blocks)
            kept.append((self._epoch.histories.keys[key], held))
        no_more = (self.altered & self._was_spread & ~self._to_spread).nonzero()[0].tolist()

        def remember() -> None:
            for name, held in kept:
                memory.keep(name, held)
            for key in no_more:
                version = transaction.version_written(self._key_group(key))
                if version is not None:
                    memory.forget(version.place, self._epoch.histories.keys[key])

        return remember

    def _blocks_before(self, key: int) -> Blocks:
        """What was remembered of the blocks of a history, if the epoch went on from that."""
        history = self._epoch.histories.spread.get(key)
        return NO_BLOCKS if history is None else history.remembered

    def _puts(self) -> Puts:
        outcome, entries = self._epoch.outcome, self._epoch.histories.entries
        replaced = (outcome.entry_content >= 0).nonzero()[0]
        key, sequence = self._epoch.changes.key[outcome.born], outcome.born_sequence
        content, is_new = outcome.born_content, np.ones(key.size, np.bool_)
        if replaced.size:
            key = np.concatenate([entries.key[replaced], key])
            sequence = np.concatenate([entries.sequence[replaced], sequence])
            content = np.concatenate([outcome.entry_content[replaced], content])
            is_new = np.arange(key.size) >= replaced.size
            by_key = order_of(key, sequence)
            key, sequence, content = (each[by_key] for each in (key, sequence, content))
            is_new = is_new[by_key]
        needed = self._epoch.replace or self._to_spread.any()
        group = self._epoch.groups.of_change[content] if needed else np.zeros_like(key)
        return Puts(key, sequence, group, is_new, content)

    def _write_packed(self, puts: Puts, rows: Rows) -> None:
        keys = self._to_packed.nonzero()[0]
        if not keys.size:
            return
        entries, packed = self._epoch.histories.entries, self._epoch.histories.packed
        kept = (self._epoch.stays & self._to_packed[entries.key]).nonzero()[0]
        if self._to_spread.any():
            puts = puts.of(self._to_packed[puts.key].nonzero()[0])
        outcome = self._epoch.outcome
        is_legacy = self._epoch.policy.strategy is Strategy.LEGACY
        headers = packed_headers(
            outcome.following[keys],
            self._epoch.now_ms if is_legacy else None,
            outcome.shown[keys],
            outcome.newest[keys],
        )
        if puts.key.size + kept.size <= FEW and not self._scans:
            self._put_values(keys, self._few_values(keys.tolist(), headers, puts, kept, rows))
            return
        new_lines = rows.of_changes(puts.content, before_rows(puts.sequence, self._epoch.now_ms))
        parts = [(puts.key, puts.sequence, new_lines)]
        if kept.size:
            taken = packed.lines(self._epoch.histories.packed_entry[kept])
            parts.append((entries.key[kept], entries.sequence[kept], taken))
        parts += [self._scanned_lines(key) for key in self._scans]
        owner, _, lines = _merged(parts)
        place = self._to_packed.cumsum() - 1
        self._put_values(keys, write_packed(headers, place[owner], lines))

    def _few_values(
        self, keys: list[int], headers: list[bytes], puts: Puts, kept: Integers, rows: Rows
    ) -> list[bytes]:
        """The packed values of keys, line by line: for few, starting Arrow would take longer."""
        entries, packed = self._epoch.histories.entries, self._epoch.histories.packed
        lines = list[tuple[int, int, bytes]]()
        if puts.key.size:
            before = pieces_before_rows(puts.sequence, self._epoch.now_ms)
            texts = rows.pieces_of_changes(puts.content, before).texts()
            lines += zip(puts.key.tolist(), puts.sequence.tolist(), texts, strict=True)
        if kept.size:
            held = bytes_of(packed.lines(self._epoch.histories.packed_entry[kept]))
            lines += zip(
                entries.key[kept].tolist(), entries.sequence[kept].tolist(), held, strict=True
            )
        values = {key: [header] for key, header in zip(keys, headers, strict=True)}
        for key, _, line in sorted(lines):
            values[key].append(line)
        return [b"".join(values[key]) for key in keys]

    def _scanned_lines(self, key: int) -> tuple[Integers, Integers, pa.BinaryArray]:
        """Lines of the entries that a history brings along when it stops being spread.

        They are those of blocks that no change asked for, so the epoch did nothing to them.
        """
        history = self._epoch.histories.spread[key]
        scan = {int(field): value for field, value in self._scans[key].items()}
        left = sorted(scan.keys() - history.blocks.keys() - set(history.unread.tolist()))
        packed = parse_packed([scan[block] for block in left])
        lines = packed.lines(np.arange(packed.sequence.size))
        return np.full(packed.sequence.size, key), packed.sequence, lines

    def _put_values(self, keys: Integers, values: list[bytes]) -> None:
        """Store values of keys, one write for each key group; drop what was spread before."""
        names, groups = self._epoch.histories.keys, self._epoch.histories.key_groups[keys]
        by_group = np.argsort(groups, kind="stable")
        named = [names[key] for key in keys[by_group].tolist()]
        sorted_values = [values[place] for place in by_group.tolist()]
        starts = differs(groups[by_group]).nonzero()[0].tolist()
        for low, high in pairwise([*starts, keys.size]):
            flat = [b""] * (2 * (high - low))
            flat[0::2], flat[1::2] = named[low:high], sorted_values[low:high]
            self._add(int(groups[by_group[low]]), HashPut(STATE, flat))
        for key in keys[self._was_spread[keys]].tolist():
            self._drop_spread(key)

    def _write_emptied(self) -> None:
        gone = (
            self.altered & (self._epoch.outcome.size == 0) & self._epoch.histories.was_stored
        ).nonzero()[0]
        fields: dict[int, list[bytes]] = {}
        for key in gone.tolist():
            fields.setdefault(self._key_group(key), []).append(self._epoch.histories.keys[key])
            if self._was_spread[key]:
                self._drop_spread(key)
        policy = self._epoch.policy
        for key_group, keys in fields.items():
            self._add(key_group, HashDelete(STATE, keys))
            if policy.is_stamped and not policy.ttl_ms:
                self._add(key_group, SortedRemove(EXPIRY, keys))

    def _drop_spread(self, key: int) -> None:
        names = self._names(key)
        for name in (names.order, *self._block_hashes(key), names.index, names.stamps):
            self._add(self._key_group(key), Drop(name))

    def _write_expiry(self, puts: Puts) -> None:
        """Say how old what each key holds is, so that it is looked at when something expires."""
        oldest = self._oldest_ms(puts)
        looked_at = self.altered.copy()
        looked_at[self._epoch.histories.due_from :] = True
        if walked := walked_groups(self._epoch.histories.notes):
            # A key that was touched and is as it was is in no index yet, and no walk comes again.
            looked_at |= np.isin(self._epoch.histories.key_groups, [*walked])
        puts_by_group: dict[int, list[float | bytes]] = {}
        gone_by_group: dict[int, list[bytes]] = {}
        for key in looked_at.nonzero()[0].tolist():
            name, key_group = self._epoch.histories.keys[key], self._key_group(key)
            if self._epoch.outcome.size[key]:
                puts_by_group.setdefault(key_group, []).extend((int(oldest[key]), name))
            else:
                gone_by_group.setdefault(key_group, []).append(name)
        for key_group, flat in puts_by_group.items():
            self._add(key_group, SortedPut(EXPIRY, flat))
        for key_group, keys in gone_by_group.items():
            self._add(key_group, SortedRemove(EXPIRY, keys))

    def _oldest_ms(self, puts: Puts) -> Integers:
        """Per key: a time no later than the oldest write that still counts."""
        histories, entries = self._epoch.histories, self._epoch.histories.entries
        oldest = np.full(len(histories.keys), np.iinfo(np.int64).max)
        kept = self._epoch.stays.nonzero()[0]
        written = histories.packed.written_ms[histories.packed_entry[kept]]
        np.minimum.at(oldest, entries.key[kept], written)
        oldest[puts.key] = np.minimum(oldest[puts.key], self._epoch.now_ms)
        for key, history in histories.spread.items():
            if history.oldest_ms is not None:
                oldest[key] = min(int(oldest[key]), history.oldest_ms)
        if self._epoch.policy.strategy is Strategy.LEGACY:
            stated = np.where(histories.written_ms < 0, oldest, histories.written_ms)
            oldest = np.where(self.altered, self._epoch.now_ms, stated)
        np.minimum(oldest, self._epoch.now_ms, out=oldest)
        return oldest

    def _add(self, key_group: int, write: Write) -> None:
        self._writes.setdefault(key_group, []).append(write)

    def _block_hashes(self, key: int) -> list[bytes]:
        """All hashes that may have stored blocks of a history that was spread."""
        segments = self._epoch.histories.spread[key].header.segments
        return block_hashes(self._names(key).blocks, segments)

    def _names(self, key: int) -> SpreadNames:
        return SpreadNames.of(self._epoch.histories.keys[key])

    def _key_group(self, key: int) -> int:
        return int(self._epoch.histories.key_groups[key])


def _merged(
    parts: Sequence[tuple[Integers, Integers, pa.BinaryArray]],
) -> tuple[Integers, Integers, pa.BinaryArray]:
    """Lines of several sources, by key and sequence number."""
    parts = [part for part in parts if part[0].size] or list(parts[:1])
    if len(parts) == 1:
        return parts[0]
    key = np.concatenate([part[0] for part in parts])
    sequence = np.concatenate([part[1] for part in parts])
    lines = pa.concat_arrays([part[2] for part in parts])
    by_key = order_of(key, sequence)
    return key[by_key], sequence[by_key], lines.take(pa.array(by_key))
