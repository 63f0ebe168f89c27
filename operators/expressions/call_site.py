"""One call of an expression, whatever its operands become: closures here, columns for Spark.

What a call may be is found out from its declared type and its operands' types and literals alone,
so that Calc nodes and operators take the same calls and refuse them in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar

from operators.expressions.errors import (
    MalformedExpression,
    NotALiteral,
    UnsupportedExpression,
)
from state.types import LogicalType, TypeRoot, format_type

if TYPE_CHECKING:
    from collections.abc import Container


class Operand(Protocol):
    """What is known of an operand before a row is seen."""

    @property
    def type(self) -> LogicalType:
        """Its type."""

    @property
    def literal(self) -> object:
        """What the plan says, where it is a literal: a value as `literals` gives it."""

    @property
    def is_literal(self) -> bool:
        """Whether it is one; `literal` is None for NULL, too."""


OperandT = TypeVar("OperandT", bound=Operand, covariant=True)


@dataclass(frozen=True, slots=True)
class CallSite(Generic[OperandT]):
    """One call: its operands, its declared type and its place in the plan."""

    name: str
    type: LogicalType
    path: str
    operands: tuple[OperandT, ...]

    def __len__(self) -> int:
        return len(self.operands)

    def __getitem__(self, index: int) -> OperandT:
        return self.operands[index]

    def refuse(self, reason: str, *, hint: str = "") -> NoReturn:
        """Say that this call is not computed here, and why.

        Raises:
            UnsupportedExpression: Always.
        """
        raise UnsupportedExpression(
            f"{self.name} is not supported: {reason}", function=self.name, path=self.path, hint=hint
        )

    def refuse_types(self, *, hint: str = "") -> NoReturn:
        """Say that this call is not computed for operands of these types.

        Raises:
            UnsupportedExpression: Always.
        """
        self.refuse(f"not computed for {self.types()}", hint=hint)

    def malformed(self, reason: str) -> NoReturn:
        """Say that Flink's planner cannot have written this call.

        Raises:
            MalformedExpression: Always.
        """
        raise MalformedExpression(f"{self.name}: {reason}", function=self.name, path=self.path)

    def of_type(self, index: int, roots: Container[TypeRoot]) -> OperandT:
        """An operand that must be of one of these types."""
        if self[index].type.root not in roots:
            self.refuse_types()
        return self[index]

    def constant(self, index: int, what: str) -> Any:
        """The value of an operand that must be a literal and not null.

        Raises:
            NotALiteral: It is none.
        """
        operand = self[index]
        if not operand.is_literal or operand.literal is None:
            raise NotALiteral(what, index, function=self.name, path=self.path)
        return operand.literal

    def text(self, index: int, what: str) -> str:
        """The value of an operand that must be a string literal and not null, such as a pattern."""
        found = self.constant(index, what)
        return found if isinstance(found, str) else self.malformed(f"{what} must be a string")

    def whole(self, index: int, what: str) -> int:
        """The value of an operand that must be an integer literal and not null."""
        found = self.constant(index, what)
        return found if isinstance(found, int) else self.malformed(f"{what} must be an integer")

    def types(self) -> str:
        """The operands' types, for messages."""
        return ", ".join(format_type(operand.type) for operand in self.operands)
