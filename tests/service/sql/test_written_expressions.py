"""Expressions as they are written: the plan's expression is Flink's, and so are its values."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from operators.expressions import EvaluationFailed, compile_rex
from operators.expressions.compiler import compile_inside
from service.plan.rex import parse_rex
from service.sql import compile_script
from state.types import format_type
from tests.operators.expressions.test_as_flink import Recording, inside

FILES = ("written-times", "written-json", "written-json-made")
WITH = "WITH ('connector' = 'filesystem', 'format' = 'changelog-json')"


@cache
def recording(name: str) -> Recording:
    return Recording(name)


CASES = [(name, case) for name in FILES for case in recording(name).cases]


def written(name: str, case: dict[str, Any]) -> dict[str, Any]:
    """What the text of a case becomes in a plan."""
    columns = ", ".join(f"{n} {format_type(t)}" for n, t in recording(name).types.items())
    made = str(case["type"]).removesuffix(" NOT NULL")
    script = (
        f"CREATE TABLE s ({columns}) {WITH}; CREATE TABLE o (id INT, x {made}) {WITH};"
        f"INSERT INTO o SELECT id, {case['sql']} FROM s"
    )
    nodes = compile_script(script)[-1].document["nodes"]
    (calc,) = [node for node in nodes if "calc" in node["type"]]
    projection: dict[str, Any] = calc["projection"][1]
    return projection


def bare(value: Any) -> Any:
    """An expression without what only says how it was written."""
    if isinstance(value, list):
        return [bare(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: bare(each) for key, each in value.items() if key not in ("syntax", "sqlKind")}


@pytest.mark.parametrize(("name", "case"), CASES, ids=[case["sql"] for _, case in CASES])
def test_as_flink(name: str, case: dict[str, Any]) -> None:
    rex = written(name, case)
    assert bare(rex) == bare(case["rex"])
    found = recording(name)
    rows = [found.row(number, case) for number in range(len(found.rows))]
    if "fails" in case:
        run = compile_rex(parse_rex(rex, ""))
        with pytest.raises(EvaluationFailed):
            [run(row) for row in rows]
        return
    value = compile_inside(parse_rex(rex, ""))
    expected = [inside(each, value.type) for each in case["values"]]
    assert [value.run(row) for row in rows] == expected
