"""What expressions of SQL mean, computed: values that Flink 2.3 gave for the same text.

Plans that are compared as texts do not show an expression that is read as another one.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import orjson
import pytest

from operators.expressions import compile_rex
from service.plan.rex import parse_rex
from service.runtime.expressions.lower import check
from service.sql.errors import SqlError
from service.sql.session import compile_script
from state.types import format_type, parse_type
from tests.oracles import RECORDED as FOLDER

EXPRESSIONS = FOLDER.parent / "expressions" / "flink.jsonl"

COLUMNS = {
    "s": "STRING",
    "i": "INT",
    "l": "BIGINT",
    "d": "DOUBLE",
    "n": "DECIMAL(10, 2)",
    "q": "DECIMAL(20, 4)",
    "m": "DECIMAL(38, 18)",
    "w": "DECIMAL(38, 0)",
    "b": "BOOLEAN",
    "t1": "TIMESTAMP(1)",
    "t6": "TIMESTAMP(6)",
}
ROW = {
    "s": "abc",
    "i": 1,
    "l": 3_000_000_000,
    "d": -0.0,
    "n": Decimal("99999999.99"),
    "q": Decimal("7.1234"),
    "m": Decimal("1.500000000000000000"),
    "w": Decimal(7),
    "b": True,
}


def projected(expression: str, type_text: str) -> dict[str, Any]:
    """The expression of the plan of a query that selects only it."""
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    source = "'connector' = 'ingress', 'format' = 'changelog-json', 'changelog-mode' = 'I'"
    (planned,) = compile_script(
        f"CREATE TABLE t ({columns}) WITH ({source});"
        f"CREATE TABLE snk (e {type_text}) WITH ('connector' = 'redis', 'changelog-mode' = 'I');"
        f"COMPILE PLAN 'plan.json' FOR INSERT INTO snk SELECT {expression} AS e FROM t;"
    )
    (found,) = [each for each in planned.document["nodes"] if "projection" in each]
    rex = found["projection"][0]
    assert isinstance(rex, dict)
    return rex


def value_of(expression: str, type_text: str, **changed: object) -> object:
    """The value for `ROW`, with some columns changed."""
    row = {**ROW, **changed}
    return compile_rex(parse_rex(projected(expression, type_text), ""))(
        [row.get(name) for name in COLUMNS]
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("s NOT LIKE 'a%'", False),
        ("s NOT LIKE 'b%'", True),
        ("NOT s LIKE 'a%'", False),
        ("s NOT LIKE 'a!%' ESCAPE '!'", True),
        ("s LIKE 'a%'", True),
        ("i >= ANY (1.5)", True),
        ("i < ALL (1.5, 2)", False),
        ("i > SOME (n, 7)", False),
        ("l > ANY (i, l)", True),
        ("s SIMILAR TO '(a|b)[[:ALPHA:]]+'", True),
        ("s NOT SIMILAR TO '_{3}'", False),
        ("NOT s SIMILAR TO 'ab'", True),
        ("s SIMILAR TO 'a#%' ESCAPE '#'", False),
        ("s NOT SIMILAR TO 'a#%' ESCAPE '#'", True),
        ("i BETWEEN SYMMETRIC 5 AND 0", True),
        ("i BETWEEN SYMMETRIC 5 AND 2", False),
        ("i BETWEEN SYMMETRIC l AND d", True),
        ("i NOT BETWEEN SYMMETRIC l AND d", False),
        ("i BETWEEN ASYMMETRIC 5 AND 0", False),
        ("NOT i BETWEEN SYMMETRIC 5 AND 2", True),
        ("NOT (NOT i BETWEEN 0 AND 2)", True),
        # Neither below nor not below: NOT is in the comparisons.
        ("NOT (CAST('NaN' AS DOUBLE) > d AND CAST('NaN' AS DOUBLE) < 5)", False),
        ("NOT (i > 1 OR NOT (s = 'abc' AND b))", True),
        ("i IN (1.5, 2.5)", True),
        ("i NOT IN (1.5)", False),
        ("s IN (1, 2)", False),
        ("i IN (1, 2)", True),
        ("l IN (i, 3000000000)", True),
        ("CAST(i AS STRING) < 3000000000", True),
        ("CAST(l AS STRING) > i", True),
        ("d > 2.5", False),
        ("d = 0.0", True),
        ("d >= 0.0", False),
        ("n = d + 1E0", False),
    ],
)
def test_a_condition_is_read_as_it_is_written(expression: str, expected: bool) -> None:
    assert value_of(expression, "BOOLEAN") is expected


def test_nan_is_above_a_decimal_and_beside_no_double() -> None:
    assert value_of("d > 2.5", "BOOLEAN", d=float("nan")) is True
    assert value_of("d > 2.5E0", "BOOLEAN", d=float("nan")) is False


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("d BETWEEN SYMMETRIC 5 AND 1", False),
        ("d NOT BETWEEN SYMMETRIC 5 AND 1", False),
        ("d NOT BETWEEN SYMMETRIC i AND 5", False),
        ("d NOT BETWEEN i AND 5", False),
        ("d NOT BETWEEN 1 AND 5", False),
        ("NOT (NOT d BETWEEN 1 AND 5)", False),
        ("d NOT BETWEEN 1.5 AND 5.5", True),
        ("d NOT BETWEEN SYMMETRIC 5.5 AND 1.5", True),
    ],
)
def test_nan_is_neither_inside_of_a_range_nor_outside(expression: str, expected: bool) -> None:
    """But it is above a DECIMAL."""
    assert value_of(expression, "BOOLEAN", d=float("nan")) is expected


@pytest.mark.parametrize(
    ("ends", "inside", "outside"),
    [
        ("5 AND CAST(NULL AS INT)", None, None),
        ("CAST(NULL AS INT) AND 5", None, None),
        ("CAST('NaN' AS DOUBLE) AND CAST(NULL AS DOUBLE)", False, None),
    ],
)
def test_an_end_that_is_null_decides_nothing_alone(
    ends: str, inside: bool | None, outside: bool | None
) -> None:
    assert value_of(f"i BETWEEN SYMMETRIC {ends}", "BOOLEAN") is inside
    assert value_of(f"i NOT BETWEEN SYMMETRIC {ends}", "BOOLEAN") is outside
    assert value_of("i BETWEEN SYMMETRIC 5 AND 1", "BOOLEAN", i=None) is None


@pytest.mark.parametrize(
    ("expression", "type_text", "expected"),
    [
        ("ROUND(n, 1)", "DECIMAL(10, 1)", Decimal("100000000.0")),
        ("ROUND(n)", "DECIMAL(9, 0)", Decimal(100_000_000)),
        ("ROUND(q, -1)", "DECIMAL(17, 0)", Decimal(10)),
        ("TRUNCATE(q, 2)", "DECIMAL(19, 2)", Decimal("7.12")),
        ("MOD(q, i)", "DECIMAL(14, 4)", Decimal("0.1234")),
        ("q % i", "DECIMAL(14, 4)", Decimal("0.1234")),
        ("i % n", "DECIMAL(10, 2)", Decimal("1.00")),
        ("GREATEST(i, l)", "BIGINT", 3_000_000_000),
        ("LEAST(n, i)", "DECIMAL(12, 2)", Decimal("1.00")),
        ("COALESCE(w, m)", "DECIMAL(38, 0)", Decimal(7)),
    ],
)
def test_a_number_has_the_type_that_flink_gives_it(
    expression: str, type_text: str, expected: object
) -> None:
    declared = parse_rex(projected(expression, type_text), "").type

    assert declared is not None
    assert format_type(declared.with_nullable(True)) == format_type(parse_type(type_text))
    assert str(value_of(expression, type_text)) == str(expected)


def test_the_greater_of_two_times_keeps_its_digits() -> None:
    declared = parse_rex(projected("GREATEST(t1, t6)", "TIMESTAMP(6)"), "").type

    assert declared is not None
    assert declared.precision == 6


NAMED = re.compile(
    "(ELT|SHA2|CEILING|TRANSLATE|REGEXP_COUNT|REGEXP_SUBSTR|OVERLAY|URL_..CODE|SPLIT|ARRAY_JOIN)[(]"
)
WHOLLY = ("arrays", "edges-arrays", "edges-instants", "edges-splits", "texts", "convert-tz")
"""Recorded files of which all is written as Flink writes it, but for `FOLDED`."""
FOLDED = frozenset({
    "ARRAY_CONTAINS(ARRAY[1.5, n], n)",
    "ARRAY_POSITION(ARRAY[1.5, n], n)",
    "STARTSWITH(bin, UNHEX('48'))",
})  # fmt: skip  # an expression a line
"""A part of these reads no column, and Flink computes it at once."""


def recorded() -> list[tuple[str, dict[str, Any]]]:
    """The columns of a recorded table, and an expression over it."""
    found = []
    for name in ("flink", *WHOLLY):
        lines = (EXPRESSIONS.parent / f"{name}.jsonl").read_bytes().splitlines()
        table, *cases = [orjson.loads(line) for line in lines]
        columns = ", ".join(f"`{each['name']}` {each['type']}" for each in table["columns"])
        found += [
            (columns, case)
            for case in cases
            if "INPUT_REF" in str(case["rex"])
            and (name in WHOLLY or NAMED.match(case["sql"]))
            and case["sql"] not in FOLDED
        ]
    return found


@pytest.mark.parametrize(
    ("columns", "case"),
    recorded(),
    ids=lambda each: str(each["sql"]) if isinstance(each, dict) else "",
)
def test_a_function_is_written_as_flink_writes_it(columns: str, case: dict[str, Any]) -> None:
    """But for how long texts outside of the basic plane are."""
    (planned,) = compile_script(
        f"CREATE TABLE x ({columns}) WITH ('connector' = 'datagen');"
        f"CREATE TABLE snk (e {case['type']}) WITH ('connector' = 'blackhole');"
        f"INSERT INTO snk SELECT {case['sql']} FROM x;"
    )
    (found,) = [each for each in planned.document["nodes"] if "projection" in each]

    assert written(found["projection"][0]) == written(case["rex"])


def written(rex: Any) -> Any:
    """An expression without places of columns, and without how it is printed."""
    if not isinstance(rex, dict):
        return rex
    operands = [written(each) for each in rex.get("operands", ())]
    length = rex["kind"] == "LITERAL" and isinstance(rex.get("value"), str)
    kind = "CHAR" if length else rex.get("type")
    return rex["kind"], rex.get("internalName"), rex.get("value"), kind, operands


@pytest.mark.parametrize(
    ("expression", "type_text", "expected"),
    [
        ("PI()", "DOUBLE NOT NULL", math.pi),
        ("E()", "DOUBLE NOT NULL", math.e),
        ("OVERLAY('abc' PLACING 'x' FROM 2)", "VARCHAR(4) NOT NULL", "axc"),
        ("REGEXP_COUNT('abab', 'b')", "INT", 2),
        ("ELT(i, s, 'other')", "STRING", "abc"),
        ("REGEXP_INSTR('ab', 'b')", "INT", 2),
        ("RTRIM('a,b', 'b')", "VARCHAR(3) NOT NULL", "a,"),
        ("COALESCE(ARRAY[1], ARRAY[i])", "ARRAY<INT> NOT NULL", [1]),
        ("LTRIM(CAST(s AS CHAR(3)))", "VARCHAR(3)", "abc"),
    ],
)
def test_a_function_of_constants_has_flinks_type(
    expression: str, type_text: str, expected: object
) -> None:
    declared = parse_rex(projected(expression, type_text), "").type

    assert declared == parse_type(type_text)
    assert value_of(expression, type_text) == expected


@pytest.mark.parametrize(
    "expression",
    ["i IS JSON", "s = n", "s = b", "s = t1", "m = w"],
)
def test_what_would_be_read_as_another_condition_is_refused(expression: str) -> None:
    with pytest.raises(SqlError):
        projected(expression, "BOOLEAN")


@pytest.mark.parametrize(
    ("expression", "type_text", "expected"),
    [
        ("CAST(NULL AS DECIMAL(10, 2))", "DECIMAL(10, 2)", None),
        ("TRY_CAST(NULL AS TIMESTAMP(3))", "TIMESTAMP(3)", None),
        ("CAST(CAST(NULL AS INT) AS STRING)", "STRING", None),
        ("COALESCE(NULL, n)", "DECIMAL(10, 2)", Decimal("99999999.99")),
        ("COALESCE(NULL, NULL, i)", "INT", 1),
        ("IFNULL(i, NULL)", "INT", 1),
        ("NULLIF(i, NULL)", "INT", 1),
        ("IF(i > 1, NULL, n)", "DECIMAL(10, 2)", Decimal("99999999.99")),
        ("IF(i = 1, NULL, n)", "DECIMAL(10, 2)", None),
        ("IF(NULL, 1, 2)", "INT", 2),
        ("GREATEST(i, NULL)", "INT", None),
        ("CASE WHEN NULL THEN 1 ELSE 2 END", "INT", 2),
        ("NULL AND b", "BOOLEAN", None),
        ("i = NULL", "BOOLEAN", None),
        ("i = NULL OR i = 1", "BOOLEAN", True),
        ("i <> CAST(NULL AS INT)", "BOOLEAN", None),
        ("i IN (NULL, 1)", "BOOLEAN", True),
        ("i NOT IN (NULL, 2)", "BOOLEAN", None),
        ("i BETWEEN NULL AND 5", "BOOLEAN", None),
        ("i BETWEEN CAST(NULL AS INT) AND 5", "BOOLEAN", None),
        ("i NOT BETWEEN NULL AND 0", "BOOLEAN", True),
        ("NULL BETWEEN 0 AND i", "BOOLEAN", None),
    ],
)
def test_null_has_the_type_of_what_it_stands_for(
    expression: str, type_text: str, expected: object
) -> None:
    check(parse_rex(projected(expression, type_text), ""))

    assert value_of(expression, type_text) == expected
