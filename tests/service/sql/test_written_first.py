"""Expressions that people write first: paths into rows, patterns in columns, times and intervals.

Each is planned, taken by the check of Calc nodes, and computed in Python. Values are those of SQL:
DuckDB gives the same where it has the function.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from operators.expressions import EvaluationFailed, compile_rex
from service.plan import load_plan
from service.plan.rex import parse_rex
from service.runtime.expressions import check
from service.sql import compile_script
from service.sql.errors import SqlError
from tests.batch_sql import batch_sql

COLUMNS = {
    "i": "INT",
    "n": "BIGINT",
    "s": "STRING",
    "p": "STRING",
    "d": "DATE",
    "t": "TIMESTAMP(3)",
    "x": "DOUBLE",
    "r": "ROW<a ROW<b ROW<c ROW<d INT>>>>",
    "arr": "ARRAY<ROW<b ROW<c INT, e STRING>>>",
    "m": "MAP<STRING, ROW<b ROW<c INT>>>",
    "named": "MAP<STRING, INT>",
}
ROW: dict[str, Any] = {
    "i": 2,
    "n": 1_700_000_000,
    "s": "a=1&channel_id=23&b=2",
    "p": "%id=2_&%",
    "d": dt.date(2024, 2, 29),
    "t": dt.datetime.fromisoformat("2024-02-29 13:14:15.678"),
    "x": 1.255,
    "r": ((((7,),),),),
    "arr": [((1, "one"),), ((2, "two"),)],
    "m": [("k", ((3,),))],
    "named": [("b", None), ("a", 1)],
}


def planned(expression: str) -> dict[str, Any]:
    """The expression as the plan of a view has it, whatever its type."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    found = compile_script(
        f"CREATE TABLE src ({columns}) WITH ('connector' = 'ingress', 'changelog-mode' = 'I');"
        "CREATE TABLE snk WITH ('connector' = 'blackhole') AS "
        f"SELECT {', '.join(COLUMNS)}, {expression} AS e FROM src;"
    )
    (calc,) = [each for each in found[-1].document["nodes"] if "projection" in each]
    rex = calc["projection"][-1]
    assert isinstance(rex, dict)
    return rex


