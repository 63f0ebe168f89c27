"""Joins of tables in windows: stream-exec-window-join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.windows.window_join import WindowJoinSpec
from service.runtime.specs.join_spec import condition_of
from service.runtime.specs.windows import attached_window

if TYPE_CHECKING:
    from service.runtime.specs import StatefulNode


def window_join_spec(at: StatefulNode) -> WindowJoinSpec:
    """The operator of a window join.

    Raises:
        UnsupportedNode: Its condition is not evaluated here, or the rows have no windows.
    """
    join = at.node.raw["joinSpec"]
    left, right = (
        attached_window(at, at.node.raw[side]) for side in ("leftWindowing", "rightWindowing")
    )
    return WindowJoinSpec.build(
        inputs=(at.input(0, join["leftKeys"]), at.input(1, join["rightKeys"])),
        join=join["joinType"],
        end_columns=(left["end_column"], right["end_column"]),
        filter_nulls=tuple(join["filterNulls"]),
        condition=condition_of(at, join.get("nonEquiCondition"), "joinSpec", "nonEquiCondition"),
        zone=left["zone"],
        **at.common,
    )
