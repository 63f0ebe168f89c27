"""The walk over an expression tree: what may stand in it, and the refusals.

What a node becomes is said by who walks: a closure in `compiler`, a Spark column for Calc nodes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Generic, NoReturn, TypeVar

from operators.expressions.call_site import Operand
from operators.expressions.errors import MalformedExpression, UnsupportedExpression
from operators.expressions.functions import FUNCTIONS, UNSUPPORTED_REASONS, Function
from operators.expressions.literals import LiteralError, literal_value
from operators.expressions.rex import (
    Call,
    FieldAccess,
    InputRef,
    Literal,
    SargLiteral,
    SymbolLiteral,
)
from state.types import INTERVAL_ROOTS, TypeRoot, UnsupportedType, format_type

if TYPE_CHECKING:
    from operators.expressions.rex import Rex
    from state.types import LogicalType

NODES_MAX = 10_000
"""Nodes of one expression; Flink's own generated code ends long before."""
_VERSION = 1
ValueT = TypeVar("ValueT", bound=Operand)


def refuse(function: str, rex: Rex, reason: str) -> NoReturn:
    """Say that a node is not computed here, and why.

    Raises:
        UnsupportedExpression: Always.
    """
    raise UnsupportedExpression(
        f"{function} is not supported: {reason}", function=function, path=rex.path
    )


def check_result(rex: Rex, logical: LogicalType) -> None:
    """Refuse a whole expression whose value no column can have.

    Raises:
        UnsupportedExpression: It is an interval, or NULL without a type.
    """
    if logical.root in INTERVAL_ROOTS or logical.root is TypeRoot.NULL:
        refuse("a result", rex, f"a column of type {format_type(logical)} cannot be stored")


class TreeWalk(ABC, Generic[ValueT]):
    """One walk over one expression.

    Args:
        width: The number of columns of a row, where a reference beyond it shall be found.
    """

    depth_max: ClassVar[int] = NODES_MAX
    """Calls inside each other."""

    def __init__(self, width: int | None) -> None:
        self._width = width
        self._nodes = 0

    @abstractmethod
    def check_type(self, logical: LogicalType) -> object:
        """Raise `UnsupportedType` for a type whose values are not computed with."""

    @abstractmethod
    def reference(self, rex: InputRef) -> ValueT:
        """A column of the input."""

    @abstractmethod
    def literal(self, value: object, logical: LogicalType) -> ValueT:
        """A value as `literals` gives it."""

    @abstractmethod
    def symbol(self, rex: SymbolLiteral) -> ValueT:
        """A word that is an operand, such as a unit of time."""

    @abstractmethod
    def call(
        self, call: Call, logical: LogicalType, function: Function, operands: tuple[ValueT, ...]
    ) -> ValueT:
        """A call of a known function with so many operands as it may have."""

    @abstractmethod
    def search(
        self, call: Call, logical: LogicalType, subject: ValueT, argument: SargLiteral
    ) -> ValueT:
        """SEARCH."""

    @abstractmethod
    def field(self, row: ValueT, index: int, logical: LogicalType) -> ValueT:
        """A field of a row; its type allows NULL where the row's does."""

    def value(self, rex: Rex, depth: int = 1) -> ValueT:
        """The expression as a value; operands first.

        Raises:
            UnsupportedExpression: Something in it is not computed here exactly as in Flink.
            MalformedExpression: It is not what Flink's planner writes.
        """
        self._nodes += 1
        if self._nodes > NODES_MAX:
            refuse("an expression", rex, f"it has more than {NODES_MAX} nodes")
        if depth > self.depth_max:
            refuse("an expression", rex, f"more than {self.depth_max} calls inside each other")
        match rex:
            case InputRef():
                return self._reference(rex)
            case Literal():
                return self._literal(rex)
            case SymbolLiteral():
                return self.symbol(rex)
            case Call():
                return self._call(rex, depth)
            case FieldAccess():
                return self._field(rex, depth)
            case SargLiteral():
                raise MalformedExpression(
                    "a search argument outside SEARCH", function="LITERAL", path=rex.path
                )
            case _:
                return refuse(type(rex).__name__, rex, "it belongs to nodes that are not run here")

    def _known_type(self, logical: LogicalType, function: str, rex: Rex) -> None:
        try:
            self.check_type(logical)
        except UnsupportedType as error:
            refuse(function, rex, str(error))

    def _reference(self, rex: InputRef) -> ValueT:
        if self._width is not None and rex.index >= self._width:
            raise MalformedExpression(
                f"the input has {self._width} columns, this is number {rex.index}",
                function="INPUT_REF",
                path=rex.path,
            )
        self._known_type(rex.type, "INPUT_REF", rex)
        return self.reference(rex)

    def _literal(self, rex: Literal) -> ValueT:
        self._known_type(rex.type, "LITERAL", rex)
        try:
            value = literal_value(rex.value, rex.type)
        except LiteralError as error:
            raise MalformedExpression(
                f"a literal of type {format_type(rex.type)}: {error}",
                function="LITERAL",
                path=rex.path,
            ) from error
        return self.literal(value, rex.type)

    def _call(self, call: Call, depth: int) -> ValueT:
        if call.origin != "built-in":
            refuse(call.name, call, "only built-in functions are computed")
        if call.type is None:
            refuse(call.name, call, "the plan does not say its type")
        self._known_type(call.type, call.name, call)
        if call.name == "SEARCH":
            return self._search(call, call.type, depth)
        function = FUNCTIONS.get(call.name)
        if function is None or call.version not in (None, _VERSION):
            refuse(call.name, call, UNSUPPORTED_REASONS.get(call.name, "it is not known here"))
        if not function.least <= len(call.operands) <= function.most:
            refuse(call.name, call, f"not computed with {len(call.operands)} operands")
        operands = tuple(self.value(operand, depth + 1) for operand in call.operands)
        return self.call(call, call.type, function, operands)

    def _search(self, call: Call, logical: LogicalType, depth: int) -> ValueT:
        match call.operands:
            case (subject, SargLiteral() as argument):
                return self.search(call, logical, self.value(subject, depth + 1), argument)
            case _:
                pass
        raise MalformedExpression(
            "SEARCH needs a value and a search argument", function=call.name, path=call.path
        )

    def _field(self, access: FieldAccess, depth: int) -> ValueT:
        row = self.value(access.expression, depth + 1)
        if access.name not in row.type.field_names:
            raise MalformedExpression(
                f"no field {access.name!r} in {format_type(row.type)}",
                function="FIELD_ACCESS",
                path=access.path,
            )
        index = row.type.field_names.index(access.name)
        logical = row.type.children[index]
        self._known_type(logical, "FIELD_ACCESS", access)
        return self.field(row, index, logical.with_nullable(logical.nullable or row.type.nullable))
