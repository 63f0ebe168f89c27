"""Values from outside: parsed JSON to Python values, strictly by type.

This is the only door for data of users. What it takes, beside the canonical forms:

    integers        an integer, or one as a string; never a fraction, never a boolean
    FLOAT, DOUBLE   any number, or one as a string, or "NaN" "Infinity" "-Infinity"
    DECIMAL         any number, or one as a string; more digits than the scale are rounded half up
    BOOLEAN         true or false, or these words as a string
    CHAR, VARCHAR   a string of any length (Flink's length enforcer ignores it by default, too);
                    of a line of a table any other value, too: its text as JSON, without blanks
    BINARY          standard base64 with its padding
    DATE            2020-01-31
    TIME            10:00, 10:00:00, 10:00:00.123456789: digits beyond the precision are cut
    TIMESTAMP       a date, T or a blank, a time; TIMESTAMP_LTZ: then Z, or an offset such as +02:00
    ARRAY           an array
    MAP, MULTISET   an object, or an array of [key, value]
    ROW             an object, whose other fields are ignored, or an array of all fields

A missing field is null, and null in a NOT NULL place is refused, as is any number out of range.
Errors say the column, the type and the kind of value found, never the value.

Source: Flink `JsonToRowDataConverters`, which is more lenient: it also cuts fractions off integers,
wraps what overflows, and writes doubles within objects anew (`1.10` as `1.1`).
"""

from __future__ import annotations

import binascii
import datetime as dt
import decimal
import math
import re
from typing import Any

import orjson

from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    MAP_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    format_type,
)
from state.values import (
    EXACT,
    CodecError,
    Convert,
    canonical_encoder,
    kind_of,
    map_children,
    to_float32,
)

_DOUBLE_DIGITS = 15
"""A decimal with so many digits survives being read as a double; one more may not."""
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,40}\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,9})?\s*", re.ASCII)
_TIME_PATTERN = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(_TIME_PATTERN, re.ASCII)
_TIMESTAMP = re.compile(rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_TIME_PATTERN}", re.ASCII)
_OFFSET = re.compile(
    r"(?:Z|([+-])(0[0-9]|1[0-8])(?::?([0-5][0-9])(?::?([0-5][0-9]))?)?)\Z", re.ASCII
)
"""Z, or what a local time is ahead of UTC."""
_SPECIAL = {
    "NaN": math.nan,
    "Infinity": math.inf,
    "+Infinity": math.inf,
    "-Infinity": -math.inf,
}
_OUT_OF_RANGE = "a number out of range"
_OTHER_STRING = "a string of another form"
_DATE_FORM = "DATE such as 2020-01-31"


class InexactNumber(CodecError):
    """A double stands where its digits count: parse the text again, with `NumberText`."""


class NumberText(decimal.Decimal):
    """A number that is no integer, with the text that it has in JSON."""

    text: str

    def __new__(cls, text: str) -> NumberText:
        """Keep a number's text."""
        number = super().__new__(cls, text)
        number.text = text
        return number


def json_decoder(logical: LogicalType, *, exact: bool = False) -> Convert:
    """From a parsed JSON value, or None, to the Python value of this type.

    Args:
        logical: The type; null is refused if it is NOT NULL.
        exact: Read a line of a table. A CHAR or VARCHAR takes any value; and `InexactNumber` is
            raised where a double stands for a DECIMAL, in place of taking it if it has few enough
            digits, or in such a text.
    """
    convert = _present(logical, exact=exact)
    if logical.nullable:
        return lambda value: None if value is None else convert(value)
    name = format_type(logical)

    def decode(value: object) -> Any:
        if value is None:
            raise CodecError(None, name, "null")
        return convert(value)

    return decode


def _present(logical: LogicalType, *, exact: bool) -> Convert:
    root = logical.root
    if root in INTEGER_BITS:
        return _integer(logical)
    if root in STRING_ROOTS:
        return _text if exact else _string
    if root in BINARY_ROOTS:
        return _binary
    if root in TIMESTAMP_ROOTS:
        return _timestamp(logical)
    if root in MAP_ROOTS:
        return _map(logical, exact=exact)
    match root:
        case TypeRoot.BOOLEAN:
            return _boolean
        case TypeRoot.FLOAT:
            return _float
        case TypeRoot.DOUBLE:
            return _double
        case TypeRoot.DECIMAL:
            return _decimal(logical, exact=exact)
        case TypeRoot.DATE:
            return _date
        case TypeRoot.TIME:
            return _time(logical)
        case TypeRoot.ARRAY:
            return _array(json_decoder(logical.children[0], exact=exact))
        case _:
            return _row(logical, exact=exact)


