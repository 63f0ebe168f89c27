"""What a query of changing tables gives in the end is what DuckDB gives of the tables."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.changelog import RowKind
from service.plan import CompiledPlan, load_plan
from service.runtime.records import PipelineOptions
from service.settings import ExecutionSettings
from service.sql import compile_script
from tests.batch_sql import batch_sql
from tests.oracles.plan_harness import Line, PlanHarness

CHANGING = (
    "WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'changelog-json', "
    "'changelog-mode' = 'I,UB,UA,D')"
)
COLUMNS = ("k", "x", "p", "q")
DECLARED = "k STRING, x INT, p BOOLEAN, q BOOLEAN"
BATCH = "k VARCHAR, x INTEGER, p BOOLEAN, q BOOLEAN"
TABLES = ("a", "b", "c")

QUERIES = {
    "two constants that are compared": (
        "SELECT a.x, b.x FROM a JOIN b ON a.x = b.x WHERE a.x = 1 AND b.x = 2",
        "",
    ),
    "two constants that are the same": (
        "SELECT a.x, b.x FROM a JOIN b ON a.x = b.x WHERE a.x = 1 AND b.x = 1",
        "",
    ),
    "WITH inside of WITH": (
        "WITH b AS (SELECT x FROM a WHERE x = 1) SELECT n.x, b.x FROM "
        "(WITH b AS (SELECT x FROM a WHERE x = 2) SELECT x FROM b) AS n, b",
        "",
    ),
    "WITH of its own name": (
        "WITH b AS (SELECT x FROM b WHERE x = 1) SELECT x, x FROM b",
        "SELECT x, x FROM b WHERE x = 1",
    ),
    "LIMIT behind brackets": (
        "SELECT x, 0 FROM ((SELECT x FROM a) ORDER BY x DESC LIMIT 1) AS l",
        "SELECT x, 0 FROM (SELECT x FROM a ORDER BY x DESC LIMIT 1) AS l",
    ),
    "IN what stands in brackets": (
        "SELECT x, 0 FROM b WHERE x IN ((SELECT x FROM a) ORDER BY x DESC LIMIT 1)",
        "SELECT x, 0 FROM b WHERE x IN (SELECT x FROM a ORDER BY x DESC LIMIT 1)",
    ),
    "a comma before RIGHT JOIN": (
        "SELECT a.x, c.x FROM a, b RIGHT JOIN c ON b.k = c.k",
        "SELECT a.x, j.x FROM a, (SELECT c.x FROM b RIGHT JOIN c ON b.k = c.k) AS j",
    ),
    "a comma before NATURAL JOIN": (
        "SELECT a.x, n.x FROM a, (SELECT k, x FROM b) AS n NATURAL JOIN (SELECT x FROM c) AS d",
        "SELECT a.x, b.x FROM a, b JOIN c ON b.x = c.x",
    ),
    "a comma before USING": (
        "SELECT a.x, x2 FROM a, (SELECT k, x AS x2 FROM b) AS n JOIN (SELECT k FROM c) AS d "
        "USING (k)",
        "SELECT a.x, b.x FROM a, b JOIN c ON b.k = c.k",
    ),
    "IS NULL behind a comparison": ("SELECT x, x FROM a WHERE p = q IS NULL", ""),
    "IS TRUE behind a comparison": ("SELECT x, x FROM a WHERE x > 1 IS NOT TRUE", ""),
    "IS DISTINCT FROM behind a comparison": (
        "SELECT x, x FROM a WHERE p = q IS NOT DISTINCT FROM p",
        "SELECT x, x FROM a WHERE p = (q IS NOT DISTINCT FROM p)",
    ),
    "UNION before INTERSECT": (
        "SELECT x, x FROM a UNION SELECT x, x FROM b INTERSECT SELECT x, x FROM c",
        "SELECT x, x FROM a UNION SELECT * FROM "
        "(SELECT x, x FROM b INTERSECT SELECT x, x FROM c)",
    ),
    "EXISTS that asks of the row outside only": (
        "SELECT x, x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.x = 1)",
        "",
    ),
    "NOT EXISTS that asks of both": (
        "SELECT x, x FROM a WHERE NOT EXISTS (SELECT x FROM b WHERE a.p IS NULL AND b.x = 2)",
        "",
    ),
    "what is computed of a correlated aggregate": (
        "SELECT x, (SELECT COALESCE(MAX(x), 0) + 1 FROM b WHERE b.k = a.k) FROM a",
        "",
    ),
    "a correlated count inside of an expression": (
        "SELECT x, (SELECT CASE WHEN COUNT(*) > 1 THEN MIN(x) ELSE 7 END FROM b WHERE b.k = a.k) "
        "FROM a",
        "",
    ),
    "a product of a correlated aggregate that is compared": (
        "SELECT x, x FROM a WHERE x < (SELECT 2 * MAX(x) FROM b WHERE b.k = a.k)",
        "",
    ),
    "a place that is asked for more than a limit": (
        "SELECT x, CAST(n AS INT) FROM (SELECT x, ROW_NUMBER() OVER "
        "(PARTITION BY k ORDER BY x, p, q) AS n FROM a) WHERE n <= 3 AND n <> 2 AND n IS NOT NULL",
        "",
    ),
    "an empty text in state": (
        "SELECT a.x, CHAR_LENGTH(n.e) FROM a LEFT JOIN (SELECT '' AS e, k FROM b) AS n "
        "ON a.k = n.k",
        "SELECT a.x, LENGTH(n.e) FROM a LEFT JOIN (SELECT '' AS e, k FROM b) AS n ON a.k = n.k",
    ),
}  # fmt: skip  # a query and what it means, side by side
ROWS = st.tuples(
    st.sampled_from(["x", "y", None]),
    st.sampled_from([1, 2, None]),
    st.sampled_from([True, False, None]),
    st.sampled_from([True, None]),
)
CHANGES = st.lists(st.tuples(st.sampled_from(TABLES), ROWS, st.booleans()), max_size=12)


@pytest.mark.parametrize(("query", "meaning"), QUERIES.values(), ids=QUERIES)
@settings(max_examples=15)
@given(drawn=CHANGES)
def test_a_query_of_changing_tables(query: str, meaning: str, drawn: list[Any]) -> None:
    tables, lines = _changes(drawn)

    found = _streamed(query, lines)

    assert found == _batched(meaning or query, tables)


def _changes(drawn: list[Any]) -> tuple[dict[str, Counter[Any]], list[Line]]:
    """The tables in the end, and the changes that led there."""
    tables: dict[str, Counter[Any]] = {each: Counter() for each in TABLES}
    lines = []
    for at, (table, row, retracts) in enumerate(drawn):
        kind = "-D" if retracts and tables[table][row] else "+I"
        tables[table][row] += 1 if kind == "+I" else -1
        data = dict(zip(COLUMNS, row, strict=True))
        lines.append(Line(at * 10, table, {"op": kind, "data": data}))
    return tables, lines


@cache
def _planned(query: str) -> CompiledPlan:
    sources = [f"CREATE TABLE {each} ({DECLARED}) {CHANGING.format(each)};" for each in TABLES]
    sink = "CREATE TABLE snk (x INT, y INT) WITH ('connector' = 'filesystem', 'path' = 'snk', "
    sink += "'format' = 'changelog-json', 'changelog-mode' = 'retract');"
    script = "\n".join([*sources, sink, f"COMPILE PLAN 'p' FOR INSERT INTO snk {query};"])
    return load_plan(compile_script(script)[-1].document)


def _streamed(query: str, lines: list[Line]) -> Counter[Any]:
    harness = PlanHarness(_planned(query), PipelineOptions().resolved(ExecutionSettings()))
    harness.run(lines)
    harness.close()
    (collected,) = harness.collected.values()
    found: Counter[Any] = Counter()
    for each in collected:
        found[each.row] += 1 if each.kind in (RowKind.INSERT, RowKind.UPDATE_AFTER) else -1
        assert found[each.row] >= 0, "a row is taken back that is not there"
    return +found


def _batched(query: str, tables: dict[str, Counter[Any]]) -> Counter[Any]:
    given_tables = {name: (BATCH, rows.elements()) for name, rows in tables.items()}
    return Counter(batch_sql(query, **given_tables))
