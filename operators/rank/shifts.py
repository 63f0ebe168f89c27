"""What is emitted when rows come into the first ranks of many partitions: columns of changes.

It is what `operators.rank.ranking` says, for a whole round of `operators.rank.tops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from operators.changelog import RowKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from operators.rank.tops import Round

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class Shown(NamedTuple):
    """Emissions, in any order."""

    causes: Integers
    """The row that came."""
    numbers: Integers
    """The place among what its cause emits, from 0."""
    kinds: Integers
    rows: Integers
    ranks: Integers

    def only(self, chosen: Flags) -> Shown:
        """Some of them."""
        return Shown(*(each[chosen] for each in self))


def shown_ranks(came: Round, start: int, *, update_before: bool) -> Shown:
    """Each rank that shifts, from a first one on, and the rank that is new.

    Args:
        came: What came.
        start: The first rank that is shown.
        update_before: What a rank had before is emitted, too.
    """
    end = came.after.shape[1]
    first = np.maximum(came.places, start - 1)
    last = np.minimum(came.counts, end - 1)
    columns = np.arange(end)
    line, place = ((columns >= first[:, None]) & (columns <= last[:, None])).nonzero()
    is_new = place == came.counts[line]
    kinds = np.where(is_new, int(RowKind.INSERT), int(RowKind.UPDATE_AFTER))
    causes, ranks, number = came.rows[line], place + 1, place - first[line]
    after = came.after[line, place]
    if not update_before:
        return Shown(causes, number, kinds, after, ranks)
    shifts = ~is_new
    before = Shown(
        causes[shifts],
        2 * number[shifts],
        np.full(int(shifts.sum()), int(RowKind.UPDATE_BEFORE)),
        came.before[line, place][shifts],
        ranks[shifts],
    )
    now = Shown(causes, 2 * number + shifts, kinds, after, ranks)
    return together([before, now])


def shown_members(came: Round) -> Shown:
    """Who enters, and who leaves for that: rows alone, without ranks."""
    end = came.after.shape[1]
    leaves = came.counts == end
    count = int(leaves.sum())
    gone = Shown(
        came.rows[leaves],
        np.zeros(count, np.int64),
        np.full(count, int(RowKind.DELETE)),
        came.before[leaves, end - 1],
        np.full(count, end),
    )
    kinds = np.full(came.rows.size, int(RowKind.INSERT))
    new = Shown(came.rows, leaves.astype(np.int64), kinds, came.rows, came.places + 1)
    return together([gone, new])


def together(parts: list[Shown]) -> Shown:
    """All of them; at least one part."""
    return Shown(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def in_order(shown: Shown, rows: int) -> Shown:
    """Emissions by cause, and those of a cause by number; causes are below a number of rows."""
    counts = np.bincount(shown.causes, minlength=rows)
    places = (np.cumsum(counts) - counts)[shown.causes] + shown.numbers
    by_place = np.empty(places.size, np.int64)
    by_place[places] = np.arange(places.size)
    return Shown(*(each[by_place] for each in shown))
