"""Expressions that no column of Spark gives exactly: a call of Python for each row.

Some functions are computed in Python alone; an expression of others comes here where Spark has no
exact column for it, or could not be sent it. An expression may read and give values of all types.
Workers have times as texts, and maps as arrays of entries.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions.beside_spark import evaluated, evaluated_each, packed
from operators.expressions.compiler import compile_inside
from operators.expressions.functions import FUNCTIONS
from operators.expressions.json_functions import IS_JSON
from operators.expressions.json_texts import JSON_TEXTS
from operators.expressions.rex import Call, InputRef, Literal, walk
from operators.expressions.tree_walk import check_result
from operators.wire import TIME
from service.runtime.expressions.spark_types import spark_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.rex import Rex
    from service.runtime.expressions.site import Column, Site

NAMES = frozenset(
    {"JSON_VALUE", "JSON_QUERY", "JSON_EXISTS", *IS_JSON}
    | {*JSON_TEXTS, "JSON_STRING", "JSON_QUOTE", "JSON_UNQUOTE"}
    | {"ENCODE", "DECODE", "UNHEX", "FROM_BASE64", "STR_TO_MAP", "INET_ATON", "INET_NTOA"}
    | {"IS_ALPHA", "IS_DIGIT", "IS_DECIMAL", "CONVERT_TZ", "PARSE_URL"}
)
"""Functions that are computed in Python alone."""
_VALUE, _FAILURE = "value", "failure"


def is_in_python(rex: Rex) -> bool:
    """Whether an expression has a function that is computed in Python alone."""
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
        UnsupportedExpression: Python does not compute it.
        MalformedExpression: It is not what Flink's planner writes.
    """
    call = _Call(rex)
    function = sf.udf(partial(evaluated, packed(rex), call.inputs), call.shape, useArrow=False)
    return call.value_of(function(call.now, *call.given(column)))


def each_in_python(
    rex: Rex, elements: Column, column: Callable[[Column, int], Column]
) -> tuple[Column, Callable[[Column], Column]]:
    """What Python gives for each element of an array: Spark takes no call of Python in a lambda.

    Args:
        rex: Its input references are columns that an element stands for.
        elements: The array.
        column: Such a column, of an element and its number.

    Returns:
        An array that is to become a column of the DataFrame, and the value of one of its elements.
    """
    call = _Call(rex)

    def row(each: Column) -> Column:
        parts = call.given(lambda at: column(each, at)) or [sf.lit(0)]
        return _struct(*[(f"c{at}", part) for at, part in enumerate(parts)])

    rows = sf.transform(elements, row)
    function = sf.udf(
        partial(evaluated_each, packed(rex), call.inputs),
        spark.ArrayType(call.shape),
        useArrow=False,
    )
    return function(call.now, rows), call.value_of


class _Call:
    """A call of Python: what a worker is given, and what becomes of what it gives."""

    def __init__(self, rex: Rex) -> None:
        logical = compile_inside(rex, now_ms=int).type
        check_result(rex, logical)
        read = {part.index: part.type for part in walk(rex) if isinstance(part, InputRef)}
        self.inputs = tuple(sorted(read))
        self._types = {index: spark_type(each) for index, each in read.items()}
        self._kind = spark_type(logical)
        self.now = sf.col(TIME) if _asks_for_now(rex) else sf.lit(0).cast("bigint")
        self.shape = spark.StructType(
            [
                spark.StructField(_VALUE, _carried_type(self._kind)),
                spark.StructField(_FAILURE, _TEXT),
            ]
        )

    def given(self, column: Callable[[int], Column]) -> list[Column]:
        """The columns that the expression reads, as a worker is given them."""
        return [_carried(column(index), self._types[index]) for index in self.inputs]

    def value_of(self, found: Column) -> Column:
        """The value that a worker gave, unless it had none."""
        message = sf.concat(sf.lit("[tailrace:expression] "), found.getField(_FAILURE))
        failing = sf.raise_error(message).cast(self._kind)
        value = _restored(found.getField(_VALUE), self._kind)
        return sf.when(found.getField(_FAILURE).isNotNull(), failing).otherwise(value)


def _asks_for_now(rex: Rex) -> bool:
    return any(
        isinstance(part, Call) and part.name in FUNCTIONS and not FUNCTIONS[part.name].is_pure
        for part in walk(rex)
    )


_TEXT = spark.StringType()
_KEY, _ENTRY = "key", "value"


def _carried_type(kind: spark.DataType) -> spark.DataType:
    """The type of a column as workers are given it, and give it back.

    Timestamps are texts: a worker would make times of the zone where it runs of them, and none of
    the first day of the year 1. Maps are arrays: not all that can be a key can be one of a `dict`.
    """
    match kind:
        case spark.TimestampType() | spark.TimestampNTZType():
            return _TEXT
        case spark.ArrayType():
            return spark.ArrayType(_carried_type(kind.elementType))
        case spark.MapType():
            entry = [
                spark.StructField(_KEY, _carried_type(kind.keyType)),
                spark.StructField(_ENTRY, _carried_type(kind.valueType)),
            ]
            return spark.ArrayType(spark.StructType(entry))
        case spark.StructType():
            fields = [spark.StructField(each.name, _carried_type(each.dataType)) for each in kind]
            return spark.StructType(fields)
        case _:
            return kind


def _struct(*fields: tuple[str, Column]) -> Column:
    """A struct; in a lambda inside of another one Spark takes no alias for a name."""
    return sf.named_struct(*[part for name, value in fields for part in (sf.lit(name), value)])


def _carried(column: Column, kind: spark.DataType) -> Column:
    """A column as workers are given it."""
    carried = _carried_type(kind)
    if carried == kind:
        return column
    match kind:
        case spark.ArrayType():
            return sf.transform(column, lambda each: _carried(each, kind.elementType))
        case spark.MapType():
            return sf.transform(
                sf.map_entries(column),
                lambda each: _struct(
                    (_KEY, _carried(each.getField(_KEY), kind.keyType)),
                    (_ENTRY, _carried(each.getField(_ENTRY), kind.valueType)),
                ),
            )
        case spark.StructType():
            fields = [
                (each.name, _carried(column.getField(each.name), each.dataType)) for each in kind
            ]
            return sf.when(column.isNotNull(), _struct(*fields))
        case _:
            return column.cast(carried)


def _restored(column: Column, kind: spark.DataType) -> Column:
    """A column of what workers gave."""
    if _carried_type(kind) == kind:
        return column
    match kind:
        case spark.ArrayType():
            return sf.transform(column, lambda each: _restored(each, kind.elementType))
        case spark.MapType():
            return sf.map_from_entries(
                sf.transform(
                    column,
                    lambda each: _struct(
                        (_KEY, _restored(each.getField(_KEY), kind.keyType)),
                        (_ENTRY, _restored(each.getField(_ENTRY), kind.valueType)),
                    ),
                )
            )
        case spark.StructType():
            fields = [
                (each.name, _restored(column.getField(each.name), each.dataType)) for each in kind
            ]
            return sf.when(column.isNotNull(), _struct(*fields))
        case _:
            return column.cast(kind)
