"""What is wrong with SQL is said with its place; what we do not plan is refused by name."""

from __future__ import annotations

import pytest

from service.sql import (
    PlanningError,
    Position,
    SqlError,
    SqlSyntaxError,
    UnsupportedSql,
    ValidationError,
    compile_script,
)
from tests.service.sql.scripts import TABLES

QUERIES = [
    ("v FROM s WHERE", SqlSyntaxError, 33, "WHERE is incomplete"),
    ("v FROM s GROUP BY v HAVING", SqlSyntaxError, 44, "HAVING is incomplete"),
    ("v, FROM s", SqlSyntaxError, 27, "FROM is not expected here"),
    ("v FROM s GROUP BY v,", SqlSyntaxError, 43, "more is expected after a comma"),
    ("v::BIGINT FROM s", SqlSyntaxError, 25, "has no ::"),
    ("v FROM s WHERE v == 3", SqlSyntaxError, 41, "has no =="),
    ("v FROM s WHERE v ISNULL", SqlSyntaxError, 41, "has no ISNULL"),
    ("v FROM s LIMIT 2, 3", SqlSyntaxError, 40, "LIMIT takes one number"),
    ("0x1F FROM s", SqlSyntaxError, 25, "x1F is not expected here"),
    ("v AS 'x' FROM s", SqlSyntaxError, 29, "x is not expected here"),
    ("v FROM s WHERE k = 'open", SqlSyntaxError, 43, "is not closed"),
    ("v FROM ``", SqlSyntaxError, 31, "a name is empty"),
    ("v AS `` FROM s", SqlSyntaxError, 29, "a name is empty"),
    ("V FROM s", ValidationError, 24, "Column 'V' not found in any table (did you mean v?)"),
    ("s.w FROM s", ValidationError, 24, "'s.w'"),
    ("v FROM nosuch", ValidationError, 31, "nosuch"),
    ("v FROM s WHERE k", ValidationError, 39, "a condition must be BOOLEAN"),
    ("v FROM s WHERE SUM(v) > 3", ValidationError, 39, "SUM is not allowed here"),
    ("k + 1 FROM s", ValidationError, 24, "+ is not defined for VARCHAR and INTEGER"),
    ("v FROM s GROUP BY k", ValidationError, 24, "'v' is not being grouped"),
    ("COUNT(DISTINCT v, id) FROM s", ValidationError, 24, "COUNT does not take 2 arguments"),
    ("id FROM s, c", ValidationError, 24, "ambiguous"),
    ("NOSUCH(v) FROM s", UnsupportedSql, 24, "function NOSUCH"),
    ("s.v FROM s JOIN c ON s.v = (SELECT 1 FROM c)", UnsupportedSql, 59, "a subquery as a"),
    ("v FROM s WHERE v > (SELECT id, v FROM c)", ValidationError, 51, "one column, not 2"),
    ("(SELECT v FROM c WHERE c.id = s.id) FROM s", UnsupportedSql, 32, "this correlated subquery"),
    (
        "v FROM s WHERE v > 1 OR EXISTS (SELECT 1 FROM c WHERE c.id > s.id OR c.v = 1)",
        UnsupportedSql,
        63,
        "this",
    ),
    ("COUNT(*) FROM s GROUP BY GROUPING SETS ((k), (k))", UnsupportedSql, 65, "one set twice"),
    ("GROUPING(v) FROM s GROUP BY k", ValidationError, 24, "must be a grouped expression"),
    ("1 FROM s GROUP BY TUMBLE(v, INTERVAL '1' DAY)", ValidationError, 42, "a time attribute"),
    ("TUMBLE_END(v, INTERVAL '1' DAY) FROM s GROUP BY v", ValidationError, 24, "matching call"),
    ("CUME_DIST() OVER (ORDER BY v) FROM s", PlanningError, 24, "CUME_DIST Function is not"),
    ("LAG(v, id) OVER (ORDER BY v) FROM s", UnsupportedSql, 24, "LAG with an offset"),
    ("LAG(v, 1 / 0) OVER (ORDER BY v) FROM s", UnsupportedSql, 24, "LAG with an offset"),
    ("LAG(v, 1.5) OVER (ORDER BY v) FROM s", ValidationError, 24, "needs an offset of type INT"),
    ("LEAD(v, 1 - 2) OVER (ORDER BY v) FROM s", ValidationError, 24, "Offset(-1) should be"),
    ("LAG(v, NULL) OVER (ORDER BY v) FROM s", ValidationError, 24, "Illegal use of 'NULL'"),
    ("LAG(v, 1, 1.5) OVER (ORDER BY v) FROM s", ValidationError, 24, "(2, 1) NOT NULL to INT."),
    (
        "LAG(CAST(v AS DECIMAL(5, 2)), 1, CAST(v AS DECIMAL(6, 3))) OVER (ORDER BY v) FROM s",
        UnsupportedSql,
        24,
        "explicitly cast default value DECIMAL(6, 3) to DECIMAL(5, 2).",
    ),
    (
        "LAG(CAST(v AS BIGINT), 1, 5) OVER (ORDER BY v) FROM s",
        ValidationError,
        24,
        "explicitly cast default value INT NOT NULL to BIGINT.",
    ),
    ("MAX(v IGNORE NULLS) FROM s", UnsupportedSql, 24, "MAX with IGNORE NULLS"),
    ("v FROM s QUALIFY v = 1", ValidationError, 41, "must contain a window function"),
    ("DISTINCT ON (v) v FROM s", UnsupportedSql, 37, "ON of DISTINCT"),
    (
        "JSON_VALUE('{}', '$' EMPTY ARRAY ON EMPTY) FROM s",
        ValidationError,
        None,
        "no such ON EMPTY",
    ),
    ("JSON_VALUE('{}', '$' WITH WRAPPER) FROM s", ValidationError, None, "no such clause"),
    ("JSON_VALUE(v, '$') FROM s", ValidationError, None, "takes a text and a path"),
    ("JSON_VALUE('{}' '$') FROM s", SqlSyntaxError, None, "JSON_VALUE takes a text"),
    ("JSON_EXISTS('{}', '$' TRUE ON) FROM s", SqlSyntaxError, None, "ON EMPTY or ON ERROR"),
    ("JSON_OBJECT('a', v) FROM s", SqlSyntaxError, None, "VALUE is expected in JSON_OBJECT"),
    ("JSON_OBJECT(KEY 'a': v) FROM s", SqlSyntaxError, None, "VALUE is expected in JSON_OBJECT"),
    ("JSON_OBJECT('a' VALUE) FROM s", SqlSyntaxError, None, "a name and a value are expected"),
    ("JSON_OBJECT('a': v : v) FROM s", SqlSyntaxError, None, "near ')'"),
    ("JSON_OBJECT('a': ARRAY[v : 1]) FROM s", SqlSyntaxError, None, "Flink's SQL has no :"),
    ("JSON_ARRAY(v : 1) FROM s", SqlSyntaxError, None, "Flink's SQL has no :"),
    ("JSON_ARRAY(NULL ON NULL) FROM s", SqlSyntaxError, None, "near 'ON'"),
    ("JSON_OBJECT(v VALUE 1) FROM s", ValidationError, 36, "a text that is not NULL"),
    ("JSON_OBJECT(k VALUE 1) FROM s", ValidationError, 36, "a text that is not NULL"),
    ("JSON_ARRAY(v, NULL) FROM s", ValidationError, None, "NULL has no type in JSON_ARRAY"),
    ("v IS JSON FROM s", ValidationError, None, "IS JSON is asked of a text"),
    ("v FROM s TABLESAMPLE (10)", UnsupportedSql, 31, "SAMPLE"),
    ("v FROM s NATURAL JOIN c ON TRUE", ValidationError, 46, "NATURAL keyword with ON"),
    ("x FROM s CROSS JOIN UNNEST(v) AS t(x)", ValidationError, 51, "Cannot apply 'UNNEST'"),
    ("x FROM s RIGHT JOIN UNNEST(ARRAY[v]) AS t(x) ON TRUE", UnsupportedSql, None, "type RIGHT"),
    ("x FROM s LEFT JOIN UNNEST(ARRAY[v]) AS t(x) ON x > v", UnsupportedSql, None, "than those of"),
    ("x FROM s, UNNEST(ARRAY[v]) AS t(x, y)", ValidationError, None, "has 1 columns"),
    ("x FROM s, UNNEST(ARRAY[v], ARRAY[v]) AS t(x, y)", UnsupportedSql, None, "more than one"),
    ("v[1] FROM s", ValidationError, 24, "Cannot apply 'ITEM'"),
    ("ARRAY[v][0] FROM s", ValidationError, None, "starting at 1 but was 0"),
    ("FLOOR(v TO DAY) FROM s", ValidationError, None, "FLOOR TO DAY is not supported"),
    ("IF(v > 1) FROM s", SqlSyntaxError, None, "IF is incomplete"),
    ("* FROM TABLE(TUMBLE(DATA => TABLE s, GAP => v))", ValidationError, None, "each of DATA"),
    ("* FROM TABLE(TUMBLE(DATA => TABLE s, SIZE => v))", ValidationError, None, "missing one of"),
    ("MAP[v] FROM s", ValidationError, None, "even number"),
    ("ARRAY[v, 'a'] FROM s", ValidationError, None, "no common type"),
    (
        "s.v FROM s, LATERAL TABLE(f(v)) AS t(a)",
        UnsupportedSql,
        None,
        "LATERAL of a table function",
    ),
    (
        "* FROM s MATCH_RECOGNIZE (MEASURES A.v AS a PATTERN (A) DEFINE A AS v = 1) AS m",
        UnsupportedSql,
        None,
        "MATCH_RECOGNIZE is not supported",
    ),
    ("v FROM s TABLESAMPLE BERNOULLI(10)", UnsupportedSql, None, "TABLESAMPLE is not supported"),
    ("v FROM s WHERE v SIMILAR TO 'a'", ValidationError, None, "SIMILAR TO compares texts"),
    ("v FROM s WHERE v > ANY (SELECT v, v FROM s)", UnsupportedSql, None, "several columns"),
    ("v FROM s WHERE (v, 1) IN (2)", ValidationError, None, "a row of 2 values"),
    ("COUNT(*) FROM s GROUP BY NULL", ValidationError, None, "Illegal use of 'NULL'"),
    ("v, NULL FROM s", ValidationError, None, "Illegal use of 'NULL' (a CAST"),
    ("UPPER(NULL) FROM s", ValidationError, None, "Illegal use of 'NULL'"),
    ("'a' LIKE NULL FROM s", ValidationError, None, "Illegal use of 'NULL'"),
    ("CASE WHEN v > 1 THEN NULL END FROM s", ValidationError, None, "must not be NULL"),
    (
        "SUM(v) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING) FROM s",
        PlanningError,
        1,
        "FOLLOWING windows are not supported",
    ),
    ("v FROM s AS t /*+ OPTIONS('a'='b') */", SqlSyntaxError, 38, "a hint is not expected"),
    ("/*+ FOO(s) */ v FROM s", UnsupportedSql, None, "hint FOO"),
    ("v FROM s FOR SYSTEM_TIME AS OF id", UnsupportedSql, None, "right side of a join only"),
    ("v FROM s UNION BY NAME SELECT v FROM s", UnsupportedSql, None, "BY NAME"),
    ("v FROM s FETCH FIRST 3 PERCENT ROWS ONLY", UnsupportedSql, None, "PERCENT"),
    ("v FROM s ORDER BY v", PlanningError, 1, "Sort on a non-time-attribute field"),
]


