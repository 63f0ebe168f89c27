"""Comparison and three-valued logic.

FLOAT and DOUBLE compare as in Java and in Python: NaN is neither less, equal nor greater than
anything, itself included, and -0.0 equals 0.0; but not beside a DECIMAL. Numbers of different types
are first brought to the type in which Java compares them. Texts compare by characters, which is the
order of their UTF-8.

Source: Flink `ScalarOperatorGens`, `DecimalDataUtils.compare` (2.3).
"""

from __future__ import annotations

import math
import operator as op
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from operators.expressions.decimals import as_double
from operators.expressions.families import DOUBLE, check_comparable
from operators.expressions.floats import double, single
from operators.expressions.representation import to_row
from operators.expressions.site import Site, Value, constant, lifted
from state.types import FLOAT_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.expressions.representation import Convert, Row, Run

BELOW_ZERO = -5e-324
"""The DOUBLE nearest to 0: no DECIMAL lies between."""
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": op.eq,
    "<>": op.ne,
    "<": op.lt,
    "<=": op.le,
    ">": op.gt,
    ">=": op.ge,
}


def compare(site: Site) -> Run:
    """`=`, `<>`, `<`, `<=`, `>` or `>=` of two operands."""
    left, right = site[0], site[1]
    if beside_decimal(left.type, right.type):
        left, right = _in_total_order(left), _in_total_order(right)
    return compared(site.name, *align(site, left, right))


def beside_decimal(left: LogicalType, right: LogicalType) -> bool:
    """Whether one is a DECIMAL and the other a FLOAT or DOUBLE.

    Flink compares these by `Double.compare`: NaN is above all numbers, and -0.0 below 0.
    """
    roots = {left.root, right.root}
    return TypeRoot.DECIMAL in roots and bool(roots & FLOAT_ROOTS)


def _in_total_order(value: Value) -> Value:
    """A FLOAT or DOUBLE as one that the operators place so among DECIMALs, which are finite."""
    if value.type.root not in FLOAT_ROOTS:
        return value
    if value.is_constant:
        found = None if value.constant is None else _placed(value.constant)
        return replace(constant(found, DOUBLE), literal=found, is_literal=True)
    return Value(lifted(_placed, value), DOUBLE)


def _placed(number: float) -> float:
    if number != number:
        return math.inf
    return BELOW_ZERO if number == 0.0 and math.copysign(1.0, number) < 0 else number


def align(site: Site, left: Value, right: Value) -> tuple[Value, Value]:
    """Both operands in values that Python compares as Java does those of their types."""
    roots = {left.type.root, right.type.root}
    if TypeRoot.NULL in roots:
        return left, right
    check_comparable(site, left, right)
    if len(roots) == 1 or not roots & FLOAT_ROOTS:
        return left, right
    wide = TypeRoot.DOUBLE in roots or TypeRoot.DECIMAL in roots
    return _floating(left, wide=wide), _floating(right, wide=wide)


def _floating(value: Value, *, wide: bool) -> Value:
    root = TypeRoot.DOUBLE if wide else TypeRoot.FLOAT
    if value.type.root in FLOAT_ROOTS:
        return value
    convert: Convert = single
    if wide:
        convert = as_double(value.type) if value.type.root is TypeRoot.DECIMAL else double
    if value.is_constant:
        found = None if value.constant is None else convert(value.constant)
        return replace(constant(found, LogicalType(root)), literal=found, is_literal=True)
    return Value(lifted(convert, value), LogicalType(root))


def compared(operator: str, left: Value, right: Value) -> Run:
    """The comparison of two aligned operands."""
    found = _OPERATORS[operator]
    if right.is_constant and right.constant is None:
        return lambda _: None
    convert = to_row(right.type)
    if left.column is None or to_row(left.type) is not convert:
        return lifted(found, left, right)
    # The values of rows compare alike, with no change of form before.
    if right.column is not None:
        return _of_columns(found, left.column, right.column)
    if right.is_literal:
        # A time is read from four digits of a year, so a row may hold it.
        fixed = right.constant if convert is None else convert(right.constant)
        return _of_column_and(found, left.column, fixed)
    return lifted(found, left, right)


