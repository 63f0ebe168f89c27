"""From an expression tree to a column: the walk, the declared types, and the refusals.

`check` makes the same columns as `to_column` and throws them away, so what it accepts is what runs.
Columns of Spark Connect are plain descriptions: no server is asked for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # it has no types
from pyspark.sql.connect import functions as sf

from service.plan.rex import Call, FieldAccess, InputRef, Literal, SargLiteral, SymbolLiteral
from service.runtime.expressions.errors import MalformedExpression, UnsupportedExpression
from service.runtime.expressions.functions import FUNCTIONS, UNSUPPORTED_REASONS
from service.runtime.expressions.literals import LiteralError, literal_column, literal_value
from service.runtime.expressions.search import search
from service.runtime.expressions.site import Column, Site, Value
from service.runtime.expressions.spark_types import inner_type
from state.types import (
    BINARY_ROOTS,
    INTERVAL_ROOTS,
    STRING_ROOTS,
    LogicalType,
    TypeRoot,
    UnsupportedType,
    format_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.message import Message

    from service.plan.rex import Rex

NODES_MAX = 10_000
"""Nodes of one expression; Flink's own generated code ends long before."""
DEPTH_MAX = 72
"""Protobuf messages inside each other in one column: the client's limit is 100, and the query
around the column needs some."""
MESSAGES_MAX = 50_000
_TOO_DEEP = "it is nested too deeply or too large to be sent to Spark"
_VERSION = 1
_ALWAYS_EXACT = frozenset({TypeRoot.BOOLEAN, *STRING_ROOTS, *BINARY_ROOTS})
"""Types that every builder's column has already."""


def to_column(rex: Rex, input_columns: Sequence[Column]) -> Column:
    """The Spark column that computes the expression from the columns of its input row.

    Its Spark type is exactly that of the expression's type (`spark_type`).

    Raises:
        UnsupportedExpression: something in it is not computed here exactly as in Flink.
        MalformedExpression: it is not what Flink's planner writes.
    """

    def column(reference: InputRef) -> Column:
        if reference.index >= len(input_columns):
            raise MalformedExpression(
                f"the input has {len(input_columns)} columns, this is number {reference.index}",
                function="INPUT_REF",
                path=reference.path,
            )
        return input_columns[reference.index]

    return _lowered(rex, column)


def check(rex: Rex) -> None:
    """Find out without Spark whether `to_column` will take the expression.

    Raises:
        UnsupportedExpression: as `to_column`.
        MalformedExpression: as `to_column`.
    """
    _lowered(rex, lambda reference: sf.col(f"f{reference.index}"))


def _lowered(rex: Rex, column: Callable[[InputRef], Column]) -> Column:
    try:
        return _column(rex, column)
    except RecursionError:
        # Spark's client walks a column with several calls a level.
        _refuse("an expression", rex, _TOO_DEEP)


def _column(rex: Rex, column: Callable[[InputRef], Column]) -> Column:
    value = _Lowering(column).lower(rex)
    if value.type.root in INTERVAL_ROOTS or value.type.root is TypeRoot.NULL:
        _refuse("a result", rex, f"a column of type {format_type(value.type)} cannot be stored")
    _check_size(value.column, rex)
    return value.column


def _refuse(function: str, rex: Rex, reason: str) -> NoReturn:
    raise UnsupportedExpression(
        f"{function} is not supported: {reason}", function=function, path=rex.path
    )


