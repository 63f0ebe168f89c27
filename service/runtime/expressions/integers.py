"""Whole numbers that wrap as Java's do, on a Spark that raises on overflow.

Sums and products of TINYINT, SMALLINT and INT are computed in BIGINT, without cutting them down in
between as long as 64 bits hold them, and then by two shifts. BIGINT goes through Spark's `try_`
functions, which are NULL on overflow, and only then through DECIMAL(38, 0): a cost for the rare
case alone. A chain of operators keeps both forms side by side (`Whole`) and joins them once, at its
end, so that its expression grows with its length and not with two to the power of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from service.runtime.expressions.site import Column, Value, bind, bind_all
from service.runtime.expressions.spark_types import spark_type
from state.types import INTEGER_BITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.types import LogicalType

LONG = spark.LongType()
_WIDE = spark.DecimalType(38, 0)
_FACTOR = spark.DecimalType(19, 0)
_TWO_63 = Decimal(1 << 63)
_TWO_64 = Decimal(1 << 64)


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number on its way through a chain of `+`, `-` and `*`, not yet cut down."""

    exact: Column
    """BIGINT; NULL where it overflowed."""
    wide: Column | None
    """DECIMAL(38, 0), equal to the true result modulo 2^64; None if `exact` cannot overflow."""
    bits: int
    """Bits of a signed number that `exact` may need."""
    is_cut: bool = False
    """Whether `wide` is a number of 64 bits."""


def wrapped(long: Column, logical: LogicalType) -> Column:
    """The low bits of a BIGINT column, as Java's narrowing cast; still BIGINT."""
    unused = 64 - INTEGER_BITS[logical.root]
    if unused:
        long = sf.shiftright(sf.shiftleft(long, unused), unused)
    return long


def wrapped_decimal(wide: Column) -> Column:
    """The low 64 bits of a DECIMAL(38, 0) column as BIGINT."""
    return _reduced(wide).cast(LONG)


def _reduced(wide: Column) -> Column:
    """The number of 64 bits, signed, that a DECIMAL(38, 0) is congruent to."""
    low = sf.pmod(wide, sf.lit(_TWO_64))
    return sf.pmod(low + sf.lit(_TWO_63), sf.lit(_TWO_64)) - sf.lit(_TWO_63)


def add(left: Value, right: Value, logical: LogicalType) -> Value:
    """Left + right, modulo two to the power of the type's bits."""
    return _chained(left, right, logical, _ADD)


def subtract(left: Value, right: Value, logical: LogicalType) -> Value:
    """Left - right, modulo two to the power of the type's bits."""
    return _chained(left, right, logical, _SUBTRACT)


def multiply(left: Value, right: Value, logical: LogicalType) -> Value:
    """Left * right, modulo two to the power of the type's bits."""
    return _chained(left, right, logical, _MULTIPLY)


@dataclass(frozen=True, slots=True)
class _Operation:
    plain: Callable[[Column, Column], Column]
    trying: Callable[[Column, Column], Column]
    bits: Callable[[int, int], int]
    is_product: bool = False


_ADD = _Operation(lambda a, b: a + b, sf.try_add, lambda m, n: max(m, n) + 1)
_SUBTRACT = _Operation(lambda a, b: a - b, sf.try_subtract, lambda m, n: max(m, n) + 1)
_MULTIPLY = _Operation(lambda a, b: a * b, sf.try_multiply, lambda m, n: m + n, is_product=True)


def _chained(left: Value, right: Value, logical: LogicalType, operation: _Operation) -> Value:
    a, b = _whole(left, logical), _whole(right, logical)
    if operation.bits(a.bits, b.bits) > 64 and INTEGER_BITS[logical.root] < 64:
        a, b = _cut(left), _cut(right)
    whole = _joined(a, b, operation)
    weight = left.weight + right.weight + 1
    return Value(_settled(whole, logical), logical, weight, whole=whole)


def _whole(value: Value, logical: LogicalType) -> Whole:
    """What a chain of this type goes on with: not yet cut, unless the value has fewer bits."""
    is_narrower = _bits(value) < INTEGER_BITS[logical.root]
    return _cut(value) if is_narrower or not isinstance(value.whole, Whole) else value.whole


