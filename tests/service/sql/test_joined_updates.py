"""Joins that compare more than their key: what does not meet any more is not joined any more."""

from __future__ import annotations

import re
from typing import Any

import pytest

from operators.changelog import materialize_upserts
from service.plan import load_plan
from service.runtime.records import RunOptions
from service.settings import ExecutionSettings
from service.sql import compile_script
from tests.oracles.plan_harness import Line, PlanHarness

WITH = "WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'changelog-json'"
KEYED = "id INT, v INT, PRIMARY KEY (id) NOT ENFORCED"
TABLES = f"""
CREATE TABLE a ({KEYED}) {WITH});
CREATE TABLE b ({KEYED}) {WITH});
CREATE TABLE c ({KEYED}) {WITH}, 'changelog-mode' = 'I,UA,D');
CREATE TABLE o (id INT, v INT, w INT, PRIMARY KEY (id) NOT ENFORCED)
  {WITH}, 'changelog-mode' = 'upsert');
"""
MULTI = "SET 'table.optimizer.multi-join.enabled' = 'true';"
START = [("a", "+I", 1, 5), ("a", "+I", 2, 6), ("b", "+I", 1, 7), ("b", "+I", 2, 8)]
BELOW = [*START, ("a", "-U", 1, 5), ("a", "+U", 1, 9), ("b", "-U", 2, 8), ("b", "+U", 2, 9)]
UPSERTS = [("a", "+I", 1, 5), ("c", "+U", 1, 7), ("c", "+U", 1, 4), ("c", "+U", 2, 3)]


@pytest.mark.parametrize(
    ("query", "changes", "wanted"),
    [
        ("a.v, b.v FROM a JOIN b ON a.id = b.id AND a.v < b.v", BELOW, [(2, 6, 9)]),
        (
            "a.v, b.v FROM a LEFT JOIN b ON a.id = b.id AND a.v < b.v",
            BELOW,
            [(1, 9, None), (2, 6, 9)],
        ),
        (
            "a.v, 0 FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.id = b.id AND a.v < b.v)",
            BELOW,
            [(2, 6, 0)],
        ),
        ("a.v, 0 FROM a WHERE a.v < ALL (SELECT MIN(v) FROM b)", BELOW, [(2, 6, 0)]),
        ("a.v, c.v FROM a JOIN c ON a.id = c.id AND a.v < c.v", UPSERTS, []),
        (
            "a.v, b.v FROM a JOIN b ON a.id = b.id JOIN c ON a.id = c.id AND c.v > b.v",
            [*UPSERTS, ("b", "+I", 1, 3), ("c", "+U", 1, 2)],
            [],
        ),
    ],
)
@pytest.mark.parametrize("settings", ["", MULTI], ids=["", "multi-join"])
def test_a_table_of_joined_rows_has_those_that_meet(
    settings: str, query: str, changes: list[tuple[str, str, int, int]], wanted: list[Any]
) -> None:
    [planned] = compile_script(f"{settings}{TABLES}INSERT INTO o SELECT a.id, {query}")
    harness = PlanHarness(load_plan(planned.document), RunOptions.of(ExecutionSettings()))
    read = re.findall(r"(?:FROM|JOIN) ([abc])", query)
    try:
        harness.run(
            [
                Line(at, table, {"op": op, "data": {"id": key, "v": value}})
                for at, (table, op, key, value) in enumerate(changes)
                if table in read
            ]
        )
        [found] = harness.collected.values()
    finally:
        harness.close()

    assert sorted(materialize_upserts(found, (0,)).values()) == wanted
