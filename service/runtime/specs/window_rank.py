"""The first rows of windows: stream-exec-window-rank, stream-exec-window-deduplicate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.windows.window_rank import OrderColumn, WindowRankSpec
from service.runtime.specs.windows import attached_window

if TYPE_CHECKING:
    from service.runtime.specs import StatefulNode


def window_rank_spec(at: StatefulNode) -> WindowRankSpec:
    """The operator of a window rank.

    Raises:
        UnsupportedNode: The ranks are not constant, or not row numbers.
    """
    raw = at.node.raw
    if raw.get("rankType") != "ROW_NUMBER":
        raise at.refuse("ranks other than ROW_NUMBER", "rankType")
    ranks = raw["rankRange"]
    if ranks.get("type") != "Constant":
        raise at.refuse("ranks that are not constant", "rankRange", "type")
    order = tuple(
        OrderColumn(
            column=each["index"], descending=not each["isAscending"], nulls_last=each["nullIsLast"]
        )
        for each in raw["sortSpec"]["fields"]
    )
    return WindowRankSpec.build(
        inputs=(at.input(0, raw["partitionSpec"]["fields"]),),
        order=order,
        first=ranks["start"],
        last=ranks["end"],
        with_rank=bool(raw["outputRowNumber"]),
        **_common(at),
    )


def window_deduplicate_spec(at: StatefulNode) -> WindowRankSpec:
    """The operator of a window deduplication: the first or the last row of a window in time."""
    raw = at.node.raw
    keeps_last = bool(raw["keepLastRow"])
    return WindowRankSpec.build(
        inputs=(at.input(0, raw["partitionKeys"]),),
        order=(OrderColumn(column=raw["orderKey"], descending=keeps_last, nulls_last=keeps_last),),
        last=1,
        ties_last=keeps_last,
        **_common(at),
    )


def _common(at: StatefulNode) -> dict[str, Any]:
    return attached_window(at, at.node.raw["windowing"]) | at.common
