"""What of a join's condition says that columns are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan.rex import Rex

_EQUAL = ("=", "IS NOT DISTINCT FROM")


def equal_columns(parts: Sequence[Rex], width: int) -> tuple[list[tuple[int, int]], list[Rex]]:
    """Pairs of a left and a right column that must be equal, and the other conditions.

    The right column counts from the beginning of the right side.
    """
    pairs: list[tuple[int, int]] = []
    rest: list[Rex] = []
    for part in parts:
        pair = _pair(part, width)
        if pair is None:
            rest.append(part)
        elif pair not in pairs:
            pairs.append(pair)
    return pairs, rest


def meets_null(part: Rex) -> bool:
    """Whether a comparison of two columns holds where both are NULL."""
    return isinstance(part, Call) and part.name != "="


def _pair(part: Rex, width: int) -> tuple[int, int] | None:
    if not isinstance(part, Call):
        return None
    operands = part.operands if part.name in _EQUAL else _equal_or_null(part)
    if operands is None:
        return None
    first, second = operands
    if not isinstance(first, InputRef) or not isinstance(second, InputRef):
        return None
    if first.type.root is not second.type.root:
        return None
    low, high = sorted((first.index, second.index))
    return (low, high - width) if low < width <= high else None


def _equal_or_null(part: Call) -> tuple[Rex, ...] | None:
    """The operands of `a = b OR a IS NULL AND b IS NULL`; None of anything else.

    Source: Calcite `RelOptUtil.splitJoinCondition`, `collapseExpandedIsNotDistinctFromExpr`.
    """
    if part.name != "OR" or len(part.operands) != 2:
        return None
    for equal, both in (part.operands, part.operands[::-1]):
        if not isinstance(equal, Call) or not isinstance(both, Call):
            continue
        if equal.name != "=" or both.name != "AND":
            continue
        nulls = [
            each.operands[0]
            for each in both.operands
            if isinstance(each, Call) and each.name == "IS NULL"
        ]
        if len(nulls) == len(both.operands) == 2 and _same(nulls, equal.operands):
            return equal.operands
    return None


def _same(nulls: Sequence[Rex], operands: Sequence[Rex]) -> bool:
    return tuple(nulls) in (tuple(operands), tuple(operands)[::-1])
