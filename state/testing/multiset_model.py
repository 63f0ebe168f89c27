"""What a sequenced multiset with TTL means: a list of entries, no layouts, no index, no cache."""

# ruff: noqa: D102 - a model's operations are those of the handle

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from state.multiset.interface import Added, NotFound, RemovedAll, RemovedLast, RemovedOther
from state.primitives.multisets import SequencedRow
from state.ttl import DISABLED, TimeCharacteristic, TtlConfig, UpdateType, Visibility

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass
class Held:
    """An entry."""

    sequence: int
    row: object
    ms: int


@dataclass
class MultisetModel:
    """The history of one key."""

    match: Callable[[Any], Any]
    config: TtlConfig = DISABLED
    now_ms: int = 0
    event_ms: int | None = None
    held: list[Held] = field(default_factory=list)
    following: int = 1

    def is_expired(self, entry: Held) -> bool:
        is_on = self.config.update is not UpdateType.DISABLED
        return is_on and entry.ms + self.config.ttl_ms <= self.now_ms

    def drop(self, entries: Sequence[Held]) -> None:
        self.held = [each for each in self.held if each not in entries]
        if not self.held:
            self.following = 1

    def drop_expired(self) -> None:
        self.drop([each for each in self.held if self.is_expired(each)])

    def add(self, row: object) -> Added:
        self._begin()
        found = self._found(row)
        if found is None:
            return self._append(row)
        keeps = self.config.update is UpdateType.ON_CREATE and not self.is_expired(found)
        found.row = row
        found.ms = found.ms if keeps else self._stamp()
        return Added(was_empty=False, size=len(self.held))

    def append(self, row: object) -> Added:
        self._begin()
        return self._append(row)

    def remove(self, row: object) -> Any:
        self._begin()
        found = self._found(row)
        if found is None:
            return NotFound(len(self.held))
        was_last = found is self.held[-1]
        self.drop([found])
        if not self.held:
            return RemovedAll()
        if not was_last:
            return RemovedOther(len(self.held))
        return RemovedLast(_sequenced(self.held[-1]), len(self.held))

    def find(self, row: object) -> Any:
        self._begin()
        return self._shown(self._found(row))

    def first(self) -> Any:
        self._begin()
        return self._shown(self.held[0] if self.held else None)

    def last(self) -> Any:
        self._begin()
        return self._shown(self.held[-1] if self.held else None)

    def entry_before(self, sequence: int) -> Any:
        self._begin()
        below = [each for each in self.held if each.sequence < sequence]
        return self._shown(below[-1] if below else None)

    def entry_after(self, sequence: int) -> Any:
        self._begin()
        above = [each for each in self.held if each.sequence > sequence]
        return self._shown(above[0] if above else None)

    def entries(self) -> Any:
        self._begin()
        return [self._shown(each) for each in list(self.held)]

    def size(self) -> int:
        self._begin()
        return len(self.held)

    def is_empty(self) -> bool:
        self._begin()
        return not self.held

    def clear(self) -> None:
        self.drop(self.held)

    def _begin(self) -> None:
        if self.config.visibility is Visibility.NEVER_RETURN_EXPIRED:
            self.drop_expired()

    def _found(self, row: object) -> Held | None:
        wanted = self.match(row)
        return next((each for each in self.held if self.match(each.row) == wanted), None)

    def _append(self, row: object) -> Added:
        was_empty = not self.held
        self.held.append(Held(self.following, row, self._stamp()))
        self.following += 1
        return Added(was_empty, len(self.held))

    def _stamp(self) -> int:
        is_event = self.config.time is not TimeCharacteristic.PROCESSING
        return self.event_ms if is_event and self.event_ms is not None else self.now_ms

    def _shown(self, entry: Held | None) -> Any:
        if entry is None:
            return None
        shown = _sequenced(entry)
        if self.is_expired(entry):
            self.drop([entry])
        elif self.config.update is UpdateType.ON_READ_AND_WRITE:
            entry.ms = max(entry.ms, self._stamp())
        return shown


def _sequenced(entry: Held) -> SequencedRow[Any]:
    return SequencedRow(entry.sequence, entry.row, entry.ms)
