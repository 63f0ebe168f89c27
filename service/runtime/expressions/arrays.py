"""Arrays made of other arrays, and what is found in them.

Spark's own functions where they are Flink's; elements that are NULL are what they differ in.

Source: Flink `functions.scalar.Array*Function` (2.3), checked by running it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as sf

from operators.expressions.operand_rules import (
    MANY_ELEMENTS,
    array_element,
    exact_element,
    ordered_element,
    sort_order,
)
from service.runtime.expressions.casts import convert
from service.runtime.expressions.comparison import compared
from service.runtime.expressions.site import Column, Site, Value, bind, bind_all, failing, null_of
from service.runtime.expressions.spark_types import spark_type
from state.types import FLOAT_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable


def array_contains(site: Site) -> Column:
    """ARRAY_CONTAINS(array, x): NULL is found where an element is NULL."""
    sought = convert(site, site[1], exact_element(site))
    if site[1].type.nullable:
        return sf.exists(site[0].column, lambda each: each.eqNullSafe(sought))
    # Spark has NULL where an element is NULL and none matches.
    found = sf.coalesce(sf.array_contains(site[0].column, sought), sf.lit(False))
    return sf.when(site[0].column.isNotNull(), found)


def position(site: Site) -> Column:
    """ARRAY_POSITION(array, x): of the first element that equals x, from 1; 0 if there is none."""
    return sf.array_position(site[0].column, convert(site, site[1], exact_element(site)))


def remove(site: Site) -> Column:
    """ARRAY_REMOVE(array, x): without the elements that equal x; NULL equals NULL."""
    removed = convert(site, site[1], exact_element(site))
    return sf.filter(site[0].column, lambda each: ~each.eqNullSafe(removed))


def distinct(site: Site) -> Column:
    """ARRAY_DISTINCT: each element where it stands first."""
    exact_element(site)
    return sf.array_distinct(site[0].column)


def reverse(site: Site) -> Column:
    """ARRAY_REVERSE."""
    array_element(site)
    return sf.reverse(site[0].column)


def slice_of(site: Site) -> Column:
    """ARRAY_SLICE(array, from[, to]): both count from 1, from the end if they are negative."""
    array_element(site)
    bounds = [site.of_type(at, (TypeRoot.INTEGER,)) for at in range(1, len(site))]
    return bind_all((site[0], *bounds), _sliced)


def _sliced(elements: Column, start: Column, end: Column | None = None) -> Column:
    size = sf.cardinality(elements)
    first = sf.greatest(sf.when(start < 0, start + size + 1).otherwise(start), sf.lit(1))
    last = size
    if end is not None:
        last = sf.when(end < 0, end + size + 1).otherwise(end)
        # An end of 0 is the first element, one before that is none.
        last = sf.least(sf.when(last == 0, sf.lit(1)).otherwise(last), size)
        # So that no difference of the two is below all numbers.
        last = sf.greatest(last, sf.lit(0))
    found = sf.slice(elements, first, sf.greatest(last - first, sf.lit(-1)) + 1)
    # `least` and `greatest` pass over NULL.
    return sf.when(start.isNotNull() & (last if end is None else end).isNotNull(), found)


def added(*, is_first: bool) -> Callable[[Site], Column]:
    """The builder of ARRAY_APPEND and ARRAY_PREPEND, which take NULL as an element."""

    def build(site: Site) -> Column:
        array_element(site)
        elements = convert(site, site[0], site.type)
        element = site.type.children[0]
        other = sf.array(convert(site, site[1], element).cast(spark_type(element)))
        return sf.concat(other, elements) if is_first else sf.concat(elements, other)

    return build


def _alike(site: Site) -> list[Column]:
    """The operands as arrays of the result's type."""
    for at in range(len(site)):
        array_element(site, at)
    return [convert(site, each, site.type) for each in site.operands]


def concat(site: Site) -> Column:
    """ARRAY_CONCAT."""
    return sf.concat(*_alike(site))


def union(site: Site) -> Column:
    """ARRAY_UNION: the elements of both, each where it stands first."""
    exact_element(site)
    return sf.array_union(*_alike(site))


def intersect(site: Site) -> Column:
    """ARRAY_INTERSECT: the elements of the first that are in the second, each once."""
    exact_element(site)
    return sf.array_intersect(*_alike(site))


def except_of(site: Site) -> Column:
    """ARRAY_EXCEPT: the elements of the first that are not in the second, each once."""
    exact_element(site)
    return sf.array_except(*_alike(site))


def extreme(*, is_greatest: bool) -> Callable[[Site], Column]:
    """The builder of ARRAY_MAX and ARRAY_MIN: NULL where no element is left but NULL."""
    operator = ">" if is_greatest else "<"

    def build(site: Site) -> Column:
        element = ordered_element(site, with_nan=True)
        if element.root not in FLOAT_ROOTS:
            return (sf.array_max if is_greatest else sf.array_min)(site[0].column)

        def better(best: Column, each: Column) -> Column:
            is_better = compared(operator, Value(each, element), Value(best, element))
            return sf.when(best.isNull() | is_better, each).otherwise(best)

        # One by one, since NaN is neither less nor greater: what stands first stays.
        present = sf.filter(site[0].column, lambda each: each.isNotNull())
        return sf.aggregate(present, null_of(element), better)

    return build


def sort(site: Site) -> Column:
    """ARRAY_SORT(array[, ascending[, nulls first]]): without the last, NULLs are the least."""
    ordered_element(site, with_nan=False)
    order = sort_order(site)
    if not order:
        return sf.sort_array(site[0].column)
    return bind_all((site[0], *order), _sorted)


def _sorted(elements: Column, is_ascending: Column, nulls_first: Column | None = None) -> Column:
    by_order = sf.when(is_ascending, sf.sort_array(elements)).when(
        ~is_ascending, sf.sort_array(elements, False)
    )
    if nulls_first is None:
        return by_order
    others = sf.filter(by_order, lambda each: each.isNotNull())
    nulls = sf.filter(elements, lambda each: each.isNull())
    return sf.when(nulls_first, sf.concat(nulls, others)).when(
        ~nulls_first, sf.concat(others, nulls)
    )


def element(site: Site) -> Column:
    """ELEMENT: the only element, NULL if there is none."""
    kind = array_element(site)
    return bind(
        site[0],
        lambda elements: sf.when(
            sf.cardinality(elements) > 1, failing(MANY_ELEMENTS, kind)
        ).otherwise(sf.get(elements, sf.lit(0))),
    )