def value_of(expression: str, **changed: object) -> Any:
    rex = parse_rex(planned(expression), "")
    check(rex)
    row = {**ROW, **changed}
    return compile_rex(rex)([row[name] for name in COLUMNS])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # paths of any depth, from a column, a table's column, an element, a value, a bracket
        ("r.a.b.c.d", 7),
        ("src.r.a.b.c.d", 7),
        ("(r).a.b.c.d + 1", 8),
        ("(r.a).b.c.d", 7),
        ("arr[2].b.e", "two"),
        ("src.arr[i].b.c", 2),
        ("arr[3].b.c", None),
        ("m['k'].b.c", 3),
        ("m['z'].b.c", None),
        ("CAST(ROW(i, s) AS ROW<x BIGINT, y STRING>).x", 2),
        # patterns: an alternative, & in a class, properties; patterns of columns
        ("REGEXP_EXTRACT(s, '(&|^)channel_id=([^&]*)', 2)", "23"),
        ("REGEXP_EXTRACT(s, '(&|^)a=([^&]*)', 1)", ""),
        ("REGEXP_EXTRACT(s, '(z)|(b)', 1)", None),
        (r"REGEXP_EXTRACT(s, '\bchannel_(\p{L}+)\b', 1)", "id"),
        ("s LIKE p", True),
        ("s NOT LIKE CONCAT('%', CAST(i AS STRING), '_', '%')", False),
        ("s SIMILAR TO CONCAT('%', p)", True),
        ("REGEXP(s, CONCAT('id=', CAST(i AS STRING)))", True),
        ("REGEXP(s, SUBSTRING('x(', i))", False),
        ("REGEXP_EXTRACT(s, SUBSTRING('x(', i))", None),
        ("REGEXP_REPLACE(s, CONCAT('[', '^0-9]+'), SUBSTRING(p, 1, 1))", "%1%23%2"),
        ("REGEXP_COUNT(s, CONCAT('&', SUBSTRING(s, 1, 0)))", 2),
        ("REGEXP_EXTRACT(s, '(.)=(.)', i)", "1"),
        ("JSON_VALUE('{\"a\": {\"b\": 1}}', CONCAT('$.a', '.', 'b'))", "1"),
        ("JSON_VALUE('{\"a\": 1}', s)", EvaluationFailed),
        ("SHA2('a', i)", EvaluationFailed),
        # formats and digits of columns
        ("DATE_FORMAT(t, CONCAT('yyyy', '/MM'))", "2024/02"),
        ("DATE_FORMAT(t, SUBSTRING('HH:mm', 1, i))", "13"),
        ("TO_TIMESTAMP('2024/03', CONCAT('yyyy', '/MM'))", dt.datetime.fromisoformat("2024-03-01")),
        ("ROUND(x, i)", 1.26),
        ("ROUND(x, CAST(NULL AS INT))", None),
        ("s LIKE CAST(NULL AS STRING)", None),
        # names of days and months, as Java 17 writes them in English
        ("DATE_FORMAT(t, 'EEE, MMM d yyyy hh:mm a')", "Thu, Feb 29 2024 01:14 PM"),
        ("DATE_FORMAT(t, 'EEEE, MMMM D DDD')", "Thursday, February 60 060"),
        ("FROM_UNIXTIME(n, 'E, d MMMM yyyy')", "Tue, 14 November 2023"),
        ("FROM_UNIXTIME(-1, 'EEEE a')", "Wednesday PM"),
        # fields of any width
        ("TO_TIMESTAMP('2/9/2024 7:05', 'M/d/yyyy H:mm')",
         dt.datetime.fromisoformat("2024-02-09 07:05")),
        ("TO_TIMESTAMP('12/31/2024 23:59', 'M/d/yyyy H:mm')",
         dt.datetime.fromisoformat("2024-12-31 23:59")),
        ("TO_TIMESTAMP('13/1/2024 0:00', 'M/d/yyyy H:mm')", None),
        # maps of columns, and as texts
        ("MAP[s, i, p, 1]['%id=2_&%']", 1),
        ("MAP[n, s][1700000000]", ROW["s"]),
        ("MAP[s, i, s, 1]['x']", EvaluationFailed),
        ("MAP[p, i, NULLIF(s, s), 1]['x']", EvaluationFailed),
        ("CAST(named AS STRING)", "{a=1, b=NULL}"),
        ("CAST(MAP['k', ARRAY[1, 2]] AS STRING)", "{k=[1, 2]}"),
        ("CAST(m AS STRING)", "{k=((3))}"),
        ("CAST(named AS MAP<STRING, BIGINT>)['a']", 1),
        # seconds as a text as a time
        ("TO_TIMESTAMP(FROM_UNIXTIME(n))", dt.datetime.fromisoformat("2023-11-14 22:13:20")),
        ("CAST(FROM_UNIXTIME(n) AS TIMESTAMP(3))",
         dt.datetime.fromisoformat("2023-11-14 22:13:20")),
        ("TO_DATE(FROM_UNIXTIME(n))", dt.date(2023, 11, 14)),
        # instants counted in small units, none of them lost
        ("TO_TIMESTAMP_LTZ(n * 1000000 + 123456, 6)",
         dt.datetime.fromisoformat("2023-11-14 22:13:20.123456+00:00")),
        ("TO_TIMESTAMP_LTZ(CAST(-1 AS BIGINT), 6)",
         dt.datetime.fromisoformat("1969-12-31 23:59:59.999999+00:00")),
        ("TO_TIMESTAMP_LTZ(i - 3, 9)",
         dt.datetime.fromisoformat("1969-12-31 23:59:59.999999+00:00")),
        ("TO_TIMESTAMP_LTZ(n * 1000000, i * 3)",
         dt.datetime.fromisoformat("2023-11-14 22:13:20+00:00")),
        ("TO_TIMESTAMP_LTZ(CAST(253402300800000000 AS BIGINT), 6)", None),
        # so many times an interval
        ("DATE '1970-01-01' + INTERVAL '1' DAY * i", dt.date(1970, 1, 3)),
        ("DATE '1970-01-01' + i * INTERVAL '1' DAY", dt.date(1970, 1, 3)),
        ("d + INTERVAL '1' MONTH * i", dt.date(2024, 4, 29)),
        ("d - INTERVAL '1' YEAR * 4", dt.date(2020, 2, 29)),
        ("t - INTERVAL '1' SECOND * n", dt.datetime.fromisoformat("1970-04-17 15:00:55.678")),
        ("t + INTERVAL '90' MINUTE * -1", dt.datetime.fromisoformat("2024-02-29 11:44:15.678")),
        ("d + INTERVAL '1' DAY * CAST(NULL AS INT)", None),
        # bytes
        ("X'C0FFEE'", b"\xc0\xff\xee"),
        ("x'c0'", b"\xc0"),
        ("CAST(X'616263' AS STRING)", "abc"),
    ],
)  # fmt: skip  # a table: a case a line
def test_its_value(expression: str, expected: object) -> None:
    if expected is EvaluationFailed:
        with pytest.raises(EvaluationFailed) as caught:
            value_of(expression)
        assert ROW["s"] not in str(caught.value)
    else:
        assert value_of(expression) == expected


