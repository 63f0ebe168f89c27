"""Correlate nodes: what a plan may say of them, and where what it says is wrong."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from service.plan import PlanError, explain, load_plan, unsupported
from service.plan.nodes import Correlate
from service.plan.rex import InputRef
from service.runtime.dataflow import check_plan
from service.settings import FilesSettings, Settings
from tests.oracles import RECORDED

CASES = RECORDED / "plans-more"


def document(case: str = "U02") -> dict[str, Any]:
    """A recorded plan with a correlate node: LEFT JOIN UNNEST ON a condition."""
    (folder,) = CASES.glob(f"{case}_*")
    made: dict[str, Any] = orjson.loads((folder / "plan.json").read_bytes())
    return made


def correlate_of(plan: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(n for n in plan["nodes"] if "correlate" in n["type"])
    return found


def view_of(plan: dict[str, Any]) -> Correlate:
    view = load_plan(plan).node(correlate_of(plan)["id"]).view
    assert isinstance(view, Correlate)
    return view


def test_fields_of_the_correlation_variable_are_columns_of_the_input() -> None:
    view = view_of(document())
    (operand,) = view.call.operands
    assert (view.kind, view.call.name) == ("LEFT", "UNNEST_ROWS")
    assert isinstance(operand, InputRef)
    assert operand.index == 2


def test_a_variable_names_columns_in_its_own_order() -> None:
    """Its type counts, not the names of the input: Flink's planner renames columns there."""
    plan = document()
    variable = correlate_of(plan)["functionCall"]["operands"][0]["expr"]
    variable["type"] = variable["type"].replace("`arr`", "`elements`")
    correlate_of(plan)["functionCall"]["operands"][0]["name"] = "elements"
    assert view_of(plan) == view_of(document())


def _set(*path: str | int, value: Any) -> Any:
    def change(node: dict[str, Any]) -> None:
        place: Any = node
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


CALL = "functionCall"
WRONG = [
    (_set("joinType", value=None), "joinType"),
    (_set("joinType", value="inner"), "joinType"),
    (_set(CALL, value=None), "functionCall"),
    (_set(CALL, value={"kind": "INPUT_REF", "inputIndex": 0, "type": "INT"}), "functionCall"),
    (_set(CALL, "operands", value=[]), "functionCall"),
    (_set(CALL, "operands", 0, "name", value="nobody"), "functionCall/operands/0/name"),
    (_set(CALL, "operands", 0, "name", value="x"), "functionCall"),
    (_set(CALL, "operands", 0, "name", value="m"), "outputType"),
    (
        _set(CALL, "operands", 0, value={"kind": "INPUT_REF", "inputIndex": 99, "type": "INT"}),
        "functionCall/operands/0/inputIndex",
    ),
    (_set("condition", "operands", 0, "inputIndex", value=1), "condition/operands/0/inputIndex"),
    (_set("outputType", value="ROW<`id` INT>"), "outputType"),
]


@pytest.mark.parametrize(("change", "place"), WRONG)
def test_what_is_wrong_is_told_with_node_and_place(change: Any, place: str) -> None:
    plan = document()
    node = correlate_of(plan)
    change(node)
    with pytest.raises(PlanError) as caught:
        load_plan(plan)
    at = plan["nodes"].index(node)
    assert (caught.value.node_id, caught.value.path) == (node["id"], f"/nodes/{at}/{place}")


def test_other_columns_than_the_input_has_do_not_pass() -> None:
    plan = document()
    node = correlate_of(plan)
    node["outputType"] = node["outputType"].replace("`id` INT NOT NULL", "`id` DATE NOT NULL")
    with pytest.raises(PlanError, match="column 0 is INTEGER, but the output says DATE"):
        load_plan(plan)


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        (_set("joinType", value="FULL"), "joinType", "FULL cannot join"),
        (
            _set(CALL, "internalName", value="$FOO$1"),
            "functionCall",
            "the table function FOO is not supported",
        ),
        (
            _set(CALL, "internalName", value="$UNNEST_ROWS$2"),
            "functionCall",
            "the table function UNNEST_ROWS is not supported",
        ),
    ],
)
def test_what_is_not_run_loads_and_is_named(change: Any, place: str, reason: str) -> None:
    plan = document()
    node = correlate_of(plan)
    change(node)
    (found,) = unsupported(load_plan(plan))
    at = plan["nodes"].index(node)
    assert (found.node_id, found.type) == (node["id"], "stream-exec-correlate_1")
    assert found.path == f"/nodes/{at}/{place}"
    assert reason in found.reason


def test_rows_are_repeated_by_a_whole_number() -> None:
    plan = document("U13")
    correlate_of(plan)[CALL]["operands"][0] = correlate_of(plan)[CALL]["operands"][1]
    with pytest.raises(PlanError, match="cannot repeat a row"):
        load_plan(plan)


def test_it_passes_kinds_on_and_has_no_key() -> None:
    explained = explain(load_plan(document()))
    node = next(n for n in explained.document["nodes"] if "correlate" in n["type"])
    assert node["supported"] is True
    assert node["changelog_mode"] == ["I", "UB", "UA", "D"]
    assert node["upsert_key"] is None
    assert "Correlate(invocation=[$UNNEST_ROWS$1($cor0.arr)]" in explained.text


@pytest.mark.parametrize("folder", sorted(CASES.glob("U*")), ids=lambda folder: folder.name)
def test_recorded_plans_can_be_run(folder: Any) -> None:
    """Columns are made of every function and condition, without a server."""
    check_plan(
        load_plan((folder / "plan.json").read_bytes()),
        Settings(files=FilesSettings(root=folder)),
    )
