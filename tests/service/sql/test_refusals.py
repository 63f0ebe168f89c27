"""Queries that no plan of ours means are refused, not planned as something near to them."""

from __future__ import annotations

import pytest

from service.deadline import time_limit
from service.sql import PlanningError, SqlError, UnsupportedSql, ValidationError, compile_script
from tests.service.sql.scripts import WITH, plan

TIMED = (
    f"CREATE TABLE t (k INT, j INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({WITH} = 'I');"
    f"CREATE TABLE counts (n BIGINT) WITH ({WITH} = 'retract');"
    "INSERT INTO counts "
)
WINDOWS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND))"
CUTS = [
    "FROM t GROUP BY TUMBLE(ts, INTERVAL {})",
    "FROM t GROUP BY HOP(ts, INTERVAL {}, INTERVAL '3' SECOND)",
    "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL {})) GROUP BY window_start, window_end",
    "FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL {}, INTERVAL '4' SECOND)) "
    "GROUP BY window_start, window_end",
    "FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL {})) "
    "GROUP BY window_start, window_end, k",
]


@pytest.mark.parametrize("length", ["'1' MONTH", "'1' YEAR", "'0' SECOND", "'-1' SECOND"])
@pytest.mark.parametrize("cut", CUTS)
def test_windows_of_months_and_of_nothing(cut: str, length: str) -> None:
    """A month was taken for a millisecond."""
    assert plan(TIMED + "SELECT COUNT(*) " + cut.format("'2' SECOND"))
    with pytest.raises(ValidationError, match=r"month|above 0"):
        plan(TIMED + "SELECT COUNT(*) " + cut.format(length))


def test_an_offset_of_windows_may_be_below_zero() -> None:
    windows = WINDOWS.replace("SECOND)", "SECOND, INTERVAL '-1' SECOND)")
    assert plan(TIMED + f"SELECT COUNT(*) FROM {windows} GROUP BY window_start, window_end")


@pytest.mark.parametrize(
    "sets",
    [
        "(window_start, window_end, window_time), (window_start, window_end)",
        "(window_start, window_end, window_time), (window_start, window_end, k)",
        "(window_start, window_end), (k)",
    ],
)
def test_windows_that_are_not_in_every_grouping_set(sets: str) -> None:
    """Two sets that differ by `window_time` alone became one, in which each row counted twice."""
    query = f"SELECT COUNT(*) FROM {WINDOWS} GROUP BY GROUPING SETS ({sets})"
    with pytest.raises(UnsupportedSql, match="windows that may be missing"):
        plan(TIMED + query)


def test_windows_of_the_side_of_an_outer_join_that_may_be_missing() -> None:
    side = f"(SELECT k, window_start, window_end FROM {WINDOWS})"
    query = (
        f"SELECT COUNT(*) FROM {side} l LEFT JOIN {side} r ON l.k = r.k "
        "AND l.window_start = r.window_start AND l.window_end = r.window_end "
        "GROUP BY l.window_start, l.window_end"
    )
    assert plan(TIMED + query)
    with pytest.raises(UnsupportedSql, match="windows that may be missing"):
        plan(TIMED + query + ", r.window_start")


def test_a_column_of_a_subquery_that_equals_two_around_it() -> None:
    """The second condition took the place of the first."""
    query = "SELECT (SELECT COUNT(v) FROM s WHERE s.id = t.k{}) FROM t"
    assert plan(TIMED + query.format(" AND s.id = t.k"))
    with pytest.raises(UnsupportedSql, match="this correlated subquery"):
        plan(TIMED + query.format(" AND s.id = t.j"))


