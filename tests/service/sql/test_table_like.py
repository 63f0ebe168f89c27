"""CREATE TABLE .. LIKE: statements as Flink 2.3 took or refused them; what a session keeps."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from service.sql import SqlError
from service.sql.catalogue import CatalogTable
from service.sql.named_session import NamedSession
from service.sql.script import parse_with_text
from service.sql.session import Session
from service.sql.show import create_table_text
from service.sql.statements import CreateTable, SetOption
from tests.service.sql.recorded_plans import recorded_plans

FILE = Path(__file__).parent / "recorded/table-like/declared.jsonl"
RECORDED = [orjson.loads(line) for line in FILE.read_bytes().splitlines()]
FILES = "WITH ('connector' = 'filesystem', 'path' = '/tmp/x', 'format' = 'json')"
TABLES = f"""
CREATE TABLE b (
  id INT, k STRING, x AS id + 1, m STRING METADATA FROM 'file.path' VIRTUAL, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'base' {FILES};
CREATE TABLE p (a INT, b STRING) PARTITIONED BY (b) {FILES};
CREATE VIEW v AS SELECT id, k FROM b;
"""
DIFFERENT = {
    "CREATE TABLE t LIKE p (EXCLUDING PARTITIONS)": "Flink keeps what is excluded",
    "CREATE TABLE b LIKE b": "Flink's catalogue refuses it, in other words",
    "CREATE TABLE t LIKE nowhere": "as any name that is not known",
    "CREATE TABLE t LIKE b ()": "the parser's words",
    "CREATE TABLE t LIKE b (INCLUDING FOO)": "the parser's words",
    "CREATE TABLE t (k METADATA FROM 'file.name' VIRTUAL) LIKE b": "the parser's words",
    "CREATE TABLE t (z AS k || 'a', y AS z || 'b') LIKE b": "as any name that is not known",
    "CREATE TABLE t (z AS m || 'a') LIKE b (EXCLUDING METADATA)": "as any name that is not known",
    "CREATE TABLE t (z INT, z INT) LIKE b": "as without LIKE",
    "CREATE TABLE t (x AS id, x AS k) LIKE b (EXCLUDING GENERATED)": "as without LIKE",
    "CREATE TABLE t WITH ('path' = '/tmp/y') LIKE b (INCLUDING OPTIONS)": "values may be secret",
    "CREATE TABLE t WITH ('connector' = 'blackhole') LIKE b (INCLUDING ALL)": "likewise",
}


def run(session: NamedSession, script: str) -> None:
    for statement, text in parse_with_text(script):
        session.run(statement, text)


def declared(session: NamedSession, name: str = "t") -> CatalogTable:
    found = session.session.catalogue.objects["default_catalog", "default_database", name]
    assert isinstance(found, CatalogTable)
    return found


def in_order(text: str) -> str:
    """A declaration with its options in the order of their names, as Flink shows them."""
    head, with_, options = text.strip().partition("\nWITH (\n")
    lines = sorted(each.strip(" ,") for each in options.removesuffix(")").strip().split("\n"))
    return f"{head.strip()}{with_}{lines}"


@pytest.mark.parametrize("case", RECORDED, ids=[each["sql"] for each in RECORDED])
def test_a_table_is_what_flink_makes_of_it(case: dict[str, Any]) -> None:
    session = NamedSession()
    run(session, TABLES)
    found = error = None
    try:
        run(session, case["sql"])
        found = in_order(create_table_text(declared(session)))
    except SqlError as refusal:
        error = refusal.reason

    assert (error is None) == (case["error"] is None), error
    same = found == in_order(case["table"]) if error is None else case["error"].startswith(error)
    assert same == (case["sql"] not in DIFFERENT), error or found


def test_a_session_keeps_what_came_of_it() -> None:
    session = NamedSession()
    run(session, TABLES)
    run(session, "CREATE TEMPORARY TABLE t WITH ('properties.sasl.jaas.config' = 'it''s') LIKE b")
    table = declared(session)
    run(session, "DROP VIEW v; DROP TABLE b; CREATE TABLE b LIKE t")

    again = NamedSession(session.saved())

    assert declared(again) == table
    assert declared(again).options["properties.sasl.jaas.config"] == "it's"
    assert declared(again, "b").columns == table.columns


def test_an_option_that_both_have_is_told_without_its_value() -> None:
    session = NamedSession()
    run(session, "CREATE TABLE b (a INT) WITH ('password' = 'hunter2')")

    with pytest.raises(SqlError, match="'password'") as caught:
        run(session, "CREATE TABLE t WITH ('password' = 'swordfish') LIKE b (INCLUDING ALL)")

    assert "hunter2" not in str(caught.value)
    assert "swordfish" not in str(caught.value)


@pytest.mark.parametrize(
    ("clause", "column"),
    [
        ("LIKE v", 21),
        ("LIKE nowhere", 21),
        ("LIKE b (EXCLUDING METADATA OVERWRITING CONSTRAINTS)", 43),
        ("LIKE e (EXCLUDING METADATA)", 21),
        ("LIKE b extra", 23),
    ],
)
def test_what_is_wrong_is_told_with_its_place(clause: str, column: int) -> None:
    session = NamedSession()
    run(session, f"{TABLES}CREATE TABLE e (m STRING METADATA, x AS m || 'a') {FILES}")

    with pytest.raises(SqlError) as caught:
        run(session, f"CREATE TABLE t {clause}")

    assert caught.value.position is not None
    assert caught.value.position.column == column


def test_what_a_session_keeps_of_any_table_means_the_same() -> None:
    """Of all tables of the recorded plans: what came of LIKE is read again, and so is their own."""
    seen: set[str] = set()
    for case in recorded_plans():
        session = Session()
        for statement, _ in parse_with_text(case.sql):
            if isinstance(statement, CreateTable | SetOption):
                with suppress(SqlError):  # some were recorded since Flink refuses them, too
                    session.run(statement)
        for table in session.catalogue.objects.values():
            assert isinstance(table, CatalogTable)
            text = create_table_text(table, is_shown=False)
            if text not in seen:
                seen.add(text)
                again = NamedSession()
                again.options.update(session.catalogue.options)
                run(again, f"{text};CREATE TABLE t__ LIKE {table.identifier}")
                kept = NamedSession(again.saved())
                for name in (table.names[-1], "t__"):
                    found = replace(declared(kept, name), names=table.names, comment=table.comment)
                    assert replace(found, is_temporary=table.is_temporary) == table, text
    assert len(seen) > 500
