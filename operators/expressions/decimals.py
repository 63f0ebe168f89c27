"""DECIMAL: exact arithmetic, then the declared scale HALF_UP, and NULL on overflow.

Source: Flink `DecimalDataUtils` (2.3): a quotient and a rest are computed with 38 digits first.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from typing import TYPE_CHECKING

from operators.expressions.errors import EvaluationFailed
from operators.expressions.integers import DIVISION_BY_ZERO, wrapper
from state.types import DECIMAL_PRECISION_MAX, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

EXACT = decimal.Context(
    prec=200, rounding=decimal.ROUND_HALF_UP, Emax=999_999_999, Emin=-999_999_999, traps=[]
)
"""Room for the product and the shifted sum of two numbers of 38 digits."""
_QUOTIENT = decimal.Context(
    prec=DECIMAL_PRECISION_MAX,
    rounding=decimal.ROUND_HALF_UP,
    Emax=999_999,
    Emin=-999_999,
    traps=[],
)
_WHOLE_QUOTIENT = decimal.Context(
    prec=DECIMAL_PRECISION_MAX, rounding=decimal.ROUND_DOWN, Emax=999_999, Emin=-999_999, traps=[]
)
_WRAP_LONG = wrapper(64)
COMPACT_PRECISION_MAX = 18
"""Digits up to which Flink keeps a DECIMAL as one BIGINT."""


def fitted(logical: LogicalType) -> Callable[[Decimal | int], Decimal | None]:
    """To the type's scale, HALF_UP; None where its digits are not enough."""
    precision, scale = logical.precision or 0, logical.scale or 0
    quantum = Decimal((0, (1,), -scale))
    zero = Decimal((0, (0,), -scale))
    limit = Decimal((0, (1,), precision - scale))
    whole_max = precision - scale
    quantize = EXACT.quantize

    def fit(number: Decimal | int) -> Decimal | None:
        if isinstance(number, int):
            number = Decimal(number)
        if not number or number.adjusted() < -scale - 1:
            return zero
        if number.adjusted() >= whole_max:
            return None
        found = quantize(number, quantum)
        if not found:
            return zero
        return None if abs_exact(found) >= limit else found

    return fit


def abs_exact(number: Decimal) -> Decimal:
    """Without sign, and without rounding."""
    return number.copy_abs()


def add(a: Decimal | int, b: Decimal | int) -> Decimal:
    """The sum."""
    return EXACT.add(a, b)


def subtract(a: Decimal | int, b: Decimal | int) -> Decimal:
    """The difference."""
    return EXACT.subtract(a, b)


def multiply(a: Decimal | int, b: Decimal | int) -> Decimal:
    """The product."""
    return EXACT.multiply(a, b)


def divide(a: Decimal | int, b: Decimal | int) -> Decimal:
    """The quotient to 38 digits, HALF_UP."""
    if not b:
        raise EvaluationFailed(DIVISION_BY_ZERO)
    return _QUOTIENT.divide(a, b)


def remainder(a: Decimal | int, b: Decimal | int) -> Decimal:
    """The rest of the division, with the sign of `a`; the quotient has 38 digits at most.

    Zeros at the end of the quotient are no digits: 1 % 1E-38 is 0.
    """
    if not b:
        raise EvaluationFailed(DIVISION_BY_ZERO)
    found = EXACT.remainder(a, b)
    whole = EXACT.divide_int(a, b)
    if whole.adjusted() >= DECIMAL_PRECISION_MAX and _WHOLE_QUOTIENT.plus(whole) != whole:
        raise EvaluationFailed("a quotient has more than 38 digits")
    return found


OPERATIONS: dict[str, Callable[[Decimal | int, Decimal | int], Decimal]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
}


def whole_part(number: Decimal) -> int:
    """Without its fraction, and of that the low 64 bits."""
    return _WRAP_LONG(int(number))


def as_double(logical: LogicalType) -> Callable[[Decimal], float]:
    """From a DECIMAL of the type to a DOUBLE, which Flink rounds twice up to 18 digits.

    Such a number is a BIGINT of its digits, which is divided by a power of ten.
    """
    if (logical.precision or 0) > COMPACT_PRECISION_MAX:
        return float
    scale = logical.scale or 0
    power = 10.0**scale
    return lambda number: int(number.scaleb(scale, EXACT)) / power


def decimal_type(precision: int, scale: int) -> LogicalType:
    """DECIMAL(precision, scale)."""
    return LogicalType(TypeRoot.DECIMAL, precision=precision, scale=scale)


def negated(number: Decimal) -> Decimal:
    """The opposite; zero has no sign."""
    return number.copy_negate() if number else number
