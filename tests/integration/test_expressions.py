"""Values of expressions at their edges, as real Flink computed them (tests/oracles/expressions).

What is in the recorded files and what their deviations mean is told in edges.md beside them. The
rest of the module holds what cannot be recorded: the time of the epoch, nested values, sizes.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
import struct
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect import functions as sf

from operators.wire import TIME
from service.plan.rex import parse_rex
from service.runtime.expressions import (
    UnsupportedExpression,
    check,
    is_column,
    spark_type,
    to_column,
)
from service.runtime.expressions.site import INLINE_WEIGHT_MAX, Value, bind_all
from state.types import LogicalType, TypeRoot, arrow_type, parse_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDED = Path(__file__).parents[1] / "oracles" / "expressions"
FILES = (
    *("edges-numbers", "edges-texts", "edges-times", "edges-clock", "hash-codes"),
    *("random-numbers", "random-times", "random-texts"),
    *("zone-berlin", "zone-lord-howe", "zone-new-york", "zone-st-johns"),
)
CHUNK = 40
"""Expressions of one query."""
LIBRARY = re.compile(
    r"\$(EXP|LN|LOG|LOG2|LOG10|SIN|COS|TAN|COT|ASIN|ACOS|ATAN|ATAN2|SINH|COSH|TANH|POWER|DEGREES"
    r"|RADIANS)\$"
)
"""Functions whose last bits Java leaves open."""
INSTANTS = (TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_INSTANT = re.compile(
    r"([+-]?\d+)-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?Z?)?", re.ASCII
)


class Recording:
    """One recorded file: its table, and its cases by what they hold us to."""

    def __init__(self, name: str) -> None:
        lines = (RECORDED / f"{name}.jsonl").read_bytes().splitlines()
        table, *self.cases = [orjson.loads(line) for line in lines]
        self.types = {c["name"]: parse_type(c["type"]) for c in table["columns"]}
        self.rows = [dict(zip(self.types, row, strict=True)) for row in table["rows"]]

    def having(self, deviation: str | None) -> list[dict[str, Any]]:
        """The cases with this deviation."""
        return [case for case in self.cases if case.get("deviation") == deviation]

    def frame(self, spark: SparkSession) -> DataFrame:
        """The input table, with its own types."""
        columns = {
            name: pa.array([typed(row[name], kind) for row in self.rows], arrow_type(kind))
            for name, kind in self.types.items()
        }
        return spark.createDataFrame(pa.table(columns))


RECORDINGS = {name: Recording(name) for name in FILES}


@pytest.mark.parametrize("name", FILES)
def test_values_and_types_are_those_of_flink(spark: SparkSession, name: str) -> None:
    recording = RECORDINGS[name]
    cases = [case for case in recording.having(None) if "values" in case]

    assert_same(recording, cases, recording.frame(spark), every_row)


@pytest.mark.parametrize("name", FILES)
def test_refused_is_exactly_what_is_recorded_as_refused(name: str) -> None:
    refused = []
    for case in RECORDINGS[name].cases:
        try:
            check(parse_rex(case["rex"], ""))
        except UnsupportedExpression:
            refused.append(case["sql"])

    assert refused == [case["sql"] for case in RECORDINGS[name].having("refused")]


def test_texts_without_surrogates_are_counted_and_cut_alike(spark: SparkSession) -> None:
    recording = RECORDINGS["edges-texts"]
    # RPAD with a character outside the basic plane as padding is left out as a whole.
    cases = [c for c in recording.having("utf16") if "😀" not in c["sql"]]

    assert_same(
        recording, cases, recording.frame(spark), lambda row: "😀" not in row and "𐐀" not in row
    )


def test_dates_after_the_reform_are_read_alike_and_earlier_ones_end_the_query(
    spark: SparkSession,
) -> None:
    recording = RECORDINGS["edges-texts"]
    frame = recording.frame(spark)
    early = sf.col("s").rlike("^(0001|1582)-")

    for case in recording.having("calendar"):
        with pytest.raises(PySparkException, match="before 1583"):
            frame.where(early).select(column_of(case)).toArrow()
    assert_same(
        recording,
        recording.having("calendar"),
        frame.where(~sf.coalesce(early, sf.lit(False))),
        lambda text: not text.startswith(("0001-", "1582-")),
    )


def test_a_decimal_that_rounds_up_over_its_precision_is_null(spark: SparkSession) -> None:
    recording = RECORDINGS["edges-texts"]
    (case,) = recording.having("overfull")

    found = recording.frame(spark).where("s = '999.995'").select(column_of(case)).toArrow()

    assert found.column(0).to_pylist() == [None]


@pytest.mark.parametrize(
    ("name", "sql"),
    [
        (name, case["sql"])
        for name in FILES
        for case in RECORDINGS[name].having(None)
        if "fails" in case
    ],
)
def test_what_fails_in_flink_fails_here(spark: SparkSession, name: str, sql: str) -> None:
    (case,) = [case for case in RECORDINGS[name].cases if case["sql"] == sql]

    with pytest.raises(PySparkException):
        RECORDINGS[name].frame(spark).select(column_of(case)).toArrow()


# What is not recorded


def ref(index: int, kind: str) -> dict[str, Any]:
    """An input reference."""
    return {"kind": "INPUT_REF", "inputIndex": index, "type": kind}


def lit(value: object, kind: str) -> dict[str, Any]:
    """A literal."""
    return {"kind": "LITERAL", "value": value, "type": kind}


def call(name: str, kind: str, *operands: dict[str, Any]) -> dict[str, Any]:
    """A call of a built-in."""
    internal = f"${name}$1"
    return {"kind": "CALL", "internalName": internal, "operands": list(operands), "type": kind}


NESTED = [
    # an array keeps its NULLs and takes the element type of the plan
    (call("ARRAY", "ARRAY<BIGINT>", ref(0, "INT"), lit(None, "INT")), "ARRAY<BIGINT>", [7, None]),
    # a row has the plan's names; a field of it can be taken again
    (call("ROW", "ROW<`a` INT, `b` STRING>", ref(0, "INT"), ref(1, "STRING")),
     "ROW<`a` INT, `b` STRING>", {"a": 7, "b": "seven"}),
    ({"kind": "FIELD_ACCESS", "name": "y", "expr": ref(2, "ROW<`x` INT, `y` DECIMAL(5, 2)>")},
     "DECIMAL(5, 2)", Decimal("1.50")),
    # elements count from 1; beyond the end there is NULL
    (call("ITEM", "INT", ref(3, "ARRAY<INT>"), lit(2, "INT NOT NULL")), "INT", 20),
    (call("ITEM", "INT", ref(3, "ARRAY<INT>"), lit(9, "INT NOT NULL")), "INT", None),
    # a key that is not there gives NULL
    (call("ITEM", "INT", ref(4, "MAP<STRING, INT>"), lit("a", "CHAR(1) NOT NULL")), "INT", 1),
    (call("ITEM", "INT", ref(4, "MAP<STRING, INT>"), lit("z", "CHAR(1) NOT NULL")), "INT", None),
    (call("CARDINALITY", "INT", ref(3, "ARRAY<INT>")), "INT", 3),
    # an element that is NULL does not make the answer NULL
    (call("ARRAY_CONTAINS", "BOOLEAN", ref(3, "ARRAY<INT>"), lit(5, "INT NOT NULL")),
     "BOOLEAN", False),
    # binary literals and NULL literals of any type
    (lit("Cv8=", "BINARY(2) NOT NULL"), "BINARY(2)", b"\x0a\xff"),
    (lit(None, "ROW<`x` INT>"), "ROW<`x` INT>", None),
    # the calls that the planner rewrites away in its own plans
    (call("IS DISTINCT FROM", "BOOLEAN NOT NULL", ref(0, "INT"), lit(None, "INT")),
     "BOOLEAN", True),
    (call("BETWEEN", "BOOLEAN", ref(0, "INT"), lit(1, "INT"), lit(7, "INT")), "BOOLEAN", True),
    (call("IN", "BOOLEAN", ref(0, "INT"), lit(1, "INT"), lit(7, "INT")), "BOOLEAN", True),
    (call("NULLIF", "INT", ref(0, "INT"), lit(7, "INT")), "INT", None),
    (call("IS UNKNOWN", "BOOLEAN NOT NULL", lit(None, "BOOLEAN")), "BOOLEAN", True),
]  # fmt: skip  # a table: a case a line


def test_nested_values_and_rewritten_calls(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        pa.table({
            "f0": pa.array([7], pa.int32()),
            "f1": ["seven"],
            "f2": pa.array(
                [{"x": 1, "y": Decimal("1.50")}],
                pa.struct({"x": pa.int32(), "y": pa.decimal128(5, 2)}),
            ),
            "f3": pa.array([[10, 20, None]], pa.list_(pa.int32())),
            "f4": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        })
    )  # fmt: skip  # a table: a case a line
    columns = [
        to_column(parse_rex(rex, ""), [sf.col(name) for name in frame.columns]).alias(f"e{number}")
        for number, (rex, _, _) in enumerate(NESTED)
    ]

    found = frame.select(*columns).toArrow()

    for number, (_, kind, expected) in enumerate(NESTED):
        assert found.column(number).to_pylist() == [expected], NESTED[number]
        assert frame.select(columns[number]).schema[0].dataType == spark_type(parse_type(kind))


MAP_OF_TIMES = "MAP<TIMESTAMP(6), ROW<`d` DATE, `t` TIMESTAMP_LTZ(6)>>"
AT = datetime.datetime.fromisoformat("1969-12-31 23:59:59.999999")
IN_PYTHON = [
    # a pattern, a path, a format and a number of digits may come with the row
    (call("LIKE", "BOOLEAN", ref(0, "STRING"), ref(1, "STRING")), [True, False, None]),
    (call("REGEXP", "BOOLEAN", ref(0, "STRING"), ref(1, "STRING")), [False, True, None]),
    (call("REGEXP_EXTRACT", "STRING", ref(0, "STRING"), lit("(a)|(b)", "CHAR(7)"),
          lit(2, "INT")), [None, "b", None]),
    (call("ROUND", "DOUBLE", ref(5, "DOUBLE"), ref(6, "INT")), [1.2, 12.35, None]),
    # values of every type go to Python and come back
    (call("IF", MAP_OF_TIMES, call("LIKE", "BOOLEAN", ref(0, "STRING"), ref(0, "STRING")),
          ref(2, MAP_OF_TIMES), lit(None, MAP_OF_TIMES)),
     [[(AT, {"d": datetime.date(1, 1, 1), "t": AT.replace(tzinfo=datetime.UTC)})], [], None]),
    (call("CAST", "STRING", ref(2, MAP_OF_TIMES)),
     ["{1969-12-31 23:59:59.999999=(0001-01-01, 1969-12-31 23:59:59.999999)}", "{}", None]),
    (call("COALESCE", "TIME(3)", call("IF", "TIME(3)", call("LIKE", "BOOLEAN", ref(0, "STRING"),
          ref(0, "STRING")), ref(3, "TIME(3)"), lit(None, "TIME(3)"))), [86_399_999, 0, None]),
    # a map of what the rows say
    (call("MAP", "MAP<BIGINT, STRING>", ref(4, "BIGINT"), ref(0, "STRING")),
     [[(1, "a%")], [(2, "b")], [(3, None)]]),
    # the time of the epoch is the same there
    (call("IF", "TIMESTAMP_LTZ(3)", call("LIKE", "BOOLEAN", ref(0, "STRING"), ref(0, "STRING")),
          call("CURRENT_TIMESTAMP", "TIMESTAMP_LTZ(3) NOT NULL"), lit(None, "TIMESTAMP_LTZ(3)")),
     [datetime.datetime(2001, 9, 9, 1, 46, 40, 5000, datetime.UTC)] * 2 + [None]),
]  # fmt: skip  # a table: a case a line


def test_what_python_computes_crosses_from_spark_and_back(spark: SparkSession) -> None:
    times = pa.map_(
        pa.timestamp("us"), pa.struct({"d": pa.date32(), "t": pa.timestamp("us", "UTC")})
    )
    day = {"d": datetime.date(1, 1, 1), "t": AT.replace(tzinfo=datetime.UTC)}
    frame = spark.createDataFrame(
        pa.table({
            "f0": ["a%", "b", None],
            "f1": ["a!%", "^b$", "x"],
            "f2": pa.array([[(AT, day)], [], None], times),
            "f3": pa.array([86_399_999, 0, None], pa.int32()),
            "f4": pa.array([1, 2, 3], pa.int64()),
            "f5": [1.23, 12.345, None],
            "f6": pa.array([1, 2, None], pa.int32()),
        })
    ).withColumn(TIME, sf.lit(1_000_000_000_005))  # fmt: skip  # a table: a case a line
    # LIKE's escape is known to no column
    rexes = [IN_PYTHON[0][0] | {"operands": [*IN_PYTHON[0][0]["operands"], lit("!", "CHAR(1)")]}]
    rexes += [rex for rex, _ in IN_PYTHON[1:]]
    inputs = [sf.col(f"f{at}") for at in range(7)]
    columns = [
        to_column(parse_rex(rex, ""), inputs).alias(f"e{at}") for at, rex in enumerate(rexes)
    ]

    found = frame.coalesce(1).orderBy("f4").select(*columns).toArrow()

    for number, (_, expected) in enumerate(IN_PYTHON):
        assert found.column(number).to_pylist() == expected, IN_PYTHON[number]


def test_names_of_days_and_months_are_those_of_java(spark: SparkSession) -> None:
    times = ["2024-02-29 13:14:15.678", "1970-01-01 00:00:00", "1969-12-31 23:59:59.999"]
    frame = spark.createDataFrame(
        pa.table({"f0": pa.array(map(datetime.datetime.fromisoformat, times), pa.timestamp("us"))})
    )
    form = lit("EEE EEEE MMM MMMM hh a D DDD", "CHAR(28) NOT NULL")
    rex = parse_rex(call("DATE_FORMAT", "STRING", ref(0, "TIMESTAMP(3)"), form), "")

    found = frame.coalesce(1).select(to_column(rex, [sf.col("f0")]).alias("e")).toArrow()

    assert is_column(rex)
    assert found.column(0).to_pylist() == [
        "Thu Thursday Feb February 01 PM 60 060",
        "Thu Thursday Jan January 12 AM 1 001",
        "Wed Wednesday Dec December 11 PM 365 365",
    ]


def test_what_python_cannot_compute_of_a_row_ends_the_query(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.table({"f0": ["$.a", "no path"]}))
    rex = call("JSON_VALUE", "STRING", lit('{"a": 1}', "STRING"), ref(0, "STRING"))

    column = to_column(parse_rex(rex, ""), [sf.col("f0")])

    assert frame.where("f0 = '$.a'").select(column).toArrow().column(0).to_pylist() == ["1"]
    with pytest.raises(PySparkException, match="JSON_VALUE of a path that is not read"):
        frame.select(column).toArrow()


def test_the_current_time_is_one_for_all_rows_and_in_milliseconds(spark: SparkSession) -> None:
    ltz = "TIMESTAMP_LTZ(3) NOT NULL"
    rexes = [
        *(call(name, ltz) for name in ("NOW", "CURRENT_TIMESTAMP", "PROCTIME")),
        call("PROCTIME_MATERIALIZE", ltz, ref(0, ltz)),
        call("LOCALTIMESTAMP", "TIMESTAMP(3) NOT NULL"),
        call("CURRENT_DATE", "DATE NOT NULL"),
        call("UNIX_TIMESTAMP", "BIGINT NOT NULL"),
        *(call(name, "TIME(0) NOT NULL") for name in ("CURRENT_TIME", "LOCALTIME")),
    ]
    columns = [to_column(parse_rex(rex, ""), [sf.lit(None)]) for rex in rexes]
    before = datetime.datetime.now(datetime.UTC)

    timed = spark.range(0, 4, 1, 2).withColumn(TIME, sf.unix_millis(sf.current_timestamp()))
    found = timed.select(*columns).toArrow()

    values = [set(found.column(number).to_pylist()) for number in range(len(rexes))]
    assert [len(value) for value in values] == [1] * len(rexes)
    now, *others = [value.pop() for value in values]
    assert now.microsecond % 1000 == 0
    assert abs(now - before) < datetime.timedelta(minutes=5)
    local = now.replace(tzinfo=None)
    seconds = int(now.timestamp())
    clock = seconds % 86_400 * 1000
    assert others == [now, now, now, local, now.date(), seconds, clock, clock]


def test_a_column_in_a_function_over_an_array_is_that_of_the_input(spark: SparkSession) -> None:
    frame = spark.range(1, 2).select(sf.col("id").alias("f0"), (sf.col("id") * 10).alias("f1"))
    bigint = parse_type("BIGINT")
    heavy = Value(sf.col("f0") + 1, bigint, weight=INLINE_WEIGHT_MAX + 1)
    light = Value(sf.col("f1"), bigint)

    both = bind_all((heavy, light), lambda a, b: a + b)
    found = frame.select(sf.lit(0).alias("f0"), sf.lit(1000).alias("f1"), both.alias("f2"))

    assert found.toArrow()["f2"].to_pylist() == [12]


STEPS, PRODUCT = 14, 3
"""Operators of a chain, and which of them multiplies."""


def test_chains_of_whole_numbers_wrap_at_their_end(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        pa.table({
            "f0": pa.array([2**31 - 1, -(2**31), None], pa.int32()),
            "f1": pa.array([2**63 - 1, -(2**63), 5], pa.int64()),
        })
    )  # fmt: skip  # a table: a case a line
    chain = {0: ref(0, "INT"), 1: ref(1, "BIGINT")}
    for step in range(STEPS):
        operator = "*" if step == PRODUCT else "+"
        chain = {
            0: call(operator, "INT", chain[0], ref(0, "INT")),
            1: call(operator, "BIGINT", chain[1], ref(1 - step % 2, ("BIGINT", "INT")[step % 2])),
        }

    columns = [to_column(parse_rex(rex, ""), [frame.f0, frame.f1]) for rex in chain.values()]
    found = frame.select(*columns).toArrow()

    rows = list(zip(frame.toArrow()[0].to_pylist(), frame.toArrow()[1].to_pylist(), strict=True))
    assert found.column(0).to_pylist() == [_java_chain(a, [a] * STEPS, 32) for a, _ in rows]
    assert found.column(1).to_pylist() == [
        _java_chain(b, [b, a] * (STEPS // 2), 64) for a, b in rows
    ]


def _java_chain(start: int | None, operands: list[int | None], bits: int) -> int | None:
    if start is None or None in operands:
        return None
    half = 1 << (bits - 1)
    for step, operand in enumerate(operands):
        joined = start * operand if step == PRODUCT else start + operand
        start = (joined + half) % (1 << bits) - half
    return start


# Comparing with the recorded values


def column_of(case: dict[str, Any]) -> Any:
    """The case's expression over the columns that its plan reads."""
    return to_column(parse_rex(case["rex"], ""), [sf.col(name) for name in case["input"]])


