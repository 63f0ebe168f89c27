"""What a pipeline's operators and tables hold, as of one closed epoch.

Everything is read through `StateView`, which never shows half an epoch; when another epoch closes
while we look, we look again. Times of TTL are told against the clock of the reader: an expired
entry is not shown, whether or not an epoch has removed it yet.

Cost: a history is one round trip or two, whatever its length; a page of keys is some round trips
in proportion to the page, never to the state.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from operators.orphans import COUNTERS, ORPHANS
from service.runtime.inspection_errors import KeyExpired, KeyNotFound
from service.runtime.key_text import KeyText, ShownRow
from state.backends.interface import HashGet, HashLength, StreamScan
from state.key_groups import key_group
from state.multiset.history import Expired, list_keys, read_history
from state.multiset.spread import STATE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.upsert_materializer import MaterializerSpec
    from state.backends.interface import StateView
    from state.multiset.history import HistoryEntry, HistoryPage, KeySummary
    from state.reader import CommittedReader

SCANS_MAX = 64
"""Scan calls for one page of keys; a page may be short, or empty, where a prefix is rare."""
_SCAN_COUNT = 500

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A page of something: items, where the next page starts (None: nowhere), and the epoch."""

    items: tuple[T, ...]
    position: tuple[Any, ...] | None
    epoch: int


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """A live entry of a history, ready to be shown."""

    sequence_number: int
    row: dict[str, Any]
    written_ms: int
    expires_ms: int | None
    current: bool
    """The newest live entry."""
    shown: bool
    """The one whose row the operator emitted last."""


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A key that has a history."""

    key: list[Any]
    layout: str
    entries: int
    """In state: some may be past their time."""


@dataclass(frozen=True, slots=True)
class ShownHistory:
    """A key's live entries, or a page of them, oldest first."""

    epoch: int
    key: list[Any]
    layout: str
    size: int
    """Live entries of the key, on this page or not."""
    entries: tuple[ShownEntry, ...]
    next_after: int | None
    """The sequence number that the next page starts behind."""
    current: ShownEntry
    fallback: ShownEntry | None
    """What a retraction of the current entry leaves as the newest."""
    shown: int | None
    """Sequence number of what the sink shows; None: a row that is gone."""


