"""Comparison and logic: Java's view of NaN, and numbers of different types side by side.

Flink compares FLOAT and DOUBLE as Java does: NaN is neither less, equal nor greater than anything,
itself included, and -0.0 equals 0.0. Spark lets NaN equal itself and be the greatest. So wherever
an operand may be NaN, the rewritten form below is used; NULL stays NULL in all of them. Beside a
DECIMAL Flink has NaN above all numbers, too, and -0.0 below 0.

Source: Flink `ScalarOperatorGens` and `DecimalDataUtils.compare` (2.3), checked by running it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions.comparison import BELOW_ZERO, beside_decimal
from operators.expressions.families import DOUBLE, check_comparable
from service.runtime.expressions.decimals import as_decimal, as_double, widened
from service.runtime.expressions.site import Column, Site, Value, bind, bind_all
from state.types import FLOAT_ROOTS, NUMBER_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MINUS_INFINITY = sf.lit(-math.inf)


def compare(site: Site) -> Column:
    """`=`, `<>`, `<`, `<=`, `>` or `>=` of two operands."""
    if beside_decimal(site[0].type, site[1].type):
        left, right = align(site, _in_total_order(site[0]), _in_total_order(site[1]))
        # Spark's own order has NaN above all numbers.
        return _PLAIN[site.name](left.column, right.column)
    left, right = align(site, site[0], site[1])
    return compared(site.name, left, right)


def _in_total_order(value: Value) -> Value:
    """A FLOAT or DOUBLE as one that is below 0 where it is -0.0."""
    if value.type.root not in FLOAT_ROOTS:
        return value

    def placed(x: Column) -> Column:
        return sf.when((x == 0) & is_negative_zero(x), sf.lit(BELOW_ZERO)).otherwise(x)

    wide = replace(value, column=value.column.cast(spark.DoubleType()))
    return replace(wide, column=bind(wide, placed), type=DOUBLE, literal=None, is_literal=False)


def align(site: Site, left: Value, right: Value) -> tuple[Value, Value]:
    """Both operands in one Spark type, as Java's numeric promotion would have them."""
    roots = {left.type.root, right.type.root}
    if TypeRoot.NULL in roots:
        return left, right
    check_comparable(site, left, right)
    if len(roots) == 1 and TypeRoot.DECIMAL not in roots:
        return left, right
    if not roots <= NUMBER_ROOTS:
        # CHAR with VARCHAR, and so on; of the two kinds of timestamp both are instants in UTC.
        return (left, right) if roots != TIMESTAMP_ROOTS else _instants(left, right)
    if TypeRoot.DOUBLE in roots or (TypeRoot.FLOAT in roots and TypeRoot.DECIMAL in roots):
        return _both(left, right, LogicalType(TypeRoot.DOUBLE), spark.DoubleType())
    if TypeRoot.FLOAT in roots:
        return _both(left, right, LogicalType(TypeRoot.FLOAT), spark.FloatType())
    if TypeRoot.DECIMAL in roots:
        common = widened(left.type, right.type)
        if common is None:
            site.refuse("these decimals have no common type of 38 digits")
        return as_decimal(left, common), as_decimal(right, common)
    return _both(left, right, LogicalType(TypeRoot.BIGINT), spark.LongType())


def _both(
    left: Value, right: Value, logical: LogicalType, target: spark.DataType
) -> tuple[Value, Value]:
    def cast(value: Value) -> Value:
        column = value.column
        if value.type.root is TypeRoot.DECIMAL and logical.root in FLOAT_ROOTS:
            column = as_double(column, value.type)
        return replace(value, column=column.cast(target), type=logical)

    return cast(left), cast(right)


def _instants(left: Value, right: Value) -> tuple[Value, Value]:
    return _both(
        left, right, LogicalType(TypeRoot.TIMESTAMP_LTZ, precision=6), spark.TimestampType()
    )


def may_be_nan(value: Value) -> bool:
    """Whether NaN is possible; a literal's value is known."""
    if value.type.root not in FLOAT_ROOTS:
        return False
    return not (isinstance(value.literal, float) and not math.isnan(value.literal))