def type_of(case: dict[str, Any]) -> LogicalType:
    """The type that the plan declares for the expression."""
    rex = parse_rex(case["rex"], "")
    assert hasattr(rex, "type")
    kind = rex.type
    assert isinstance(kind, LogicalType)
    return kind


def every_row(_: str) -> bool:
    """For cases that hold for each text."""
    return True


def assert_same(recording: Recording, cases: list[Any], frame: DataFrame, holds: Any) -> None:
    """The cases give the recorded values in each row of the frame whose text `holds`."""
    differences = []
    for start in range(0, len(cases), CHUNK):
        chunk = cases[start : start + CHUNK]
        columns = [column_of(case).alias(f"e{number}") for number, case in enumerate(chunk)]
        result = frame.select("id", *columns).toArrow()
        ids = result["id"].to_pylist()
        for number, case in enumerate(chunk):
            kind = type_of(case)
            if result.schema.field(number + 1).type != arrow_type(kind):
                differences.append(f"{case['sql']}: type {result.schema.field(number + 1).type}")
            found = dict(zip(ids, comparable(result.column(number + 1), kind), strict=True))
            loose = LIBRARY.search(orjson.dumps(case["rex"]).decode()) is not None
            differences += [
                f"{case['sql']} of row {row}: found {found[row]!r}, Flink {value!r}"
                for row, value in enumerate(case["values"])
                if row in found
                and holds(recording.rows[row].get("s") or "")
                and not same(found[row], typed_result(value, kind), kind, loose=loose)
            ]
    assert not differences, "\n".join(differences)


