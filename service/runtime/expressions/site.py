"""A call on its way to a column: its operands lowered, and how a column is used twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.connect import functions as sf

from operators.expressions.call_site import CallSite
from service.runtime.expressions.spark_types import inner_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from state.types import LogicalType

# pyspark has no types that mypy may follow here: a Column is opaque to us.
Column = Any

INLINE_WEIGHT_MAX = 4
"""Nodes of an operand that may be written twice into an expression."""


@dataclass(frozen=True, slots=True)
class Value:
    """A lowered expression: a column of exactly the Spark type that its Flink type asks for."""

    column: Column
    type: LogicalType
    weight: int = 1
    """Nodes of the expression it came from."""
    literal: object = None
    """What the plan says, where it is a literal: a Python value of its type (`literals`)."""
    is_literal: bool = False
    whole: object = None
    """The number before it is cut to its type's bits (`integers.Whole`), for a chain of them."""


@dataclass(frozen=True, slots=True)
class Site(CallSite[Value]):
    """One call, its operands lowered."""

    @property
    def columns(self) -> list[Column]:
        """The operands' columns."""
        return [operand.column for operand in self.operands]


def bind(value: Value, body: Callable[[Column], Column]) -> Column:
    """`body` of a column that it may use more than once.

    Spark has no way to name a part of an expression, so what stands twice in the result of each
    nested call would grow with two to the power of the depth. A heavy operand therefore becomes
    the variable of a function over an array of one element; a light one is written out, since
    Spark computes equal parts once.
    """
    if value.weight <= INLINE_WEIGHT_MAX:
        return body(value.column)
    return sf.get(sf.transform(sf.array(value.column), body), sf.lit(0))


def bind_all(values: Sequence[Value], body: Callable[..., Column]) -> Column:
    """As `bind`, for several operands."""
    if not values:
        return body()
    head, *tail = values
    return bind(head, lambda first: bind_all(tail, lambda *rest: body(first, *rest)))


def null_of(logical: LogicalType) -> Column:
    """NULL as a column of the type."""
    return sf.lit(None).cast(inner_type(logical))


def failing(message: str, logical: LogicalType) -> Column:
    """A column that ends the query with `message` where it is evaluated."""
    return sf.raise_error(sf.lit(f"[tailrace:expression] {message}")).cast(inner_type(logical))
