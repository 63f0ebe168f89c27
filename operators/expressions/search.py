"""SEARCH: a value against a search argument, the planner's form of IN, BETWEEN and their mixtures.

Points are compared as Flink's hash set compares them: for FLOAT and DOUBLE -0.0 is not 0.0. Ranges
are compared with the operators, where it is. NULL gives what the argument says.

Source: Flink `SearchOperatorGen` and `Sarg` (2.3).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from operators.expressions.comparison import align, all_of, any_of, compared
from operators.expressions.search_ranges import Points, bound_value, comparisons, points_of
from operators.expressions.site import Site, Value, literal
from state.types import FLOAT_ROOTS

if TYPE_CHECKING:
    from operators.expressions.representation import Row, Run
    from operators.expressions.rex import SargLiteral, SargRange

_NULL_AS = {"UNKNOWN": None, "TRUE": True, "FALSE": False}


def search(site: Site, argument: SargLiteral) -> Run:
    """The condition that the operand of `site` lies in the argument."""
    value, null_as = site[0], _NULL_AS[argument.null_as]
    points = points_of(argument)
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


def _in_set(site: Site, argument: SargLiteral, points: Points, null_as: bool | None) -> Run:
    pairs = [align(site, site[0], _bound(site, argument, point)) for point in points.values]
    aligned, is_outside = pairs[0][0], points.is_outside
    members = {_as_member(right.constant) for _, right in pairs}
    operand = aligned.run
    is_floating = aligned.type.root in FLOAT_ROOTS

    def run(row: Row) -> bool | None:
        value = operand(row)
        if value is None:
            return null_as
        if is_floating:
            value = _as_member(value)
        return (value in members) is not is_outside

    return run


def _as_member(value: object) -> Any:
    """What is equal where Flink's hash set finds it so: -0.0 has no equal among the points."""
    if isinstance(value, float) and value == 0.0 and math.copysign(1.0, value) < 0:
        return "-0.0"
    return value


def _in_range(site: Site, value: Value, argument: SargLiteral, part: SargRange) -> Run:
    found = [
        compared(operator, *align(site, value, _bound(site, argument, bound)))
        for operator, bound in comparisons(part)
    ]
    if not found:
        return lambda _: True
    return found[0] if len(found) == 1 else all_of(found)


def _bound(site: Site, argument: SargLiteral, plain: object) -> Value:
    return literal(bound_value(site, argument, plain), argument.type)
