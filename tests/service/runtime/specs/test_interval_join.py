"""Specs of interval joins, from nodes as Flink writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operators.join.interval import IntervalJoinSpec
from service.plan import load_plan
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs import StatefulNode
from service.runtime.specs.interval_join import CLEANUP_INTERVAL, interval_join_spec
from tests.service.runtime.specs.join_cases import CASES


def node(bounds: dict[str, Any], join: dict[str, Any] | None = None, **given: Any) -> StatefulNode:
    """An interval join in the place of the recorded temporal join: its inputs have row times."""
    document = json.loads((CASES / "090_temporal_join_left" / "plan.json").read_text())
    (found,) = [each for each in document["nodes"] if "temporal-join" in each["type"]]
    spec = {**found["joinSpec"], **(join or {})}
    for name in ("joinSpec", "isTemporalFunctionJoin"):
        del found[name]
    found["type"] = "stream-exec-interval-join_1"
    found["intervalJoinSpec"] = {"joinSpec": spec, "windowBounds": bounds}
    found.update(given)
    plan = load_plan(document)
    return StatefulNode(plan.node(found["id"]), plan)


EVENT_TIME = {
    "isEventTime": True,
    "leftLowerBound": -3_600_000,
    "leftUpperBound": 5000,
    "leftTimeIndex": 3,
    "rightTimeIndex": 2,
}


def test_the_spec_of_a_node_in_event_time() -> None:
    spec = interval_join_spec(node(EVENT_TIME))
    assert isinstance(spec, IntervalJoinSpec)
    assert (spec.lower_ms, spec.upper_ms, spec.times) == (-3_600_000, 5000, (3, 2))
    assert [each.key for each in spec.inputs] == [(1,), (0,)]
    assert (spec.join_type, spec.cleanup_delay_ms) == ("LEFT", 0)


def test_the_spec_of_a_node_in_processing_time() -> None:
    bounds = {**EVENT_TIME, "isEventTime": False}
    assert interval_join_spec(node(bounds)).times is None


def test_the_clean_up_interval_is_that_of_the_plan() -> None:
    spec = interval_join_spec(node(EVENT_TIME, configuration={CLEANUP_INTERVAL: "10 s"}))
    assert spec.cleanup_delay_ms == 10_000
    with pytest.raises(UnsupportedNode, match="duration"):
        interval_join_spec(node(EVENT_TIME, configuration={CLEANUP_INTERVAL: "soon"}))


def test_what_flink_does_not_run_is_refused() -> None:
    with pytest.raises(UnsupportedNode, match="a SEMI join"):
        interval_join_spec(node(EVENT_TIME, {"joinType": "SEMI"}))
