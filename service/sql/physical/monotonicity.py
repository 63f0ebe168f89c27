"""Columns whose values only grow, or only shrink, as updates come.

A rank by such a column can keep its rows in a map by key, since a row never falls back, and a
maximum of one need not take rows back. Neither holds where rows go: by deletions, by a condition on
what changes, or as the padded rows of an outer join. Flink asks for none of the three, and so
gives maxima of rows that are gone.

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
    ExpandSpec,
    IntervalJoinSpec,
    JoinKeys,
    JoinSpec,
    LookupJoinSpec,
    MiniBatchSpec,
    Node,
    NormalizeSpec,
    OverSpec,
    RankSpec,
    ScanSpec,
    UnionSpec,
    WatermarkSpec,
)
from service.sql.physical.ranks import keeps_one
from service.sql.physical.value_intervals import column_interval
from service.sql.rex import inputs_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.sql.terms import AggregateCall, Ordering

Monotonicity = Literal["CONSTANT", "PADDED", "INCREASING", "DECREASING", "NONE"]
"""What becomes of a column of a row. PADDED: of a side that an outer join pads, NULL until a match
comes, which a maximum does not see."""
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
    below = _columns(node.input)
    if node.input.changes.is_insert_only:
        below = ["CONSTANT"] * len(node.input.row)
    if below is None or any(below[column] != "CONSTANT" for column in spec.grouping):
        return None
    made = constants
    is_fixed = all(each == "CONSTANT" for each in below)
    for call in spec.calls:
        given = below[call.arguments[0]] if call.arguments else "NONE"
        wanted = _direction(node, call)
        if is_fixed:
            made.append(wanted)
            continue
        is_extreme = call.function in ("MIN", "MAX")
        is_asked = call.filter is None or below[call.filter] == "CONSTANT"
        is_known = is_extreme and is_asked and given in (wanted, "CONSTANT", "PADDED")
        made.append(wanted if is_known else "NONE")
    return made


def _direction(node: Node, call: AggregateCall) -> Monotonicity:
    """Where a function's result goes as rows are added."""
    if call.function != "SUM":
        return _FUNCTIONS.get(call.function, "NONE")
    low, high = column_interval(node.input, call.arguments[0], call.filter)
    if low is not None and low >= 0:
        return "INCREASING"
    return "DECREASING" if high is not None and high <= 0 else "NONE"


def _columns(node: Node) -> list[Monotonicity] | None:
    spec = node.spec
    match spec:
        case ExchangeSpec() | MiniBatchSpec() | DropUpdateBeforeSpec() | WatermarkSpec():
            return _columns(node.input)
        case CalcSpec():
            below = _columns(node.input)
            if below is None or any(below[at] != "CONSTANT" for at in _asked(spec)):
                return None
            return [
                below[rex.index] if isinstance(rex, InputRef) else "NONE" for rex in spec.projection
            ]
        case AggregateSpec():
            return _aggregated(node, spec)
        case ScanSpec() | IntervalJoinSpec() | OverSpec():
            return ["CONSTANT"] * len(node.row) if node.changes.is_insert_only else None
        case NormalizeSpec():
            keys = spec.keys
            if node.changes.has_deletes:
                return None
            return ["CONSTANT" if at in keys else "NONE" for at in range(len(node.row))]
        case JoinSpec():
            return _joined(node, spec.keys)
        case ExpandSpec() | LookupJoinSpec():
            given = _columns(node.input)
            is_fixed = given is not None and all(each == "CONSTANT" for each in given)
            return None if given is None else ["CONSTANT" if is_fixed else "NONE"] * len(node.row)
        case RankSpec() if spec.kind == "rank" and not keeps_one(spec):
            return _ranked(node, spec)
        case UnionSpec():
            first, *others = map(_columns, node.inputs)
            return first if all(each == first for each in others) else None
        case _:
            return None


def _asked(calc: CalcSpec) -> frozenset[int]:
    """The columns that a condition reads."""
    return frozenset() if calc.condition is None else inputs_of(calc.condition)


def _ranked(node: Node, spec: RankSpec) -> list[Monotonicity] | None:
    """Of the first rows the column that orders them first grows, or shrinks.

    Unless NULL comes first: then a value may be pushed out by it.
    """
    given = _columns(node.input)
    if given is None or any(given[each] != "CONSTANT" for each in spec.partition):
        return None
    made: list[Monotonicity] = ["NONE"] * len(node.row)
    for each in spec.partition:
        made[each] = "CONSTANT"
    if spec.has_number:
        made[-1] = "CONSTANT"
    if spec.order:
        key = spec.order[0]
        towards: Monotonicity = "DECREASING" if key.is_ascending else "INCREASING"
        is_known = given[key.column] in (towards, "CONSTANT")
        has_value = key.nulls_last or not node.row.types[key.column].nullable
        made[key.column] = towards if is_known and has_value else "NONE"
    return made


def _joined(node: Node, on: JoinKeys) -> list[Monotonicity] | None:
    """The columns of both sides, where neither takes rows back and the keys stay as they are."""
    left, right = map(_columns, node.inputs)
    if on.kind == "ANTI" or left is None or right is None:
        return None
    keys = [*(left[each] for each in on.left), *(right[each] for each in on.right)]
    has_updates = any(each != "CONSTANT" for each in (*left, *right))
    if any(each != "CONSTANT" for each in keys) or (has_updates and on.rest is not None):
        return None
    if on.kind == "SEMI":
        return left
    return _padded(left, on.kind in ("RIGHT", "FULL")) + _padded(right, on.kind in ("LEFT", "FULL"))


def _padded(side: list[Monotonicity], is_padded: bool) -> list[Monotonicity]:
    """The columns of a side of a join, which may be NULL for a while."""
    return ["PADDED" if is_padded and each == "CONSTANT" else each for each in side]
