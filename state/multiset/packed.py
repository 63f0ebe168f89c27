"""The packed history, one change at a time: a list. Every change costs the length of the history.

This is the reference that the kernel is held to by tests. Its entries are those of the packed
layout, which `text` reads and writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from state.multiset.interface import (
    Added,
    Entry,
    NotFound,
    Removal,
    RemovedAll,
    RemovedLast,
    RemovedOther,
    SequencedMultiSet,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class PackedMultiSet(SequencedMultiSet):
    """A list of entries, searched from the oldest.

    Args:
        entries: What the history holds, oldest first.
        following: The next sequence number.
        whole: Time to live counts for the history as a whole, from its last write (strategy
            LEGACY), instead of for each entry from its own.
        written_ms: With `whole`: when the history was last written.
    """

    __slots__ = ("_entries", "_following", "_whole", "_written_ms")

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        following: int = 1,
        *,
        whole: bool = False,
        written_ms: int = 0,
    ) -> None:
        self._entries = list(entries)
        self._following = following
        self._whole = whole
        self._written_ms = written_ms

    @property
    def following(self) -> int:
        """The next sequence number."""
        return self._following

    def append(self, match: bytes, row: bytes, now_ms: int) -> Added:
        """Put a row at the end, even if an equal one is there."""
        was_empty = not self._entries
        self._entries.append(Entry(self._following, match, row, now_ms))
        self._following += 1
        self._written_ms = now_ms
        return Added(was_empty, len(self._entries))

    def add(self, match: bytes, row: bytes, now_ms: int) -> Added:
        """Put a row in the place of the entry that it matches, else at the end."""
        index = self._find(match)
        if index is None:
            return self.append(match, row, now_ms)
        self._entries[index] = replace(self._entries[index], row=row, written_ms=now_ms)
        self._written_ms = now_ms
        return Added(was_empty=False, size=len(self._entries))

    def remove(self, match: bytes, now_ms: int) -> Removal:
        """Remove the oldest entry that matches."""
        index = self._find(match)
        if index is None:
            return NotFound(len(self._entries))
        del self._entries[index]
        self._written_ms = now_ms
        size = len(self._entries)
        if not size:
            self._following = 1
            return RemovedAll()
        if index == size:
            return RemovedLast(self._entries[-1], size)
        return RemovedOther(size)

    def expire(self, until_ms: int) -> int:
        """Drop entries whose time is at or before this one; how many were dropped."""
        before = len(self._entries)
        if self._whole:
            if self._written_ms <= until_ms:
                self._entries.clear()
        else:
            self._entries = [each for each in self._entries if each.written_ms > until_ms]
        if not self._entries:
            self._following = 1
        return before - len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def check(self) -> None:
        """Assert what holds between changes."""
        super().check()
        assert all(entry.sequence < self._following for entry in self), "a number will be reused"

    def _find(self, match: bytes) -> int | None:
        return next((i for i, each in enumerate(self._entries) if each.match == match), None)
