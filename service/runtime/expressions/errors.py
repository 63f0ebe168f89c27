"""Errors of turning plan expressions into Spark columns: those of `operators.expressions`."""

from __future__ import annotations

from operators.expressions.errors import (
    ExpressionError,
    MalformedExpression,
    UnsupportedExpression,
)

__all__ = ["ExpressionError", "MalformedExpression", "UnsupportedExpression"]
