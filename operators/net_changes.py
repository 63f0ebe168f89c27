"""What an epoch's emissions come to: at most one change for each key.

A sink that is written once an epoch need not see what happened in between. Of a key's emissions in
an epoch the first tells whether the sink had a row of it before (+I: it had none), the last whether
it has one after:

    before   after    instead of all
    none     a row    +I of the last row
    a row    a row    +U of the last row
    a row    none     -D, as the last one has it
    none     none     nothing

The table that a sink ends with is the same; only the way there is shorter. Where rows expire and
the sink is not told, it may have a row although the first emission is +I: then "none, none" is -D.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.batch import ChangeBatch
from operators.changelog import RowKind
from operators.codes import dense
from operators.columnar import Columns
from state.orders import stable_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.types import LogicalType


def net_changes(
    batch: ChangeBatch,
    types: Sequence[LogicalType],
    key: Sequence[int],
    *,
    forgets: bool = False,
) -> ChangeBatch:
    """The net changes of an epoch.

    Args:
        batch: Emissions of an upsert changelog (+I +U -D) by order.
        types: Of its columns.
        key: The columns that tell rows of the sink apart.
        forgets: Whether rows expire without the sink being told.

    Returns:
        At most one change for each key, in the order of their last emissions.
    """
    count = len(batch)
    if count < 2:
        return batch
    codes = dense(Columns(batch.columns, types).codes(key))
    by_key = stable_order(codes.values, codes.bound)
    ordered = codes.values[by_key]
    border = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    first = by_key[np.concatenate([[0], border])]
    last = by_key[np.concatenate([border - 1, [count - 1]])]
    had = batch.kinds[first] != RowKind.INSERT
    has = batch.kinds[last] != RowKind.DELETE
    kinds = np.where(has, np.where(had, RowKind.UPDATE_AFTER, RowKind.INSERT), RowKind.DELETE)
    kept = had | has | forgets
    last, kinds = last[kept], kinds[kept].astype(np.int8)
    by_order = np.argsort(last)
    rows = last[by_order]
    places = pa.array(rows)
    return ChangeBatch(
        columns=tuple(column.take(places) for column in batch.columns),
        kinds=kinds[by_order],
        order=batch.order[rows],
        key_groups=batch.key_groups[rows],
    )
