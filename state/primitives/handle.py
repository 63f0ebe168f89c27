"""Handles: access to one state for the current key, by the rules of its TTL.

A handle keeps the cells of its state and works out once, for the times of an epoch, what its
accesses compare stamps with and what they write. A stored element begins with its stamp, of 15
bytes in our age; whether it lives is one comparison of bytes, and no number is made of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from state.backends.interface import HashGet
from state.execution.requests import OneRead, wait_for
from state.primitives.cells import Cell, Together, stored_key
from state.ttl import (
    STAMP_SIZE,
    TimeCharacteristic,
    TtlRules,
    UpdateType,
    is_usual_stamp,
    stamped,
    unstamped,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from state.descriptors import StateDescriptor
    from state.execution.requests import Request
    from state.primitives.cells import Element
    from state.primitives.session import StateSession
    from state.primitives.write_batch import WriteBatch
    from state.ttl import TtlClock

C = TypeVar("C", bound=Cell)

_CUT_MIN: Final = 16
"""So many keys are cut off the expiry index in one piece instead of one by one."""
_NEVER: Final = b"\xff"
"""Above every stored element."""
_STAMP: Final = itemgetter(slice(STAMP_SIZE))
_BEHIND_STAMP: Final = itemgetter(slice(STAMP_SIZE, None))
_BARE: Final = b"A"
"""Elements with a stamp are below this, as '@' is."""


class Cleaned:
    """What clean-up did to keys of a key group by their stored texts alone, without cells."""

    __slots__ = ("beyond", "cut_ms", "gone", "live")

    def __init__(self) -> None:
        self.cut_ms: int | None = None
        """All that the expiry index has up to this score was looked at; None: nothing was."""
        self.beyond: list[bytes] = []
        """Keys that were looked at, and have a higher score."""
        self.gone: dict[bytes, bytes] = {}
        """Keys of which nothing is left, with what was stored."""
        self.live: dict[bytes, tuple[bytes, int]] = {}
        """Keys that were written again since, with their texts and oldest stamps."""


class StateHandle(ABC, Generic[C]):
    """Access to one state for the current key; made by a `StateSession`."""

    def __init__(self, session: StateSession, descriptor: StateDescriptor) -> None:
        self.descriptor = descriptor
        self.state = descriptor.name.encode()
        """The name of the state's main structure."""
        self.expiry = self.state + b":expiry"
        """The name of its expiry index."""
        self.rules = TtlRules(descriptor.ttl, descriptor.enabled_ms)
        self.may_have_stamps = descriptor.may_have_stamps
        """Whether stored elements can carry stamps."""
        self._is_timed_by_records = descriptor.ttl.time is not TimeCharacteristic.PROCESSING
        self._keeps_creation = descriptor.ttl.update is UpdateType.ON_CREATE
        self._writes_alike = not (self._keeps_creation or self._is_timed_by_records)
        """Whether all writes of now have one stamp, whatever was there and whosever they are."""
        self.thresholds = descriptor.thresholds or session.thresholds
        self.cells: dict[bytes, C] = {}
        """By stored key."""
        self.cleaned: dict[int, Cleaned] = {}
        """By key group: what clean-up settled; a key has a cell or is here."""
        self.session = session
        cleanup = descriptor.ttl.cleanup
        self.accesses: Counter[int] | None = Counter() if cleanup.incremental_entries else None
        """Operations of the epoch, by key group; None where nothing is paid for by them."""
        self._records = session.counted_records() if cleanup.incremental_on_record else None
        self.set_clock(session.clock)

    def set_clock(self, clock: TtlClock) -> None:
        """Work out once what accesses at these times compare with and write."""
        rules = self.rules
        self.stamp_ms = clock.stamp(rules.config) if rules.is_enabled else None
        """The stamp of what is written now, where it is the same for all; None without TTL."""
        self.stamp_text = stamped(b"", self.stamp_ms)
        """What stands before the JSON of an element that is written now."""
        self.expired_until_ms = rules.expired_until_ms(clock)
        """The newest stamp that is expired now; minus infinity without TTL."""
        self._is_unstamped_expired = rules.is_expired(None, clock)
        until_ms = self.expired_until_ms
        # '!' is behind the space that ends a stamp: this very stamp is expired.
        before = b"" if math.isinf(until_ms) else b"@%013d!" % max(until_ms, 0)
        self.expired_before = before if len(before) == STAMP_SIZE else b""
        """Stored elements with a stamp of the usual length that are below this are expired."""
        self._live_after = self._least_live()
        self._plain_heads: dict[bytes, bool] = {}
        self.has_usual_stamps = (
            self._live_after < _NEVER
            and self._writes_alike
            and len(self.stamp_text) == STAMP_SIZE
            and self.stamp_text > self._live_after[:-1]
        )
        """Whether each access of now writes the one stamp of now, of the usual length."""
        self.writes_plain = self.has_usual_stamps or not self.may_have_stamps
        """Whether what an access writes now is an element that a read then takes as it is."""

    def _least_live(self) -> bytes:
        """Above this, stored elements with a stamp of the usual length are read as they are.

        They live, and a read does not alter them.
        """
        rules = self.rules
        if not rules.is_enabled or rules.enabled_ms is not None or self._is_timed_by_records:
            return _NEVER
        # Where reads write, an element of now's stamp is longer than it, and so above it.
        bound = self.stamp_text if rules.refreshes_on_read else self.expired_before
        return bound if len(bound) == STAMP_SIZE else _NEVER

    def first_loads(self, cells: Iterable[C]) -> list[Request]:
        """Requests for the first loads of cells: one a key group where that can be."""
        groups: dict[int, list[C]] = {}
        for each in cells:
            groups.setdefault(each.key_group, []).append(each)
        requests: list[Request] = []
        for key_group, group in groups.items():
            if group[0].is_one_field:
                keys = [each.key for each in group]
                read = HashGet(key_group, self.state, keys)
                requests.append(OneRead(read, partial(self.load_all, group)))
            else:
                requests += group
        return requests

    def loads_at_once(self, keys: Sequence[tuple[bytes, int]]) -> list[Request] | None:
        """Requests that load these stored keys without a cell for each; None: they need cells."""
        return None

    def close(self) -> None:
        """Let go of all cells: they refer to the handle, and would wait for the collector."""
        self.cells = {}
        self.cleaned = {}

    def load_all(self, cells: Sequence[C], texts: list[bytes | None]) -> None:
        """Load many cells, each from the one field of its first load, unless it is settled.

        Args:
            cells: The cells.
            texts: What the fields hold; they may be taken out of the list.
        """
        for cell, text in zip(cells, texts, strict=True):
            cell.load(text)

    def missing(self, keys: Iterable[tuple[bytes, int]]) -> list[C]:
        """The cells of these stored keys and key groups that are not loaded, made where needed."""
        cells, missing = self.cells, []
        for key, key_group in keys:
            cell = cells.get(key)
            if cell is None:
                cell = self._made(key, key_group)
            if not cell.is_loaded:
                missing.append(cell)
        return missing

    def write_all(self, cells: Iterable[C], batch: WriteBatch) -> None:
        """Give what must be stored of all cells of the state, as `Cell.write`, and of its index."""
        for cell in cells:
            cell.write(batch)
        if self.may_have_stamps:
            for cell in cells:
                cell.write_index(self.expiry, batch)

    def write_cleaned(self, batch: WriteBatch) -> None:
        """Give what clean-up settled without cells."""
        for key_group, cleaned in self.cleaned.items():
            gone = [*cleaned.gone]
            batch.delete_all(key_group, self.state, gone)
            # What was looked at goes from the index at once; what stays is put into it again.
            if cleaned.cut_ms is not None and len(gone) >= _CUT_MIN:
                batch.unscore_until(key_group, self.expiry, cleaned.cut_ms)
                gone = cleaned.beyond
            batch.unscore_all(key_group, self.expiry, gone)
            scores: list[float | bytes] = []
            for key, (_, oldest_ms) in cleaned.live.items():
                scores += (oldest_ms, key)
            batch.score_all(key_group, self.expiry, scores)

    def settle(
        self,
        key_group: int,
        keys: Sequence[bytes],
        texts: Sequence[bytes | None],
        elements_max: int,
    ) -> int:
        """Let clean-up settle due keys that have no cell, by what is stored of them.

        Others, which it cannot settle so, get cells, loaded.

        Args:
            key_group: Where they are.
            keys: The keys.
            texts: What the fields of their first loads hold.
            elements_max: Remove at most so many elements of a key.

        Returns:
            How many elements were removed.

        Raises:
            StateCorrupt, FormatVersionMismatch: What is stored cannot be read.
        """
        cleaned, removed = self.cleaned[key_group], 0
        for key, text in zip(keys, texts, strict=True):
            fate = None if text is None else self.judged(text)
            if text is None or fate is None or fate[0] > elements_max:
                self.cell_of(key, key_group).load(text)
            elif fate[1] is None:
                cleaned.gone[key] = text
                removed += fate[0]
            else:
                cleaned.live[key] = text, fate[1]
        return removed

    def judged(self, text: bytes) -> tuple[int, int | None] | None:
        """What clean-up does to a key by its stored text alone.

        Returns:
            How many elements are removed, which are all it has, and None; or 0 and the oldest
            stamp, if nothing is expired. None where the text does not settle it.
        """
        return None

    @abstractmethod
    def new_cell(self, key: bytes, key_group: int) -> C:
        """A cell of this kind that knows nothing yet."""

    def cell_of(self, key: bytes, key_group: int) -> C:
        """The cell of a stored key, made at its first touch."""
        cell = self.cells.get(key)
        return self._made(key, key_group) if cell is None else cell

    def unknown(self, key_group: int, keys: Iterable[bytes]) -> list[bytes]:
        """Those of a key group's stored keys that have no cell, and that no clean-up settled."""
        cells, cleaned = self.cells, self.cleaned.setdefault(key_group, Cleaned())
        gone, live = cleaned.gone, cleaned.live
        return [key for key in keys if not (key in cells or key in gone or key in live)]

    def _made(self, key: bytes, key_group: int) -> C:
        """A new cell, in `cells`."""
        cell = self.cells[key] = self.new_cell(key, key_group)
        if self.cleaned and (cleaned := self.cleaned.get(key_group)) is not None:
            if (text := cleaned.gone.pop(key, None)) is not None:
                cell.load(text)
                cell.empty()
                cell.is_due = True
            elif (live := cleaned.live.pop(key, None)) is not None:
                cell.load(live[0])
                cell.is_due = True
        return cell

    def cell(self) -> C:
        """The cell of the current key and namespace, for an access."""
        session = self.session
        if self.accesses is not None:
            self.accesses[session.key_group] += 1
        return self.cell_of(session.stored_key, session.key_group)

    def count_access(self) -> None:
        """Count an access that did not ask for its cell, where `accesses` are counted."""
        if self.accesses is not None:
            self.accesses[self.session.key_group] += 1

    def paid_keys(self, key_group: int) -> int:
        """How many due keys of a key group the epoch's accesses and records pay for."""
        if self.accesses is None:
            return 0
        payers = self.accesses[key_group]
        if self._records is not None:
            payers += self._records[key_group]
        return payers * self.rules.config.cleanup.incremental_entries

    async def loaded(self) -> C:
        """The cell of the current key and namespace, loaded; at most one request."""
        cell = self.cell()
        if not cell.is_loaded:
            await self.answered(cell)
        return cell

    async def loaded_namespaces(self, namespaces: Sequence[bytes]) -> list[C]:
        """The cells of the current key in these namespaces, loaded; at most one request."""
        key, key_group = self.session.key, self.session.key_group
        cells = [self.cell_of(stored_key(key, each), key_group) for each in namespaces]
        if missing := [each for each in cells if not each.is_loaded]:
            await self.answered(Together(missing))
        return cells

    async def answered(self, request: Request) -> None:
        """Wait for a request; a session whose backend is local executes it at once."""
        session = self.session
        if session.is_local:
            session.execute((request,))
        else:
            await wait_for(request)

    def is_expired(self, element: Element) -> bool:
        """Whether an element is past its life in this epoch."""
        stamp_ms = element[0]
        if stamp_ms is None:
            return self._is_unstamped_expired
        return stamp_ms <= self.expired_until_ms

    def has_expired(self, text: bytes) -> bool:
        """The same of a stored element."""
        if text[:1] != b"@":
            return self._is_unstamped_expired
        try:
            return int(text[1 : text.index(b" ")]) <= self.expired_until_ms
        except ValueError:
            return self.is_expired(unstamped(text))

    def plain_json(self, text: bytes) -> bytes | None:
        """The JSON of a stored element that a read takes as it is.

        None where a rule of TTL may concern it: then it must be looked at.
        """
        if not self.may_have_stamps:
            return text
        if self._live_after < text < _BARE and text.find(b" ") == STAMP_SIZE - 1:
            return text[STAMP_SIZE:]
        return None

    def plain_from(self, texts: Collection[bytes]) -> int:
        """Where the JSON of many stored elements begins, if a read takes them all as they are.

        It is the same place in each. -1 where a rule of TTL may concern one of them.
        """
        if not self.may_have_stamps:
            return 0
        live_after = self._live_after
        if live_after is _NEVER:
            return -1
        # Elements that were written together share their stamp.
        for head in {text[:STAMP_SIZE] for text in texts}:
            if not self.is_plain_head(head):
                return -1
        return STAMP_SIZE

    def plain_jsons(self, texts: Sequence[bytes]) -> Iterable[bytes | None]:
        """What `plain_json` gives of each of many stored elements."""
        if not texts or not self.may_have_stamps:
            return texts
        if len(texts) == 1:
            return (self.plain_json(texts[0]),)
        head = texts[0][:STAMP_SIZE]
        # What is not below a text, and below it with its last byte one higher, begins with it.
        if self.is_plain_head(head) and min(texts) >= head and max(texts) < head[:-1] + b"!":
            return map(_BEHIND_STAMP, texts)
        if all(map(self.is_plain_head, {*map(_STAMP, texts)})):
            return map(_BEHIND_STAMP, texts)
        return map(self.plain_json, texts)

    def is_plain_head(self, head: bytes) -> bool:
        """Whether elements that begin with a stamp, of `STAMP_SIZE` bytes, are read as they are.

        Few stamps are met in an epoch, each many times.
        """
        found = self._plain_heads.get(head)
        if found is None:
            found = is_usual_stamp(head) and head + b"\xff" > self._live_after
            self._plain_heads[head] = found
        return found

    def live_jsons(self, texts: Collection[bytes]) -> Sequence[bytes] | None:
        """The JSON of stored elements that a read takes as they are.

        None where a rule of TTL may concern one of them: then each must be looked at.
        """
        start = self.plain_from(texts)
        if start > 0:
            return [text[start:] for text in texts]
        return None if start < 0 else [*texts]

    def written(self, json: bytes, old: Element | None) -> Element:
        """An element as an access of now writes it over an old one."""
        if self._writes_alike:
            return self.stamp_ms, json
        session = self.session
        stamp_ms = self.rules.written(
            None if old is None else old[0],
            replaces=old is not None,
            clock=session.clock,
            event_ms=session.event_ms,
        )
        return stamp_ms, json

    def written_text(self, json: bytes, old: bytes | None) -> bytes:
        """The same, as it is stored."""
        if self._writes_alike:
            return self.stamp_text + json
        return stamped(json, self.written(json, None if old is None else unstamped(old))[0])

    def text_of(self, element: Element) -> bytes:
        """An element as it is stored."""
        stamp_ms, json = element
        return self.stamp_text + json if stamp_ms == self.stamp_ms else stamped(json, stamp_ms)

    def refreshed_text(self, text: bytes) -> bytes:
        """A stored element as a read of now leaves it: itself, where reads do not count."""
        if not self.rules.refreshes_on_read:
            return text
        return self.text_of(self.refreshed(unstamped(text)))

    def refreshed(self, element: Element) -> Element:
        """An element as a read of now leaves it: itself, where reads do not count."""
        rules = self.rules
        if not rules.refreshes_on_read:
            return element
        session = self.session
        return rules.refreshed(element[0], session.clock, session.event_ms), element[1]
