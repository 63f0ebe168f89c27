"""CASE, IF, COALESCE, GREATEST and the like: one of the operands, in the declared type.

Source: Flink `IfCallGen`, `CoalesceFunction`, `GreatestFunction` (2.3).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from operators.expressions.casts import convert
from operators.expressions.comparison import align, compared
from operators.expressions.families import is_ordered
from operators.expressions.operand_rules import case_branches, choices
from operators.expressions.site import Site, Value, lifted
from state.types import FLOAT_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Row, Run


def case(site: Site) -> Value:
    """CASE: condition, result, condition, result, ..., otherwise."""
    pairs, last = case_branches(site)
    branches = [(test.run, convert(site, value, site.type).run) for test, value in pairs]
    otherwise = convert(site, last, site.type).run
    if len(branches) == 1:
        return Value(_choice(*branches[0], otherwise), site.type)

    def run(row: Row) -> Any:
        for condition, result in branches:
            if condition(row) is True:
                return result(row)
        return otherwise(row)

    return Value(run, site.type)


def _choice(condition: Run, then: Run, otherwise: Run) -> Run:
    return lambda row: then(row) if condition(row) is True else otherwise(row)


def if_else(site: Site) -> Value:
    """IF(condition, then, else): else where the condition is NULL."""
    condition, then, otherwise = site.operands
    then, otherwise = (convert(site, value, site.type) for value in (then, otherwise))
    return Value(_choice(condition.run, then.run, otherwise.run), site.type)


def coalesce(site: Site) -> Value:
    """COALESCE and IFNULL: the first operand that is not NULL."""
    runs = [convert(site, value, site.type).run for value in site.operands]

    def run(row: Row) -> Any:
        for operand in runs:
            value = operand(row)
            if value is not None:
                return value
        return None

    return Value(run, site.type)


def null_if(site: Site) -> Value:
    """NULLIF(x, y): NULL where both are equal."""
    equal = compared("=", *align(site, site[0], site[1]))
    result = convert(site, site[0], site.type).run
    return Value(lambda row: None if equal(row) is True else result(row), site.type)


def element(site: Site) -> Value:
    """ELT(n, x, y, ..): the operand of this number, from 1; NULL if there is none."""
    number, values = choices(site)
    place, runs = number.run, [convert(site, value, site.type).run for value in values]

    def run(row: Row) -> Any:
        at = place(row)
        return runs[at - 1](row) if at is not None and 1 <= at <= len(runs) else None

    return Value(run, site.type)


def extreme(*, greatest: bool) -> Callable[[Site], Value]:
    """The builder of GREATEST and LEAST: NULL if any operand is; NaN is above all."""
    choose = max if greatest else min

    def build(site: Site) -> Value:
        if site.type.root is TypeRoot.BOOLEAN or not is_ordered(site):
            site.refuse_types()
        values = [convert(site, value, site.type) for value in site.operands]
        if len(values) == 1:
            return values[0]
        if site.type.root in FLOAT_ROOTS:
            return Value(lifted(lambda *xs: choose(xs, key=_java_order), *values), site.type)
        return Value(lifted(choose, *values), site.type)

    return build


def _java_order(value: float) -> tuple[bool, float, float]:
    """By Java's total order: NaN is the greatest, -0.0 is below 0.0."""
    if value != value:
        return True, 0.0, 0.0
    return False, value, math.copysign(1.0, value)
