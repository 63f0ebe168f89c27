"""SEARCH: a value against a search argument, the planner's form of IN, BETWEEN and their mixtures.

Points are compared as Flink's hash set compares them: for FLOAT and DOUBLE -0.0 is not 0.0. Ranges
are compared with the operators, where it is. NULL gives what the argument says.

Source: Flink `SearchOperatorGen` and `Sarg` (2.3).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from operators.expressions.comparison import FLOATING, align, all_of, any_of, compared
from operators.expressions.literals import LiteralError, literal_value
from operators.expressions.site import Site, Value, constant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.expressions.representation import Row, Run
    from operators.expressions.rex import Bound, SargLiteral, SargRange

_NULL_AS = {"UNKNOWN": None, "TRUE": True, "FALSE": False}


def search(site: Site, argument: SargLiteral) -> Run:
    """The condition that the operand of `site` lies in the argument."""
    value, null_as = site[0], _NULL_AS[argument.null_as]
    points = _points(argument.ranges)
    if points is not None:
        return _in_set(site, argument, points, null_as)
    # The operand is computed once, and the ranges look at what came out.
    known = Value(_first, value.type, column=None)
    inside = any_of([_in_range(site, known, argument, part) for part in argument.ranges])
    operand, is_empty = value.run, not argument.ranges

    def run(row: Row) -> bool | None:
        found = operand(row)
        if found is None:
            return null_as
        return False if is_empty else inside((found,))

    return run


def _first(row: Row) -> Any:
    return row[0]


def _points(ranges: Sequence[SargRange]) -> tuple[list[object], bool] | None:
    """The points of the argument, or those that it lacks and True; None if it is neither."""
    if not ranges:
        return None
    if all(_is_point(part) for part in ranges):
        return [part.lower.value for part in ranges if part.lower], False
    if ranges[0].lower is None and ranges[-1].upper is None and len(ranges) > 1:
        gaps = list(itertools.pairwise(ranges))
        if all(_is_gap(before.upper, after.lower) for before, after in gaps):
            return [before.upper.value for before, _ in gaps if before.upper], True
    return None


def _is_point(part: SargRange) -> bool:
    low, high = part.lower, part.upper
    if low is None or high is None:
        return False
    return low.is_inclusive and high.is_inclusive and low.value == high.value


def _is_gap(end: Bound | None, start: Bound | None) -> bool:
    """Whether exactly one point lies between the end of a range and the start of the next."""
    if end is None or start is None:
        return False
    return not end.is_inclusive and not start.is_inclusive and end.value == start.value


def _in_set(
    site: Site, argument: SargLiteral, points: tuple[list[object], bool], null_as: bool | None
) -> Run:
    pairs = [align(site, site[0], _bound(site, argument, point)) for point in points[0]]
    aligned, is_outside = pairs[0][0], points[1]
    members = {_as_member(right.constant) for _, right in pairs}
    operand = aligned.run
    is_floating = aligned.type.root in FLOATING

    def run(row: Row) -> bool | None:
        value = operand(row)
        if value is None:
            return null_as
        if is_floating:
            value = _as_member(value)
        return (value in members) is not is_outside

    return run


def _as_member(value: Any) -> Any:
    """What is equal where Flink's hash set finds it so: -0.0 has no equal among the points."""
    if isinstance(value, float) and value == 0.0 and math.copysign(1.0, value) < 0:
        return "-0.0"
    return value


def _in_range(site: Site, value: Value, argument: SargLiteral, part: SargRange) -> Run:
    if _is_point(part) and part.lower is not None:
        return compared("=", *align(site, value, _bound(site, argument, part.lower.value)))
    found: list[Run] = []
    if part.lower is not None:
        low = _bound(site, argument, part.lower.value)
        operator = ">=" if part.lower.is_inclusive else ">"
        found.append(compared(operator, *align(site, value, low)))
    if part.upper is not None:
        high = _bound(site, argument, part.upper.value)
        operator = "<=" if part.upper.is_inclusive else "<"
        found.append(compared(operator, *align(site, value, high)))
    if not found:
        return lambda _: True
    return found[0] if len(found) == 1 else all_of(found)


def _bound(site: Site, argument: SargLiteral, plain: object) -> Value:
    try:
        known = literal_value(plain, argument.type)
    except LiteralError as error:
        site.refuse(f"a bound of the search argument: {error}")
    return replace(constant(known, argument.type), literal=known, is_literal=True)
