"""Values as Debezium's connectors write them, as the JSON that a column of a table takes.

A number of microseconds, or bytes that are the digits of a decimal, do not say what they are. The
schema beside an event does, by a name for each field; without one the table says it.

    name                                            in JSON             column
    io.debezium.time.Date, ..connect.data.Date      days since 1970     DATE
    io.debezium.time.Time, ..connect.data.Time      ms of the day       TIME
    io.debezium.time.MicroTime, NanoTime            microseconds, ns    TIME
    io.debezium.time.ZonedTime                      10:00:00+02:00      TIME, in UTC
    io.debezium.time.Timestamp, ..connect.data..    ms since 1970       TIMESTAMP, TIMESTAMP_LTZ
    io.debezium.time.MicroTimestamp, NanoTimestamp  microseconds, ns    TIMESTAMP, TIMESTAMP_LTZ
    io.debezium.time.ZonedTimestamp                 a text              TIMESTAMP_LTZ
    org.apache.kafka.connect.data.Decimal           base64, big endian  a number or text
    io.debezium.data.VariableScaleDecimal           {scale, value}      a number or text

Digits beyond microseconds, and beyond a column's precision, are cut, before 1970 too. A column of
another type takes the value as it is.

Source: Debezium's "data types", "temporal types" (`time.precision.mode`) and "decimal types"
(`decimal.handling.mode`) of its connectors; Kafka Connect's `JsonConverter`.
"""

from __future__ import annotations

import binascii
import datetime as dt
import decimal
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from state.types import (
    FLOAT_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    format_type,
)
from state.values import EXACT, CodecError, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable

_DEBEZIUM, _CONNECT = "io.debezium.", "org.apache.kafka.connect.data."
_MICROS: Final = 1_000_000
_DAY: Final = 86_400 * _MICROS
_FIRST: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a TIMESTAMP has no zone
_NUMBERS: Final = frozenset({TypeRoot.DECIMAL, *FLOAT_ROOTS, *INTEGER_BITS, *STRING_ROOTS})
_DIGITS_MAX: Final = 1_000
"""Digits of a decimal; no database has more, and none of our types 39."""
_DAYS: Final = range(-719_162, 2_932_897)
"""The years 1 to 9999."""


@dataclass(frozen=True, slots=True)
class DebeziumType:
    """What a field is by its name: which columns it is for, and their JSON."""

    name: str
    roots: frozenset[TypeRoot]
    convert: Callable[[Any, LogicalType, int | None], Any]
    """Of a value, the column's type, and the scale that the schema says of a decimal."""

    def value(self, given: object, logical: LogicalType, scale: int | None = None) -> Any:
        """The JSON that a column takes for a value; NULL, and other columns' values, as they are.

        Raises:
            CodecError: It is no value of this kind, or out of the column's range.
        """
        if given is None or logical.root not in self.roots:
            return given
        return self.convert(given, logical, scale)

    def suits(self, logical: LogicalType) -> bool:
        """Whether a column of this type is one that it is for."""
        return logical.root in self.roots


def _bad(logical: LogicalType, found: str) -> CodecError:
    return CodecError(None, format_type(logical.with_nullable(True)), found)


def _whole(given: object, logical: LogicalType, what: str) -> int:
    if type(given) is not int:
        raise _bad(logical, f"{kind_of(given)} in place of {what}")
    return given


def _days(given: object, logical: LogicalType, _: int | None) -> str:
    days = _whole(given, logical, "days")
    if days not in _DAYS:
        raise _bad(logical, "days outside of the years 1 to 9999")
    return (_FIRST + dt.timedelta(days=days)).date().isoformat()


def _clock(per_unit: float, what: str) -> Callable[[Any, LogicalType, int | None], str]:
    def convert(given: object, logical: LogicalType, _: int | None) -> str:
        micros = _scaled(_whole(given, logical, what), per_unit)
        if not 0 <= micros < _DAY:
            raise _bad(logical, f"{what} outside of a day")
        return (_FIRST + dt.timedelta(microseconds=micros)).time().isoformat()

    return convert


def _instant(per_unit: float, what: str) -> Callable[[Any, LogicalType, int | None], str]:
    def convert(given: object, logical: LogicalType, _: int | None) -> str:
        micros = _scaled(_whole(given, logical, what), per_unit)
        if micros // _DAY not in _DAYS:
            raise _bad(logical, f"{what} outside of the years 1 to 9999")
        text = (_FIRST + dt.timedelta(microseconds=micros)).isoformat()
        return f"{text}Z" if logical.root is TypeRoot.TIMESTAMP_LTZ else text

    return convert


def _scaled(count: int, per_unit: float) -> int:
    """Microseconds of so many units; what is less than one is cut, towards the past."""
    return count * int(per_unit) if per_unit >= 1 else count // round(1 / per_unit)


_ZONED_TIME = re.compile(r"(\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:\d\d)", re.ASCII)


def _zoned_time(given: object, logical: LogicalType, _: int | None) -> str:
    found = _ZONED_TIME.fullmatch(given) if isinstance(given, str) else None
    try:
        clock = dt.time.fromisoformat(found[1]) if found else None
    except ValueError:
        clock = None
    if found is None or clock is None:
        raise _bad(logical, f"{kind_of(given)} in place of a time with its offset")
    sign = {"+": -1, "-": 1}.get(found[2][0], 0)
    offset = int(found[2][1:3]) * 60 + int(found[2][4:6]) if sign else 0
    moved = dt.datetime.combine(dt.date(2000, 1, 2), clock) + dt.timedelta(minutes=sign * offset)
    return moved.time().isoformat()


