"""What a watermark-compacting materializer means, as a plain function of its input.

Nothing is cancelled as it comes: for each stamp the equal rows are paired off afterwards, from the
record of what came. It shares nothing with the operator but the words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.changelog import Change, Row, RowKind
from operators.errors import PrimaryKeyConflict
from operators.testing.batch import comparable

if TYPE_CHECKING:
    from collections.abc import Sequence


class CompactedView:
    """What is emitted when the watermark passes, key by key.

    Args:
        key: Columns of the primary key.
        upsert_key: Columns that say which row a change is about; empty: all.
        keeps_first: DO NOTHING; else DO ERROR.
    """

    def __init__(self, key: Sequence[int], upsert_key: Sequence[int], *, keeps_first: bool) -> None:
        self._key, self._upsert_key, self._keeps_first = tuple(key), tuple(upsert_key), keeps_first
        self._came: dict[object, list[tuple[int, Change]]] = {}
        self._shown: dict[object, Row] = {}

    def put(self, change: Change, stamp: int) -> None:
        """A change comes."""
        key = comparable(tuple(change.row[at] for at in self._key))
        self._came.setdefault(key, []).append((stamp, change))

    def advance(self, watermark_ms: int) -> list[Change]:
        """The watermark moves on.

        Raises:
            PrimaryKeyConflict: There is one.
        """
        emitted: list[Change] = []
        for key, came in self._came.items():
            for stamp in sorted({stamp for stamp, _ in came if stamp < watermark_ms}):
                mine = [change for at, change in came if at == stamp]
                emitted += self._compact(key, _without_pairs(mine))
        self._came = {
            key: [each for each in came if each[0] >= watermark_ms]
            for key, came in self._came.items()
        }
        return emitted

    def _compact(self, key: object, changes: Sequence[Change]) -> list[Change]:
        shown = self._shown.get(key)
        rows = [] if shown is None else [shown]
        for change in changes:
            same = [at for at, row in enumerate(rows) if self._is_about(change, row)]
            if change.kind.is_retraction:
                rows = rows[: same[0]] + rows[same[0] + 1 :] if same else rows
            elif self._upsert_key and same:
                rows[same[0]] = change.row
            else:
                rows.append(change.row)
        if len(rows) > 1:
            if not self._keeps_first:
                raise PrimaryKeyConflict([str(at) for at in self._key])
            rows = rows[:1] if shown is None else [shown]
        if not rows:
            self._shown.pop(key, None)
            return [] if shown is None else [Change(RowKind.DELETE, shown)]
        self._shown[key] = rows[0]
        if shown is None:
            return [Change(RowKind.INSERT, rows[0])]
        is_same = comparable(rows[0]) == comparable(shown)
        return [] if is_same else [Change(RowKind.UPDATE_AFTER, rows[0])]

    def _is_about(self, change: Change, row: Row) -> bool:
        columns = self._upsert_key or range(len(row))
        one = tuple(change.row[at] for at in columns)
        return comparable(one) == comparable(tuple(row[at] for at in columns))


def _without_pairs(changes: Sequence[Change]) -> list[Change]:
    """The changes without additions and retractions of equal rows, the oldest paired first."""
    left: list[Change] = []
    for change in changes:
        for at, other in enumerate(left):
            if (
                comparable(other.row) == comparable(change.row)
                and other.kind.is_retraction != change.kind.is_retraction
            ):
                del left[at]
                break
        else:
            left.append(change)
    return left
