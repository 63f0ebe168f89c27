"""Casts that nobody wrote, where Flink puts them.

They are around texts that meet numbers or times, and around the branches of CASE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import Literal, Rex
from service.sql import types
from service.sql.rex import cast, type_of
from state.types import STRING_ROOTS, TIMESTAMP_ROOTS, TypeRoot

if TYPE_CHECKING:
    from state.types import LogicalType

TIMES = frozenset({*TIMESTAMP_ROOTS, TypeRoot.DATE, TypeRoot.TIME})


def as_comparable(left: Rex, right: Rex) -> tuple[Rex, Rex] | None:
    """Both sides as types that can be compared; None if there are none."""
    kinds = type_of(left), type_of(right)
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


def as_branch(branch: Rex, made: LogicalType) -> Rex:
    """A branch of CASE as the type of all of them; its own nullability is kept."""
    given = type_of(branch)
    target = made.with_nullable(given.nullable)
    if isinstance(branch, Literal) and (
        branch.value is None or {given.root, made.root} <= STRING_ROOTS
    ):
        return Literal(branch.value, made.with_nullable(branch.value is None), "")
    return branch if types.regular(given) == target else cast(branch, target)


def _as_varchar(side: Rex, other: LogicalType) -> Rex:
    """A text literal beside a VARCHAR is a VARCHAR of any length."""
    if isinstance(side, Literal) and other.root is TypeRoot.VARCHAR:
        return Literal(side.value, types.STRING.with_nullable(side.value is None), "")
    return side