class _Lowering:
    """One walk over one expression."""

    def __init__(self, column: Callable[[InputRef], Column]) -> None:
        self._column = column
        self._nodes = 0

    def lower(self, rex: Rex) -> Value:
        """The expression as a value; operands first."""
        self._nodes += 1
        if self._nodes > NODES_MAX:
            _refuse("an expression", rex, f"it has more than {NODES_MAX} nodes")
        match rex:
            case InputRef():
                _known_type(rex.type, "INPUT_REF", rex)
                return Value(self._column(rex), rex.type)
            case Literal():
                return _literal(rex, rex.value)
            case SymbolLiteral():
                return Value(None, rex.type, literal=rex.value, is_literal=True)
            case Call():
                return self._call(rex)
            case FieldAccess():
                return self._field(rex)
            case SargLiteral():
                raise MalformedExpression(
                    "a search argument outside SEARCH", function="LITERAL", path=rex.path
                )
            case _:
                pass
        return _refuse(type(rex).__name__, rex, "it belongs to nodes that are not run here")

    def _call(self, call: Call) -> Value:
        if call.origin != "built-in":
            _refuse(call.name, call, "only built-in functions are computed")
        if call.type is None:
            _refuse(call.name, call, "the plan does not say its type")
        _known_type(call.type, call.name, call)
        if call.name == "SEARCH":
            return self._search(call, call.type)
        function = FUNCTIONS.get(call.name)
        if function is None or call.version not in (None, _VERSION):
            _refuse(call.name, call, UNSUPPORTED_REASONS.get(call.name, "it is not known here"))
        if not function.least <= len(call.operands) <= function.most:
            _refuse(call.name, call, f"not computed with {len(call.operands)} operands")
        site = Site(call.name, call.type, call.path, self._operands(call))
        return _finished(site, function.build(site))

    def _operands(self, call: Call) -> tuple[Value, ...]:
        return tuple(self.lower(operand) for operand in call.operands)

    def _search(self, call: Call, logical: LogicalType) -> Value:
        match call.operands:
            case (subject, SargLiteral() as argument):
                site = Site(call.name, logical, call.path, (self.lower(subject),))
                return _finished(site, search(site, argument))
            case _:
                pass
        raise MalformedExpression(
            "SEARCH needs a value and a search argument", function=call.name, path=call.path
        )

    def _field(self, access: FieldAccess) -> Value:
        row = self.lower(access.expression)
        if access.name not in row.type.field_names:
            raise MalformedExpression(
                f"no field {access.name!r} in {format_type(row.type)}",
                function="FIELD_ACCESS",
                path=access.path,
            )
        logical = row.type.children[row.type.field_names.index(access.name)]
        _known_type(logical, "FIELD_ACCESS", access)
        nullable = logical.with_nullable(logical.nullable or row.type.nullable)
        return Value(row.column.getField(access.name), nullable, row.weight + 1)


def _known_type(logical: LogicalType, function: str, rex: Rex) -> None:
    try:
        inner_type(logical)
    except UnsupportedType as error:
        _refuse(function, rex, str(error))


def _literal(literal: Literal, plain: object) -> Value:
    _known_type(literal.type, "LITERAL", literal)
    try:
        value = literal_value(plain, literal.type)
    except LiteralError as error:
        raise MalformedExpression(
            f"a literal of type {format_type(literal.type)}: {error}",
            function="LITERAL",
            path=literal.path,
        ) from error
    column = literal_column(value, literal.type)
    return Value(column, literal.type, literal=value, is_literal=True)


def _finished(site: Site, built: Column | Value) -> Value:
    """The result in exactly the declared type; a DECIMAL that does not fit is NULL."""
    if isinstance(built, Value):
        return built
    weight = 1 + sum(operand.weight for operand in site.operands)
    root = site.type.root
    if root in _ALWAYS_EXACT:
        return Value(built, site.type, weight)
    target = inner_type(site.type)
    exact = built.try_cast(target) if root is TypeRoot.DECIMAL else built.cast(target)
    return Value(exact, site.type, weight)


def _check_size(column: Column, rex: Rex) -> None:
    """Refuse what the client could not send: its messages may be nested a hundred deep at most."""
    try:
        depth, count = _extent(column.to_plan(None))
    except DecodeError:
        depth, count = DEPTH_MAX + 1, 0
    if depth > DEPTH_MAX or count > MESSAGES_MAX:
        _refuse("an expression", rex, _TOO_DEEP)


def _extent(message: Message) -> tuple[int, int]:
    """How deep and how many the messages inside one are."""
    depth, count = 1, 0
    pending = [(message, 1)]
    while pending:
        found, level = pending.pop()
        depth, count = max(depth, level), count + 1
        for field, value in found.ListFields():
            if field.message_type is None:
                continue
            inner = value if field.is_repeated else (value,)
            pending.extend((part, level + 1) for part in inner)
    return depth, count