def compared(operator: str, left: Value, right: Value) -> Column:
    """The comparison of two operands of one Spark type."""
    if not (may_be_nan(left) or may_be_nan(right)):
        return _PLAIN[operator](left.column, right.column)
    if operator in _SWAPPED:
        operator, left, right = _SWAPPED[operator], right, left
    return bind_all((left, right), _WITH_NAN[operator])


def is_negative_zero(x: Column) -> Column:
    """Whether a DOUBLE, or FLOAT, that equals 0 is -0.0; only its reciprocal tells."""
    return sf.pow(x, sf.lit(-1.0)) < 0


def _equal(a: Column, b: Column) -> Column:
    return sf.when(sf.isnan(a) & sf.isnan(b), sf.lit(False)).otherwise(a == b)


def _unequal(a: Column, b: Column) -> Column:
    return sf.when(sf.isnan(a) & sf.isnan(b), sf.lit(True)).otherwise(a != b)


def _less(a: Column, b: Column) -> Column:
    # Spark: NaN < b is false already; a < NaN must be, and a < -Infinity is.
    return a < sf.nanvl(b, _MINUS_INFINITY.cast("double"))


def _at_most(a: Column, b: Column) -> Column:
    return sf.when(sf.isnan(b), a < _MINUS_INFINITY).otherwise(a <= b)


_PLAIN: Mapping[str, Callable[[Column, Column], Column]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_WITH_NAN: Mapping[str, Callable[[Column, Column], Column]] = {
    "=": _equal,
    "<>": _unequal,
    "<": _less,
    "<=": _at_most,
}
_SWAPPED = {">": "<", ">=": "<="}


def distinct(site: Site) -> Column:
    """IS DISTINCT FROM: as `<>`, where NULL is a value like others."""
    return ~_same(site)


def not_distinct(site: Site) -> Column:
    """IS NOT DISTINCT FROM: as `=`, where NULL equals NULL."""
    return _same(site)


def _same(site: Site) -> Column:
    left, right = align(site, site[0], site[1])
    both_null = left.column.isNull() & right.column.isNull()
    return both_null | sf.coalesce(compared("=", left, right), sf.lit(False))


def conjunction(site: Site) -> Column:
    """AND of two or more conditions."""
    return _fold(site, lambda a, b: a & b)


def disjunction(site: Site) -> Column:
    """OR of two or more conditions."""
    return _fold(site, lambda a, b: a | b)


def _fold(site: Site, join: Callable[[Column, Column], Column]) -> Column:
    # As a balanced tree: a plan may hold a thousand conditions, and Spark recurses into them.
    columns = site.columns
    while len(columns) > 1:
        pairs = zip(columns[::2], columns[1::2], strict=False)
        odd = columns[-1:] if len(columns) % 2 else []
        columns = [join(a, b) for a, b in pairs] + odd
    return columns[0]


def negation(site: Site) -> Column:
    """NOT."""
    return ~site[0].column


def is_null(site: Site) -> Column:
    """IS NULL, IS UNKNOWN."""
    return site[0].column.isNull()


def is_not_null(site: Site) -> Column:
    """IS NOT NULL, IS NOT UNKNOWN."""
    return site[0].column.isNotNull()


def truth_test(expected: bool, *, negated: bool) -> Callable[[Site], Column]:
    """IS [NOT] TRUE and IS [NOT] FALSE: never NULL."""

    def build(site: Site) -> Column:
        condition = site[0].column if expected else ~site[0].column
        found = sf.coalesce(condition, sf.lit(False))
        return ~found if negated else found

    return build


def between(site: Site) -> Column:
    """BETWEEN as a call of three operands (the planner writes SEARCH or two comparisons)."""
    value, low, high = site.operands
    above = compared(">=", *align(site, value, low))
    return above & compared("<=", *align(site, value, high))


def membership(site: Site) -> Column:
    """IN as a call: the first operand equals one of the others."""
    value, *candidates = site.operands
    tests = [compared("=", *align(site, value, candidate)) for candidate in candidates]
    return _fold(
        replace(site, operands=tuple(Value(t, site.type) for t in tests)), lambda a, b: a | b
    )
