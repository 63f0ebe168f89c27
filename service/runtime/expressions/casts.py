r"""CAST and TRY_CAST, and the conversions that other functions apply to their operands.

    from \\ to     integer     FLOAT DOUBLE   DECIMAL       BOOLEAN     string     date and time
    integer       wraps       Java           NULL if over  <> 0        digits     -
    FLOAT DOUBLE  saturates*  Java           NULL if over  <> 0        Java       -
    DECIMAL       wraps       nearest        HALF_UP       <> 0        plain      -
    BOOLEAN       1, 0        1, 0           1, 0          same        TRUE       -
    string        parsed      parsed         parsed        parsed      length     parsed
    DATE          -           -              -             -           ISO        midnight
    TIMESTAMP     -           -              -             -           all digits digits cut

    * to TINYINT and SMALLINT through INT, whose low bits remain.
A text that cannot be parsed ends the query for CAST and gives NULL for TRY_CAST; what is NULL
above is NULL for both. CHAR(n) is cut and padded with blanks, VARCHAR(n) cut.

Source: Flink's `casting` rules (2.3), checked by running it.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from service.runtime.expressions import instants, parsing
from service.runtime.expressions.integers import LONG, wrapped, wrapped_decimal
from service.runtime.expressions.site import Column, Site, Value, bind, failing, null_of
from service.runtime.expressions.spark_types import inner_type, spark_type
from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    INTERVAL_ROOTS,
    LENGTH_MAX,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    format_type,
)

_FLOATING = (TypeRoot.FLOAT, TypeRoot.DOUBLE)
_DOUBLE = spark.DoubleType()
_STRING = spark.StringType()
_LIMITS = {
    TypeRoot.INTEGER: (-(1 << 31), (1 << 31) - 1),
    TypeRoot.BIGINT: (-(1 << 63), (1 << 63) - 1),
}
_INTEGER = LogicalType(TypeRoot.INTEGER)


def cast(site: Site) -> Column:
    """CAST(x AS type), where the type is the call's own."""
    return bind(site[0], lambda x: _cast(site, replace(site[0], column=x), trying=False))


def try_cast(site: Site) -> Column:
    """TRY_CAST(x AS type)."""
    return bind(site[0], lambda x: _cast(site, replace(site[0], column=x), trying=True))


def convert(site: Site, value: Value, target: LogicalType) -> Column:
    """An operand in the type that the function computes in; strings keep their length."""
    if value.type.root is TypeRoot.NULL:
        return null_of(target)
    if _same_values(value.type, target):
        return value.column
    strings = value.type.root in STRING_ROOTS and target.root in STRING_ROOTS
    if strings or (value.type.root in BINARY_ROOTS and target.root in BINARY_ROOTS):
        return value.column
    changed = replace(site, type=target)
    found = bind(value, lambda x: _cast(changed, replace(value, column=x), trying=False))
    return found.cast(inner_type(target))


def _same_values(source: LogicalType, target: LogicalType) -> bool:
    """Whether both types have the same Spark type and no value needs a change."""
    if source.root in TIMESTAMP_ROOTS and target.root is source.root:
        return (source.precision or 0) <= (target.precision or 0)
    if {source.root, target.root} <= (STRING_ROOTS | BINARY_ROOTS):
        return source.root is target.root and (source.length or 0) <= (target.length or 0)
    if source.root is TypeRoot.TIME or source.root in INTERVAL_ROOTS:
        return source.root is target.root
    return bool(inner_type(source) == inner_type(target) and source.root is target.root)


def _cast(site: Site, value: Value, *, trying: bool) -> Column:
    """The cast of a column that may be used more than once."""
    source, target = value.type, site.type
    if source.root is TypeRoot.NULL:
        return null_of(target)
    if source.root is target.root is not TypeRoot.CHAR and _same_values(source, target):
        return value.column
    found = _converted(value.column, source, target)
    if found is None:
        site.refuse(f"no conversion from {format_type(source)} to {format_type(target)}")
    if source.root in STRING_ROOTS and not trying and target.root not in _TOTAL_FOR_TEXT:
        message = f"a text is no {format_type(target.with_nullable(True))}"
        found = sf.coalesce(found, sf.when(value.column.isNotNull(), failing(message, target)))
    return found


_TOTAL_FOR_TEXT = STRING_ROOTS | BINARY_ROOTS


def _converted(x: Column, source: LogicalType, target: LogicalType) -> Column | None:
    root = target.root
    if root in STRING_ROOTS:
        text = _to_text(x, source)
        return None if text is None else _with_length(text, source, target)
    if source.root in STRING_ROOTS:
        return _from_text(x, target)
    if root in INTEGER_BITS:
        return _to_integer(x, source, target)
    if root in _FLOATING:
        return _to_floating(x, source, target)
    if root is TypeRoot.DECIMAL:
        return _to_decimal(x, source, target)
    if root is TypeRoot.BOOLEAN:
        return x != 0 if _is_number(source) else None
    if root is TypeRoot.DATE:
        return _to_date(x, source)
    if root in TIMESTAMP_ROOTS:
        return _to_timestamp(x, source, target)
    if root in BINARY_ROOTS and source.root in BINARY_ROOTS:
        return _binary(x, target)
    return None


