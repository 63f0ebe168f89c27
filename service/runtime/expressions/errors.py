"""Errors of turning plan expressions into Spark columns.

    ExpressionError
    ├── UnsupportedExpression   we cannot compute it exactly as Flink does: refused, never skipped
    └── MalformedExpression     it cannot be what Flink wrote: wrong operand count, type or value

Messages name functions, types and places in the plan; they may quote what the plan itself says (a
format, a literal), never values of rows.
"""

from __future__ import annotations


class ExpressionError(Exception):
    """What this tree has in common; never raised itself."""

    code = "expression"

    def __init__(self, message: str, *, function: str, path: str, hint: str = "") -> None:
        super().__init__(f"{message} ({path or '/'})")
        self.message = message
        self.function = function
        """Name of the function, operator or kind of node, as the plan's reader knows it."""
        self.path = path
        """JSON pointer of the expression's node in the plan document."""
        self.hint = hint


class UnsupportedExpression(ExpressionError):
    """An expression that we do not compute, or not to the last bit as Flink does."""

    code = "expression.unsupported"


class MalformedExpression(ExpressionError):
    """An expression that Flink's planner cannot have written."""

    code = "expression.malformed"
