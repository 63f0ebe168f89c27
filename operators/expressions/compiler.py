"""From an expression tree to a closure: what nodes become, in their declared types.

Everything about the shape of an expression is looked at here, once: a closure only computes.
"""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from operators.expressions.builders import BUILDERS
from operators.expressions.built_by_value import built
from operators.expressions.decimals import fitted
from operators.expressions.errors import EvaluationFailed, MalformedExpression
from operators.expressions.floats import float32
from operators.expressions.json_texts import JSON_TEXTS, check_operands, check_outermost
from operators.expressions.representation import check_type, to_inside, to_row
from operators.expressions.search import search
from operators.expressions.site import Site, Value, constant, lifted, literal
from operators.expressions.tree_walk import TreeWalk, check_result
from state.types import LogicalType, TypeRoot, format_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.functions import Function
    from operators.expressions.representation import Convert, Row, Run
    from operators.expressions.rex import Call, InputRef, Rex, SargLiteral, SymbolLiteral

DEPTH_MAX = 150
"""Calls inside each other: each is a Python call, and the interpreter allows about a thousand."""


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
    check_result(rex, value.type)
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
    check_outermost(rex)
    return _Compiler(width, now_ms).value(rex)


class _Compiler(TreeWalk[Value]):
    """What each node becomes: a closure, and what is known of it before a row is seen."""

    depth_max = DEPTH_MAX

    def __init__(self, width: int | None, now_ms: Callable[[], int] | None) -> None:
        super().__init__(width)
        self._now_ms = now_ms

    def check_type(self, logical: LogicalType) -> None:
        check_type(logical)

    def reference(self, rex: InputRef) -> Value:
        convert = to_inside(rex.type)
        run: Run = itemgetter(rex.index)
        if convert is not None:
            run = lifted(convert, Value(run, rex.type))
        return Value(run, rex.type, column=rex.index)

    def literal(self, value: object, logical: LogicalType) -> Value:
        return literal(value, logical)

    def symbol(self, rex: SymbolLiteral) -> Value:
        return literal(rex.value, rex.type)

    def call(
        self, call: Call, logical: LogicalType, function: Function, operands: tuple[Value, ...]
    ) -> Value:
        check_operands(call)
        if call.name == "COALESCE" and operands[0].is_json and not operands[0].type.nullable:
            # Flink plans its first operand in its place, so that it is nested as it is.
            return replace(operands[0], type=logical)
        site = Site(call.name, logical, call.path, operands, self._now_ms)
        finished = _finished(site, built(site, BUILDERS[function.name]))
        return _folded(finished, operands) if function.is_pure else finished

    def search(
        self, call: Call, logical: LogicalType, subject: Value, argument: SargLiteral
    ) -> Value:
        check_operands(call)
        site = Site(call.name, logical, call.path, (subject,))
        return _folded(Value(search(site, argument), logical), site.operands)

    def field(self, row: Value, index: int, logical: LogicalType) -> Value:
        field = Value(lifted(itemgetter(index), row), logical)
        convert = to_inside(logical)
        return field if convert is None else Value(lifted(convert, field), logical)


def _finished(site: Site, built: Run | Value) -> Value:
    """The result in exactly the declared type; a DECIMAL that does not fit is NULL."""
    if isinstance(built, Value):
        return replace(built, type=site.type, is_json=False)
    made = Value(built, site.type, is_json=site.name in JSON_TEXTS)
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
    return replace(constant(found, value.type), is_json=value.is_json)
