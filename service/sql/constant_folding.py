"""Computing what reads no column: `CAST(1 AS BIGINT) + 1` is 2.

Source: Flink `ExpressionReducer`.
"""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING

from operators.expressions import FUNCTIONS, EvaluationFailed, ExpressionError, compile_rex
from operators.expressions.compiler import compile_inside
from service.plan.rex import Call, InputRef, Literal
from service.sql.literals import text
from service.sql.rex import OverCall, literal, type_of, walk
from state.types import INTERVAL_ROOTS, NUMBER_ROOTS, STRING_ROOTS, TypeRoot

if TYPE_CHECKING:
    from service.plan.rex import Rex

_PLAIN = STRING_ROOTS | NUMBER_ROOTS | {TypeRoot.BOOLEAN}
"""What the literals of a plan hold as it is computed; times have forms of their own."""


def folded(rex: Rex) -> Rex:
    """The value of an expression, if it always has the same; else the expression."""
    parts = list(walk(rex))
    if isinstance(rex, Literal) or any(isinstance(each, (InputRef, OverCall)) for each in parts):
        return rex
    calls = [each for each in parts if isinstance(each, Call)]
    is_pure = all(each.name in FUNCTIONS and FUNCTIONS[each.name].is_pure for each in calls)
    made = type_of(rex)
    if not is_pure or made.root not in _PLAIN:
        return rex
    try:
        value = compile_rex(rex)(())
    except (EvaluationFailed, ExpressionError):
        return rex
    if isinstance(value, float) and not isfinite(value):
        return rex
    if value is None:
        return literal(None, made.with_nullable(True))
    # A text is a CHAR of its own length, unless a CAST says otherwise.
    if isinstance(value, str) and not (isinstance(rex, Call) and rex.name == "CAST"):
        return text(value)
    if isinstance(value, Decimal):
        return literal(f"{value.normalize():f}", made.with_nullable(False))
    is_plain = isinstance(value, (bool, int, str))
    return literal(value if is_plain else str(value), made.with_nullable(False))


def folded_bound(rex: Rex) -> Rex:
    """The same of the bound of a window, which may be an interval that is computed."""
    parts = list(walk(rex))
    made = type_of(rex)
    if isinstance(rex, Literal) or made.root not in INTERVAL_ROOTS:
        return folded(rex)
    if any(isinstance(each, (InputRef, OverCall)) for each in parts):
        return rex
    try:
        value = compile_inside(rex).run(())
    except (EvaluationFailed, ExpressionError):
        return rex
    return rex if value is None else literal(str(value), made.with_nullable(False))
