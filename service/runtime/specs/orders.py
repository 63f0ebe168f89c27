"""What builders read alike: orders, times, and whether an input takes rows back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.ordering import SortColumn, SortKeys
from service.plan.changelog_modes import node_modes
from state.types import UnsupportedType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from operators.spec import InputSpec
    from service.plan.nodes import ExecNode
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


def order_of(
    at: StatefulNode,
    row: InputSpec,
    given: Mapping[str, Any] | None = None,
    place: Sequence[str | int] = ("orderBy",),
) -> tuple[SortColumn, ...]:
    """The order that a node says, None: its `orderBy`; and where it says it.

    Raises:
        UnsupportedNode: Values of a column have no order.
    """
    order = at.node.raw.get("orderBy") if given is None else given
    found = tuple(
        SortColumn(
            column=each["index"],
            descending=not each["isAscending"],
            nulls_last=each["nullIsLast"],
        )
        for each in (order or {}).get("fields", ())
    )
    for number, each in enumerate(found):
        try:
            SortKeys(row, (each,))
        except UnsupportedType as error:
            raise at.refuse(error.reason, *place, "fields", number) from error
    return found


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
