"""A key's history as a sequenced multiset, one change at a time: the meaning of the layouts.

The hard question, what is to be seen now, is answered where it is known: each change returns a
report. `kernel` gives the same reports for a whole epoch at once.

Source: FLIP-544 (Flink SequencedMultiSetState, StateChangeInfo), with FLINK-39740.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of a history. Row and match columns are canonical bytes."""

    sequence: int
    """Place in the history; given once, never again while the history has entries."""
    match: bytes
    """What a retraction is compared with: the upsert key, or the whole row."""
    row: bytes
    written_ms: int
    """Epoch time at which the row was last put."""


@dataclass(frozen=True, slots=True)
class Added:
    """A row was put."""

    was_empty: bool
    size: int


@dataclass(frozen=True, slots=True)
class NotFound:
    """A retraction matched nothing; nothing changed."""

    size: int


@dataclass(frozen=True, slots=True)
class RemovedAll:
    """The only entry was removed."""


@dataclass(frozen=True, slots=True)
class RemovedLast(Generic[E]):
    """The newest entry was removed; another one is the newest now."""

    now_last: E
    size: int


@dataclass(frozen=True, slots=True)
class RemovedOther:
    """An entry that was not the newest was removed."""

    size: int


Removal = NotFound | RemovedAll | RemovedLast[Entry] | RemovedOther


class SequencedMultiSet(ABC):
    """An ordered multiset of rows, oldest first.

    Of several entries that match, the oldest one is replaced or removed. The kind of a change takes
    no part in matching. Times are epoch times in ms since 1970.
    """

    @abstractmethod
    def append(self, match: bytes, row: bytes, now_ms: int) -> Added:
        """Put a row at the end, even if an equal one is there."""

    @abstractmethod
    def add(self, match: bytes, row: bytes, now_ms: int) -> Added:
        """Put a row in the place of the entry that it matches, else at the end."""

    @abstractmethod
    def remove(self, match: bytes, now_ms: int) -> Removal:
        """Remove the oldest entry that matches."""

    @abstractmethod
    def expire(self, until_ms: int) -> int:
        """Drop entries whose time is at or before this one; how many were dropped."""

    @abstractmethod
    def __iter__(self) -> Iterator[Entry]:
        """The entries, oldest first."""

    @abstractmethod
    def __len__(self) -> int: ...

    def check(self) -> None:
        """Assert what holds between changes: numbers grow, and are below the next one."""
        numbers = [entry.sequence for entry in self]
        assert numbers == sorted(set(numbers)), "sequence numbers do not grow"
        assert len(numbers) == len(self), "size is not the number of entries"
