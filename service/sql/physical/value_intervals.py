"""Between which numbers a column's values lie, as far as conditions and constants tell.

Source: Flink `FlinkRelMdColumnInterval` and `FlinkRelMdFilteredColumnInterval` (2.3).
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, TypeAlias

from service.plan.rex import Call, InputRef, Literal, SargLiteral
from service.sql.physical.nodes import (
    CalcSpec,
    ExchangeSpec,
    MiniBatchSpec,
    Node,
    WatermarkSpec,
)
from service.sql.rex import conjuncts

if TYPE_CHECKING:
    from service.plan.rex import Rex, SargRange

Interval: TypeAlias = tuple[Decimal | None, Decimal | None]
"""The least and the greatest value; None where there is no bound. NULL is in every interval."""
_ANY: Interval = (None, None)
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def column_interval(node: Node, column: int, filtered_by: int | None = None) -> Interval:
    """Where a column's values lie, of those rows for which a boolean column is true."""
    spec = node.spec
    if isinstance(spec, (ExchangeSpec, MiniBatchSpec, WatermarkSpec)):
        return column_interval(node.input, column, filtered_by)
    if not isinstance(spec, CalcSpec):
        return _ANY
    conditions = list(conjuncts(spec.condition))
    if filtered_by is not None:
        conditions += _asked(spec.projection[filtered_by])
    found = _of(spec.projection[column], node)
    for each in conditions:
        found = _narrowed(found, _bounds(each, spec.projection[column]))
    return found


def _asked(rex: Rex) -> list[Rex]:
    """What must be true where a FILTER's column is."""
    is_wrapped = isinstance(rex, Call) and rex.name == "IS TRUE"
    return list(conjuncts(rex.operands[0] if is_wrapped and isinstance(rex, Call) else rex))


def _of(rex: Rex, node: Node) -> Interval:
    """Where the values of an expression of a projection lie."""
    if isinstance(rex, InputRef):
        return column_interval(node.input, rex.index)
    if isinstance(rex, Literal):
        value = _number(rex)
        return (value, value)
    if isinstance(rex, Call) and rex.name == "CASE":
        branches = [*rex.operands[1::2]]
        branches += [rex.operands[-1]] if len(rex.operands) % 2 else []
        return _spanned([_of(each, node) for each in branches])
    return _ANY


def _spanned(parts: list[Interval]) -> Interval:
    lows = [low for low, _ in parts if low is not None]
    highs = [high for _, high in parts if high is not None]
    low = min(lows) if len(lows) == len(parts) else None
    return (low, max(highs) if len(highs) == len(parts) else None)


def _bounds(condition: Rex, rex: Rex) -> Interval:
    """What a comparison with a constant says of an expression."""
    if not isinstance(condition, Call) or condition.name not in (*_FLIPPED, "SEARCH"):
        return _ANY
    first, second = condition.operands
    if isinstance(second, SargLiteral):
        return _spanned([_ends(each) for each in second.ranges]) if first == rex else _ANY
    name = condition.name
    if first != rex:
        first, second, name = second, first, _FLIPPED[name]
    if first != rex or not isinstance(second, Literal):
        return _ANY
    value = _number(second)
    return (
        value if name in ("=", ">", ">=") else None,
        value if name in ("=", "<", "<=") else None,
    )


def _narrowed(first: Interval, second: Interval) -> Interval:
    lows = [each[0] for each in (first, second) if each[0] is not None]
    highs = [each[1] for each in (first, second) if each[1] is not None]
    return (max(lows) if lows else None, min(highs) if highs else None)


def _ends(part: SargRange) -> Interval:
    lower, upper = part.lower, part.upper
    return (
        None if lower is None else _decimal(lower.value),
        None if upper is None else _decimal(upper.value),
    )


def _number(rex: Literal) -> Decimal | None:
    return _decimal(rex.value)


def _decimal(value: object) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    try:
        return Decimal(value)
    except InvalidOperation:
        return None