class OperatorInspector:
    """Looks into one upsert materializer.

    Args:
        reader: Reads the pipeline's committed state.
        node: The operator's id.
        spec: What the operator does.
        max_parallelism: Key groups of the pipeline.
        clock: The time in ms since 1970.
    """

    def __init__(
        self,
        reader: CommittedReader,
        node: str,
        spec: MaterializerSpec,
        max_parallelism: int,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._reader = reader
        self._node = node
        self._spec = spec
        self._key_groups = range(max_parallelism)
        self._clock = clock
        self._rows = ShownRow(spec.types, spec.names)
        key_types = [spec.types[each] for each in spec.key]
        self.keys = KeyText(key_types, [spec.names[each] for each in spec.key])

    def counts(self) -> tuple[int, int, int]:
        """Keys that have a history, orphans there ever were, and the epoch."""

        def look(view: StateView) -> tuple[int, int, int]:
            lengths = [HashLength(each, STATE) for each in self._key_groups]
            counters = [HashGet(each, COUNTERS, [ORPHANS]) for each in self._key_groups]
            replies = view.fetch([*lengths, *counters])
            keys = sum(replies[: len(lengths)])
            orphans = sum(int(found[0] or 0) for found in replies[len(lengths) :])
            return keys, orphans, view.epoch

        return self._look(look)

    def list_keys(
        self, prefix: str, start: tuple[int, int, str] | None, limit: int
    ) -> Part[ShownKey]:
        """A page of keys, by key group; a position is key group, scan cursor, last key taken.

        A key that is there all the time is listed at least once; while state grows or shrinks,
        one may be listed twice.
        """
        begins_with = self.keys.prefix(prefix) if prefix else b""

        def look(view: StateView) -> Part[ShownKey]:
            sizes = view.fetch([HashLength(each, STATE) for each in self._key_groups])
            group, cursor, last = start or (0, 0, "")
            found: list[KeySummary] = []
            for _ in range(SCANS_MAX):
                while group < len(sizes) and not sizes[group]:
                    group, cursor, last = group + 1, 0, ""
                if group >= len(sizes):
                    return self._key_part(found, None, view.epoch)
                after, page = list_keys(
                    view, group, cursor=cursor, prefix=begins_with, count=_SCAN_COUNT
                )
                left = sorted(
                    (each for each in page if each.key > last.encode()), key=lambda each: each.key
                )
                room = limit - len(found)
                found += left[:room]
                if len(left) > room:
                    # The same scan again, behind the last key taken: its cursor stays good.
                    position = (group, cursor, found[-1].key.decode() if room else last)
                    return self._key_part(found, position, view.epoch)
                group, cursor, last = (group, after, "") if after else (group + 1, 0, "")
            return self._key_part(found, (group, cursor, last), view.epoch)

        return self._look(look)

    def history(self, key: Sequence[Any], *, after: int = 0, limit: int = 1) -> ShownHistory:
        """A page of the live entries of a key, behind a sequence number.

        Raises:
            KeyNotFound: it has none.
            KeyExpired: it had, and all of them are past their time.
        """
        canonical = self.keys.codec.encode(key)
        group = key_group(self.keys.codec.types, key, len(self._key_groups))

        def look(view: StateView) -> ShownHistory:
            found = read_history(
                view,
                group,
                canonical,
                policy=self._spec.policy,
                now_ms=self._clock() - self._spec.ttl_extension_ms,
                after=after,
                limit=limit,
            )
            if found is None:
                raise KeyNotFound(f"the key has no rows in epoch {view.epoch}")
            if isinstance(found, Expired):
                last_ms = found.expired_ms + self._spec.ttl_extension_ms
                raise KeyExpired(
                    f"all {found.size} rows of the key have expired, the last at {last_ms} ms: "
                    f"the ttl is {self._spec.ttl_ms} ms"
                )
            return self._shown(view.epoch, canonical, found)

        return self._look(look)

    def orphans(
        self, start: tuple[int, str] | None, limit: int
    ) -> tuple[Part[dict[str, Any]], int]:
        """A page of orphans, by key group, oldest first in each; and how many there ever were."""

        def look(view: StateView) -> tuple[Part[dict[str, Any]], int]:
            first, after = start or (0, "")
            counters = [HashGet(each, COUNTERS, [ORPHANS]) for each in self._key_groups]
            count = [int(found[0] or 0) for found in view.fetch(counters)]
            groups = [each for each in self._key_groups if each >= first and count[each]]
            found: list[dict[str, Any]] = []
            position: tuple[Any, ...] | None = None
            for group in groups:
                behind = after.encode() if group == first and after else None
                room = limit + 1 - len(found)
                page = view.fetch([StreamScan(group, ORPHANS, behind, room)])[0]
                taken = page[: room - 1]
                found += [self._orphan(identity, fields) for identity, fields in taken]
                if taken:
                    position = (group, taken[-1][0].decode())
                if len(page) > len(taken):
                    position = position or (group, after)
                    return Part(tuple(found), position, view.epoch), sum(count)
            return Part(tuple(found), None, view.epoch), sum(count)

        return self._look(look)

    def _look(self, look: Callable[[StateView], T]) -> T:
        return self._reader.consistently(self._node, look)

    def _key_part(
        self, found: Sequence[KeySummary], position: tuple[int, int, str] | None, epoch: int
    ) -> Part[ShownKey]:
        shown = (
            ShownKey(self.keys.shown.values(each.key), each.layout, each.size) for each in found
        )
        return Part(tuple(shown), position, epoch)

    def _shown(self, epoch: int, canonical: bytes, found: HistoryPage) -> ShownHistory:
        def show(each: HistoryEntry) -> ShownEntry:
            return ShownEntry(
                sequence_number=each.sequence,
                row=self._rows.row(each.row),
                written_ms=each.written_ms,
                expires_ms=None
                if each.expires_ms is None
                else each.expires_ms + self._spec.ttl_extension_ms,
                current=each.sequence == found.newest.sequence,
                shown=each.sequence == found.shown,
            )

        return ShownHistory(
            epoch=epoch,
            key=self.keys.shown.values(canonical),
            layout=found.layout,
            size=found.size,
            entries=tuple(map(show, found.entries)),
            next_after=found.next_after,
            current=show(found.newest),
            fallback=None if found.fallback is None else show(found.fallback),
            shown=found.shown,
        )

    def _orphan(self, identity: bytes, fields: Sequence[bytes]) -> dict[str, Any]:
        named = dict(zip(fields[0::2], fields[1::2], strict=True))
        return {
            "epoch": int(identity.partition(b"-")[0]),
            "key": self.keys.shown.values(named[b"key"]),
            "op": named[b"op"].decode(),
            "row": self._rows.row(named[b"row"]),
            "time_ms": int(named[b"ms"]),
        }


def glob_of(prefix: bytes) -> bytes | None:
    r"""The glob pattern that matches exactly what begins so; None matches everything.

    >>> glob_of(b'["a*')
    b'\\["a\\**'
    """
    if not prefix:
        return None
    escaped = b"".join(b"\\" + bytes([c]) if c in b"*?[]^\\-" else bytes([c]) for c in prefix)
    return escaped + b"*"
