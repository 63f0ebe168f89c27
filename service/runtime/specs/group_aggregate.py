"""`group-aggregate`: one node for the whole aggregation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.aggregate.group_aggregate import GroupAggregateSpec
from service.runtime.specs.aggregate_calls import aggregate_calls, columns, flag

if TYPE_CHECKING:
    from service.runtime.specs import StatefulNode


def group_aggregate_spec(at: StatefulNode) -> GroupAggregateSpec:
    """The spec of a `group-aggregate`."""
    types = at.inputs[0].output_type.children
    given = at.input(0, columns(at, "grouping", len(types)))
    return GroupAggregateSpec.build(
        inputs=(given,),
        calls=aggregate_calls(at, "aggCalls", given.types, "aggCallNeedRetractions"),
        needs_retraction=flag(at, "needRetraction"),
        generate_update_before=flag(at, "generateUpdateBefore"),
        bundles=at.option("table.exec.mini-batch.enabled") == "true",
        **at.common,
    )