def _boolean(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("true", "false"):
            return word == "true"
        raise CodecError(None, "BOOLEAN", _OTHER_STRING)
    raise CodecError(None, "BOOLEAN", kind_of(value))


def _integer(logical: LogicalType) -> Convert:
    most = (1 << (INTEGER_BITS[logical.root] - 1)) - 1
    name = _name(logical)

    def decode(value: object) -> int:
        if type(value) is str:
            if not _INTEGER.fullmatch(value):
                raise CodecError(None, name, _OTHER_STRING)
            value = int(value)
        if type(value) is not int:
            raise CodecError(None, name, kind_of(value))
        if not -most - 1 <= value <= most:
            raise CodecError(None, name, _OUT_OF_RANGE)
        return value

    return decode


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise CodecError(None, "STRING", kind_of(value))
    return value


def _text(value: object) -> str:
    """A string, or the text of another value: a line may hold JSON that is not looked into."""
    if isinstance(value, str):
        return value
    try:
        return _json_text(value)
    except RecursionError:
        raise CodecError(None, "STRING", f"{kind_of(value)} nested too deep") from None


def _json_text(value: object) -> str:
    if isinstance(value, float):
        raise InexactNumber(None, "STRING", kind_of(value))
    if isinstance(value, NumberText):
        return value.text
    if isinstance(value, list):
        return f"[{','.join(map(_json_text, value))}]"
    if isinstance(value, dict):
        members = (f"{_json_text(name)}:{_json_text(each)}" for name, each in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, int) and not isinstance(value, bool):
        # Also one of more than 64 bits, which orjson does not write.
        return str(value)
    return orjson.dumps(value).decode()


def _binary(value: object) -> bytes:
    if not isinstance(value, str):
        raise CodecError(None, "BYTES as base64", kind_of(value))
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        raise CodecError(None, "BYTES as base64", "a string that is not base64") from None


def _number(value: object, name: str) -> float:
    if isinstance(value, str):
        special = _SPECIAL.get(value.strip())
        if special is not None:
            return special
        if not _NUMBER.fullmatch(value):
            raise CodecError(None, name, _OTHER_STRING)
    elif isinstance(value, bool) or not isinstance(value, int | float | decimal.Decimal):
        raise CodecError(None, name, kind_of(value))
    try:
        number = float(value)
    except OverflowError:
        raise CodecError(None, name, _OUT_OF_RANGE) from None
    if math.isinf(number) and not isinstance(value, float):
        raise CodecError(None, name, _OUT_OF_RANGE)
    return number


def _double(value: object) -> float:
    return _number(value, "DOUBLE")


def _float(value: object) -> float:
    try:
        return to_float32(_number(value, "FLOAT"))
    except OverflowError:
        raise CodecError(None, "FLOAT", _OUT_OF_RANGE) from None


def _decimal(logical: LogicalType, *, exact: bool) -> Convert:
    name = _name(logical)
    scale, digits = logical.scale or 0, (logical.precision or 0) - (logical.scale or 0)
    quantum = decimal.Decimal(1).scaleb(-scale)

    def decode(value: object) -> decimal.Decimal:
        number = _to_decimal(value, name, exact=exact)
        # Looked at before rounding, which would write out all the zeros of 1E+999999999.
        if number and number.adjusted() >= digits:
            raise CodecError(None, name, _OUT_OF_RANGE)
        rounded = number.quantize(quantum, decimal.ROUND_HALF_UP, EXACT)
        if rounded.adjusted() >= digits and rounded:
            raise CodecError(None, name, _OUT_OF_RANGE)
        return rounded or rounded.copy_abs()

    return decode


def _to_decimal(value: object, name: str, *, exact: bool) -> decimal.Decimal:
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value):
            raise CodecError(None, name, _OTHER_STRING)
        return decimal.Decimal(value.strip())
    if isinstance(value, float):
        if exact:
            raise InexactNumber(None, name, kind_of(value))
        return _decimal_of_double(value, name)
    if isinstance(value, bool) or not isinstance(value, int | decimal.Decimal):
        raise CodecError(None, name, kind_of(value))
    number = decimal.Decimal(value)
    if not number.is_finite():
        raise CodecError(None, name, _OUT_OF_RANGE)
    return number