@pytest.mark.parametrize(("query", "kind", "column", "reason"), QUERIES)
def test_a_query_that_is_wrong(
    query: str, kind: type[SqlError], column: int | None, reason: str
) -> None:
    with pytest.raises(SqlError) as caught:
        compile_script(f"{TABLES}INSERT INTO snk SELECT {query}")
    assert type(caught.value) is kind
    assert reason in str(caught.value)
    assert caught.value.position is not None
    assert caught.value.position.line == 2
    if column is not None:
        assert caught.value.position.column == column


MISSPELT = [
    ("SELEC v, id FROM s", 1, "SELEC", "SELECT"),
    ("SELECT v, id FORM s", 14, "FORM", "FROM"),
    ("SELECT v FROM s WERE v = 1", 17, "WERE", "WHERE"),
    ("SELECT v FROM s JION c ON s.id = c.id", 17, "JION", "JOIN"),
    ("SELECT v FROM s GROUPBY v", 17, "GROUPBY", "GROUP BY"),
    ("SELECT k FROM s WHERE k LKIE 'x'", 25, "LKIE", "LIKE"),
    ("SELECT v FROM (selec v FROM s)", 16, "selec", "SELECT"),
    ("SELECT CASE WHEN v > 1 THEN 1 ELSEE 2 END FROM s", 31, "ELSEE", "ELSE"),
    ("SELECT v FROM s UNIN SELECT v FROM s", 17, "UNIN", "UNION"),
]


