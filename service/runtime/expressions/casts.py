"""CAST and TRY_CAST as `operators.expressions.cast_rules` says, and other functions' operands."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions import cast_rules
from operators.expressions.integers import INTEGER
from service.runtime.expressions import decimals, instants, parsing
from service.runtime.expressions.integers import LONG, wrapped, wrapped_decimal
from service.runtime.expressions.site import Column, Site, Value, bind, failing, null_of
from service.runtime.expressions.spark_types import inner_type, spark_type
from state.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    INTEGER_BITS,
    INTERVAL_ROOTS,
    LENGTH_MAX,
    MAP_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
)

_DOUBLE = spark.DoubleType()
_STRING = spark.StringType()
_LIMITS = {
    TypeRoot.INTEGER: (-(1 << 31), (1 << 31) - 1),
    TypeRoot.BIGINT: (-(1 << 63), (1 << 63) - 1),
}


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
    if cast_rules.keeps_form(value.type, target) or _same_values(value.type, target):
        return value.column
    changed = replace(site, type=target)
    found = bind(value, lambda x: _cast(changed, replace(value, column=x), trying=False))
    return found.cast(inner_type(target))


def _same_values(source: LogicalType, target: LogicalType) -> bool:
    """Whether both types have the same Spark type and no value needs a change."""
    if source.root in {*TIMESTAMP_ROOTS, TypeRoot.TIME} and target.root is source.root:
        return (source.precision or 0) <= (target.precision or 0)
    if {source.root, target.root} <= (STRING_ROOTS | BINARY_ROOTS):
        return source.root is target.root and (source.length or 0) <= (target.length or 0)
    if source.root in INTERVAL_ROOTS:
        return source.root is target.root
    return bool(inner_type(source) == inner_type(target) and source.root is target.root)


def _keeps_parts(source: LogicalType, target: LogicalType) -> bool:
    """Whether no part of an array, map or row needs a change."""
    if source.children:
        return all(map(_keeps_parts, source.children, target.children))
    if source.root not in STRING_ROOTS | BINARY_ROOTS:
        return _same_values(source, target)
    is_varying = target.root in (TypeRoot.VARCHAR, TypeRoot.VARBINARY)
    fits = (source.length or 0) <= (target.length or 0)
    return (is_varying and fits) or (source.root, source.length) == (target.root, target.length)


def _has_map(logical: LogicalType) -> bool:
    return logical.root in MAP_ROOTS or any(map(_has_map, logical.children))


def _has_row(logical: LogicalType) -> bool:
    return logical.root is TypeRoot.ROW or any(map(_has_row, logical.children))


def _cast(site: Site, value: Value, *, trying: bool) -> Column:
    """The cast of a column that may be used more than once."""
    source, target = value.type, site.type
    if source.root is TypeRoot.NULL:
        return null_of(target)
    is_same = source.root is target.root is not TypeRoot.CHAR and _same_values(source, target)
    if is_same and _keeps_parts(source, target):
        return value.column
    cast_rules.check_conversion(site, source, target)
    if _has_map(source) or _has_row(target):
        site.refuse("maps and rows are cast in Python")
    if source.root is target.root is TypeRoot.ARRAY:
        return _elements(site, value, trying=trying)
    found = _converted(value.column, source, target)
    message = cast_rules.failure_of(source, target, trying=trying)
    if message is not None:
        found = sf.coalesce(found, sf.when(value.column.isNotNull(), failing(message, target)))
    return found


def _elements(site: Site, value: Value, *, trying: bool) -> Column:
    """The cast of an array: no array if an element is a text that cannot be parsed."""
    source, target = value.type.children[0], site.type.children[0]
    inner = replace(site, type=target)

    def element(each: Column) -> Column:
        return _cast(inner, Value(each, source), trying=trying).cast(inner_type(target))

    if not trying or source.root not in (STRING_ROOTS | {TypeRoot.ARRAY}):
        return sf.transform(value.column, element)
    is_none = sf.exists(value.column, lambda each: each.isNotNull() & element(each).isNull())
    return sf.when(~is_none, sf.transform(value.column, element))


def _converted(x: Column, source: LogicalType, target: LogicalType) -> Column:
    root = target.root
    if root in STRING_ROOTS:
        return _with_length(_to_text(x, source), source, target)
    if source.root in STRING_ROOTS:
        return _from_text(x, target)
    if root in INTEGER_BITS:
        return _to_integer(x, source, target)
    if root in FLOAT_ROOTS:
        return _to_floating(x, source, target)
    if root is TypeRoot.DECIMAL:
        return _to_decimal(x, source, target)
    if root is TypeRoot.BOOLEAN:
        return x != (decimals.zero_of(source) if source.root is TypeRoot.DECIMAL else sf.lit(0))
    if root is TypeRoot.DATE:
        return _to_date(x, source)
    if root is TypeRoot.TIME:
        return instants.with_clock_precision(x, target)
    if root in TIMESTAMP_ROOTS:
        return _to_timestamp(x, source, target)
    return _binary(x, target)


def _to_integer(x: Column, source: LogicalType, target: LogicalType) -> Column:
    if source.root is TypeRoot.BOOLEAN:
        return x.cast(spark_type(target))
    if source.root in INTEGER_BITS:
        return wrapped(x.cast(LONG), target)
    if source.root in FLOAT_ROOTS:
        wide = target if target.root in _LIMITS else INTEGER
        return wrapped(saturated(x.cast(_DOUBLE), wide).cast(LONG), target)
    return wrapped(_decimal_to_long(x, source), target)


def saturated(x: Column, target: LogicalType) -> Column:
    """Java's (int) or (long) of a double: the nearest bound where it is over, 0 for NaN."""
    least, most = (sf.lit(bound).cast(spark_type(target)) for bound in _LIMITS[target.root])
    beyond = sf.when(sf.isnan(x), sf.lit(0)).when(x > 0, most).when(x < 0, least)
    return sf.coalesce(x.try_cast(spark_type(target)), beyond)


