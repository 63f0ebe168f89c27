"""Expressions that real Flink evaluated, evaluated again in Python (tests/oracles/expressions).

What is in the recorded files and what their deviations mean is told beside them. Results are
compared to the bit, in the form that expressions have inside: times as numbers, for years that
Python has not.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from operators.expressions import (
    EvaluationFailed,
    UnsupportedExpression,
    compile_rex,
    rex_from_json,
    rex_to_json,
)
from operators.expressions.compiler import compile_inside
from operators.expressions.decimals import EXACT
from operators.expressions.floats import float32
from operators.expressions.representation import to_row
from service.plan.rex import parse_rex
from state.codec import RowCodec
from state.types import LogicalType, TypeRoot, parse_type

RECORDED = Path(__file__).parents[2] / "oracles" / "expressions"
RANDOM = ("random-numbers", "random-times", "random-texts")
FUNCTIONS = ("arrays", "edges-arrays", "edges-instants", "edges-splits", "texts", "convert-tz")
ZONES = ("zone-berlin", "zone-lord-howe", "zone-new-york", "zone-st-johns")
FILES = (
    "flink",
    "edges-numbers",
    "edges-texts",
    "edges-times",
    "edges-clock",
    "hash-codes",
    *FUNCTIONS,
    *RANDOM,
    *ZONES,
)
LIBRARY = re.compile(
    r"\$(EXP|LN|LOG|LOG2|LOG10|SIN|COS|TAN|COT|ASIN|ACOS|ATAN|ATAN2|SINH|COSH|TANH|POWER|DEGREES"
    r"|RADIANS)\$"
)
"""Functions whose last bits Java leaves open."""
ULPS = 4
"""By which they may differ."""
_INSTANT = re.compile(
    r"([+-]?\d+)-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?Z?)?", re.ASCII
)


class Recording:
    """One recorded file: its rows, and its cases."""

    def __init__(self, name: str) -> None:
        lines = (RECORDED / f"{name}.jsonl").read_bytes().splitlines()
        table, *self.cases = [orjson.loads(line) for line in lines]
        self.types = {c["name"]: parse_type(c["type"]) for c in table["columns"]}
        self.rows = [
            {n: in_row(v, self.types[n]) for n, v in zip(self.types, row, strict=True)}
            for row in table["rows"]
        ]

    def row(self, number: int, case: dict[str, Any]) -> tuple[Any, ...]:
        """The values of a row that the case's plan reads."""
        return tuple(self.rows[number][name] for name in case["input"])


def inside(value: Any, kind: LogicalType) -> Any:
    """A recorded value in the form that expressions have inside."""
    if value is None:
        return None
    match kind.root:
        case TypeRoot.DATE:
            return _micros(value) // 86_400_000_000
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _micros(value)
        case TypeRoot.TIME:
            hour, minute, *second = value.split(":")
            seconds = Decimal(second[0]) if second else Decimal(0)
            return int((int(hour) * 3600 + int(minute) * 60 + seconds) * 1000)
        case TypeRoot.DECIMAL:
            return EXACT.quantize(Decimal(value), Decimal(1).scaleb(-(kind.scale or 0)))
        case TypeRoot.FLOAT:
            return float32(float(value))
        case TypeRoot.DOUBLE:
            return float(value)
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return base64.b64decode(value)
        case TypeRoot.ARRAY | TypeRoot.MAP | TypeRoot.ROW:
            return in_row(value, kind)
        case _:
            return value


def in_row(value: Any, kind: LogicalType) -> Any:
    """A recorded value of the input table as a row has it."""
    if value is None:
        return None
    match kind.root:
        case TypeRoot.ARRAY:
            return [in_row(each, kind.children[0]) for each in value]
        case TypeRoot.MAP | TypeRoot.MULTISET:
            of_key, of_value = (*kind.children, LogicalType(TypeRoot.INTEGER))[:2]
            whole = of_key.root is TypeRoot.INTEGER
            pairs = [(int(key) if whole else key, each) for key, each in value.items()]
            return [(in_row(key, of_key), in_row(each, of_value)) for key, each in pairs]
        case TypeRoot.ROW:
            fields = zip(kind.field_names, kind.children, strict=True)
            return tuple(in_row(value[name], each) for name, each in fields)
    found, convert = inside(value, kind), to_row(kind)
    return found if found is None or convert is None else convert(found)


