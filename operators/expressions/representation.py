"""Values inside an expression, and the values of rows: the same but for times.

    type                        in a row (`state.types`)    inside an expression
    DATE                        datetime.date               int, days since 1970
    TIME                        datetime.time               int, ms of the day
    TIMESTAMP, TIMESTAMP_LTZ    datetime.datetime           int, microseconds since 1970
    INTERVAL DAY-TIME           -                           int, ms
    INTERVAL YEAR-MONTH         -                           int, months
    others                      the same                    the same

Whole numbers have no last year, so a sum may pass through the year 10000 and come back. Elements of
arrays, maps and rows keep the form that they have in a row until they are taken out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from operators.expressions.errors import EvaluationFailed
from operators.expressions.operand_rules import NO_MAP
from state.types import INTERVAL_ROOTS, LogicalType, TypeRoot, arrow_type

# A row's values are of every type that a column may have.
Row: TypeAlias = Sequence[Any]
Run: TypeAlias = Callable[[Row], Any]
"""What an expression becomes: its value for a row, None for NULL."""
Pairs: TypeAlias = list[tuple[Any, Any]]
"""A map."""
Convert: TypeAlias = Callable[[Any], Any]
"""From a value that is not NULL to another one."""

_FIRST_DAY = dt.date(1970, 1, 1).toordinal()
_FIRST = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - TIMESTAMP has no zone
_FIRST_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_OUT_OF_RANGE = "a time outside of the years 1 to 9999 cannot be in a row"


def check_type(logical: LogicalType) -> None:
    """Refuse a type whose values no column can have; intervals may be inside an expression.

    Raises:
        UnsupportedType: it is one.
    """
    if logical.root not in INTERVAL_ROOTS and logical.root is not TypeRoot.NULL:
        arrow_type(logical)


def to_inside(logical: LogicalType) -> Convert | None:
    """From a row's value to the one that expressions compute with; None where it is the same."""
    return _INSIDE.get(logical.root)


def to_row(logical: LogicalType) -> Convert | None:
    """The other direction; it may raise `EvaluationFailed`, for a year that rows cannot hold."""
    return _OUTSIDE.get(logical.root)


def pairs_of(names: Sequence[Any], found: Sequence[Any]) -> Pairs:
    """The map of these keys and values.

    Raises:
        EvaluationFailed: It is none.
    """
    if len(names) != len(found) or None in names or len(set(names)) != len(names):
        raise EvaluationFailed(NO_MAP)
    return list(zip(names, found, strict=True))


def _days(value: dt.date) -> int:
    return value.toordinal() - _FIRST_DAY


def _date(days: int) -> dt.date:
    try:
        return dt.date.fromordinal(days + _FIRST_DAY)
    except (ValueError, OverflowError):
        raise EvaluationFailed(_OUT_OF_RANGE) from None


def _clock_millis(value: dt.time) -> int:
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def _clock(millis: int) -> dt.time:
    seconds, rest = divmod(millis, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return dt.time(hour, minute, second, rest * 1000)


def _micros(value: dt.datetime) -> int:
    since = value - _FIRST
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _micros_utc(value: dt.datetime) -> int:
    since = value - _FIRST_UTC
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _timestamp(micros: int) -> dt.datetime:
    try:
        return _FIRST + dt.timedelta(microseconds=micros)
    except OverflowError:
        raise EvaluationFailed(_OUT_OF_RANGE) from None


def _timestamp_utc(micros: int) -> dt.datetime:
    try:
        return _FIRST_UTC + dt.timedelta(microseconds=micros)
    except OverflowError:
        raise EvaluationFailed(_OUT_OF_RANGE) from None


_INSIDE: dict[TypeRoot, Convert] = {
    TypeRoot.DATE: _days,
    TypeRoot.TIME: _clock_millis,
    TypeRoot.TIMESTAMP: _micros,
    TypeRoot.TIMESTAMP_LTZ: _micros_utc,
}
_OUTSIDE: dict[TypeRoot, Convert] = {
    TypeRoot.DATE: _date,
    TypeRoot.TIME: _clock,
    TypeRoot.TIMESTAMP: _timestamp,
    TypeRoot.TIMESTAMP_LTZ: _timestamp_utc,
}