@pytest.mark.parametrize(
    ("ours", "batch"),
    [
        ("s LIKE p", ""),
        ("d + INTERVAL '1' MONTH * i", "CAST(d + INTERVAL 1 MONTH * i AS DATE)"),
        ("t - INTERVAL '1' HOUR * i", ""),
        ("REGEXP_EXTRACT(s, '(.)=(.)', 2)", ""),
        ("r.a.b.c.d", ""),
        ("arr[2].b.e", ""),
        ("named['a']", ""),
    ],
)
def test_duckdb_has_the_same_value(ours: str, batch: str) -> None:
    row = (
        "SELECT 2 AS i, 'a=1&channel_id=23&b=2' AS s, '%id=2_&%' AS p, DATE '2024-02-29' AS d, "
        "TIMESTAMP '2024-02-29 13:14:15.678' AS t, {'a': {'b': {'c': {'d': 7}}}} AS r, "
        "[{'b': {'c': 1, 'e': 'one'}}, {'b': {'c': 2, 'e': 'two'}}] AS arr, "
        "MAP {'b': NULL, 'a': 1} AS named"
    )

    ((found,),) = batch_sql(f"WITH src AS ({row}) SELECT {batch or ours} FROM src")

    assert value_of(ours) == found


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("r.a.z.c", "no field 'z'"),
        ("arr[1].z", "no field 'z'"),
        ("r.a.b.c.d.e", "no field 'e'"),
        ("X'C0F'", "even number"),
        ("INTERVAL '1' DAY * x", "whole number"),
        ("INTERVAL '1' DAY * INTERVAL '1' DAY", "not defined"),
        ("CAST(r AS ROW<x INT", "not closed"),
    ],
)
def test_what_is_wrong_is_said(expression: str, words: str) -> None:
    with pytest.raises(SqlError) as caught:
        planned(expression)

    assert words in str(caught.value) + caught.value.hint


def sums(bound: str, kind: str) -> dict[str, Any]:
    """The window of a sum with this bound."""
    script = (
        "CREATE TABLE src (k INT, v INT, t TIMESTAMP(3), WATERMARK FOR t AS t) "
        "WITH ('connector' = 'ingress', 'changelog-mode' = 'I');"
        "CREATE TABLE snk WITH ('connector' = 'blackhole') AS SELECT k, SUM(v) OVER "
        f"(PARTITION BY k ORDER BY t {kind} BETWEEN {bound} PRECEDING AND CURRENT ROW) AS s "
        "FROM src;"
    )
    document = compile_script(script)[-1].document
    (over,) = [each for each in document["nodes"] if "overSpec" in each]
    found = over["overSpec"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("bound", "plain", "kind"),
    [
        ("2 + 3", "5", "ROWS"),
        ("CAST('2' AS INT) * 2", "4", "ROWS"),
        ("INTERVAL '1' HOUR * 2", "INTERVAL '2' HOUR", "RANGE"),
        ("INTERVAL '1' HOUR + INTERVAL '5' MINUTE", "INTERVAL '65' MINUTE", "RANGE"),
    ],
)
def test_a_bound_of_a_window_may_be_computed(bound: str, plain: str, kind: str) -> None:
    computed, written = sums(bound, kind), sums(plain, kind)

    values = [[each["value"] for each in spec["constants"]] for spec in (computed, written)]
    assert values[0] == values[1]
    assert computed["groups"][0]["lowerBound"] == written["groups"][0]["lowerBound"]


def test_windows_behind_each_other_have_names_of_their_own() -> None:
    script = (
        "CREATE TABLE src (k INT, v INT, t TIMESTAMP(3), WATERMARK FOR t AS t) "
        "WITH ('connector' = 'ingress', 'changelog-mode' = 'I');"
        "CREATE TABLE snk WITH ('connector' = 'blackhole') AS "
        "SELECT *, SUM(c) OVER (PARTITION BY k ORDER BY t) AS b FROM ("
        "SELECT *, LAG(a) OVER (PARTITION BY k ORDER BY t) AS c FROM ("
        "SELECT *, SUM(v) OVER (PARTITION BY k ORDER BY t) AS a FROM src));"
    )

    plan = load_plan(compile_script(script)[-1].document)

    (last,) = [node for node in plan.nodes if "overSpec" in node.raw][-1:]
    names = last.output_type.field_names
    assert len(names) == len(set(names)) == 7
