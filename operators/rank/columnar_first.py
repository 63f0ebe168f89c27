"""The first rows of each key by arrival, over all changes of an epoch at once.

What is emitted, and what is stored, is what `FirstN` defines, change by change. Keys with
retractions, which are orphans, are left to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa

from operators.arrow_columns import of_types
from operators.batch import ChangeBatch
from operators.changelog import RowKind
from operators.keyed_columns import DoneOnColumns
from state.orders import stable_order
from state.types import arrow_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from operators.keyed_columns import KeyedColumns
    from operators.rank.spec import RankSpec
    from state.primitives.value import ValueHandle

    Integers = NDArray[np.int64]

_EVERY = (1 << 62) - 1
"""In place of a last rank: no row has it."""


class ColumnarFirstN:
    """The columnar path of the first rows by arrival; their last rank is no column."""

    def __init__(self, spec: RankSpec) -> None:
        self._start, self._with_number = spec.start, spec.with_number
        self._end = _EVERY if spec.end is None else spec.end
        self._output_types = [arrow_type(each) for each in spec.output.types]

    def open(self, count: ValueHandle[int]) -> None:
        """Take the handle of the state that counts rows, for an epoch."""
        self._count = count

    def run(self, changes: KeyedColumns) -> DoneOnColumns | None:
        """Process an epoch's changes; see `ColumnarPath.run`."""
        changes, left = changes.growing()
        counts = self._counts(changes)
        if counts is None:
            return None
        number = np.arange(changes.key_of.size) - changes.first[changes.key_of]
        rank = counts[changes.key_of] + number + 1
        came = np.bincount(changes.key_of, minlength=counts.size)
        behind = np.minimum(counts + came, self._end)
        written = np.flatnonzero(behind > counts).tolist()
        self._count.write_all_json(
            [changes.keys[at] for at in written], [b"%d" % behind[at] for at in written]
        )
        shown = (rank >= self._start) & (rank <= self._end)
        return DoneOnColumns(self._emitted(changes, changes.row_of[shown], rank[shown]), left)

    def _counts(self, changes: KeyedColumns) -> Integers | None:
        """How many rows of each key came before; None: not all are read."""
        texts = self._count.read_all(changes.keys)
        try:
            counts = orjson.loads(b"[%b]" % b",".join([b"0" if e is None else e for e in texts]))
            if len(counts) == len(texts) and {*map(type, counts)} <= {int}:
                return np.array(counts, np.int64)
        except (ValueError, OverflowError):
            pass
        # The other path says what is wrong with them.
        return None

    def _emitted(self, changes: KeyedColumns, rows: Integers, ranks: Integers) -> ChangeBatch:
        by_row = stable_order(rows, len(changes.batch))
        columns = changes.columns.take(rows[by_row])
        if self._with_number:
            columns.append(pa.array(ranks[by_row]))
        return ChangeBatch(
            tuple(of_types(columns, self._output_types)),
            np.full(rows.size, int(RowKind.INSERT), np.int8),
            changes.batch.order[rows[by_row]],
            np.zeros(rows.size, np.int32),
        )