@pytest.mark.parametrize(("query", "column", "word", "meant"), MISSPELT)
def test_a_misspelt_word_is_told_and_not_what_stands_behind_it(
    query: str, column: int, word: str, meant: str
) -> None:
    with pytest.raises(SqlSyntaxError) as caught:
        compile_script(f"{TABLES}INSERT INTO snk\n{query}")
    assert caught.value.reason == f"{word!r} is not expected here"
    assert caught.value.hint == f"did you mean {meant}?"
    assert caught.value.position == Position(3, column)


def test_a_name_that_is_like_a_word_of_the_grammar_is_none() -> None:
    """`form` is a column here: read as FROM, the query would be wrong a word later."""
    with pytest.raises(SqlSyntaxError, match="near 'c'"):
        compile_script(f"{TABLES}INSERT INTO snk SELECT form b c FROM s")


WINDOWS = [
    ("SESSION(TABLE t PARTITION BY 1, DESCRIPTOR(ts), INTERVAL '1' MINUTE)", "needs columns"),
    ("TUMBLE(TABLE t, DESCRIPTOR(PROCTIME()), INTERVAL '1' MINUTE)", "needs a time attribute"),
    ("TUMBLE(TABLE t, DESCRIPTOR(k), INTERVAL '1' MINUTE)", "needs a time attribute"),
]