def comparable(column: pa.ChunkedArray, kind: LogicalType) -> list[Any]:
    """Values that compare as wanted; instants as numbers, for years that Python has not."""
    if kind.root in INSTANTS:
        column = column.cast(pa.int32() if kind.root is TypeRoot.DATE else pa.int64())
    return list(column.to_pylist())


def typed(value: Any, kind: LogicalType) -> Any:
    """A recorded value as pyarrow takes it for a column of the type."""
    return typed_result(value, kind)


def typed_result(value: Any, kind: LogicalType) -> Any:
    """A recorded value in the form that `comparable` gives."""
    if value is None:
        return None
    root = kind.root
    if root in INSTANTS:
        return _instant(value, is_date=root is TypeRoot.DATE)
    if root is TypeRoot.TIME:
        hour, minute, *second = value.split(":")
        seconds = Decimal(second[0]) if second else Decimal(0)
        return int((int(hour) * 3600 + int(minute) * 60 + seconds) * 1000)
    if root is TypeRoot.DECIMAL:
        return Decimal(value)
    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return float(value)
    if root in (TypeRoot.BINARY, TypeRoot.VARBINARY):
        return base64.b64decode(value)
    return value


def _instant(text: str, *, is_date: bool) -> int:
    """Days or microseconds since 1970, in the proleptic calendar and for any year."""
    found = _INSTANT.fullmatch(text)
    assert found is not None, text
    year, month, day, hour, minute, second, fraction = found.groups(default="0")
    cycle, within = divmod(int(year), 400)
    days = datetime.date(within + 400, int(month), int(day)).toordinal()
    days += (cycle - 1) * 146_097 - datetime.date(1970, 1, 1).toordinal()
    if is_date:
        return days
    seconds = days * 86_400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    return seconds * 1_000_000 + int(fraction.ljust(6, "0")[:6])


def same(found: Any, expected: Any, kind: LogicalType, *, loose: bool) -> bool:
    """Equal to the bit; NaN is itself, -0.0 is not 0.0, a FLOAT is compared in 32 bits."""
    if not isinstance(found, float) or not isinstance(expected, float):
        return type(found) is type(expected) and found == expected
    if math.isnan(found) or math.isnan(expected):
        return math.isnan(found) and math.isnan(expected)
    if kind.root is TypeRoot.FLOAT and math.isfinite(expected):
        expected = struct.unpack("f", struct.pack("f", expected))[0]
    if math.copysign(1, found) != math.copysign(1, expected):
        return False
    return found == expected or (loose and abs(found - expected) <= 4 * math.ulp(expected))