def _decimal_to_long(x: Column, source: LogicalType) -> Column:
    """The whole part of a DECIMAL, its low 64 bits as BIGINT."""
    precision, scale = source.precision or 0, source.scale or 0
    if precision - scale <= 18:
        return x.cast(LONG)  # Spark drops the fraction too
    whole = (
        sf.when(x >= decimals.zero_of(source), sf.floor(x)).otherwise(sf.ceil(x)) if scale else x
    )
    return wrapped_decimal(whole.cast(spark.DecimalType(38, 0)))


def _to_floating(x: Column, source: LogicalType, target: LogicalType) -> Column:
    if source.root is TypeRoot.DECIMAL:
        return decimals.as_double(x, source).cast(spark_type(target))
    found = x.cast(spark_type(target))
    if target.root is TypeRoot.FLOAT and source.root in INTEGER_BITS:
        # Alone, Spark would leave it out where the FLOAT becomes a DOUBLE, as in a division.
        return found + sf.lit(0).cast(spark_type(target))
    return found


def _to_decimal(x: Column, source: LogicalType, target: LogicalType) -> Column:
    if source.root in FLOAT_ROOTS:
        x = x.cast(_DOUBLE)
    elif source.root is TypeRoot.BOOLEAN:
        x = x.cast(spark.IntegerType())
    return x.try_cast(spark_type(target))


def _to_date(x: Column, source: LogicalType) -> Column:
    if source.root is TypeRoot.TIMESTAMP:
        return instants.truncated_date(x)
    # The other kind of timestamp is taken apart by the calendar, before 1970 too.
    return x.cast(instants.DATE)


def _to_timestamp(x: Column, source: LogicalType, target: LogicalType) -> Column:
    moved = x.cast(spark_type(target))
    if source.root is TypeRoot.DATE or (source.precision or 0) <= (target.precision or 0):
        return moved
    return instants.with_precision(moved, target)


def _from_text(x: Column, target: LogicalType) -> Column:
    root = target.root
    if root in INTEGER_BITS:
        return parsing.to_integer(x, target)
    if root in FLOAT_ROOTS:
        return parsing.to_floating(x, target)
    if root is TypeRoot.DECIMAL:
        return parsing.to_decimal(x, target)
    if root is TypeRoot.BOOLEAN:
        return parsing.to_boolean(x)
    if root is TypeRoot.DATE:
        return parsing.to_date(x)
    if root is TypeRoot.TIME:
        return parsing.to_time(x, target)
    if root in TIMESTAMP_ROOTS:
        return parsing.to_timestamp(x, target)
    return _binary(sf.encode(x, "UTF-8"), target)


def _to_text(x: Column, source: LogicalType) -> Column:
    root = source.root
    if root in STRING_ROOTS:
        return x
    if root is TypeRoot.ARRAY:
        shown = sf.transform(x, lambda each: _shown(each, source.children[0]))
        return sf.concat(sf.lit("["), sf.array_join(shown, ", "), sf.lit("]"))
    if root is TypeRoot.ROW:
        fields = [
            _shown(x.getField(name), kind)
            for name, kind in zip(source.field_names, source.children, strict=True)
        ]
        found = sf.concat(sf.lit("("), sf.concat_ws(", ", *fields), sf.lit(")"))
        return sf.when(x.isNotNull(), found)
    if root is TypeRoot.BOOLEAN:
        return sf.upper(x.cast(_STRING))
    if root in BINARY_ROOTS:
        return sf.make_valid_utf8(x.cast(_STRING))
    if root in TIMESTAMP_ROOTS:
        return instants.formatted(x, source.precision or 0)
    if root is TypeRoot.TIME:
        return instants.formatted_clock(x, source.precision or 0)
    return x.cast(_STRING)


def _shown(x: Column, source: LogicalType) -> Column:
    """The text of an element or field."""
    return sf.coalesce(_to_text(x, source), sf.lit("NULL"))


def _with_length(text: Column, source: LogicalType, target: LogicalType) -> Column:
    length = target.length or 0
    if target.root is TypeRoot.CHAR:
        return sf.rpad(text, length, " ")
    return text if cast_rules.fits_length(source, target) else sf.substring(text, 1, length)


def _binary(x: Column, target: LogicalType) -> Column:
    length = target.length or 0
    if target.root is TypeRoot.BINARY:
        return sf.rpad(x, sf.lit(length), sf.lit(bytearray(b"\x00")))
    return x if length >= LENGTH_MAX else sf.substring(x, 1, length)
