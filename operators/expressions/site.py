"""A call on its way to a closure: its operands compiled, and functions of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from operators.expressions.call_site import CallSite

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Row, Run
    from state.types import LogicalType


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
    constant: Any = None  # of the type that `type` says, at run time
    column: int | None = None
    """Of the row, where it is just that."""
    is_json: bool = False
    """A text that a JSON function around it takes as it is, without quotes."""


@dataclass(frozen=True, slots=True)
class Site(CallSite[Value]):
    """One call, its operands compiled."""

    now_ms: Callable[[], int] | None = None
    """The time of the epoch, where the operator has one."""


def constant(value: object, logical: LogicalType) -> Value:
    """A value that is the same for each row."""
    return Value(lambda _: value, logical, is_constant=True, constant=value)


def literal(value: object, logical: LogicalType) -> Value:
    """A value that the plan says, as `literals` gives it."""
    return replace(constant(value, logical), literal=value, is_literal=True)


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


def _of_one_and(function: Callable[[Any, Any], Any], operand: Run, fixed: object) -> Run:
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
