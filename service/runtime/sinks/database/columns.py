"""What a column of a table can hold, and how values of our types are handed to it.

A column takes a type if it keeps every value of it exactly, or the database refuses the value
aloud; a type that it would round or cut off in silence is refused when a run starts.

    type                      PostgreSQL              MySQL, MariaDB       SQLite
    BOOLEAN                   boolean                 an integer type      boolean, integer
    TINYINT .. BIGINT         integers, numerics wide enough               integer, numeric
    FLOAT                     real, double            float, double        real; NaN is refused
    DOUBLE                    double                  double; finite       real; NaN is refused
    DECIMAL(p, s)             numeric with room       decimal with room    text; numeric if p <= 15
    CHAR, VARCHAR             varchar, text; CHAR also char                any text
    BINARY, VARBINARY         bytea                   varbinary, blobs     blob
    DATE                      date                    date                 date, text
    TIME(p)                   time(>= p)              time(>= p)           time, text
    TIMESTAMP(p)              timestamp(>= p)         datetime(>= p)       datetime, timestamp, text
    TIMESTAMP_LTZ(p)          timestamptz(>= p)       timestamp(>= p)      the same; in UTC
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

from state.arrow_values import python_values
from state.logical_type import FLOAT_ROOTS
from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    LogicalType,
    TypeRoot,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy.types import TypeEngine

    from service.runtime.sinks.database.options import Dialect

_TIMES = frozenset({TypeRoot.TIME, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ})
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
"""Digits of the integers of so many bits."""
_SQLITE_DIGITS = 15
"""What SQLite's numbers with a fraction keep exactly."""
_FRACTION_DEFAULT = 6
"""Digits of a second in PostgreSQL where a column declares none; in MySQL 0."""


def keeps(logical: LogicalType, column: TypeEngine[Any], dialect: Dialect) -> bool:
    """Whether a column of this type keeps the values of ours, as the table above has it."""
    root = logical.root
    is_sqlite = dialect == "sqlite"
    if is_sqlite and _is_text(column) and root in (*STRING_ROOTS, *_TIMES, TypeRoot.DATE):
        return True
    if root is TypeRoot.BOOLEAN:
        return isinstance(column, sa.Boolean) or (
            dialect != "postgresql" and isinstance(column, sa.Integer)
        )
    if root in INTEGER_BITS:
        return _keeps_integers(INTEGER_BITS[root], column, is_sqlite=is_sqlite)
    if root in FLOAT_ROOTS:
        needs_double = root is TypeRoot.DOUBLE and not is_sqlite
        if getattr(column, "scale", None) is not None:
            return False  # MySQL's DOUBLE(10, 2) rounds
        return isinstance(column, sa.Double if needs_double else sa.Float)
    if root is TypeRoot.DECIMAL:
        return _keeps_decimals(logical, column, is_sqlite=is_sqlite)
    if root in STRING_ROOTS:
        # char(n) pads, or takes blanks away.
        return _is_text(column) and (root is TypeRoot.CHAR or not isinstance(column, sa.CHAR))
    if root in BINARY_ROOTS:
        # binary(n) pads.
        is_padded = isinstance(column, sa.BINARY) and root is TypeRoot.VARBINARY
        return isinstance(column, sa.types._Binary) and not is_padded
    if root is TypeRoot.DATE:
        return isinstance(column, sa.Date)
    return _keeps_times(logical, column, dialect)


def _is_text(column: TypeEngine[Any]) -> bool:
    return isinstance(column, sa.String) and not isinstance(column, sa.Enum | mysql.SET)


def _keeps_integers(bits: int, column: TypeEngine[Any], *, is_sqlite: bool) -> bool:
    if isinstance(column, sa.Integer):
        return is_sqlite or bits <= _bits(column)
    if not isinstance(column, sa.Numeric) or isinstance(column, sa.Float):
        return False
    return column.precision is None or column.precision - (column.scale or 0) >= _DIGITS[bits]


def _bits(column: TypeEngine[Any]) -> int:
    if isinstance(column, mysql.TINYINT):
        return 8
    if isinstance(column, mysql.MEDIUMINT):
        return 24
    if isinstance(column, sa.SmallInteger):
        return 16
    return 64 if isinstance(column, sa.BigInteger) else 32


def _keeps_decimals(logical: LogicalType, column: TypeEngine[Any], *, is_sqlite: bool) -> bool:
    precision, scale = logical.precision or 0, logical.scale or 0
    if is_sqlite:
        is_numeric = isinstance(column, sa.Numeric) and not isinstance(column, sa.Float)
        return _is_text(column) or (is_numeric and precision <= _SQLITE_DIGITS)
    if not isinstance(column, sa.Numeric) or isinstance(column, sa.Float):
        return False
    if column.precision is None:
        return True
    room = column.scale or 0
    return room >= scale and column.precision - room >= precision - scale


def _keeps_times(logical: LogicalType, column: TypeEngine[Any], dialect: Dialect) -> bool:
    if logical.root is TypeRoot.TIME:
        return isinstance(column, sa.Time) and (logical.precision or 0) <= _fraction(column)
    if not isinstance(column, sa.DateTime):
        return False
    if dialect == "sqlite":
        return True
    has_zone = isinstance(column, mysql.TIMESTAMP) if dialect == "mysql" else column.timezone
    needs_zone = logical.root is TypeRoot.TIMESTAMP_LTZ
    return bool(has_zone) == needs_zone and (logical.precision or 0) <= _fraction(column)


def _fraction(column: TypeEngine[Any]) -> int:
    """Digits of a second that a column keeps."""
    if hasattr(column, "fsp"):
        return int(column.fsp or 0)
    declared = getattr(column, "precision", None)
    return _FRACTION_DEFAULT if declared is None else int(declared)


def bound_type(logical: LogicalType, dialect: Dialect) -> TypeEngine[Any]:
    """How SQLAlchemy is to hand values of our type to the driver."""
    root = logical.root
    if root is TypeRoot.DECIMAL:
        # SQLite's driver knows no decimals: as text they stay exact.
        return sa.String() if dialect == "sqlite" else sa.Numeric()
    if root in INTEGER_BITS:
        return sa.BigInteger()
    if root in FLOAT_ROOTS:
        return sa.Double()
    if root in STRING_ROOTS:
        return sa.String()
    if root in BINARY_ROOTS:
        return sa.LargeBinary()
    if root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
        return sa.DateTime(timezone=dialect == "postgresql" and root is TypeRoot.TIMESTAMP_LTZ)
    if root is TypeRoot.BOOLEAN:
        return sa.Boolean()
    return sa.Date() if root is TypeRoot.DATE else sa.Time()


def bound_values(logical: LogicalType, column: pa.Array, dialect: Dialect) -> list[Any]:
    """A column's values as `bound_type` takes them.

    Raises:
        CodecError: A time lies outside the years 1 to 9999.
    """
    values = python_values(logical, column)
    if logical.root is TypeRoot.DECIMAL and dialect == "sqlite":
        return [value if value is None else format(value, "f") for value in values]
    if logical.root is TypeRoot.TIMESTAMP_LTZ and dialect != "postgresql":
        return [value if value is None else _naive(value) for value in values]
    return values


def _naive(value: dt.datetime) -> dt.datetime:
    return value.astimezone(dt.UTC).replace(tzinfo=None)
