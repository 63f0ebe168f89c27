"""What a savepoint leaves out: elements that are past their life, side structures included.

What remains is stored as a clean-up would have stored it, but in the layout that it had. The rules
are those of `state.ttl`; an entry of a history counts from the time of its write, or, where LEGACY
keeps it, the whole history from that of its last write.

Two things must not be forgotten with an entry. That the sink shows it, if it does: the header then
says that what is shown is gone. And where expiry itself is emitted (`emit_expired`), nothing may be
left out: what is owed to the sink would be.

Source: Flink's `cleanupFullSnapshot` drops what is expired from savepoints in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from state.multiset.text import GONE, NEWEST, Header
from state.primitives.layout import (
    own_stamps,
    packed_text,
    read_collection,
    shared,
    shared_text,
)
from state.primitives.multiset_text import read_header, read_lines, write_lines
from state.ttl import oldest_stamp, stamp_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.ttl import TtlClock, TtlRules

PLAIN: Final = frozenset({"value", "reducing", "aggregating"})
HISTORIES: Final = frozenset({"multiset", "history"})


class Expiry(Enum):
    """How what a node keeps in histories expires."""

    ENTRY = "entry"
    """Each entry for itself."""
    WHOLE = "whole"
    """Packed histories as a whole, by their last write: LEGACY."""
    EMITTED = "emitted"
    """It is emitted, so no savepoint leaves it out."""


class Kept(NamedTuple):
    """A stored value without what is expired."""

    text: bytes
    oldest_ms: int | None
    """What its key is to have in the expiry index, if it is in there."""


class Lives:
    """Whose life in one state has passed, as of one time; counts what was found expired."""

    def __init__(self, rules: TtlRules, clock: TtlClock | None, expiry: Expiry) -> None:
        """Bind the rules.

        Args:
            rules: Of the state.
            clock: The times that count; None: nothing is left out.
            expiry: How histories of the state's node expire.
        """
        self.is_active = clock is not None and rules.is_enabled and expiry is not Expiry.EMITTED
        self.expired = 0
        self._rules = rules
        self._clock = clock
        self._expiry = expiry

    def is_over(self, stamp_ms: int | None) -> bool:
        """Whether an element with this stamp, or without one, is past its life."""
        clock = self._clock
        return self.is_active and clock is not None and self._rules.is_expired(stamp_ms, clock)

    def may_lack(self, oldest_ms: int | None) -> bool:
        """Whether anything of a key may be expired, by its score in the expiry index."""
        if not self.is_active:
            return False
        return oldest_ms is None or self.is_over(oldest_ms) or self.is_over(None)

    def packed(self, kind: str, text: bytes, oldest_ms: int | None) -> Kept | None:
        """What remains of a packed value; None if nothing does.

        A score by which the key is due becomes that of what remains, as a clean-up would leave it.

        Raises:
            StateCorrupt, FormatVersionMismatch: It cannot be read.
        """
        is_due = oldest_ms is not None and self.is_over(oldest_ms)
        if kind in PLAIN:
            if not self.is_over(stamp_of(text)):
                return Kept(text, stamp_of(text) if is_due else oldest_ms)
            self.expired += 1
            return None
        if kind in HISTORIES:
            left = self._history(text, oldest_ms)
            if left is None or not is_due or kind == "history":
                return left
            first, *lines = left.text.split(b"\n")
            entries = read_lines(lines, read_header(first).following)
            return left._replace(oldest_ms=min(ms for ms, _ in entries.values()))
        header, lines = read_collection(text)
        lines = own_stamps(header, lines, b"\n" if kind == "list" else b"\t")
        kept = [each for each in lines if not self.is_over(stamp_of(element_of(kind, each)))]
        if len(kept) == len(lines):
            stored = [element_of(kind, each) for each in lines] if is_due else ()
            return Kept(text, oldest_stamp(stored) if is_due else oldest_ms)
        self.expired += len(lines) - len(kept)
        if not kept:
            return None
        oldest = oldest_stamp([element_of(kind, each) for each in kept])
        return Kept(_packed(kind, header.next_number, kept), oldest)

    def entries(self, lines: Sequence[bytes], following: int) -> tuple[list[bytes], list[int], int]:
        """Entries that are past their life among those of a packed history or a block.

        Args:
            lines: Of the entries.
            following: The history's next sequence number.

        Returns:
            Lines of those that remain, numbers of those that do not, and the newest number of all.

        Raises:
            StateCorrupt: A line is none.
        """
        kept, gone, newest = [], [], 0
        for line, (number, (ms, _)) in zip(
            lines, read_lines(lines, following).items(), strict=True
        ):
            newest = number
            if self.is_over(ms):
                gone.append(number)
            else:
                kept.append(line)
        self.expired += len(gone)
        return kept, gone, newest

    def _history(self, text: bytes, oldest_ms: int | None) -> Kept | None:
        first, *lines = text.split(b"\n")
        header = read_header(first)
        if header.written_ms is not None or self._expiry is Expiry.WHOLE:
            times = [ms for ms, _ in read_lines(lines, header.following).values()]
            if not self.is_over(max(times) if header.written_ms is None else header.written_ms):
                return Kept(text, oldest_ms)
            self.expired += len(lines)
            return None
        kept, gone, newest = self.entries(lines, header.following)
        if not gone:
            return Kept(text, oldest_ms)
        if not kept:
            return None
        now = shown_after(header, set(gone), newest)
        entries = read_lines(kept, header.following)
        # Times of entries are there without a TTL, too: only what was indexed stays indexed.
        oldest = min(ms for ms, _ in entries.values()) if oldest_ms is not None else None
        return Kept(write_lines(now.format(), entries.items()), oldest)


def _packed(kind: str, next_number: int, lines: Sequence[bytes]) -> bytes:
    """A packed collection of lines in which each element has the stamp that it has."""
    elements = [element_of(kind, each) for each in lines]
    found = shared(elements)
    if found is None:
        return packed_text(next_number, lines)
    oldest_ms, own_count, without = found
    again = [
        line.removesuffix(element) + short
        for line, element, short in zip(lines, elements, without, strict=True)
    ]
    return shared_text(len(lines), next_number, oldest_ms, own_count, again)


def element_of(kind: str, line: bytes) -> bytes:
    """The stored element in a line of a packed collection, or in a member of a spread sorted map.

    >>> element_of("list", b"@5 1"), element_of("map", b'"a"' + bytes([9]) + b"@5 1")
    (b'@5 1', b'@5 1')
    """
    return line if kind == "list" else line.partition(b"\t")[2]


def shown_after(header: Header, gone: set[int], newest: int) -> Header:
    """A history's header when entries are gone: what the sink shows may be one of them.

    Args:
        header: As it is stored.
        gone: Sequence numbers of the entries that are left out.
        newest: That of the newest entry before.
    """
    shown = newest if header.shown == NEWEST else header.shown
    size = None if header.size is None else header.size - len(gone)
    is_gone = shown in gone
    return replace(header, shown=GONE if is_gone else header.shown, size=size)
