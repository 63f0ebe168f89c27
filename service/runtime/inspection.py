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

import orjson

from operators.orphans import COUNTERS, ORPHANS
from operators.spec import unique
from operators.upsert_materializer import MaterializerSpec
from service.runtime.inspection_errors import KeyExpired, KeyNotFound, StateNotFound
from service.runtime.key_text import KeyText, ShownRow
from state.backends.interface import HashGet, HashLength, StreamScan
from state.key_groups import key_group
from state.multiset.history import Expired, list_keys, read_history
from state.multiset.spread import STATE
from state.primitives.inspection import list_state_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.spec import OperatorSpec
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
    """Looks into one stateful operator; histories are those of an upsert materializer.

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
        spec: MaterializerSpec | OperatorSpec,
        max_parallelism: int,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._reader = reader
        self._node = node
        self._key_groups = range(max_parallelism)
        self._clock = clock
        self._history = spec if isinstance(spec, MaterializerSpec) else None
        inputs = (spec,) if isinstance(spec, MaterializerSpec) else spec.inputs
        first = inputs[0]
        self._rows = ShownRow(first.types, unique(first.names)) if len(inputs) == 1 else None
        key_types = [first.types[each] for each in first.key]
        self.keys = KeyText(key_types, unique(tuple(first.names[each] for each in first.key)))
        self._state = STATE if isinstance(spec, MaterializerSpec) else _first_state(spec)

    def counts(self) -> tuple[int, int, int]:
        """Keys that have a history, orphans there ever were, and the epoch."""

        def look(view: StateView) -> tuple[int, int, int]:
            lengths = [HashLength(each, self._state) for each in self._key_groups]
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
            sizes = view.fetch([HashLength(each, self._state) for each in self._key_groups])
            group, cursor, last = start or (0, 0, "")
            found: list[KeySummary] = []
            for _ in range(SCANS_MAX):
                while group < len(sizes) and not sizes[group]:
                    group, cursor, last = group + 1, 0, ""
                if group >= len(sizes):
                    return self._key_part(found, None, view.epoch)
                after, page = self._page(view, group, cursor, begins_with)
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

    def _page(
        self, view: StateView, group: int, cursor: int, prefix: bytes
    ) -> tuple[int, list[KeySummary]]:
        if self._history is not None:
            return list_keys(view, group, cursor=cursor, prefix=prefix, count=_SCAN_COUNT)
        return list_state_keys(
            view, self._state, group, cursor=cursor, prefix=prefix, count=_SCAN_COUNT
        )

    def history(self, key: Sequence[Any], *, after: int = 0, limit: int = 1) -> ShownHistory:
        """A page of the live entries of a key, behind a sequence number.

        Raises:
            StateNotFound: the operator keeps no histories.
            KeyNotFound: it has none.
            KeyExpired: it had, and all of them are past their time.
        """
        spec = self._history
        if spec is None:
            raise StateNotFound(
                "this operator keeps no histories", hint="read its states at .../states"
            )
        canonical = self.keys.codec.encode(key)
        group = key_group(self.keys.codec.types, key, len(self._key_groups))

        def look(view: StateView) -> ShownHistory:
            found = read_history(
                view,
                group,
                canonical,
                policy=spec.policy,
                now_ms=self._clock() - spec.ttl_extension_ms,
                after=after,
                limit=limit,
            )
            if found is None:
                raise KeyNotFound(f"the key has no rows in epoch {view.epoch}")
            if isinstance(found, Expired):
                last_ms = found.expired_ms + spec.ttl_extension_ms
                raise KeyExpired(
                    f"all {found.size} rows of the key have expired, the last at {last_ms} ms: "
                    f"the ttl is {spec.ttl_ms} ms"
                )
            return self._shown(spec, view.epoch, canonical, found)

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

    def _row(self, canonical: bytes) -> Any:
        """A row by its columns; of an operator with several inputs its values alone."""
        return orjson.loads(canonical) if self._rows is None else self._rows.row(canonical)

    def _look(self, look: Callable[[StateView], T]) -> T:
        return self._reader.consistently(self._node, look)

    def _key_part(
        self, found: Sequence[KeySummary], position: tuple[int, int, str] | None, epoch: int
    ) -> Part[ShownKey]:
        shown = (
            ShownKey(self.keys.shown.values(each.key), each.layout, each.size) for each in found
        )
        return Part(tuple(shown), position, epoch)

    def _shown(
        self, spec: MaterializerSpec, epoch: int, canonical: bytes, found: HistoryPage
    ) -> ShownHistory:
        rows = ShownRow(spec.types, spec.names) if self._rows is None else self._rows

        def show(each: HistoryEntry) -> ShownEntry:
            return ShownEntry(
                sequence_number=each.sequence,
                row=rows.row(each.row),
                written_ms=each.written_ms,
                expires_ms=None
                if each.expires_ms is None
                else each.expires_ms + spec.ttl_extension_ms,
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
            "row": self._row(named[b"row"]),
            "time_ms": int(named[b"ms"]),
        }


def _first_state(spec: OperatorSpec) -> bytes:
    """The state whose keys are listed as those of the operator."""
    descriptors = spec.operator().descriptors
    return descriptors[0].name.encode() if descriptors else STATE


def glob_of(prefix: bytes) -> bytes | None:
    r"""The glob pattern that matches exactly what begins so; None matches everything.

    >>> glob_of(b'["a*')
    b'\\["a\\**'
    """
    if not prefix:
        return None
    escaped = b"".join(b"\\" + bytes([c]) if c in b"*?[]^\\-" else bytes([c]) for c in prefix)
    return escaped + b"*"
