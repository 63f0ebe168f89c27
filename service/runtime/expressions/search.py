"""SEARCH: a value against a search argument, the planner's form of IN, BETWEEN and their mixtures.

Points are compared as Flink's hash set compares them: for FLOAT and DOUBLE -0.0 is not 0.0. Ranges
are compared with the operators, where it is. NULL gives what the argument says.

Source: Flink `SearchOperatorGen` and `Sarg` (2.3), checked by running it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as sf

from service.runtime.expressions.comparison import FLOATING, align, compared, is_negative_zero
from service.runtime.expressions.literals import LiteralError, literal_column, literal_value
from service.runtime.expressions.site import Column, Site, Value, bind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan.rex import Bound, SargLiteral, SargRange

_SET_MIN = 2
"""Points from which Spark's IN, which becomes a hash set, is written instead of `=`."""


@dataclass(frozen=True, slots=True)
class _Points:
    values: tuple[object, ...]
    outside: bool


def search(site: Site, argument: SargLiteral) -> Column:
    """The condition that the first operand of `site` lies in the argument."""
    return bind(site[0], lambda x: _search(site, replace(site[0], column=x), argument))


def _search(site: Site, value: Value, argument: SargLiteral) -> Column:
    points = _points(argument.ranges)
    if not argument.ranges:
        found = sf.lit(False)
    elif points is not None:
        inside = _in_set(site, value, argument, points.values)
        found = ~inside if points.outside else inside
    else:
        found = _any([_in_range(site, value, argument, part) for part in argument.ranges])
    if argument.null_as == "UNKNOWN":
        return sf.when(value.column.isNotNull(), found)
    return sf.coalesce(sf.when(value.column.isNotNull(), found), sf.lit(argument.null_as == "TRUE"))


def _points(ranges: Sequence[SargRange]) -> _Points | None:
    """The argument as a set of points or of all but some points; None if it is neither."""
    if not ranges:
        return None
    if all(_is_point(part) for part in ranges):
        return _Points(tuple(part.lower.value for part in ranges if part.lower), outside=False)
    if ranges[0].lower is None and ranges[-1].upper is None and len(ranges) > 1:
        gaps = list(itertools.pairwise(ranges))
        if all(_is_gap(before.upper, after.lower) for before, after in gaps):
            return _Points(tuple(b.upper.value for b, _ in gaps if b.upper), outside=True)
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


def _in_set(site: Site, value: Value, argument: SargLiteral, points: tuple[object, ...]) -> Column:
    pairs = [align(site, value, _bound(site, argument, point)) for point in points]
    left = pairs[0][0].column
    members = [right for _, right in pairs]
    if value.type.root in FLOATING:
        return _any([_same_float(left, member) for member in members])
    if len(members) < _SET_MIN:
        return left == members[0].column
    return left.isin(*(member.column for member in members))


def _same_float(left: Column, right: Value) -> Column:
    equal = left == right.column
    return equal & ~is_negative_zero(left) if right.literal == 0 else equal


def _in_range(site: Site, value: Value, argument: SargLiteral, part: SargRange) -> Column:
    if _is_point(part) and part.lower is not None:
        return compared("=", *align(site, value, _bound(site, argument, part.lower.value)))
    found: list[Column] = []
    if part.lower is not None:
        low = _bound(site, argument, part.lower.value)
        operator = ">=" if part.lower.is_inclusive else ">"
        found.append(compared(operator, *align(site, value, low)))
    if part.upper is not None:
        high = _bound(site, argument, part.upper.value)
        operator = "<=" if part.upper.is_inclusive else "<"
        found.append(compared(operator, *align(site, value, high)))
    if not found:
        return value.column.isNotNull()
    return found[0] if len(found) == 1 else found[0] & found[1]


def _bound(site: Site, argument: SargLiteral, plain: object) -> Value:
    try:
        known = literal_value(plain, argument.type)
    except LiteralError as error:
        site.refuse(f"a bound of the search argument: {error}")
    column = literal_column(known, argument.type)
    return Value(column, argument.type, literal=known, is_literal=True)


def _any(conditions: list[Column]) -> Column:
    while len(conditions) > 1:
        pairs = zip(conditions[::2], conditions[1::2], strict=False)
        odd = conditions[-1:] if len(conditions) % 2 else []
        conditions = [a | b for a, b in pairs] + odd
    return conditions[0]
