"""What cells of lists, maps and sorted maps share: a text, packed or a header, and one stamp.

Elements of a packed collection that have the oldest stamp of all are without it, in the text and
here (`state.primitives.layout`); so one number tells whether a rule of TTL concerns any of them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from state.backends.interface import HashGet
from state.primitives.cells import Cell
from state.primitives.layout import read_collection

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from state.backends.interface import Read
    from state.primitives.handle import StateHandle
    from state.primitives.layout import Header


class KnownCollection(Cell):
    """The elements of one key, as far as they are known."""

    __slots__ = (
        "_floor_ms",
        "_has_unstamped",
        "_is_wiped",
        "_own_count",
        "_shared",
        "_shared_ms",
        "_start",
        "_stored",
        "_was_spread",
        "size",
    )
    _handle: StateHandle[Any]

    def __init__(self, key: bytes, key_group: int) -> None:
        super().__init__(key, key_group)
        self.size = 0
        """How many elements there are now, known or not."""
        self._stored: bytes | None = None
        """The stored text: a packed collection or a header."""
        self._was_spread = False
        self._is_wiped = False
        """Whether everything that was stored goes."""
        self._floor_ms: int | None = None
        """At most the oldest stamp of what is not known; what else it covers, the kind says."""
        self._has_unstamped = False
        """Whether clean-up saw that stored elements have no stamp."""
        self._shared = b""
        """The stamp of elements that have none of their own, the oldest one; empty: there is none.
        A collection that is spread, or not known whole, has none."""
        self._shared_ms = 0
        """The same as a number, where there is one."""
        self._own_count = 0
        """How many elements have a stamp of their own, where one is shared."""
        self._start: int | None = None
        """What `plain_start` gives; None before it was asked for."""

    @abstractmethod
    def _is_whole(self) -> bool:
        """Whether all elements are known."""

    @abstractmethod
    def _know_all(self) -> None:
        """Take it that nothing else is stored."""

    @abstractmethod
    def _take_header(self, header: Header) -> None:
        """Take what the kind needs of a spread collection's header."""

    @abstractmethod
    def _take_lines(self, header: Header, lines: list[bytes]) -> None:
        """Take all elements of a packed collection."""

    @abstractmethod
    def _texts(self) -> Collection[bytes]:
        """Known elements, as they are stored."""

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
            self._know_all()
            self._share_now()
        else:
            self._load(text)
        self._stored = text
        self.is_loaded = True

    def _load(self, text: bytes) -> None:
        header, lines = read_collection(text)
        if header.is_spread:
            self._was_spread = True
            self.size = header.size
            self._floor_ms = self.indexed_ms = header.oldest_ms
            self._take_header(header)
            return
        self.size = len(lines)
        self._take_lines(header, lines)
        self._know_all()
        if header.oldest_ms is not None:
            self.indexed_ms = self._shared_ms = header.oldest_ms
            self._shared, self._own_count = header.shared, header.own_count

    def _share_now(self) -> None:
        """Where nothing is stored, or no more: let all that is added share the stamp of now."""
        handle = self._handle
        self._shared, self._own_count = b"", 0
        if handle.has_usual_stamps and handle.stamp_ms is not None:
            self._shared, self._shared_ms = handle.stamp_text, handle.stamp_ms

    @property
    def has_shared(self) -> bool:
        """Whether an element has the stamp that is shared."""
        return self._shared != b"" and self._own_count < self.size

    @property
    def stays_indexed(self) -> bool:
        """Whether its oldest stamp is the one that it was loaded with, so that the index knows."""
        return (
            self._shared_ms == self.indexed_ms
            and self._shared != b""
            and self._own_count < self.size
            and not self.is_due
        )

    def plain_start(self) -> int:
        """Where the JSON of all elements begins, if all are known and read as they are.

        -1 where a rule of TTL may concern one of them, or it begins elsewhere in some: then each
        must be looked at.
        """
        if self._start is None:
            self._start = self._judged() if self._is_whole() else -1
        return self._start

    def _judged(self) -> int:
        handle = self._handle
        if not handle.may_have_stamps:
            return 0
        if self._shared:
            return -1 if self._own_count or not handle.is_plain_head(self._shared) else 0
        return handle.plain_from(self._texts())
