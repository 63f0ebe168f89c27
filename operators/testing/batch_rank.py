"""What ranks and deduplications mean, from the whole of what came so far.

Nothing is shared with the operators: rows live in lists, and are sorted anew at each question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.testing.batch import comparable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from operators.changelog import Change, Row


class LiveRows:
    """The rows of each key that were not taken back, in the order of their arrival.

    Args:
        key: Columns of the key.
        takes_newest: Of equal rows a retraction takes the newest, else the oldest.
    """

    def __init__(self, key: Sequence[int], *, takes_newest: bool = False) -> None:
        self._key = tuple(key)
        self._takes_newest = takes_newest
        self.keys: dict[object, list[Row]] = {}
        self.orphans = 0
        """Retractions that matched nothing."""

    def apply(self, change: Change) -> None:
        """Add a row, or take one back."""
        key = comparable(tuple(change.row[at] for at in self._key))
        rows = self.keys.setdefault(key, [])
        if not change.kind.is_retraction:
            rows.append(change.row)
        else:
            self._take(rows, comparable(change.row))
        if not rows:
            del self.keys[key]

    def _take(self, rows: list[Row], wanted: object) -> None:
        places = [at for at, row in enumerate(rows) if comparable(row) == wanted]
        if places:
            del rows[places[-1 if self._takes_newest else 0]]
        else:
            self.orphans += 1


def live_rows(
    changes: Iterable[Change],
    key: Sequence[int],
    **options: Any,  # of `LiveRows`, which names and checks them
) -> list[list[Row]]:
    """The rows of each key that were not taken back, in the order of their arrival."""
    live = LiveRows(key, **options)
    for change in changes:
        live.apply(change)
    return list(live.keys.values())


def newest_versions(changes: Iterable[Change], unique_key: Sequence[int]) -> list[Row]:
    """The last row of each unique key, in the order in which they came."""
    found: dict[object, Row] = {}
    for change in changes:
        identity = comparable(tuple(change.row[at] for at in unique_key))
        found.pop(identity, None)
        found[identity] = change.row
    return list(found.values())


def by_columns(*columns: tuple[int, bool, bool]) -> Callable[[Row], tuple[Any, ...]]:
    """The sort key of rows by columns of integers or nulls: (column, descending, nulls last)."""

    def parts(row: Row) -> Iterator[Any]:
        for column, descending, nulls_last in columns:
            value: Any = row[column]  # of a type that has an order, which the plan has seen to
            if value is None:
                yield (1 if nulls_last else -1), 0
            else:
                yield 0, -value if descending else value

    return lambda row: tuple(parts(row))


def ranked(
    keys: Iterable[list[Row]],
    order: Callable[[Row], tuple[Any, ...]],
    *,
    start: int = 1,
    end: int | None = None,
    with_number: bool = False,
) -> list[Row]:
    """The rows whose row number lies in the range; of equal sort keys the first stands first."""
    shown: list[Row] = []
    for rows in keys:
        for rank, row in enumerate(sorted(rows, key=order), 1):
            if rank >= start and (end is None or rank <= end):
                shown.append((*row, rank) if with_number else row)
    return shown
