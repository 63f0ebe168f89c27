"""Literals of a plan as columns: typed values, never SQL text."""

from __future__ import annotations

from pyspark.sql.connect import functions as sf

from service.runtime.expressions.site import Column, Value, null_of
from service.runtime.expressions.spark_types import inner_type
from state.types import TIMESTAMP_ROOTS, LogicalType, TypeRoot


def literal(value: object, logical: LogicalType) -> Value:
    """A value that the plan says, as `operators.expressions.literals` gives it."""
    return Value(_column(value, logical), logical, literal=value, is_literal=True)


def _column(value: object, logical: LogicalType) -> Column:
    """Of exactly the type's Spark type."""
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
