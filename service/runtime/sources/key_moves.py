"""Updates that move a row to another primary key: a -D of one key, and a +I of another.

A consumer that knows a row's key asks for no -U, since the +U tells what it replaces. That is so
only if both have one key. So of a block of changes

    -U (1, a)  +U (1, b)    stays
    -U (1, a)  +U (2, a)    becomes  -D (1, a)  +I (2, a)
    -U (1, a)               becomes  -D (1, a), with its +U in another block, or nowhere

and updates that follow each other over the same keys, as of `SET id = id + 1`, do not take back
what the one before them has put: where a row comes to a key that another row has not left yet, the
other one goes first.

    -U (1, a)  +U (2, a)  -U (2, b)  +U (1, b)
        becomes  -U (1, a)  -U (2, b)  +U (2, a)  +U (1, b),  an update of each key

What one changelog says as a table, the other says, too; and what it says of each key is in order.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.changelog import RowKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Changes of a block of lines, in columns."""

    kinds: NDArray[np.int8]
    lines: NDArray[np.int64]
    """The line of each, growing."""
    columns: Sequence[pa.Array]


class KeyMoves:
    """Finds updates that move a row, in the changes of one table.

    Args:
        key: Places of the primary key's columns; empty where nobody knows rows by it.
        with_before: Whether the table has -U; else those that did not move a row are left out.
    """

    def __init__(self, key: Sequence[int], *, with_before: bool) -> None:
        self._key = tuple(key)
        self._with_before = with_before

    def settled(self, rows: ChangeRows) -> ChangeRows:
        """The changes with updates within a key alone."""
        before = np.flatnonzero(rows.kinds == RowKind.UPDATE_BEFORE)
        if not self._key or not before.size:
            return rows
        follows = before[before + 1 < rows.kinds.size]
        follows = follows[rows.kinds[follows + 1] == RowKind.UPDATE_AFTER]
        stays = self._key_codes(rows, np.concatenate((follows, follows + 1))).reshape(2, -1)
        moves = np.setdiff1d(before, follows[stays[0] == stays[1]])
        if moves.size:
            rows = self._moved(rows, moves)
        return rows if self._with_before else _without(rows, RowKind.UPDATE_BEFORE)

    def _key_codes(self, rows: ChangeRows, at: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers that are equal where keys are."""
        numbers: dict[tuple[str | None, ...], int] = {}
        keys = _values([rows.columns[each] for each in self._key], at)
        return np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)

    def _moved(self, rows: ChangeRows, moves: NDArray[np.int64]) -> ChangeRows:
        """The changes, where some -U are of another key than what follows them."""
        codes = self._key_codes(rows, np.arange(rows.kinds.size))
        behind = np.setdiff1d(moves + 1, [rows.kinds.size])
        arrived = behind[rows.kinds[behind] == RowKind.UPDATE_AFTER]
        concerned = np.flatnonzero(np.isin(codes, codes[np.concatenate((moves, arrived))]))
        texts = dict(zip(concerned.tolist(), _values(rows.columns, concerned), strict=True))
        by_key = defaultdict(list)
        for at in concerned.tolist():
            by_key[codes[at]].append(at)
        kinds, order = rows.kinds.copy(), np.arange(rows.kinds.size)
        leaving, arriving = set(moves.tolist()), set(arrived.tolist())
        for slots in by_key.values():
            placed = _in_order(slots, rows.kinds, texts, leaving)
            order[slots] = placed
            kinds[slots] = _kinds_of(placed, rows.kinds, arriving)
        taken = [each.take(pa.array(order)) for each in rows.columns]
        return ChangeRows(kinds, rows.lines, taken)


def _in_order(
    changes: Sequence[int],
    kinds: NDArray[np.int8],
    texts: dict[int, tuple[str | None, ...]],
    leaving: set[int],
) -> list[int]:
    """A key's changes, such that a row that leaves goes before one that came too early."""

    def came_early(other: int, change: int) -> bool:
        # What is not said of a row that leaves may be anything: some databases tell its key alone.
        pairs = zip(texts[change], texts[other], strict=True)
        return not kinds[other] & 1 and any(was not in (None, now) for was, now in pairs)

    placed: list[int] = []
    for change in changes:
        at = len(placed)
        if change in leaving:
            while at and came_early(placed[at - 1], change):
                at -= 1
        placed.insert(at, change)
    return placed


def _kinds_of(placed: Sequence[int], kinds: NDArray[np.int8], arriving: set[int]) -> list[int]:
    """Kinds of a key's changes in order: a -U stands before a +U, and nowhere else."""
    found = [int(kinds[each]) for each in placed]
    was = [None, *found[:-1]]
    then = [*found[1:], None]
    for at, change in enumerate(placed):
        if found[at] == RowKind.UPDATE_BEFORE and then[at] != RowKind.UPDATE_AFTER:
            found[at] = RowKind.DELETE
        elif change in arriving and was[at] != RowKind.UPDATE_BEFORE:
            found[at] = RowKind.INSERT
    return found


def _values(columns: Sequence[pa.Array], at: NDArray[np.int64]) -> list[tuple[str | None, ...]]:
    """The values of these rows as texts; equal values have equal texts."""
    # NaN is equal to itself here, and 0.0 is not -0.0.
    values = [
        [None if each is None else repr(each) for each in column.take(pa.array(at)).to_pylist()]
        for column in columns
    ]
    return list(zip(*values, strict=True))


def _without(rows: ChangeRows, kind: RowKind) -> ChangeRows:
    keep = rows.kinds != kind
    columns = [each.filter(pa.array(keep)) for each in rows.columns]
    return ChangeRows(rows.kinds[keep], rows.lines[keep], columns)
