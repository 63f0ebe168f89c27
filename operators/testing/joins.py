"""What joins mean, as plain functions of bags of rows; and changelogs to try them with."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from operators.changelog import Change, Row, RowKind
from operators.testing.operator_harness import Of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Bag = Counter[Row]
"""Rows with how often they are there."""


def join_of(
    left: Bag,
    right: Bag,
    join_type: str,
    matches: Callable[[Row, Row], bool],
    widths: tuple[int, int],
) -> Bag:
    """The bag that a join of two bags is.

    Args:
        left: Rows of the left side.
        right: Of the right side.
        join_type: INNER, LEFT, RIGHT, FULL, SEMI or ANTI.
        matches: Whether two rows belong together, key and nulls included.
        widths: Columns of either side.
    """
    found: Bag = Counter()
    matched_right: set[Row] = set()
    for one, times in left.items():
        partners = [(other, n) for other, n in right.items() if matches(one, other)]
        matched_right.update(other for other, _ in partners)
        if join_type in ("SEMI", "ANTI"):
            if bool(partners) is (join_type == "SEMI"):
                found[one] += times
            continue
        for other, n in partners:
            found[one + other] += times * n
        if not partners and join_type in ("LEFT", "FULL"):
            found[one + (None,) * widths[1]] += times
    if join_type in ("RIGHT", "FULL"):
        for other, times in right.items():
            if other not in matched_right:
                found[(None,) * widths[0] + other] += times
    return found


def bags(changes: Iterable[Of], inputs: int) -> list[Bag]:
    """The bag that each input adds up to."""
    found: list[Bag] = [Counter() for _ in range(inputs)]
    for each in changes:
        found[each.input][each.change.row] += each.change.kind.weight
    return [+bag for bag in found]


def changelogs(
    rows: Sequence[st.SearchStrategy[Row]],
    unique_keys: Sequence[tuple[int, ...] | None],
    *,
    says_before: Sequence[bool] | None = None,
    size_max: int = 14,
) -> st.SearchStrategy[list[Of]]:
    """Changelogs of several inputs in which nothing is retracted that is not there.

    Where an input has a unique key, a row of a key that is there becomes an update of it, or, if it
    is the very row, takes it back; else a row that is there is sometimes taken back.

    Args:
        rows: Of each input.
        unique_keys: Of each input; None: it has none.
        says_before: Of each input whether its updates have a -U; None: all have.
        size_max: At most so many steps; an update is two changes.
    """
    one = st.integers(0, len(rows) - 1).flatmap(
        lambda number: st.tuples(st.just(number), rows[number], st.booleans())
    )
    return st.lists(one, max_size=size_max).map(
        lambda steps: _played(steps, unique_keys, says_before or [True] * len(rows))
    )


def _played(
    steps: Iterable[tuple[int, Row, bool]],
    unique_keys: Sequence[tuple[int, ...] | None],
    says_before: Sequence[bool],
) -> list[Of]:
    live: dict[tuple[int, object], list[Row]] = {}
    out: list[Of] = []

    def say(number: int, kind: RowKind, row: Row) -> None:
        out.append(Of(number, Change(kind, row)))

    for number, row, is_retraction in steps:
        unique_key = unique_keys[number]
        key = row if unique_key is None else tuple(row[at] for at in unique_key)
        there = live.setdefault((number, key), [])
        if unique_key is not None and there and there[0] != row:
            before = there.pop()
            if says_before[number]:
                say(number, RowKind.UPDATE_BEFORE, before)
            say(number, RowKind.UPDATE_AFTER, row)
            there.append(row)
        elif there and (unique_key is not None or is_retraction):
            say(number, RowKind.DELETE, there.pop())
        else:
            say(number, RowKind.INSERT, row)
            there.append(row)
    return out


def taking_back(changes: Iterable[Of], inputs: int) -> list[Of]:
    """What retracts all that is left of changelogs."""
    return [
        Of(number, Change(RowKind.DELETE, row))
        for number, bag in enumerate(bags(changes, inputs))
        for row in bag.elements()
    ]


def never_below_zero(changes: Iterable[Change]) -> Bag:
    """The bag that a changelog adds up to, which must never take back what is not there.

    Raises:
        AssertionError: It does.
    """
    rows: Bag = Counter()
    for position, change in enumerate(changes):
        rows[change.row] += change.kind.weight
        assert rows[change.row] >= 0, f"change {position} takes back what is not there"
    return +rows
