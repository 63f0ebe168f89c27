"""The value class of Flink's logical types; `state.types` says what their values look like.

Source: Flink `LogicalType`, its subclasses and `LogicalTypeRoot` (2.3).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import Literal

LENGTH_MAX = 2_147_483_647
"""Length of STRING and BYTES, and Flink's limit for any length."""
DECIMAL_PRECISION_MAX = 38
FRACTION_MAX = 9
"""Digits of a second that a Flink type may declare."""

TimeAttribute = Literal["ROWTIME", "PROCTIME"]


class LogicalTypeError(ValueError):
    """A type that is not one, or is none that we can hold.

    LogicalTypeError
    ├── TypeParseError     the text is not a type
    └── UnsupportedType    a type of Flink that no column of ours can have
    """

    code = "types"


class TypeRoot(Enum):
    """What a type is apart from its parameters: Flink's `LogicalTypeRoot`, in fewer words."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INTEGER = "INTEGER"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    CHAR = "CHAR"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    VARBINARY = "VARBINARY"
    DATE = "DATE"
    TIME = "TIME_WITHOUT_TIME_ZONE"
    TIMESTAMP = "TIMESTAMP_WITHOUT_TIME_ZONE"
    TIMESTAMP_TZ = "TIMESTAMP_WITH_TIME_ZONE"
    TIMESTAMP_LTZ = "TIMESTAMP_WITH_LOCAL_TIME_ZONE"
    INTERVAL_YEAR_MONTH = "INTERVAL_YEAR_MONTH"
    INTERVAL_DAY_TIME = "INTERVAL_DAY_TIME"
    ARRAY = "ARRAY"
    MULTISET = "MULTISET"
    MAP = "MAP"
    ROW = "ROW"
    STRUCTURED = "STRUCTURED_TYPE"
    NULL = "NULL"
    RAW = "RAW"
    LEGACY = "LEGACY"
    SYMBOL = "SYMBOL"
    UNRESOLVED = "UNRESOLVED"
    DESCRIPTOR = "DESCRIPTOR"
    VARIANT = "VARIANT"
    BITMAP = "BITMAP"


INTEGER_BITS = {
    TypeRoot.TINYINT: 8,
    TypeRoot.SMALLINT: 16,
    TypeRoot.INTEGER: 32,
    TypeRoot.BIGINT: 64,
}
FLOAT_ROOTS = frozenset({TypeRoot.FLOAT, TypeRoot.DOUBLE})
NUMBER_ROOTS = frozenset({*INTEGER_BITS, *FLOAT_ROOTS, TypeRoot.DECIMAL})
STRING_ROOTS = frozenset({TypeRoot.CHAR, TypeRoot.VARCHAR})
BINARY_ROOTS = frozenset({TypeRoot.BINARY, TypeRoot.VARBINARY})
TIMESTAMP_ROOTS = frozenset({TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
MAP_ROOTS = frozenset({TypeRoot.MAP, TypeRoot.MULTISET})
INTERVAL_ROOTS = frozenset({TypeRoot.INTERVAL_YEAR_MONTH, TypeRoot.INTERVAL_DAY_TIME})


@dataclass(frozen=True, slots=True)
class LogicalType:
    """One type of Flink with its parameters; equal types describe the same values."""

    root: TypeRoot
    nullable: bool = True
    length: int | None = None
    """Of CHAR, VARCHAR, BINARY, VARBINARY. Declared, not enforced on values."""
    precision: int | None = None
    """Of DECIMAL: digits. Of times: digits of the second. Of intervals: of the leading field."""
    scale: int | None = None
    """Of DECIMAL: digits after the point. Of intervals: digits of the second."""
    children: tuple[LogicalType, ...] = ()
    """Element of ARRAY and MULTISET; key and value of MAP; fields of ROW and STRUCTURED."""
    field_names: tuple[str, ...] = ()
    time_attribute: TimeAttribute | None = None
    resolution: str | None = None
    """Of intervals: the fields, as "DAY TO SECOND"."""
    arguments: tuple[str, ...] = ()
    """Of RAW and LEGACY: the texts in brackets. Of STRUCTURED: the class. Of others: the path."""
    field_comments: tuple[str | None, ...] = dataclasses.field(default=(), compare=False)
    """Of ROW: a comment for each field; empty if none has one."""

    def __post_init__(self) -> None:
        _check(self)

    def with_nullable(self, nullable: bool) -> LogicalType:
        """The same type, with this nullability."""
        return self if self.nullable == nullable else dataclasses.replace(self, nullable=nullable)


def row_type(
    names: tuple[str, ...], types: tuple[LogicalType, ...], *, nullable: bool = True
) -> LogicalType:
    """A ROW of these fields."""
    return LogicalType(TypeRoot.ROW, nullable, children=types, field_names=names)


_CHILDREN = {TypeRoot.ARRAY: 1, TypeRoot.MULTISET: 1, TypeRoot.MAP: 2}


def _check(logical: LogicalType) -> None:
    """Refuse a type that Flink's constructors refuse; length 0 is that of an empty literal."""
    root = logical.root
    if root in STRING_ROOTS | BINARY_ROOTS:
        _check_range("length", logical.length, 0, LENGTH_MAX)
    elif root is TypeRoot.DECIMAL:
        _check_range("precision", logical.precision, 1, DECIMAL_PRECISION_MAX)
        _check_range("scale", logical.scale, 0, logical.precision or 0)
    elif root in (TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_TZ, TypeRoot.TIMESTAMP_LTZ):
        _check_range("precision", logical.precision, 0, FRACTION_MAX)
    elif root is TypeRoot.NULL and not logical.nullable:
        raise LogicalTypeError("type NULL cannot be NOT NULL")
    elif root in (TypeRoot.ROW, TypeRoot.STRUCTURED):
        if len(logical.field_names) != len(logical.children):
            raise LogicalTypeError("a row needs one name for each field")
        if len(set(logical.field_names)) != len(logical.field_names):
            raise LogicalTypeError("field names of a row must be unique")
    if root in _CHILDREN and len(logical.children) != _CHILDREN[root]:
        raise LogicalTypeError(f"type {root.name} needs {_CHILDREN[root]} element type(s)")


def _check_range(what: str, value: int | None, least: int, most: int) -> None:
    if value is None or not least <= value <= most:
        raise LogicalTypeError(f"{what} must be between {least} and {most}")
