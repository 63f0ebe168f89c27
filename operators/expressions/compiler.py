"""From an expression tree to a closure: the walk, the declared types, and the refusals.

Everything about the shape of an expression is looked at here, once: a closure only computes.
"""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NoReturn

from operators.expressions.decimals import fitted
from operators.expressions.errors import (
    EvaluationFailed,
    MalformedExpression,
    UnsupportedExpression,
)
from operators.expressions.floats import float32
from operators.expressions.functions import FUNCTIONS, UNSUPPORTED_REASONS
from operators.expressions.literals import LiteralError, literal_value
from operators.expressions.representation import check_type, to_inside, to_row
from operators.expressions.rex import (
    Call,
    FieldAccess,
    InputRef,
    Literal,
    Rex,
    SargLiteral,
    SymbolLiteral,
)
from operators.expressions.search import search
from operators.expressions.site import Site, Value, constant, lifted
from state.types import (
    INTERVAL_ROOTS,
    LogicalType,
    TypeRoot,
    UnsupportedType,
    format_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Convert, Row, Run

NODES_MAX = 10_000
"""Nodes of one expression; Flink's own generated code ends long before."""
DEPTH_MAX = 150
"""Calls inside each other: each is a Python call, and the interpreter allows about a thousand."""
_VERSION = 1


def compile_rex(
    rex: Rex, *, width: int | None = None, now_ms: Callable[[], int] | None = None
) -> Callable[[Row], Any]:
    """The expression as a function of a row's values, with Flink's results to the bit.

    Values are those of `state.types`, None is NULL, and so is the result. The function keeps
    nothing between rows. Cost: about 0.1 microseconds a node, for simple nodes.

    Args:
        rex: Its input references count the values of the row from 0.
        width: The number of values of a row, where a reference beyond it shall be found here.
        now_ms: The time of the epoch in ms since 1970, asked at each row, for NOW and the like.

    Raises:
        UnsupportedExpression: something in it is not computed here exactly as in Flink.
        MalformedExpression: it is not what Flink's planner writes.

    The function raises `EvaluationFailed` for a row for which Flink ends the job.
    """
    value = compile_inside(rex, width=width, now_ms=now_ms)
    if value.type.root in INTERVAL_ROOTS or value.type.root is TypeRoot.NULL:
        _refuse("a result", rex, f"a column of type {format_type(value.type)} cannot be stored")
    if value.column is not None:
        return itemgetter(value.column)
    convert = to_row(value.type)
    if convert is None:
        return value.run
    if value.is_constant:
        return _constant_result(value, convert)
    return lifted(convert, value)


def _constant_result(value: Value, convert: Convert) -> Callable[[Row], Any]:
    if value.constant is None:
        return value.run
    return lambda _: convert(value.constant)


def compile_predicate(
    rex: Rex, *, width: int | None = None, now_ms: Callable[[], int] | None = None
) -> Callable[[Row], bool]:
    """The condition as a function of a row's values: True only where it is TRUE.

    Args and errors are those of `compile_rex`; what is no condition is malformed.
    """
    value = compile_inside(rex, width=width, now_ms=now_ms)
    if value.type.root not in (TypeRoot.BOOLEAN, TypeRoot.NULL):
        raise MalformedExpression(
            f"a condition must be BOOLEAN, not {format_type(value.type)}",
            function="a condition",
            path=rex.path,
        )
    if value.is_constant:
        always = value.constant is True
        return lambda _: always
    run = value.run
    return lambda row: run(row) is True


def compile_inside(
    rex: Rex, *, width: int | None = None, now_ms: Callable[[], int] | None = None
) -> Value:
    """As `compile_rex`, with results as expressions have them inside (`representation`)."""
    return _Compiler(width, now_ms).compile(rex, 1)


def _refuse(function: str, rex: Rex, reason: str) -> NoReturn:
    raise UnsupportedExpression(
        f"{function} is not supported: {reason}", function=function, path=rex.path
    )


class _Compiler:
    """One walk over one expression."""

    def __init__(self, width: int | None, now_ms: Callable[[], int] | None) -> None:
        self._width = width
        self._now_ms = now_ms
        self._nodes = 0

    def compile(self, rex: Rex, depth: int) -> Value:
        """The expression as a value; operands first."""
        self._nodes += 1
        if self._nodes > NODES_MAX:
            _refuse("an expression", rex, f"it has more than {NODES_MAX} nodes")
        if depth > DEPTH_MAX:
            _refuse("an expression", rex, f"more than {DEPTH_MAX} calls inside each other")
        match rex:
            case InputRef():
                return self._reference(rex)
            case Literal():
                return _literal(rex)
            case SymbolLiteral():
                return replace(constant(rex.value, rex.type), literal=rex.value, is_literal=True)
            case Call():
                return self._call(rex, depth)
            case FieldAccess():
                return self._field(rex, depth)
            case SargLiteral():
                raise MalformedExpression(
                    "a search argument outside SEARCH", function="LITERAL", path=rex.path
                )
            case _:
                return _refuse(type(rex).__name__, rex, "it belongs to nodes that are not run here")

    def _reference(self, rex: InputRef) -> Value:
        if self._width is not None and rex.index >= self._width:
            raise MalformedExpression(
                f"the input has {self._width} columns, this is number {rex.index}",
                function="INPUT_REF",
                path=rex.path,
            )
        _known_type(rex.type, "INPUT_REF", rex)
        convert = to_inside(rex.type)
        run: Run = itemgetter(rex.index)
        if convert is not None:
            run = lifted(convert, Value(run, rex.type))
        return Value(run, rex.type, column=rex.index)

    def _call(self, call: Call, depth: int) -> Value:
        if call.origin != "built-in":
            _refuse(call.name, call, "only built-in functions are computed")
        if call.type is None:
            _refuse(call.name, call, "the plan does not say its type")
        _known_type(call.type, call.name, call)
        if call.name == "SEARCH":
            return self._search(call, call.type, depth)
        function = FUNCTIONS.get(call.name)
        if function is None or call.version not in (None, _VERSION):
            _refuse(call.name, call, UNSUPPORTED_REASONS.get(call.name, "it is not known here"))
        if not function.least <= len(call.operands) <= function.most:
            _refuse(call.name, call, f"not computed with {len(call.operands)} operands")
        operands = tuple(self.compile(operand, depth + 1) for operand in call.operands)
        site = Site(call.name, call.type, call.path, operands, self._now_ms)
        finished = _finished(site, function.build(site))
        return _folded(finished, operands) if function.is_pure else finished

    def _search(self, call: Call, logical: LogicalType, depth: int) -> Value:
        match call.operands:
            case (subject, SargLiteral() as argument):
                operands = (self.compile(subject, depth + 1),)
                site = Site(call.name, logical, call.path, operands)
                return _folded(Value(search(site, argument), logical), operands)
            case _:
                pass
        raise MalformedExpression(
            "SEARCH needs a value and a search argument", function=call.name, path=call.path
        )

    def _field(self, access: FieldAccess, depth: int) -> Value:
        row = self.compile(access.expression, depth + 1)
        if access.name not in row.type.field_names:
            raise MalformedExpression(
                f"no field {access.name!r} in {format_type(row.type)}",
                function="FIELD_ACCESS",
                path=access.path,
            )
        index = row.type.field_names.index(access.name)
        logical = row.type.children[index]
        _known_type(logical, "FIELD_ACCESS", access)
        nullable = logical.with_nullable(logical.nullable or row.type.nullable)
        field = Value(lifted(itemgetter(index), row), nullable)
        convert = to_inside(logical)
        return field if convert is None else Value(lifted(convert, field), nullable)


def _known_type(logical: LogicalType, function: str, rex: Rex) -> None:
    try:
        check_type(logical)
    except UnsupportedType as error:
        _refuse(function, rex, str(error))


def _literal(literal: Literal) -> Value:
    _known_type(literal.type, "LITERAL", literal)
    try:
        value = literal_value(literal.value, literal.type)
    except LiteralError as error:
        raise MalformedExpression(
            f"a literal of type {format_type(literal.type)}: {error}",
            function="LITERAL",
            path=literal.path,
        ) from error
    return replace(constant(value, literal.type), literal=value, is_literal=True)


def _finished(site: Site, built: Run | Value) -> Value:
    """The result in exactly the declared type; a DECIMAL that does not fit is NULL."""
    if isinstance(built, Value):
        return replace(built, type=site.type)
    made = Value(built, site.type)
    if site.type.root is TypeRoot.DECIMAL:
        return replace(made, run=lifted(fitted(site.type), made))
    if site.type.root is TypeRoot.FLOAT:
        return replace(made, run=lifted(float32, made))
    return made


def _folded(value: Value, operands: tuple[Value, ...]) -> Value:
    """Computed now, where all operands are known; what fails is left to fail at a row."""
    if value.is_constant or not all(operand.is_constant for operand in operands):
        return value
    try:
        found = value.run(())
    except EvaluationFailed:
        return value
    return constant(found, value.type)
