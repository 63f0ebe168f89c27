"""What changes of a join emit, by the stays that they meet.

The tables of `StreamingJoin` and `SemiAntiJoin`, on columns. An emission is a row of the left side
and a row of the right one, of which one may be missing. Semi and anti joins show the left one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from operators.changelog import RowKind
from operators.codes import is_ascending
from state.orders import stable_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from operators.join.columnar_meetings import Meetings, Pairs
    from operators.join.columnar_outer_side import OuterSide

    Integers = NDArray[np.int64]
    AnyIntegers = NDArray[np.signedinteger]
    Flags = NDArray[np.bool_]

NO_ROW = -1
"""In place of the row of a side: nulls."""


class Emitted(NamedTuple):
    """Emissions of one side's changes, those of a change in order."""

    ranks: Integers
    """Of their causes."""
    kinds: NDArray[np.int8]
    mine: AnyIntegers
    """Rows of the side that changed, in its table."""
    its: AnyIntegers
    """Rows of the other side, in its table."""

    def turned(self) -> Emitted:
        """The same, with the other side's rows first."""
        return self._replace(mine=self.its, its=self.mine)


class Section(NamedTuple):
    """Some changes of one side, by rank, and what they meet."""

    meetings: Meetings
    rows: range
    pairs: Pairs
    matches: Integers
    """By change: how many rows it meets; empty where associations of its side are not kept."""
    shift: int
    """Where the table of the other side has its stays, behind where `Met` has them."""

    @property
    def is_retraction(self) -> Flags:
        """By pair: whether its change takes a row back."""
        kinds: Flags = (self.meetings.kinds[self.pairs.cause] & 1).astype(np.bool_)
        return kinds

    def turns(self, before: Integers) -> Flags:
        """By pair: whether the stay's first match comes, or its last one goes.

        Args:
            before: By pair: the associations of the stay before the change.
        """
        found: Flags = before == self.is_retraction
        return found


def associations_before(side: OuterSide, section: Section, replaces: Flags) -> Integers:
    """The associations of each pair's stay before the change; the side's are brought forward.

    Args:
        side: Whose rows the stays are.
        section: The changes of the other side.
        replaces: By row of those changes: whether it takes the place of a row that met the same.
    """
    pairs, met = section.pairs, section.meetings.met
    source = met.source[pairs.place]
    side.is_met[source] = True
    steps = 1 - 2 * section.is_retraction.astype(np.int64)
    steps[replaces[pairs.cause]] = 0
    order = stable_order(source, side.associations.size)
    ordered, steps = source[order], steps[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: ordered.size])
    moved = np.cumsum(steps) - steps
    sizes = np.diff(np.append(first, ordered.size))
    before = np.empty_like(source)
    before[order] = side.associations[ordered] + moved - np.repeat(moved[first], sizes)
    if first.size:
        side.associations[ordered[first]] += np.add.reduceat(steps, first)
    return before


def of_join(
    section: Section, before: Integers | None, *, is_outer: bool, alone: Flags
) -> list[Emitted]:
    """What changes of one side of a regular join emit.

    Args:
        section: The changes.
        before: By pair: the associations of the stay before the change; None: the other side is
            not outer.
        is_outer: Whether their side is.
        alone: By row: whether it is shown where it meets nothing.
    """
    meetings, pairs = section.meetings, section.pairs
    is_turn = None if before is None else section.turns(before)
    cause, its = pairs.cause, meetings.met.source[pairs.place] + section.shift
    kinds, retracts = meetings.kinds[cause], section.is_retraction
    if is_outer or is_turn is not None:
        kinds = np.where(retracts, RowKind.DELETE if is_outer else kinds, RowKind.INSERT)
    sizes = meetings.met.times[pairs.place]
    mine = cause
    if is_turn is not None:
        sizes = sizes * (1 + is_turn)
    if is_turn is not None or (sizes != 1).any():
        of_pair = np.repeat(np.arange(cause.size), sizes)
        cause, mine, its, kinds = cause[of_pair], cause[of_pair], its[of_pair], kinds[of_pair]
        if is_turn is not None:
            # -D padded before +I joined, and +I padded behind what is taken back.
            number = np.arange(of_pair.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            retracts = retracts[of_pair]
            is_padded = is_turn[of_pair] & ((number & 1) == retracts)
            mine = np.where(is_padded, NO_ROW, mine)
            padded = np.where(retracts, RowKind.INSERT, RowKind.DELETE)
            kinds = np.where(is_padded, padded, kinds)
    found = [Emitted(meetings.ranks[cause], kinds, mine, its)]
    if is_outer:
        rows = _alone(section, alone)
        retracts = (meetings.kinds[rows] & 1).astype(np.bool_)
        kinds = np.where(retracts, RowKind.DELETE, RowKind.INSERT)
        found.append(Emitted(meetings.ranks[rows], kinds, rows, np.full(rows.size, NO_ROW)))
    return found


def of_left_rows(section: Section, *, is_anti: bool, alone: Flags) -> list[Emitted]:
    """What changes of the left side of a semi or anti join emit; arguments as of `of_join`."""
    meetings = section.meetings
    matched = np.flatnonzero(section.matches) + section.rows.start
    rows = _alone(section, alone) if is_anti else matched
    return [Emitted(meetings.ranks[rows], meetings.kinds[rows], rows, np.full(rows.size, NO_ROW))]


def of_right_rows(section: Section, before: Integers | None, *, is_anti: bool) -> list[Emitted]:
    """What changes of the right side of a semi or anti join mean for left rows.

    Args:
        section: The changes.
        before: By pair: the associations of the left row before the change.
        is_anti: Whether rows without a match are shown.
    """
    assert before is not None  # those of left rows are counted
    meetings, pairs = section.meetings, section.pairs.where(section.turns(before))
    times = meetings.met.times[pairs.place]
    cause, place = np.repeat(pairs.cause, times), np.repeat(pairs.place, times)
    kinds = meetings.kinds[cause]
    if is_anti:
        kinds = np.where(kinds & 1, RowKind.INSERT, RowKind.DELETE)
    its = meetings.met.source[place] + section.shift
    return [Emitted(meetings.ranks[cause], kinds, np.full(cause.size, NO_ROW), its)]


def by_rank(emitted: Sequence[Emitted]) -> Emitted:
    """Emissions of both sides' changes, left rows first, in their order; as small as they can be.

    Until an epoch's columns are made, they are all that is kept of its pairs.
    """
    ranks, kinds, left, right = together(emitted)
    if not is_ascending(ranks):
        order = stable_order(ranks, int(ranks.max()) + 1)
        ranks, kinds, left, right = ranks[order], kinds[order], left[order], right[order]
    return Emitted(ranks, kinds.astype(np.int8), left.astype(np.int32), right.astype(np.int32))


def together(emitted: Sequence[Emitted]) -> Emitted:
    """Emissions one behind the other."""
    return Emitted(*(np.concatenate(each) for each in zip(*emitted, strict=True)))


def _alone(section: Section, alone: Flags) -> Integers:
    """Rows of changes that meet nothing, and are shown."""
    rows = section.rows
    found = np.flatnonzero((section.matches == 0) & alone[rows.start : rows.stop])
    return found + rows.start
