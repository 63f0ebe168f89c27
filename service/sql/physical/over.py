"""Which OVER windows are planned, and whether their rows change when others come or go.

    order           input      functions        rows
    one time        inserts    all but LEAD     are final when they come out
    another column  any        all but LAG,     change: one column, ascending, and a frame from the
                               LEAD             partition's first row to the current one
    any columns     any        LAG and LEAD     change; beyond Flink, which plans LAG by one column
                               alone            and cannot run it

Source: Flink `StreamExecOverAggregate`, `StreamPhysicalOverAggregateRule`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.sql.errors import PlanningError, UnsupportedSql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.sql.physical.nodes import Node, OverSpec
    from service.sql.rex import OverCall
    from service.sql.terms import Ordering
    from service.sql.window_relations import Over
    from state.types import LogicalType

_NEIGHBOURS: Final = frozenset({"LAG", "LEAD"})


def check_over(over: Over) -> None:
    """Refuse a window that is not run.

    Raises:
        PlanningError: Flink refuses it, too.
        UnsupportedSql: We do not run it.
    """
    if _has_neighbours_alone(over.calls):
        if not over.order:
            raise PlanningError("The window can only be ordered by a single time column.")
        return
    names = {call.name for call in over.calls}
    if "LEAD" in names:
        raise PlanningError(
            "LEAD Function is not supported in stream mode.",
            hint="LAG and LEAD run where no other function is in their window",
        )
    if len(over.order) != 1:
        raise PlanningError("The window can only be ordered by a single time column.")
    if not over.order[0].is_ascending:
        raise PlanningError("The window can only be ordered in ASCENDING mode.")
    if over.frame.upper.kind != "CURRENT_ROW":
        raise PlanningError("OVER RANGE FOLLOWING windows are not supported yet.")
    if is_by_time(over.input.row.types, over.order):
        return
    if over.frame.lower.kind != "UNBOUNDED":
        raise PlanningError("Non-time attribute sort is not supported for bounded OVER window.")
    if "LAG" in names:
        raise UnsupportedSql(
            "LAG beside other functions in an order that is not a time is not supported"
        )


def sends_updates(node: Node, spec: OverSpec) -> bool:
    """Whether rows of a window change when others come or go.

    Of one in the order of time, that needs inserts, they do not.
    """
    if any(call.name == "LEAD" for call in spec.calls):
        return True
    if not is_by_time(node.row.types, spec.order):
        return True
    return _has_neighbours_alone(spec.calls) and not node.input.changes.is_insert_only


def is_by_time(types: Sequence[LogicalType], order: Sequence[Ordering]) -> bool:
    """Whether the order begins with a time attribute."""
    return bool(order) and types[order[0].column].time_attribute is not None


def _has_neighbours_alone(calls: Sequence[OverCall]) -> bool:
    return {call.name for call in calls} <= _NEIGHBOURS