def _is_number(logical: LogicalType) -> bool:
    return logical.root in INTEGER_BITS or logical.root in (*_FLOATING, TypeRoot.DECIMAL)


def _to_integer(x: Column, source: LogicalType, target: LogicalType) -> Column | None:
    if source.root is TypeRoot.BOOLEAN:
        return x.cast(spark_type(target))
    if source.root in INTEGER_BITS:
        return wrapped(x.cast(LONG), target)
    if source.root in _FLOATING:
        wide = target if target.root in _LIMITS else _INTEGER
        return wrapped(_saturated(x.cast(_DOUBLE), wide).cast(LONG), target)
    if source.root is TypeRoot.DECIMAL:
        return wrapped(decimal_to_long(x, source), target)
    return None


def _saturated(x: Column, target: LogicalType) -> Column:
    """Java's (int) or (long) of a double: the nearest bound where it is over, 0 for NaN."""
    least, most = (sf.lit(bound).cast(spark_type(target)) for bound in _LIMITS[target.root])
    beyond = sf.when(sf.isnan(x), sf.lit(0)).when(x > 0, most).when(x < 0, least)
    return sf.coalesce(x.try_cast(spark_type(target)), beyond)


def decimal_to_long(x: Column, source: LogicalType) -> Column:
    """The whole part of a DECIMAL, its low 64 bits as BIGINT."""
    precision, scale = source.precision or 0, source.scale or 0
    if precision - scale <= 18:
        return x.cast(LONG)  # Spark drops the fraction too
    whole = sf.when(x >= 0, sf.floor(x)).otherwise(sf.ceil(x)) if scale else x
    return wrapped_decimal(whole.cast(spark.DecimalType(38, 0)))


def _to_floating(x: Column, source: LogicalType, target: LogicalType) -> Column | None:
    if source.root is TypeRoot.DECIMAL:
        return x.cast(_DOUBLE).cast(spark_type(target))
    known = _is_number(source) or source.root is TypeRoot.BOOLEAN
    return x.cast(spark_type(target)) if known else None


def _to_decimal(x: Column, source: LogicalType, target: LogicalType) -> Column | None:
    if source.root in _FLOATING:
        x = x.cast(_DOUBLE)
    elif source.root is TypeRoot.BOOLEAN:
        x = x.cast(spark.IntegerType())
    elif not _is_number(source):
        return None
    return x.try_cast(spark_type(target))


def _to_date(x: Column, source: LogicalType) -> Column | None:
    if source.root is TypeRoot.TIMESTAMP:
        return instants.truncated_date(x)
    # The other kind of timestamp is taken apart by the calendar, before 1970 too.
    return x.cast(instants.DATE) if source.root is TypeRoot.TIMESTAMP_LTZ else None


def _to_timestamp(x: Column, source: LogicalType, target: LogicalType) -> Column | None:
    if source.root is TypeRoot.DATE:
        return x.cast(spark_type(target))
    if source.root not in TIMESTAMP_ROOTS:
        return None
    moved = x.cast(spark_type(target))
    if (source.precision or 0) <= (target.precision or 0):
        return moved
    return instants.with_precision(moved, target)


def _from_text(x: Column, target: LogicalType) -> Column | None:
    root = target.root
    if root in INTEGER_BITS:
        return parsing.to_integer(x, target)
    if root in _FLOATING:
        return parsing.to_floating(x, target)
    if root is TypeRoot.DECIMAL:
        return parsing.to_decimal(x, target)
    if root is TypeRoot.BOOLEAN:
        return parsing.to_boolean(x)
    if root is TypeRoot.DATE:
        return parsing.to_date(x)
    if root in TIMESTAMP_ROOTS:
        return parsing.to_timestamp(x, target)
    return _binary(sf.encode(x, "UTF-8"), target) if root in BINARY_ROOTS else None


def _to_text(x: Column, source: LogicalType) -> Column | None:
    root = source.root
    if root in STRING_ROOTS:
        return x
    if root is TypeRoot.BOOLEAN:
        return sf.upper(x.cast(_STRING))
    if root in BINARY_ROOTS:
        return sf.make_valid_utf8(x.cast(_STRING))
    if root in TIMESTAMP_ROOTS:
        return instants.formatted(x, source.precision or 0)
    return x.cast(_STRING) if _is_number(source) or root is TypeRoot.DATE else None


def _with_length(text: Column, source: LogicalType, target: LogicalType) -> Column:
    length = target.length or 0
    if target.root is TypeRoot.CHAR:
        return sf.rpad(text, length, " ")
    known = source.length if source.root in STRING_ROOTS else None
    if length >= LENGTH_MAX or (known is not None and known <= length):
        return text
    return sf.substring(text, 1, length)


def _binary(x: Column, target: LogicalType) -> Column:
    length = target.length or 0
    if target.root is TypeRoot.BINARY:
        return sf.rpad(x, sf.lit(length), sf.lit(bytearray(b"\x00")))
    return x if length >= LENGTH_MAX else sf.substring(x, 1, length)
