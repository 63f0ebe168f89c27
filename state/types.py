"""Flink's logical types: what a value may be, and how Arrow and Python hold it.

A compiled plan writes a type as SQL text (``ROW<`k` INT NOT NULL, `v` DECIMAL(10, 2)>``). This
module has the Arrow type of a column and gives on the value class (`state.logical_type`) and its
text (`state.type_format`, `state.type_parse`). Import everything from here; `state.codec` builds on
it.

    type                             Arrow                    Python
    BOOLEAN                          bool_                    bool
    TINYINT SMALLINT INTEGER BIGINT  int8 int16 int32 int64   int
    FLOAT DOUBLE                     float32 float64          float (FLOAT: exactly a 32-bit value)
    DECIMAL(p, s)                    decimal128(p, s)         decimal.Decimal with s digits
    CHAR VARCHAR                     string                   str
    BINARY VARBINARY                 binary                   bytes
    DATE                             date32                   datetime.date
    TIME(p <= 3)                     int32, ms of the day     datetime.time
    TIMESTAMP(p <= 6)                timestamp(us)            datetime without a zone
    TIMESTAMP_LTZ(p <= 6)            timestamp(us, UTC)       datetime in UTC
    ARRAY                            list_                    list
    MAP, MULTISET                    map_                     list of (key, value), no key twice
    ROW                              struct                   tuple

TIME is a plain integer in Arrow, as in Flink's own rows: Spark has a TIME type, but off by default.

Source: Flink `LogicalType` and its subclasses (2.3).
"""

from __future__ import annotations

import pyarrow as pa

from state.logical_type import (
    BINARY_ROOTS,
    DECIMAL_PRECISION_MAX,
    FLOAT_ROOTS,
    INTEGER_BITS,
    INTERVAL_ROOTS,
    LENGTH_MAX,
    MAP_ROOTS,
    NUMBER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    LogicalTypeError,
    TimeAttribute,
    TypeRoot,
    row_type,
)
from state.type_format import format_type
from state.type_parse import TypeParseError, parse_type

__all__ = [
    "ARROW_FRACTION_MAX",
    "BINARY_ROOTS",
    "DECIMAL_PRECISION_MAX",
    "FLOAT_ROOTS",
    "INTEGER_BITS",
    "INTERVAL_ROOTS",
    "LENGTH_MAX",
    "MAP_ROOTS",
    "NUMBER_ROOTS",
    "STRING_ROOTS",
    "TIMESTAMP_ROOTS",
    "TIME_FRACTION_MAX",
    "LogicalType",
    "LogicalTypeError",
    "TimeAttribute",
    "TypeParseError",
    "TypeRoot",
    "UnsupportedType",
    "arrow_type",
    "format_type",
    "parse_type",
    "row_type",
]

ARROW_FRACTION_MAX = 6
"""Digits of a second that Arrow microseconds (and Spark) hold."""
TIME_FRACTION_MAX = 3
"""Digits of a second in a TIME: Flink keeps milliseconds, whatever was declared."""


class UnsupportedType(LogicalTypeError):
    """The type is known, but its values cannot be carried in Arrow or hashed by Spark."""

    code = "types.unsupported"

    def __init__(self, logical: LogicalType, reason: str) -> None:
        super().__init__(f"type {format_type(logical)} is not supported: {reason}")
        self.logical = logical
        self.reason = reason


def arrow_type(logical: LogicalType) -> pa.DataType:
    """The Arrow type that carries a column of this type (table at the top of the module).

    Nullability is not part of it: every Arrow field is nullable, since control rows have no values.

    Raises:
        UnsupportedType: No Arrow type of ours holds its values exactly.
    """
    simple = _ARROW.get(logical.root)
    if simple is not None:
        return simple
    children = logical.children
    match logical.root:
        case TypeRoot.DECIMAL:
            return pa.decimal128(logical.precision, logical.scale)
        case TypeRoot.TIME:
            _check_fraction(logical, TIME_FRACTION_MAX, "Flink itself keeps milliseconds")
            return pa.int32()
        case TypeRoot.TIMESTAMP | TypeRoot.TIMESTAMP_LTZ:
            _check_fraction(logical, ARROW_FRACTION_MAX, "Spark keeps microseconds")
            zone = "UTC" if logical.root is TypeRoot.TIMESTAMP_LTZ else None
            return pa.timestamp("us", zone)
        case TypeRoot.ARRAY:
            return pa.list_(arrow_type(children[0]))
        case TypeRoot.MULTISET:
            return pa.map_(arrow_type(children[0]), pa.int32())
        case TypeRoot.MAP:
            return pa.map_(arrow_type(children[0]), arrow_type(children[1]))
        case TypeRoot.ROW:
            fields = zip(logical.field_names, children, strict=True)
            return pa.struct([pa.field(name, arrow_type(child)) for name, child in fields])
        case _:
            raise UnsupportedType(logical, "columns cannot hold its values")


_ARROW: dict[TypeRoot, pa.DataType] = {
    TypeRoot.BOOLEAN: pa.bool_(),
    TypeRoot.TINYINT: pa.int8(),
    TypeRoot.SMALLINT: pa.int16(),
    TypeRoot.INTEGER: pa.int32(),
    TypeRoot.BIGINT: pa.int64(),
    TypeRoot.FLOAT: pa.float32(),
    TypeRoot.DOUBLE: pa.float64(),
    TypeRoot.CHAR: pa.string(),
    TypeRoot.VARCHAR: pa.string(),
    TypeRoot.BINARY: pa.binary(),
    TypeRoot.VARBINARY: pa.binary(),
    TypeRoot.DATE: pa.date32(),
}


def _check_fraction(logical: LogicalType, most: int, reason: str) -> None:
    if (logical.precision or 0) > most:
        raise UnsupportedType(logical, f"at most {most} digits of a second; {reason}")
