"""What a search argument asks for: points, all but some points, or ranges.

Source: Flink `SearchOperatorGen` and `Sarg` (2.3), checked by running it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from operators.expressions.literals import LiteralError, literal_value

if TYPE_CHECKING:
    from operators.expressions.call_site import CallSite, Operand
    from operators.expressions.rex import Bound, SargLiteral, SargRange


@dataclass(frozen=True, slots=True)
class Points:
    """Values, or all values but these."""

    values: tuple[object, ...]
    """As the plan writes them."""
    is_outside: bool


def points_of(argument: SargLiteral) -> Points | None:
    """The argument as a set of points or of all but some points; None if it is neither."""
    ranges = argument.ranges
    if not ranges:
        return None
    if all(_is_point(part) for part in ranges):
        return Points(tuple(part.lower.value for part in ranges if part.lower), is_outside=False)
    if ranges[0].lower is None and ranges[-1].upper is None and len(ranges) > 1:
        gaps = list(itertools.pairwise(ranges))
        if all(_is_gap(before.upper, after.lower) for before, after in gaps):
            ends = tuple(before.upper.value for before, _ in gaps if before.upper)
            return Points(ends, is_outside=True)
    return None


def comparisons(part: SargRange) -> list[tuple[str, object]]:
    """The range as operators with what they compare to; all must hold. Empty: any value will do."""
    low, high = part.lower, part.upper
    if low is not None and _is_point(part):
        return [("=", low.value)]
    found: list[tuple[str, object]] = []
    if low is not None:
        found.append((">=" if low.is_inclusive else ">", low.value))
    if high is not None:
        found.append(("<=" if high.is_inclusive else "<", high.value))
    return found


def bound_value(site: CallSite[Operand], argument: SargLiteral, plain: object) -> object:
    """The value of a bound, as `literals` gives it.

    Raises:
        UnsupportedExpression: It is none of the argument's type.
    """
    try:
        return literal_value(plain, argument.type)
    except LiteralError as error:
        site.refuse(f"a bound of the search argument: {error}")


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
