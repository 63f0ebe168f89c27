"""`stream-exec-interval-join`: rows that lie near each other in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.join.interval import IntervalJoinSpec
from service.plan.durations import parse_duration_ms
from service.plan.errors import DurationError
from service.runtime.specs.join_spec import JoinKeys, condition_of, joined_inputs

if TYPE_CHECKING:
    from service.runtime.specs import StatefulNode

CLEANUP_INTERVAL = "table.exec.interval-join.min-cleanup-interval"


def interval_join_spec(at: StatefulNode) -> IntervalJoinSpec:
    """The spec of an interval join.

    Raises:
        UnsupportedNode: Its join type, keys, condition or clean-up interval are not run.
    """
    given = at.node.raw["intervalJoinSpec"]
    join, bounds = given["joinSpec"], given["windowBounds"]
    place = ("intervalJoinSpec", "joinSpec")
    if join["joinType"] not in ("INNER", "LEFT", "RIGHT", "FULL"):
        raise at.refuse(f"a {join['joinType']} join", *place, "joinType")
    keys = JoinKeys.of(join)
    if keys.equalities or keys.null_equalities:
        raise at.refuse("a column is compared twice", *place, "leftKeys")
    times = (bounds["leftTimeIndex"], bounds["rightTimeIndex"])
    return IntervalJoinSpec.build(
        **{**at.common, "ttl_ms": ()},
        inputs=joined_inputs(at, keys),
        join_type=join["joinType"],
        lower_ms=bounds["leftLowerBound"],
        upper_ms=bounds["leftUpperBound"],
        times=times if bounds["isEventTime"] else None,
        filter_nulls=keys.filter_nulls,
        condition=condition_of(at, join.get("nonEquiCondition"), *place, "nonEquiCondition"),
        cleanup_delay_ms=_cleanup_delay_ms(at),
    )


def _cleanup_delay_ms(at: StatefulNode) -> int:
    delay = at.option(CLEANUP_INTERVAL)
    if delay is None:
        return 0
    try:
        return parse_duration_ms(delay)
    except DurationError as error:
        raise at.refuse(str(error), "configuration", CLEANUP_INTERVAL) from error
