"""`stream-exec-interval-join`: rows that lie near each other in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.join.interval import IntervalJoinSpec
from service.plan.durations import parse_duration_ms
from service.plan.errors import DurationError
from service.runtime.specs.join_spec import JoinKeys, condition_of, joined_inputs

if TYPE_CHECKING:
    from service.plan.properties import JsonObject
    from service.runtime.specs import StatefulNode

CLEANUP_INTERVAL = "table.exec.interval-join.min-cleanup-interval"


def interval_join_spec(at: StatefulNode) -> IntervalJoinSpec:
    """The spec of an interval join.

    Raises:
        PlanError: Its properties are none of such a node.
        UnsupportedNode: Its join type, condition or clean-up interval is not run, or it compares
            columns of different types.
    """
    given = at.properties.object("intervalJoinSpec")
    join, bounds = given.object("joinSpec"), given.object("windowBounds")
    place = ("intervalJoinSpec", "joinSpec")
    join_type = join.text("joinType")
    if join_type not in ("INNER", "LEFT", "RIGHT", "FULL"):
        raise at.refuse(f"a {join_type} join", *place, "joinType")
    keys = JoinKeys.of(join)
    declared = join.value.get("nonEquiCondition")
    return IntervalJoinSpec.build(
        **{**at.common, "ttl_ms": ()},
        inputs=joined_inputs(at, keys, *place),
        join_type=join_type,
        lower_ms=bounds.long("leftLowerBound", 0),
        upper_ms=bounds.long("leftUpperBound", 0),
        times=_times(at, bounds) if bounds.flag("isEventTime") else None,
        filter_nulls=keys.filter_nulls,
        condition=condition_of(at, declared, *place, "nonEquiCondition"),
        cleanup_delay_ms=_cleanup_delay_ms(at),
    )


def _times(at: StatefulNode, bounds: JsonObject) -> tuple[int, int]:
    """The columns of the row times."""
    left = bounds.column("leftTimeIndex", at.width(0))
    return left, bounds.column("rightTimeIndex", at.width(1))


def _cleanup_delay_ms(at: StatefulNode) -> int:
    delay = at.option(CLEANUP_INTERVAL)
    if delay is None:
        return 0
    try:
        return parse_duration_ms(delay)
    except DurationError as error:
        raise at.refuse(str(error), "configuration", CLEANUP_INTERVAL) from error
