"""DECIMAL: Flink's precision and scale, HALF_UP, and NULL on overflow.

Spark derives the same result types as Flink from the same operand types, so an operation is exact
once the operands have Flink's: INT counts as DECIMAL(10, 0), BIGINT as DECIMAL(19, 0). Overflow is
NULL through Spark's `try_` functions; a division by zero still ends the query.

Source: Flink `DecimalDataUtils`, `LogicalTypeMerging` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions.decimals import COMPACT_PRECISION_MAX, decimal_type
from service.runtime.expressions.site import Column, Site, Value, bind_all
from state.types import DECIMAL_PRECISION_MAX, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

_WHOLE_DIGITS: Mapping[TypeRoot, int] = {
    TypeRoot.TINYINT: 3,
    TypeRoot.SMALLINT: 5,
    TypeRoot.INTEGER: 10,
    TypeRoot.BIGINT: 19,
}
_MIN_SCALE = 6


def digits(logical: LogicalType) -> tuple[int, int]:
    """Precision and scale with which a DECIMAL or integer enters decimal arithmetic."""
    if logical.root is TypeRoot.DECIMAL:
        return logical.precision or 0, logical.scale or 0
    return _WHOLE_DIGITS[logical.root], 0


def widened(left: LogicalType, right: LogicalType) -> LogicalType | None:
    """The DECIMAL that holds all values of both types; None where none has so many digits."""
    (p1, s1), (p2, s2) = digits(left), digits(right)
    scale = max(s1, s2)
    precision = max(p1 - s1, p2 - s2) + scale
    return decimal_type(precision, scale) if precision <= DECIMAL_PRECISION_MAX else None


def as_decimal(value: Value, logical: LogicalType) -> Value:
    """The value with a DECIMAL type that holds it."""
    target = spark.DecimalType(logical.precision, logical.scale)
    return replace(value, column=value.column.cast(target), type=logical)


def zero_of(logical: LogicalType) -> Column:
    """0 as a DECIMAL of the type.

    Compared with a plain 0, Spark takes both in a type with room for ten whole digits, where a
    number of 38 digits behind the point is 0, too.
    """
    return sf.lit(0).cast(spark.DecimalType(logical.precision, logical.scale))


def as_double(value: Column, logical: LogicalType) -> Column:
    """A DECIMAL as a DOUBLE, which Flink rounds twice up to 18 digits.

    Such a number is a BIGINT of its digits, which is divided by a power of ten.
    """
    scale = logical.scale or 0
    if not scale or (logical.precision or 0) > COMPACT_PRECISION_MAX:
        return value.cast(spark.DoubleType())
    power = sf.lit(10**scale).cast(spark.DecimalType(scale + 1, 0))
    digits = (value * power).cast(spark.LongType())
    return digits.cast(spark.DoubleType()) / sf.lit(10.0**scale)


def arithmetic(site: Site, operator: str) -> Column:
    """`+`, `-`, `*`, `/` or `%` of operands of which one at least is DECIMAL."""
    left, right = (as_decimal(value, decimal_type(*digits(value.type))) for value in site.operands)
    derived = _derive(operator, digits(left.type), digits(right.type))
    if derived != digits(site.type):
        site.refuse(
            f"the plan declares DECIMAL{digits(site.type)} where DECIMAL{derived} follows from "
            f"{site.types()}"
        )
    if operator == "/":
        return bind_all((left, right), lambda a, b: _quotient(a, b, right.type))
    if operator == "%":
        return left.column % right.column
    trying = {"+": sf.try_add, "-": sf.try_subtract, "*": sf.try_multiply}[operator]
    return trying(left.column, right.column)


def _derive(operator: str, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """The result type of Flink and Spark both."""
    (p1, s1), (p2, s2) = left, right
    match operator:
        case "+" | "-":
            scale = max(s1, s2)
            return _bounded(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "*":
            return _bounded(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(_MIN_SCALE, s1 + p2 + 1)
            return _bounded(p1 - s1 + s2 + scale, scale)
        case _:
            scale = max(s1, s2)
            return min(p1 - s1, p2 - s2) + scale, scale


def _bounded(precision: int, scale: int) -> tuple[int, int]:
    """Whole digits first, but at least six of the fraction, where 38 are not enough for all."""
    if precision <= DECIMAL_PRECISION_MAX:
        return precision, scale
    kept = max(DECIMAL_PRECISION_MAX - (precision - scale), min(scale, _MIN_SCALE))
    return DECIMAL_PRECISION_MAX, kept


def _quotient(left: Column, right: Column, divisor: LogicalType) -> Column:
    # try_divide is null for a divisor of 0 too, where Flink fails: leave that to the plain one.
    is_zero = right == zero_of(divisor)
    return sf.when(is_zero, left / right).otherwise(sf.try_divide(left, right))
