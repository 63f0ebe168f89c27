"""Specs of joins of several inputs, out of plans that Flink wrote, and what they emit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operators.join.multi import Attribute, MultiJoinSpec
from service.plan import load_plan
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs import StatefulNode
from service.runtime.specs.multi_join import multi_join_spec
from tests.service.runtime.specs.join_cases import CASES, replay, spec_of

DAY = 86_400_000


@pytest.mark.parametrize("case", ["120_multi_join_inner", "156_multi_join_ttl"])
def test_a_recorded_case(case: str) -> None:
    assert replay(case, "multi-join", "abc", ["k", "av", "bv", "cv"]) is None


def test_each_input_has_the_ttl_of_the_plan() -> None:
    assert spec_of("122_multi_join_hint", "multi-join").ttl_ms == (DAY, 2 * DAY, 3 * DAY)


def test_a_multi_join_by_hint_is_the_same() -> None:
    spec = spec_of("123_multi_join_by_hint", "multi-join")
    assert isinstance(spec, MultiJoinSpec)
    assert [each.key for each in spec.inputs] == [(0,), (0,), (0,)]
    assert [each.attributes for each in spec.joins] == [
        (),
        (Attribute(before=0, column=0),),
        (Attribute(before=0, column=0),),
    ]
    assert [each.condition for each in spec.joins] == [None] * 3


def changed(**properties: Any) -> StatefulNode:
    document = json.loads((CASES / "120_multi_join_inner" / "plan.json").read_text())
    (node,) = [each for each in document["nodes"] if each["type"] == "stream-exec-multi-join_1"]
    node.update(properties)
    plan = load_plan(document)
    return StatefulNode(plan.node(node["id"]), plan)


def pair(left_input: int, left: int, right_input: int, right: int) -> dict[str, int]:
    return {
        "leftInputId": left_input,
        "leftFieldIndex": left,
        "rightInputId": right_input,
        "rightFieldIndex": right,
    }


def ref(index: int, logical: str = "INT") -> dict[str, Any]:
    return {"kind": "INPUT_REF", "inputIndex": index, "type": logical}


def equal(left: int, right: int, name: str = "$=$1") -> dict[str, Any]:
    operands = [ref(left), ref(right)]
    return {"kind": "CALL", "internalName": name, "operands": operands, "type": "BOOLEAN"}


def test_other_joins_are_refused() -> None:
    with pytest.raises(UnsupportedNode, match="a RIGHT join"):
        multi_join_spec(changed(joinTypes=["INNER", "RIGHT", "LEFT"]))
    with pytest.raises(UnsupportedNode, match="types of compared columns differ"):
        multi_join_spec(changed(joinAttributeMap={"1": [pair(0, 0, 1, 1)]}))