def _of_columns(found: Callable[[Any, Any], bool], left: int, right: int) -> Run:
    def run(row: Row) -> bool | None:
        a, b = row[left], row[right]
        return None if a is None or b is None else found(a, b)

    return run


def _of_column_and(found: Callable[[Any, Any], bool], column: int, fixed: object) -> Run:
    def run(row: Row) -> bool | None:
        value = row[column]
        return None if value is None else found(value, fixed)

    return run


def distinct(site: Site) -> Run:
    """IS DISTINCT FROM: as `<>`, where NULL is a value like others."""
    same = not_distinct(site)
    return lambda row: not same(row)


def not_distinct(site: Site) -> Run:
    """IS NOT DISTINCT FROM: as `=`, where NULL equals NULL."""
    left, right = align(site, site[0], site[1])
    first, second = left.run, right.run

    def run(row: Row) -> bool:
        a, b = first(row), second(row)
        if a is None or b is None:
            return a is b
        return bool(a == b)

    return run


def conjunction(site: Site) -> Run:
    """AND: FALSE at the first that is, without looking at the others."""
    return all_of([operand.run for operand in site.operands])


def all_of(conditions: list[Run]) -> Run:
    """AND of conditions."""
    if len(conditions) == 2:
        return _both(*conditions)

    def run(row: Row) -> bool | None:
        found: bool | None = True
        for condition in conditions:
            value = condition(row)
            if value is False:
                return False
            if value is None:
                found = None
        return found

    return run


def _both(left: Run, right: Run) -> Run:
    def run(row: Row) -> bool | None:
        a = left(row)
        if a is False:
            return False
        b = right(row)
        if b is False:
            return False
        return None if a is None or b is None else True

    return run


def disjunction(site: Site) -> Run:
    """OR: TRUE at the first that is, without looking at the others."""
    return any_of([operand.run for operand in site.operands])


def any_of(conditions: list[Run]) -> Run:
    """OR of conditions."""
    if len(conditions) == 1:
        return conditions[0]

    def run(row: Row) -> bool | None:
        found: bool | None = False
        for condition in conditions:
            value = condition(row)
            if value is True:
                return True
            if value is None:
                found = None
        return found

    return run


def negation(site: Site) -> Run:
    """NOT."""
    return lifted(op.not_, site[0])


def is_null(site: Site) -> Run:
    """IS NULL, IS UNKNOWN."""
    column, operand = site[0].column, site[0].run
    if column is not None:
        return lambda row: row[column] is None
    return lambda row: operand(row) is None


def is_not_null(site: Site) -> Run:
    """IS NOT NULL, IS NOT UNKNOWN."""
    column, operand = site[0].column, site[0].run
    if column is not None:
        return lambda row: row[column] is not None
    return lambda row: operand(row) is not None


def truth_test(expected: bool, *, negated: bool) -> Callable[[Site], Run]:
    """IS [NOT] TRUE and IS [NOT] FALSE: never NULL."""

    def build(site: Site) -> Run:
        operand = site[0].run
        if negated:
            return lambda row: operand(row) is not expected
        return lambda row: operand(row) is expected

    return build


def between(site: Site) -> Run:
    """BETWEEN as a call of three operands (the planner writes SEARCH or two comparisons)."""
    value, low, high = site.operands
    above = compared(">=", *align(site, value, low))
    return all_of([above, compared("<=", *align(site, value, high))])


def membership(site: Site) -> Run:
    """IN as a call: the first operand equals one of the others."""
    value, *candidates = site.operands
    return any_of([compared("=", *align(site, value, candidate)) for candidate in candidates])
