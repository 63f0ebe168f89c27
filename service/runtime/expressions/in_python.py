"""Expressions with functions that no column of Spark gives exactly: a call of Python for each row.

An expression may read columns of all types, and give texts, bytes, numbers, BOOLEAN and DATE, and
arrays and maps of these.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions.beside_spark import evaluated, packed
from operators.expressions.compiler import compile_inside
from operators.expressions.json_functions import IS_JSON
from operators.expressions.json_texts import JSON_TEXTS
from operators.expressions.rex import Call, InputRef, Literal, walk
from operators.expressions.tree_walk import refuse
from service.runtime.expressions.spark_types import spark_type
from state.types import (
    BINARY_ROOTS,
    FLOAT_ROOTS,
    MAP_ROOTS,
    NUMBER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    TypeRoot,
    format_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.rex import Rex
    from service.runtime.expressions.site import Column, Site
    from state.types import LogicalType

NAMES = frozenset(
    {"JSON_VALUE", "JSON_QUERY", "JSON_EXISTS", *IS_JSON}
    | {*JSON_TEXTS, "JSON_STRING", "JSON_QUOTE", "JSON_UNQUOTE"}
    | {"ENCODE", "DECODE", "UNHEX", "FROM_BASE64", "STR_TO_MAP", "INET_ATON", "INET_NTOA"}
    | {"IS_ALPHA", "IS_DIGIT", "IS_DECIMAL", "CONVERT_TZ", "PARSE_URL"}
)
_GIVEN = frozenset({TypeRoot.BOOLEAN, TypeRoot.DATE, *NUMBER_ROOTS, *STRING_ROOTS, *BINARY_ROOTS})
_KEYS = (_GIVEN - FLOAT_ROOTS) | TIMESTAMP_ROOTS
"""Keys of maps that stay different in a `dict`, which a map is in a worker."""
_VALUE, _FAILURE = "value", "failure"


def is_in_python(rex: Rex) -> bool:
    """Whether Python evaluates an expression of a Calc node."""
    return any(isinstance(part, Call) and _needs_python(part) for part in walk(rex))


def _needs_python(call: Call) -> bool:
    if call.name in ("SPLIT", "SPLIT_INDEX") and len(call.operands) > 1:
        between = call.operands[1]
        return not (isinstance(between, Literal) and between.value not in (None, ""))
    return call.name in NAMES or (call.name == "INSTR" and len(call.operands) > 2)


def not_alone(site: Site) -> NoReturn:
    """What stands for such a function among those that become columns."""
    raise AssertionError(f"{site.name} is computed with the expression that it is in")


def in_python(rex: Rex, column: Callable[[int], Column]) -> Column:
    """The column of what Python gives for each row.

    Raises:
        UnsupportedExpression: Python does not compute it, or it gives what is not carried back.
    """
    logical = compile_inside(rex).type
    read = {part.index: part.type for part in walk(rex) if isinstance(part, InputRef)}
    if not _is_given(logical):
        refuse("an expression", rex, f"{format_type(logical)} made in Python")
    for each in read.values():
        _check_carried(rex, each)
    inputs = tuple(sorted(read))
    shape = spark.StructType(
        [
            spark.StructField(_VALUE, spark_type(logical)),
            spark.StructField(_FAILURE, spark.StringType()),
        ]
    )
    function = sf.udf(partial(evaluated, packed(rex), inputs), shape, useArrow=False)
    given = [_carried(column(index), read[index]) for index in inputs]
    found = function(*given) if given else function(sf.lit(0))
    message = sf.concat(sf.lit("[tailrace:expression] "), found.getField(_FAILURE))
    failing = sf.raise_error(message).cast(spark_type(logical))
    return sf.when(found.getField(_FAILURE).isNotNull(), failing).otherwise(found.getField(_VALUE))


def _is_given(logical: LogicalType) -> bool:
    """Whether a worker gives values of this type back."""
    if logical.root is TypeRoot.MAP:
        is_key = logical.children[0].root in _GIVEN - FLOAT_ROOTS
        return is_key and _is_given(logical.children[1])
    if logical.root is TypeRoot.ARRAY:
        return _is_given(logical.children[0])
    return logical.root in _GIVEN


def _check_carried(rex: Rex, logical: LogicalType) -> None:
    if logical.root in MAP_ROOTS and logical.children[0].root not in _KEYS:
        refuse("an expression", rex, f"{format_type(logical)} read in Python")
    for each in logical.children:
        _check_carried(rex, each)


def _carried(column: Column, logical: LogicalType) -> Column:
    """A column as workers are given it.

    Timestamps are texts: a worker would make times of the zone where it runs of them, and none of
    the first day of the year 1.
    """
    kind = spark_type(logical)
    carried = _timeless(kind)
    return column if carried == kind else column.cast(carried)


def _timeless(kind: spark.DataType) -> spark.DataType:
    match kind:
        case spark.TimestampType() | spark.TimestampNTZType():
            return spark.StringType()
        case spark.ArrayType():
            return spark.ArrayType(_timeless(kind.elementType))
        case spark.MapType():
            return spark.MapType(_timeless(kind.keyType), _timeless(kind.valueType))
        case spark.StructType():
            fields = [spark.StructField(each.name, _timeless(each.dataType)) for each in kind]
            return spark.StructType(fields)
        case _:
            return kind
