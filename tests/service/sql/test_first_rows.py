"""Rank 1 of inserts by a value: Flink's plan where a sink overwrites, one with retractions else."""

from __future__ import annotations

from typing import Any

import pytest

from operators.changelog import materialize, materialize_upserts
from service.plan import load_plan
from service.runtime.records import RunOptions
from service.settings import ExecutionSettings
from service.sql import compile_script
from tests.oracles.compile import edge_modes
from tests.oracles.plan_harness import Line, PlanHarness

WITH = "WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'changelog-json'"
SOURCE = f"CREATE TABLE s (id INT, k STRING, x INT) {WITH}, 'changelog-mode' = 'I');"
FIRST = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS n FROM s"
ROWS = [(1, "p", 10), (2, "p", 5), (3, "q", 7), (4, "p", 6)]


def sink(columns: str, key: str, mode: str = "upsert") -> str:
    columns = f"{columns}, PRIMARY KEY ({key}) NOT ENFORCED"
    return f"CREATE TABLE o ({columns}) {WITH}, 'changelog-mode' = '{mode}');"


@pytest.mark.parametrize(
    ("table", "query", "is_flinks", "key", "wanted"),
    [
        (sink("k STRING, x INT", "k"), "k, x", True, (0,), {("p", 5), ("q", 7)}),
        (sink("y INT, k STRING", "k"), "x + 1, k", True, (1,), {(6, "p"), (8, "q")}),
        (sink("k STRING, x INT", "k", "retract"), "k, x", False, (0,), {("p", 5), ("q", 7)}),
    ],
)  # fmt: skip  # a case a line
def test_a_sink_has_the_first_row_of_each_partition(
    table: str, query: str, is_flinks: bool, key: tuple[int, ...], wanted: set[Any]
) -> None:
    assert run(table, f"SELECT {query} FROM ({FIRST}) WHERE n = 1", key) == (is_flinks, wanted)


def test_a_row_that_a_row_of_another_key_replaces_goes() -> None:
    query = f"SELECT id, k FROM ({FIRST}) WHERE n = 1 ON CONFLICT DO DEDUPLICATE"

    assert run(sink("id INT, k STRING", "id"), query, (0,)) == (False, {(2, "p"), (3, "q")})


def test_a_row_whose_replacement_is_filtered_out_goes() -> None:
    query = f"SELECT k, x FROM ({FIRST}) WHERE n = 1 AND x > 5"

    assert run(sink("k STRING, x INT", "k"), query, (0,)) == (False, {("q", 7)})


def test_a_first_row_that_another_rank_reads_goes() -> None:
    inner = FIRST.replace("ORDER BY x", "ORDER BY x DESC, id")
    query = (
        "SELECT k, x FROM (SELECT k, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS m "
        f"FROM ({inner}) WHERE n = 1) WHERE m = 1"
    )

    found = run(sink("k STRING, x INT", "k"), query, (0,))

    assert found == (False, {("p", 10), ("q", 7)})


def run(table: str, query: str, key: tuple[int, ...]) -> tuple[bool, set[Any]]:
    """Whether all edges carry inserts only, as in Flink, and the sink's table."""
    [planned] = compile_script(f"{SOURCE}{table}INSERT INTO o {query}")
    harness = PlanHarness(load_plan(planned.document), RunOptions.of(ExecutionSettings()))
    try:
        names = ("id", "k", "x")
        harness.run(
            [
                Line(at, "s", {"op": "+I", "data": dict(zip(names, row, strict=True))})
                for at, row in enumerate(ROWS)
            ]
        )
        [found] = harness.collected.values()
    finally:
        harness.close()
    is_retract = "'retract'" in table
    rows = {*materialize(found)} if is_retract else {*materialize_upserts(found, key).values()}
    return {*edge_modes(planned)} == {"I"}, rows
