"""Specs of temporal joins, out of a plan that Flink wrote, and what they emit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from operators.event_time import to_ms
from operators.join.temporal import TemporalJoinSpec
from operators.testing.operator_harness import Of, OperatorHarness, Watermark
from service.plan import load_plan
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs import StatefulNode
from service.runtime.specs.temporal_join import temporal_join_spec
from tests.service.runtime.specs.join_cases import CASES, compare, node_of, spec_of, steps_of

if TYPE_CHECKING:
    from tests.service.runtime.specs.join_cases import Steps

CASE = "090_temporal_join_left"


def with_watermarks(steps: Steps) -> Steps:
    """As both inputs have it, `ts`: the watermark is a millisecond behind the slower one's last."""
    last: dict[int, int] = {}
    out: Steps = []
    for step in steps:
        out.append(step)
        if isinstance(step, Of):
            ms = to_ms(step.change.row[3 if step.input == 0 else 2])
            last[step.input] = max(ms, last.get(step.input, ms))
            if len(last) == 2:
                out.append(Watermark(min(last.values()) - 1))
    return [*out, Watermark(1 << 50)]


def test_a_recorded_case() -> None:
    at = node_of(CASE, "temporal-join")
    steps = with_watermarks(steps_of(CASE, at, ["o", "rates"], dropped=[("rates", "-U")]))
    emitted = OperatorHarness.on_heap(spec_of(CASE, "temporal-join")).run(steps)
    assert compare(CASE, at, emitted, ["id", "amt", "rate"]) is None


def changed(**properties: Any) -> StatefulNode:
    document = json.loads((CASES / CASE / "plan.json").read_text())
    (node,) = [each for each in document["nodes"] if each["type"] == "stream-exec-temporal-join_1"]
    node["joinSpec"].update(properties.pop("joinSpec", {}))
    node.update(properties)
    plan = load_plan(document)
    return StatefulNode(plan.node(node["id"]), plan)


def test_the_spec_of_a_node() -> None:
    spec = temporal_join_spec(changed())
    assert isinstance(spec, TemporalJoinSpec)
    assert (spec.left_time, spec.right_time, spec.join_type) == (3, 2, "LEFT")
    assert spec.retention_ms == 0
    assert [each.key for each in spec.inputs] == [(1,), (0,)]


def test_what_flink_does_not_run_is_refused() -> None:
    with pytest.raises(UnsupportedNode, match="processing-time temporal join"):
        temporal_join_spec(changed(rightTimeAttributeIndex=-1))
    with pytest.raises(UnsupportedNode, match="a FULL join"):
        temporal_join_spec(changed(joinSpec={"joinType": "FULL"}))
