"""SEARCH: a value against a search argument, the planner's form of IN, BETWEEN and their mixtures.

Points are compared as Flink's hash set compares them: for FLOAT and DOUBLE -0.0 is not 0.0. Ranges
are compared with the operators, where it is. NULL gives what the argument says.

Source: Flink `SearchOperatorGen` and `Sarg` (2.3), checked by running it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as sf

from operators.expressions.search_ranges import bound_value, comparisons, points_of
from service.runtime.expressions.comparison import align, compared, is_negative_zero
from service.runtime.expressions.literals import literal
from service.runtime.expressions.site import Column, Site, Value, bind
from state.types import FLOAT_ROOTS

if TYPE_CHECKING:
    from operators.expressions.rex import SargLiteral, SargRange

_SET_MIN = 2
"""Points from which Spark's IN, which becomes a hash set, is written instead of `=`."""


def search(site: Site, argument: SargLiteral) -> Column:
    """The condition that the first operand of `site` lies in the argument."""
    return bind(site[0], lambda x: _search(site, replace(site[0], column=x), argument))


def _search(site: Site, value: Value, argument: SargLiteral) -> Column:
    points = points_of(argument)
    if not argument.ranges:
        found = sf.lit(False)
    elif points is not None:
        inside = _in_set(site, value, argument, points.values)
        found = ~inside if points.is_outside else inside
    else:
        found = _any([_in_range(site, value, argument, part) for part in argument.ranges])
    if argument.null_as == "UNKNOWN":
        return sf.when(value.column.isNotNull(), found)
    return sf.coalesce(sf.when(value.column.isNotNull(), found), sf.lit(argument.null_as == "TRUE"))


def _in_set(site: Site, value: Value, argument: SargLiteral, points: tuple[object, ...]) -> Column:
    pairs = [align(site, value, _bound(site, argument, point)) for point in points]
    left = pairs[0][0].column
    members = [right for _, right in pairs]
    if value.type.root in FLOAT_ROOTS:
        return _any([_same_float(left, member) for member in members])
    if len(members) < _SET_MIN:
        return left == members[0].column
    return left.isin(*(member.column for member in members))


def _same_float(left: Column, right: Value) -> Column:
    equal = left == right.column
    return equal & ~is_negative_zero(left) if right.literal == 0 else equal


def _in_range(site: Site, value: Value, argument: SargLiteral, part: SargRange) -> Column:
    found = [
        compared(operator, *align(site, value, _bound(site, argument, bound)))
        for operator, bound in comparisons(part)
    ]
    if not found:
        return value.column.isNotNull()
    return found[0] if len(found) == 1 else found[0] & found[1]


def _bound(site: Site, argument: SargLiteral, plain: object) -> Value:
    return literal(bound_value(site, argument, plain), argument.type)


def _any(conditions: list[Column]) -> Column:
    while len(conditions) > 1:
        pairs = zip(conditions[::2], conditions[1::2], strict=False)
        odd = conditions[-1:] if len(conditions) % 2 else []
        conditions = [a | b for a, b in pairs] + odd
    return conditions[0]
