"""Making and rewriting expressions: the frozen tree of `service.plan.rex`, built instead of read.

An expression refers to columns of its input by position. Rules move expressions from one input to
another; every such move is one of the functions here.
"""

from __future__ import annotations

import typing
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias, overload

from service.plan.rex import (
    Bound,
    Call,
    FieldAccess,
    InputRef,
    Literal,
    PlanValue,
    Rex,
    SargLiteral,
    SargRange,
    SymbolLiteral,
)
from service.sql.deadline import check_time
from service.sql.errors import SqlTooLarge
from service.sql.types import common_type
from state.types import NUMBER_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

BOOLEAN = LogicalType(TypeRoot.BOOLEAN)
OPPOSITES = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""Of each comparison that which is true where it is false."""
PARTS_MAX = 60_000
"""Parts of one expression, as many as words of a query: merged queries may double it each time."""
_SYNTAX = {
    "=": "BINARY", "<>": "BINARY", "<": "BINARY", ">": "BINARY", "<=": "BINARY", ">=": "BINARY",
    "+": "BINARY", "-": "BINARY", "*": "BINARY", "/": "BINARY", "||": "BINARY",
    "AND": "BINARY", "OR": "BINARY", "NOT": "PREFIX", "IS NULL": "POSTFIX",
    "IS NOT NULL": "POSTFIX", "IS TRUE": "POSTFIX", "IS FALSE": "POSTFIX",
    "IS NOT TRUE": "POSTFIX", "IS NOT FALSE": "POSTFIX", "CASE": "SPECIAL", "CAST": "SPECIAL",
    "LIKE": "SPECIAL", "SIMILAR TO": "SPECIAL", "SEARCH": "INTERNAL", "IS DISTINCT FROM": "BINARY",
    "IS NOT DISTINCT FROM": "BINARY",
}  # fmt: skip  # a list of names, several a line


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column and a direction."""

    expression: Rex
    is_ascending: bool
    nulls_last: bool


@dataclass(frozen=True, slots=True)
class FrameBound:
    """An end of an OVER window."""

    kind: str
    """UNBOUNDED, CURRENT_ROW or BOUNDED."""
    is_preceding: bool = True
    offset: Literal | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows that an OVER function sees."""

    is_rows: bool
    lower: FrameBound
    upper: FrameBound


@dataclass(frozen=True, slots=True)
class OverCall:
    """A function over a window of rows; only in projections, until a rule takes it out."""

    name: str
    operands: tuple[Rex, ...]
    partition: tuple[Rex, ...]
    order: tuple[SortKey, ...]
    frame: Frame
    type: LogicalType
    is_distinct: bool = False
    path: str = ""


Expression: TypeAlias = Rex | OverCall


def ref(index: int, logical: LogicalType) -> InputRef:
    """A column of the input."""
    return InputRef(index, logical, "")


def literal(value: PlanValue, logical: LogicalType) -> Literal:
    """One value."""
    return Literal(value, logical, "")


TRUE = literal(True, BOOLEAN.with_nullable(False))


def call(
    name: str, operands: Sequence[Expression], logical: LogicalType, *, syntax: str = ""
) -> Call:
    """A built-in function or operator."""
    chosen = syntax or _SYNTAX.get(name, "FUNCTION")
    inside = tuple(map(as_operand, operands))
    return Call(name, 1, "built-in", inside, logical, chosen, None, "")


def as_operand(expression: Expression) -> Rex:
    """An expression as a part of another.

    In a select list an OVER function may be one, until `split_over` takes it out. The tree of a
    plan has no such operand, so its types have none: this is the one place that passes over it.
    """
    return typing.cast("Rex", expression)  # as told above: no type could say it


@overload
def cast(operand: Rex, logical: LogicalType) -> Rex: ...
@overload
def cast(operand: Expression, logical: LogicalType) -> Expression: ...
def cast(operand: Expression, logical: LogicalType) -> Expression:
    """The operand as another type; itself if it has it. NULL is that type's NULL, as in Flink."""
    if is_null(operand):
        return literal(None, logical.with_nullable(True))
    return operand if type_of(operand) == logical else call("CAST", [operand], logical)


def is_null(rex: Expression) -> bool:
    """Whether it is NULL, of a type or of none yet."""
    return isinstance(rex, Literal) and rex.value is None


def type_of(rex: Expression) -> LogicalType:
    """The type of an expression."""
    if isinstance(rex, FieldAccess):
        row = type_of(rex.expression)
        return row.children[row.field_names.index(rex.name)]
    logical = rex.type
    assert logical is not None, "an expression that the binder made has a type"
    return logical


def conjunction(parts: Sequence[Rex]) -> Rex | None:
    """All of the conditions; None if there is none."""
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]
    nullable = any(type_of(part).nullable for part in parts)
    return call("AND", parts, BOOLEAN.with_nullable(nullable))


def conjuncts(condition: Rex | None) -> list[Rex]:
    """The parts of a condition that must all hold, without repetitions and TRUE."""
    found: dict[Rex, None] = {}
    pending = [] if condition is None else [condition]
    while pending:
        part = pending.pop()
        if isinstance(part, Call) and part.name == "AND":
            pending.extend(reversed(part.operands))
        elif not is_true(part):
            found[part] = None
    return list(found)


def is_true(rex: Rex) -> bool:
    """Whether this is the literal TRUE."""
    return isinstance(rex, Literal) and rex.value is True


