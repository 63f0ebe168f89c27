"""Literals of a plan: their Python value, and the column that holds it.

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

A literal travels to Spark as a typed value, never as SQL text.

Source: Flink `RexNodeJsonSerializer` (2.3).
"""

from __future__ import annotations

import base64
import binascii
import datetime
import re
import struct
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from pyspark.sql.connect import functions as sf

from service.runtime.expressions.site import Column, null_of
from service.runtime.expressions.spark_types import inner_type
from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")
_TIME = re.compile(r"(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?")
_TIMESTAMP = re.compile(rf"{_DATE.pattern}[ T]{_TIME.pattern}Z?")
_WHOLE = re.compile(r"-?\d+")
_INTERVALS = (TypeRoot.INTERVAL_DAY_TIME, TypeRoot.INTERVAL_YEAR_MONTH)
MICROS_PER_SECOND = 1_000_000


class LiteralError(ValueError):
    """The value is not one of the type; the message says what was expected."""


def literal_value(value: object, logical: LogicalType) -> object:
    """The Python value of what the plan writes for a literal (table at the top of the module).

    Raises:
        LiteralError: it is none of this type, or has more digits than Spark can hold.
    """
    if value is None:
        return None
    read = _READERS.get(logical.root)
    if read is None:
        raise LiteralError(f"no literal of type {logical.root.name} is known")
    return read(value, logical)


def literal_column(value: object, logical: LogicalType) -> Column:
    """The column of a value that `literal_value` gave, of exactly the type's Spark type."""
    if value is None:
        return null_of(logical)
    target = inner_type(logical)
    if logical.root is TypeRoot.DATE:
        return sf.date_from_unix_date(sf.lit(value))
    if logical.root in TIMESTAMP_ROOTS:
        return sf.timestamp_micros(sf.lit(value)).cast(target)
    if isinstance(value, bytes):
        return sf.lit(bytearray(value))
    return sf.lit(value).cast(target)


def _boolean(value: object, _: LogicalType) -> bool:
    if not isinstance(value, bool):
        raise LiteralError("expected true or false")
    return value


def _integer(value: object, logical: LogicalType) -> int:
    number = _whole(value)
    half = 1 << (INTEGER_BITS[logical.root] - 1)
    if not -half <= number < half:
        raise LiteralError(f"out of the range of {logical.root.name}")
    return number


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise LiteralError("expected a whole number")


def _interval(value: object, _: LogicalType) -> int:
    return _whole(value)


def _decimal(value: object, logical: LogicalType) -> Decimal:
    try:
        number = Decimal(str(value))
    except InvalidOperation as error:
        raise LiteralError("expected a decimal number") from error
    scale = logical.scale or 0
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or -exponent > scale:
        raise LiteralError(f"expected at most {scale} digits after the point")
    digits = (*digits, *([0] * (exponent + scale)))
    if len("".join(map(str, digits)).lstrip("0")) > (logical.precision or 0):
        raise LiteralError(f"expected at most {logical.precision} digits")
    return Decimal((sign, digits, -scale))


def _double(value: object, logical: LogicalType) -> float:
    try:
        number = float(str(value))
    except ValueError as error:
        raise LiteralError("expected a number") from error
    if logical.root is TypeRoot.FLOAT:
        number = struct.unpack("f", struct.pack("f", number))[0]
    return number


def _text(value: object, _: LogicalType) -> str:
    if not isinstance(value, str):
        raise LiteralError("expected a string")
    return value


def _binary(value: object, _: LogicalType) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except binascii.Error as error:
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
    return seconds * MICROS_PER_SECOND + _fraction(digits, 6)


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
    **dict.fromkeys(INTEGER_BITS, _integer),
    **dict.fromkeys(STRING_ROOTS, _text),
    **dict.fromkeys(BINARY_ROOTS, _binary),
    **dict.fromkeys(_INTERVALS, _interval),
}
