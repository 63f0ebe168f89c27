"""Errors of compiling plan expressions, into Python or into Spark columns, and of evaluating them.

    ExpressionError
    ├── UnsupportedExpression   we cannot compute it exactly as Flink does: refused, never skipped
    │   ├── NotALiteral         this evaluator needs to know an operand before it sees a row
    │   └── NoPattern           a text that no engine takes for a regular expression
    └── MalformedExpression     it cannot be what Flink wrote: wrong operand count, type or value
    EvaluationFailed            (an OperatorError) a row for which the expression has no value

The first two are raised before any row is seen, so that a pipeline is refused when it is submitted.
Messages name functions, types and places in the plan; they may quote what the plan itself says (a
format, a literal), never values of rows.
"""

from __future__ import annotations

from operators.errors import OperatorError


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
        self.node_id: int | None = None
        """Id of the plan's node that the expression is in; whoever knows the plan sets it."""
        self.node_type: str | None = None
        """That node's type as the plan writes it."""


class UnsupportedExpression(ExpressionError):
    """An expression that we do not compute, or not to the last bit as Flink does."""

    code = "expression.unsupported"


class NotALiteral(UnsupportedExpression):
    """A call is built from an operand that rows may change, or that is NULL.

    Python builds it anew for each value of the operand; a column of Spark cannot.
    """

    def __init__(self, what: str, index: int, *, function: str, path: str) -> None:
        super().__init__(
            f"{function} is not supported: {what} must be a literal", function=function, path=path
        )
        self.what = what.removeprefix("the ").removeprefix("a ")
        """What the operand is to the call."""
        self.index = index
        """Its number."""


class NoPattern(UnsupportedExpression):
    """A regular expression that is none in Java either.

    As a literal it is refused. Where rows bring it the call has no value, as in Flink.
    """


class MalformedExpression(ExpressionError):
    """An expression that Flink's planner cannot have written."""

    code = "expression.malformed"


class EvaluationFailed(OperatorError):
    """An expression has no value for a row where Flink ends the job too: x / 0, a CAST that fails.

    Also a date outside of the years 1 to 9999, which rows cannot hold. The message has no values.
    """

    code = "operator-expression"
