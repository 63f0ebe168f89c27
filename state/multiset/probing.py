"""What an epoch reads of spread histories: a little of each, however long they are.

Of the newest entries a window is read. It will mostly do. Where the epoch takes all of a history's
end away, so that an older entry becomes the newest, the kernel says so, and a deeper one is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from state.backends.interface import HashGet, SortedRange, SortedTop
from state.multiset.spread import SpreadNames, index_fields, parse_index
from state.multiset.text import Header, is_spread, parse_header, parse_timed_row
from state.multiset.vectors import bytes_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import pyarrow as pa
    from numpy.typing import NDArray

    from state.backends.interface import Read
    from state.multiset.kernel import Groups, KeyedChanges

    Integers = NDArray[np.int64]

EVER = float("inf")
"""A score above all others."""

_WINDOW = 16
"""Newest entries that are read at first."""


class Matching(Protocol):
    """What the operator knows of match columns."""

    def of_groups(self, groups: Integers) -> pa.BinaryArray:
        """Canonical match columns of groups of changes."""

    def of_rows(self, rows: pa.BinaryArray) -> pa.BinaryArray:
        """Canonical match columns of canonical rows."""

    def index_of_groups(self, groups: Integers) -> pa.BinaryArray:
        """Match columns of groups, with long texts by their digest: see `spread.index_fields`."""

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
    def group_retracts(self) -> NDArray[np.bool_]:
        """Per group: whether it has a retraction."""
        retracts = np.zeros(self.groups.start.size - 1, np.bool_)
        retracts[self.groups.of_change[~self.changes.accumulates]] = True
        return retracts


@dataclass(slots=True)
class SpreadHistory:
    """What was read of one spread history."""

    key: int
    header: Header
    groups: Integers
    """The groups of changes that were looked up in its index."""
    fields: list[bytes]
    """Their index fields."""
    found_group: Integers
    found: Integers
    """Sequence numbers found in the index, and the group of each."""
    top: Integers
    """Sequence numbers of the newest entries."""
    deeper: int = 0
    """How many of the newest entries are to be read in place of the window, 0 if it will do."""
    expired: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    expired_rows: list[bytes | None] = field(default_factory=list)
    oldest_ms: int | None = None
    """Time of the oldest write that is not past its time, before the epoch."""


@dataclass(frozen=True, slots=True)
class Probe:
    """What is read of one history in case that it is spread."""

    key: int
    groups: Integers
    fields: list[bytes]
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

    def probes(self, keys: Sequence[int], until_ms: int | None) -> list[Probe]:
        """What to read of these histories; entries written until then are past their time."""
        if not keys:
            return []
        first = np.asarray(keys, np.int64)
        low = self._touched.group_key.searchsorted(first)
        high = self._touched.group_key.searchsorted(first + 1)
        ranges = [np.arange(a, b) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
        fields: list[bytes] = []
        if int((high - low).sum()):
            fields = index_fields(bytes_of(self._matching.index_of_groups(np.concatenate(ranges))))
        ends = np.cumsum(high - low).tolist()
        return [
            self._probe(key, groups, fields[end - groups.size : end], until_ms)
            for key, groups, end in zip(keys, ranges, ends, strict=True)
        ]

    def _probe(
        self, key: int, groups: Integers, fields: list[bytes], until_ms: int | None
    ) -> Probe:
        key_group, names = self._place(key)
        window = min(self._retractions(key) + 1, _WINDOW)
        reads: list[Read] = [
            HashGet(key_group, names.index, fields),
            SortedTop(key_group, names.order, window),
        ]
        if until_ms is not None:
            reads.append(SortedRange(key_group, names.stamps, -EVER, float(until_ms), None))
            reads.append(SortedRange(key_group, names.stamps, float(until_ms + 1), EVER, 1))
        return Probe(key, groups, fields, reads)

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
            owner, numbers = parse_index(own[0])
            history = SpreadHistory(
                key=probe.key,
                header=parse_header(value),
                groups=probe.groups,
                fields=probe.fields,
                found_group=probe.groups[owner],
                found=numbers,
                top=_scores(own[1]),
            )
            if len(own) > 2:
                history.expired = np.sort(_members(own[2]))
                history.oldest_ms = int(own[3][0][1]) if own[3] else None
            if not self._has_live_window(history):
                history.deeper = self.depth(history)
            histories.append(history)
        return histories

    def deeper_reads(self, histories: Sequence[SpreadHistory]) -> list[Read]:
        """Rows of expired entries, and deeper windows where they are needed."""
        reads: list[Read] = []
        for each in histories:
            key_group, names = self._place(each.key)
            if each.expired.size:
                expired = [b"%d" % number for number in each.expired.tolist()]
                reads.append(HashGet(key_group, names.rows, expired))
            if each.deeper:
                reads.append(SortedTop(key_group, names.order, each.deeper))
        return reads

    def take_deeper(self, histories: Sequence[SpreadHistory], replies: Sequence[Any]) -> None:
        """Take the replies to `deeper_reads`."""
        given = iter(replies)
        for each in histories:
            if each.expired.size:
                each.expired_rows = [
                    None if value is None else parse_timed_row(value)[1] for value in next(given)
                ]
            if each.deeper:
                each.top = _scores(next(given))
                each.deeper = 0

    def depth(self, history: SpreadHistory) -> int:
        """How many of the newest entries are sure to do."""
        return self._retractions(history.key) + 1 + history.expired.size

    def depth_known(self, history: SpreadHistory) -> int:
        """The same, but no more than the history is long."""
        return min(self.depth(history), history.header.size or 0)

    def _has_live_window(self, history: SpreadHistory) -> bool:
        if history.top.size >= (history.header.size or 0) or not history.expired.size:
            return True
        return not np.isin(history.top, history.expired).all()

    def _retractions(self, key: int) -> int:
        known = self._touched.retractions
        return int(known[key]) if key < known.size else 0

    def _place(self, key: int) -> tuple[int, SpreadNames]:
        return int(self._key_groups[key]), SpreadNames.of(self._keys[key])


def _scores(reply: Sequence[tuple[bytes, float]]) -> Integers:
    return np.array([score for _, score in reply], np.float64).astype(np.int64)


def _members(reply: Sequence[tuple[bytes, float]]) -> Integers:
    return np.array([int(member) for member, _ in reply], np.int64)
