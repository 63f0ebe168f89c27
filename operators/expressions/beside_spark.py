"""Expressions of Calc nodes that Spark has no columns for: evaluated in its Python workers.

The whole expression is, not the one function in it: Spark takes a call of Python not wherever one
may stand, and CASE must not evaluate what it does not take.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from operators.expressions.compiler import compile_rex
from operators.expressions.errors import EvaluationFailed
from operators.expressions.transport import rex_from_json, rex_to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.expressions.representation import Row
    from operators.expressions.rex import Rex


def packed(rex: Rex) -> bytes:
    """An expression as it goes to the workers."""
    return orjson.dumps(rex_to_json(rex))


def evaluated(
    expression: bytes,
    inputs: Sequence[int],
    *values: Any,  # a row's values are of every type that a column may have
) -> tuple[Any, str | None]:
    """The value of an expression, or why it has none: the row decides whether that matters.

    Args:
        expression: As `packed` gives it.
        inputs: The columns that it reads.
        values: Of these, in a row.
    """
    row: list[Any] = [None] * (max(inputs, default=0) + 1)
    for index, value in zip(inputs, values, strict=False):
        row[index] = value
    try:
        return _compiled(expression)(row), None
    except EvaluationFailed as problem:
        return None, str(problem)


@lru_cache(maxsize=256)
def _compiled(expression: bytes) -> Callable[[Row], Any]:
    return compile_rex(rex_from_json(orjson.loads(expression)))
