"""What an epoch knows of one key of list or map state: its elements by their fields.

What is hard is that a spread collection is known in part only. A cell knows some elements as they
are now, what the touched ones were before, which it looked for in vain, and how many there are.

The stored form is drawn in `state.primitives.layout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state.backends.interface import HashGet
from state.errors import StateCorrupt
from state.primitives.cells import Cell
from state.primitives.layout import read_collection, rows_name, stamp_text, stamps_name
from state.ttl import STAMP_SIZE, stamp_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.backends.interface import Read
    from state.primitives.collection import CollectionHandle


class KnownElements(Cell):
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

    @property
    def touched_count(self) -> int:
        """How many elements the epoch has touched."""
        return len(self._before)

    @property
    def is_changed(self) -> bool:
        """Whether something must be stored."""
        return bool(self._before) or self._is_wiped or self._moved_floor
