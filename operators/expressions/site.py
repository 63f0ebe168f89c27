"""A call on its way to a closure: typed operands, where it stands, and how to refuse it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from operators.expressions.errors import MalformedExpression, UnsupportedExpression
from state.types import LogicalType, format_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Row, Run


@dataclass(frozen=True, slots=True)
class Value:
    """A compiled expression."""

    run: Run
    type: LogicalType
    literal: object = None
    """What the plan says, where it is a literal: a value as `literals` gives it."""
    is_literal: bool = False
    is_constant: bool = False
    """The same for each row; `constant` is it."""
    constant: Any = None
    column: int | None = None
    """Of the row, where it is just that."""


@dataclass(frozen=True, slots=True)
class Site:
    """One call: its operands compiled, its declared type and its place in the plan."""

    name: str
    type: LogicalType
    path: str
    operands: tuple[Value, ...]
    now_ms: Callable[[], int] | None = None
    """The time of the epoch, where the operator has one."""

    def __len__(self) -> int:
        return len(self.operands)

    def __getitem__(self, index: int) -> Value:
        return self.operands[index]

    def refuse(self, reason: str, *, hint: str = "") -> NoReturn:
        """Say that this call is not computed here, and why."""
        raise UnsupportedExpression(
            f"{self.name} is not supported: {reason}", function=self.name, path=self.path, hint=hint
        )

    def refuse_types(self) -> NoReturn:
        """Say that this call is not computed for operands of these types."""
        self.refuse(f"not computed for {self.types()}")

    def malformed(self, reason: str) -> NoReturn:
        """Say that Flink's planner cannot have written this call."""
        raise MalformedExpression(f"{self.name}: {reason}", function=self.name, path=self.path)

    def text(self, index: int, what: str) -> str:
        """The value of an operand that must be a string literal and not null, such as a pattern."""
        found = self._literal(index, what)
        return found if isinstance(found, str) else self.malformed(f"{what} must be a string")

    def whole(self, index: int, what: str) -> int:
        """The value of an operand that must be an integer literal and not null."""
        found = self._literal(index, what)
        return found if isinstance(found, int) else self.malformed(f"{what} must be an integer")

    def _literal(self, index: int, what: str) -> object:
        operand = self[index]
        if not operand.is_literal or operand.literal is None:
            self.refuse(f"{what} must be a literal")
        return operand.literal

    def types(self) -> str:
        """The operands' types, for messages."""
        return ", ".join(format_type(operand.type) for operand in self.operands)


def constant(value: Any, logical: LogicalType) -> Value:
    """A value that is the same for each row."""
    return Value(lambda _: value, logical, is_constant=True, constant=value)


def lifted(function: Callable[..., Any], *values: Value) -> Run:
    """The function of the values' results; NULL if any of them is.

    One Python call for the node and one for a function that is written in Python.
    """
    if any(value.is_constant and value.constant is None for value in values):
        return lambda _: None
    if len(values) == 1:
        return _of_one(function, values[0].run)
    if len(values) == 2:
        left, right = values
        if right.is_constant:
            return _of_one_and(function, left.run, right.constant)
        return _of_two(function, left.run, right.run)
    return _of_many(function, [value.run for value in values])


def _of_one(function: Callable[[Any], Any], operand: Run) -> Run:
    def run(row: Row) -> Any:
        value = operand(row)
        return None if value is None else function(value)

    return run


def _of_one_and(function: Callable[[Any, Any], Any], operand: Run, fixed: Any) -> Run:
    def run(row: Row) -> Any:
        value = operand(row)
        return None if value is None else function(value, fixed)

    return run


def _of_two(function: Callable[[Any, Any], Any], left: Run, right: Run) -> Run:
    def run(row: Row) -> Any:
        # Both are evaluated, as in Flink: the second may be an error where the first is NULL.
        a, b = left(row), right(row)
        return None if a is None or b is None else function(a, b)

    return run


def _of_many(function: Callable[..., Any], operands: list[Run]) -> Run:
    def run(row: Row) -> Any:
        values = [operand(row) for operand in operands]
        return None if None in values else function(*values)

    return run
