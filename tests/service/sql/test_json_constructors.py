"""JSON_OBJECT and JSON_ARRAY in plans: the texts of real Flink, and what is nested in what."""

from __future__ import annotations

from typing import Any

import pytest

from service.sql import compile_script
from tests.service.sql.test_expression_values import value_of

WITH = "WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'changelog-mode' ="
OBJECT = "JSON_OBJECT(NULL_ON_NULL, 'a', i)"


def nodes(script: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = compile_script(script)[-1].document["nodes"]
    return found


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (
            "JSON_OBJECT('a' VALUE i, 'b': s ABSENT ON NULL)",
            "JSON_OBJECT(KEY 'a' VALUE `i`, KEY 'b' VALUE `s` ABSENT ON NULL)",
        ),
        ("JSON_OBJECT()", "JSON_OBJECT(NULL ON NULL)"),
        ("JSON_ARRAY()", "JSON_ARRAY()"),
        ("JSON_ARRAY(i, s)", "JSON_ARRAY(`i`, `s` ABSENT ON NULL)"),
        ("JSON_ARRAY(JSON(s) NULL ON NULL)", "JSON_ARRAY(`JSON`(`s`) NULL ON NULL)"),
        ("JSON_STRING(i)", "`JSON_STRING`(`i`)"),
        ("JSON_QUOTE(s)", "`JSON_QUOTE`(`s`)"),
        ("JSON_UNQUOTE(s)", "`JSON_UNQUOTE`(`s`)"),
    ],
)
def test_the_text_of_a_computed_column(written: str, text: str) -> None:
    (scan, *_) = nodes(
        f"CREATE TABLE s (i INT, s STRING, a AS {written}) {WITH} 'I');"
        f"CREATE TABLE o (x STRING) {WITH} 'I'); INSERT INTO o SELECT a FROM s"
    )
    columns = scan["scanTableSource"]["table"]["resolvedTable"]["schema"]["columns"]
    assert [c["expression"]["serializableString"] for c in columns if "expression" in c] == [text]


@pytest.mark.parametrize(
    ("query", "calcs"),
    [
        # What a view computes is merged into the array, and so is not quoted again.
        (
            "SELECT JSON_ARRAY(x), x FROM v",
            [f"Calc(select=[JSON_ARRAY(ABSENT_ON_NULL, {OBJECT}) AS EXPR$0, {OBJECT} AS x])"],
        ),
        # Behind an aggregate it is a column, and so a text.
        (
            "SELECT JSON_OBJECT('n' VALUE COUNT(*), 'k' VALUE x), x FROM v GROUP BY x",
            [
                f"Calc(select=[{OBJECT} AS x])",
                "Calc(select=[JSON_OBJECT(NULL_ON_NULL, 'n', $f1, 'k', x) AS EXPR$0, x])",
            ],
        ),
    ],
)
def test_what_is_merged_is_nested(query: str, calcs: list[str]) -> None:
    found = nodes(
        f"CREATE TABLE s (i INT) {WITH} 'I');"
        "CREATE VIEW v AS SELECT i, JSON_OBJECT('a' VALUE i) AS x FROM s;"
        f"CREATE TABLE o (x STRING, y STRING) {WITH} 'retract'); INSERT INTO o {query}"
    )
    assert [node["description"] for node in found if "calc" in node["type"]] == calcs


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("JSON_ARRAY(COALESCE(JSON_ARRAY(i), 'x'))", "[[1]]"),
        ("JSON_OBJECT('a' VALUE COALESCE(JSON_OBJECT(), s))", '{"a":{}}'),
        ("JSON_ARRAY(COALESCE(s, JSON_ARRAY(i)))", '["abc"]'),
        ("JSON_ARRAY(IFNULL(JSON_ARRAY(i), 'x'))", '["[1]"]'),
    ],
)
def test_what_coalesce_leaves_is_nested(expression: str, value: str) -> None:
    """As Flink 2.3 gave: it leaves COALESCE out where the first operand is never NULL."""
    assert value_of(expression, "STRING") == value
