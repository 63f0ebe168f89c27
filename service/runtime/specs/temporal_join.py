"""`stream-exec-temporal-join`: rows with the version of a table at their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.join.temporal import TemporalJoinSpec
from service.runtime.specs.join_spec import JoinKeys, condition_of, joined_inputs

if TYPE_CHECKING:
    from service.runtime.specs import StatefulNode

_PROCESSING_TIME = -1


def temporal_join_spec(at: StatefulNode) -> TemporalJoinSpec:
    """The spec of a temporal join.

    The node has no `state` in a plan: as in Flink, the pipeline's TTL is how long a key that
    nothing comes for is kept.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: It is one in processing time, which Flink 2.3 does not run either; or its
            join type or condition is not run, or it compares columns of different types.
    """
    given = at.properties
    join = given.object("joinSpec")
    if given.integer("rightTimeAttributeIndex", default=0) == _PROCESSING_TIME:
        reason = "a processing-time temporal join has no versions to join with"
        raise at.refuse(reason, "rightTimeAttributeIndex")
    join_type = join.text("joinType")
    if join_type not in ("INNER", "LEFT"):
        raise at.refuse(f"a {join_type} join", "joinSpec", "joinType")
    keys = JoinKeys.of(join)
    declared = join.value.get("nonEquiCondition")
    return TemporalJoinSpec.build(
        **{**at.common, "ttl_ms": ()},
        inputs=joined_inputs(at, keys, "joinSpec"),
        join_type=join_type,
        left_time=given.column("leftTimeAttributeIndex", at.width(0)),
        right_time=given.column("rightTimeAttributeIndex", at.width(1)),
        filter_nulls=keys.filter_nulls,
        condition=condition_of(at, declared, "joinSpec", "nonEquiCondition"),
        retention_ms=at.ttl_ms[0],
    )