def _micros(text: str) -> int:
    """Microseconds since 1970, in the proleptic calendar and for any year."""
    found = _INSTANT.fullmatch(text)
    assert found is not None, text
    year, month, day, hour, minute, second, fraction = found.groups(default="0")
    cycle, within = divmod(int(year), 400)
    days = datetime.date(within + 400, int(month), int(day)).toordinal()
    days += (cycle - 1) * 146_097 - datetime.date(1970, 1, 1).toordinal()
    seconds = days * 86_400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    return seconds * 1_000_000 + int(fraction.ljust(6, "0")[:6])


RECORDINGS = {name: Recording(name) for name in FILES}


def is_refused(case: dict[str, Any]) -> bool:
    """Whether the compiler refuses the case."""
    try:
        compile_rex(parse_rex(case["rex"], ""))
    except UnsupportedExpression:
        return True
    return False


def same(found: Any, expected: Any, *, loose: bool, is_map: bool = False) -> bool:
    """Equal to the bit and in type; NaN is itself, -0.0 is not 0.0."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, list | tuple):
        # A map has no order.
        both = [sorted(each, key=repr) if is_map else each for each in (found, expected)]
        pairs = zip(*both, strict=False)
        return len(found) == len(expected) and all(
            same(*pair, loose=loose, is_map=False) for pair in pairs
        )
    if isinstance(found, Decimal):
        return str(found) == str(expected)
    if not isinstance(found, float):
        return bool(found == expected)
    if math.isnan(found) or math.isnan(expected):
        return math.isnan(found) and math.isnan(expected)
    if math.copysign(1, found) != math.copysign(1, expected):
        return False
    return found == expected or (loose and abs(found - expected) <= ULPS * math.ulp(expected))


def differences(recording: Recording, case: dict[str, Any]) -> list[str]:
    """Where the case gives other values than Flink, and what."""
    value = compile_inside(parse_rex(case["rex"], ""), width=len(case["input"]))
    loose = LIBRARY.search(orjson.dumps(case["rex"]).decode()) is not None
    found = []
    for number in range(len(recording.rows)):
        expected = inside(case["values"][number], value.type)
        result = value.run(recording.row(number, case))
        if not same(result, expected, loose=loose, is_map=value.type.root is TypeRoot.MAP):
            found.append(f"{case['sql']} of row {number}: found {result!r}, Flink {expected!r}")
    return found


REFUSED = {
    "flink": {"CAST(ts AS TIME)"},
    "edges-numbers": {"ROUND(h, -1)"},
    "edges-texts": {
        "DATE_FORMAT(s, 'yyyy')",
        "PRINTF('%s', s)",
        "REGEXP(s, '[')",
        "REGEXP_REPLACE(s, '[', '-')",
        "TO_DATE(s, 'dd/MM/yyyy')",
        "TO_DATE(s, 'yyyy-MM-dd')",
        "TO_DATE(s, 'yyyyMMdd')",
        "TO_TIMESTAMP_LTZ(s)",
    },
    "edges-times": {
        "CAST(ltz AS TIME)",
        "CAST(tm AS TIMESTAMP(3))",
        "CAST(ts AS TIME)",
        "DATE_FORMAT(ts, 'D Q w')",
        "DATE_FORMAT(ts, '[')",
        "EXTRACT(HOUR FROM dt)",
        "EXTRACT(MILLISECOND FROM dt)",
        "EXTRACT(MINUTE FROM dt)",
        "EXTRACT(MINUTE FROM tm)",
        "EXTRACT(NANOSECOND FROM ltz)",
        "EXTRACT(NANOSECOND FROM t6)",
        "EXTRACT(NANOSECOND FROM ts)",
        "EXTRACT(SECOND FROM dt)",
        "HOUR(tm)",
        "TIMESTAMP '2020-01-01 00:00:00.123456789'",
        "tm + INTERVAL '1' HOUR",
    },
    "edges-clock": {"tm = '13:14:15'", "tm = s"},
    **dict.fromkeys(("hash-codes", *FUNCTIONS, *RANDOM, *ZONES), frozenset[str]()),
}
"""All recorded expressions that are refused. It may only become shorter."""


def test_refused_are_these_and_no_others() -> None:
    refused = {
        name: {case["sql"] for case in recording.cases if is_refused(case)}
        for name, recording in RECORDINGS.items()
    }

    assert refused == REFUSED


@pytest.mark.parametrize("name", FILES)
def test_a_refusal_names_the_function_and_its_place(name: str) -> None:
    for case in RECORDINGS[name].cases:
        if case["sql"] in REFUSED[name]:
            with pytest.raises(UnsupportedExpression) as caught:
                compile_rex(parse_rex(case["rex"], "/at"))
            assert caught.value.function
            assert caught.value.path.startswith("/at")


def test_the_counts_that_documents_name() -> None:
    counts = {name: len(recording.cases) for name, recording in RECORDINGS.items()}

    assert counts == {
        "flink": 471,
        "edges-numbers": 266,
        "edges-texts": 177,
        "edges-times": 357,
        "edges-clock": 24,
        "hash-codes": 10,
        "arrays": 245,
        "edges-arrays": 26,
        "edges-instants": 5,
        "edges-splits": 9,
        "texts": 125,
        "convert-tz": 20,
        "random-numbers": 106,
        "random-times": 49,
        "random-texts": 44,
        **dict.fromkeys(ZONES, 52),
    }
    told = (Path(__file__).parents[3] / "ARCHITECTURE.md").read_text("utf-8")
    assert f"{sum(counts.values()):,} recorded expressions" in told
    assert {name: len(cases) for name, cases in REFUSED.items()} == {
        "flink": 1,
        "edges-numbers": 1,
        "edges-texts": 8,
        "edges-times": 16,
        "edges-clock": 2,
        **dict.fromkeys(("hash-codes", *FUNCTIONS, *RANDOM, *ZONES), 0),
    }


def computed(name: str) -> list[dict[str, Any]]:
    """The cases of a file that are not refused."""
    return [case for case in RECORDINGS[name].cases if case["sql"] not in REFUSED[name]]


@pytest.mark.parametrize("name", FILES)
def test_values_are_those_of_flink(name: str) -> None:
    cases = [
        case
        for case in computed(name)
        if "values" in case and case.get("deviation") not in ("overfull", "defect")
    ]

    found = [line for case in cases for line in differences(RECORDINGS[name], case)]

    assert not found, "\n".join(found)


def test_a_decimal_that_rounds_up_over_its_precision_is_null() -> None:
    recording = RECORDINGS["edges-texts"]
    (case,) = [case for case in recording.cases if case.get("deviation") == "overfull"]

    assert differences(recording, case) == [
        f"{case['sql']} of row 49: found None, Flink Decimal('1000.00')"
    ]


@pytest.mark.parametrize(
    ("name", "sql"),
    [
        (name, case["sql"])
        for name in FILES
        for case in computed(name)
        if "fails" in case and "deviation" not in case
    ],
)
def test_what_fails_in_flink_fails_here(name: str, sql: str) -> None:
    recording = RECORDINGS[name]
    (case,) = [case for case in recording.cases if case["sql"] == sql]
    run = compile_rex(parse_rex(case["rex"], ""))

    with pytest.raises(EvaluationFailed):
        list(map(run, [recording.row(number, case) for number in range(len(recording.rows))]))


@pytest.mark.parametrize("name", FILES)
def test_what_is_a_defect_in_flink_has_a_value_here(name: str) -> None:
    recording = RECORDINGS[name]
    for case in computed(name):
        if case.get("deviation") == "defect":
            run = compile_inside(parse_rex(case["rex"], "")).run
            for number in range(len(recording.rows)):
                run(recording.row(number, case))


@pytest.mark.parametrize("name", FILES)
def test_results_are_values_of_their_type_as_rows_have_them(name: str) -> None:
    recording = RECORDINGS[name]
    for case in computed(name):
        rex = parse_rex(case["rex"], "")
        run, kind = compile_rex(rex), compile_inside(rex).type
        codec = RowCodec([kind.with_nullable(True)], ["e"])
        for number in range(len(recording.rows)):
            try:
                result = run(recording.row(number, case))
            except EvaluationFailed:
                # Also years beyond 9999, which rows have not.
                continue
            again = codec.decode(codec.encode([result]))[0]
            assert type(again) is type(result), case["sql"]
            if kind.root is TypeRoot.MAP and result is not None:
                again, result = sorted(again), sorted(result)
            assert str(again) == str(result), case["sql"]


@pytest.mark.parametrize("name", FILES)
def test_an_expression_travels_in_a_spec_unchanged(name: str) -> None:
    for case in RECORDINGS[name].cases:
        rex = parse_rex(case["rex"], "/nodes/1/projection/0")

        assert rex_from_json(orjson.loads(orjson.dumps(rex_to_json(rex)))) == rex
