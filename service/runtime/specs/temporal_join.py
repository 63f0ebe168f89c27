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
        UnsupportedNode: It is one in processing time, which Flink 2.3 does not run either; or its
            join type, keys or condition are not run.
    """
    raw = at.node.raw
    join = raw["joinSpec"]
    if raw["rightTimeAttributeIndex"] == _PROCESSING_TIME:
        reason = "a processing-time temporal join has no versions to join with"
        raise at.refuse(reason, "rightTimeAttributeIndex")
    if join["joinType"] not in ("INNER", "LEFT"):
        raise at.refuse(f"a {join['joinType']} join", "joinSpec", "joinType")
    keys = JoinKeys.of(join)
    if keys.equalities or keys.null_equalities:
        raise at.refuse("a column is compared twice", "joinSpec", "leftKeys")
    condition = condition_of(at, join.get("nonEquiCondition"), "joinSpec", "nonEquiCondition")
    return TemporalJoinSpec.build(
        **{**at.common, "ttl_ms": ()},
        inputs=joined_inputs(at, keys),
        join_type=join["joinType"],
        left_time=raw["leftTimeAttributeIndex"],
        right_time=raw["rightTimeAttributeIndex"],
        filter_nulls=keys.filter_nulls,
        condition=condition,
        retention_ms=at.ttl_ms[0],
    )
