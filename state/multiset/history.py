"""Histories for people: what HTTP shows of a key, from committed state.

    newest     the live entry of the highest number: what a retraction of any other leaves shown
    shown      what the sink shows. Mostly the newest entry. After a replacement in place it is the
               replaced one, wherever it stands; if that one was then retracted or has expired,
               nothing was emitted and the sink shows a row that is gone until the key's next
               emission
    fallback   the entry that becomes the newest if the newest is retracted

Entries past their time are not shown, though they are stored until a change of their key, or the
clean-up, comes by. A key whose entries are all past their time is `Expired`, which is not the same
as unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from state.backends.interface import HashGet, SortedRange, SortedTop
from state.multiset.segments import block_reads
from state.multiset.spread import BLOCK_ENTRIES, STATE, SpreadNames
from state.multiset.strategy import HistoryPolicy, Strategy
from state.multiset.text import (
    GONE,
    NEWEST,
    Header,
    PackedHistories,
    is_spread,
    parse_header,
    parse_packed,
)
from state.multiset.vectors import bytes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.backends.interface import StateView

_EVER = float("inf")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A live entry."""

    sequence: int
    row: bytes
    """Canonical."""
    written_ms: int
    expires_ms: int | None
    """When it will be past its time if it is not written again; None: never."""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A key's history, or a page of it."""

    layout: str
    """packed or spread."""
    size: int
    """Live entries of the key, on this page or not."""
    entries: tuple[HistoryEntry, ...]
    """Oldest first."""
    next_after: int | None
    """To be given as `after` for the next page; None: this was the last one."""
    newest: HistoryEntry
    shown: int | None
    """Sequence number of the entry that the sink shows; None: it shows a row that is gone."""
    fallback: HistoryEntry | None
    """None: retracting the newest entry deletes the row from the sink."""


@dataclass(frozen=True, slots=True)
class Expired:
    """A key with entries in state that are all past their time."""

    size: int
    expired_ms: int
    """When the last of them went past its time."""


@dataclass(frozen=True, slots=True)
class KeySummary:
    """A key that has a history."""

    key: bytes
    """Canonical."""
    layout: str
    size: int
    """Entries in state, past their time or not."""
    namespace: bytes = b""
    """Of a state whose operator uses any."""

    @property
    def stored(self) -> bytes:
        """What it is stored under: unique in a state."""
        return self.key + b"\t" + self.namespace if self.namespace else self.key


def read_history(
    view: StateView,
    key_group: int,
    key: bytes,
    *,
    policy: HistoryPolicy,
    now_ms: int,
    after: int = 0,
    limit: int = 1000,
) -> HistoryPage | Expired | None:
    """A key's history as of the closed epoch that the view shows.

    Args:
        view: Committed state of the operator.
        key_group: The key's.
        key: Canonical key.
        policy: The operator's.
        now_ms: The time that tells what is past its time: that of the last closed epoch, or now.
        after: Entries with higher sequence numbers only.
        limit: Entries on the page at most.

    Returns:
        None if there is nothing of the key in state.

    Raises:
        StateError: As the view raises.
    """
    (value,) = view.fetch([HashGet(key_group, STATE, [key])])[0]
    if value is None:
        return None
    if not is_spread(value):
        return _packed_page(value, policy, now_ms, after, limit)
    reader = _SpreadReader(view, key_group, key, parse_header(value), policy, now_ms)
    return reader.page(after, limit)


def list_keys(
    view: StateView, key_group: int, *, cursor: int = 0, prefix: bytes = b"", count: int = 100
) -> tuple[int, list[KeySummary]]:
    """A page of the keys of a key group, in no order; cursor 0 begins and ends.

    Args:
        view: Committed state of the operator.
        key_group: The key group.
        cursor: 0, or what the page before gave.
        prefix: What canonical keys begin with.
        count: About how many keys to look at: a page may be short, or empty, before the end.
    """
    match = glob_prefix(prefix) if prefix else None
    following, pairs = view.scan_hash(key_group, STATE, cursor, match, count)
    return following, [_summary(key, value) for key, value in pairs if key.startswith(prefix)]


def glob_prefix(prefix: bytes) -> bytes:
    r"""A glob pattern that what begins with these bytes matches.

    Wildcards are put in brackets, which all globs know; a backslash, which they do not treat alike,
    may be any byte: so what matches is still to be looked at.
    """
    escaped = bytearray()
    for byte in prefix:
        if byte in b"*?[":
            escaped += bytes((ord("["), byte, ord("]")))
        else:
            escaped += b"?" if byte == ord("\\") else bytes((byte,))
    return bytes(escaped) + b"*"


def _summary(key: bytes, value: bytes) -> KeySummary:
    if is_spread(value):
        return KeySummary(key, "spread", parse_header(value).size or 0)
    return KeySummary(key, "packed", value.count(b"\n"))


