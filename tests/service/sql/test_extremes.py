"""MAX and MIN over what takes rows back: the row that is gone must not be the result."""

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
    f"CREATE TABLE a (id INT, k STRING, x INT) {WITH.format('I')}"
    f"CREATE TABLE b (id INT, y INT) {WITH.format('I')}"
    f"CREATE TABLE u (id INT NOT NULL, y INT, PRIMARY KEY (id) NOT ENFORCED) "
    f"{WITH.format('I,UA,D')}"
    f"CREATE TABLE snk (v BIGINT) {WITH.format('retract')}"
)
Step = tuple[str, str, tuple[Any, ...]]
COLUMNS = {"a": ("id", "k", "x"), "b": ("id", "y"), "u": ("id", "y")}

A: list[Step] = [("a", "+I", (1, "p", 10)), ("a", "+I", (2, "q", 5))]
B: list[Step] = [("b", "+I", (1, 7))]
U: list[Step] = [("u", "+I", (1, 0)), ("u", "+I", (2, 0)), ("u", "-D", (2, 0))]
NULLS: list[Step] = [("a", "+I", (1, "p", 5)), *[("a", "+I", (at, "p", None)) for at in (2, 3)]]
BETTER: list[Step] = [("a", "+I", (1, "p", 10)), ("a", "+I", (2, "p", 5)), ("b", "+I", (1, 7))]
COUNTED: list[Step] = [("a", "+I", (at, k, 1)) for at, k in enumerate("pqppp")]

CASES: dict[str, tuple[str, list[Step], list[int | None]]] = {
    "a row that was padded": (
        "SELECT MAX(a.x) FROM a LEFT JOIN b ON a.id = b.id GROUP BY b.y",
        A + B,
        [5, 10],
    ),
    "a value of a row that was padded": (
        "SELECT MAX(b.y) FROM a FULL JOIN b ON a.id = b.id GROUP BY a.k",
        [("b", "+I", (1, 7)), ("b", "+I", (3, 4)), *A],
        [7, None, 4],
    ),
    "a key that is deleted": ("SELECT MAX(id) FROM u", U, [1]),
    "a group that is deleted": (
        "SELECT MAX(id) FROM (SELECT id, COUNT(*) AS c FROM u GROUP BY id)",
        U,
        [1],
    ),
    "a row whose match is deleted": (
        "SELECT MIN(x) FROM a WHERE id IN (SELECT id FROM u)",
        A + U,
        [10],
    ),
    "a count that a condition takes out": (
        "SELECT MAX(c) FROM (SELECT k, COUNT(*) AS c FROM a GROUP BY k HAVING COUNT(*) < 4)",
        COUNTED,
        [1],
    ),
    "a count that FILTER takes out": (
        "SELECT MAX(c) FILTER (WHERE c < 4) FROM (SELECT k, COUNT(*) AS c FROM a GROUP BY k)",
        COUNTED,
        [1],
    ),
    "a first row that another one replaces": (
        "SELECT MAX(x) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS n FROM a) "
        "WHERE n = 1",
        BETTER,
        [5],
    ),
    "a first row by several columns": (
        "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id DESC, x) AS n "
        "FROM a) WHERE n = 1",
        BETTER,
        [2],
    ),
    "a first row that was joined": (
        "SELECT f.x FROM (SELECT * FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) "
        "= 1) AS f JOIN b ON f.id = b.id",
        BETTER,
        [],
    ),
    "a row that NULL pushes out": (
        "SELECT MIN(x) FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS n FROM a) "
        "WHERE n <= 2 GROUP BY k",
        NULLS,
        [None],
    ),
}


@pytest.mark.parametrize(("query", "steps", "wanted"), CASES.values(), ids=CASES)
def test_the_extreme_is_of_rows_that_are_there(
    query: str, steps: list[Step], wanted: list[int | None]
) -> None:
    [planned] = compile_script(f"{TABLES}INSERT INTO snk {query}")
    harness = PlanHarness(load_plan(planned.document), RunOptions.of(ExecutionSettings()))
    lines = [
        Line(at, table, {"op": op, "data": dict(zip(COLUMNS[table], row, strict=True))})
        for at, (table, op, row) in enumerate(steps)
    ]
    try:
        harness.run(lines)
        [found] = harness.collected.values()
    finally:
        harness.close()

    assert materialize(found) == {(value,): 1 for value in wanted}
