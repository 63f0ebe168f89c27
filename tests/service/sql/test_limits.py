"""Whatever is sent ends in an answer: too much of it is said to be too much."""

from __future__ import annotations

import orjson
import pytest

from service.api.body_guard import json_depth
from service.deadline import time_limit
from service.settings import LimitSettings
from service.sql import (
    SqlSyntaxError,
    SqlTimeout,
    SqlTooLarge,
    UnsupportedSql,
    compile_script,
)
from service.sql.binder.grouping_sets import SETS_MAX
from service.sql.dialect import DEPTH_MAX, TOKENS_MAX
from service.sql.rex import PARTS_MAX
from service.sql.script import parse_with_text
from tests.service.sql.scripts import TABLES, WITH, node_types, plan

INSERT = "INSERT INTO snk SELECT "
DEEP = [
    "(" * (DEPTH_MAX + 1) + "v" + ")" * (DEPTH_MAX + 1) + " FROM s",
    "(" * 100_000,
    "v FROM " + "(SELECT * FROM " * 1_000 + "s" + ")" * 1_000,
    "v FROM s WHERE " + "NOT " * 5_000 + "v > 3",
    "CASE WHEN v > 1 THEN " * 2_000 + "1" + " END" * 2_000 + " FROM s",
    "v FROM s WHERE " + "v > 1 AND " * (TOKENS_MAX // 4) + "v > 2",
    " UNION ALL ".join(["v FROM s"] + ["SELECT v FROM s"] * 3_000),
]


@pytest.mark.parametrize("query", DEEP, ids=lambda query: query[:20])
def test_nesting_that_is_too_deep(query: str) -> None:
    with pytest.raises(SqlTooLarge) as caught:
        compile_script(TABLES + INSERT + query)
    assert caught.value.position is not None


def test_a_script_that_is_too_long() -> None:
    script = "SET 'a' = 'b'"
    assert len(list(parse_with_text(script, characters_max=len(script)))) == 1
    with pytest.raises(SqlTooLarge, match=r"line 1, column 1: .* 12 are allowed"):
        list(parse_with_text(script, characters_max=len(script) - 1))


def test_many_words_in_one_query() -> None:
    terms = TOKENS_MAX // 2 - 10
    with pytest.raises(SqlTooLarge):
        plan(INSERT + "v + " * terms + "v FROM s")
    assert node_types(plan(INSERT + "v + " * 50 + "v FROM s"))[-1] == "sink"


def test_comments_in_a_hint_that_nothing_ends() -> None:
    script = f"{TABLES}{INSERT}v FROM s /*+ " + "/* " * 300_000
    with pytest.raises(SqlSyntaxError), time_limit(20):
        compile_script(script)


def test_nesting_that_is_deep_enough() -> None:
    assert plan(INSERT + "(" * 20 + "v" + ")" * 20 + " FROM s")["nodes"]
    assert plan(INSERT + "v FROM " + "(SELECT * FROM " * 20 + "s" + ")" * 20)["nodes"]


def test_ten_thousand_columns() -> None:
    columns = ", ".join(f"c{index} INT" for index in range(10_000))
    tables = (
        f"CREATE TABLE wide ({columns}) WITH ({WITH} = 'I');"
        f"CREATE TABLE wide_out ({columns}) WITH ({WITH} = 'retract');"
    )
    document = plan(tables + "INSERT INTO wide_out SELECT * FROM wide WHERE c3 > 4")
    assert node_types(document) == ["table-source-scan", "calc", "sink"]
    assert document["nodes"][1]["outputType"].count(" INT") == 10_000


@pytest.mark.parametrize("item", ["*", "v"])
def test_a_query_has_no_more_columns_than_a_table(item: str) -> None:
    columns = ", ".join([item] * 10_001)
    with pytest.raises(SqlTooLarge, match="columns; 10000 are allowed"):
        plan(INSERT + f"{columns} FROM s")


@pytest.mark.parametrize(
    ("step", "where"),
    [
        ("v + v", ""),
        ("CASE WHEN v > 1 THEN v ELSE -v END", ""),
        ("v + v", " WHERE v > 1"),
    ],
)
def test_expressions_that_double_as_queries_are_merged(step: str, where: str) -> None:
    def nested(depth: int) -> str:
        return "v FROM " + f"(SELECT {step} AS v FROM " * depth + "s" + f"{where})" * depth

    with pytest.raises(SqlTooLarge, match=f"more than {PARTS_MAX} parts") as caught:
        plan(INSERT + nested(40))
    assert caught.value.position is not None
    assert plan(INSERT + nested(4))["nodes"]


@pytest.mark.parametrize(
    "step",
    [
        "({}) <> ANY (TRUE, v > 5)",
        "({}) IN (TRUE, v > 5)",
        "({}) BETWEEN FALSE AND (v > 5)",
        "({}) NOT BETWEEN SYMMETRIC FALSE AND (v > 5)",
    ],
)
def test_a_value_that_is_compared_with_several_is_written_for_each(step: str) -> None:
    def nested(depth: int) -> str:
        condition = "v > 3"
        for _ in range(depth):
            condition = step.format(condition)
        return f"v FROM s WHERE {condition}"

    with pytest.raises(SqlTooLarge, match=f"more than {PARTS_MAX} parts") as caught:
        plan(INSERT + nested(30))
    assert caught.value.position is not None
    assert plan(INSERT + nested(2))["nodes"]


def test_grouping_sets_are_not_too_many() -> None:
    def cube(columns: int) -> str:
        grouped = ", ".join(f"v + {at}" for at in range(columns))
        return f"CAST(COUNT(*) AS INT) FROM s GROUP BY CUBE ({grouped})"

    assert plan(INSERT + cube(3))["nodes"]
    with pytest.raises(UnsupportedSql, match=f"more than {SETS_MAX} sets") as caught:
        plan(INSERT + cube(7))
    assert caught.value.position is not None


def test_a_plan_is_never_nested_deeper_than_it_can_be_read() -> None:
    def chain(length: int) -> str:
        return " + ".join(["v"] * length)

    document = plan(INSERT + f"{chain(80)} FROM s")
    assert json_depth(orjson.dumps(document)) <= LimitSettings().json_depth_max - 10
    with pytest.raises(SqlTooLarge, match="deeper than a plan can hold") as caught:
        plan(INSERT + f"{chain(160)} FROM s")
    assert "brackets" in caught.value.hint
    halves = f"({chain(80)}) + ({chain(80)})"
    assert plan(INSERT + f"{halves} FROM s")["nodes"]


ENTRIES = {
    "views": "CREATE VIEW e{now} AS SELECT a.v FROM e{last} a JOIN e{last} b ON a.v = b.v;",
    "joins": ", e{now} AS (SELECT a.v FROM e{last} a LEFT JOIN e{last} b ON a.v = b.v)",
    "unions": ", e{now} AS (SELECT v FROM e{last} UNION ALL SELECT v + 1 FROM e{last})",
    "subqueries": ", e{now} AS (SELECT v FROM e{last} WHERE v IN (SELECT v FROM e{last}))",
    "groups": ", e{now} AS (SELECT a.v + b.v AS v FROM (SELECT v FROM e{last} GROUP BY v) a "
    "JOIN (SELECT MAX(v) AS v FROM e{last} GROUP BY v) b ON a.v = b.v)",
}


@pytest.mark.parametrize("kind", ENTRIES)
def test_planning_ends_when_its_time_is_over(kind: str) -> None:
    """A million relations, and more, of a script of two thousand characters."""
    begin = (
        "CREATE VIEW e0 AS SELECT v FROM s;" if kind == "views" else "WITH e0 AS (SELECT v FROM s)"
    )
    entries = "".join(ENTRIES[kind].format(now=at, last=at - 1) for at in range(1, 41))
    last = "SELECT v FROM e40"
    insert = "INSERT INTO snk "
    script = begin + entries + insert + last if kind == "views" else insert + begin + entries + last

    with pytest.raises(SqlTimeout, match=r"^line \d+, column \d+: ") as caught, time_limit(0.5):
        compile_script(TABLES + script)
    assert caught.value.position is not None


def test_a_limit_around_a_limit_holds() -> None:
    with time_limit(0.0), time_limit(3_600.0), pytest.raises(SqlTimeout):
        plan(INSERT + "v FROM s")
    assert plan(INSERT + "v FROM s")["nodes"]