def _packed_page(
    value: bytes, policy: HistoryPolicy, now_ms: int, after: int, limit: int
) -> HistoryPage | Expired:
    packed = parse_packed([value])
    times = packed.written_ms
    if policy.strategy is Strategy.LEGACY and int(packed.list_written_ms[0]) >= 0:
        times = np.full(times.size, packed.list_written_ms[0])
    live = np.logical_not([policy.is_expired(time, now_ms) for time in times.tolist()]).nonzero()[0]
    if not live.size:
        return Expired(times.size, int(times.max()) + policy.ttl_ms)
    numbers = packed.sequence
    chosen = live[numbers[live] > after]
    page = chosen[:limit]
    ends = live[-2:]

    def entries(places: np.ndarray) -> tuple[HistoryEntry, ...]:
        rows = bytes_of(packed.rows(places))
        due = [t + policy.ttl_ms if policy.ttl_ms else None for t in times[places].tolist()]
        columns = (numbers[places].tolist(), rows, packed.written_ms[places].tolist(), due)
        return tuple(HistoryEntry(*each) for each in zip(*columns, strict=True))

    *fallback, newest = entries(ends)
    shown = int(packed.shown[0])
    shown = int(numbers[-1]) if shown == NEWEST else shown
    return HistoryPage(
        layout="packed",
        size=live.size,
        entries=entries(page),
        next_after=int(numbers[page[-1]]) if page.size < chosen.size else None,
        newest=newest,
        shown=shown if shown != GONE and shown in numbers[live] else None,
        fallback=fallback[0] if fallback else None,
    )


class _SpreadReader:
    """Reads blocks of one spread history; those with entries past their time once, at the start."""

    def __init__(
        self,
        view: StateView,
        key_group: int,
        key: bytes,
        header: Header,
        policy: HistoryPolicy,
        now_ms: int,
    ) -> None:
        self._view = view
        self._names = SpreadNames.of(key)
        self._header = header
        self._key_group = key_group
        self._policy = policy
        self._now_ms = now_ms

    def page(self, after: int, limit: int) -> HistoryPage | Expired:
        header = self._header
        stored = header.size or 0
        stale = self._stale_ms()
        if len(stale) >= stored:
            return Expired(stored, max(stale) + self._policy.ttl_ms)
        entries, more = self._after(after, limit)
        top, newest_stored = self._newest()
        shown = newest_stored if header.shown == NEWEST else header.shown
        return HistoryPage(
            layout="spread",
            size=stored - len(stale),
            entries=tuple(entries),
            next_after=entries[-1].sequence if more else None,
            newest=top[0],
            shown=shown if shown != GONE and self._is_live(shown) else None,
            fallback=top[1] if len(top) > 1 else None,
        )

    def _stale_ms(self) -> list[int]:
        """When each of the entries that are past their time was written."""
        if not self._policy.ttl_ms:
            return []
        until_ms = float(self._now_ms - self._policy.ttl_ms)
        due = self._numbers(SortedRange(self._key_group, self._names.stamps, -_EVER, until_ms))
        written = self._parsed(due).written_ms.tolist()
        return [each for each in written if self._policy.is_expired(each, self._now_ms)]

    def _after(self, after: int, limit: int) -> tuple[list[HistoryEntry], bool]:
        """Live entries above a number, and whether there are more than the limit."""
        entries: list[HistoryEntry] = []
        wanted = 2 + limit // BLOCK_ENTRIES
        block = (after + 1) // BLOCK_ENTRIES
        while len(entries) <= limit:
            numbers = self._numbers(
                SortedRange(self._key_group, self._names.order, block, _EVER, wanted)
            )
            entries += [each for each in self._live(numbers) if each.sequence > after]
            if len(numbers) < wanted:
                break
            block = numbers[-1] + 1
        return entries[:limit], len(entries) > limit

    def _newest(self) -> tuple[list[HistoryEntry], int]:
        """The two newest live entries, newest first, and the number of the newest one stored."""
        count = 2
        while True:
            numbers = self._numbers(SortedTop(self._key_group, self._names.order, count))
            live = self._live(sorted(numbers))
            if len(live) > 1 or len(numbers) < count:
                newest_stored = int(self._parsed(numbers[:1]).sequence[-1])
                return live[:-3:-1], newest_stored
            count *= 8

    def _is_live(self, sequence: int) -> bool:
        found = self._live([sequence // BLOCK_ENTRIES])
        return any(each.sequence == sequence for each in found)

    def _numbers(self, read: SortedRange | SortedTop) -> list[int]:
        return [int(member) for member, _ in self._view.fetch([read])[0]]

    def _live(self, blocks: Sequence[int]) -> list[HistoryEntry]:
        """The live entries of these blocks, in their order."""
        parsed = self._parsed(blocks)
        ttl_ms = self._policy.ttl_ms
        rows = bytes_of(parsed.rows(np.arange(parsed.sequence.size)))
        columns = zip(parsed.sequence.tolist(), rows, parsed.written_ms.tolist(), strict=True)
        return [
            HistoryEntry(sequence, row, written_ms, written_ms + ttl_ms if ttl_ms else None)
            for sequence, row, written_ms in columns
            if not self._policy.is_expired(written_ms, self._now_ms)
        ]

    def _parsed(self, blocks: Sequence[int]) -> PackedHistories:
        """Those of these blocks that are there."""
        segments = self._header.segments
        reads = block_reads(self._key_group, self._names.blocks, segments, blocks)
        texts = self._view.fetch(reads)
        return parse_packed([text for some in texts for text in some if text is not None])
