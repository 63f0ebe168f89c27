"""Joins whose condition bounds how far apart two times may be.

`a.ts BETWEEN b.ts - INTERVAL '5' SECOND AND b.ts + INTERVAL '10' SECOND` says that left minus
right lies between -5000 and 10000 ms. A bound that is not reached itself is one ms closer.

Source: Flink `IntervalJoinUtil.extractWindowBoundsFromPredicate` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef, Literal
from service.sql.rex import conjuncts
from state.types import INTERVAL_ROOTS

if TYPE_CHECKING:
    from service.plan.rex import Rex
    from service.sql.algebra import Join

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


@dataclass(frozen=True, slots=True)
class WindowBounds:
    """How far the left time may lie from the right one, in ms."""

    is_event_time: bool
    lower_ms: int
    upper_ms: int
    left_column: int
    right_column: int


@dataclass(frozen=True, slots=True)
class _Term:
    """A time column and what is added to it."""

    column: int
    offset_ms: int
    is_event_time: bool


def window_bounds(join: Join) -> tuple[WindowBounds, list[Rex]] | None:
    """The bounds that a join's condition sets, and its other parts; None if it sets none."""
    width = len(join.left.row)
    lower: int | None = None
    upper: int | None = None
    times: tuple[_Term, _Term] | None = None
    rest: list[Rex] = []
    for part in conjuncts(join.condition):
        found = _comparison(part, width)
        if found is None:
            rest.append(part)
            continue
        operator, left, right = found
        times = times or (left, right)
        distance = right.offset_ms - left.offset_ms
        if operator in (">", ">=", "="):
            bound = distance + (operator == ">")
            lower = bound if lower is None else max(lower, bound)
        if operator in ("<", "<=", "="):
            bound = distance - (operator == "<")
            upper = bound if upper is None else min(upper, bound)
    if times is None or lower is None or upper is None or join.kind in ("SEMI", "ANTI"):
        return None
    left, right = times
    bounds = WindowBounds(left.is_event_time, lower, upper, left.column, right.column - width)
    return bounds, rest


def _comparison(part: Rex, width: int) -> tuple[str, _Term, _Term] | None:
    """A comparison of a left with a right time."""
    if not isinstance(part, Call) or part.name not in _MIRRORED:
        return None
    first, second = (_term(operand) for operand in part.operands)
    if first is None or second is None or first.is_event_time != second.is_event_time:
        return None
    if first.column < width <= second.column:
        return part.name, first, second
    if second.column < width <= first.column:
        return _MIRRORED[part.name], second, first
    return None


def _term(rex: Rex) -> _Term | None:
    offset = 0
    while isinstance(rex, Call) and rex.name in ("+", "-") and len(rex.operands) == 2:
        amount = rex.operands[1]
        if not isinstance(amount, Literal) or amount.type.root not in INTERVAL_ROOTS:
            return None
        offset += int(str(amount.value)) * (1 if rex.name == "+" else -1)
        rex = rex.operands[0]
    if isinstance(rex, InputRef) and rex.type.time_attribute is not None:
        return _Term(rex.index, offset, rex.type.time_attribute == "ROWTIME")
    return None
