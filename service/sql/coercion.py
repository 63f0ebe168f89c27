"""Casts that nobody wrote, where Flink puts them.

They are around texts that meet numbers or times, and around the branches of CASE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import Literal, Rex
from service.sql import types
from service.sql.constant_folding import folded
from service.sql.rex import cast, is_null, type_of
from state.types import (
    FLOAT_ROOTS,
    INTEGER_BITS,
    NUMBER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    TypeRoot,
)

if TYPE_CHECKING:
    from state.types import LogicalType

TIMES = frozenset({*TIMESTAMP_ROOTS, TypeRoot.DATE, TypeRoot.TIME})


def as_comparable(left: Rex, right: Rex, *, by_order: bool = False) -> tuple[Rex, Rex] | None:
    """Both sides as types that can be compared; None if there are none.

    By order (`<`, BETWEEN) a text and a whole or decimal number meet as BIGINT, or as a DECIMAL
    that holds it, too. For equality Flink leaves a text beside a DECIMAL, a BOOLEAN or a time as it
    is, and what its code then does is no cast: None. So it is for numbers that no DECIMAL holds
    both of, of which it rounds one.
    """
    kinds = type_of(left), type_of(right)
    roots = {kinds[0].root, kinds[1].root}
    if TypeRoot.NULL in roots:
        return _typed(left, kinds[1]), _typed(right, kinds[0])
    if roots & STRING_ROOTS and by_order and roots & {*INTEGER_BITS, TypeRoot.DECIMAL}:
        return _as_numbers(left, right)
    if roots <= {*INTEGER_BITS, TypeRoot.DECIMAL} and not by_order and not types.is_held(*kinds):
        return None
    if TypeRoot.DECIMAL in roots and roots & FLOAT_ROOTS and not by_order:
        return _as_double(left), _as_double(right)
    if not by_order and (_differs_from_a_cast(left, right) or _differs_from_a_cast(right, left)):
        return None
    if {kinds[0].root, kinds[1].root} <= STRING_ROOTS:
        return _as_varchar(left, kinds[1]), _as_varchar(right, kinds[0])
    if types.common_type(kinds) is not None:
        return left, right
    for text, other in ((0, 1), (1, 0)):
        if kinds[text].root in STRING_ROOTS and kinds[other].root not in STRING_ROOTS:
            target = types.regular(kinds[other]).with_nullable(kinds[text].nullable)
            sides = [left, right]
            sides[text] = cast(sides[text], target)
            return sides[0], sides[1]
    return (left, right) if {kinds[0].root, kinds[1].root} <= TIMES else None


def as_choice(value: Rex, choice: Rex) -> Rex:
    """A value of an IN list as the type of what is looked for, where it is of another kind.

    So `i IN (1.5)` is true of 1, as in Flink.
    """
    given, kind = type_of(value), type_of(choice)
    roots = {given.root, kind.root}
    if len(roots) == 1 or TypeRoot.NULL in roots or roots <= STRING_ROOTS or roots <= TIMES:
        return choice
    if isinstance(choice, Literal) and roots <= NUMBER_ROOTS and _fits(choice, given):
        return choice
    return cast(choice, types.regular(given).with_nullable(kind.nullable))


def _fits(literal: Literal, target: LogicalType) -> bool:
    """Whether a number is the same in the type."""
    if target.root in FLOAT_ROOTS:
        return True
    if not isinstance(literal.value, int):
        return False
    if target.root is TypeRoot.DECIMAL:
        return len(str(abs(literal.value))) <= (target.precision or 0) - (target.scale or 0)
    half = 1 << (INTEGER_BITS[target.root] - 1)
    return -half <= literal.value < half


def _as_numbers(left: Rex, right: Rex) -> tuple[Rex, Rex]:
    """A text and a number, both as BIGINT, or as the DECIMAL that holds all of both."""
    kinds = [types.BIGINT if type_of(s).root in STRING_ROOTS else type_of(s) for s in (left, right)]
    made = types.common_type(kinds)
    assert made is not None, "both are numbers"
    sides = [
        side
        if type_of(side).with_nullable(True) == made.with_nullable(True)
        else cast(side, made.with_nullable(type_of(side).nullable))
        for side in (left, right)
    ]
    return sides[0], sides[1]


def _as_double(side: Rex) -> Rex:
    """A DECIMAL as the DOUBLE that it is compared with for equality; by order it stays."""
    given = type_of(side)
    if given.root is not TypeRoot.DECIMAL:
        return side
    target = types.DOUBLE.with_nullable(given.nullable)
    if isinstance(side, Literal) and side.value is not None:
        return Literal(str(side.value), target, "")
    return cast(side, target)


def _differs_from_a_cast(text: Rex, other: Rex) -> bool:
    """Whether Flink compares a text with a value of the other type, but not by a cast."""
    if type_of(text).root not in STRING_ROOTS:
        return False
    root = type_of(other).root
    if root in (TypeRoot.DECIMAL, TypeRoot.BOOLEAN):
        return True
    return root in TIMES and not isinstance(text, Literal)


def as_argument(value: Rex, target: LogicalType) -> Rex | None:
    """An argument of a function that takes this type; None if it is not brought to it.

    Constants are brought to it at once, and texts stay as long as they are.
    """
    given = type_of(value)
    if types.can_store(given, target):
        return value
    if given.children or not types.can_cast_implicitly(given, target):
        return None
    return folded(cast(value, types.regular(target).with_nullable(given.nullable)))


def as_branch(branch: Rex, made: LogicalType) -> Rex:
    """A branch of CASE as the type of all of them; its own nullability is kept."""
    given = type_of(branch)
    target = made.with_nullable(given.nullable)
    if isinstance(branch, Literal) and (
        branch.value is None or {given.root, made.root} <= STRING_ROOTS
    ):
        return Literal(branch.value, made.with_nullable(branch.value is None), "")
    return branch if types.regular(given) == target else cast(branch, target)


def _typed(side: Rex, other: LogicalType) -> Rex:
    """A bare NULL has the type of what it is compared with."""
    return cast(side, types.regular(other)) if is_null(side) else side


def _as_varchar(side: Rex, other: LogicalType) -> Rex:
    """A text literal beside a VARCHAR is a VARCHAR of any length."""
    if isinstance(side, Literal) and other.root is TypeRoot.VARCHAR:
        return Literal(side.value, types.STRING.with_nullable(side.value is None), "")
    return side
