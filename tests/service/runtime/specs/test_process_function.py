"""Plans that call functions of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from operators.errors import FunctionUnavailable
from operators.process_function import ProcessFunctionSpec
from service.plan import load_plan
from service.runtime.dataflow import check_plan, stateful_nodes
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.event_time import event_times
from service.runtime.specs import BUILDERS, StatefulNode
from service.settings import FilesSettings, Settings
from tests.operators.functions import announce
from tests.service.plan.builders import recorded_plan

if TYPE_CHECKING:
    from pathlib import Path

    from service.plan import CompiledPlan


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, custom_window: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example, installed; and the functions of the tests."""
    announce(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(custom_window))


DOMAIN = {"kind": "LITERAL", "value": "processing", "type": "CHAR(10) NOT NULL"}
LITERAL = {"kind": "LITERAL", "value": "v", "type": "CHAR(1) NOT NULL"}
SIZE = {"kind": "LITERAL", "value": 60_000, "type": "INT NOT NULL"}
DESCRIPTOR = {
    "kind": "CALL",
    "internalName": "$DESCRIPTOR$1",
    "operands": [{"kind": "LITERAL", "value": "ts", "type": "CHAR(2) NOT NULL"}],
    "type": "DESCRIPTOR NOT NULL",
}
DEFAULT = {
    "kind": "CALL",
    "syntax": "SPECIAL",
    "internalName": "$DEFAULT$1",
    "operands": [],
    "type": "VARCHAR(2147483647)",
}


def call(*operands: Any, keys: list[int] | None = None, name: str = "CustomWindow") -> Any:
    """The spec of a plan that calls the function."""
    plan, node = calling(*operands, keys=keys, name=name)
    return BUILDERS["process-table-function"](StatefulNode(plan.node(node), plan))


def calling(
    *operands: Any, keys: list[int] | None = None, name: str = "CustomWindow", timed: bool = True
) -> tuple[CompiledPlan, int]:
    """A plan that calls the function in place of the OVER node of a recorded one, and the node."""
    document = recorded_plan("131_")
    [node] = [each for each in document["nodes"] if "overSpec" in each]
    row = document["nodes"][2]["outputType"]
    table = {"kind": "TABLE_ARG_CALL", "inputIndex": 0, "type": row}
    table["partitionKeys"] = [0] if keys is None else keys
    with_time = ", `rowtime` TIMESTAMP(3)" if DESCRIPTOR in operands else ""
    output = f"ROW<`k` STRING, `total` BIGINT{with_time}>"
    node |= {
        "type": "stream-exec-process-table-function_1",
        "uid": "f",
        "functionCall": {
            "kind": "CALL",
            "catalogName": f"`cat`.`db`.`{name}`",
            "operands": [table, *operands],
            "type": output,
        },
        "inputChangelogModes": [["INSERT"]],
        "outputChangelogMode": ["INSERT"],
        "outputType": output,
    }
    null = {"kind": "LITERAL", "value": None, "type": "INT"}
    first = {"kind": "INPUT_REF", "inputIndex": 0, "type": "VARCHAR(2147483647)"}
    document["nodes"][4]["projection"] = [first, null, null]
    if not timed:
        document["nodes"][1] = {
            **document["nodes"][1],
            "type": "stream-exec-drop-update-before_1",
        }
        del document["nodes"][1]["watermarkExpr"], document["nodes"][1]["rowtimeFieldIndex"]
    return load_plan(document), node["id"]


def test_a_plan_calls_a_function_by_name() -> None:
    built = call(LITERAL, SIZE, DESCRIPTOR, DEFAULT)
    assert isinstance(built, ProcessFunctionSpec)
    assert (built.function, built.time_columns) == ("CustomWindow", (2,))
    assert built.arguments == {"column": "v", "size_ms": 60_000}
    built.operator()


def test_a_function_without_row_time_runs_on_a_table_without_watermark(tmp_path: Path) -> None:
    settings = Settings(files=FilesSettings(root=tmp_path))
    without, node = calling(DOMAIN, name="Ticking", timed=False)
    [operator] = stateful_nodes(without)
    check_plan(without, settings)
    assert operator.node_id == node
    assert event_times(without, [operator]).inputs == {node: ()}

    within, node = calling(DOMAIN, name="Ticking")
    check_plan(within, settings)
    [operator] = stateful_nodes(within)
    assert event_times(within, [operator]).inputs == {node: ((("2", 0),),)}


@pytest.mark.parametrize(
    ("name", "operands"),
    [("Ticking", (DOMAIN, DESCRIPTOR)), ("Lasting", ())],
    ids=["on_time", "ttl"],
)
def test_row_time_and_a_ttl_in_event_time_want_a_watermark(
    tmp_path: Path, name: str, operands: Any
) -> None:
    plan, _ = calling(*operands, name=name, timed=False)

    with pytest.raises(UnsupportedNode, match="waits for watermarks"):
        check_plan(plan, Settings(files=FilesSettings(root=tmp_path)))


@pytest.mark.parametrize(
    ("operands", "keys", "reason"),
    [
        ((LITERAL, SIZE, DESCRIPTOR), [], "without PARTITION BY"),
        ((LITERAL,), None, "takes 2 arguments"),
        ((LITERAL, DESCRIPTOR, DESCRIPTOR), None, "neither tables nor literals"),
    ],
)
def test_what_a_call_cannot_be(operands: Any, keys: list[int] | None, reason: str) -> None:
    with pytest.raises(UnsupportedNode, match=reason):
        call(*operands, keys=keys)


def test_a_plan_with_a_function_that_is_not_installed() -> None:
    with pytest.raises(FunctionUnavailable):
        call(LITERAL, SIZE, DESCRIPTOR, name="Other")
