"""A column that stands twice in a key: PARTITION BY k, k, and k = x AND k = y in joins.

The latter says that x and y are equal, too: rows in which they differ have no match, and must not
stand in the way of those that have one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from service.plan import load_plan
from service.runtime.dataflow import check_plan
from service.runtime.records import RunOptions
from service.settings import ExecutionSettings, FilesSettings, Settings
from service.sql import compile_script
from tests.oracles.plan_harness import Line, PlanHarness

if TYPE_CHECKING:
    from pathlib import Path

    import redis

WITH = (
    "WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'in', "
    "'changelog-mode' = 'I')"
)
TIMED = f"ts TIMESTAMP(3), WATERMARK FOR ts AS ts) {WITH};\n"
TABLES = (
    f"CREATE TABLE l (k STRING, v INT, {TIMED}CREATE TABLE r (k STRING, j STRING, w INT, {TIMED}"
)
Found = Counter[tuple[Any, ...]]


def at(second: int, table: str, **row: Any) -> Line:
    data = {**row, "ts": f"2020-01-01 00:00:{second:02}"}
    return Line(second, table, {"op": "+I", "data": data})


LEFT = [
    at(1, "l", k="a", v=1),
    at(2, "l", k="b", v=2),
    at(3, "l", k=None, v=3),
    at(4, "l", k="a", v=4),
]
RIGHT = [
    at(1, "r", k="a", j="a", w=10),
    at(2, "r", k="a", j="b", w=20),
    at(3, "r", k=None, j=None, w=30),
    at(4, "r", k="b", j=None, w=40),
]


def run(
    query: str, columns: str, lines: list[Line], folder: Path, client: redis.Redis | None = None
) -> Found:
    """What an insert-only query gives, checked first as for a pipeline."""
    sink = f"CREATE TABLE snk ({columns}) WITH ('connector' = 'blackhole');\n"
    [planned] = compile_script(f"{TABLES}{sink}INSERT INTO snk {query}")
    plan = load_plan(planned.document)
    check_plan(plan, Settings(files=FilesSettings(root=folder)))
    harness = PlanHarness(plan, RunOptions.of(ExecutionSettings()), client)
    try:
        harness.run(lines)
        [found] = harness.collected.values()
    finally:
        harness.close()
    shown: Found = Counter()
    for change in found:
        shown[change.row] += -1 if change.kind.is_retraction else 1
    return +shown


@pytest.mark.parametrize("keys", ["k", "k, k"])
@pytest.mark.parametrize("order", ["ts", "v"])
def test_a_row_number_over_a_column_twice(keys: str, order: str, tmp_path: Path) -> None:
    numbered = f"SELECT k, v, ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order}) n FROM l"
    found = run(f"SELECT k, v FROM ({numbered}) WHERE n = 1", "k STRING, v INT", LEFT, tmp_path)

    assert found == {("a", 1): 1, ("b", 2): 1, (None, 3): 1}


def test_a_sum_over_a_column_twice(tmp_path: Path) -> None:
    query = "SELECT k, v, SUM(v) OVER (PARTITION BY k, k ORDER BY ts) FROM l"

    found = run(query, "k STRING, v INT, s INT", LEFT, tmp_path)

    assert found == {("a", 1, 1): 1, ("b", 2, 2): 1, (None, 3, 3): 1, ("a", 4, 5): 1}


def windows(table: str) -> str:
    return f"TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(ts), INTERVAL '10' SECOND))"


def test_a_window_rank_over_a_column_twice(tmp_path: Path) -> None:
    over = "PARTITION BY window_start, window_end, k, k ORDER BY v DESC"
    ranked = f"SELECT k, v, ROW_NUMBER() OVER ({over}) n FROM {windows('l')}"

    found = run(f"SELECT k, v FROM ({ranked}) WHERE n = 1", "k STRING, v INT", LEFT, tmp_path)

    assert found == {("a", 4): 1, ("b", 2): 1, (None, 3): 1}


JOINS = {
    "regular": "l {} JOIN r ON l.k = r.k AND l.k = r.j",
    "window": f"(SELECT * FROM {windows('l')}) l {{}} JOIN (SELECT * FROM {windows('r')}) r "
    "ON l.k = r.k AND l.k = r.j AND l.window_start = r.window_start "
    "AND l.window_end = r.window_end",
    "interval": "l {} JOIN r ON l.k = r.k AND l.k = r.j "
    "AND l.ts BETWEEN r.ts - INTERVAL '9' SECOND AND r.ts + INTERVAL '9' SECOND",
}
MATCHED: dict[tuple[Any, ...], int] = {(1, 10): 1, (4, 10): 1}
PADDED: dict[tuple[Any, ...], int] = {(2, None): 1, (3, None): 1}


@pytest.mark.parametrize("on_redis", [False, True])
@pytest.mark.parametrize("outer", ["INNER", "LEFT", "FULL"])
@pytest.mark.parametrize("kind", sorted(JOINS))
def test_both_equalities_of_a_join_hold(
    kind: str, outer: str, on_redis: bool, tmp_path: Path, redis_client: redis.Redis
) -> None:
    query = f"SELECT l.v, r.w FROM {JOINS[kind].format(outer)}"

    client = redis_client if on_redis else None
    found = run(query, "v INT, w INT", [*LEFT, *RIGHT], tmp_path, client)

    right = {(None, 20): 1, (None, 30): 1, (None, 40): 1}
    assert found == MATCHED | (PADDED if outer != "INNER" else {}) | (
        right if outer == "FULL" else {}
    )


@pytest.mark.parametrize("outer", ["INNER", "LEFT"])
def test_a_version_in_which_the_columns_differ_hides_none_in_which_they_do_not(
    outer: str, tmp_path: Path
) -> None:
    """Keyed by one of the columns alone, the later version of the same k would be the only one."""
    versions = (
        "CREATE VIEW versions AS SELECT k, j, w, ts FROM (SELECT *, ROW_NUMBER() OVER "
        "(PARTITION BY k, j ORDER BY ts DESC) n FROM r) WHERE n = 1;\n"
    )
    join = f"l {outer} JOIN versions FOR SYSTEM_TIME AS OF l.ts AS r ON l.k = r.k AND l.k = r.j"
    sink = "CREATE TABLE snk (v INT, w INT) WITH ('connector' = 'blackhole');\n"
    script = f"{TABLES}{versions}{sink}INSERT INTO snk SELECT l.v, r.w FROM {join}"
    plan = load_plan(compile_script(script)[-1].document)
    check_plan(plan, Settings(files=FilesSettings(root=tmp_path)))
    harness = PlanHarness(plan, RunOptions.of(ExecutionSettings()))
    harness.run([*LEFT, *RIGHT])
    [found] = harness.collected.values()
    harness.close()

    assert Counter(each.row for each in found) == MATCHED | (PADDED if outer == "LEFT" else {})


def test_null_equals_null_in_both_comparisons(tmp_path: Path) -> None:
    on = "l.k IS NOT DISTINCT FROM r.k AND l.k IS NOT DISTINCT FROM r.j"

    found = run(f"SELECT l.v, r.w FROM l JOIN r ON {on}", "v INT, w INT", [*LEFT, *RIGHT], tmp_path)

    assert found == MATCHED | {(3, 30): 1}
