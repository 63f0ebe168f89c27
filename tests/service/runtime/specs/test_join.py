"""Specs of regular joins, out of plans that Flink wrote, and what they emit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operators.join.semi_anti import SemiAntiJoinSpec
from operators.join.side_state import CountPerRow, OneRow, RowPerUniqueKey
from operators.join.streaming import StreamingJoin, StreamingJoinSpec
from operators.testing.operator_harness import OperatorHarness
from service.plan import PlanError, load_plan
from service.plan.properties import JsonObject
from service.runtime.specs import StatefulNode
from service.runtime.specs.join import join_spec
from service.runtime.specs.join_spec import JoinKeys
from tests.service.runtime.specs.join_cases import (
    CASES,
    compare,
    node_of,
    replay,
    spec_of,
    steps_of,
)

DAY = 86_400_000
L_R = ["id", "k", "lv", "id0", "k0", "rv"]


@pytest.mark.parametrize(
    ("case", "tables", "columns", "options"),
    [
        ("070_join_inner", "lr", L_R, {}),
        ("071_join_left", "lr", L_R, {}),
        ("074_join_semi", "lr", ["id", "k", "lv"], {}),
        (
            "076_join_unique_key_both",
            "lr",
            ["id", "lv", "rv"],
            {"dropped": [("l", "-U"), ("r", "-U")]},
        ),
        ("078_join_append_no_key", "lr", ["k", "lv", "rv"], {}),
        ("080_state_ttl_hint_join", "lr", ["id", "k", "lv", "id0", "rv"], {}),
    ],
)
def test_a_recorded_case(
    case: str, tables: str, columns: list[str], options: dict[str, Any]
) -> None:
    assert replay(case, "join", tables, columns, **options) is None


def test_a_recorded_case_whose_right_side_expires() -> None:
    """The calcs of the plan: of right rows those that are shipped, without a column."""
    case = "007_flip292_example2_ttl_right"
    at = node_of(case, "join")
    steps = steps_of(
        case,
        at,
        ["Orders", "Logistics"],
        keep=lambda table, data: table == "Orders" or data["shipment_status"] == "SHIPPED",
        renamed={"order_shipped_ts": "gmt_modified"},
    )
    emitted = OperatorHarness.on_heap(spec_of(case, "join")).run(steps)
    columns = ["order_line_id", "order_id", "product_id", "gmt_create", "order_shipped_ts"]
    assert compare(case, at, emitted, columns) is None


def test_what_is_known_of_sides_decides_what_is_kept() -> None:
    kept = {
        "070_join_inner": (RowPerUniqueKey, RowPerUniqueKey),
        "074_join_semi": (RowPerUniqueKey, CountPerRow),
        "076_join_unique_key_both": (OneRow, OneRow),
        "007_flip292_example2_ttl_right": (OneRow, RowPerUniqueKey),
        "078_join_append_no_key": (CountPerRow, CountPerRow),
    }
    for case, sides in kept.items():
        operator = spec_of(case, "join").operator()
        found = tuple(type(side.state) for side in operator.sides)
        assert found == sides, case


def test_each_side_has_the_ttl_of_the_plan() -> None:
    assert spec_of("080_state_ttl_hint_join", "join").ttl_ms == (3 * DAY, DAY // 2)
    first, second = (spec_of("083_state_ttl_hint_cascade", "join", place) for place in (0, 1))
    assert (first.ttl_ms, second.ttl_ms) == ((DAY, 2 * DAY), (0, 3 * DAY))
    (left, right) = StreamingJoin(first).sides
    assert (left.state.descriptor.name, right.state.descriptor.name) == ("leftState", "rightState")
    assert left.state.descriptor.ttl.ttl_ms == DAY


def changed(case: str, *, with_mini_batch: bool = False, **properties: Any) -> StatefulNode:
    document = json.loads((CASES / case / "plan.json").read_text())
    if with_mini_batch:
        (scan, *_) = [each for each in document["nodes"] if "table-source-scan" in each["type"]]
        assigner = {
            "id": 99,
            "type": "stream-exec-mini-batch-assigner_1",
            "miniBatchInterval": {"interval": 1000, "mode": "ProcTime"},
            "inputProperties": [
                {
                    "requiredDistribution": {"type": "UNKNOWN"},
                    "damBehavior": "PIPELINED",
                    "priority": 0,
                }
            ],
            "outputType": scan["outputType"],
            "description": "MiniBatchAssigner",
        }
        document["nodes"].append(assigner)
        (edge,) = [each for each in document["edges"] if each["source"] == scan["id"]]
        document["edges"].append({**edge, "target": 99})
        edge["source"] = 99
    (node,) = [each for each in document["nodes"] if each["type"] == "stream-exec-join_1"]
    for name, value in properties.items():
        if value is None:
            node.pop(name)
        elif isinstance(value, dict):
            node[name] = {**node.get(name, {}), **value}
        else:
            node[name] = value
    plan = load_plan(document)
    return StatefulNode(plan.node(node["id"]), plan)


def test_old_plans_say_unique_keys_and_no_state() -> None:
    at = changed(
        "070_join_inner",
        leftUpsertKeys=None,
        rightUpsertKeys=None,
        leftUniqueKeys=[[0, 2], [0]],
        rightUniqueKeys=[[2], [1]],
        state=None,
    )
    spec = join_spec(at)
    assert isinstance(spec, StreamingJoinSpec)
    assert spec.unique_keys == ((0,), (1,))
    assert spec.ttl_ms == (0, 0)


def test_a_column_that_is_compared_twice() -> None:
    """In the key once, and beside it row by row, with NULL equal to NULL or not."""
    given = {"leftKeys": [1, 1], "rightKeys": [1, 2], "filterNulls": [True, True]}
    keys = JoinKeys.of(JsonObject(given, "/joinSpec"))
    assert keys == JoinKeys((1, 1), (1, 2), (True, True))
    assert keys.each_once() == JoinKeys((1,), (1,), (True,), ((1, 2),))

    spec = join_spec(changed("070_join_inner", joinSpec={**given, "filterNulls": [True, False]}))

    assert isinstance(spec, StreamingJoinSpec)
    assert [each.key for each in spec.inputs] == [(1,), (1,)]
    assert (spec.equalities, spec.null_equalities) == ((), ((1, 2),))


def test_columns_of_different_types_are_refused() -> None:
    with pytest.raises(PlanError, match="different types are compared"):
        join_spec(changed("070_join_inner", joinSpec={"leftKeys": [0]}))


def test_mini_batch_makes_bundles_but_not_of_semi_joins() -> None:
    """The node says nothing of it; the plan has nodes that are there only with it."""
    assert not join_spec(changed("070_join_inner")).bundles
    assert join_spec(changed("070_join_inner", with_mini_batch=True)).bundles
    semi = join_spec(changed("074_join_semi", with_mini_batch=True))
    assert isinstance(semi, SemiAntiJoinSpec)
    assert not semi.bundles


def test_a_join_of_all_with_all() -> None:
    joined = join_spec(
        changed("070_join_inner", joinSpec={"leftKeys": [], "rightKeys": [], "filterNulls": []})
    )
    assert [each.key for each in joined.inputs] == [(), ()]
    assert node_of("070_join_inner", "join").output == joined.output
