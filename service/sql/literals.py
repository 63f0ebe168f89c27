"""Constants: numbers, texts, times and intervals as typed literals of a plan."""

from __future__ import annotations

import datetime
from base64 import b64encode
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from service.plan.rex import Literal
from service.sql import types
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.rex import literal
from state.types import INTERVAL_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan.rex import Rex
    from service.sql.errors import Position

_INT_MAX, _BIGINT_MAX = 2**31 - 1, 2**63 - 1
_UNIT_MS = {
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": 86_400_000,
    "WEEK": 7 * 86_400_000,
}
_UNIT_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


def number(text: str, position: Position) -> Literal:
    """A numeric literal: INT, BIGINT, DECIMAL or, with an exponent, DOUBLE.

    Raises:
        ValidationError: It has more digits than a DECIMAL.
    """
    if "e" in text.lower():
        return literal(text, types.DOUBLE.with_nullable(False))
    try:
        exact = Decimal(text)
    except InvalidOperation:
        raise ValidationError(f"{text!r} is not a number", position) from None
    if "." not in text and abs(exact) <= _BIGINT_MAX:
        kind = types.INT if abs(exact) <= _INT_MAX else types.BIGINT
        return literal(int(exact), kind.with_nullable(False))
    # Zeros count, as in Calcite's SqlLiteral.createExactNumeric.
    scale = len(text.partition(".")[2])
    precision = len(text.replace(".", ""))
    if precision > 38:
        raise ValidationError(f"a number of {precision} digits; 38 are allowed", position)
    return literal(text, types.decimal(precision, scale).with_nullable(False))


def text(value: str) -> Literal:
    """A text literal: CHAR of its length."""
    return literal(value, types.character(len(value)))


def binary(value: bytes) -> Literal:
    """A literal of bytes: BINARY of its length, as a plan writes it."""
    kind = LogicalType(TypeRoot.BINARY, nullable=False, length=len(value))
    return literal(b64encode(value).decode(), kind)


def interval(amount: str, unit: str, position: Position) -> Literal:
    """An interval of one unit, as INTERVAL '10' SECOND.

    Raises:
        UnsupportedSql: It spans several units.
        ValidationError: The amount is no number.
    """
    name = unit.upper().removesuffix("S")
    try:
        count = Decimal(amount)
    except InvalidOperation:
        raise UnsupportedSql(
            f"intervals such as {amount!r} {unit} are not supported", position, hint="one unit only"
        ) from None
    if name in _UNIT_MS:
        resolution = "DAY" if name == "WEEK" else name
        kind = LogicalType(
            TypeRoot.INTERVAL_DAY_TIME, nullable=False, precision=2, scale=6, resolution=resolution
        )
        return literal(str(int(count * _UNIT_MS[name])), kind)
    if name in _UNIT_MONTHS:
        resolution = "YEAR" if name == "YEAR" else "MONTH"
        kind = LogicalType(
            TypeRoot.INTERVAL_YEAR_MONTH, nullable=False, precision=2, resolution=resolution
        )
        return literal(str(int(count * _UNIT_MONTHS[name])), kind)
    raise ValidationError(f"unknown unit of time {unit}", position)


def interval_ms(value: Literal) -> int:
    """The milliseconds of a day-time interval."""
    return int(str(value.value))


def window_interval_ms(value: Rex, position: Position) -> int:
    """The milliseconds of an interval that a window is cut by, or moved by.

    Raises:
        ValidationError: It is no constant, or counts months.
    """
    if not isinstance(value, Literal) or value.type.root not in INTERVAL_ROOTS:
        raise ValidationError("a window's length must be a constant interval", position)
    if value.type.root is not TypeRoot.INTERVAL_DAY_TIME:
        raise ValidationError(
            "a window's length must be in seconds, minutes, hours or days: months differ",
            position,
        )
    return interval_ms(value)


def window_length_ms(value: Rex, position: Position) -> int:
    """The milliseconds of a window's length, step or gap.

    Raises:
        ValidationError: It is no constant above 0, or counts months.
    """
    length = window_interval_ms(value, position)
    if length <= 0:
        raise ValidationError("a window's length must be above 0", position)
    return length


def time_constant(value: str, target: LogicalType, position: Position) -> Literal | None:
    """DATE '..', TIME '..' or TIMESTAMP '..'; None if the type is none of these.

    Raises:
        ValidationError: The text is no such time.
    """
    made = target.with_nullable(False)
    try:
        match target.root:
            case TypeRoot.DATE:
                return literal(datetime.date.fromisoformat(value).isoformat(), made)
            case TypeRoot.TIME:
                datetime.time.fromisoformat(value)
                return literal(value, made)
            case TypeRoot.TIMESTAMP:
                datetime.datetime.fromisoformat(value)
                return literal(value.replace("T", " "), made)
            case _:
                return None
    except ValueError:
        raise ValidationError(f"{value!r} is not a {target.root.name}", position) from None


def rounding_digits(operands: Sequence[Rex]) -> int | None:
    """The digits to which a number is rounded: 0 if nothing says it, None if no constant does."""
    if not operands:
        return 0
    (digits,) = operands
    value = digits.value if isinstance(digits, Literal) else None
    return value if isinstance(value, int) else None
