"""OPTIONS behind a table, as real Flink 2.3 plans it, and where it is refused on purpose.

`recorded/table-options/flink.jsonl` was recorded over `TABLES`: of each statement the nodes, as
description and options of their table, and the edges, or the first line of the error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from service.sql import (
    Session,
    SqlError,
    SqlSyntaxError,
    UnsupportedSql,
    ValidationError,
    compile_script,
)
from service.sql.explain import explain_statement
from service.sql.script import parse_script
from service.sql.statements import Explain

RECORDED = Path(__file__).parent / "recorded" / "table-options" / "flink.jsonl"
TABLES = """\
CREATE TABLE s (id INT, k STRING, v INT) WITH ('connector' = 'datagen', 'rows-per-second' = '5');
CREATE TABLE snk (id INT, k STRING, v INT)
  WITH ('connector' = 'print', 'print-identifier' = 'own');
CREATE VIEW vw AS SELECT id, k, v FROM s;
CREATE VIEW hinted AS SELECT id, k, v FROM s /*+ OPTIONS('rows-per-second'='7') */;
CREATE TEMPORARY TABLE temporary_s (id INT, k STRING, v INT) WITH ('connector' = 'datagen');
"""
INSERT = "INSERT INTO snk SELECT id, k, v FROM "


def cases() -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in RECORDED.read_bytes().splitlines()]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["sql"])
def test_hints_are_planned_as_by_flink(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(SqlError) as caught:
            compile_script(TABLES + case["sql"])
        if "parse failed" in case["error"]:
            assert isinstance(caught.value, SqlSyntaxError)
        elif not case["error"].startswith("Hint: FOO"):
            assert caught.value.reason == case["error"]
        return

    document = compile_script(TABLES + case["sql"])[-1].document

    found = [[node["description"], options_of(node)] for node in document["nodes"]]
    assert found == case["nodes"]
    assert [[edge["source"], edge["target"]] for edge in document["edges"]] == case["edges"]


def options_of(node: dict[str, Any]) -> Any:
    """The options of the table that a node reads or writes."""
    holder = node.get("scanTableSource") or node.get("dynamicTableSink")
    return None if holder is None else holder["table"]["resolvedTable"]["options"]


@pytest.mark.parametrize(
    ("sql", "kind", "column", "reason"),
    [
        (
            INSERT + "s /*+ OPTIONS('number-of-rows'='1'), OPTIONS('rows-per-second'='1') */",
            UnsupportedSql,
            73,
            "a second hint",
        ),
        (INSERT + "s /*+ STATE_TTL('s'='1d') */", UnsupportedSql, 44, "hint STATE_TTL behind"),
        (INSERT + "s /*+ BROADCAST(s) */", UnsupportedSql, 44, "hint BROADCAST behind"),
        (
            "INSERT INTO snk WITH q AS (SELECT * FROM s) SELECT * FROM q /*+ OPTIONS('a'='b') */",
            ValidationError,
            61,
            "q is an entry of WITH",
        ),
        (
            "INSERT INTO snk SELECT /*+ OPTIONS('a'='b') */ id, k, v FROM s",
            UnsupportedSql,
            None,
            "hint OPTIONS is not supported",
        ),
        (
            "INSERT INTO snk SELECT id, k, v FROM "
            "TUMBLE(TABLE s /*+ OPTIONS('a'='b') */, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
            SqlSyntaxError,
            None,
            "a hint is not expected",
        ),
        (
            "CREATE VIEW w AS /*+ OPTIONS('a'='b') */ SELECT id FROM s",
            SqlSyntaxError,
            18,
            "a hint is not expected",
        ),
        (
            "SET 'table.plan.compile.catalog-objects' = 'SCHEMA'; "
            + INSERT
            + "s /*+ OPTIONS('a'='b') */",
            UnsupportedSql,
            None,
            "are lost in a plan without options",
        ),
        (
            "SET 'table.dynamic-table-options.enabled' = 'false'; " + INSERT + "hinted",
            ValidationError,
            None,
            "'table.dynamic-table-options.enabled' is set to true",
        ),
        (
            "SET 'table.dynamic-table-options.enabled' = 'false'; "
            "INSERT INTO snk /*+ OPTIONS('a'='b') */ SELECT id, k, v FROM s",
            ValidationError,
            None,
            "'table.dynamic-table-options.enabled' is set to true",
        ),
    ],
)
def test_what_would_be_ignored_is_refused(
    sql: str, kind: type[SqlError], column: int | None, reason: str
) -> None:
    with pytest.raises(kind) as caught:
        compile_script(TABLES + sql)

    assert reason in caught.value.reason
    if column is not None:
        assert caught.value.position is not None
        assert caught.value.position.column == column


def test_a_temporary_table_is_described_where_a_hint_changed_it() -> None:
    hint = "/*+ OPTIONS('number-of-rows'='3') */"
    document = compile_script(f"{TABLES}{INSERT}temporary_s {hint}")[-1].document
    without = compile_script(f"{TABLES}{INSERT}temporary_s")[-1].document

    assert options_of(document["nodes"][0]) == {"connector": "datagen", "number-of-rows": "3"}
    assert "resolvedTable" not in without["nodes"][0]["scanTableSource"]["table"]


def test_the_kinds_of_change_are_those_of_the_hint() -> None:
    source = (
        "CREATE TABLE c (id INT, k STRING, v INT) WITH ('connector' = 'filesystem', "
        "'format' = 'changelog-json', 'changelog-mode' = 'I,UB,UA,D');\n"
    )
    planned = compile_script(f"{TABLES}{source}{INSERT}c /*+ OPTIONS('changelog-mode'='I') */")[-1]

    assert planned.modes[1] == ("INSERT",)


def test_a_hint_ends_where_it_does() -> None:
    hint = "/*+ OPTIONS('rows-per-second' = '3' /* a 'b */, 'number-of-rows' = '*/''1') */"
    document = compile_script(f"{TABLES}{INSERT}s {hint} /* c */ WHERE v > 1 -- '")[-1].document

    found = options_of(document["nodes"][0])
    assert found == {"connector": "datagen", "rows-per-second": "3", "number-of-rows": "*/'1"}


def test_a_hint_over_several_lines_is_wrong_at_its_line() -> None:
    hint = "/*+ OPTIONS(\n'a' = '1' /* over\n lines */,\n  'b' 'c') */"
    with pytest.raises(SqlSyntaxError) as caught:
        compile_script(f"{TABLES}{INSERT}s {hint}")

    assert caught.value.position is not None
    lines = f"{TABLES}{INSERT}".count("\n") + 4
    assert (caught.value.position.line, caught.value.position.column) == (lines, 7)


def test_descriptions_mask_secrets() -> None:
    url = "jdbc:postgresql://db/shop?user=u&password=hunter2"
    hint = f"/*+ OPTIONS('properties.sasl.password'='hunter2', 'url'='{url}') */"
    document = compile_script(f"{TABLES}{INSERT}s {hint}")[-1].document

    assert "properties.sasl.password=******" in document["nodes"][0]["description"]
    assert "url=jdbc:postgresql://db/shop?user=u&password=******" in str(
        document["nodes"][0]["description"]
    )
    assert "hunter2" not in str(document["nodes"][0]["description"])


@pytest.mark.parametrize(
    "sql",
    [
        INSERT + "s AS x /*+ OPTIONS('password'='hunter2') */",
        INSERT + "s WHERE /*+ OPTIONS('password'='hunter2') */ id > 1",
        "INSERT /*+ OPTIONS('password'='hunter2') */ INTO snk SELECT * FROM s",
        "INSERT INTO snk /*+ OPTIONS('password'='hunter2') */ /*+ X */ SELECT * FROM s",
        INSERT + "s /*+ OPTIONS('password' 'hunter2') */",
        INSERT + "s /*+ OPTIONS('password' = hunter2) */",
        INSERT + "s /*+ OPTIONS('password' = 'a' /* = */ 'hunter2') */",
        INSERT + "s /*+ OPTIONS('password' = 'a') hunter2 */",
    ],
)
def test_errors_do_not_repeat_a_hint(sql: str) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        compile_script(TABLES + sql)

    assert "hint" in str(caught.value) or "not what stands there" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_explain_shows_the_hint_of_a_scan_and_of_a_sink() -> None:
    session, text = Session(), ""
    sql = (
        "EXPLAIN INSERT INTO snk /*+ OPTIONS('print-identifier'='x') */ "
        "SELECT id, k, v FROM s /*+ OPTIONS('rows-per-second'='11', 'number-of-rows'='3') */"
    )
    for statement in parse_script(TABLES + sql):
        if isinstance(statement, Explain):
            text = explain_statement(session, statement.subjects, statement.details)
        else:
            session.run(statement)

    assert (
        "LogicalSink(table=[default_catalog.default_database.snk], fields=[id, k, v], "
        "hints=[[[OPTIONS options:{print-identifier=x}]]])\n"
        "+- LogicalProject(id=[$0], k=[$1], v=[$2])\n"
        "   +- LogicalTableScan(table=[[default_catalog, default_database, s]], "
        "hints=[[[OPTIONS inheritPath:[] options:{number-of-rows=3, rows-per-second=11}]]])\n"
    ) in text
    assert (
        "Sink(table=[default_catalog.default_database.snk], fields=[id, k, v], "
        "hints=[[[OPTIONS options:{print-identifier=x}]]])\n"
        "+- TableSourceScan(table=[[default_catalog, default_database, s]], fields=[id, k, v], "
        "hints=[[[OPTIONS options:{number-of-rows=3, rows-per-second=11}]]])\n"
    ) in text
