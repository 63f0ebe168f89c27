"""Joins of tables in windows: stream-exec-window-join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.windows.window_join import WindowJoinSpec
from service.runtime.specs.windows import attached_window

if TYPE_CHECKING:
    from service.runtime.specs import StatefulNode


def window_join_spec(at: StatefulNode) -> WindowJoinSpec:
    """The operator of a window join.

    Raises:
        UnsupportedNode: It compares by more than keys, or the rows have no windows.
    """
    join = at.node.raw["joinSpec"]
    if join.get("nonEquiCondition") is not None:
        raise at.refuse("conditions beside equal keys", "joinSpec", "nonEquiCondition")
    left, right = (
        attached_window(at, at.node.raw[side]) for side in ("leftWindowing", "rightWindowing")
    )
    return WindowJoinSpec.build(
        inputs=(at.input(0, join["leftKeys"]), at.input(1, join["rightKeys"])),
        join=join["joinType"],
        end_columns=(left["end_column"], right["end_column"]),
        filter_nulls=tuple(join["filterNulls"]),
        zone=left["zone"],
        **at.common,
    )
