"""Numeric operators and functions.

`+ - * /` and MOD compute in the type that the plan declares for the result: integers wrap
(`integers`), decimals round HALF_UP and are NULL on overflow (`decimals`), FLOAT and DOUBLE follow
Java, where x / 0 is infinite or NaN and raises nothing. Whole and decimal division by zero ends the
query, as in Flink.

Functions of the mathematics library (EXP, POWER, SIN, ...) are correct to one unit in the last
place in Flink and in Spark, but not by the same algorithm: that bit may differ.

Source: Flink `ScalarOperatorGens`, `SqlFunctionUtils` (2.3), checked by running it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions.decimals import decimal_type
from operators.expressions.families import DOUBLE
from operators.expressions.integers import BIGINT
from operators.expressions.operand_rules import digits, rounded_digits
from service.runtime.expressions import decimals, integers
from service.runtime.expressions.casts import convert
from service.runtime.expressions.comparison import is_negative_zero
from service.runtime.expressions.integers import LONG, wrapped, wrapped_decimal
from service.runtime.expressions.site import Column, Site, Value, bind, bind_all
from state.types import FLOAT_ROOTS, INTEGER_BITS, INTERVAL_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

_DOUBLE = spark.DoubleType()
_NEGATED_DIGITS_MAX = 34
_INTEGER_OPERATORS: dict[str, Callable[[Value, Value, LogicalType], Column | Value]] = {
    "+": integers.add,
    "-": integers.subtract,
    "*": integers.multiply,
    "/": integers.divide,
    "%": integers.modulo,
}


def operator(symbol: str) -> Callable[[Site], Column | Value]:
    """The builder of an arithmetic operator on numbers."""

    def build(site: Site) -> Column | Value:
        root = site.type.root
        if root in INTEGER_BITS:
            left, right = _integers(site)
            return _INTEGER_OPERATORS[symbol](left, right, site.type)
        if root is TypeRoot.DECIMAL:
            return decimals.arithmetic(site, symbol)
        if root in FLOAT_ROOTS and symbol != "%":
            left, right = (_as(site, value, site.type) for value in site.operands)
            return _floating(symbol, left, right)
        if root in INTERVAL_ROOTS and symbol == "*":
            return _scaled_interval(site)
        return site.refuse_types()

    return build


def _as(site: Site, value: Value, logical: LogicalType) -> Value:
    return replace(value, column=convert(site, value, logical), type=logical)


def _integers(site: Site) -> list[Value]:
    """The operands as integers: Flink takes the low 64 bits of a DECIMAL's whole part."""
    for value in site.operands:
        if value.type.root not in INTEGER_BITS and value.type.root is not TypeRoot.DECIMAL:
            site.refuse_types()
    return [
        value if value.type.root in INTEGER_BITS else _as(site, value, BIGINT)
        for value in site.operands
    ]


def _floating(symbol: str, left: Value, right: Value) -> Column:
    if symbol == "+":
        return left.column + right.column
    if symbol == "-":
        return left.column - right.column
    if symbol == "*":
        return left.column * right.column
    if isinstance(right.literal, float) and right.literal != 0:
        return left.column / right.column
    # Spark raises for a divisor of 0. 0 to the power of -1 is infinite with the sign of the zero.
    return bind_all((left, right), _java_quotient)


def _java_quotient(a: Column, b: Column) -> Column:
    return sf.when(b == 0, a * sf.pow(b, sf.lit(-1.0))).otherwise(a / b)


def _scaled_interval(site: Site) -> Column:
    left, right = (_number_of(site, value) for value in site.operands)
    return integers.multiply(left, right, BIGINT).column


def _number_of(site: Site, value: Value) -> Value:
    if value.type.root in INTERVAL_ROOTS or value.type.root in INTEGER_BITS:
        return replace(value, column=value.column.cast(LONG), type=BIGINT)
    return site.refuse_types()


def divide_whole(site: Site) -> Column | Value:
    """`/INT`: the planner's division of whole numbers."""
    left, right = _integers(site)
    return integers.divide(left, right, site.type)


