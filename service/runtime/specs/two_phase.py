"""`local-`, `incremental-` and `global-group-aggregate`: aggregation with mini-batches.

An epoch is a bundle here, so what a local node would save by aggregating before the exchange, the
next node saves by aggregating an epoch's rows in memory. A local node therefore passes its rows on,
and rows between these nodes are not of the types that the plan says:

    plan                                    what travels
    local -> global                         the local node's input rows
    local -> incremental -> global          its input rows; then the final grouping's columns and
                                            `accumulators`, a JSON text

So keys are columns of the local node's input, too: the operator's spec says which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.aggregate.group_aggregate import (
    ACCUMULATORS,
    GroupAggregateSpec,
    IncrementalAggregateSpec,
)
from operators.spec import InputSpec, RowSpec
from service.runtime.specs.aggregate_calls import aggregate_calls, columns, flag
from state.types import parse_type

if TYPE_CHECKING:
    from typing import Any

    from operators.aggregate.call import AggregateCall
    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.runtime.specs import StatefulNode

_LOCAL = "local-group-aggregate"
_INCREMENTAL = "incremental-group-aggregate"
_PASSING = frozenset({"exchange", "mini-batch-assigner"})


def identity_nodes(plan: CompiledPlan) -> frozenset[int]:
    """The local nodes of a plan: they pass on what they get."""
    return frozenset(node.id for node in plan.nodes if node.node_type.short == _LOCAL)


def global_aggregate_spec(at: StatefulNode) -> GroupAggregateSpec:
    """The spec of a `global-group-aggregate`, with what the nodes before it would do."""
    before = _before(at)
    common: dict[str, Any] = {
        "needs_retraction": flag(at, "needRetraction"),
        "generate_update_before": flag(at, "generateUpdateBefore"),
        "state": "globalGroupAggregateState",
        "bundles": True,
        **at.common,
    }
    if before.node_type.short == _INCREMENTAL:
        return _merging(at, at.of(before), common)
    given = _rows(at, before, "grouping")
    return GroupAggregateSpec.build(
        inputs=(given,),
        calls=aggregate_calls(at, "aggCalls", given.types, "aggCallNeedRetractions"),
        is_two_phase=True,
        **common,
    )


def incremental_aggregate_spec(at: StatefulNode) -> IncrementalAggregateSpec:
    """The spec of an `incremental-group-aggregate`; its output is not what the plan says."""
    given = _rows(at, _before(at), "partialAggGrouping")
    final = _final_key(at)
    key = given.key_row.part(final)
    text = parse_type("STRING NOT NULL")
    fields = at.common
    fields["output"] = RowSpec(types=(*key.types, text), names=(*key.names, ACCUMULATORS))
    return IncrementalAggregateSpec.build(
        inputs=(given,),
        calls=_partial_calls(at, given),
        needs_retraction=flag(at, "partialAggNeedRetraction"),
        final_key=final,
        bundles=True,
        **fields,
    )


def _merging(at: StatefulNode, partial: StatefulNode, common: dict[str, Any]) -> GroupAggregateSpec:
    """A global node behind an incremental one: its calls are over the partial calls' results."""
    sent = incremental_aggregate_spec(partial)
    row = sent.output
    key = columns(at, "grouping", len(sent.final_key))
    first = len(sent.inputs[0].key)
    given = at.node.raw.get("aggCalls")
    if not isinstance(given, list):
        raise at.refuse("aggregate calls must be a list", "aggCalls")
    merges = []
    for place, each in enumerate(given):
        arguments = each.get("argList") if isinstance(each, dict) else None
        (column,) = columns(at, "aggCalls", first + len(sent.calls), given=arguments or [-1])
        if column < first:
            raise at.refuse("it merges no partial aggregate", "aggCalls", place, "argList")
        merges.append(column - first)
    names = at.output.names[len(key) :]
    calls = tuple(
        sent.calls[merged].model_copy(update={"name": name, "is_distinct": False, "filter": None})
        for merged, name in zip(merges, names, strict=True)
    )
    return GroupAggregateSpec.build(
        inputs=(InputSpec(types=row.types, names=row.names, key=key),),
        calls=calls,
        partial_calls=sent.calls,
        merges=tuple(merges),
        **common,
    )


def _before(at: StatefulNode) -> ExecNode:
    """The local or incremental node whose accumulators a node merges."""
    node = at.inputs[0]
    while node.node_type.short in _PASSING:
        (node,) = at.plan.inputs(node.id)
    if node.node_type.short not in (_LOCAL, _INCREMENTAL):
        raise at.refuse(f"accumulators of a {node.type_text}")
    return node


def _rows(at: StatefulNode, local: ExecNode, grouping: str) -> InputSpec:
    """The local node's input, by the columns that a node groups its output by."""
    before = at.of(local)
    row = RowSpec.of(before.inputs[0].output_type)
    sent = columns(before, "grouping", len(row.types))
    key = tuple(sent[each] for each in columns(at, grouping, len(sent)))
    return InputSpec(types=row.types, names=row.names, key=key)


def _final_key(at: StatefulNode) -> tuple[int, ...]:
    """Places of the final grouping in the partial one."""
    partial = at.node.raw.get("partialAggGrouping")
    given = at.node.raw.get("finalAggGrouping")
    if not isinstance(partial, list) or not isinstance(given, list):
        raise at.refuse("groupings must be lists", "finalAggGrouping")
    if any(each not in partial for each in given):
        raise at.refuse("it is not part of the partial grouping", "finalAggGrouping")
    return tuple(partial.index(each) for each in given)


def _partial_calls(at: StatefulNode, given: InputSpec) -> tuple[AggregateCall, ...]:
    return aggregate_calls(
        at, "partialOriginalAggCalls", given.types, "partialAggCallNeedRetractions"
    )