def inputs_of(rex: Expression) -> frozenset[int]:
    """The columns that an expression reads."""
    return frozenset(part.index for part in walk(rex) if isinstance(part, InputRef))


def inputs_of_all(expressions: Iterable[Expression]) -> frozenset[int]:
    """The columns that any of the expressions reads."""
    found: set[int] = set()
    for rex in expressions:
        found |= inputs_of(rex)
    return frozenset(found)


def walk(rex: Expression) -> Iterator[Expression]:
    """The expression and all below it, parents first, from the left."""
    pending: list[Expression] = [rex]
    while pending:
        part = pending.pop()
        yield part
        pending.extend(reversed(_children(part)))


def _children(rex: Expression) -> tuple[Expression, ...]:
    match rex:
        case Call():
            return rex.operands
        case FieldAccess():
            return (rex.expression,)
        case OverCall():
            return (*rex.operands, *rex.partition, *(key.expression for key in rex.order))
        case _:
            return ()


@overload
def rewrite(rex: Rex, change: Callable[[InputRef], Rex]) -> Rex: ...
@overload
def rewrite(rex: Expression, change: Callable[[InputRef], Rex]) -> Expression: ...
def rewrite(rex: Expression, change: Callable[[InputRef], Rex]) -> Expression:
    """The expression with every column replaced."""
    match rex:
        case InputRef():
            return change(rex)
        case Call():
            check_time()
            operands = tuple(rewrite(operand, change) for operand in rex.operands)
            return rex if operands == rex.operands else replace(rex, operands=operands)
        case FieldAccess():
            return replace(rex, expression=rewrite(rex.expression, change))
        case OverCall():
            return _rewrite_over(rex, change)
        case _:
            return rex


def _rewrite_over(rex: OverCall, change: Callable[[InputRef], Rex]) -> OverCall:
    def each(part: Rex) -> Rex:
        return rewrite(part, change)

    order = tuple(replace(key, expression=each(key.expression)) for key in rex.order)
    return replace(
        rex,
        operands=tuple(map(each, rex.operands)),
        partition=tuple(map(each, rex.partition)),
        order=order,
    )


@overload
def remap(rex: Rex, positions: Mapping[int, int]) -> Rex: ...
@overload
def remap(rex: Expression, positions: Mapping[int, int]) -> Expression: ...
def remap(rex: Expression, positions: Mapping[int, int]) -> Expression:
    """The expression over an input whose columns have moved."""
    return rewrite(rex, lambda column: replace(column, index=positions[column.index]))


@overload
def shift(rex: Rex, by: int) -> Rex: ...
@overload
def shift(rex: Expression, by: int) -> Expression: ...
def shift(rex: Expression, by: int) -> Expression:
    """The expression over an input that begins further right."""
    return rewrite(rex, lambda column: replace(column, index=column.index + by))


@overload
def bounded(rex: Rex) -> Rex: ...
@overload
def bounded(rex: Expression) -> Expression: ...
def bounded(rex: Expression) -> Expression:
    """The expression, which may hold one part in many places.

    Raises:
        SqlTooLarge: It has more than `PARTS_MAX` parts.
    """
    check_time()
    if sum(1 for _ in islice(walk(rex), PARTS_MAX + 1)) > PARTS_MAX:
        raise SqlTooLarge(f"an expression that stands for more than {PARTS_MAX} parts")
    return rex


@overload
def substitute(rex: Rex, expressions: Sequence[Rex]) -> Rex: ...
@overload
def substitute(rex: Expression, expressions: Sequence[Expression]) -> Expression: ...
def substitute(rex: Expression, expressions: Sequence[Expression]) -> Expression:
    """The expression with each column replaced by what a projection below it computes.

    Raises:
        SqlTooLarge: It has more than `PARTS_MAX` parts then.
    """
    return bounded(rewrite(rex, lambda column: as_operand(expressions[column.index])))


def column_of(rex: Expression) -> int:
    """The position of an expression that is known to be a column of the input."""
    assert isinstance(rex, InputRef), "what stands here is a column"
    return rex.index


def has_over(expressions: Iterable[Expression]) -> bool:
    """Whether an OVER function is among or inside the expressions."""
    return any(isinstance(part, OverCall) for rex in expressions for part in walk(rex))


def is_constant(rex: Expression) -> bool:
    """Whether an expression reads no column."""
    return isinstance(rex, (Literal, SargLiteral, SymbolLiteral))


def search(value: Rex, ranges: Sequence[tuple[Rex, Rex]], made: LogicalType) -> Rex:
    """A search argument: the value is in one of the ranges, ends included.

    Its type holds all ends: in `BETWEEN 1 AND 2.5` one is an INT, the other is none.
    """
    found = []
    for low, high in ranges:
        assert isinstance(low, Literal), "the caller has checked it"
        assert isinstance(high, Literal), "the caller has checked it"
        assert low.value is not None, "the caller has checked it"
        assert high.value is not None, "the caller has checked it"
        found.append(SargRange(Bound(low.value, True), Bound(high.value, True)))
    kinds = [type_of(end) for pair in ranges for end in pair]
    target = kinds[0]
    if {each.root for each in kinds} <= NUMBER_ROOTS:
        target = common_type(kinds) or target
    argument = SargLiteral(tuple(dict.fromkeys(found)), "UNKNOWN", target, "")
    return call("SEARCH", [value, argument], made)
