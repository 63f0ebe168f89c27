"""Expressions of a plan as Spark columns with Flink's semantics.

    to_column      an expression tree and the columns of its input row, to a column
    check          whether `to_column` will take it, without a server
    spark_type     the Spark type of a column for a logical type
    FUNCTIONS      the table of all functions, from which reference pages are made

What cannot be computed exactly as Flink does it is refused with `UnsupportedExpression`, which
names the function and its place in the plan. The session must have the time zone UTC and ANSI mode
on, both as the service sets them.

    errors  site  spark_types  literals       what all parts share
    lower  functions                          the walk, and the table of functions
    comparison  search  conditionals          conditions
    integers  decimals  numbers  casts        values
    strings  patterns  parsing                texts
    instants  temporal  formats               times
    collections                               arrays, maps, rows
"""

from __future__ import annotations

from service.runtime.expressions.errors import (
    ExpressionError,
    MalformedExpression,
    UnsupportedExpression,
)
from service.runtime.expressions.functions import FUNCTIONS, Function
from service.runtime.expressions.lower import check, to_column
from service.runtime.expressions.spark_types import spark_type

__all__ = [
    "FUNCTIONS",
    "ExpressionError",
    "Function",
    "MalformedExpression",
    "UnsupportedExpression",
    "check",
    "spark_type",
    "to_column",
]
