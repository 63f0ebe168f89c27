"""Expressions that real Flink evaluated, evaluated again on Spark (tests/oracles/expressions)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest
from pyspark.sql.connect import functions as F

from service.plan.rex import parse_rex
from service.runtime.expressions import UnsupportedExpression, check, to_column
from state.codec import RowCodec
from state.types import TypeRoot, parse_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDED = Path(__file__).parents[1] / "oracles" / "expressions"
FILES = ("flink", "arrays", "edges-arrays", "edges-instants", "edges-splits", "texts", "convert-tz")
CHUNK = 40
"""Expressions of one query."""
REFUSED_MAX = 45
"""How many of the recorded expressions may be refused; more is a step back."""
RELATIVE_ERROR = 1e-14
"""Java does not promise the last bit of exp, log, pow and the trigonometric functions."""


def _read(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    lines = (RECORDED / f"{name}.jsonl").read_bytes().splitlines()
    first, *rest = [orjson.loads(line) for line in lines]
    return first, rest


RECORDINGS = {name: _read(name) for name in FILES}


def _frame(spark: SparkSession, name: str) -> DataFrame:
    """The recorded input table, with its own column types."""
    table = RECORDINGS[name][0]
    names = [column["name"] for column in table["columns"]]
    codec = RowCodec([parse_type(column["type"]) for column in table["columns"]], names)
    rows = [codec.encode(codec.decode_json(row)) for row in table["rows"]]
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark.createDataFrame(
        pa.table(dict(zip(names, codec.decode_columns(rows), strict=True)))
    )


def _supported(name: str) -> list[dict[str, Any]]:
    supported = []
    for case in RECORDINGS[name][1]:
        try:
            check(parse_rex(case["rex"], ""))
        except UnsupportedExpression:
            continue
        supported.append(case)
    return supported


def test_few_of_the_recorded_expressions_are_refused() -> None:
    cases = RECORDINGS["flink"][1]
    refused = {case["sql"] for case in cases} - {case["sql"] for case in _supported("flink")}

    assert len(refused) <= REFUSED_MAX, sorted(refused)


@pytest.mark.parametrize("name", FILES)
def test_values_are_those_of_flink(spark: SparkSession, name: str) -> None:
    frame = _frame(spark, name)
    cases = [case for case in _supported(name) if "values" in case]
    differences = []
    for start in range(0, len(cases), CHUNK):
        chunk = cases[start : start + CHUNK]
        columns = [_column(case).alias(f"e{number}") for number, case in enumerate(chunk)]
        result = frame.select("id", *columns).orderBy("id").toArrow()
        for number, case in enumerate(chunk):
            found = [_shown(value, case["type"]) for value in _values(result, number, case["type"])]
            expected = [_expected(value, case["type"]) for value in case["values"]]
            if not all(map(_equal, found, expected)):
                differences.append(f"{case['sql']}: found {found}, Flink {expected}")

    assert not differences, "\n".join(differences)


@pytest.mark.parametrize(
    ("name", "case"),
    [(name, case) for name in FILES for case in _supported(name) if case.get("fails")],
    ids=lambda each: each if isinstance(each, str) else str(each["sql"]),
)
def test_what_fails_in_flink_fails_here(
    spark: SparkSession, name: str, case: dict[str, Any]
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException):
        _frame(spark, name).select(_column(case)).toArrow()


@pytest.mark.parametrize("count", [2, 3])
def test_addresses_are_taken_apart_as_by_flink(spark: SparkSession, count: int) -> None:
    lines = (RECORDED / "urls.jsonl").read_bytes().splitlines()
    cases = [case for case in map(orjson.loads, lines) if len(case.get("operands", ())) == count]
    given = [(number, *case["operands"]) for number, case in enumerate(cases)]
    names = [f"c{at}" for at in range(count)]
    schema = ", ".join(["id INT", *(f"{name} STRING" for name in names)])
    operands = [
        {"kind": "INPUT_REF", "inputIndex": at, "type": "VARCHAR(2147483647)"}
        for at in range(count)
    ]
    rex = {"kind": "CALL", "internalName": "$PARSE_URL$1", "operands": operands}
    call = parse_rex({**rex, "type": "VARCHAR(2147483647)"}, "")

    frame = spark.createDataFrame(given, schema)
    found = frame.select("id", to_column(call, [F.col(name) for name in names]).alias("v"))

    assert [row["v"] for row in found.orderBy("id").collect()] == [each["value"] for each in cases]


def _column(case: dict[str, Any]) -> Any:
    return to_column(parse_rex(case["rex"], ""), [F.col(name) for name in case["input"]])


def _values(result: pa.Table, number: int, kind: str) -> list[Any]:
    codec = RowCodec([parse_type(kind).with_nullable(True)], ["e"])
    column = result[f"e{number}"].combine_chunks()
    encoded = codec.encode_columns([column])
    return [orjson.loads(row)[0] for row in encoded.to_pylist()]


def _expected(value: Any, kind: str) -> Any:
    """The recorded value in the canonical form of its type."""
    codec = RowCodec([parse_type(kind).with_nullable(True)], ["e"])
    return _shown(orjson.loads(codec.encode(codec.decode_json([value])))[0], kind)


def _shown(value: Any, kind: str) -> Any:
    # PyFlink hands a FLOAT over as a double with the 32-bit value's digits.
    if parse_type(kind).root is TypeRoot.FLOAT and isinstance(value, float):
        return float(f"{value:.6g}")
    return value


def _equal(found: Any, expected: Any) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        signs = math.copysign(1, found) == math.copysign(1, expected)
        return signs and math.isclose(found, expected, rel_tol=RELATIVE_ERROR)
    return bool(found == expected)