def _as_it_is(given: object, _: LogicalType, __: int | None) -> object:
    return given


def _decimal(given: object, logical: LogicalType, scale: int | None) -> str:
    """The digits of a number that is written as the bytes of a whole one."""
    if not isinstance(given, str):
        raise _bad(logical, f"{kind_of(given)} in place of the bytes of a decimal")
    try:
        data = binascii.a2b_base64(given, strict_mode=True)
    except ValueError:
        raise _bad(logical, "a string that is not base64 in place of a decimal") from None
    places = scale if scale is not None else logical.scale or 0
    if not data or len(data) > _DIGITS_MAX // 2 or abs(places) > _DIGITS_MAX:
        raise _bad(logical, "a decimal of no digits, or of too many")
    unscaled = int.from_bytes(data, "big", signed=True)
    number = decimal.Decimal(unscaled).scaleb(-places, EXACT)
    text = format(number, "f")
    if logical.root in INTEGER_BITS and "." in text:
        whole, _, fraction = text.partition(".")
        if fraction.strip("0"):
            raise _bad(logical, "a decimal with a fraction")
        return whole
    return text


def _variable_decimal(given: object, logical: LogicalType, _: int | None) -> str:
    if not isinstance(given, dict) or type(given.get("scale")) is not int:
        raise _bad(logical, f"{kind_of(given)} in place of scale and value of a decimal")
    return _decimal(given.get("value"), logical, given["scale"])


_DATE = frozenset({TypeRoot.DATE})
_TIME = frozenset({TypeRoot.TIME})
_LTZ = frozenset({TypeRoot.TIMESTAMP_LTZ})
_STAMPS = frozenset(TIMESTAMP_ROOTS)
TYPES: Final = {
    each.name: each
    for each in (
        DebeziumType(f"{_DEBEZIUM}time.Date", _DATE, _days),
        DebeziumType(f"{_DEBEZIUM}time.Time", _TIME, _clock(1_000, "milliseconds")),
        DebeziumType(f"{_DEBEZIUM}time.MicroTime", _TIME, _clock(1, "microseconds")),
        DebeziumType(f"{_DEBEZIUM}time.NanoTime", _TIME, _clock(1e-3, "nanoseconds")),
        DebeziumType(f"{_DEBEZIUM}time.ZonedTime", _TIME, _zoned_time),
        DebeziumType(f"{_DEBEZIUM}time.Timestamp", _STAMPS, _instant(1_000, "milliseconds")),
        DebeziumType(f"{_DEBEZIUM}time.MicroTimestamp", _STAMPS, _instant(1, "microseconds")),
        DebeziumType(f"{_DEBEZIUM}time.NanoTimestamp", _STAMPS, _instant(1e-3, "nanoseconds")),
        DebeziumType(f"{_DEBEZIUM}time.ZonedTimestamp", _LTZ, _as_it_is),
        DebeziumType(f"{_DEBEZIUM}data.VariableScaleDecimal", _NUMBERS, _variable_decimal),
        DebeziumType(f"{_CONNECT}Date", _DATE, _days),
        DebeziumType(f"{_CONNECT}Time", _TIME, _clock(1_000, "milliseconds")),
        DebeziumType(f"{_CONNECT}Timestamp", _STAMPS, _instant(1_000, "milliseconds")),
        DebeziumType(f"{_CONNECT}Decimal", _NUMBERS, _decimal),
    )
}
"""By the name that a schema gives a field."""
BY_SHORT_NAME: Final = {
    **{name.rpartition(".")[2]: each for name, each in TYPES.items() if _CONNECT in name},
    **{name.rpartition(".")[2]: each for name, each in TYPES.items() if _DEBEZIUM in name},
}
"""The same by what a table says. Date, Time and Timestamp are one in both families."""
_NAMED = re.compile(
    b"|".join(rb'"' + re.escape(name).encode() + rb'"' for name in TYPES if "Zoned" not in name)
)


def may_name_types(block: bytes) -> bool:
    """Whether lines may have a schema that names one of these types, whose values need it."""
    return _NAMED.search(block) is not None


def named_types(schema: object, member: str) -> dict[str, tuple[DebeziumType, int | None]]:
    """The types that the schema of an event names for the fields of `before` or `after`.

    With the scale of each, of a decimal.
    """
    image = next((each for each in _fields(schema) if each.get("field") == member), {})
    found: dict[str, tuple[DebeziumType, int | None]] = {}
    for each in _fields(image):
        name, field = each.get("name"), each.get("field")
        known = TYPES.get(name) if isinstance(name, str) else None
        if known is not None and isinstance(field, str):
            found[field] = known, _scale(each)
    return found


def _fields(schema: object) -> list[dict[str, Any]]:
    fields = schema.get("fields") if isinstance(schema, dict) else None
    return [each for each in fields if isinstance(each, dict)] if isinstance(fields, list) else []


def _scale(field: dict[str, Any]) -> int | None:
    parameters = field.get("parameters")
    text = parameters.get("scale") if isinstance(parameters, dict) else None
    is_number = isinstance(text, str) and re.fullmatch(r"-?\d{1,4}", text, re.ASCII)
    return int(text) if is_number and isinstance(text, str) else None
