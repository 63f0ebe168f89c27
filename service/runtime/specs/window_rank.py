"""The first rows of windows: stream-exec-window-rank, stream-exec-window-deduplicate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.windows.window_rank import OrderColumn, WindowRankSpec
from service.runtime.specs.orders import sort_columns
from service.runtime.specs.windows import attached_window, window_shape

if TYPE_CHECKING:
    from service.runtime.specs import StatefulNode


def window_rank_spec(at: StatefulNode) -> WindowRankSpec:
    """The operator of a window rank.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: The ranks are not constant, or not row numbers.
    """
    given = at.properties
    if given.text("rankType") != "ROW_NUMBER":
        raise at.refuse("ranks other than ROW_NUMBER", "rankType")
    ranks = given.object("rankRange")
    if ranks.text("type") != "Constant":
        raise at.refuse("ranks that are not constant", "rankRange", "type")
    order = tuple(
        OrderColumn(column=each.column, descending=each.descending, nulls_last=each.nulls_last)
        for each in sort_columns(given.object("sortSpec"), at.width())
    )
    return WindowRankSpec.build(
        inputs=(at.partitioned(given.object("partitionSpec"), "fields"),),
        order=order,
        first=ranks.long("start", 0),
        last=ranks.long("end", 0),
        with_rank=given.flag("outputRowNumber"),
        **_common(at),
    )


def window_deduplicate_spec(at: StatefulNode) -> WindowRankSpec:
    """The operator of a window deduplication: the first or the last row of a window in time."""
    given = at.properties
    keeps_last = given.flag("keepLastRow")
    column = given.column("orderKey", at.width())
    return WindowRankSpec.build(
        inputs=(at.partitioned(given, "partitionKeys"),),
        order=(OrderColumn(column=column, descending=keeps_last, nulls_last=keeps_last),),
        last=1,
        ties_last=keeps_last,
        **_common(at),
    )


def _common(at: StatefulNode) -> dict[str, Any]:
    windowing = at.properties.object("windowing")
    attached = attached_window(at, windowing, at.width())
    return {"shape": window_shape(at, windowing.object("window")), **attached, **at.common}