@pytest.mark.parametrize(("window", "reason"), WINDOWS)
def test_a_window_is_over_columns(window: str, reason: str) -> None:
    timed = "CREATE TABLE t (k STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('a' = 'b');"
    with pytest.raises(ValidationError, match=reason):
        compile_script(f"{TABLES}{timed}INSERT INTO snk SELECT k FROM TABLE({window})")


STATEMENTS = [
    ("SELECT 1", UnsupportedSql, 1, "statements that begin with SELECT"),
    ("SELEC 1", UnsupportedSql, 1, "did you mean SELECT?"),
    ("DELETE FROM s", UnsupportedSql, 1, "DELETE are not supported (one of BEGIN, COMPILE, "),
    ("TRUNCATE TABLE s", UnsupportedSql, 1, "TRUNCATE are not supported (one of BEGIN, "),
    ("EXPLAIN SELECT 1", UnsupportedSql, 1, "cannot show, explain or execute"),
    ("'abc'", UnsupportedSql, 1, "statements that begin with a text"),
    ("CREATE FUNCTION f AS 'x'", UnsupportedSql, 1, "CREATE FUNCTION"),
    ("CREATE TABLE t (a INT", SqlSyntaxError, 21, ") was expected, not the end"),
    ("CREATE TABLE t (a FOO)", ValidationError, 19, "unknown type FOO"),
    ("SET x = 3", SqlSyntaxError, 5, "a string in single quotes was expected, not 'x'"),
    ("COMPILE PLAN 'x' FOR SELECT 1", SqlSyntaxError, 22, "INSERT was expected, not 'SELECT'"),
    ("INSERT INTO nosuch SELECT 1", ValidationError, 1, "nosuch"),
    ("DROP TABLE nosuch", ValidationError, 1, "nosuch"),
]


@pytest.mark.parametrize(("statement", "kind", "column", "reason"), STATEMENTS)
def test_a_statement_that_is_wrong(
    statement: str, kind: type[SqlError], column: int, reason: str
) -> None:
    with pytest.raises(SqlError) as caught:
        compile_script(f"\n\n {statement}")
    assert type(caught.value) is kind
    assert reason in str(caught.value)
    assert caught.value.position == Position(3, column + 1)


def test_the_message_says_the_place_and_what_helps() -> None:
    with pytest.raises(ValidationError) as caught:
        compile_script(TABLES + "INSERT INTO snk\n  SELECT V FROM s")
    assert str(caught.value) == (
        "line 3, column 10: Column 'V' not found in any table (did you mean v?)"
    )
    assert caught.value.code == "sql.invalid"


def test_a_query_alone_is_told_what_is_before_it() -> None:
    with pytest.raises(UnsupportedSql) as caught:
        compile_script("SELECT 1")

    assert caught.value.hint == "write INSERT INTO and a table before it: a query needs a sink"
