"""A partition's rows put together as they arrive: changes in order, control rows apart.

Rows come in batches of some thousand, most of which hold changes only, in runs that ascend by order
number: what one task before the exchange sent. So control rows are set apart batch by batch, and
the runs are put in their order before they become whole columns; then nothing is left to be sorted,
and no row is copied twice. Where runs overlap, changes stay as they arrived: whoever reads them
sorts them anyway, and what comes of them does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.wire import CONTROL_MINIMUM, KIND, ORDER

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

_RUNS_MAX = 4
"""Where a batch has more runs than this, its rows are in no order that would be worth keeping."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """The rows of a partition."""

    changes: pa.Table
    """One chunk a column, or none."""
    control: pa.Table


def gather(batches: Iterable[pa.RecordBatch]) -> Gathered | None:
    """Put rows together; None if there are none.

    Args:
        batches: Wire columns, among others; batches without rows are passed over.
    """
    changes: list[pa.RecordBatch] = []
    control: list[pa.RecordBatch] = []
    schema = None
    for each in batches:
        if not each.num_rows:
            continue
        schema = each.schema
        is_control = np.asarray(each.column(KIND)) >= CONTROL_MINIMUM
        if is_control.any():
            control.append(each.filter(pa.array(is_control)))
            each = each.filter(pa.array(~is_control))
        if each.num_rows:
            changes.append(each)
    if schema is None:
        return None
    return Gathered(whole(in_order(changes), schema), pa.Table.from_batches(control, schema))


def whole(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Batches as one table, a chunk for each column; one batch is not copied."""
    table = pa.Table.from_batches(batches, schema)
    return table if len(batches) < 2 else table.combine_chunks()


def in_order(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Batches, cut where need be, in the order of their order numbers; as they are if they overlap.

    Nothing is copied.
    """
    pieces: list[tuple[int, int, pa.RecordBatch]] = []
    for each in batches:
        order = np.asarray(each.column(ORDER))
        cuts = _descents(order)
        if cuts.size >= _RUNS_MAX:
            return list(batches)
        ends = [*cuts.tolist(), len(order)]
        low = 0
        for high in ends:
            pieces.append((int(order[low]), int(order[high - 1]), each.slice(low, high - low)))
            low = high
    pieces.sort(key=lambda piece: piece[0])
    if any(left[1] >= right[0] for left, right in pairwise(pieces)):
        return list(batches)
    return [piece for _, _, piece in pieces]


def _descents(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where a number is below the one before it."""
    found: NDArray[np.int64] = (order[1:] < order[:-1]).nonzero()[0] + 1
    return found
