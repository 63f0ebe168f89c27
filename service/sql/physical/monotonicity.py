"""Columns whose values only grow, or only shrink, as updates come.

A rank by such a column can keep its rows in a map by key, since a row never falls back.

Source: Flink `FlinkRelMdModifiedMonotonicity` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from service.plan.rex import InputRef
from service.sql.physical.nodes import (
    AggregateSpec,
    CalcSpec,
    DropUpdateBeforeSpec,
    ExchangeSpec,
    MiniBatchSpec,
    Node,
    WatermarkSpec,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.sql.terms import Ordering

Monotonicity = Literal["CONSTANT", "INCREASING", "DECREASING", "NONE"]
_FUNCTIONS: dict[str, Monotonicity] = {
    "COUNT": "INCREASING",
    "MAX": "INCREASING",
    "MIN": "DECREASING",
}


def is_monotonic(node: Node, order: Sequence[Ordering]) -> bool:
    """Whether an updated row never moves back in this order."""
    known = _columns(node)
    if known is None or not order:
        return False
    return all(
        known[key.column] == "CONSTANT"
        or known[key.column] == ("DECREASING" if key.is_ascending else "INCREASING")
        for key in order
    )


def retractions(node: Node, spec: AggregateSpec) -> tuple[bool, ...]:
    """For each call, whether it must be able to take a row back.

    A maximum of what only grows need not, nor a minimum of what only shrinks.
    """
    retracts = not node.input.changes.is_insert_only
    if not retracts:
        return tuple(False for _ in spec.calls)
    known = _aggregated(node, spec) or ["NONE"] * (len(spec.grouping) + len(spec.calls))
    growing = {"MAX": "INCREASING", "MIN": "DECREASING"}
    return tuple(
        growing.get(call.function) != known[len(spec.grouping) + position]
        for position, call in enumerate(spec.calls)
    )


def _aggregated(node: Node, spec: AggregateSpec) -> list[Monotonicity] | None:
    constants: list[Monotonicity] = ["CONSTANT" for _ in spec.grouping]
    if node.input.changes.is_insert_only:
        return constants + [_FUNCTIONS.get(call.function, "NONE") for call in spec.calls]
    below = _columns(node.input)
    if below is None or any(below[column] != "CONSTANT" for column in spec.grouping):
        return None
    made = constants
    for call in spec.calls:
        given = below[call.arguments[0]] if call.arguments else "NONE"
        wanted = _FUNCTIONS.get(call.function, "NONE")
        is_extreme = call.function in ("MIN", "MAX")
        made.append(wanted if is_extreme and given in (wanted, "CONSTANT") else "NONE")
    return made


def _columns(node: Node) -> list[Monotonicity] | None:
    spec = node.spec
    match spec:
        case ExchangeSpec() | MiniBatchSpec() | DropUpdateBeforeSpec() | WatermarkSpec():
            return _columns(node.input)
        case CalcSpec():
            below = _columns(node.input)
            if below is None:
                return None
            return [
                below[rex.index] if isinstance(rex, InputRef) else "NONE" for rex in spec.projection
            ]
        case AggregateSpec():
            return _aggregated(node, spec)
        case _:
            return None
