"""Mini-batch: leave away the changes of a key in an epoch that take each other back.

Each side is looked at by itself, its changes in order. With a unique key the changes of one such
key belong together, without one those of equal rows. Of a change and the one kept last before it:

    kept last    now            what is done
    accumulate   retract        both go if the rows are equal, unless the accumulate replaced a row
                                that is in state (a +U without its -U)
    retract      accumulate     with a unique key: both are kept, an update; without one: both go,
                                unless rows have a TTL: it would be renewed
    accumulate   accumulate     with a unique key: the later one alone is kept
    else                        the change is kept

Net effect and final table are those of all changes; what was emitted and taken back again in
between is not.

Source: Flink's `BufferBundle` family of `MiniBatchStreamingJoinOperator` (2.3). It does not look at
whether a +U replaced something, and then keeps a row that was taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

    from operators.changelog import Row
    from operators.keyed import InputChange

    SideRules = tuple[Callable[[Row], bytes], tuple[int, ...] | None, bool, Set[str]]
    """How rows are encoded, the columns of the unique key, whether a renewed row is the same, and
    the unique keys of the rows that are in state (`key_text`)."""


class _Kept:
    __slots__ = ("change", "row")

    def __init__(self, change: InputChange, row: bytes) -> None:
        self.change = change
        self.row = row


class _Stack:
    __slots__ = ("began_vacant", "kept")

    def __init__(self, began_vacant: bool) -> None:
        self.began_vacant = began_vacant
        """Whether there was no row before the first change."""
        self.kept: list[_Kept] = []


def reduced(
    changes: Sequence[InputChange], sides: Sequence[SideRules]
) -> tuple[list[list[InputChange]], ...]:
    """What remains of the changes of one key: for each input, by unique key or equal rows.

    Args:
        changes: Of both inputs, in order.
        sides: How each input's changes cancel out.
    """
    kept: tuple[dict[object, _Stack], ...] = tuple({} for _ in sides)
    for change in changes:
        encode, unique_key, cancels_renewal, held = sides[change.input]
        row = encode(change.row)
        group = row if unique_key is None else key_text(change.row, unique_key)
        stack = kept[change.input].setdefault(group, _Stack(group not in held))
        new = _Kept(change, row)
        _keep(stack, new, has_key=unique_key is not None, cancels_renewal=cancels_renewal)
    return tuple(
        [[each.change for each in stack.kept] for stack in side.values() if stack.kept]
        for side in kept
    )


def key_text(row: Row, unique_key: Sequence[int]) -> str:
    """A unique key as text that tells keys apart, 1 and True too."""
    return repr([row[at] for at in unique_key])


def is_update(group: Sequence[InputChange]) -> bool:
    """Whether it is a retraction and what comes in its place."""
    return len(group) == 2 and group[0].kind.is_retraction and not group[1].kind.is_retraction


def _keep(stack: _Stack, new: _Kept, *, has_key: bool, cancels_renewal: bool) -> None:
    kept = stack.kept
    last = kept[-1] if kept else None
    if last is None or (last.change.kind.is_retraction and new.change.kind.is_retraction):
        kept.append(new)
    elif last.change.kind.is_retraction:
        if not has_key and cancels_renewal:
            kept.pop()
        else:
            kept.append(new)
    elif new.change.kind.is_retraction:
        if last.row == new.row and (not has_key or _was_vacant(stack)):
            kept.pop()
        else:
            kept.append(new)
    else:
        if has_key:
            kept.pop()
        kept.append(new)


def _was_vacant(stack: _Stack) -> bool:
    """Whether there was no row of this unique key before the accumulate that was kept last."""
    if len(stack.kept) > 1:
        return stack.kept[-2].change.kind.is_retraction
    return stack.began_vacant
