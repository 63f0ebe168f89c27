"""Operators that keep one row of each key, on columns: what their changes emit.

Such an operator puts a row in the place of another, or takes it away:

    before   after   emitted
    none     b       +I b
    a        b       -U a  +U b
    a        none    -D a

The rows of an epoch and those that state keeps are put into one set of columns, so that a row is a
position, wherever it comes from. What is stored of it stays text until it must be emitted, or
compared; then all are read in one go.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, Final

import numpy as np

from operators.arrow_columns import joined, of_types
from operators.batch import ChangeBatch
from operators.changelog import RowKind
from operators.columnar import Columns
from state.types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from operators.keyed_columns import KeyedColumns
    from operators.spec import RowSpec

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

NO_ROW: Final = -1
"""In place of a row's position: there is none."""


@dataclass(frozen=True, slots=True)
class KeptRows:
    """The rows of an epoch, and behind them those that state keeps of its keys."""

    columns: Columns
    stored: Integers
    """By key: the position of the row that is kept, or `NO_ROW`."""

    @classmethod
    def of(cls, changes: KeyedColumns, held: Flags, stored: Sequence[pa.Array]) -> KeptRows:
        """The rows of changes and of their keys.

        Args:
            changes: The changes.
            held: By key: whether state keeps a row.
            stored: The rows that are kept, as columns, in the order of their keys.
        """
        positions = np.full(held.size, NO_ROW)
        count = int(held.sum())
        if not count:
            return cls(changes.columns, positions)
        positions[held] = changes.columns.count + np.arange(count)
        arrays = joined(changes.columns.arrays, stored)
        return cls(Columns(arrays, changes.columns.types), positions)

    def before(self, changes: KeyedColumns) -> Integers:
        """By place: the position of the key's row before, where each change puts its own."""
        before = np.empty(changes.row_of.size, np.int64)
        before[1:] = changes.row_of[:-1]
        before[changes.first] = self.stored
        return before


@dataclass(frozen=True, slots=True)
class Replacements:
    """What the changes of an epoch do to the rows of their keys, by place."""

    emits: Flags
    """Whether the change emits."""
    before: Integers
    """The position of the row before it, or `NO_ROW`."""
    after: Integers
    """The position of the row behind it, or `NO_ROW`."""


@dataclass(frozen=True, slots=True)
class RowEmitter:
    """Makes the changes that replacements emit."""

    output: RowSpec
    update_before: bool = True
    """Updates are emitted with what they replace."""
    insert: RowKind = RowKind.INSERT
    """The kind of a row that is not in the place of another."""

    def emitted(
        self, changes: KeyedColumns, columns: Columns, replacements: Replacements
    ) -> ChangeBatch:
        """What the changes emit, by rank.

        Args:
            changes: The changes.
            columns: The rows.
            replacements: What each change does.
        """
        before, after = replacements.before, replacements.after
        times = replacements.emits.astype(np.int64)
        if self.update_before:
            times += replacements.emits & (before >= 0) & (after >= 0)
        # Rows of the batch are in order: what stands by row is by rank.
        times_of = np.zeros(len(changes.batch), np.int64)
        times_of[changes.row_of] = times
        place_of = np.zeros(len(changes.batch), np.int64)
        place_of[changes.row_of] = np.arange(changes.row_of.size)
        at = np.repeat(place_of, times_of)
        is_before = np.zeros(at.size, np.bool_)
        is_before[:-1] = at[:-1] == at[1:]
        is_delete = after[at] < 0
        kinds = np.where(before[at] < 0, int(self.insert), int(RowKind.UPDATE_AFTER))
        kinds[is_delete] = int(RowKind.DELETE)
        kinds[is_before] = int(RowKind.UPDATE_BEFORE)
        taken = columns.take(np.where(is_before | is_delete, before[at], after[at]))
        types = map(arrow_type, self.output.types)
        return ChangeBatch(
            columns=tuple(of_types(taken, types)),
            kinds=kinds.astype(np.int8),
            order=changes.batch.order[changes.row_of[at]],
            key_groups=np.zeros(at.size, np.int32),
        )


def are_there(found: Sequence[object]) -> Flags:
    """Whether each is something."""
    return np.array([each is not None for each in found], np.bool_)


def chosen(keys: Sequence[bytes], flags: Flags) -> list[bytes]:
    """Those of the keys whose flag is set."""
    return [*compress(keys, flags.tolist())]


def last_places(changes: KeyedColumns, wanted: Flags) -> Integers:
    """By key: the last of the places that are wanted, or -1."""
    places = np.where(wanted, np.arange(wanted.size), -1)
    last: Integers = np.maximum.reduceat(places, changes.first)
    return last
