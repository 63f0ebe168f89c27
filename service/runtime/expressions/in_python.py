"""Expressions with functions that no column of Spark gives exactly: a call of Python for each row.

It carries texts, numbers, BOOLEAN and DATE; what else an expression reads is refused.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions.beside_spark import evaluated, packed
from operators.expressions.compiler import compile_inside
from operators.expressions.json_functions import IS_JSON
from operators.expressions.rex import Call, InputRef, walk
from operators.expressions.tree_walk import refuse
from service.runtime.expressions.spark_types import spark_type
from state.types import NUMBER_ROOTS, STRING_ROOTS, TypeRoot, format_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.rex import Rex
    from service.runtime.expressions.site import Column, Site

NAMES = frozenset({"JSON_VALUE", "JSON_QUERY", "JSON_EXISTS", *IS_JSON})
_CARRIED = frozenset({TypeRoot.BOOLEAN, TypeRoot.DATE, *NUMBER_ROOTS, *STRING_ROOTS})
_VALUE, _FAILURE = "value", "failure"


def is_in_python(rex: Rex) -> bool:
    """Whether Python evaluates an expression of a Calc node."""
    return any(isinstance(part, Call) and part.name in NAMES for part in walk(rex))


def not_alone(site: Site) -> NoReturn:
    """What stands for such a function among those that become columns."""
    raise AssertionError(f"{site.name} is computed with the expression that it is in")


def in_python(rex: Rex, column: Callable[[int], Column]) -> Column:
    """The column of what Python gives for each row.

    Raises:
        UnsupportedExpression: Python does not compute it, or it reads or gives what is not carried.
    """
    logical = compile_inside(rex).type
    read = {part.index: part.type for part in walk(rex) if isinstance(part, InputRef)}
    for each in (*read.values(), logical):
        if each.root not in _CARRIED:
            refuse("an expression", rex, f"{format_type(each)} beside a JSON function")
    inputs = tuple(sorted(read))
    shape = spark.StructType(
        [
            spark.StructField(_VALUE, spark_type(logical)),
            spark.StructField(_FAILURE, spark.StringType()),
        ]
    )
    function = sf.udf(partial(evaluated, packed(rex), inputs), shape, useArrow=False)
    found = function(*(column(index) for index in inputs)) if inputs else function(sf.lit(0))
    message = sf.concat(sf.lit("[tailrace:expression] "), found.getField(_FAILURE))
    failing = sf.raise_error(message).cast(spark_type(logical))
    return sf.when(found.getField(_FAILURE).isNotNull(), failing).otherwise(found.getField(_VALUE))
