"""Whatever is sent ends in an answer: too much of it is said to be too much."""

from __future__ import annotations

import pytest

from service.sql import SqlTooLarge, compile_script
from service.sql.dialect import DEPTH_MAX, TOKENS_MAX
from service.sql.script import SCRIPT_CHARACTERS_MAX
from tests.service.sql.scripts import TABLES, WITH, node_types, plan

INSERT = "INSERT INTO snk SELECT "
DEEP = [
    "(" * (DEPTH_MAX + 1) + "v" + ")" * (DEPTH_MAX + 1) + " FROM s",
    "(" * 100_000,
    "v FROM " + "(SELECT * FROM " * 1_000 + "s" + ")" * 1_000,
    "v FROM s WHERE " + "NOT " * 5_000 + "v > 3",
    "CASE WHEN v > 1 THEN " * 2_000 + "1" + " END" * 2_000 + " FROM s",
    "v FROM s WHERE " + "v > 1 AND " * TOKENS_MAX + "v > 2",
    " UNION ALL ".join(["v FROM s"] + ["SELECT v FROM s"] * 3_000),
]


@pytest.mark.parametrize("query", DEEP, ids=lambda query: query[:20])
def test_nesting_that_is_too_deep(query: str) -> None:
    with pytest.raises(SqlTooLarge) as caught:
        compile_script(TABLES + INSERT + query)
    assert caught.value.position is not None


def test_a_script_that_is_too_long() -> None:
    comment = "-- " + "x" * (SCRIPT_CHARACTERS_MAX - len(TABLES) - 3)
    assert compile_script(TABLES + comment) == []
    with pytest.raises(SqlTooLarge, match="are allowed"):
        compile_script(TABLES + comment + "x")


def test_many_words_in_one_query() -> None:
    terms = TOKENS_MAX // 2 - 10
    with pytest.raises(SqlTooLarge):
        plan(INSERT + "v + " * terms + "v FROM s")
    assert node_types(plan(INSERT + "v + " * 50 + "v FROM s"))[-1] == "sink"


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
