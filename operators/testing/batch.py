"""What operators mean, as plain functions of the ordered input: no state, no epochs, no bytes.

They share nothing with the operators but the words: a bug that two paths of an operator share is
seen here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from operators.changelog import Change, Row, RowKind

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(slots=True)
class _Entry:
    row: Row
    written_ms: int


class UpsertView:
    """What an upsert materializer must emit and keep, one change after the other.

    Args:
        key: Columns of the primary key.
        upsert_key: Columns that say which row a change is about; None or empty: all.
        ttl_ms: A row lives so long after it was last put; 0 is for ever.
        whole: Rows of a key live and expire together, from the key's last write (LEGACY).
    """

    def __init__(
        self,
        key: Sequence[int],
        upsert_key: Sequence[int] | None,
        *,
        ttl_ms: int = 0,
        whole: bool = False,
    ) -> None:
        self._key = tuple(key)
        self._upsert_key = tuple(upsert_key or ())
        self._ttl_ms = ttl_ms
        self._whole = whole
        self._histories: dict[object, list[_Entry]] = {}
        self.orphans = 0
        """Retractions that matched nothing."""

    def apply(self, change: Change, now_ms: int = 0) -> Change | None:
        """The change that is emitted for this one, if any."""
        key = comparable(tuple(change.row[column] for column in self._key))
        history = self._live(key, now_ms)
        emitted = self._apply(history, change, now_ms)
        if history:
            self._histories[key] = history
        else:
            self._histories.pop(key, None)
        return emitted

    def histories(self, now_ms: int = 0) -> list[list[Row]]:
        """Live rows of each key that has some, oldest first."""
        live = [self._live(key, now_ms) for key in self._histories]
        return [[entry.row for entry in history] for history in live if history]

    def _live(self, key: object, now_ms: int) -> list[_Entry]:
        history = self._histories.get(key, [])
        if not self._ttl_ms:
            return history
        if self._whole:
            latest = max((entry.written_ms for entry in history), default=0)
            return history if latest + self._ttl_ms > now_ms else []
        return [entry for entry in history if entry.written_ms + self._ttl_ms > now_ms]

    def _apply(self, history: list[_Entry], change: Change, now_ms: int) -> Change | None:
        place = self._find(history, change.row)
        if not change.kind.is_retraction:
            kind = RowKind.UPDATE_AFTER if history else RowKind.INSERT
            if self._upsert_key and place is not None:
                history[place] = _Entry(change.row, now_ms)
            else:
                history.append(_Entry(change.row, now_ms))
            self._touch(history, now_ms)
            return Change(kind, change.row)
        if place is None:
            self.orphans += 1
            return None
        was_newest = place == len(history) - 1
        del history[place]
        self._touch(history, now_ms)
        if not history:
            return Change(RowKind.DELETE, change.row)
        return Change(RowKind.UPDATE_AFTER, history[-1].row) if was_newest else None

    def _touch(self, history: list[_Entry], now_ms: int) -> None:
        if self._whole:
            for entry in history:
                entry.written_ms = now_ms

    def _find(self, history: list[_Entry], row: Row) -> int | None:
        wanted = self._identity(row)
        for place, entry in enumerate(history):
            if self._identity(entry.row) == wanted:
                return place
        return None

    def _identity(self, row: Row) -> object:
        chosen = tuple(row[column] for column in self._upsert_key) if self._upsert_key else row
        return comparable(chosen)


def comparable(row: Row) -> object:
    """Something that is equal for equal rows: NaN is NaN, 0.0 is not -0.0, 1 is not 1.0 or True."""
    return tuple(_comparable(value) for value in row)


def _comparable(value: object) -> object:
    if isinstance(value, float):
        return ("float", "nan" if math.isnan(value) else (value, math.copysign(1.0, value)))
    if isinstance(value, tuple | list):
        return ("list", *(_comparable(each) for each in value))
    return (type(value).__name__, value)
