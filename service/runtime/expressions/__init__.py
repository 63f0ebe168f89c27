"""Expressions of a plan as Spark columns with Flink's semantics.

    to_column      an expression tree and the columns of its input row, to a column
    check          whether `to_column` will take it, without a server
    is_column      whether it needs no call of Python
    spark_type     the Spark type of a column for a logical type

What has no exact column runs in Python, row by row. What cannot be computed there exactly as Flink
does it either is refused with `UnsupportedExpression`, which names the function and its place in
the plan. The session must have the time zone UTC and ANSI mode on, both as the service sets them.

What is the same for expressions in Python stands in `operators.expressions`: the walk, the table of
functions, what these demand of their operands, and the errors. Here is what becomes of them:

    lower  builders                           what each node and each function becomes
    site  spark_types  literals               what all parts share
    comparison  search  conditionals          conditions
    integers  decimals  numbers  casts        values
    strings  patterns  parsing                texts
    instants  temporal  formats  zones        times
    collections  arrays  maps                 arrays, maps, rows
    hashes                                    HASH_CODE
    in_python                                 what Python evaluates
"""

from __future__ import annotations

from operators.expressions.errors import (
    ExpressionError,
    MalformedExpression,
    UnsupportedExpression,
)
from service.runtime.expressions.lower import check, is_column, to_column
from service.runtime.expressions.spark_types import spark_type

__all__ = [
    "ExpressionError",
    "MalformedExpression",
    "UnsupportedExpression",
    "check",
    "is_column",
    "spark_type",
    "to_column",
]
