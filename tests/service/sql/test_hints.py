"""What is wrong is told with its place, and with the name that was probably meant."""

from __future__ import annotations

import pytest

from service.sql import Position, SqlError, compile_script

TABLES = """\
CREATE TABLE src (id INT, name STRING, ts TIMESTAMP(3)) WITH ('connector' = 'datagen');
CREATE TABLE snk (id INT, name STRING) WITH ('connector' = 'blackhole');
CREATE VIEW seen AS SELECT id FROM src;
"""
INSERT = "INSERT INTO snk "


@pytest.mark.parametrize(
    ("sql", "column", "reason", "hint"),
    [
        ("INSRT INTO snk VALUES (1, 'a')", 1, "INSRT", "INSERT"),
        ("SHOW TABELS", 1, "TABELS", "TABLES"),
        ("DROP TABLE srcs", 1, "'srcs'", "src"),
        ("DROP VIEW sen", 1, "'sen'", "seen"),
        ("CREATE TABLE t (a INTT) WITH ('connector' = 'blackhole')", 19, "INTT", "INT"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (aa) NOT ENFORCED)", 1, "'aa'", "a"),
        ("CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR tss AS ts)", 55, "'tss'", "ts"),
        ("INSERT INTO snkk SELECT id, name FROM src", 1, "'snkk'", "snk"),
        ("INSERT INTO snk (id, nam) SELECT id, name FROM src", 1, "'nam'", "name"),
        (INSERT + "SELECT idd, name FROM src", 24, "'idd'", "id"),
        (INSERT + "SELECT id, UPER(name) FROM src", 28, "UPER", "UPPER"),
        (INSERT + "SELECT id, CAST(id AS STRNG) FROM src", 33, "STRNG", "STRING"),
        (INSERT + "SELECT EXTRACT(YEARS FROM ts), name FROM src", 43, "YEARS", "YEAR"),
        (
            INSERT + "SELECT /*+ STATE_TLL('src' = '1d') */ id, name FROM src",
            18,
            "TLL",
            "STATE_TTL",
        ),
        (
            INSERT
            + "SELECT id, name FROM TABLE(TUMBL(TABLE src, DESCRIPTOR(ts), INTERVAL '1' DAY))",
            38,
            "TUMBL",
            "TUMBLE",
        ),
    ],
)
def test_the_nearest_name_is_a_hint(sql: str, column: int, reason: str, hint: str) -> None:
    with pytest.raises(SqlError) as caught:
        compile_script(TABLES + sql)

    assert reason in caught.value.reason
    assert caught.value.hint == f"did you mean {hint}?"
    assert caught.value.position == Position(4, column)


@pytest.mark.parametrize(
    "values", ["id IN (SELECT id, name FROM src)", "(id, name) IN (SELECT id FROM src)"]
)
def test_in_takes_as_many_columns_as_values(values: str) -> None:
    with pytest.raises(SqlError, match="values cannot be IN rows of"):
        compile_script(f"{TABLES}{INSERT}SELECT id, name FROM src WHERE {values}")


@pytest.mark.parametrize(
    "script",
    [
        "EXECUTE STATEMENT SET BEGIN {i}; BEGIN STATEMENT SET; {i}; END; END",
        "EXECUTE STATEMENT SET BEGIN STATEMENT SET BEGIN {i}; END; END",
        "BEGIN STATEMENT SET; EXECUTE STATEMENT SET BEGIN {i}; END; END",
        "COMPILE PLAN 'p' FOR STATEMENT SET BEGIN COMPILE PLAN 'q' FOR {i}; END",
    ],
)
def test_a_statement_set_holds_inserts_alone(script: str) -> None:
    with pytest.raises(SqlError, match=r"^line 4, column \d+: INSERT was expected, not "):
        compile_script(TABLES + script.format(i=INSERT + "SELECT id, name FROM src"))
