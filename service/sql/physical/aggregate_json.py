"""What a plan writes of aggregates of groups and of OVER windows.

Source: the `ExecNode` classes of Flink 2.3, in the order of their constructors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.plan.rex import Literal
from service.sql.options import MINI_BATCH_OPTIONS
from service.sql.physical import nodes
from service.sql.physical.monotonicity import retractions
from service.sql.rex import column_of
from service.sql.to_json import order_to_json, rex_list, row_to_json, type_to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.sql.options import Options
    from service.sql.physical.nodes import Node
    from service.sql.rex import FrameBound, OverCall
    from service.sql.terms import AggregateCall


def aggregate_json(node: Node, options: Options) -> tuple[str, dict[str, Any]]:
    """A GROUP BY in one phase, or its local or global phase."""
    spec = node.spec
    made: dict[str, Any] = {"configuration": options.configuration(MINI_BATCH_OPTIONS)}
    if isinstance(spec, nodes.AggregateSpec):
        retracts = not node.input.changes.is_insert_only
        made |= _calls(spec.grouping, spec.calls, retractions(node, spec))
        made |= {
            "generateUpdateBefore": node.changes.updates == "BOTH",
            "needRetraction": retracts,
            "state": options.states(["groupAggregateState"], [spec.ttl]),
        }
        return "group-aggregate_1", made
    if isinstance(spec, nodes.LocalAggregateSpec):
        made |= _calls(spec.grouping, spec.calls, spec.call_retracts)
        return "local-group-aggregate_1", made | {"needRetraction": spec.retracts}
    assert isinstance(spec, nodes.GlobalAggregateSpec), "the caller lets nothing else through"
    made |= _calls(spec.grouping, spec.calls, spec.call_retracts)
    made |= {
        "localAggInputRowType": row_to_json(spec.local_input),
        "generateUpdateBefore": node.changes.updates == "BOTH",
        "needRetraction": spec.retracts,
    }
    if spec.count_star is not None:
        made["indexOfCountStar"] = spec.count_star
    made["state"] = options.states(["globalGroupAggregateState"], [spec.ttl])
    return "global-group-aggregate_1", made


def incremental_json(
    spec: nodes.IncrementalAggregateSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    """The middle two of four phases, in one."""
    return "incremental-group-aggregate_1", {
        "configuration": options.configuration(MINI_BATCH_OPTIONS),
        "partialAggGrouping": list(spec.partial_grouping),
        "finalAggGrouping": list(spec.final_grouping),
        "partialOriginalAggCalls": [call_to_json(each) for each in spec.calls],
        "partialAggCallNeedRetractions": [spec.retracts for _ in spec.calls],
        "partialLocalAggInputRowType": row_to_json(spec.local_input),
        "partialAggNeedRetraction": spec.retracts,
        "state": options.states(["incrementalGroupAggregateState"], [spec.ttl]),
    }


def over_json(node: Node, spec: nodes.OverSpec) -> tuple[str, dict[str, Any]]:
    """Functions over windows of rows."""
    width = len(node.inputs[0].row)
    constants = list(
        dict.fromkeys(
            bound.offset
            for bound in (spec.frame.lower, spec.frame.upper)
            if bound.offset is not None
        )
    )
    for each in spec.calls:
        own = [rex for rex in each.operands if isinstance(rex, Literal) and rex not in constants]
        constants += dict.fromkeys(own)
    group = {
        "orderBy": order_to_json(spec.order),
        "isRows": spec.frame.is_rows,
        "lowerBound": _bound(spec.frame.lower, constants, width),
        "upperBound": _bound(spec.frame.upper, constants, width),
        "aggCalls": [
            _over_call(name, call, constants, width)
            for name, call in zip(node.row.names[width:], spec.calls, strict=True)
        ],
    }
    return "over-aggregate_1", {
        "overSpec": {
            "partition": {"fields": list(spec.partition)},
            "groups": [group],
            "constants": rex_list(constants),
            "originalInputFields": width,
        },
        "unboundedOverVersion": 2,
    }


def call_to_json(call: AggregateCall) -> dict[str, Any]:
    """An aggregate function and its arguments."""
    return _function(call.name, call.function, call.arguments) | {
        "filterArg": -1 if call.filter is None else call.filter,
        "distinct": call.is_distinct,
        "approximate": False,
        "ignoreNulls": call.ignores_nulls,
        "type": type_to_json(call.type),
    }


def _bound(bound: FrameBound, constants: Sequence[Literal], width: int) -> dict[str, Any]:
    if bound.kind == "CURRENT_ROW":
        return {"kind": "CURRENT_ROW"}
    if bound.kind == "UNBOUNDED":
        return {"kind": "UNBOUNDED_PRECEDING" if bound.is_preceding else "UNBOUNDED_FOLLOWING"}
    assert bound.offset is not None, "a bound of rows or time has an offset"
    offset = {
        "kind": "INPUT_REF",
        "inputIndex": width + constants.index(bound.offset),
        "type": type_to_json(bound.offset.type),
    }
    return {"kind": "BOUNDED_WINDOW", "isPreceding": bound.is_preceding, "offset": offset}


def _over_call(
    name: str, call: OverCall, constants: Sequence[Literal], width: int
) -> dict[str, Any]:
    """A call; constants stand behind the columns."""
    arguments = [
        width + constants.index(each) if isinstance(each, Literal) else column_of(each)
        for each in call.operands
    ]
    return _function(name, call.name, arguments) | {
        "filterArg": -1,
        "distinct": call.is_distinct,
        "approximate": False,
        "ignoreNulls": False,
        "type": type_to_json(call.type),
    }


def _calls(
    grouping: tuple[int, ...], calls: Sequence[AggregateCall], retracts: tuple[bool, ...]
) -> dict[str, Any]:
    return {
        "grouping": list(grouping),
        "aggCalls": [call_to_json(each) for each in calls],
        "aggCallNeedRetractions": list(retracts),
    }


def _function(name: str | None, function: str, arguments: Sequence[int]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name}
    if function == "COUNT":
        made["syntax"] = "FUNCTION_STAR"
    return made | {"internalName": f"${function}$1", "argList": list(arguments)}