def minus(site: Site) -> Column:
    """-x."""
    value = site[0]
    if value.type.root in INTEGER_BITS:
        return integers.negate(value, site.type)
    if _is_long_decimal(value):
        return bind(value, lambda x: _negated_text(x, decimals.zero_of(value.type)))
    return -value.column


def _is_long_decimal(value: Value) -> bool:
    """Whether it may have more than the 34 digits to which Spark's own negation rounds."""
    return value.type.root is TypeRoot.DECIMAL and (value.type.precision or 0) > _NEGATED_DIGITS_MAX


def _negated_text(x: Column, zero: Column) -> Column:
    """The opposite of a DECIMAL, by its text."""
    text = x.cast(spark.StringType())
    return sf.when(x < zero, sf.substring(text, 2, 50)).otherwise(sf.concat(sf.lit("-"), text))


def absolute(site: Site) -> Column:
    """ABS."""
    value = site[0]
    if _is_integer(value):
        return integers.absolute(value, site.type)
    if _is_long_decimal(value):
        return bind(value, lambda x: sf.ltrim(x.cast(spark.StringType()), sf.lit("-")))
    return sf.abs(value.column)


def _is_integer(value: Value) -> bool:
    return value.type.root in INTEGER_BITS


def sign(site: Site) -> Column:
    """SIGN: -1, 0 or 1 in the operand's type; -0.0 stays."""
    return sf.signum(site[0].column.cast(_DOUBLE))


def floor(site: Site) -> Column:
    """FLOOR of a number."""
    return _rounded(site, up=False)


def ceil(site: Site) -> Column:
    """CEIL of a number."""
    return _rounded(site, up=True)


def _rounded(site: Site, *, up: bool) -> Column:
    value = site[0]
    if _is_integer(value):
        return value.column
    if value.type.root is TypeRoot.DECIMAL:
        return sf.ceil(value.column) if up else sf.floor(value.column)
    # Spark's own give BIGINT, which neither holds 1e300 nor -0.0.
    opposite = replace(value, column=-value.column.cast(_DOUBLE))
    plain = replace(value, column=value.column.cast(_DOUBLE))
    return -bind(opposite, _java_floor) if up else bind(plain, _java_floor)


def _java_floor(x: Column) -> Column:
    return sf.when(sf.rint(x) > x, sf.rint(x) - 1).otherwise(sf.rint(x))


def round_half_up(site: Site) -> Column:
    """ROUND(x[, digits]), half away from zero."""
    value, places = site[0], rounded_digits(site)
    if _is_integer(value):
        return _round_integer(site, value, places)
    if value.type.root is TypeRoot.DECIMAL:
        if places >= (value.type.scale or 0):
            return value.column
        wide = value.column if places >= 0 else _widest(value)
        return sf.round(wide, places)
    # A FLOAT is rounded as the DOUBLE that it is. Adding 0.0 makes 0.0 of -0.0.
    return sf.round(value.column.cast(_DOUBLE), places) + sf.lit(0.0)


def _widest(value: Value) -> Column:
    """A DECIMAL without its fraction's digits, so that rounding up whole digits cannot overflow."""
    precision, scale = value.type.precision or 0, value.type.scale or 0
    return value.column.cast(spark.DecimalType(min(38, precision + 1), scale))


def _round_integer(site: Site, value: Value, places: int) -> Column:
    if places >= 0:
        return value.column
    if places < -19:
        return value.column.cast(LONG) * sf.lit(0).cast(LONG)
    rounded = sf.round(value.column.cast(spark.DecimalType(20, 0)), places)
    return wrapped(wrapped_decimal(rounded.cast(spark.DecimalType(38, 0))), site.type)


