"""TemporalSort nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.temporal_sort import TemporalSortSpec
from service.runtime.specs.orders import order_of, time_columns

if TYPE_CHECKING:
    from operators.spec import OperatorSpec
    from service.runtime.specs import StatefulNode


def temporal_sort_spec(at: StatefulNode) -> OperatorSpec:
    """A TemporalSort node.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: The order does not begin with a time attribute, ascending.
    """
    row = at.input(0, ())
    order = order_of(at, row)
    rowtimes, proctimes = time_columns(at, "ROWTIME"), time_columns(at, "PROCTIME")
    if not order or order[0].descending or order[0].column not in (*rowtimes, *proctimes):
        raise at.refuse("an order that does not begin with a time, ascending", "orderBy")
    first, *others = order
    return TemporalSortSpec.build(
        inputs=(row,),
        rowtime=first.column if first.column in rowtimes else None,
        order=tuple(each for each in others if each.column not in proctimes),
        **at.common,
    )
