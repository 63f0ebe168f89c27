"""What builders read alike: orders, times, and whether an input takes rows back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from operators.ordering import SortColumn, SortKeys
from service.plan.changelog_modes import node_modes
from state.types import UnsupportedType

if TYPE_CHECKING:
    from operators.spec import InputSpec
    from service.plan.nodes import ExecNode
    from service.plan.properties import JsonObject
    from service.runtime.specs import StatefulNode

MINI_BATCH: Final = "table.exec.mini-batch.enabled"
_UPDATING: Final = frozenset(
    {
        "changelog-normalize",
        "deduplicate",
        "global-group-aggregate",
        "group-aggregate",
        "join",
        "limit",
        "multi-join",
        "rank",
        "sort-limit",
    }
)
"""Nodes that take back what they emitted, if the inferred kinds of change say so."""


def order_of(at: StatefulNode, row: InputSpec) -> tuple[SortColumn, ...]:
    """The node's `orderBy`.

    Raises:
        PlanError: It is no order.
        UnsupportedNode: Values of a column have no order.
    """
    given = at.properties
    if not given.has("orderBy"):
        return ()
    found = sort_columns(given.object("orderBy"), len(row.types))
    for number, each in enumerate(found):
        try:
            SortKeys(row, (each,))
        except UnsupportedType as error:
            raise at.refuse(error.reason, "orderBy", "fields", number) from error
    return found


def sort_columns(order: JsonObject, count: int) -> tuple[SortColumn, ...]:
    """The columns of an order over rows that have so many.

    Source: Flink `SortSpec`, whose flags are false where they are missing.
    """
    return tuple(
        SortColumn(
            column=each.column("index", count),
            descending=not each.flag("isAscending"),
            nulls_last=each.flag("nullIsLast"),
        )
        for each in order.objects("fields", "a column of an order")
    )


def time_columns(at: StatefulNode, attribute: str) -> tuple[int, ...]:
    """The columns of the input that are time attributes: `ROWTIME` or `PROCTIME`."""
    columns = at.inputs[0].output_type.children
    return tuple(at for at, each in enumerate(columns) if each.time_attribute == attribute)


def is_enabled(at: StatefulNode, option: str, *, default: bool = False) -> bool:
    """A Boolean option that was in force when the plan was compiled."""
    value = at.option(option)
    return default if value is None else value.strip().lower() == "true"


def takes_back(at: StatefulNode) -> bool:
    """Whether the input surely may hold -U or -D.

    Of a node whose kinds of change are not known, those of its inputs count: Flink gives nodes that
    take rows only, as a deduplication, no others.
    """
    modes = node_modes(at.plan)

    def retracts(node: ExecNode) -> bool:
        if not any(kind.is_retraction for kind in modes[node.id].kinds):
            return False
        inputs = at.plan.inputs(node.id)
        return node.node_type.short in _UPDATING or not inputs or any(map(retracts, inputs))

    return retracts(at.inputs[0])
