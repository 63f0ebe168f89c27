"""Canonical and shown JSON of single values, one function per type, chosen once per column.

A *canonical* value is the JSON that state holds: exact, and one form for each value, so that equal
values have equal bytes. A *shown* value is what sinks and the API write; it differs only where
Flink's JSON does. Both are built from plain Python values that orjson writes as they are.

    type             canonical                                     shown, where it differs
    integers         number
    DECIMAL(p, s)    string with exactly s digits, never "-0"
    FLOAT, DOUBLE    number, or "NaN" "Infinity" "-Infinity"
    BINARY           base64 string
    DATE             "2020-01-31"
    TIME             "10:00:00", then ".5" where not zero
    TIMESTAMP(p)     "2020-01-31T10:00:00", then ".25"             blank in place of T
    TIMESTAMP_LTZ    the same, in UTC, then "Z"                    blank in place of T
    ARRAY            array
    MAP, MULTISET    array of [k, v], ordered by the bytes of k    object, where keys are strings
    ROW              array                                         object

A FLOAT is written with the fewest digits that give its 32 bits back, in the layout of a double: so
reading the JSON as doubles and writing it again changes nothing. Digits of a second beyond the
declared precision are cut, towards the past, as Flink's compact rows cut them.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from state.errors import StateCorrupt
from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    MAP_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    arrow_type,
    format_type,
)

# Values come from outside the type system: each function checks what it is given.
Convert = Callable[[Any], Any]

INT32 = LogicalType(TypeRoot.INTEGER, nullable=False)
"""The count of a MULTISET's element."""
EXACT = decimal.Context(prec=100, traps=[decimal.InvalidOperation])
"""Room for two DECIMAL(38) side by side. The default would round to 28 digits, even in `abs`."""


class CodecError(ValueError):
    """A value is not of its column's type. Says which column and what kind of value was found.

    The value itself is data of the user and never part of the message. Types are told as SQL has
    them.
    """

    code = "codec.value"

    def __init__(self, column: str | None, expected: str, found: str) -> None:
        where = "value" if column is None else f'column "{column}"'
        super().__init__(f"{where} must be {_as_declared(expected)}, found {found}")
        self.column = column
        self.expected = expected
        self.found = found

    def in_column(self, column: str) -> CodecError:
        """The same, of this column."""
        return CodecError(column, self.expected, self.found)


_ZONED = re.compile(r"TIMESTAMP(\(\d\))? WITH LOCAL TIME ZONE")
_LONGEST = {"VARCHAR": "STRING", "VARBINARY": "BYTES"}


def _as_declared(expected: str) -> str:
    """A type, as texts of types have it, in the words that people declare columns by.

    >>> _as_declared("MAP<VARCHAR(2147483647), TIMESTAMP(3) WITH LOCAL TIME ZONE>")
    'MAP<STRING, TIMESTAMP_LTZ(3)>'
    """
    for name, word in _LONGEST.items():
        expected = expected.replace(f"{name}(2147483647)", word)
    return _ZONED.sub(r"TIMESTAMP_LTZ\1", expected)


class StoredTextCorrupt(CodecError, StateCorrupt):
    """What is to be decoded is not what the codec writes: other bytes, or not all of them.

    Canonical text comes out of state and of nowhere else but a caller's key. The text itself is
    data of the user and never part of the message.
    """

    code = StateCorrupt.code

    def __init__(self, expected: str) -> None:
        StateCorrupt.__init__(self, f"stored text must be {expected}, found other bytes")
        self.column = None
        self.expected = expected
        self.found = "other bytes"


def canonical_encoder(logical: LogicalType) -> Convert:
    """From a Python value that is not null (see `state.types`) to its canonical JSON value.

    Raises:
        UnsupportedType: There is no canonical form of this type.
    """
    return _encoder(logical, shown=False)


def shown_encoder(logical: LogicalType) -> Convert:
    """From a Python value that is not null to the JSON value that sinks and the API write."""
    return _encoder(logical, shown=True)


def _encoder(logical: LogicalType, *, shown: bool) -> Convert:
    arrow_type(logical)  # refuses types without a column
    root = logical.root
    if root in INTEGER_BITS:
        return _integer_encoder(logical)
    if root in STRING_ROOTS:
        return _string
    if root in BINARY_ROOTS:
        return _binary
    if root in TIMESTAMP_ROOTS:
        return _timestamp_encoder(logical, " " if shown else "T")
    if root in MAP_ROOTS:
        return _map_encoder(logical, shown=shown)
    if root is TypeRoot.ARRAY:
        return _array_encoder(_nullable(_encoder(logical.children[0], shown=shown)))
    if root is TypeRoot.ROW:
        return _row_encoder(logical, shown=shown)
    if root is TypeRoot.DECIMAL:
        return _decimal_encoder(logical)
    if root is TypeRoot.TIME:
        return _time_encoder(logical)
    return _SIMPLE_ENCODERS[root]


