"""Mini-batch: leave away the changes of a key in an epoch that take each other back.

Each side is looked at by itself, its changes in order. With a unique key the changes of one such
key belong together, without one those of equal rows. Of a change and the one kept last before it:

    kept last    now            what is done
    accumulate   retract, same row     both go, unless the +U may have replaced a row that is not
                                       among the bundle's changes
    retract      accumulate, same row  both go, unless rows have a TTL: it would be renewed
    accumulate   accumulate            with a unique key: the later row takes the place of the
                                       earlier one, and has its kind
    else                               the change is kept

What is left is processed in order. Net effect and final table are those of all changes; what was
emitted and taken back again in between is not.

Source: Flink's `BufferBundle` family of `MiniBatchStreamingJoinOperator`, which also leaves away
padded rows between a -U and its +U; here they are emitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.changelog import RowKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.changelog import Row
    from operators.keyed import InputChange

    SideRules = tuple[Callable[[Row], bytes], tuple[int, ...], bool]
    """How rows are encoded, the columns of the unique key, whether a renewed row is the same."""


class _Kept:
    __slots__ = ("change", "place", "row")

    def __init__(self, place: int, change: InputChange, row: bytes) -> None:
        self.place = place
        self.change = change
        self.row = row


def reduced(changes: Sequence[InputChange], sides: Sequence[SideRules]) -> Sequence[InputChange]:
    """What remains of the changes of one key, in order.

    Args:
        changes: Of both inputs, in order.
        sides: How each input's changes cancel out.
    """
    if len(changes) == 1:
        return changes
    kept: dict[tuple[int, object], list[_Kept]] = {}
    for place, change in enumerate(changes):
        encode, unique_key, cancels_renewal = sides[change.input]
        row = encode(change.row)
        # Columns of a unique key are compared as canonical text, in which 1 is not True.
        group = repr([change.row[at] for at in unique_key]) if unique_key else row
        stack = kept.setdefault((change.input, group), [])
        new = _Kept(place, change, row)
        _keep(stack, new, has_key=bool(unique_key), cancels_renewal=cancels_renewal)
    left = sorted((each for stack in kept.values() for each in stack), key=lambda each: each.place)
    return [each.change for each in left]


def _keep(stack: list[_Kept], new: _Kept, *, has_key: bool, cancels_renewal: bool) -> None:
    last = stack[-1] if stack else None
    if last is None or (last.change.kind.is_retraction and new.change.kind.is_retraction):
        stack.append(new)
    elif last.change.kind.is_retraction:
        if last.row == new.row and cancels_renewal:
            stack.pop()
        else:
            stack.append(new)
    elif new.change.kind.is_retraction:
        if last.row == new.row and (not has_key or _was_vacant(stack)):
            stack.pop()
        else:
            stack.append(new)
    else:
        if has_key:
            new.change.kind = stack.pop().change.kind
        stack.append(new)


def _was_vacant(stack: Sequence[_Kept]) -> bool:
    """Whether there was no row of this unique key before the accumulate that was kept last."""
    if len(stack) > 1:
        return stack[-2].change.kind.is_retraction
    return stack[-1].change.kind is RowKind.INSERT
