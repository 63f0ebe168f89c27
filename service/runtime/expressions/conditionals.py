"""CASE, IF, COALESCE, GREATEST and the like: one of the operands, in the declared type.

Source: Flink `IfCallGen`, `CoalesceFunction`, `GreatestFunction` (2.3), checked by running it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as sf

from operators.expressions.families import is_ordered
from operators.expressions.operand_rules import case_branches, choices
from service.runtime.expressions.casts import convert
from service.runtime.expressions.comparison import align, compared
from service.runtime.expressions.site import Column, Site, Value, bind, bind_all, null_of
from state.types import FLOAT_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable


def case(site: Site) -> Column:
    """CASE: condition, result, condition, result, ..., otherwise."""
    branches, last = case_branches(site)
    (condition, result), *others = branches
    found = sf.when(condition.column, convert(site, result, site.type))
    for condition, result in others:
        found = found.when(condition.column, convert(site, result, site.type))
    return found.otherwise(convert(site, last, site.type))


def if_else(site: Site) -> Column:
    """IF(condition, then, else): else where the condition is NULL."""
    condition, then, otherwise = site.operands
    return sf.when(condition.column, convert(site, then, site.type)).otherwise(
        convert(site, otherwise, site.type)
    )


def coalesce(site: Site) -> Column:
    """COALESCE and IFNULL: the first operand that is not NULL."""
    return sf.coalesce(*(convert(site, value, site.type) for value in site.operands))


def null_if(site: Site) -> Column:
    """NULLIF(x, y): NULL where both are equal."""
    left, right = align(site, site[0], site[1])
    equal = compared("=", left, right)
    return sf.when(equal, null_of(site.type)).otherwise(convert(site, site[0], site.type))


def element(site: Site) -> Column:
    """ELT(n, x, y, ..): the operand of this number, from 1; NULL if there is none."""
    number, values = choices(site)
    columns = [convert(site, value, site.type) for value in values]

    def chosen(place: Column) -> Column:
        found = sf.when(place == 1, columns[0])
        for at, column in enumerate(columns[1:], start=2):
            found = found.when(place == at, column)
        return found

    return bind(number, chosen)


def extreme(*, greatest: bool) -> Callable[[Site], Column]:
    """The builder of GREATEST and LEAST: NULL if any operand is; NaN is above all."""

    def build(site: Site) -> Column:
        if site.type.root is TypeRoot.BOOLEAN or not is_ordered(site):
            site.refuse_types()
        values = [
            Value(convert(site, value, site.type), site.type, value.weight)
            for value in site.operands
        ]
        if site.type.root in FLOAT_ROOTS:
            return _extreme_float(values, greatest=greatest)
        choose = sf.greatest if greatest else sf.least
        if len(values) == 1:
            return values[0].column

        def chosen(*columns: Column) -> Column:
            complete = columns[0].isNotNull()
            for column in columns[1:]:
                complete = complete & column.isNotNull()
            return sf.when(complete, choose(*columns))

        return bind_all(values, chosen)

    return build


def _extreme_float(values: list[Value], *, greatest: bool) -> Column:
    """By Java's total order, in which -0.0 is below 0.0."""
    step = _greater if greatest else _lesser
    result = values[0]
    for value in values[1:]:
        result = Value(bind_all((result, value), step), value.type, result.weight + value.weight)
    return result.column


def _greater(a: Column, b: Column) -> Column:
    return (
        sf.when(a > b, a).when(b > a, b).when(a == 0, a + b).when(a.isNotNull() & b.isNotNull(), a)
    )


def _lesser(a: Column, b: Column) -> Column:
    return (
        sf.when(a < b, a)
        .when(b < a, b)
        .when(a == 0, -((-a) + (-b)))
        .when(a.isNotNull() & b.isNotNull(), a)
    )
