"""Laws of the values inside expressions, each against another way to compute the same."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from operators.expressions import instants, integers, reform, units
from operators.expressions.decimals import OPERATIONS, as_double, decimal_type, fitted
from operators.expressions.errors import EvaluationFailed
from operators.expressions.floats import (
    double_text,
    float32,
    float_text,
    parse_single,
    quotient,
    single,
)
from state.types import LogicalType, TypeRoot

LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
WIDTHS = {
    TypeRoot.TINYINT: np.int8,
    TypeRoot.SMALLINT: np.int16,
    TypeRoot.INTEGER: np.int32,
    TypeRoot.BIGINT: np.int64,
}
FIRST = dt.date(1970, 1, 1).toordinal()


@pytest.mark.parametrize("root", WIDTHS)
@given(a=LONGS, b=LONGS)
def test_whole_numbers_wrap_as_those_of_the_machine(root: TypeRoot, a: int, b: int) -> None:
    kind = WIDTHS[root]
    x, y = (np.array([each]).astype(kind) for each in (a, b))
    row = (int(x[0]), int(y[0]))

    for symbol, expected in (("+", x + y), ("-", x - y), ("*", x * y)):
        run = integers.operation(symbol, LogicalType(root), lambda r: r[0], lambda r: r[1])
        assert run(row) == int(expected[0])


@given(LONGS, LONGS.filter(bool))
@example(-(1 << 63), -1)
def test_a_quotient_is_cut_and_a_rest_has_the_sign_of_the_dividend(a: int, b: int) -> None:
    found, left = integers.truncated(a, b), integers.rest(a, b)

    assert found == math.trunc(Fraction(a, b))
    assert found * b + left == a
    assert left == 0 or (left < 0) == (a < 0)


DECIMALS = st.decimals(
    allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20, places=6
)


@given(DECIMALS, DECIMALS, st.sampled_from("+-*"), st.integers(0, 12))
def test_decimals_are_exact_and_then_rounded_once(
    a: Decimal, b: Decimal, symbol: str, scale: int
) -> None:
    x, y = Fraction(a), Fraction(b)
    exact = {"+": x + y, "-": x - y, "*": x * y}[symbol]
    # half up, away from zero
    unit = abs(exact) * 10**scale
    rounded = math.floor(unit + Fraction(1, 2)) * (-1 if exact < 0 else 1)

    found = fitted(decimal_type(38, scale))(OPERATIONS[symbol](a, b))

    if abs(rounded) >= 10**38:
        assert found is None
    else:
        assert found is not None
        assert Fraction(found) == Fraction(rounded, 10**scale)
        assert found.as_tuple().exponent == -scale
        assert str(found)[0] != "-" or found < 0


def test_a_rest_whose_quotient_has_too_many_digits_fails() -> None:
    with pytest.raises(EvaluationFailed, match="38 digits"):
        OPERATIONS["%"](Decimal(10**38 - 1), Decimal("0.07"))


@pytest.mark.parametrize(("a", "b"), [("1", "1E-38"), ("1E37", "0.01"), ("-25E36", "0.001")])
def test_zeros_at_the_end_of_a_quotient_are_no_digits(a: str, b: str) -> None:
    assert OPERATIONS["%"](Decimal(a), Decimal(b)) == 0


def test_a_short_decimal_becomes_a_double_by_two_roundings() -> None:
    number = Decimal("997504000.474966831")

    assert as_double(decimal_type(18, 9))(number) == 997504000.4749668
    assert as_double(decimal_type(19, 9))(number) == 997504000.4749669


@given(st.floats(width=32), st.floats(width=32))
def test_single_arithmetic_is_that_of_the_machine(a: float, b: float) -> None:
    x, y = np.float32(a), np.float32(b)
    with np.errstate(all="ignore"):
        pairs = [(a + b, x + y), (a - b, x - y), (a * b, x * y), (quotient(a, b), x / y)]

    for found, expected in pairs:
        assert repr(float32(found)) == repr(float(expected))


@given(LONGS)
@example((1 << 54) + (1 << 30) + 1)
def test_a_whole_number_becomes_the_nearest_single(number: int) -> None:
    assert single(number) == float(np.float32(np.int64(number)))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=0), st.booleans())
@example(3.4028234663852886e38, False)
def test_a_text_beside_the_middle_of_two_singles_is_the_nearer_one(
    value: float, is_above: bool
) -> None:
    with np.errstate(over="ignore"):
        following = float(np.nextafter(np.float32(value), np.float32(math.inf)))
    end = Fraction(following) if math.isfinite(following) else Fraction(2**128)
    middle = (Fraction(value) + end) / 2
    # so near that a DOUBLE does not tell it from the middle
    scale = 60 - math.floor(math.log10(middle))
    digits = middle.numerator * 10**scale // middle.denominator + (1 if is_above else -1)

    assert parse_single(f"{digits}e{-scale}") == (following if is_above else value)


@given(st.floats())
def test_a_text_of_a_double_is_read_as_the_same(value: float) -> None:
    text = double_text(value)

    assert repr(float(text)) == repr(value)
    assert text.strip("-") in ("NaN", "Infinity") or "." in text


@given(st.floats(width=32))
def test_a_text_of_a_single_is_read_as_the_same(value: float) -> None:
    assert repr(float32(float(float_text(value)))) == repr(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456.789, "123456.789"),
        (-0.0, "-0.0"),
        (1e300, "1.0E300"),
        (5e-324, "4.9E-324"),
    ],
)
def test_javas_layout_of_numbers(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        # more digits than are needed to give the number back
        (3.0051739e15, "3.00517385E15"),
        (7.80966e8, "7.8096602E8"),
        (1.3179099e9, "1.31790989E9"),
        # sums that run over the 64 bits of Java's whole numbers
        (5.7286327e25, "5.7286326E25"),
        (0.034788456, "0.034788456"),
        (6.6295543e-16, "6.6295543E-16"),
        (1.4e-45, "1.4E-45"),
    ],
)
def test_a_single_is_written_as_java_17_writes_it(value: float, text: str) -> None:
    """Taken from Float.toString of Java 17, which 120,000 random numbers agreed with."""
    assert float_text(float32(value)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0e-3, "0.002"),
        (1.0e23, "9.999999999999999E22"),
        (0.0023072703591955758, "0.0023072703591955758"),
        (0.0036397910365965694, "0.0036397910365965694"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (2**62, "4.6116860184273879E18"),
    ],
)
def test_a_double_is_written_as_java_17_writes_it(value: float, text: str) -> None:
    """Taken from Double.toString of Java 17, which 120,000 random numbers agreed with."""
    assert double_text(float(value)) == text


@given(st.dates())
def test_the_calendar_is_that_of_the_library(date: dt.date) -> None:
    days = date.toordinal() - FIRST

    assert instants.date_of(days) == (date.year, date.month, date.day)
    assert instants.day_number(date.year, date.month, date.day) == days


@given(st.integers(-(10**7), 10**7))
def test_the_calendar_repeats_after_four_hundred_years(days: int) -> None:
    year, month, day = instants.date_of(days)

    assert instants.date_of(days + 146_097) == (year + 400, month, day)
    assert instants.day_number(year, month, day) == days


@given(st.integers(-800_000, 100_000))
def test_the_reformed_calendar_goes_both_ways(days: int) -> None:
    date = reform.reformed_date_of(days) or instants.date_of(days)

    assert reform.reformed_day_number(*date) == days


def test_the_reform_left_out_ten_days() -> None:
    assert reform.reformed_day_number(1582, 10, 15) == reform.reformed_day_number(1582, 10, 4) + 1
    # 1500 was a leap year of the old calendar
    assert reform.reformed_date_of(reform.reformed_day_number(1500, 2, 29)) == (1500, 2, 29)


@given(st.text())
def test_units_are_those_of_utf_16(text: str) -> None:
    found = units.to_units(text)

    assert len(found) == len(text.encode("utf-16-le")) // 2
    assert units.from_units(found) == text


def test_half_a_character_is_a_question_mark() -> None:
    assert units.from_units(units.to_units("a😀b")[:2]) == "a?"
