"""What an epoch reads of spread histories: a little of each, however long they are.

What is read are the blocks of the entries that changes match, those with entries past their time,
and the newest ones as a window. The window will mostly do. Where the epoch takes all of a history's
end away, so that an older entry becomes the newest, the kernel says so, and a deeper one is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from state.backends.interface import HashGet, SortedRange, SortedTop
from state.errors import StateCorrupt
from state.multiset.index import (
    buckets_for,
    buckets_of,
    digests_of,
    find_digests,
    origin_of,
)
from state.multiset.known_index import KnownIndex
from state.multiset.memory import NO_BLOCKS
from state.multiset.numbered import find_numbers
from state.multiset.segments import block_reads
from state.multiset.spread import BLOCK_ENTRIES, SpreadNames, block_of, parse_numbers
from state.multiset.spread_history import SpreadHistory
from state.multiset.text import Header, is_spread, parse_header
from state.multiset.vectors import distinct, distinct_counts, is_among

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from state.backends.interface import Read
    from state.multiset.index import Characters
    from state.multiset.memory import Blocks, Remembered
    from state.multiset.touched import Matching, Touched

    Integers = NDArray[np.int64]

EVER = float("inf")
"""A score above all others."""

_WINDOW = 2
"""Newest blocks that are read at first."""
_DENSE = 2
"""So many groups of changes for each bucket of an index touch nearly all of them."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What is read of one history in case that it is spread."""

    key: int
    groups: Integers
    digests: Characters
    buckets: list[int]
    """Which of the index are read."""
    reads: list[Read]


@dataclass(frozen=True, slots=True)
class Likely:
    """What is read of one history that was spread, and is likely to be so."""

    key: int
    buckets: int
    """How many its index had."""
    reads: list[Read]


def _is_dense(groups: int, buckets: int) -> bool:
    """Whether so many groups of changes are likely to need nearly all buckets: all are read then.

    What is written may depend on what was read, so this depends on state and input alone.
    """
    return groups >= _DENSE * buckets


