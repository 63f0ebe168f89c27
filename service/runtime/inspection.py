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
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson

from operators.orphans import COUNTERS, LATE, ORPHANS
from operators.spec import unique
from operators.upsert_materializer import MaterializerSpec
from service.runtime.inspection_errors import KeyExpired, KeyNotFound, StateNotFound
from service.runtime.key_listing import TIMERS, KeyLister, ListedState, Part
from service.runtime.key_text import KeyText, ShownRow
from service.runtime.what_if import CurrentWhatIf, KeyWhatIf, of_history
from state.backends.interface import HashGet, StreamScan
from state.key_groups import key_group
from state.multiset.history import Expired, HistoryPage, read_history

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.spec import OperatorSpec
    from service.runtime.key_listing import ShownKey
    from state.backends.interface import StateView
    from state.descriptors import StateDescriptor
    from state.multiset.history import HistoryEntry
    from state.reader import CommittedReader

T = TypeVar("T")


class Counts(NamedTuple):
    """How much an operator keeps, and what it has counted."""

    keys: int
    """Of the state that has most of them, each with its namespaces."""
    orphans: int
    late: int
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
        descriptors: Its states.
        clock: The time in ms since 1970.
    """

    def __init__(
        self,
        reader: CommittedReader,
        node: str,
        spec: MaterializerSpec | OperatorSpec,
        max_parallelism: int,
        *,
        descriptors: Sequence[StateDescriptor],
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._reader = reader
        self._node = node
        self._key_groups = range(max_parallelism)
        self._clock = clock
        self._history = spec if isinstance(spec, MaterializerSpec) else None
        inputs = (spec,) if isinstance(spec, MaterializerSpec) else spec.inputs
        first = inputs[0]
        self._rows = [ShownRow(each.types, unique(each.names)) for each in inputs]
        key_types = [first.types[each] for each in first.key]
        self.keys = KeyText(key_types, unique(tuple(first.names[each] for each in first.key)))
        self._lister = KeyLister(self.keys, max_parallelism)
        states = [ListedState(each.name.encode(), each.kind) for each in descriptors]
        self._listed = [each for each in states if each.kind != TIMERS] or states

    @property
    def keeps_histories(self) -> bool:
        """Whether it is an upsert materializer."""
        return self._history is not None

    def counts(self) -> Counts:
        """How much the operator keeps, and what it counted since the pipeline was made."""

        def look(view: StateView) -> Counts:
            keys = self._lister.counts(view, self._listed)
            counters = [HashGet(each, COUNTERS, [ORPHANS, LATE]) for each in self._key_groups]
            found = view.fetch(counters)
            orphans, late = (sum(int(each[at] or 0) for each in found) for at in (0, 1))
            return Counts(max(keys, default=0), orphans, late, view.epoch)

        return self._look(look)

    def list_keys(
        self, prefix: str, start: tuple[int, int, str] | None, limit: int
    ) -> Part[ShownKey]:
        """A page of the keys that have a live row; see `KeyLister.page`.

        Raises:
            StateNotFound: the operator keeps no histories.
        """
        spec, now_ms = self._spec(), self._clock()

        def lives(view: StateView, group: int, state: ListedState, key: bytes) -> bool:
            if not spec.ttl_ms:
                return True
            found = self._read_stored(view, spec, group, key, 0, 1, now_ms)
            return isinstance(found, HistoryPage)

        return self._look(
            lambda view: self._lister.page(view, self._listed, lives, prefix, start, limit)
        )

    def history(self, key: Sequence[Any], *, after: int = 0, limit: int = 1) -> ShownHistory:
        """A page of the live entries of a key, behind a sequence number.

        Raises:
            StateNotFound: the operator keeps no histories.
            KeyNotFound: it has none.
            KeyExpired: it had, and all of them are past their time.
        """
        spec, now_ms = self._spec(), self._clock()

        def look(view: StateView) -> ShownHistory:
            found = self._read(view, spec, key, after, limit, now_ms)
            if isinstance(found, Expired):
                raise _all_expired(spec, found)
            return self._shown(spec, view.epoch, key, found)

        return self._look(look)

    def compare(self, key: Sequence[Any], other: MaterializerSpec, *, limit: int) -> KeyWhatIf:
        """The live entries of a key now, and what they would be with another time to live.

        Args:
            key: The key's values.
            other: The operator as it would be.
            limit: Entries to show at most, the oldest.

        Raises:
            StateNotFound, KeyNotFound: as `history`.
            KeyExpired: all of its entries are past their time, with either.
        """
        # One time for both, or a row could be past it with the longer time to live alone.
        spec, now_ms = self._spec(), self._clock()

        def look(view: StateView) -> KeyWhatIf:
            found = [self._read(view, each, key, 0, limit, now_ms) for each in (spec, other)]
            now, then = (
                None if isinstance(page, Expired) else self._shown(each, view.epoch, key, page)
                for each, page in zip((spec, other), found, strict=True)
            )
            if now is None and then is None:
                expired = next(each for each in found if isinstance(each, Expired))
                raise _all_expired(spec, expired)
            state = of_history(spec.descriptor.name, (spec.ttl_ms, other.ttl_ms), now, then)
            current = CurrentWhatIf(
                now=None if now is None else now.current,
                then=None if then is None else then.current,
                emits_expired=spec.emit_expired,
            )
            return KeyWhatIf(view.epoch, self._values(key), (state,), current)

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

    def _spec(self) -> MaterializerSpec:
        if self._history is None:
            raise StateNotFound(
                "this operator keeps no histories", hint="read what it keeps at .../keys/{key}"
            )
        return self._history

    def _read(
        self,
        view: StateView,
        spec: MaterializerSpec,
        key: Sequence[Any],
        after: int,
        limit: int,
        now_ms: int,
    ) -> HistoryPage | Expired:
        group = key_group(self.keys.codec.types, key, len(self._key_groups))
        stored = self.keys.codec.encode(key)
        found = self._read_stored(view, spec, group, stored, after, limit, now_ms)
        if found is None:
            raise KeyNotFound(f"the key has no rows in epoch {view.epoch}")
        return found

    def _read_stored(
        self,
        view: StateView,
        spec: MaterializerSpec,
        group: int,
        stored: bytes,
        after: int,
        limit: int,
        now_ms: int,
    ) -> HistoryPage | Expired | None:
        return read_history(
            view,
            group,
            stored,
            policy=spec.policy,
            now_ms=now_ms - spec.ttl_extension_ms,
            after=after,
            limit=limit,
        )

    def _values(self, key: Sequence[Any]) -> list[Any]:
        """A key as answers show it."""
        return self.keys.shown.values(self.keys.codec.encode(key))

    def _row(self, canonical: bytes, number: bytes | None) -> Any:
        """A row by the columns of its input; its values alone where that is not known."""
        if number is None and len(self._rows) > 1:
            return orjson.loads(canonical)
        return self._rows[int(number or 0)].row(canonical)

    def _look(self, look: Callable[[StateView], T]) -> T:
        return self._reader.consistently(self._node, look)

    def _shown(
        self, spec: MaterializerSpec, epoch: int, key: Sequence[Any], found: HistoryPage
    ) -> ShownHistory:
        rows = self._rows[0]

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
            key=self._values(key),
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
            "input": int(named.get(b"input", b"0")),
            "row": self._row(named[b"row"], named.get(b"input")),
            "time_ms": int(named[b"ms"]),
        }


def _all_expired(spec: MaterializerSpec, found: Expired) -> KeyExpired:
    last_ms = found.expired_ms + spec.ttl_extension_ms
    return KeyExpired(
        f"all {found.size} rows of the key have expired, the last at {last_ms} ms: "
        f"the ttl is {spec.ttl_ms} ms"
    )


def glob_of(prefix: bytes) -> bytes | None:
    r"""The glob pattern that matches exactly what begins so; None matches everything.

    >>> glob_of(b'["a*')
    b'\\["a\\**'
    """
    if not prefix:
        return None
    escaped = b"".join(b"\\" + bytes([c]) if c in b"*?[]^\\-" else bytes([c]) for c in prefix)
    return escaped + b"*"
