"""Arithmetic as Flink's generated code does it, on the Python values of columns.

    integers    wrap around at the width of their type, as Java's do
    FLOAT       is rounded to 32 bits after each step
    DECIMAL     exact; null where a result has more digits than its type

Source: Flink's `ScalarOperatorGens` and `DecimalDataUtils`.
"""

from __future__ import annotations

import ctypes
import decimal
import operator as op
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any, Final

from state.types import FLOAT_ROOTS, INTEGER_BITS, LogicalType, TypeRoot
from state.values import EXACT

if TYPE_CHECKING:
    from collections.abc import Callable

DIVIDES: Final = decimal.Context(prec=38, rounding=ROUND_HALF_UP, traps=[])
"""Flink's MathContext of a division."""
DOUBLE: Final = LogicalType(TypeRoot.DOUBLE)
BIGINT: Final = LogicalType(TypeRoot.BIGINT)


def fitting(logical: LogicalType) -> Callable[[Any], Any]:
    """What makes the exact result of an addition a value of this type, or null.

    Raises:
        ValueError: It is not a numeric type.

    >>> from state.types import parse_type
    >>> fitting(parse_type("TINYINT"))(128), fitting(parse_type("FLOAT"))(0.1)
    (-128, 0.10000000149011612)
    """
    bits = INTEGER_BITS.get(logical.root)
    if bits is not None:
        return _wrapping(bits)
    if logical.root is TypeRoot.FLOAT:
        return lambda value: ctypes.c_float(value).value
    if logical.root is TypeRoot.DOUBLE:
        return lambda value: value
    if logical.root is TypeRoot.DECIMAL:
        return _within(logical)
    raise ValueError(f"{logical.root.name} is not a numeric type")


def zero(logical: LogicalType) -> Any:
    """Nothing, in this type."""
    if logical.root is TypeRoot.DECIMAL:
        return Decimal(0).scaleb(-(logical.scale or 0))
    return 0.0 if logical.root in FLOAT_ROOTS else 0


def adding(logical: LogicalType) -> Callable[[Any, Any], Any]:
    """Addition in this type."""
    fit = fitting(logical)
    if logical.root is TypeRoot.DECIMAL:
        return lambda one, other: fit(EXACT.add(one, other))
    if logical.root is TypeRoot.DOUBLE:
        return op.add
    return lambda one, other: fit(one + other)


def subtracting(logical: LogicalType) -> Callable[[Any, Any], Any]:
    """Subtraction in this type."""
    fit = fitting(logical)
    if logical.root is TypeRoot.DECIMAL:
        return lambda one, other: fit(EXACT.subtract(one, other))
    if logical.root is TypeRoot.DOUBLE:
        return op.sub
    return lambda one, other: fit(one - other)


def truncated(dividend: int, divisor: int) -> int:
    """A quotient without its fraction, as Java divides integers.

    >>> truncated(-7, 2), truncated(7, 2)
    (-3, 3)
    """
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def divided(dividend: Decimal, divisor: int, logical: LogicalType) -> Decimal | None:
    """A quotient of this type: 38 digits first, then the digits of the type, each half up."""
    quotient = DIVIDES.divide(dividend, Decimal(divisor))
    return rounded(quotient, logical)


def rounded(value: Decimal, logical: LogicalType) -> Decimal | None:
    """A decimal with the digits of its type, half up; null where it has too many."""
    scale = logical.scale or 0
    made = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
    within = _within(logical)(made)
    return None if within is None else made


def _wrapping(bits: int) -> Callable[[int], int]:
    half, whole = 1 << (bits - 1), 1 << bits

    def wrap(value: int) -> int:
        return value if -half <= value < half else (value + half) % whole - half

    return wrap


def _within(logical: LogicalType) -> Callable[[Decimal], Decimal | None]:
    limit = Decimal(10) ** ((logical.precision or 0) - (logical.scale or 0))
    return lambda value: value if -limit < value < limit else None