def _cut(value: Value) -> Whole:
    """The value's own column as the beginning of a chain."""
    bits = INTEGER_BITS[value.type.root]
    if bits < 64:
        return Whole(value.column.cast(LONG), None, bits, is_cut=True)
    return Whole(value.column, value.column.cast(_WIDE), bits, is_cut=True)


def _joined(a: Whole, b: Whole, operation: _Operation) -> Whole:
    bits = operation.bits(a.bits, b.bits)
    if bits <= 64 and a.wide is None and b.wide is None:
        return Whole(operation.plain(a.exact, b.exact), None, bits)
    wide = [w.exact.cast(_WIDE) if w.wide is None else w.wide for w in (a, b)]
    if operation.is_product:
        # Factors of 64 bits have a product of 38 digits, which is cut at once.
        factors = [w if of.is_cut else _reduced(w) for w, of in zip(wide, (a, b), strict=True)]
        product = operation.plain(*(factor.cast(_FACTOR) for factor in factors))
        joined = _reduced(product)
    else:
        # The sum of two DECIMAL(38, 0) is one again, and these stay far below 38 digits.
        joined = operation.plain(wide[0], wide[1])
    return Whole(operation.trying(a.exact, b.exact), joined, 64)


def _settled(whole: Whole, logical: LogicalType) -> Column:
    """The end of a chain: the number in its type."""
    long = whole.exact
    if whole.wide is not None:
        long = sf.coalesce(long, wrapped_decimal(whole.wide))
    return wrapped(long, logical).cast(spark_type(logical))


def _bits(value: Value) -> int:
    return INTEGER_BITS[value.type.root]


def negate(value: Value, logical: LogicalType) -> Column:
    """-value; the smallest number stays as it is."""
    if _bits(value) < 64:
        return wrapped(-value.column.cast(LONG), logical)
    # try_subtract is null for null and for the one number that has no opposite.
    return bind(value, lambda a: sf.coalesce(sf.try_subtract(sf.lit(0), a), a))


def absolute(value: Value, logical: LogicalType) -> Column:
    """Without sign; the smallest number stays as it is."""
    return bind(value, lambda a: sf.when(a < 0, negate_column(a, logical)).otherwise(a))


def negate_column(column: Column, logical: LogicalType) -> Column:
    """As `negate`, of a column that may be used twice."""
    return negate(Value(column, logical), logical)


def divide(left: Value, right: Value, logical: LogicalType) -> Column | Value:
    """The quotient without its fraction; ends the query where right is 0, as in Flink."""
    if _bits(left) < 64 and _bits(right) < 64:
        # The smallest number by -1 has a bit more: a chain may go on with it and be cut at its end.
        quotient = _div(left.column.cast(LONG), right.column.cast(LONG))
        whole = Whole(quotient, None, _bits(left) + 1)
        weight = left.weight + right.weight + 1
        return Value(_settled(whole, logical), logical, weight, whole=whole)
    if right.is_literal and right.literal not in (None, -1):
        return wrapped(_div(left.column, right.column), logical)

    def long(a: Column, b: Column) -> Column:
        # -1 is the one divisor that can overflow, and then Java gives the dividend back.
        opposite = sf.coalesce(sf.try_subtract(sf.lit(0), a), a).cast(LONG)
        return sf.when(b == -1, opposite).otherwise(_div(a.cast(LONG), b))

    return wrapped(bind_all((left, right), long), logical)


def _div(left: Column, right: Column) -> Column:
    return sf.call_function("div", left, right)


def truncating_div(left: Column, divisor: int) -> Column:
    """The quotient without its fraction, of a BIGINT column by a positive number."""
    return _div(left, sf.lit(divisor).cast(LONG))


def modulo(left: Value, right: Value, logical: LogicalType) -> Column:
    """The rest of a division, with the sign of `left`; ends the query where right is 0."""
    return wrapped(left.column.cast(LONG) % right.column.cast(LONG), logical)
