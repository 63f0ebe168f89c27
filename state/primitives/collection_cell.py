"""One key of list or map state: its elements by their fields, as far as the epoch knows them.

What is hard is that a spread collection is known in part only. A `CollectionCell` knows some
elements as they are now, what the touched ones were before, which it looked for in vain, how many
there are, and a bound for the oldest stamp of those that it has not seen; it says so truthfully
in its writes, in one pass at the end of the epoch.

The stored form is drawn in `state.primitives.layout`.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from state.backends.interface import HashGet
from state.errors import StateCorrupt
from state.primitives.cells import Cell
from state.primitives.collection_requests import Expired, WholeCollection
from state.primitives.layout import (
    packed_text,
    read_collection,
    rows_name,
    shared,
    shared_text,
    spread_text,
    stamp_text,
    stamps_name,
)
from state.ttl import STAMP_SIZE, oldest_stamp, stamp_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from state.backends.interface import Read
    from state.primitives.cells import MaybeKnown
    from state.primitives.collection import CollectionHandle
    from state.primitives.write_batch import WriteBatch

_STAMPED: Final = b"@0 \n"
"""Stands for an element that was not read, of which only is known that it has a stamp."""


class CollectionCell(Cell):
    """The elements of one key, by their fields: sequence numbers or user keys."""

    __slots__ = (
        "_absent",
        "_before",
        "_floor_ms",
        "_handle",
        "_has_unstamped",
        "_is_wiped",
        "_jsons",
        "_moved_floor",
        "_own_count",
        "_shared",
        "_shared_ms",
        "_start",
        "_stored",
        "_stored_size",
        "_was_spread",
        "elements",
        "is_complete",
        "next_number",
        "size",
    )

    def __init__(self, handle: CollectionHandle, key: bytes, key_group: int) -> None:
        super().__init__(key, key_group)
        self._handle = handle
        self.elements: dict[bytes, bytes] = {}
        """Elements that are known, as they are stored: stamps are read when they are needed. Those
        of a packed collection that have `_shared` as their stamp are without it."""
        self.size = 0
        """How many there are now, known or not."""
        self.next_number = 0
        """The next sequence number."""
        self.is_complete = False
        """Whether all elements are known."""
        self._stored: bytes | None = None
        """The stored text: a packed collection or a header."""
        self._stored_size = 0
        self._was_spread = False
        self._is_wiped = False
        """Whether everything that was stored goes."""
        self._before: dict[bytes, bytes | None] = {}
        """What touched fields held when the epoch began; None for nothing."""
        self._absent: set[bytes] = set()
        """Fields that are known to hold nothing now, though there are unknown ones."""
        self._floor_ms: int | None = None
        """At most the oldest stamp of elements that are not known; None if none has one."""
        self._moved_floor = False
        self._has_unstamped = False
        """Whether clean-up saw that stored elements have no stamp."""
        self._shared = b""
        """The stamp of elements that have none of their own, the oldest one; empty: there is none.
        A cell that lacks elements has none."""
        self._shared_ms = 0
        """The same as a number, where there is one."""
        self._own_count = 0
        """How many elements have a stamp of their own, where one is shared."""
        """Whether elements of other cells were put, which may be older than those of its own."""
        self._start: int | None = None
        """What `plain_start` gives; None before it was asked for."""
        self._jsons: Sequence[bytes] | None = None
        """The JSON of all elements, where reads take it as it is and somebody asked."""

    @property
    def reads(self) -> Sequence[Read]:
        """The packed text or the header."""
        return (HashGet(self.key_group, self._handle.state, [self.key]),)

    def take(self, replies: Sequence[Any]) -> None:
        """Load the packed elements or the header."""
        if self.is_loaded:
            return
        ((text,),) = replies
        if text is None:
            self.is_complete = True
            self._share_now()
        else:
            self._load(text)
        self._stored = text
        self.is_loaded = True

    def _load(self, text: bytes) -> None:
        header, lines = read_collection(text)
        self.next_number = header.next_number
        if header.is_spread:
            self._was_spread = True
            self.size = self._stored_size = header.size
            self._floor_ms = self.indexed_ms = header.oldest_ms
            return
        self.elements = self._handle.parse(header.next_number, lines)
        if len(self.elements) != len(lines):
            raise StateCorrupt("a packed collection has a field twice")
        self.size = len(self.elements)
        self.is_complete = True
        if header.oldest_ms is not None:
            self.indexed_ms = self._shared_ms = header.oldest_ms
            self._shared, self._own_count = stamp_text(header.oldest_ms), header.own_count
        # A truncated text ends in a truncated element; others are looked at when they are needed.
        last = self.elements[next(reversed(self.elements))]
        if last[:1] == b"@" and b" " not in last:
            stamp_of(last)

    def knows(self, field: bytes) -> bool:
        """Whether it is known what the field holds."""
        return self.is_complete or field in self.elements or field in self._absent

    def plain_start(self) -> int:
        """Where the JSON of all known elements begins, if a read takes them all as they are.

        -1 where a rule of TTL may concern one of them, or it begins elsewhere in some: then each
        must be looked at.
        """
        if self._start is None:
            self._start = self._judged() if self.is_complete else -1
        return self._start

    def plain_json(self, element: bytes) -> bytes | None:
        """The JSON of a known element that a read takes as it is; else None."""
        if self._shared and element[:1] != b"@":
            return element if self._handle.is_plain_head(self._shared) else None
        return self._handle.plain_json(element)

    def plain_jsons(self) -> Sequence[bytes] | None:
        """The JSON of all elements of a complete cell, if a read takes them all as they are."""
        if self._jsons is None:
            start, texts = self.plain_start(), self.elements.values()
            if start >= 0:
                self._jsons = [text[start:] for text in texts] if start else [*texts]
            elif self._shared:
                plain = [json for json in map(self.plain_json, texts) if json is not None]
                self._jsons = plain if len(plain) == len(texts) else None
        return self._jsons

    def use_own_stamps(self) -> None:
        """Let each element of a packed collection begin with its stamp, be it shared or not."""
        if self._shared:
            head = self._shared
            self.elements = {
                field: text if text[:1] == b"@" else head + text
                for field, text in self.elements.items()
            }
            self._shared, self._own_count = b"", 0
            self._start = self._jsons = None

    def put_json(self, field: bytes, json: bytes) -> None:
        """Set a field that is known, or that is certain to hold nothing, by an access of now."""
        handle = self._handle
        if not handle.has_usual_stamps:
            self.use_own_stamps()
            self.put(field, handle.written_text(json, self.elements.get(field)))
        elif self._shared == handle.stamp_text:
            self.put(field, json)
        else:
            if len(self._shared) > STAMP_SIZE or self._shared > handle.stamp_text:
                # What is shared must be the oldest stamp.
                self.use_own_stamps()
            self.put(field, handle.stamp_text + json)

    def put(self, field: bytes, element: bytes) -> None:
        """Set a field that is known, or that is certain to hold nothing, to an element."""
        old = self.elements.get(field)
        self._before.setdefault(field, old)
        if old is None:
            self.size += 1
        elif self._own_count and old[:1] == b"@":
            self._own_count -= 1
        self.elements[field] = element
        self._jsons = None
        if self._shared and element[:1] == b"@":
            self._start = -1
            self._own_count += 1
        elif not self._handle.writes_plain:
            self._start = -1

    def adopt(self, field: bytes, element: bytes) -> None:
        """Set a field that is certain to hold nothing to an element of another cell."""
        self.use_own_stamps()
        self.put(field, element)
        self._start = -1

    def remove(self, field: bytes) -> None:
        """Remove the element of a field that is known; nothing if it holds none."""
        old = self.elements.pop(field, None)
        if old is None:
            return
        self._before.setdefault(field, old)
        if self._own_count and old[:1] == b"@":
            self._own_count -= 1
        self.size -= 1
        self._absent.add(field)
        self._jsons = None
        if self.size == 0:
            self.wipe()

    def empty(self) -> None:
        """Remove all elements."""
        self.wipe()

    def judge_again(self) -> None:
        """Whether elements live must be looked at again."""
        self._start = self._jsons = None

    def wipe(self) -> None:
        """Remove all elements, known or not."""
        self.elements = {}
        self.size = self.next_number = 0
        self.is_complete = self._is_wiped = True
        self._before = {}
        self._absent = set()
        self._floor_ms = self._jsons = None
        self._share_now()
        self._start = self._judged()

    def looked_up(self, field: bytes, text: bytes | None) -> None:
        """Take what a field of a spread collection held, unless that is known."""
        if self.knows(field):
            return
        if text is None:
            self._absent.add(field)
        else:
            self.elements[field] = text

    def looked_up_all(self, rows: dict[bytes, bytes]) -> None:
        """Take all elements of a spread collection, but for what is known.

        Raises:
            StateCorrupt: There are more or fewer than the header says.
        """
        if self.is_complete:
            return
        for field, text in rows.items():
            self.looked_up(field, text)
        self.is_complete = True
        self._absent = set()
        self._floor_ms = self._start = None
        self.elements = {each: self.elements[each] for each in self._handle.ordered(self.elements)}
        if len(self.elements) != self.size:
            raise StateCorrupt(
                f"a spread collection has {len(self.elements)} elements, its header "
                f"says {self.size}"
            )

    @property
    def rows(self) -> bytes:
        """The name of the elements' hash."""
        return rows_name(self._handle.state, self.key)

    @property
    def stamps(self) -> bytes:
        """The name of the stamps' sorted set."""
        return stamps_name(self._handle.state, self.key)

    @property
    def should_complete(self) -> bool:
        """Whether it is to be packed, and what that needs is not known."""
        return not self.is_complete and self.size <= self._handle.thresholds.low

    def oldest_ms(self) -> int | None:
        """The oldest stamp, or a bound below it where not all stamps are known."""
        if not self._handle.may_have_stamps:
            return None
        if not self.is_changed and self._was_spread:
            return self.indexed_ms if isinstance(self.indexed_ms, int) else None
        if self._shared and self._own_count < self.size:
            return self._shared_ms
        known = oldest_stamp(
            self.elements.values()
            if self.is_complete
            else [self.elements[each] for each in self._before if each in self.elements]
        )
        if known is None or self._floor_ms is None:
            return self._floor_ms if known is None else known
        return min(known, self._floor_ms)

    @property
    def stays_indexed(self) -> bool:
        """Whether its oldest stamp is the one that it was loaded with, so that the index knows."""
        return (
            self._shared_ms == self.indexed_ms
            and self._own_count < self.size
            and self._shared != b""
            and not self.is_due
        )

    def index_scores(self) -> tuple[int | None, MaybeKnown]:
        """The score that the expiry index is to have for the key, and what it has at most."""
        handle, stored = self._handle, self._stored
        if not self.is_changed or not handle.may_have_stamps:
            return None, None
        if stored is not None and self.indexed_ms is None and not self._was_spread:
            _, lines = read_collection(stored)
            return self.oldest_ms(), oldest_stamp(handle.parse(0, lines).values())
        return self.oldest_ms(), self.indexed_ms

    def write(self, batch: WriteBatch) -> None:
        """What changed, in the layout that the size asks for now."""
        if not self.is_changed:
            return
        key_group, state = self.key_group, self._handle.state
        is_spread_now = self._was_spread and not self._is_wiped
        spread = self._spreads(is_spread_now)
        if self._was_spread and not (spread and is_spread_now):
            self._drop(batch)
        if not self.size:
            if self._stored is not None:
                batch.delete(key_group, state, self.key)
            return
        if spread:
            self.use_own_stamps()
            self._write_rows(batch, self._before if is_spread_now else dict.fromkeys(self.elements))
            text = spread_text(self.size, self.next_number, self.oldest_ms())
        else:
            text = self._packed_text()
        if text != self._stored:
            batch.put(key_group, state, self.key, text)

    async def clean(self, elements_max: int) -> int:
        """Remove expired elements; of a spread collection without looking at the others."""
        handle = self._handle
        if not self.is_loaded:
            await handle.answered(self)
        if not self.size or not handle.rules.is_enabled:
            return 0
        before = self.size
        self.use_own_stamps()
        if not self.is_complete:
            await handle.answered(Expired(self, elements_max))
        if self._has_unstamped and handle.rules.is_expired(None, handle.session.clock):
            await self._load_unstamped()
        # Elements that the epoch has touched stand in no index as they are now.
        self._remove_expired(elements_max)
        if self.should_complete:
            await handle.answered(WholeCollection(self))
        if self.is_complete and self._was_spread and not self.is_changed:
            # The bound in the header may lag behind; the index must not be ahead of it.
            self._moved_floor = oldest_stamp(self.elements.values()) != self.indexed_ms
        return before - self.size

    def take_expired(
        self, oldest: Sequence[tuple[bytes, float]], stamped_count: int, elements_max: int
    ) -> None:
        """Remove the oldest elements of a spread collection as far as they are expired.

        Args:
            oldest: Fields with the oldest stored stamps, lowest first; all, or more than
                `elements_max` that were not touched.
            stamped_count: How many stored elements have a stamp.
            elements_max: Remove at most so many.
        """
        before = self._before
        untouched = [e for e in oldest if e[0] not in before] if before else oldest
        count = bisect_right(untouched, self._handle.expired_until_ms, key=itemgetter(1))
        expired = untouched[: min(count, elements_max)]
        self._has_unstamped = stamped_count < self._stored_size
        if not self._has_unstamped and not self._before and len(expired) == self.size:
            self.wipe()
            return
        self._remove_unseen([each for each, _ in expired])
        rest = untouched[len(expired) :]
        # Where nothing follows what was expired, no stamp is left that was not touched.
        floor = int(rest[0][1]) if rest else None
        self._moved_floor = self._moved_floor or floor != self._floor_ms
        self._floor_ms = floor

    def _judged(self) -> int:
        handle = self._handle
        if not handle.may_have_stamps:
            return 0
        if self._shared:
            return -1 if self._own_count or not handle.is_plain_head(self._shared) else 0
        return handle.plain_from(self.elements.values())

    def _share_now(self) -> None:
        """Where nothing is stored, or no more: let all that is put share the stamp of now."""
        handle = self._handle
        self._shared, self._own_count = b"", 0
        if handle.has_usual_stamps and handle.stamp_ms is not None:
            self._shared, self._shared_ms = handle.stamp_text, handle.stamp_ms

    def _packed_text(self) -> bytes:
        """All elements in one text."""
        handle, elements, number = self._handle, self.elements, self.next_number
        own_count = self._own_count
        if self._shared and own_count < self.size:
            lines = handle.lines(elements)
            return shared_text(self.size, number, self._shared_ms, own_count, lines)
        found = shared([*elements.values()]) if handle.may_have_stamps else None
        if found is None:
            return packed_text(number, handle.lines(elements))
        lines = handle.lines(dict(zip(elements, found.elements, strict=True)))
        return shared_text(self.size, number, found.oldest_ms, found.own_count, lines)

    def _remove_unseen(self, fields: Sequence[bytes]) -> None:
        """Remove stored elements that have a stamp and were not touched."""
        if len(fields) == self.size:
            self.wipe()
            return
        self._before.update(dict.fromkeys(fields, _STAMPED))
        self._absent.update(fields)
        self.size -= len(fields)
        for field in fields:
            self.elements.pop(field, None)

    async def _load_unstamped(self) -> None:
        """Know all elements, since those without a stamp are expired, too, and in no index."""
        if not self.is_complete:
            await self._handle.answered(WholeCollection(self))

    @property
    def touched_count(self) -> int:
        """How many elements the epoch has touched."""
        return len(self._before)

    @property
    def is_changed(self) -> bool:
        """Whether something must be stored."""
        return bool(self._before) or self._is_wiped or self._moved_floor

    def _spreads(self, is_spread_now: bool) -> bool:
        thresholds = self._handle.thresholds
        if not self.is_complete:
            return True
        return self.size > thresholds.low if is_spread_now else self.size >= thresholds.high

    def _drop(self, batch: WriteBatch) -> None:
        batch.drop(self.key_group, self.rows)
        if self._handle.may_have_stamps:
            batch.drop(self.key_group, self.stamps)

    def _write_rows(self, batch: WriteBatch, before: Mapping[bytes, bytes | None]) -> None:
        """The difference between what fields held and what they hold."""
        gone: list[bytes] = []
        puts: list[bytes] = []
        scores: list[float | bytes] = []
        unscored: list[bytes] = []
        for field, old in before.items():
            new = self.elements.get(field)
            if new == old:
                continue
            old_ms = None if old is None else stamp_of(old)
            new_ms = None if new is None else stamp_of(new)
            if new is None:
                gone.append(field)
            else:
                puts += (field, new)
            if new_ms is None:
                if old_ms is not None:
                    unscored.append(field)
            elif new_ms != old_ms:
                scores += (new_ms, field)
        batch.put_all(self.key_group, self.rows, puts)
        batch.delete_all(self.key_group, self.rows, gone)
        batch.score_all(self.key_group, self.stamps, scores)
        batch.unscore_all(self.key_group, self.stamps, unscored)

    def _remove_expired(self, elements_max: int) -> None:
        has_expired = self._handle.has_expired
        expired = [field for field, each in self.elements.items() if has_expired(each)]
        for field in expired[:elements_max]:
            self.remove(field)
