"""Columns of different types that a join FOR SYSTEM_TIME AS OF compares, and the LOOKUP hint.

The right side is asked by its own columns. What equals what is told by DuckDB, which compares both
in the type that holds both, as Flink does.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from operators.expressions import compile_rex
from service.plan import load_plan
from service.plan.rex import parse_rex
from service.runtime.dataflow import check_plan
from service.settings import Settings
from service.sql import compile_script
from service.sql.errors import SqlError
from tests.batch_sql import batch_sql

ROWS = (
    "CREATE TABLE o (k {}, t TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR t AS t) "
    "WITH ('connector' = 'ingress', 'changelog-mode' = 'I');"
)
DIMENSION = (
    "CREATE TABLE d (id {}, v INT) WITH "
    "('connector' = 'filesystem', 'path' = 'd', 'format' = 'json');"
)
VERSIONS = (
    "CREATE TABLE d (id {} NOT NULL, v INT, t TIMESTAMP(3), WATERMARK FOR t AS t, "
    "PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'ingress');"
)


def planned(script: str) -> dict[str, Any]:
    """The document of a plan that can be run."""
    document = compile_script(script)[-1].document
    check_plan(load_plan(document), Settings())
    return document


def looked_up(ours: str, theirs: str, condition: str = "o.k = d.id", hint: str = "") -> Any:
    script = ROWS.format(ours) + DIMENSION.format(theirs)
    script += "CREATE TABLE snk WITH ('connector' = 'blackhole') AS "
    script += f"SELECT {hint} o.k, d.v FROM o JOIN d FOR SYSTEM_TIME AS OF o.pt ON {condition};"
    document = planned(script)
    (join,) = [each for each in document["nodes"] if "lookupKeys" in each]
    return document, join


def key_of(document: dict[str, Any], join: dict[str, Any], value: object) -> object:
    """By what a row with this value asks the table; None: it meets nothing."""
    (by,) = [each for each in join["lookupKeys"].values() if each["type"] == "FieldRef"]
    before = [edge["source"] for edge in document["edges"] if edge["target"] == join["id"]]
    (calc,) = [each for each in document["nodes"] if each["id"] in before]
    if "projection" not in calc:
        return value
    return compile_rex(parse_rex(calc["projection"][by["index"]], ""))([value, None, None])


BIG = 3_000_000_000
AT = dt.datetime.fromisoformat("2024-01-01 00:00:00.123")


@pytest.mark.parametrize(
    ("ours", "theirs", "values", "candidates"),
    [
        ("INT", "BIGINT", [1, -1, None], [1, -1]),
        ("BIGINT", "INT", [1, BIG, BIG - (1 << 32), None], [1, BIG - (1 << 32)]),
        ("CHAR(3)", "STRING", ["ab ", None], ["ab", "ab "]),
        ("STRING", "CHAR(3)", ["ab", "ab ", "abcd", "abc"], ["ab ", "abc"]),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", [AT], [AT, AT + dt.timedelta(microseconds=1)]),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", [AT, AT + dt.timedelta(microseconds=1)], [AT]),
        ("DECIMAL(10, 2)", "INT", [Decimal("1.00"), Decimal("1.50")], [1, 2]),
        ("INT", "DECIMAL(12, 4)", [1], [Decimal("1.0000"), Decimal("1.5000")]),
        ("DECIMAL(10, 2)", "DECIMAL(4, 1)", [Decimal("1.50"), Decimal("1.55")], [Decimal("1.5")]),
        ("DOUBLE", "INT", [1.0, 1.5, 1e300], [1, 2147483647]),
        ("INT", "DOUBLE", [1], [1.0, 1.5]),
    ],
)
def test_a_row_asks_for_what_its_value_equals(
    ours: str, theirs: str, values: list[Any], candidates: list[Any]
) -> None:
    document, join = looked_up(ours, theirs)

    for value in values:
        key = key_of(document, join, value)
        for candidate in candidates:
            assert (key == candidate) is _is_equal(value, ours, candidate, theirs), (
                value,
                candidate,
            )


def _is_equal(value: object, ours: str, candidate: object, theirs: str) -> bool:
    if isinstance(value, str) and isinstance(candidate, str):
        return value == candidate  # a CHAR has its blanks; DuckDB's has none
    names = [each.replace("(3)", "").replace("(6)", "") for each in (ours, theirs)]
    query = f"SELECT CAST(? AS {names[0]}) = CAST(? AS {names[1]})"
    ((found,),) = batch_sql(query, value, candidate)
    return bool(found)


def test_numbers_that_become_one_as_floating_are_no_key() -> None:
    with pytest.raises(SqlError, match="requires an equality condition"):
        looked_up("DOUBLE", "BIGINT")

    _, join = looked_up("DOUBLE", "BIGINT", "o.k = d.id AND CAST(o.k AS INT) = d.v")

    assert list(join["lookupKeys"]) == ["1"]
    assert join["joinCondition"]["internalName"] == "$=$1"


@pytest.mark.parametrize(
    ("theirs", "literal", "expected"),
    [("BIGINT", "1", 1), ("DECIMAL(5, 2)", "1", "1.00"), ("STRING", "'a'", "a")],
)
def test_a_constant_is_asked_for_in_the_columns_type(
    theirs: str, literal: str, expected: object
) -> None:
    _, join = looked_up("INT", theirs, f"o.k = d.v AND d.id = {literal}")

    (key,) = [each for each in join["lookupKeys"].values() if each["type"] == "Constant"]
    assert Decimal(key["literal"]["value"]) == Decimal(str(expected)) if expected != "a" else True


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("INT", "BIGINT"), ("BIGINT", "INT"), ("DECIMAL(10, 2)", "BIGINT"), ("CHAR(3)", "STRING")],
)
def test_a_temporal_join_of_different_types_runs(ours: str, theirs: str) -> None:
    script = ROWS.format(ours) + VERSIONS.format(theirs)
    script += "CREATE TABLE snk WITH ('connector' = 'blackhole') AS "
    script += "SELECT o.k, d.v FROM o JOIN d FOR SYSTEM_TIME AS OF o.t ON o.k = d.id;"

    document = planned(script)

    (join,) = [each for each in document["nodes"] if "temporal-join" in each["type"]]
    assert join["joinSpec"]["rightKeys"] == [0]


RETRIES = (
    "/*+ LOOKUP('table' = '{}', 'retry-predicate' = 'lookup_miss', 'retry-strategy' = "
    "'fixed_delay', 'fixed-delay' = '2s', 'max-attempts' = '3') */"
)


def test_the_hint_lookup_says_how_a_key_without_rows_is_asked_for_again() -> None:
    _, join = looked_up("INT", "INT", hint=RETRIES.format("d"))

    assert join["retryOptions"] == {
        "retry-predicate": "lookup_miss",
        "retry-strategy": "FIXED_DELAY",
        "fixed-delay": 2000,
        "max-attempts": 3,
    }


def test_the_hint_may_say_that_nothing_is_asked_again() -> None:
    hint = "/*+ LOOKUP('table' = 'd', 'async' = 'true', 'output-mode' = 'allow_unordered') */"

    _, join = looked_up("INT", "INT", hint=hint)

    assert "retryOptions" not in join


@pytest.mark.parametrize(
    ("hint", "words"),
    [
        (RETRIES.format("e"), "cannot match the name"),
        ("/*+ LOOKUP('retry-predicate' = 'lookup_miss') */", "'table' is required"),
        ("/*+ LOOKUP('table' = 'd', 'fixed-delay' = '1s') */", "'retry-predicate' is missing"),
        (RETRIES.format("d").replace("'3'", "'0'"), "max-attempts"),
        (RETRIES.format("d").replace("2s", "soon"), "fixed-delay"),
        (RETRIES.format("d").replace("lookup_miss", "late"), "must be lookup_miss"),
        ("/*+ LOOKUP('table' = 'd', 'retries' = '1') */", "unknown option 'retries'"),
        ("/*+ LOOKUP(d) */", "key-value"),
    ],
)
def test_a_hint_that_says_nothing_is_refused(hint: str, words: str) -> None:
    with pytest.raises(SqlError, match=words):
        looked_up("INT", "INT", hint=hint)


def test_a_table_may_say_that_it_is_not_looked_up() -> None:
    script = ROWS.format("INT") + DIMENSION.format("INT").replace(
        "'json'", "'json', 'lookup' = 'false'"
    )
    script += "CREATE TABLE snk WITH ('connector' = 'blackhole') AS "
    script += "SELECT o.k FROM o JOIN d FOR SYSTEM_TIME AS OF o.pt ON o.k = d.id;"

    with pytest.raises(SqlError, match="not supported yet"):
        compile_script(script)
