"""Literals of a plan as columns: typed values, never SQL text.

Their Python value is read by `operators.expressions.literals`.
"""

from __future__ import annotations

from pyspark.sql.connect import functions as sf

from operators.expressions.literals import LiteralError, literal_value
from service.runtime.expressions.site import Column, null_of
from service.runtime.expressions.spark_types import inner_type
from state.types import TIMESTAMP_ROOTS, LogicalType, TypeRoot

__all__ = ["LiteralError", "literal_column", "literal_value"]


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
