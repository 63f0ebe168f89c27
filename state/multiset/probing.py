"""What an epoch reads of spread histories: a little of each, however long they are.

What is read are the blocks of the entries that changes match, those with entries past their time,
and the newest ones as a window. The window will mostly do. Where the epoch takes all of a history's
end away, so that an older entry becomes the newest, the kernel says so, and a deeper one is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from state.backends.interface import HashGet, SortedRange, SortedTop
from state.errors import StateCorrupt
from state.multiset.index import (
    LINE_BYTES,
    buckets_for,
    buckets_of,
    digests_of,
    find_digests,
    numbers_in,
    origin_of,
    parse_lines,
)
from state.multiset.spread import (
    BLOCK_ENTRIES,
    SpreadNames,
    block_of,
    parse_numbers,
)
from state.multiset.text import Header, is_spread, parse_header
from state.multiset.vectors import bytes_of, distinct

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import pyarrow as pa
    from numpy.typing import NDArray

    from state.backends.interface import Read
    from state.multiset.index import Characters
    from state.multiset.kernel import Groups, KeyedChanges

    Integers = NDArray[np.int64]

EVER = float("inf")
"""A score above all others."""

_WINDOW = 2
"""Newest blocks that are read at first."""


class Matching(Protocol):
    """What the operator knows of match columns."""

    def of_groups(self, groups: Integers) -> pa.BinaryArray:
        """Canonical match columns of groups of changes."""

    def of_rows(self, rows: pa.BinaryArray) -> pa.BinaryArray:
        """Canonical match columns of canonical rows."""

    def index_of_groups(self, groups: Integers) -> pa.BinaryArray:
        """Match columns of groups, with long texts by their digest: see `state.multiset.index`."""

    def index_of_rows(self, rows: pa.BinaryArray) -> pa.BinaryArray:
        """The same of canonical rows."""

    def narrow(self, groups: Integers, rows: pa.BinaryArray) -> Integers:
        """Those of the groups that may match one of a few canonical rows, by a cheap look."""


@dataclass(frozen=True)
class Touched:
    """What an epoch is about to do, as far as it says what must be read."""

    keys: list[bytes]
    """Canonical keys."""
    key_groups: Integers
    """Key group of each."""
    changes: KeyedChanges
    groups: Groups
    replace: bool
    """Additions replace what they match."""

    @cached_property
    def retractions(self) -> Integers:
        """Per key: retractions in the epoch."""
        retracting = self.changes.key[~self.changes.accumulates]
        return np.bincount(retracting, minlength=len(self.keys))

    @cached_property
    def group_key(self) -> Integers:
        """Per group of changes: its key, never decreasing."""
        return self.changes.key[self.groups.first]

    @cached_property
    def group_retractions(self) -> Integers:
        """Per group: how many retractions it has."""
        start = self.groups.start
        retractions: Integers = np.diff(start) - self.group_additions
        return retractions

    @cached_property
    def group_additions(self) -> Integers:
        """Per group: how many additions it has."""
        added = np.append(0, np.cumsum(self.groups.accumulates))
        additions: Integers = np.diff(added[self.groups.start])
        return additions

    @cached_property
    def group_retracts(self) -> NDArray[np.bool_]:
        """Per group: whether it has a retraction."""
        begins = self.groups.start[:-1]
        if not begins.size:
            return np.zeros(0, np.bool_)
        return np.logical_or.reduceat(~self.groups.accumulates, begins)


@dataclass(slots=True)
class KnownIndex:
    """The buckets of one index that were read."""

    read: list[int]
    """Their numbers."""
    lines: Characters
    bucket: Integers
    """Per line: the number of its bucket."""

    @classmethod
    def of(cls, read: list[int], texts: Sequence[bytes | None]) -> KnownIndex:
        """From the texts of buckets."""
        known = [text or b"" for text in texts]
        counts = [len(text) // LINE_BYTES for text in known]
        return cls(read, parse_lines(known), np.repeat(np.array(read, np.int64), counts))

    def learn(self, read: Sequence[int], texts: Sequence[bytes | None]) -> None:
        """Take more buckets."""
        more = KnownIndex.of(list(read), texts)
        self.read += more.read
        self.lines = np.concatenate([self.lines, more.lines])
        self.bucket = np.concatenate([self.bucket, more.bucket])


@dataclass(slots=True)
class SpreadHistory:
    """What was read of one spread history."""

    key: int
    header: Header
    groups: Integers
    """The groups of changes that were looked up in its index."""
    digests: Characters
    """Their digests."""
    index: KnownIndex
    found_line: Integers
    found_group: Integers
    found: Integers
    """Lines of the index that groups match, the group of each and its sequence number."""
    unread: Integers
    """Blocks that are not read, since the epoch removes all sixteen entries that they can have."""
    top: Integers
    """Numbers of the newest blocks, newest first."""
    due: Integers
    """Numbers of the blocks with entries that are past their time."""
    oldest_ms: int | None
    """No entry of the other blocks was written before; None: there is none, or no TTL."""
    blocks: dict[int, bytes] = field(default_factory=dict)
    """What was read of the blocks, by number."""
    expired: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """Sequence numbers of entries past their time."""
    expired_place: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """Where in `Histories.packed` they are."""
    depths: int = 0
    """How often a deeper window was asked for."""

    @property
    def size(self) -> int:
        """Entries in state, past their time or not."""
        return self.header.size or 0


@dataclass(frozen=True, slots=True)
class Probe:
    """What is read of one history in case that it is spread."""

    key: int
    groups: Integers
    digests: Characters
    buckets: list[int]
    """Which of the index are read."""
    reads: list[Read]


class SpreadProber:
    """Says what to read of spread histories, and takes the replies apart."""

    def __init__(
        self, touched: Touched, matching: Matching, keys: Sequence[bytes], key_groups: Integers
    ) -> None:
        self._touched = touched
        self._matching = matching
        self._keys = keys
        self._key_groups = key_groups

    def probes(
        self, keys: Sequence[int], values: Sequence[bytes | None], until_ms: int | None
    ) -> list[Probe]:
        """What to read of these histories; entries written until then are past their time.

        Args:
            keys: Keys whose value is known to be a header, or that no change of the epoch touches.
            values: The value of each key, as far as it is known.
            until_ms: None without a TTL.
        """
        if not keys:
            return []
        first = np.asarray(keys, np.int64)
        low = self._touched.group_key.searchsorted(first)
        high = self._touched.group_key.searchsorted(first + 1)
        ranges = [np.arange(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        digests = digests_of(())
        if int((high - low).sum()):
            matches = self._matching.index_of_groups(np.concatenate(ranges))
            digests = digests_of(bytes_of(matches))
        ends = np.cumsum(high - low).tolist()
        return [
            self._probe(key, values[key], groups, digests[end - groups.size : end], until_ms)
            for key, groups, end in zip(keys, ranges, ends, strict=True)
        ]

    def _probe(
        self,
        key: int,
        value: bytes | None,
        groups: Integers,
        digests: Characters,
        until_ms: int | None,
    ) -> Probe:
        key_group, names = self._place(key)
        window = min(self._retractions(key) + 1, _WINDOW)
        buckets = [] if value is None else self._buckets(parse_header(value), groups, digests)
        reads: list[Read] = [
            HashGet(key_group, names.index, [b"%d" % bucket for bucket in buckets]),
            SortedTop(key_group, names.order, window),
        ]
        if until_ms is not None:
            reads.append(SortedRange(key_group, names.stamps, -EVER, float(until_ms), None))
            reads.append(SortedRange(key_group, names.stamps, float(until_ms + 1), EVER, 1))
        return Probe(key, groups, digests, buckets, reads)

    def _buckets(self, header: Header, groups: Integers, digests: Characters) -> list[int]:
        """Buckets to read: those of the groups, and those that the epoch may have to split."""
        count = header.buckets
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
            index = KnownIndex.of(probe.buckets, own[0])
            row = find_digests(probe.digests, index.lines)
            line = (row >= 0).nonzero()[0]
            found, found_group = numbers_in(index.lines[line]), probe.groups[row[line]]
            has_ttl = len(own) > 2
            history = SpreadHistory(
                key=probe.key,
                header=parse_header(value),
                groups=probe.groups,
                digests=probe.digests,
                index=index,
                found_line=line,
                found_group=found_group,
                found=found,
                unread=self._vanishing(found, found_group),
                top=_members(own[1]),
                due=_members(own[2] if has_ttl else ()),
                oldest_ms=int(own[3][0][1]) if has_ttl and own[3] else None,
            )
            histories.append(history)
        return histories

    def _vanishing(self, found: Integers, group: Integers) -> Integers:
        """Blocks of which the epoch is sure to remove sixteen entries, all that they can have.

        It is sure where a group is retracted as often as it has entries, and never added.
        """
        touched = self._touched
        entries = np.bincount(group, minlength=touched.group_additions.size)
        goes = (touched.group_additions == 0) & (touched.group_retractions >= entries)
        block = block_of(found[goes[group]])
        block.sort()
        # No number occurs twice, so of a block there are sixteen at most.
        first, last = block[: 1 - BLOCK_ENTRIES], block[BLOCK_ENTRIES - 1 :]
        blocks: Integers = first[first == last]
        return blocks

    def block_reads(self, histories: Sequence[SpreadHistory]) -> list[Read]:
        """Blocks that are needed and not there yet, one read a history; none if all are there."""
        reads: list[Read] = []
        for each in histories:
            key_group, names = self._place(each.key)
            missing = self._missing(each)
            reads.append(HashGet(key_group, names.blocks, [b"%d" % block for block in missing]))
        return reads if any(read.fields for read in reads if isinstance(read, HashGet)) else []

    def take_blocks(self, histories: Sequence[SpreadHistory], replies: Sequence[Any]) -> None:
        """Take the replies to `block_reads`.

        Raises:
            StateCorrupt: A block that the index or the order names is not there.
        """
        for each, values in zip(histories, replies, strict=True):
            for block, value in zip(self._missing(each), values, strict=True):
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
            each.top = _members(reply)

    @staticmethod
    def _missing(history: SpreadHistory) -> list[int]:
        wanted = set(distinct(block_of(history.found)).tolist())
        wanted.difference_update(history.unread.tolist())
        wanted.update(history.top.tolist(), history.due.tolist())
        return sorted(wanted.difference(history.blocks))

    def _retractions(self, key: int) -> int:
        known = self._touched.retractions
        return int(known[key]) if key < known.size else 0

    def _place(self, key: int) -> tuple[int, SpreadNames]:
        return int(self._key_groups[key]), SpreadNames.of(self._keys[key])


def _members(reply: Sequence[tuple[bytes, float]]) -> Integers:
    return parse_numbers([member for member, _ in reply])
