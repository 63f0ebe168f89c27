"""Arrays made of other arrays, and what is found in them.

Elements that are compared are of types whose values are equal in Python where they are in Flink
(`operand_rules.EXACT_ROOTS`); the greatest and least element may be a FLOAT or DOUBLE, too.

Source: Flink `functions.scalar.Array*Function` (2.3), checked by running it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.expressions.casts import convert
from operators.expressions.collections import as_element, taken
from operators.expressions.errors import EvaluationFailed
from operators.expressions.operand_rules import (
    MANY_ELEMENTS,
    array_element,
    exact_element,
    ordered_element,
    sort_order,
)
from operators.expressions.site import Site, Value, lifted
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Row, Run


def array_contains(site: Site) -> Run:
    """ARRAY_CONTAINS(array, x): NULL is found where an element is NULL."""
    sought, elements = as_element(site, site[1], exact_element(site)), site[0].run

    def run(row: Row) -> bool | None:
        found = elements(row)
        return None if found is None else sought(row) in found

    return run


def position(site: Site) -> Run:
    """ARRAY_POSITION(array, x): of the first element that equals x, from 1; 0 if there is none."""
    element = exact_element(site)
    return lifted(_position, site[0], Value(as_element(site, site[1], element), element))


def _position(elements: list[Any], sought: object) -> int:
    return elements.index(sought) + 1 if sought in elements else 0


def remove(site: Site) -> Run:
    """ARRAY_REMOVE(array, x): without the elements that equal x; NULL equals NULL."""
    removed, elements = as_element(site, site[1], exact_element(site)), site[0].run

    def run(row: Row) -> list[Any] | None:
        found, value = elements(row), removed(row)
        return None if found is None else [each for each in found if each != value]

    return run


def distinct(site: Site) -> Run:
    """ARRAY_DISTINCT: each element where it stands first."""
    exact_element(site)
    return lifted(_once, site[0])


def _once(elements: list[Any]) -> list[Any]:
    return list(dict.fromkeys(elements))


def reverse(site: Site) -> Run:
    """ARRAY_REVERSE."""
    array_element(site)
    return lifted(lambda elements: elements[::-1], site[0])


def slice_of(site: Site) -> Run:
    """ARRAY_SLICE(array, from[, to]): both count from 1, from the end if they are negative."""
    array_element(site)
    bounds = [site.of_type(at, (TypeRoot.INTEGER,)) for at in range(1, len(site))]
    return lifted(_sliced, site[0], *bounds)


def _sliced(elements: list[Any], start: int, end: int | None = None) -> list[Any]:
    size = len(elements)
    if end is None:
        end = size
    start += size + 1 if start < 0 else 0
    end += size + 1 if end < 0 else 0
    # An end of 0 is the first element, one before that is none.
    end = 1 if end == 0 else end
    return elements[max(start, 1) - 1 : max(end, 0)]


def added(*, is_first: bool) -> Callable[[Site], Run]:
    """The builder of ARRAY_APPEND and ARRAY_PREPEND, which take NULL as an element."""

    def build(site: Site) -> Run:
        array_element(site)
        elements = convert(site, site[0], site.type).run
        other = as_element(site, site[1], site.type.children[0])

        def run(row: Row) -> list[Any] | None:
            found, value = elements(row), other(row)
            if found is None:
                return None
            return [value, *found] if is_first else [*found, value]

        return run

    return build


def _alike(site: Site) -> list[Value]:
    """The operands as arrays of the result's type."""
    for at in range(len(site)):
        array_element(site, at)
    return [convert(site, each, site.type) for each in site.operands]


def concat(site: Site) -> Run:
    """ARRAY_CONCAT."""
    return lifted(lambda *arrays: [each for array in arrays for each in array], *_alike(site))


def union(site: Site) -> Run:
    """ARRAY_UNION: the elements of both, each where it stands first."""
    exact_element(site)
    return lifted(lambda left, right: _once([*left, *right]), *_alike(site))


def intersect(site: Site) -> Run:
    """ARRAY_INTERSECT: the elements of the first that are in the second, each once."""
    exact_element(site)
    return lifted(_intersected, *_alike(site))


def _intersected(left: list[Any], right: list[Any]) -> list[Any]:
    others = set(right)
    return _once([each for each in left if each in others])


def except_of(site: Site) -> Run:
    """ARRAY_EXCEPT: the elements of the first that are not in the second, each once."""
    exact_element(site)
    return lifted(_excepted, *_alike(site))


def _excepted(left: list[Any], right: list[Any]) -> list[Any]:
    others = set(right)
    return _once([each for each in left if each not in others])


def extreme(*, is_greatest: bool) -> Callable[[Site], Run]:
    """The builder of ARRAY_MAX and ARRAY_MIN: NULL where no element is left but NULL."""

    def found(elements: list[Any]) -> Any:
        best = None
        for each in elements:
            # One by one, since NaN is neither less nor greater: what stands first stays.
            if each is not None and (best is None or (each > best if is_greatest else each < best)):
                best = each
        return best

    return lambda site: taken(lifted(found, site[0]), ordered_element(site, with_nan=True))


def sort(site: Site) -> Run:
    """ARRAY_SORT(array[, ascending[, nulls first]]): without the last, NULLs are the least."""
    ordered_element(site, with_nan=False)
    return lifted(_sorted, site[0], *sort_order(site))


def _sorted(
    elements: list[Any], is_ascending: bool = True, nulls_first: bool | None = None
) -> list[Any]:
    nulls = [each for each in elements if each is None]
    others = sorted([each for each in elements if each is not None], reverse=not is_ascending)
    first = is_ascending if nulls_first is None else nulls_first
    return [*nulls, *others] if first else [*others, *nulls]


def element(site: Site) -> Run:
    """ELEMENT: the only element, NULL if there is none."""
    kind = array_element(site)
    return taken(lifted(_only, site[0]), kind)


def _only(elements: list[Any]) -> Any:
    if len(elements) > 1:
        raise EvaluationFailed(MANY_ELEMENTS)
    return elements[0] if elements else None