class SpreadProber:
    """Says what to read of spread histories, and takes the replies apart."""

    def __init__(
        self, touched: Touched, matching: Matching, keys: Sequence[bytes], key_groups: Integers
    ) -> None:
        self._touched = touched
        self._matching = matching
        self._keys = keys
        self._key_groups = key_groups
        self._digested: dict[int, tuple[Integers, Characters]] = {}
        """By key: its groups of changes and their digests."""

    def probes(
        self, keys: Sequence[int], values: Sequence[bytes | None], until_ms: int | None
    ) -> list[Probe]:
        """What to read of these histories; entries written until then are past their time.

        Args:
            keys: Keys whose value is known to be a header, or that no change of the epoch touches.
            values: The value of each key, as far as it is known.
            until_ms: None without a TTL.
        """
        self._digest(keys)
        probes = []
        for key in keys:
            groups, digests = self._digested[key]
            value, buckets = values[key], list[int]()
            if value is not None:
                buckets = self._buckets(parse_header(value), groups, digests)
            reads = self._reads(key, buckets, until_ms)
            probes.append(Probe(key, groups, digests, buckets, reads))
        return probes

    def likely(self, guesses: Mapping[bytes, int], until_ms: int | None) -> list[Likely]:
        """What to read at once of histories that were spread when they were seen last.

        Only of those of which the whole index is wanted, which needs no digests.

        Args:
            guesses: How many buckets their indexes had then, by key.
            until_ms: As for `probes`.
        """
        if not guesses:
            return []
        groups = np.bincount(self._touched.group_key).tolist()
        known = [
            (key, guesses[name]) for key, name in enumerate(self._touched.keys) if name in guesses
        ]
        return [
            Likely(key, count, self._reads(key, list(range(count)), until_ms))
            for key, count in known
            if _is_dense(groups[key], count)
        ]

    def work_ahead(self, likely: Sequence[Likely]) -> None:
        """Make the digests that these histories are looked up by."""
        self._digest([each.key for each in likely])

    def _digest(self, keys: Sequence[int]) -> None:
        """Make the digests of the groups of these keys, where they were not made yet."""
        missing = [key for key in keys if key not in self._digested]
        if not missing:
            return
        first = np.asarray(missing, np.int64)
        low = self._touched.group_key.searchsorted(first)
        high = self._touched.group_key.searchsorted(first + 1)
        ranges = [np.arange(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        digests = digests_of(())
        if int((high - low).sum()):
            matches = self._matching.index_of_groups(np.concatenate(ranges))
            digests = digests_of(matches)
        ends = np.cumsum(high - low).tolist()
        for key, groups, end in zip(missing, ranges, ends, strict=True):
            self._digested[key] = (groups, digests[end - groups.size : end])

    def _reads(self, key: int, buckets: Sequence[int], until_ms: int | None) -> list[Read]:
        key_group, names = self._place(key)
        reads: list[Read] = [
            HashGet(key_group, names.index, [b"%d" % bucket for bucket in buckets]),
            SortedTop(key_group, names.order, self._window(key)),
        ]
        if until_ms is not None:
            reads.append(SortedRange(key_group, names.stamps, -EVER, float(until_ms), None))
            reads.append(SortedRange(key_group, names.stamps, float(until_ms + 1), EVER, 1))
        return reads

    def _buckets(self, header: Header, groups: Integers, digests: Characters) -> list[int]:
        """Buckets to read: those of the groups, and those that the epoch may have to split."""
        count = header.buckets
        if _is_dense(groups.size, count):
            return list(range(count))
        wanted = buckets_of(digests, count)
        additions = self._touched.group_additions[groups].sum()
        coming = range(count, buckets_for((header.size or 0) + int(additions)))
        if coming:
            origins = [origin_of(bucket, count) for bucket in coming]
            wanted = np.append(wanted, np.array(origins, np.int64))
        buckets: list[int] = distinct(wanted).tolist()
        return buckets

    def take(
        self,
        probes: Sequence[Probe],
        values: Sequence[bytes | None],
        replies: Sequence[Any],
    ) -> list[SpreadHistory]:
        """Spread histories from the replies; probes of keys that are not spread are dropped."""
        histories = []
        place = 0
        for probe in probes:
            own = replies[place : place + len(probe.reads)]
            place += len(probe.reads)
            value = values[probe.key]
            if value is None or not is_spread(value):
                continue
            index, header = KnownIndex.of(probe.buckets, own[0]), parse_header(value)
            history = self._history(probe.key, header, index, _members(own[1]))
            if len(own) > 2:
                history.due = _members(own[2])
                history.oldest_ms = int(own[3][0][1]) if own[3] else None
            histories.append(history)
        return histories

    def recalled(self, remembered: Mapping[int, Remembered]) -> list[SpreadHistory]:
        """Spread histories from what is remembered of them, by key; there is no TTL."""
        found = {
            key: None if each.index is None else self._find_numbered(key, each.index)
            for key, each in remembered.items()
        }
        self._digest([key for key, row in found.items() if row is None])
        histories = []
        for key, each in remembered.items():
            if each.index is None:
                raise ValueError("a history without its index is not recalled")
            newest = distinct(block_of(each.index.numbers[-_WINDOW * BLOCK_ENTRIES :]))
            newest = newest[::-1][: self._window(key)]
            history = self._history(key, each.header, each.index, newest, found[key], each.blocks)
            history.remembered, known = each.blocks, each.blocks.texts
            missing = self._missing(history)
            history.blocks = {block: known[block] for block in missing if block in known}
            history.is_complete = len(history.blocks) == len(missing)
            histories.append(history)
        return histories

    def _find_numbered(self, key: int, index: KnownIndex) -> Integers | None:
        """Per line of an index which of the key's groups it matches, or -1; None if unknown."""
        if index.matches is None:
            return None
        numbered = self._matching.numbered(self._groups_of(key))
        if numbered is None or not numbered.is_like(index.matches):
            return None
        return find_numbers(numbered.values, index.matches.values)

    def _groups_of(self, key: int) -> Integers:
        low, high = self._touched.group_key.searchsorted([key, key + 1]).tolist()
        return np.arange(low, high)

    def _history(
        self,
        key: int,
        header: Header,
        index: KnownIndex,
        top: Integers,
        row: Integers | None = None,
        remembered: Blocks = NO_BLOCKS,
    ) -> SpreadHistory:
        """A spread history, and what its index has of the epoch's groups: `row`, if it is known."""
        digests: Characters | None = None
        if row is None:
            groups, digests = self._digested[key]
            row = find_digests(digests, index.lines)
        else:
            groups = self._groups_of(key)
        line = (row >= 0).nonzero()[0]
        found, found_group = index.numbers[line], groups[row[line]]
        wanted = distinct(block_of(found))
        unread = unread_entries = np.zeros(0, np.int64)
        if not remembered.texts.keys() >= {*wanted.tolist()}:
            is_whole = len(index.read) == header.buckets
            unread, unread_entries = self._vanishing(found, found_group, index, is_whole=is_whole)
        return SpreadHistory(
            key=key,
            header=header,
            groups=groups,
            digests=digests,
            index=index,
            found_line=line,
            found_group=found_group,
            found=found,
            wanted=wanted,
            unread=unread,
            unread_entries=unread_entries,
            top=top,
            due=np.zeros(0, np.int64),
            oldest_ms=None,
        )

    def is_dense(self, key: int, buckets: int) -> bool:
        """Whether the whole index of a history with so many buckets is wanted."""
        low, high = self._touched.group_key.searchsorted([key, key + 1]).tolist()
        return _is_dense(high - low, buckets)

    def take_likely(
        self, likely: Sequence[Likely], values: Sequence[bytes | None], replies: Sequence[Any]
    ) -> list[SpreadHistory]:
        """Those of these histories of which the right thing was read, by their values."""
        probes: list[Probe] = []
        right: list[Any] = []
        place = 0
        for each in likely:
            own = replies[place : place + len(each.reads)]
            place += len(each.reads)
            value = values[each.key]
            if value is None or not is_spread(value):
                continue
            if parse_header(value).buckets == each.buckets:
                groups, digests = self._digested[each.key]
                buckets = list(range(each.buckets))
                probes.append(Probe(each.key, groups, digests, buckets, each.reads))
                right += own
        return self.take(probes, values, right)

    def _vanishing(
        self, found: Integers, group: Integers, index: KnownIndex, *, is_whole: bool
    ) -> tuple[Integers, Integers]:
        """Blocks of which the epoch is sure to remove all entries, and these entries.

        It is sure where a group is retracted as often as it has entries, and never added. What a
        block has is known where the whole index is; else sixteen is all that it can have.

        Args:
            found: Numbers of entries that groups match.
            group: The group of each.
            index: The buckets that were read.
            is_whole: Whether these are all buckets.
        """
        touched = self._touched
        entries = np.bincount(group, minlength=touched.group_additions.size)
        goes = (touched.group_additions == 0) & (touched.group_retractions >= entries)
        going = found[goes[group]]
        if not going.size:
            return going, going
        going.sort()
        block = block_of(going)
        blocks, counts = distinct_counts(block)
        has = np.full(blocks.size, BLOCK_ENTRIES)
        if is_whole and (open_ := (counts < BLOCK_ENTRIES).nonzero()[0]).size:
            has[open_] = index.entry_counts(blocks[open_])
        blocks = blocks[counts == has]
        return blocks, going[is_among(block, blocks)]

    def block_reads(self, histories: Sequence[SpreadHistory]) -> list[Read]:
        """Blocks that are needed and not there yet, a read for each hash that has some."""
        reads: list[Read] = []
        for each in histories:
            if not each.is_complete:
                key_group, names = self._place(each.key)
                segments, missing = each.header.segments, self._missing(each)
                reads += block_reads(key_group, names.blocks, segments, missing)
        return reads

    def take_blocks(self, histories: Sequence[SpreadHistory], replies: Sequence[Any]) -> None:
        """Take the replies to `block_reads`.

        Raises:
            StateCorrupt: A block that the index or the order names is not there.
        """
        given = chain.from_iterable(replies)
        for each in histories:
            for block in [] if each.is_complete else self._missing(each):
                value = next(given)
                if value is None:
                    where = f"key group {int(self._key_groups[each.key])}"
                    raise StateCorrupt(f"block {block} of a history in {where} is missing")
                each.blocks[block] = value

    def deeper_reads(self, histories: Sequence[SpreadHistory]) -> list[Read]:
        """Deeper windows of these histories; the second one is sure to do.

        The first one does if blocks are full; a block holds one entry at least.

        Raises:
            StateCorrupt: That was read already, so what is stored is wrong.
        """
        reads: list[Read] = []
        for each in histories:
            key_group, names = self._place(each.key)
            retractions = self._retractions(each.key)
            sure = min(retractions + 1 + each.due.size, each.size)
            if each.depths == 2 or each.top.size >= sure:
                where = f"key group {key_group}"
                raise StateCorrupt(f"a history in {where} has fewer entries than its size says")
            likely = 2 + retractions // BLOCK_ENTRIES + each.due.size
            is_likely = each.depths == 0 and each.top.size < likely < sure
            each.depths = 1 if is_likely else 2
            reads.append(SortedTop(key_group, names.order, likely if is_likely else sure))
        return reads

    def take_deeper(self, histories: Sequence[SpreadHistory], replies: Sequence[Any]) -> None:
        """Take the replies to `deeper_reads`."""
        for each, reply in zip(histories, replies, strict=True):
            each.top, each.is_complete = _members(reply), False

    @staticmethod
    def _missing(history: SpreadHistory) -> list[int]:
        wanted = set(history.wanted.tolist())
        wanted.difference_update(history.unread.tolist())
        wanted.update(history.top.tolist(), history.due.tolist())
        return sorted(wanted.difference(history.blocks))

    def _window(self, key: int) -> int:
        """How many of the newest blocks are read at first."""
        return min(self._retractions(key) + 1, _WINDOW)

    def _retractions(self, key: int) -> int:
        known = self._touched.retractions
        return int(known[key]) if key < known.size else 0

    def _place(self, key: int) -> tuple[int, SpreadNames]:
        return int(self._key_groups[key]), SpreadNames.of(self._keys[key])


def _members(reply: Sequence[tuple[bytes, float]]) -> Integers:
    return parse_numbers([member for member, _ in reply])
