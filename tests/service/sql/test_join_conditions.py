"""Conditions of joins that may not be rewritten, or not wholly: the rows must be there."""

from __future__ import annotations

from typing import Any

import pytest

from operators.changelog import materialize
from service.plan import load_plan
from service.runtime.records import RunOptions
from service.settings import ExecutionSettings
from service.sql import compile_script
from tests.oracles.plan_harness import Line, PlanHarness

WITH = "WITH ('connector'='filesystem','path'='x','format'='changelog-json','changelog-mode'='{}');"
TABLES = (
    f"CREATE TABLE a (k STRING, g INT, x INT, m DECIMAL(10, 2)) {WITH.format('I')}"
    f"CREATE TABLE b (k STRING, y INT, m DECIMAL(5, 1)) {WITH.format('I')}"
    f"CREATE TABLE snk (x INT, y INT) {WITH.format('retract')}"
)
ROWS: list[tuple[str, dict[str, Any]]] = [
    ("a", {"k": "p", "g": 1, "x": 1, "m": "1.00"}),
    ("a", {"k": "p", "g": 1, "x": None, "m": None}),
    ("b", {"k": "p", "y": 1, "m": "1.0"}),
    ("b", {"k": "p", "y": None, "m": None}),
]


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN"])
@pytest.mark.parametrize(
    "condition",
    [
        "a.m = b.m WHERE CAST(a.m AS STRING) = '1.00'",
        "a.m = b.m WHERE CHAR_LENGTH(CAST(a.m AS STRING)) > 3",
        "a.g = b.y AND (a.x = b.y OR (a.x IS NULL AND b.y IS NULL)) WHERE b.y > 0",
    ],
)
def test_the_rows_that_meet_are_joined(kind: str, condition: str) -> None:
    query = f"SELECT a.x, b.y FROM a {kind} b ON {condition}"
    [planned] = compile_script(f"{TABLES}INSERT INTO snk {query}")
    harness = PlanHarness(load_plan(planned.document), RunOptions.of(ExecutionSettings()))
    try:
        harness.run(
            [Line(at, table, {"op": "+I", "data": row}) for at, (table, row) in enumerate(ROWS)]
        )
        [found] = harness.collected.values()
    finally:
        harness.close()

    assert materialize(found) == {(1, 1): 1}
