"""What of a join's condition says that columns are equal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan.rex import Rex


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


def _pair(part: Rex, width: int) -> tuple[int, int] | None:
    if not isinstance(part, Call) or part.name not in ("=", "IS NOT DISTINCT FROM"):
        return None
    first, second = part.operands
    if not isinstance(first, InputRef) or not isinstance(second, InputRef):
        return None
    if first.type.root is not second.type.root:
        return None
    low, high = sorted((first.index, second.index))
    return (low, high - width) if low < width <= high else None