def truncate(site: Site) -> Column:
    """TRUNCATE(x[, digits]), towards zero; a FLOAT or DOUBLE through DECIMAL(38, 18)."""
    value, places = site[0], digits(site)
    if value.type.root in FLOAT_ROOTS:
        # Out of the range of that DECIMAL Flink fails, and so does this cast.
        wide = value.column.cast(_DOUBLE).cast(spark.DecimalType(38, 18))
        inner = Value(wide, decimal_type(38, 18), value.weight)
        return _truncated(inner, places).cast(_DOUBLE)
    if _is_integer(value):
        if places >= 0:
            return value.column
        wide = value.column.cast(spark.DecimalType(19, 0))
        inner = Value(wide, decimal_type(19, 0), value.weight)
        return _truncated(inner, places).cast(LONG)
    return _truncated(value, places)


def _truncated(value: Value, places: int) -> Column:
    if places >= (value.type.scale or 0):
        return value.column
    kept, zero = sf.lit(places), decimals.zero_of(value.type)
    return bind(value, lambda x: sf.when(x >= zero, sf.floor(x, kept)).otherwise(sf.ceil(x, kept)))


def of_double(function: Callable[[Column], Column]) -> Callable[[Site], Column]:
    """The builder of a function of one DOUBLE."""
    return lambda site: function(_double(site, 0))


def _double(site: Site, index: int) -> Column:
    return convert(site, site[index], DOUBLE)


def logarithm(function: Callable[[Column], Column]) -> Callable[[Site], Column]:
    """The builder of a logarithm: -Infinity of 0 and NaN below, where Spark has NULL."""
    return lambda site: _logarithm(function, replace(site[0], column=_double(site, 0)))


def _logarithm(function: Callable[[Column], Column], value: Value) -> Column:
    def build(x: Column) -> Column:
        low = sf.when(x < 0, sf.lit(math.nan)).when(x == 0, sf.lit(-math.inf))
        return low.otherwise(function(x))

    return bind(value, build)


def log(site: Site) -> Column:
    """LOG(x), natural, and LOG(base, x)."""
    natural = [
        _logarithm(sf.ln, replace(value, column=_double(site, index)))
        for index, value in enumerate(site.operands)
    ]
    if len(natural) == 1:
        return natural[0]
    quotient = [Value(column, DOUBLE, 8) for column in natural]
    return bind_all(quotient, lambda base, x: _java_quotient(x, base))


def log2(site: Site) -> Column:
    """LOG2: the quotient of two natural logarithms, as in Flink."""
    value = replace(site[0], column=_double(site, 0))
    return _logarithm(sf.ln, value) / sf.lit(math.log(2))


def power(site: Site) -> Column:
    """POWER; the planner writes SQRT(x) as POWER(x, 0.5)."""
    return sf.pow(_double(site, 0), _double(site, 1))


def atan2(site: Site) -> Column:
    """ATAN2(y, x)."""
    operands = [replace(value, column=_double(site, n)) for n, value in enumerate(site.operands)]
    return bind_all(operands, _java_atan2)


def _java_atan2(y: Column, x: Column) -> Column:
    # Spark takes -0.0 for 0.0: for such a y Java's result is y, or pi with its sign.
    left = (x < 0) | ((x == 0) & is_negative_zero(x))
    turn = sf.when(is_negative_zero(y), sf.lit(-math.pi)).otherwise(sf.lit(math.pi))
    on_axis = (y == 0) & x.isNotNull() & ~sf.isnan(x)
    return sf.when(on_axis, sf.when(left, turn).otherwise(y)).otherwise(sf.atan2(y, x))


def cotangent(site: Site) -> Column:
    """COT: 1 / tan(x)."""
    return bind(replace(site[0], column=_double(site, 0)), _cotangent)


def _cotangent(x: Column) -> Column:
    return _java_quotient(sf.lit(1.0), sf.tan(x))


def constant(number: float) -> Callable[[Site], Column]:
    """The builder of PI and E."""
    return lambda _: sf.lit(number)


def binary_digits(site: Site) -> Column:
    """BIN: the digits of the number's 64 bits, without leading zeros."""
    return sf.bin(site[0].column.cast(LONG))
