"""From an expression tree to a column: what nodes become, in their declared types.

An expression is a column of Spark if there is an exact one, else a call of Python for each row
(`in_python`). `check` makes the same columns as `to_column` and throws them away, so what it
accepts is what runs. Columns of Spark Connect are plain descriptions: no server is asked for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from pyspark.sql.connect import functions as sf

from operators.expressions.errors import UnsupportedExpression
from operators.expressions.tree_walk import TreeWalk, check_result, refuse
from service.plan.deadline import check_time
from service.runtime.expressions.builders import BUILDERS
from service.runtime.expressions.in_python import in_python, is_in_python
from service.runtime.expressions.literals import literal
from service.runtime.expressions.search import search
from service.runtime.expressions.site import Column, Site, Value
from service.runtime.expressions.spark_types import inner_type
from state.types import BINARY_ROOTS, STRING_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.message import Message

    from operators.expressions.functions import Function
    from operators.expressions.rex import Call, InputRef, Rex, SargLiteral, SymbolLiteral

DEPTH_MAX = 72
"""Protobuf messages inside each other in one column: the client's limit is 100, and the query
around the column needs some."""
MESSAGES_MAX = 50_000
_TOO_DEEP = "it is nested too deeply or too large to be sent to Spark"
_ALWAYS_EXACT = frozenset({TypeRoot.BOOLEAN, *STRING_ROOTS, *BINARY_ROOTS})
"""Types that every builder's column has already."""


def to_column(rex: Rex, input_columns: Sequence[Column]) -> Column:
    """The Spark column that computes the expression from the columns of its input row.

    Its Spark type is exactly that of the expression's type (`spark_type`).

    Raises:
        UnsupportedExpression: something in it is not computed here exactly as in Flink.
        MalformedExpression: it is not what Flink's planner writes.
    """
    return _lowered(rex, len(input_columns), input_columns.__getitem__)


def check(rex: Rex) -> None:
    """Find out without Spark whether `to_column` will take the expression.

    Raises:
        UnsupportedExpression: as `to_column`.
        MalformedExpression: as `to_column`.
    """
    check_time()
    _lowered(rex, None, lambda index: sf.col(f"f{index}"))


def is_column(rex: Rex) -> bool:
    """Whether an expression that `check` takes is a column of Spark, and no call of Python."""
    try:
        if not is_in_python(rex):
            _on_the_jvm(rex, None, lambda index: sf.col(f"f{index}"))
            return True
    except UnsupportedExpression:
        pass
    return False


def _lowered(rex: Rex, width: int | None, column: Callable[[int], Column]) -> Column:
    if is_in_python(rex):
        return in_python(rex, column)
    try:
        return _on_the_jvm(rex, width, column)
    except UnsupportedExpression:
        # Nothing is refused for the sake of one evaluator: what Python refuses, too, is.
        return in_python(rex, column)


def _on_the_jvm(rex: Rex, width: int | None, column: Callable[[int], Column]) -> Column:
    try:
        value = _Lowering(width, column).value(rex)
        check_result(rex, value.type)
        _check_size(value.column, rex)
    except RecursionError:
        # Spark's client walks a column with several calls a level.
        refuse("an expression", rex, _TOO_DEEP)
    return value.column


class _Lowering(TreeWalk[Value]):
    """What each node becomes: a column, and what is known of it before a row is seen."""

    def __init__(self, width: int | None, column: Callable[[int], Column]) -> None:
        super().__init__(width)
        self._column = column

    def check_type(self, logical: LogicalType) -> None:
        inner_type(logical)

    def reference(self, rex: InputRef) -> Value:
        return Value(self._column(rex.index), rex.type)

    def literal(self, value: object, logical: LogicalType) -> Value:
        return literal(value, logical)

    def symbol(self, rex: SymbolLiteral) -> Value:
        return Value(None, rex.type, literal=rex.value, is_literal=True)

    def call(
        self, call: Call, logical: LogicalType, function: Function, operands: tuple[Value, ...]
    ) -> Value:
        site = Site(call.name, logical, call.path, operands)
        return _finished(site, BUILDERS[function.name](site))

    def search(
        self, call: Call, logical: LogicalType, subject: Value, argument: SargLiteral
    ) -> Value:
        site = Site(call.name, logical, call.path, (subject,))
        return _finished(site, search(site, argument))

    def field(self, row: Value, index: int, logical: LogicalType) -> Value:
        return Value(row.column.getField(row.type.field_names[index]), logical, row.weight + 1)


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
        refuse("an expression", rex, _TOO_DEEP)


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
