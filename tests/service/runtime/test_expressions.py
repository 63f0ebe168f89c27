"""What expressions are taken and refused, and with which words; no server is asked."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal
from functools import reduce
from typing import Any

import pytest
from pyspark.sql.connect import functions as sf

from operators.expressions import FUNCTIONS
from operators.expressions.builders import BUILDERS as IN_PYTHON
from operators.expressions.literals import LiteralError, literal_value
from service.plan.errors import InvalidExpression
from service.plan.rex import parse_rex
from service.runtime.expressions import (
    MalformedExpression,
    UnsupportedExpression,
    check,
    spark_type,
    to_column,
)
from service.runtime.expressions.builders import BUILDERS
from state.types import parse_type

PATH = "/nodes/1/projection/0"


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


def refused(rex: dict[str, Any]) -> UnsupportedExpression:
    """The error with which `check` refuses it."""
    with pytest.raises(UnsupportedExpression) as caught:
        check(parse_rex(rex, PATH))
    return caught.value


S, I = ref(0, "STRING"), ref(1, "INT")  # noqa: E741 - as short as in the plans
UNIT = {
    "kind": "LITERAL",
    "symbol": "TIME_UNIT_RANGE",
    "value": "HOUR",
    "type": {"type": "SYMBOL", "nullable": False},
}


@pytest.mark.parametrize(
    ("rex", "function", "path", "words"),
    [
        # unknown functions are named with their place, also deep inside
        (call("FROBNICATE", "INT", I), "FROBNICATE", "", "not known here"),
        (call("UPPER", "STRING", call("PRINTF", "STRING", S, S)), "PRINTF", "/operands/0",
         "not known here"),
        # functions whose value would change on replay, or that need what is not there
        (call("RAND", "DOUBLE NOT NULL"), "RAND", "", "run again"),
        (call("UUID", "CHAR(36) NOT NULL"), "UUID", "", "run again"),
        (call("CURRENT_WATERMARK", "TIMESTAMP(3)", ref(2, "TIMESTAMP(3)")), "CURRENT_WATERMARK",
         "", "watermark"),
        # functions of the user
        ({"kind": "CALL", "catalogName": "`c`.`d`.`f`", "operands": [I], "type": "INT"},
         "`c`.`d`.`f`", "", "only built-in"),
        # a later version of a built-in may mean something else
        ({"kind": "CALL", "internalName": "$ABS$2", "operands": [I], "type": "INT"}, "ABS", "",
         "not known here"),
        # what is refused for any value of an operand is refused before a row is seen
        (call("DATE_FORMAT", "STRING", I, S), "DATE_FORMAT", "", "INT"),
        (call("ROUND", "BOOLEAN", ref(2, "BOOLEAN"), I), "ROUND", "", "BOOLEAN"),
        (call("DATE_FORMAT", "STRING", ref(2, "TIMESTAMP(3)"), lit("ww", "CHAR(2)")),
         "DATE_FORMAT", "", "'ww'"),
        # what neither gives: a group that Spark takes for '', and that Python forgets
        (call("REGEXP_EXTRACT", "STRING", S, lit("(?!(a))b", "CHAR(8)"), lit(1, "INT")),
         "REGEXP_EXTRACT", "", "look around"),
        (call("REGEXP", "BOOLEAN", S, lit("[", "CHAR(1)")), "REGEXP", "", "none in Java"),
        (call("EXTRACT", "BIGINT", UNIT, ref(0, "DATE")), "EXTRACT", "", "HOUR of DATE is not"),
        # escapes that Flink calls invalid
        (call("LIKE", "BOOLEAN", S, lit("a!b", "CHAR(3)"), lit("!", "CHAR(1)")), "LIKE", "",
         "escape"),
        # types that Spark cannot hold, casts that do not exist
        (ref(0, "TIMESTAMP(9)"), "INPUT_REF", "", "microseconds"),
        (call("CAST", "TIME(0)", ref(2, "TIMESTAMP(3)")), "CAST", "", "no conversion"),
        (call("=", "BOOLEAN", S, I), "=", "", "not compared"),
        # an interval is not a column
        (lit("1000", "INTERVAL SECOND(3) NOT NULL"), "a result", "", "cannot be stored"),
    ],
)  # fmt: skip  # a table: a case a line
def test_refusals_name_function_place_and_reason(
    rex: dict[str, Any], function: str, path: str, words: str
) -> None:
    error = refused(rex)

    assert error.code == "expression.unsupported"
    assert error.function == function
    assert error.path == PATH + path
    assert words in error.message


def test_a_wrong_number_of_operands_is_refused() -> None:
    assert "0 operands" in refused(call("ABS", "INT")).message


def bound(value: object, kind: str) -> dict[str, Any]:
    """The search for what is at least this."""
    ranges = [{"lower": {"value": value, "boundType": "CLOSED"}}]
    sarg = {"kind": "LITERAL", "sarg": {"ranges": ranges, "nullAs": "UNKNOWN"}, "type": kind}
    return call("SEARCH", "BOOLEAN", ref(0, kind), sarg)


@pytest.mark.parametrize("kind", ["DECIMAL(38, 0)", "BIGINT", "DOUBLE", "FLOAT"])
@pytest.mark.parametrize(
    "text", ["1E30000000", "-1E30000000", "9" * 5_000, "9" * 5_000 + "E-4999", "1E999999999"]
)
def test_a_number_far_out_of_range_is_refused_without_being_written_out(
    text: str, kind: str
) -> None:
    """Padded to its zeros, the first one takes gigabytes."""
    for rex in (lit(text, f"{kind} NOT NULL"), bound(text, f"{kind} NOT NULL")):
        tracemalloc.start()
        try:
            with pytest.raises((MalformedExpression, UnsupportedExpression)):
                check(parse_rex(rex, PATH))
            assert tracemalloc.get_traced_memory()[1] < 5_000_000
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    "kind", ["INTERVAL SECOND(3) NOT NULL", "INTERVAL YEAR(2) TO MONTH NOT NULL"]
)
@pytest.mark.parametrize("text", ["9" * 19, "9" * 30, "-" + "9" * 5_000])
def test_an_interval_that_no_column_can_hold_is_refused(text: str, kind: str) -> None:
    with pytest.raises(MalformedExpression, match="INTERVAL"):
        check(parse_rex(call("IS NULL", "BOOLEAN NOT NULL", lit(text, kind)), PATH))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("2.5", "DECIMAL(38, 0)", "3"),
        ("-2.5", "DECIMAL(38, 0)", "-3"),
        ("12.345", "DECIMAL(4, 2)", "12.35"),
        ("1E-30000000", "DECIMAL(4, 2)", "0.00"),
    ],
)
def test_digits_beyond_the_scale_are_rounded(text: str, kind: str, value: str) -> None:
    assert str(literal_value(text, parse_type(kind))) == value


@pytest.mark.parametrize("text", ["0E30000000", "0E-2", "0"])
def test_a_zero_is_a_zero_with_any_exponent(text: str) -> None:
    assert str(literal_value(text, parse_type("DECIMAL(10, 2)"))) == "0.00"


def test_a_decimal_may_use_all_its_digits() -> None:
    kind = parse_type("DECIMAL(38, 2)")

    assert str(literal_value("9" * 36 + ".99", kind)) == "9" * 36 + ".99"
    assert literal_value("1E35", kind) == Decimal("1E35")
    with pytest.raises(LiteralError, match="36 digits before the point"):
        literal_value("1E36", kind)


@pytest.mark.parametrize(
    "value",
    [
        *("1_000", "٣", "Infinity", "NaN", " 1"),
        # read in a time that grows with its length, not with the square of it
        pytest.param("9" * 1_000_000 + "x", id="a million digits"),
    ],
)
def test_what_java_reads_as_no_number_is_none(value: str) -> None:
    for kind in ("DECIMAL(10, 2)", "DOUBLE", "BIGINT"):
        with pytest.raises(InvalidExpression):
            parse_rex(lit(value, f"{kind} NOT NULL"), PATH)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [("(" * 3_000 + ")" * 3_000, "deeply"), ("a{99999999999999999999}", "too large")],
)
def test_a_pattern_that_breaks_the_parser_is_refused(pattern: str, words: str) -> None:
    assert words in refused(call("REGEXP", "BOOLEAN", S, lit(pattern, "STRING NOT NULL"))).message


@pytest.mark.parametrize(
    "rex",
    [
        call("LIKE", "BOOLEAN", S, S),
        call("LIKE", "BOOLEAN", S, lit(None, "STRING")),
        call("ROUND", "DOUBLE", ref(2, "DOUBLE"), I),
        call("REGEXP_EXTRACT", "STRING", S, lit("(a)|(b)", "CHAR(7)"), lit(2, "INT")),
        call(">", "BOOLEAN", ref(2, "DECIMAL(38, 0)"), ref(3, "DECIMAL(38, 10)")),
        call("*", "DECIMAL(20, 4)", ref(2, "DECIMAL(10, 2)"), ref(2, "DECIMAL(10, 2)")),
        call("CAST", "STRING", ref(2, "MAP<STRING, INT>")),
        call("CAST", "ROW<`a` BIGINT>", ref(2, "ROW<`b` INT>")),
        # deeper than a message to Spark may be
        reduce(lambda inner, _: call("ABS", "INT", inner), range(120), I),
    ],
)
def test_what_spark_has_no_column_for_runs_in_python(rex: dict[str, Any]) -> None:
    found = to_column(parse_rex(rex, PATH), [sf.col(f"f{at}") for at in range(4)])

    assert "partial(" in repr(found)


def test_an_expression_that_breaks_the_client_is_refused() -> None:
    rex = I
    for _ in range(180):
        rex = call("ABS", "INT", rex)

    assert "150 calls inside each other" in refused(rex).message


@pytest.mark.parametrize(
    ("rex", "words"),
    [
        (lit(300, "TINYINT NOT NULL"), "out of the range"),
        (lit("99.995", "DECIMAL(4, 2) NOT NULL"), "2 digits before the point"),
        (call("CASE", "INT", ref(0, "BOOLEAN"), I, ref(0, "BOOLEAN"), I), "pairs"),
        (call("MAP", "MAP<INT, INT>", I), "MAP needs pairs"),
        (call("ROW", "ROW<`a` INT>", I, I), "an operand for each field"),
        ({"kind": "FIELD_ACCESS", "name": "z", "expr": ref(0, "ROW<`a` INT>")}, "no field 'z'"),
    ],
)
def test_what_flink_cannot_have_written_is_malformed(rex: dict[str, Any], words: str) -> None:
    with pytest.raises(MalformedExpression, match=words):
        check(parse_rex(rex, PATH))


def test_a_reference_beyond_the_input_is_malformed() -> None:
    with pytest.raises(MalformedExpression, match="0 columns"):
        to_column(parse_rex(ref(0, "INT"), PATH), [])


def test_an_expression_that_cannot_be_sent_is_refused_before_the_query_starts() -> None:
    rex = I
    for _ in range(200):
        rex = call("+", "INT", rex, I)

    assert "150 calls inside each other" in refused(rex).message


def test_a_sum_of_twenty_columns_is_not_too_deep() -> None:
    rex = ref(0, "BIGINT")
    for _ in range(19):
        rex = call("+", "BIGINT", rex, ref(0, "BIGINT"))

    check(parse_rex(rex, PATH))


def test_a_thousand_alternatives_are_not_too_deep() -> None:
    equal = [call("=", "BOOLEAN", I, lit(number, "INT NOT NULL")) for number in range(1000)]

    check(parse_rex(call("OR", "BOOLEAN", *equal), PATH))


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (5, "INT NOT NULL", 5),
        # small integers may be written as text by older planners
        ("-5", "BIGINT NOT NULL", -5),
        ("1.5", "DECIMAL(5, 2) NOT NULL", Decimal("1.50")),
        ("2.50", "DECIMAL(3, 1) NOT NULL", Decimal("2.5")),
        ("1E+2", "DECIMAL(5, 0) NOT NULL", Decimal(100)),
        # a FLOAT literal is exactly a number of 32 bits
        ("0.1", "FLOAT NOT NULL", 0.10000000149011612),
        ("NaN", "DOUBLE NOT NULL", float("nan")),
        ("Cv8=", "BINARY(2) NOT NULL", b"\x0a\xff"),
        ("***", "BINARY(2) NOT NULL", LiteralError),
        ("1969-12-31", "DATE NOT NULL", -1),
        ("2020-02-30", "DATE NOT NULL", LiteralError),
        ("00:00:01.5", "TIME(3) NOT NULL", 1500),
        ("1970-01-01 00:00:00.000001", "TIMESTAMP(6) NOT NULL", 1),
        ("1969-12-31 23:59:59.999", "TIMESTAMP_LTZ(3) NOT NULL", -1000),
        # Spark has no nanoseconds: zeros may be cut, digits not
        ("1970-01-01 00:00:00.100000000", "TIMESTAMP(9) NOT NULL", 100_000),
        ("1970-01-01 00:00:00.000000001", "TIMESTAMP(9) NOT NULL", LiteralError),
        ("-86400000", "INTERVAL DAY(3) NOT NULL", -86_400_000),
        ("14", "INTERVAL YEAR TO MONTH NOT NULL", 14),
        (None, "INT", None),
        (1, "BOOLEAN NOT NULL", LiteralError),
    ],
)
def test_literals_have_the_value_of_their_type(value: object, kind: str, expected: object) -> None:
    logical = parse_type(kind)

    if expected is LiteralError:
        with pytest.raises(LiteralError):
            literal_value(value, logical)
    else:
        found = literal_value(value, logical)
        assert type(found) is type(expected)
        assert repr(found) == repr(expected)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("INT NOT NULL", "int"),
        ("TIME(3)", "int"),
        ("TIMESTAMP(3)", "timestamp_ntz"),
        ("TIMESTAMP_LTZ(6)", "timestamp"),
        ("DECIMAL(38, 10)", "decimal(38,10)"),
        ("ROW<`a` ARRAY<SMALLINT>, `b` MAP<STRING, BYTES>>",
         "struct<a:array<smallint>,b:map<string,binary>>"),
        ("MULTISET<STRING>", "map<string,int>"),
    ],
)  # fmt: skip  # a table: a case a line
def test_spark_types(kind: str, expected: str) -> None:
    assert spark_type(parse_type(kind)).simpleString() == expected


def test_the_table_of_functions_is_complete_for_reference_pages() -> None:
    for name, row in FUNCTIONS.items():
        assert row.name == name
        assert 0 <= row.least <= row.most
        assert row.group


def test_every_function_is_computed_as_a_column_and_in_python() -> None:
    assert set(BUILDERS) == set(IN_PYTHON) == set(FUNCTIONS)