def _decimal_of_double(value: float, name: str) -> decimal.Decimal:
    if not math.isfinite(value):
        raise CodecError(None, name, _OUT_OF_RANGE)
    number = decimal.Decimal(repr(value))
    if len(number.normalize(EXACT).as_tuple().digits) > _DOUBLE_DIGITS:
        raise CodecError(None, name, "a number with too many digits; write it as a string")
    return number


def _date(value: object) -> dt.date:
    if not isinstance(value, str):
        raise CodecError(None, _DATE_FORM, kind_of(value))
    if _DATE.fullmatch(value):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            raise CodecError(None, _DATE_FORM, "a date that does not exist") from None
    raise CodecError(None, _DATE_FORM, _OTHER_STRING)


def _time(logical: LogicalType) -> Convert:
    name = f"{_name(logical)} such as 10:00:00"
    unit = 10 ** (6 - (logical.precision or 0))

    def decode(value: object) -> dt.time:
        if not isinstance(value, str):
            raise CodecError(None, name, kind_of(value))
        if not _TIME.fullmatch(value):
            raise CodecError(None, name, _OTHER_STRING)
        time = dt.time.fromisoformat(value)
        return time.replace(microsecond=time.microsecond // unit * unit)

    return decode


def _timestamp(logical: LogicalType) -> Convert:
    unit = 10 ** (6 - (logical.precision or 0))
    zoned = logical.root is TypeRoot.TIMESTAMP_LTZ
    name = f"{_name(logical)} such as 2020-01-31{'T10:00:00Z' if zoned else ' 10:00:00'}"

    def decode(value: object) -> dt.datetime:
        if not isinstance(value, str):
            raise CodecError(None, name, kind_of(value))
        offset = _OFFSET.search(value) if zoned else None
        text = value if offset is None else value[: offset.start()]
        if not _TIMESTAMP.fullmatch(text) or (zoned and offset is None):
            raise CodecError(None, name, _OTHER_STRING)
        try:
            time = dt.datetime.fromisoformat(text)
        except ValueError:
            raise CodecError(None, name, "a date that does not exist") from None
        if offset is not None and offset[1]:
            try:
                time -= _offset(offset)
            except OverflowError:
                raise CodecError(None, name, "a time outside of the years 1 to 9999") from None
        time = time.replace(microsecond=time.microsecond // unit * unit)
        return time.replace(tzinfo=dt.UTC) if zoned else time

    return decode


def _offset(found: re.Match[str]) -> dt.timedelta:
    sign, hours, minutes, seconds = found.groups(default="0")
    size = dt.timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds))
    return -size if sign == "-" else size


def _array(element: Convert) -> Convert:
    def decode(value: object) -> list[Any]:
        if not isinstance(value, list):
            raise CodecError(None, "ARRAY", kind_of(value))
        return [element(each) for each in value]

    return decode


def _map(logical: LogicalType, *, exact: bool) -> Convert:
    name = _name(logical)
    key_type, value_type = map_children(logical)
    # A null key has no place in Arrow or Spark, whatever the type says.
    key = json_decoder(key_type.with_nullable(nullable=False), exact=exact)
    entry = json_decoder(value_type, exact=exact)
    canonical = canonical_encoder(key_type)

    def decode(value: object) -> list[tuple[Any, Any]]:
        found: dict[bytes, tuple[Any, Any]] = {}
        if not isinstance(value, dict | list):
            raise CodecError(None, name, kind_of(value))
        pairs = value.items() if isinstance(value, dict) else value
        for pair in pairs:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise CodecError(None, name, "an array of other things than pairs")
            decoded = key(pair[0])
            found[orjson.dumps(canonical(decoded))] = (decoded, entry(pair[1]))
        if len(found) != len(value):
            raise CodecError(None, name, "one key twice")
        return [found[each] for each in sorted(found)]

    return decode


def _row(logical: LogicalType, *, exact: bool) -> Convert:
    names = logical.field_names
    fields = [json_decoder(each, exact=exact) for each in logical.children]

    def decode(value: object) -> tuple[Any, ...]:
        if isinstance(value, dict):
            return tuple(f(value.get(n)) for n, f in zip(names, fields, strict=True))
        if not isinstance(value, list):
            raise CodecError(None, "ROW", kind_of(value))
        if len(value) != len(fields):
            raise CodecError(None, f"ROW of {len(fields)} fields", f"{len(value)} fields")
        return tuple(field(each) for field, each in zip(fields, value, strict=True))

    return decode


def _name(logical: LogicalType) -> str:
    return format_type(logical.with_nullable(nullable=True))