def canonical_decoder(logical: LogicalType) -> Convert | None:
    """From a canonical JSON value that is not null to the Python value; None if it is the same."""
    root = logical.root
    match root:
        case TypeRoot.DECIMAL:
            return decimal.Decimal
        case TypeRoot.FLOAT:
            return _read_float32
        case TypeRoot.DOUBLE:
            return float
        case TypeRoot.BINARY | TypeRoot.VARBINARY:
            return base64.b64decode
        case TypeRoot.DATE:
            return dt.date.fromisoformat
        case TypeRoot.TIME:
            return dt.time.fromisoformat
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            return _read_timestamp
        case TypeRoot.ARRAY:
            return _array_decoder(canonical_decoder(logical.children[0]))
        case TypeRoot.MAP | TypeRoot.MULTISET:
            return _map_decoder(*(canonical_decoder(each) for each in map_children(logical)))
        case TypeRoot.ROW:
            return _row_decoder([canonical_decoder(each) for each in logical.children])
        case _:
            return None


def map_children(logical: LogicalType) -> tuple[LogicalType, LogicalType]:
    """Key and value type of a MAP, element and count of a MULTISET."""
    if logical.root is TypeRoot.MULTISET:
        return logical.children[0], INT32
    return logical.children[0], logical.children[1]


def has_string_keys(logical: LogicalType) -> bool:
    """Whether shown JSON writes this MAP or MULTISET as an object."""
    return map_children(logical)[0].root in STRING_ROOTS


def kind_of(value: object) -> str:
    """What a Python or JSON value is, for messages."""
    if value is None:
        return "null"
    return next((_KINDS[each] for each in type(value).__mro__ if each in _KINDS), "another value")


_KINDS: dict[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number with a fraction",
    # Of JSON where digits count; one of ours is never of a wrong kind.
    decimal.Decimal: "a number with a fraction",
    str: "a string",
    bytes: "bytes",
    list: "an array",
    tuple: "an array",
    dict: "an object",
}


def _nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _wrong(logical: LogicalType, value: object) -> CodecError:
    return CodecError(None, format_type(logical.with_nullable(nullable=True)), kind_of(value))


def _boolean(value: object) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise CodecError(None, "BOOLEAN", kind_of(value))


def _integer_encoder(logical: LogicalType) -> Convert:
    most = (1 << (INTEGER_BITS[logical.root] - 1)) - 1
    least = -most - 1
    name = format_type(logical.with_nullable(nullable=True))

    def encode(value: object) -> int:
        if type(value) is not int:
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise CodecError(None, name, kind_of(value))
            value = int(value)
        if not least <= value <= most:
            raise CodecError(None, name, "an integer out of range")
        return value

    return encode


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise CodecError(None, "STRING", kind_of(value))
    if not value.isascii():
        # Half of a surrogate pair is the one thing that a Python string holds and UTF-8 cannot.
        try:
            value.encode()
        except UnicodeEncodeError:
            raise CodecError(None, "STRING", "half of a surrogate pair") from None
    return str(value)


def _binary(value: object) -> str:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise CodecError(None, "BYTES as base64", kind_of(value))
    return base64.b64encode(value).decode()


