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
from state.multiset.spread import STATE, SpreadNames
from state.multiset.strategy import HistoryPolicy, Strategy
from state.multiset.text import (
    GONE,
    NEWEST,
    Header,
    is_spread,
    parse_header,
    parse_packed,
    parse_timed_row,
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
    reader = _SpreadReader(view, key_group, SpreadNames.of(key), policy, now_ms)
    return reader.page(parse_header(value), after, limit)


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
    def __init__(
        self,
        view: StateView,
        key_group: int,
        names: SpreadNames,
        policy: HistoryPolicy,
        now_ms: int,
    ) -> None:
        self._view = view
        self._names = names
        self._key_group = key_group
        self._ttl_ms = policy.ttl_ms
        self._stale = self._expired(now_ms - policy.ttl_ms) if policy.ttl_ms else {}
        """Numbers of entries past their time, with their times."""

    def page(self, header: Header, after: int, limit: int) -> HistoryPage | Expired:
        stored = header.size or 0
        size = stored - len(self._stale)
        if size <= 0:
            return Expired(stored, max(self._stale.values()) + self._ttl_ms)
        entries, more = self._after(after, limit)
        top, newest_stored = self._newest(stored)
        shown = newest_stored if header.shown == NEWEST else header.shown
        return HistoryPage(
            layout="spread",
            size=size,
            entries=tuple(entries),
            next_after=entries[-1].sequence if more else None,
            newest=top[0],
            shown=shown if shown != GONE and self._entries([shown]) else None,
            fallback=top[1] if len(top) > 1 else None,
        )

    def _expired(self, until_ms: int) -> dict[int, int]:
        read = SortedRange(self._key_group, self._names.stamps, -_EVER, float(until_ms))
        return {int(member): int(score) for member, score in self._view.fetch([read])[0]}

    def _after(self, after: int, limit: int) -> tuple[list[HistoryEntry], bool]:
        """Live entries above a number, and whether there are more than the limit."""
        entries: list[HistoryEntry] = []
        while len(entries) <= limit:
            wanted = limit + 1
            numbers = self._numbers(
                SortedRange(self._key_group, self._names.order, after + 1, _EVER, wanted)
            )
            entries += self._entries(numbers)
            if len(numbers) < wanted:
                break
            after = numbers[-1]
        return entries[:limit], len(entries) > limit

    def _newest(self, stored: int) -> tuple[list[HistoryEntry], int]:
        """The two newest live entries, newest first, and the newest one stored."""
        count = 2
        while True:
            numbers = self._numbers(SortedTop(self._key_group, self._names.order, count))
            live = [number for number in numbers if number not in self._stale]
            if len(live) > 1 or count >= stored:
                return self._entries(live[:2]), numbers[0]
            count *= 8

    def _numbers(self, read: SortedRange | SortedTop) -> list[int]:
        return [int(score) for _, score in self._view.fetch([read])[0]]

    def _entries(self, numbers: Sequence[int]) -> list[HistoryEntry]:
        """Those of these entries that are there and live."""
        live = [number for number in numbers if number not in self._stale]
        fields = [b"%d" % number for number in live]
        values = self._view.fetch([HashGet(self._key_group, self._names.rows, fields)])[0]
        found = []
        for number, value in zip(live, values, strict=True):
            if value is not None:
                written_ms, row = parse_timed_row(value)
                due = written_ms + self._ttl_ms if self._ttl_ms else None
                found.append(HistoryEntry(number, row, written_ms, due))
        return found
