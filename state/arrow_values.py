"""Between Arrow columns and the Python values that `state.types` lists, both ways.

Arrow's own conversions nearly do: structs come out as dicts and go in as dicts, TIME is an integer,
and times outside the years 1 to 9999 have no Python value.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from state.types import MAP_ROOTS, LogicalType, TypeRoot, arrow_type, format_type
from state.values import CodecError, Convert, map_children

if TYPE_CHECKING:
    from collections.abc import Sequence


def python_values(logical: LogicalType, column: pa.Array) -> list[Any]:
    """The values of a column, None for null.

    Raises:
        CodecError: A time lies outside the years 1 to 9999, or a number is no time of day.
    """
    try:
        values = column.to_pylist()
        convert = _from_arrow(logical)
        return values if convert is None else [v if v is None else convert(v) for v in values]
    except (OverflowError, ValueError):
        raise CodecError(None, format_type(logical), "a time out of range") from None


def to_column(logical: LogicalType, values: Sequence[Any]) -> pa.Array:
    """A column of Python values, None for null.

    The values must be of the type already, as `RowCodec.decode` and `decode_json` give them.
    """
    convert = _to_arrow(logical)
    if convert is not None:
        values = [v if v is None else convert(v) for v in values]
    return pa.array(values, arrow_type(logical))


def _from_arrow(logical: LogicalType) -> Convert | None:
    root = logical.root
    if root is TypeRoot.TIME:
        return _time_of
    if root is TypeRoot.TIMESTAMP_LTZ:
        return _in_utc
    if root is TypeRoot.ROW:
        return _row_from_arrow(logical)
    return _container(logical, [_from_arrow(each) for each in _elements(logical)])


def _to_arrow(logical: LogicalType) -> Convert | None:
    root = logical.root
    if root is TypeRoot.TIME:
        return _milliseconds_of
    if root is TypeRoot.ROW:
        return _row_to_arrow(logical)
    return _container(logical, [_to_arrow(each) for each in _elements(logical)])


def _elements(logical: LogicalType) -> Sequence[LogicalType]:
    return map_children(logical) if logical.root in MAP_ROOTS else logical.children


def _container(logical: LogicalType, converts: Sequence[Convert | None]) -> Convert | None:
    """Convert what is inside an ARRAY or MAP; None if there is nothing to do."""
    if all(each is None for each in converts):
        return None
    if logical.root is TypeRoot.ARRAY:
        element = _nullable(converts[0])
        return lambda value: [element(each) for each in value]
    key, entry = map(_nullable, converts)
    return lambda value: [(key(k), entry(v)) for k, v in value]


def _nullable(convert: Convert | None) -> Convert:
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _row_from_arrow(logical: LogicalType) -> Convert:
    fields = [
        (name, _nullable(_from_arrow(child)))
        for name, child in zip(logical.field_names, logical.children, strict=True)
    ]
    return lambda value: tuple(convert(value[name]) for name, convert in fields)


def _row_to_arrow(logical: LogicalType) -> Convert:
    names = logical.field_names
    converts = [_nullable(_to_arrow(child)) for child in logical.children]

    def convert(value: Sequence[Any]) -> dict[str, Any]:
        return {n: c(v) for n, c, v in zip(names, converts, value, strict=True)}

    return convert


def _time_of(milliseconds: int) -> dt.time:
    seconds, rest = divmod(milliseconds, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return dt.time(hour, minute, second, rest * 1000)


def _milliseconds_of(value: dt.time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1000 + value.microsecond // 1000


def _in_utc(value: dt.datetime) -> dt.datetime:
    # Arrow's UTC is another object than Python's; one kind is enough.
    return value.astimezone(dt.UTC)