def double_json(value: float) -> float | str:
    """A double as a JSON value: all NaNs are one, and -0.0 stays itself."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _double(value: object) -> float | str:
    if isinstance(value, bool) or not isinstance(value, float | int | np.floating | np.integer):
        raise CodecError(None, "DOUBLE", kind_of(value))
    try:
        return double_json(float(value))
    except OverflowError:
        raise CodecError(None, "DOUBLE", "a number out of range") from None


_FLOAT32 = struct.Struct("<f")


def to_float32(value: float) -> float:
    """The nearest 32-bit value, as a double.

    Raises:
        OverflowError: A finite number is too large for 32 bits.
    """
    return float(_FLOAT32.unpack(_FLOAT32.pack(value))[0])


def _float(value: object) -> float | str:
    if isinstance(value, bool) or not isinstance(value, float | int | np.floating | np.integer):
        raise CodecError(None, "FLOAT", kind_of(value))
    try:
        # numpy writes the fewest digits that give the 32 bits back.
        return double_json(float(str(np.float32(to_float32(float(value))))))
    except OverflowError:
        raise CodecError(None, "FLOAT", "a number out of range") from None


def _read_float32(value: float | str) -> float:
    return to_float32(float(value))


def _decimal_encoder(logical: LogicalType) -> Convert:
    quantum = decimal.Decimal(1).scaleb(-(logical.scale or 0))
    limit = decimal.Decimal(10) ** ((logical.precision or 0) - (logical.scale or 0))

    def encode(value: object) -> str:
        if isinstance(value, bool) or not isinstance(value, decimal.Decimal | int | np.integer):
            raise _wrong(logical, value)
        number = decimal.Decimal(value if isinstance(value, decimal.Decimal) else int(value))
        if not number.is_finite() or number.copy_abs() >= limit:
            raise CodecError(None, format_type(logical), "a decimal out of range")
        exact = number.quantize(quantum, context=EXACT)
        if exact != number:
            raise CodecError(None, format_type(logical), "a decimal with more digits")
        return format(exact or abs(exact), "f")

    return encode


def _date(value: object) -> str:
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        raise CodecError(None, "DATE", kind_of(value))
    return value.isoformat()


def _with_fraction(text: str, microsecond: int, digits: int) -> str:
    """Append the fraction of a second: cut to so many digits, zeros at the end dropped."""
    fraction = f"{microsecond:06d}"[:digits].rstrip("0")
    return f"{text}.{fraction}" if fraction else text


def _time_encoder(logical: LogicalType) -> Convert:
    digits = logical.precision or 0

    def encode(value: object) -> str:
        if not isinstance(value, dt.time) or value.tzinfo is not None:
            raise _wrong(logical, value)
        return _with_fraction(value.isoformat("seconds"), value.microsecond, digits)

    return encode


def _timestamp_encoder(logical: LogicalType, separator: str) -> Convert:
    digits = logical.precision or 0
    local = logical.root is TypeRoot.TIMESTAMP

    def encode(value: object) -> str:
        if not isinstance(value, dt.datetime):
            raise _wrong(logical, value)
        if local != (value.tzinfo is None):
            found = "a time without a zone" if value.tzinfo is None else "a time with a zone"
            raise CodecError(None, format_type(logical), found)
        if local:
            text = value.isoformat(separator, "seconds")
            return _with_fraction(text, value.microsecond, digits)
        try:
            value = value.astimezone(dt.UTC)
        except OverflowError:
            raise CodecError(None, format_type(logical), "a time out of range") from None
        text = value.replace(tzinfo=None).isoformat(separator, "seconds")
        return _with_fraction(text, value.microsecond, digits) + "Z"

    return encode


def _read_timestamp(value: str) -> dt.datetime:
    return dt.datetime.fromisoformat(value)


def _array_encoder(element: Convert) -> Convert:
    def encode(value: object) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise CodecError(None, "ARRAY", kind_of(value))
        return [element(each) for each in value]

    return encode


def _array_decoder(element: Convert | None) -> Convert | None:
    if element is None:
        return None
    return lambda value: [None if each is None else element(each) for each in value]


def _map_encoder(logical: LogicalType, *, shown: bool) -> Convert:
    key_type, value_type = map_children(logical)
    canonical_key = canonical_encoder(key_type)
    key = _encoder(key_type, shown=shown)
    entry = _nullable(_encoder(value_type, shown=shown))
    as_object = shown and has_string_keys(logical)

    def encode(value: object) -> Any:
        entries: dict[bytes, list[Any]] = {}
        if not isinstance(value, Mapping | list | tuple):
            raise _wrong(logical, value)
        pairs = value.items() if isinstance(value, Mapping) else value
        for name, each in pairs:
            if name is None:
                raise CodecError(None, format_type(logical), "a null key")
            entries[orjson.dumps(canonical_key(name))] = [key(name), entry(each)]
        if len(entries) != len(value):
            raise CodecError(None, format_type(logical), "one key twice")
        ordered = [entries[each] for each in sorted(entries)]
        return dict(ordered) if as_object else ordered

    return encode


def _map_decoder(key: Convert | None, entry: Convert | None) -> Convert:
    key, entry = key or _same, entry or _same
    return lambda value: [(key(k), None if v is None else entry(v)) for k, v in value]


def _row_encoder(logical: LogicalType, *, shown: bool) -> Convert:
    names = logical.field_names
    fields = [_nullable(_encoder(each, shown=shown)) for each in logical.children]

    def encode(value: object) -> Any:
        if isinstance(value, Mapping):
            value = [value.get(name) for name in names]
        elif not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise CodecError(None, "ROW", kind_of(value))
        if len(value) != len(fields):
            raise CodecError(None, f"ROW of {len(fields)} fields", f"{len(value)} fields")
        values = [field(each) for field, each in zip(fields, value, strict=True)]
        return dict(zip(names, values, strict=True)) if shown else values

    return encode


def _row_decoder(fields: Sequence[Convert | None]) -> Convert:
    converts = [_nullable(each or _same) for each in fields]
    return lambda value: tuple(c(each) for c, each in zip(converts, value, strict=True))


def _same(value: object) -> Any:
    return value


_SIMPLE_ENCODERS: dict[TypeRoot, Convert] = {
    TypeRoot.BOOLEAN: _boolean,
    TypeRoot.FLOAT: _float,
    TypeRoot.DOUBLE: _double,
    TypeRoot.DATE: _date,
}
