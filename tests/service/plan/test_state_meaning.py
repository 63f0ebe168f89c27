"""What gives state its meaning, and what does not."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import pytest

from service.plan import PlanError, diff, load_plan
from service.plan.local_zone import ZONE_OPTION, with_zone
from service.plan.state_meaning import keeps_state
from service.runtime.dataflow_errors import DataflowError
from service.runtime.operators import stateful_nodes
from service.sql import compile_script
from tests.service.plan.builders import recorded

SOURCE = "'connector' = 'ingress', 'format' = 'changelog-json'"
SCRIPT = f"""
CREATE TABLE t (k STRING, x INT, y INT, many ARRAY<STRING>, ts TIMESTAMP(3), us TIMESTAMP(3),
  WATERMARK FOR ts AS ts)
  WITH ({SOURCE}, 'changelog-mode' = 'I');
CREATE TABLE u (k STRING, y INT, z INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ({SOURCE}, 'changelog-mode' = 'I');
CREATE TABLE v (k STRING, y INT, z INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts,
  PRIMARY KEY (k) NOT ENFORCED) WITH ({SOURCE}, 'changelog-mode' = 'I,UB,UA,D');
CREATE TABLE snk (k STRING, n INT) WITH ('connector' = 'filesystem', 'path' = 'snk',
  'format' = 'changelog-json', 'changelog-mode' = 'retract');
COMPILE PLAN 'p' FOR INSERT INTO snk {{}};
"""
WINDOWS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '{}' MINUTE))"
WINDOW_SUM = "SELECT k, SUM({}) FROM " + WINDOWS + " GROUP BY k, window_start, window_end"
NEAR = (
    "SELECT t.k, {} FROM t JOIN u ON t.k = u.k AND t.ts BETWEEN u.ts AND u.ts + INTERVAL '{}' HOUR"
)
SESSIONS = (
    "SELECT k, x FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTE))"
)
VERSION = "SELECT t.k, v.{} FROM t JOIN v FOR SYSTEM_TIME AS OF t.ts ON t.k = v.k"
TOP = (
    "SELECT k, x FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {} DESC) AS r FROM t) "
    "WHERE r <= 3"
)


def planned(query: str) -> Any:
    return load_plan(compile_script(SCRIPT.format(query))[-1].document)


OUTER = "SELECT t.k, u.y FROM t {} JOIN u ON t.k = u.k AND {}"
SEMI = "SELECT k, x FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.y {} t.x)"
HOURS = (
    "SELECT k, CAST(SUM(h) AS INT) FROM (SELECT k, {} AS h, "
    "CAST(CAST(us AS TIMESTAMP_LTZ(3)) AS STRING) AS at FROM t) WHERE {} GROUP BY k"
)
HOUR = "EXTRACT(HOUR FROM CAST(us AS TIMESTAMP_LTZ(3)))"
TAGS = "SELECT {0}, CAST(COUNT(*) AS INT) FROM {1}, UNNEST(many) AS each ({0}) GROUP BY {0}"


def fates(before: str, after: str) -> set[str]:
    return {each.fate for each in diff(planned(before), planned(after)).states}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SELECT k, SUM(x) FROM t GROUP BY k", "SELECT k, SUM(y) FROM t GROUP BY k"),
        ("SELECT k, SUM(x) FROM t GROUP BY k", "SELECT k, SUM(x * 2) FROM t GROUP BY k"),
        (
            "SELECT k, SUM(x) FROM (SELECT k, x + 1 AS x FROM t) GROUP BY k",
            "SELECT k, SUM(x) FROM (SELECT k, x + 2 AS x FROM t) GROUP BY k",
        ),
        ("SELECT k, SUM(y) FROM t GROUP BY k", "SELECT k, SUM(y) FROM u GROUP BY k"),
        (TOP.format("x"), TOP.format("y")),
        (WINDOW_SUM.format("x", 5), WINDOW_SUM.format("y", 5)),
        (WINDOW_SUM.format("x", 5), WINDOW_SUM.format("x", 6)),
        (NEAR.format("u.y", 1), NEAR.format("u.z", 1)),
        (NEAR.format("u.y", 1), NEAR.format("u.y", 2)),
        (VERSION.format("y"), VERSION.format("z")),
        (OUTER.format("LEFT", "t.x > u.y"), OUTER.format("LEFT", "t.x < u.y")),
        (SEMI.format(">"), SEMI.format("<")),
        ("SELECT k, x FROM t ORDER BY ts, x", "SELECT k, x FROM t ORDER BY ts, y"),
        ("SELECT k, x FROM t ORDER BY x LIMIT 2", "SELECT k, x FROM t ORDER BY y LIMIT 2"),
    ],
)
def test_state_of_other_columns_is_not_read(before: str, after: str) -> None:
    assert "dropped" in fates(before, after)
    assert fates(before, before) == fates(after, after) == {"kept"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("SELECT k, SUM(x) FROM t GROUP BY k", "SELECT k, SUM(x) AS total FROM t GROUP BY k"),
        (
            "SELECT k, SUM(x) FROM t GROUP BY k",
            "SELECT l, SUM(m) FROM (SELECT k AS l, x AS m FROM t) GROUP BY l",
        ),
        (
            "SELECT k, SUM(x) FROM t WHERE y > 1 AND x < 5 GROUP BY k",
            "SELECT k, SUM(x) FROM (SELECT k, x, y FROM t WHERE x < 5) WHERE y > 1 GROUP BY k",
        ),
        (WINDOW_SUM.format("x", 5), WINDOW_SUM.format("x", 5).replace("SELECT k", "SELECT 'a'")),
        (OUTER.format("INNER", "t.x > u.y"), OUTER.format("INNER", "t.x < u.y")),
        (
            OUTER.format("LEFT", "t.x > u.y"),
            "SELECT l, m FROM (SELECT k AS l, x AS m FROM t) "
            "LEFT JOIN (SELECT k AS r, y AS s FROM u) ON l = r AND m > s",
        ),
        (TAGS.format("tag", "t"), TAGS.format("word", "t")),
        (
            "SELECT k, SUM(x) FROM t GROUP BY k, TUMBLE(ts, INTERVAL '5' MINUTE)",
            "SELECT l, SUM(m) FROM (SELECT k AS l, ts AS at, x AS m FROM t) "
            "GROUP BY l, TUMBLE(at, INTERVAL '5' MINUTE)",
        ),
        (
            WINDOW_SUM.format("x", 5),
            "WITH w AS (SELECT k AS l, x AS m, ts AS at FROM t) SELECT l, SUM(m) FROM "
            "TABLE(TUMBLE(TABLE w, DESCRIPTOR(at), INTERVAL '5' MINUTE)) "
            "GROUP BY l, window_start, window_end",
        ),
    ],
)
def test_names_and_what_is_emitted_make_no_difference(before: str, after: str) -> None:
    assert fates(before, after) == {"kept"}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (WINDOW_SUM.format("x", 5), {"dropped", "new"}),
        (NEAR.format("u.y", 1), {"dropped", "new"}),
        ("SELECT k, SUM(x) FROM t GROUP BY k", {"kept"}),
    ],
)
def test_watermarks_are_of_what_goes_by_event_time(query: str, found: set[str]) -> None:
    later = SCRIPT.replace(
        "WATERMARK FOR ts AS ts)", "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)"
    )
    after = load_plan(compile_script(later.format(query))[-1].document)

    assert {each.fate for each in diff(planned(query), after).states} == found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # A table that is joined with itself has its columns twice.
        (
            "SELECT k, SUM(n) FROM (SELECT a.k, a.x AS n FROM t a JOIN t b USING (k)) GROUP BY k",
            "SELECT k, SUM(n) FROM (SELECT a.k, b.x AS n FROM t a JOIN t b USING (k)) GROUP BY k",
        ),
        # Inputs of a union have their columns each for itself.
        (
            "SELECT k, SUM(n) FROM (SELECT k, x AS n FROM t WHERE y > 1 UNION ALL "
            "SELECT k, y AS n FROM t WHERE y < 1) GROUP BY k",
            "SELECT k, SUM(n) FROM (SELECT k, y AS n FROM t WHERE y > 1 UNION ALL "
            "SELECT k, x AS n FROM t WHERE y < 1) GROUP BY k",
        ),
        ("SELECT k, SUM(x) FROM t GROUP BY k", "SELECT k, SUM(x) FROM t WHERE x > 1 GROUP BY k"),
        (
            "SELECT k, MAX(n) FROM (SELECT k, MIN(x) AS n FROM t GROUP BY k, x) GROUP BY k",
            "SELECT k, MAX(n) FROM (SELECT k, MIN(x) AS n FROM t WHERE y > 0 GROUP BY k, x) "
            "GROUP BY k",
        ),
    ],
)
def test_state_of_other_rows_is_not_read(before: str, after: str) -> None:
    assert "dropped" in fates(before, after)
    assert fates(before, before) == fates(after, after) == {"kept"}


FILES = (
    "CREATE TABLE f ({}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json'); "
    "CREATE TABLE o (x STRING, n BIGINT, PRIMARY KEY (x) NOT ENFORCED) "
    "WITH ('connector' = 'redis'); INSERT INTO o SELECT {}, COUNT(*) FROM f GROUP BY {}"
)


@pytest.mark.parametrize(
    ("columns", "fate"),
    [
        ("id INT, y STRING NOT NULL METADATA FROM 'file.name' VIRTUAL", "kept"),
        ("y STRING NOT NULL METADATA FROM 'file.name' VIRTUAL, id INT, more STRING", "kept"),
        ("id INT, x STRING NOT NULL METADATA FROM 'file.path' VIRTUAL", "dropped"),
        ("id INT, x STRING NOT NULL", "dropped"),
    ],
)
def test_metadata_is_known_by_its_key(columns: str, fate: str) -> None:
    name = "y" if "y STRING" in columns else "x"
    first = FILES.format("id INT, x STRING NOT NULL METADATA FROM 'file.name' VIRTUAL", "x", "x")
    before, after = (
        load_plan(compile_script(each)[-1].document)
        for each in (first, FILES.format(columns, name, name))
    )

    assert fate in {each.fate for each in diff(before, after).states}


def test_a_column_beside_those_that_are_read_makes_no_difference() -> None:
    query = TAGS.format("tag", "t")
    wider = SCRIPT.replace("many ARRAY<STRING>", "many ARRAY<STRING>, more INT")
    after = load_plan(compile_script(wider.format(query))[-1].document)
    assert {each.fate for each in diff(planned(query), after).states} == {"kept"}


@pytest.mark.parametrize(
    ("hours", "condition", "found"),
    [
        ("x + 1", "h > 0", {"kept"}),
        (HOUR, "h > 0", {"dropped", "new"}),
        ("x + 1", "at <> ''", {"dropped", "new"}),
    ],
)
def test_a_time_zone_is_of_what_reads_it(hours: str, condition: str, found: set[str]) -> None:
    document = compile_script(SCRIPT.format(HOURS.format(hours, condition)))[-1].document

    def zoned(zone: str | None) -> Any:
        copied = copy.deepcopy(document)
        for node in copied["nodes"]:
            node.get("configuration", {}).pop(ZONE_OPTION, None)
        return load_plan(copied if zone is None else with_zone(copied, zone))

    before, berlin = zoned(None), zoned("Europe/Berlin")
    assert {each.fate for each in diff(before, zoned("UTC")).states} == {"kept"}
    assert {each.fate for each in diff(before, berlin).states} == found


@pytest.mark.parametrize(
    "window",
    [None, [], "w", {}, {"timeField": None}, {"timeField": {"fieldName": ["ts"]}}],
    ids=str,
)
def test_a_window_that_is_none_differs_from_one(window: object) -> None:
    """Plans are compared that no pipeline could be made of."""
    query = "SELECT k, SUM(x) FROM t GROUP BY k, TUMBLE(ts, INTERVAL '5' MINUTE)"
    before = planned(query)
    changed = copy.deepcopy(dict(before.document))
    [node] = [each for each in changed["nodes"] if "group-window-aggregate" in each["type"]]
    if window is None:
        del node["window"]
    else:
        node["window"] = window

    fates_found = {each.fate for each in diff(before, load_plan(changed)).states}
    assert fates_found == {"dropped", "new"}


def test_the_nodes_that_keep_state_are_those_whose_operators_do() -> None:
    """Also where the plan has no name for it: a difference would pass over the node."""
    queries = (NEAR.format("u.y", 1), SESSIONS, f"SELECT k, x FROM {WINDOWS.format(5)}")
    plans = [*map(planned, queries)]
    for entry in recorded():
        # The others name their tables only, or are refused.
        with contextlib.suppress(PlanError, DataflowError):
            plan = load_plan(entry["plan"])
            stateful_nodes(plan)
            plans.append(plan)

    seen: set[str] = set()
    for plan in plans:
        keeping = {each.node_id for each in stateful_nodes(plan) if each.states}
        assert {each.id for each in plan.nodes if keeps_state(each)} == keeping
        seen |= {plan.node(each).node_type.short for each in keeping}
    assert len(plans) > 50
    assert {"interval-join", "temporal-join", "window-table-function", "over-aggregate"} <= seen
