"""CREATE TABLE .. AS: statements as Flink 2.3 took or refused them; what a session keeps."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import orjson
import pytest

from service.sql import SqlError, compile_script
from service.sql.catalogue import View
from service.sql.explain import explain_statement
from service.sql.named_session import NamedSession
from service.sql.script import parse_with_text
from service.sql.show import create_table_text
from service.sql.statements import Explain
from tests.service.sql.test_table_like import declared, in_order, run

FILE = Path(__file__).parent / "recorded/table-as/declared.jsonl"
RECORDED = [orjson.loads(line) for line in FILE.read_bytes().splitlines()]
FILES = "WITH ('connector' = 'filesystem', 'path' = '/tmp/in', 'format' = 'json')"
TABLES = f"""
CREATE TABLE b (
  id INT NOT NULL, k STRING, x AS id + 1, m STRING METADATA FROM 'file.path' VIRTUAL,
  ts TIMESTAMP(3), d DECIMAL(10, 2), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND,
  CONSTRAINT pk PRIMARY KEY (id) NOT ENFORCED
) COMMENT 'base' {FILES};
CREATE TABLE p (
  a INT, b STRING NOT NULL, c AS PROCTIME(), r ROW<x INT NOT NULL, y ARRAY<STRING>>
) {FILES};
CREATE VIEW v AS SELECT id, k FROM b;
"""
W = "WITH ('connector' = 'blackhole')"
AS_OF_ANY = "as of any table"
INTERVAL = "the interval as it is written"
PARSER = "the parser's words"
REPLACES = "nothing is replaced here"
DIFFERENT = {
    f"CREATE TABLE t {W} AS SELECT INTERVAL '1' DAY AS iv FROM b": INTERVAL,
    f"CREATE TABLE t {W} AS SELECT 'abc' AS s, 1 AS i, 1.5 AS d, TRUE AS f, "
    "CAST(NULL AS INT) AS n, DATE '2020-01-01' AS dd, INTERVAL '1' DAY AS iv": INTERVAL,
    f"CREATE TABLE t (PRIMARY KEY (z) NOT ENFORCED) {W} AS SELECT id, k FROM b": AS_OF_ANY,
    f"CREATE TABLE t (WATERMARK FOR zz AS zz) {W} AS SELECT id, ts FROM b": AS_OF_ANY,
    f"CREATE TABLE t (WATERMARK FOR k AS k) {W} AS SELECT id, k FROM b": AS_OF_ANY,
    f"CREATE TABLE t (c AS zz * 2) {W} AS SELECT id, k FROM b": AS_OF_ANY,
    f"CREATE TABLE t (id BIGINT, id BIGINT) {W} AS SELECT id, k FROM b": AS_OF_ANY,
    f"CREATE TABLE b {W} AS SELECT id, k FROM b": AS_OF_ANY,
    f"CREATE TABLE v {W} AS SELECT id, k FROM b": AS_OF_ANY,
    f"CREATE TABLE t (c AS n || k, n STRING) {W} AS SELECT id, k FROM b": "n may stand behind",
    f"CREATE TABLE t (id, id) {W} AS SELECT id, k FROM b": "says what is wrong",
    f"CREATE TABLE IF NOT EXISTS b {W} AS SELECT id, k FROM b": "b's id is NOT NULL",
    "CREATE TABLE t AS SELECT id, k FROM b": "told when a pipeline is made",
    f"CREATE TABLE t DISTRIBUTED BY HASH(k) INTO 2 BUCKETS {W} AS SELECT id, k FROM b": "by name",
    f"CREATE TABLE t {W} AS TABLE b": "no query here, wherever it stands",
    f"CREATE TABLE t {W} AS SELECT id, k FROM b ON CONFLICT DO DEDUPLICATE": PARSER,
    f"CREATE TABLE t {W} LIKE b AS SELECT id, k FROM b": PARSER,
    f"CREATE TABLE t {W} AS SELECT id, k FROM b LIKE b": PARSER,
    f"CREATE TABLE t {W} AS": PARSER,
    f"CREATE TABLE t {W} AS b": PARSER,
    f"CREATE TABLE t (k, id, PRIMARY KEY (id) NOT ENFORCED) {W} AS SELECT id, k FROM b": PARSER,
    f"CREATE TABLE t (k, id BIGINT) {W} AS SELECT id, k FROM b": PARSER,
    f"CREATE TABLE t () {W} AS SELECT id, k FROM b": PARSER,
    f"CREATE OR REPLACE TABLE t {W} AS SELECT id, k FROM b": REPLACES,
    f"CREATE OR REPLACE TABLE t {W}": REPLACES,
    f"CREATE OR REPLACE TABLE t (a INT) {W}": REPLACES,
    f"CREATE OR REPLACE TEMPORARY TABLE t {W} AS SELECT id, k FROM b": REPLACES,
    f"REPLACE TABLE t {W} AS SELECT id, k FROM b": REPLACES,
    f"REPLACE TABLE b {W} AS SELECT id, k FROM p": REPLACES,
    f"BEGIN STATEMENT SET; CREATE TABLE t {W} AS SELECT id, k FROM b; END": PARSER,
    f"EXECUTE STATEMENT SET BEGIN CREATE TABLE t {W} AS SELECT id, k FROM b; END": PARSER,
    f"EXECUTE CREATE TABLE t {W} AS SELECT id, k FROM b": PARSER,
    f"COMPILE PLAN '/tmp/p1.json' FOR CREATE TABLE t {W} AS SELECT id, k FROM b": PARSER,
    f"COMPILE AND EXECUTE PLAN '/tmp/p2.json' FOR CREATE TABLE t {W} AS SELECT id, k FROM b": (
        PARSER
    ),
}
"""What we refuse in other words, or in other cases, and why."""


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

    same = (error is None) == (case["error"] is None)
    if same and error is None:
        same = found == in_order(case["table"])
    elif error is not None:
        same = same and case["error"].startswith(error)
    assert same == (case["sql"] not in DIFFERENT), error or found


def explain(session: NamedSession, sql: str) -> str:
    (statement, _) = next(parse_with_text(f"EXPLAIN {sql}"))
    assert isinstance(statement, Explain)
    return explain_statement(session.session, statement.subjects, statement.details)


EXPLAINED = [each for each in RECORDED if each["sink"] and each["sql"] not in DIFFERENT]


@pytest.mark.parametrize("case", EXPLAINED, ids=[each["sql"] for each in EXPLAINED])
def test_its_explanation_has_flinks_sink_and_declares_nothing(case: dict[str, Any]) -> None:
    session = NamedSession()
    run(session, TABLES)

    text = explain(session, case["sql"])

    executed = text.partition("== Optimized Execution Plan ==\n")[2]
    assert executed.partition("\n")[0] == case["sink"]
    assert len(session.session.catalogue.objects) == 3


@pytest.mark.parametrize(
    ("columns", "insert"),
    [
        ("", "INSERT INTO t SELECT id, k FROM b"),
        ("(id BIGINT)", "INSERT INTO t SELECT id, k FROM b"),
        ("(k, id)", "INSERT INTO t (id, k) SELECT id, k FROM b"),
        ("(n INT)", "INSERT INTO t (id, k) SELECT id, k FROM b"),
        ("(n AS id + 1, m STRING METADATA VIRTUAL)", "INSERT INTO t SELECT id, k FROM b"),
    ],
)
def test_it_is_filled_as_by_an_insert(columns: str, insert: str) -> None:
    (planned,) = compile_script(f"{TABLES}CREATE TABLE t {columns} {W} AS SELECT id, k FROM b")

    session = NamedSession()
    run(session, f"{TABLES}CREATE TABLE t {columns} {W} AS SELECT id, k FROM b; DROP VIEW v")
    declaration = create_table_text(declared(session))
    (other,) = compile_script(f"{TABLES}{declaration};{insert}")
    assert planned.document == other.document


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("CREATE TABLE u (a INT)", "CREATE TABLE without AS has no plan"),
        ("CREATE VIEW u AS SELECT 1", "EXPLAIN of CREATE VIEW is not supported"),
        (f"CREATE TABLE t (k, id) {W}", "AS was expected, not the end"),
        (f"CREATE TABLE t (k, id) {W} LIKE b", "AS was expected, not the end"),
    ],
)
def test_what_has_no_query_is_refused(sql: str, reason: str) -> None:
    session = NamedSession()
    run(session, TABLES)

    with pytest.raises(SqlError, match=reason):
        explain(session, sql)


def test_there_is_no_table_if_its_query_has_no_plan() -> None:
    session = NamedSession()
    run(session, TABLES)

    with pytest.raises(SqlError, match="doesn't support consuming update changes"):
        run(session, f"CREATE TABLE t {FILES} AS SELECT k, COUNT(*) AS n FROM b GROUP BY k")

    assert len(session.session.catalogue.objects) == len(session.saved().declarations) == 3


def test_a_session_keeps_what_came_of_it() -> None:
    session = NamedSession()
    run(session, f"{TABLES}CREATE TABLE t (n INT) COMMENT 'it''s' {FILES} AS SELECT id, k FROM b")
    run(session, "DROP VIEW v; DROP TABLE b")

    again = NamedSession(session.saved())

    assert declared(again) == declared(session)


@pytest.mark.parametrize("empty", ["''", "ARRAY['']", "ROW(1, '')"])
def test_a_column_that_no_session_could_keep_is_refused(empty: str) -> None:
    """Of CHAR(0) none can be declared; the session could not be read again."""
    session = NamedSession()
    run(session, TABLES)

    with pytest.raises(SqlError, match=r"column 'a' of type .* cannot be declared"):
        run(session, f"CREATE TABLE t {FILES} AS SELECT id, {empty} AS a FROM b")

    run(session, f"CREATE TABLE t (a STRING) {W} AS SELECT id, '' AS a FROM b")
    assert declared(NamedSession(session.saved())) == declared(session)


@pytest.mark.parametrize(
    "expression",
    [
        "DATE_FORMAT(ts, 'yyyy ''x''')",
        "k || 'a\\b'",
        "JSON_VALUE(k, '$.a')",
        "IF(id > 1, id, 2)",
        "ARRAY[k, 'x'][1]",
        "MAP['a', id]",
        "POSITION('b' IN k)",
        "ts + INTERVAL '1-2' YEAR TO MONTH",
        "id + -- one comment\n 1 /* another */",
    ],
)
@pytest.mark.parametrize("clause", ["AS SELECT id, k, ts FROM b", "LIKE b"])
def test_a_session_keeps_expressions_as_they_were_written(clause: str, expression: str) -> None:
    session = NamedSession()
    run(session, f"{TABLES}CREATE TABLE a (c AS {expression}) {W} {clause}")
    run(session, f"CREATE TABLE t {W} LIKE a; DROP VIEW v")

    again = NamedSession(session.saved())

    assert again.session.catalogue.objects == session.session.catalogue.objects


def test_a_text_in_a_shown_expression_has_its_quotes_twice() -> None:
    session = NamedSession()
    run(session, f"CREATE TABLE t (a STRING, c AS a || 'it''s a\\b') {W}")

    assert "`c` AS `a` || 'it''s a\\b'" in create_table_text(declared(session))


def test_a_table_without_a_query_is_declared_without_a_look_at_all_others() -> None:
    """A session of a mebibyte has forty thousand tables, and is read again for each request."""
    session = NamedSession()
    run(session, TABLES)
    objects = session.session.catalogue.objects
    (view,) = (each for each in objects.values() if isinstance(each, View))
    objects.update({("c", "d", f"v{number}"): view for number in range(200_000)})
    (statement, _) = next(parse_with_text(f"CREATE TABLE t (a INT) {W}"))

    tracemalloc.start()
    session.session.run(statement)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert most < 1_000_000
