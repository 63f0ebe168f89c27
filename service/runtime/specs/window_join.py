"""Joins of tables in windows: stream-exec-window-join."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.windows.window_join import WindowJoinSpec
from service.runtime.specs.join_spec import JoinKeys, condition_of, joined_inputs
from service.runtime.specs.windows import attached_window

if TYPE_CHECKING:
    from service.runtime.specs import StatefulNode


def window_join_spec(at: StatefulNode) -> WindowJoinSpec:
    """The operator of a window join.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: It compares columns of different types, its condition is not evaluated
            here, or the rows have no windows.
    """
    given = at.properties
    left, right = (
        attached_window(at, given.object(side), at.width(number))
        for number, side in enumerate(("leftWindowing", "rightWindowing"))
    )
    join = given.object("joinSpec")
    keys = JoinKeys.of(join)
    declared = join.value.get("nonEquiCondition")
    return WindowJoinSpec.build(
        inputs=joined_inputs(at, keys, "joinSpec"),
        join=join.text("joinType"),
        end_columns=(left["end_column"], right["end_column"]),
        filter_nulls=keys.filter_nulls,
        condition=condition_of(at, declared, "joinSpec", "nonEquiCondition"),
        zone=left["zone"],
        **at.common,
    )
