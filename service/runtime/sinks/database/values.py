"""What of our values databases have, as plans and writer tasks ask it: without SQLAlchemy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from state.logical_type import FLOAT_ROOTS
from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    format_type,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from service.runtime.sinks.database.options import Dialect

_SUPPORTED = (
    FLOAT_ROOTS
    | STRING_ROOTS
    | BINARY_ROOTS
    | TIMESTAMP_ROOTS
    | INTEGER_BITS.keys()
    | {TypeRoot.BOOLEAN, TypeRoot.DECIMAL, TypeRoot.DATE, TypeRoot.TIME}
)


def unheld(logical: LogicalType, column: pa.Array, dialect: Dialect) -> str:
    """What of a column the database has no value for, in words; empty if there is nothing.

    SQLite would store NaN as null without a word.
    """
    if logical.root not in FLOAT_ROOTS or dialect == "postgresql":
        return ""
    if pc.any(pc.is_nan(column), min_count=0).as_py():
        return "NaN"
    if dialect == "mysql" and not pc.all(pc.is_finite(column), min_count=0).as_py():
        return "an infinite number"
    return ""


def unsupported(names: Sequence[str], types: Sequence[LogicalType]) -> str:
    """The first column that no column of a database takes, in words; empty if there is none."""
    for name, logical in zip(names, types, strict=True):
        if logical.root not in _SUPPORTED:
            return f'column "{name}" has type {format_type(logical)}'
    return ""
