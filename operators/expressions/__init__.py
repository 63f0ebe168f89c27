"""Expressions of a plan, evaluated in Python with Flink's semantics, for operators.

    Rex, walk                      the tree; `service.plan.rex` reads it from a plan
    compile_rex                    a tree to a function of a row's values
    compile_predicate              a condition to a function that is True where it is TRUE
    rex_to_json, rex_from_json     a tree in the spec of an operator

A row's values are those of `state.types`, and None is NULL. Everything about the shape of an
expression is decided when it is compiled: what cannot be computed exactly as Flink does it is
refused with `UnsupportedExpression`, which names the function and its place in the plan. At a row
only `EvaluationFailed` is raised, where Flink ends the job. The session's time zone is UTC.

The same expressions as Spark columns, for Calc nodes, are `service.runtime.expressions`; both are
held to the same recordings of real Flink. What both need stands here once:

    rex  transport  errors  literals            the tree
    tree_walk  functions  call_site             the walk; the table; one call
    operand_rules  families  cast_rules         what a call demands of its operands
    search_ranges  like_patterns                what operands that are literals say
    similar_patterns
    date_formats  time_units  text_grammars

and this is how it is computed in Python:

    representation  site  compiler  builders    what all parts share; what nodes become
    built_by_value
    comparison  search  conditionals            conditions
    integers  decimals  floats  numbers  casts  values
    strings  units  urls  parsing  java_digits  texts
    encodings  kinds
    patterns  java_patterns  character_sets     patterns
    json_functions  json_paths  json_texts      JSON
    hashes                                      HASH_CODE
    instants  reform  temporal  formats  zones  times
    collections  arrays  maps                   arrays, maps, rows
    beside_spark                                what Calc nodes ask Python for
"""

from operators.expressions.compiler import compile_predicate, compile_rex
from operators.expressions.errors import (
    EvaluationFailed,
    ExpressionError,
    MalformedExpression,
    UnsupportedExpression,
)
from operators.expressions.functions import FUNCTIONS, Function
from operators.expressions.rex import Rex, walk
from operators.expressions.transport import rex_from_json, rex_to_json

__all__ = [
    "FUNCTIONS",
    "EvaluationFailed",
    "ExpressionError",
    "Function",
    "MalformedExpression",
    "Rex",
    "UnsupportedExpression",
    "compile_predicate",
    "compile_rex",
    "rex_from_json",
    "rex_to_json",
    "walk",
]
