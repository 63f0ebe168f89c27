"""What an epoch knows of one key of list or map state: its elements by their fields.

What is hard is that a spread collection is known in part only. A cell knows some elements as they
are now, what the touched ones were before, which it looked for in vain, and how many there are.

The stored form is drawn in `state.primitives.layout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.errors import StateCorrupt
from state.primitives.known_collection import KnownCollection
from state.primitives.layout import rows_name, stamps_name
from state.ttl import STAMP_SIZE, stamp_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from state.primitives.collection import CollectionHandle
    from state.primitives.layout import Header


class KnownElements(KnownCollection):
    """The elements of one key, by their fields: sequence numbers or user keys."""

    __slots__ = (
        "_absent",
        "_before",
        "_handle",
        "_jsons",
        "_moved_floor",
        "_stored_size",
        "elements",
        "is_complete",
        "next_number",
        "stamp_count",
    )

    def __init__(self, handle: CollectionHandle, key: bytes, key_group: int) -> None:
        super().__init__(key, key_group)
        self._handle: CollectionHandle = handle
        self.elements: dict[bytes, bytes] = {}
        """Elements that are known, as they are stored: stamps are read when they are needed. Those
        of a packed collection that have `_shared` as their stamp are without it."""
        self.next_number = 0
        """The next sequence number."""
        self.is_complete = False
        """Whether all elements are known."""
        self._stored_size = 0
        self._before: dict[bytes, bytes | None] = {}
        """What touched fields held when the epoch began; None for nothing."""
        self._absent: set[bytes] = set()
        """Fields that are known to hold nothing now, though there are unknown ones."""
        self._moved_floor = False
        self.stamp_count: int | None = None
        """How many elements of a spread collection were stored with a stamp; None: not asked."""
        self._jsons: Sequence[bytes] | None = None
        """The JSON of all elements, where reads take it as it is and somebody asked."""

    def _is_whole(self) -> bool:
        return self.is_complete

    def _know_all(self) -> None:
        self.is_complete = True

    def _take_header(self, header: Header) -> None:
        self.next_number = header.next_number
        self._stored_size = header.size

    def _take_lines(self, header: Header, lines: list[bytes]) -> None:
        self.next_number = header.next_number
        self.elements = self._handle.parse(header.next_number, lines)
        if len(self.elements) != len(lines):
            raise StateCorrupt("a packed collection has a field twice")
        # A truncated text ends in a truncated element; others are looked at when they are needed.
        last = self.elements[next(reversed(self.elements))]
        if last[:1] == b"@" and b" " not in last:
            stamp_of(last)

    def _texts(self) -> Collection[bytes]:
        return self.elements.values()

    def knows(self, field: bytes) -> bool:
        """Whether it is known what the field holds."""
        return self.is_complete or field in self.elements or field in self._absent

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

    @property
    def touched_count(self) -> int:
        """How many elements the epoch has touched."""
        return len(self._before)

    @property
    def is_changed(self) -> bool:
        """Whether something must be stored."""
        return bool(self._before) or self._is_wiped or self._moved_floor