def test_a_cube_of_many_columns_is_refused_at_once() -> None:
    """Two to the power of its columns is counted, not made."""
    names = [f"c{at}" for at in range(40)]
    columns = ", ".join(f"{name} INT" for name in names)
    table = f"CREATE TABLE wide ({columns}) WITH ({WITH} = 'I');"
    with time_limit(5), pytest.raises(UnsupportedSql, match="more than 64 sets"):
        plan(table + f"INSERT INTO snk SELECT c0 FROM wide GROUP BY CUBE({', '.join(names)})")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ("'connector' = 'ingress', 'format' = 'changelog-json'", "live has inserts only"),
        ("'connector' = 'ingress', 'format' = 'changelog-json', 'changelog-mode' = 'I,UB,UA'", ""),
        ("'connector' = 'kafka', 'format' = 'debezium-json'", ""),
    ],
)
def test_a_source_that_could_do_without_updates_is_told_the_option(options: str, hint: str) -> None:
    top = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY id) AS n"
    windows = "TUMBLE(TABLE live, DESCRIPTOR(at), INTERVAL '1' MINUTE)"
    declared = f"""
    CREATE TABLE live (id INT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ({options});
    CREATE TABLE gone (id INT) WITH ('connector' = 'blackhole');
    INSERT INTO gone SELECT id FROM (SELECT id, {top} FROM TABLE({windows})) WHERE n <= 3;
    """
    with pytest.raises(PlanningError, match="doesn't support consuming update") as caught:
        compile_script(declared)
    assert hint in caught.value.hint
    assert ("'changelog-mode' = 'I'" in caught.value.hint) is bool(hint)


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ("'connector' = 'filesystem', 'path' = 'o', 'format' = 'json'", "'format' = 'changelog-"),
        ("'connector' = 'kafka', 'format' = 'json'", "'connector' = 'upsert-kafka'"),
        ("'connector' = 'jdbc'", "primary key"),
    ],
)
def test_a_sink_of_inserts_is_told_what_takes_updates(options: str, hint: str) -> None:
    declared = f"""
    CREATE TABLE live (id INT) {INGRESS};
    CREATE TABLE counts (id INT, n BIGINT) WITH ({options});
    INSERT INTO counts SELECT id, COUNT(*) FROM live GROUP BY id;
    """
    with pytest.raises(PlanningError, match="doesn't support consuming update") as caught:
        compile_script(declared)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "entry", ["UNNEST(many) AS u (v)", "LATERAL (SELECT id AS v FROM s WHERE s.id = t.id) AS u"]
)
@pytest.mark.parametrize(
    "join",
    ["JOIN s USING (v)", "NATURAL JOIN s", "RIGHT JOIN s ON s.v = u.v", "FULL JOIN s ON 1=1"],
)
def test_no_join_behind_a_comma_is_lost(entry: str, join: str) -> None:
    """Behind what reads columns before the comma it was, without a word."""
    declared = f"""
    CREATE TABLE t (id INT, many ARRAY<INT>) {INGRESS};
    CREATE TABLE s (id INT, v INT) {INGRESS};
    CREATE TABLE o (n INT) WITH ('connector' = 'print');
    INSERT INTO o SELECT 1 FROM t, {entry} {join};
    """
    with pytest.raises(UnsupportedSql, match="behind a comma and something") as caught:
        compile_script(declared)
    assert "CROSS JOIN" in caught.value.hint


INGRESS = "WITH ('connector' = 'ingress', 'format' = 'changelog-json')"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT z.id FROM (a FULL JOIN b USING (id)) AS z", "alias of a join with USING"),
        (
            "SELECT id FROM a FULL JOIN b USING (id) WHERE EXISTS (SELECT 1 FROM c WHERE c.x = id)",
            "whole columns of the query around it",
        ),
        (
            "SELECT 1 AS id FROM r WHERE EXISTS (SELECT 1 FROM c WHERE c.x = r.f.x)",
            "whole columns of the query around it",
        ),
    ],
)
def test_what_a_join_made_of_two_columns_has_no_other_name(query: str, message: str) -> None:
    tables = f"""
    CREATE TABLE a (id INT, v INT) {INGRESS};
    CREATE TABLE b (id INT, w INT) {INGRESS};
    CREATE TABLE c (x INT) {INGRESS};
    CREATE TABLE r (f ROW<x INT>) {INGRESS};
    CREATE TABLE gone (id INT) WITH ('connector' = 'blackhole');
    """
    with pytest.raises(UnsupportedSql, match=message):
        compile_script(f"{tables} INSERT INTO gone {query};")


def test_a_constant_that_is_no_time_is_tried() -> None:
    """As a cast it is refused; as a try it is NULL when the row comes."""
    tables = f"""
    CREATE TABLE a (id INT) {INGRESS};
    CREATE TABLE gone (d DATE) WITH ('connector' = 'blackhole');
    """
    compile_script(f"{tables} INSERT INTO gone SELECT TRY_CAST('abc' AS DATE) FROM a;")
    with pytest.raises(ValidationError, match="not a DATE"):
        compile_script(f"{tables} INSERT INTO gone SELECT CAST('abc' AS DATE) FROM a;")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT 1 FROM t WHERE k IN ()", r"IN \(\) has no values"),
        ("SELECT 1 FROM t WHERE (k, j) NOT IN ()", r"IN \(\) has no values"),
        ("SELECT 1 FROM t WHERE () = ()", "at least one value"),
        ("SELECT 1 FROM t WHERE () IN (())", "at least one value"),
        ("SELECT UPPER('a') FILTER (WHERE k > 1) FROM t", "UPPER is not an aggregate"),
        (
            "SELECT GROUPING(k) FILTER (WHERE k > 1) FROM t GROUP BY k",
            "GROUPING is not an aggregate",
        ),
        ("SELECT 1 FROM", "Expected table name, near 'FROM'$"),
        ("SELECT COUNT(*) FROM t GROUP BY", "GROUP BY is followed by nothing"),
        ("SELECT 1 FROM (SELECT k FROM t GROUP BY) AS q", "GROUP BY is followed by nothing"),
        ("SELECT JSON_VALUE('1', '$' RETURNING) FROM t", "a type is expected behind RETURNING"),
        ("SELECT 1 FROM t WHERE '{}' IS JSON WITH UNIQUE KEYS", "of JSON is not supported"),
        ("SELECT 1 FROM t WHERE '{}' IS NOT JSON WITHOUT UNIQUE KEYS", "of JSON is not supported"),
    ],
)
def test_what_is_left_out_or_passed_over(query: str, words: str) -> None:
    """These ended in an error of ours, were planned without a word of them, or told of tokens."""
    with pytest.raises(SqlError, match=words):
        plan(TIMED + query)
