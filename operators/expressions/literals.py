"""Literals of a plan: the Python value that expressions compute with.

    type                    in the plan                          Python value
    BOOLEAN                 true                                 bool
    integers                5                                    int
    DECIMAL                 "1.50"                               decimal.Decimal
    FLOAT DOUBLE            "0.5"                                float
    CHAR VARCHAR            "text"                               str
    BINARY VARBINARY        "Cv8=" (base64)                      bytes
    DATE                    "2020-02-29"                         int, days since 1970
    TIME                    "12:30:15.123"                       int, ms of the day
    TIMESTAMP, _LTZ         "2020-02-29 13:14:15.123" (UTC)      int, microseconds since 1970
    INTERVAL DAY-TIME       "86400000"                           int, ms
    INTERVAL YEAR-MONTH     "14"                                 int, months
    SYMBOL                  "YEAR"                               str

Times are whole numbers here, unlike in rows (`state.types`).

Source: Flink `RexNodeJsonSerializer` (2.3).
"""

from __future__ import annotations

import base64
import datetime
import math
import re
import struct
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from operators.expressions.decimals import EXACT
from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    LogicalType,
    TypeRoot,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?")
_TIMESTAMP = re.compile(rf"{_DATE.pattern}[ T]{_TIME.pattern}Z?")
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_NUMBER_LENGTH_MAX = 1_000
"""Characters of a number: the time to read one grows with the square of its digits."""
_BITS = {**INTEGER_BITS, TypeRoot.INTERVAL_DAY_TIME: 64, TypeRoot.INTERVAL_YEAR_MONTH: 32}
"""Of what is written as a whole number."""
_MICROS_PER_SECOND = 1_000_000


class LiteralError(ValueError):
    """The value is not one of the type; the message says what was expected."""


def literal_value(value: object, logical: LogicalType) -> object:
    """The Python value of what the plan writes for a literal (table at the top of the module).

    Raises:
        LiteralError: it is none of this type, or has more digits than a column can hold. However
            large the number that a short text means, saying so takes no more time than reading it.
    """
    if value is None:
        return None
    read = _READERS.get(logical.root)
    if read is None:
        raise LiteralError(f"no literal of type {logical.root.name} is known")
    return read(value, logical)


def _boolean(value: object, _: LogicalType) -> bool:
    if not isinstance(value, bool):
        raise LiteralError("expected true or false")
    return value


def _integer(value: object, logical: LogicalType) -> int:
    number = _whole(value)
    half = 1 << (_BITS[logical.root] - 1)
    if not -half <= number < half:
        raise LiteralError(f"out of the range of {logical.root.name}")
    return number


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise LiteralError("expected a whole number of at most 19 digits")


def _number_text(value: object) -> str:
    text = str(value)
    if len(text) > _NUMBER_LENGTH_MAX:
        raise LiteralError(f"expected a number of at most {_NUMBER_LENGTH_MAX} characters")
    return text


def _decimal(value: object, logical: LogicalType) -> Decimal:
    """Digits beyond the scale are rounded, as Flink's `DecimalData.fromBigDecimal` does."""
    try:
        number = Decimal(_number_text(value))
    except InvalidOperation as error:
        raise LiteralError("expected a decimal number") from error
    precision, scale = logical.precision or 0, logical.scale or 0
    if not number.is_finite():
        raise LiteralError("expected a decimal number")
    # Compared before any zero is written: an exponent may stand for more of them than fit memory.
    if not number or number.adjusted() < precision - scale:
        rounded = number.quantize(Decimal(1).scaleb(-scale), context=EXACT)
        if not rounded or rounded.adjusted() < precision - scale:
            return rounded
    raise LiteralError(f"expected at most {precision - scale} digits before the point")


def _double(value: object, logical: LogicalType) -> float:
    try:
        number = float(_number_text(value))
        if logical.root is TypeRoot.FLOAT:
            number = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        number = math.inf
    except LiteralError:
        raise
    except ValueError as error:
        raise LiteralError("expected a number") from error
    if math.isinf(number):
        raise LiteralError(f"out of the range of {logical.root.name}")
    return number


def _text(value: object, _: LogicalType) -> str:
    if not isinstance(value, str):
        raise LiteralError("expected a string")
    return value


def _binary(value: object, _: LogicalType) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except ValueError as error:
        raise LiteralError("expected base64") from error


def _matched(pattern: re.Pattern[str], value: object, form: str) -> tuple[str | Any, ...]:
    found = pattern.fullmatch(str(value))
    if found is None:
        raise LiteralError(f"expected {form}")
    return found.groups()


def _days(year: str, month: str, day: str) -> int:
    try:
        return datetime.date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError as error:
        raise LiteralError("expected a date of the years 1 to 9999") from error


def _seconds(hour: str, minute: str, second: str) -> int:
    return int(hour) * 3600 + int(minute) * 60 + int(second)


def _fraction(digits: str | None, most: int) -> int:
    """The fraction of a second in units of 10 to the power of -`most`."""
    padded = (digits or "").ljust(most, "0")
    if padded[most:].strip("0"):
        raise LiteralError(f"expected at most {most} digits of the second")
    return int(padded[:most])


def _date(value: object, _: LogicalType) -> int:
    return _days(*_matched(_DATE, value, "YYYY-MM-DD"))


def _time(value: object, _: LogicalType) -> int:
    *clock, digits = _matched(_TIME, value, "HH:MM:SS")
    return _seconds(*clock) * 1000 + _fraction(digits, 3)


def _timestamp(value: object, _: LogicalType) -> int:
    year, month, day, *clock, digits = _matched(_TIMESTAMP, value, "YYYY-MM-DD HH:MM:SS")
    seconds = _days(year, month, day) * 86_400 + _seconds(*clock)
    return seconds * _MICROS_PER_SECOND + _fraction(digits, 6)


_READERS: Mapping[TypeRoot, Callable[[object, LogicalType], object]] = {
    TypeRoot.BOOLEAN: _boolean,
    TypeRoot.DECIMAL: _decimal,
    TypeRoot.FLOAT: _double,
    TypeRoot.DOUBLE: _double,
    TypeRoot.DATE: _date,
    TypeRoot.TIME: _time,
    TypeRoot.TIMESTAMP: _timestamp,
    TypeRoot.TIMESTAMP_LTZ: _timestamp,
    TypeRoot.SYMBOL: _text,
    **dict.fromkeys(_BITS, _integer),
    **dict.fromkeys(STRING_ROOTS, _text),
    **dict.fromkeys(BINARY_ROOTS, _binary),
}
