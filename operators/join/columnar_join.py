"""A join over all changes of an epoch at once.

What is emitted and stored is what `StreamingJoin` and `SemiAntiJoin` define, change by change; here
the rows of all keys are read, decoded, joined and written together. A change meets the rows that
the other side has when it comes: of a key with changes on one side only the stored ones, else
**stays**, of which `operators.join.columnar_side` knows. `operators.join.columnar_meetings` finds
them, section by section; `operators.join.columnar_emissions` says what is emitted.

Left to the other path, by whole keys: those with a retraction of a row that is not there, or not as
it is; where there is a condition, those with a row that replaces another one; those whose spread
state may be packed again, or has stamps; and those of which so many changes of both sides come and
go that looking at each pair of a change and a stay would cost more than it gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from operators.arrow_columns import of_types
from operators.batch import ChangeBatch
from operators.join.columnar_emissions import (
    NO_ROW,
    Section,
    associations_before,
    by_rank,
    of_join,
    of_left_rows,
    of_right_rows,
    together,
)
from operators.join.columnar_meetings import Meetings, sections
from operators.join.columnar_outer_side import OuterSide
from operators.join.columnar_side import ColumnarSide, SideLayout
from operators.keyed_columns import DoneOnSides
from state.arrow_values import python_values
from state.types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from operators.changelog import Row
    from operators.join.binary import BinaryJoinSpec, Side
    from operators.join.columnar_emissions import Emitted
    from operators.keyed_columns import KeyedColumns
    from state.primitives.session import StateSession

    Integers = NDArray[np.int64]
    AnyIntegers = NDArray[np.signedinteger]
    Table = tuple[Sequence[pa.Array], int]
    Flags = NDArray[np.bool_]

Shows = Literal["JOIN", "SEMI", "ANTI"]
"""Pairs and padded rows of outer sides; or the left rows that have a match, or have not."""

_MEETINGS_MAX = 64
"""Of a key whose sides both change and take back: so many pairs of changes for each change."""


class _Epoch(NamedTuple):
    """What the changes of an epoch are joined by; each of the left side and of the right one."""

    sides: Sequence[ColumnarSide]
    meetings: Sequence[Meetings]
    tables: Sequence[Table]
    """See `SideLayout.table`."""
    alone: Sequence[Flags]
    """By row of changes: whether it is shown where it meets nothing."""


class ColumnarJoin:
    """The columnar path of a join.

    Args:
        spec: The join.
        layouts: Of its sides.
        condition: What must be TRUE of a pair, beyond its key.
    """

    def __init__(
        self,
        spec: BinaryJoinSpec,
        layouts: Sequence[SideLayout],
        condition: Callable[[Row], bool] | None,
    ) -> None:
        self._spec = spec
        self._layouts = layouts
        self._condition = condition
        self._types = [arrow_type(each) for each in spec.output.types]
        self._pair_types = [each for row in spec.inputs for each in row.types]

    @classmethod
    def of(
        cls,
        spec: BinaryJoinSpec,
        sides: Sequence[Side],
        condition: Callable[[Row], bool] | None,
    ) -> ColumnarJoin | None:
        """The path of a join; None: something in it cannot be done on columns."""
        if spec.bundles or not all(e.types for e in spec.inputs):
            return None
        layouts = [
            SideLayout(row, side.state, unique_key, leaves_replaced=condition is not None)
            for row, side, unique_key in zip(spec.inputs, sides, spec.unique_keys, strict=True)
        ]
        return cls(spec, layouts, condition)

    def open(self, session: StateSession) -> None:
        """Take what an epoch reads by."""
        self._session = session

    def run(self, given: Sequence[KeyedColumns]) -> DoneOnSides | None:
        """Process an epoch's changes; see `ColumnarSides.run`."""
        if any(len({*each.keys}) < len(each.keys) for each in given):
            return None
        numbers: dict[bytes, int] = {}
        key_groups: list[int] = []
        for each in given:
            for key, key_group in zip(each.keys, each.key_groups, strict=True):
                if numbers.setdefault(key, len(key_groups)) == len(key_groups):
                    key_groups.append(key_group)
        sides, matchless = self._sides(given, numbers, key_groups)
        one, other = sides
        self._session.execute([*one.first_loads(), *other.first_loads()])
        self._session.execute([*one.more_loads(other), *other.more_loads(one)])
        left = _crowded(one, other) | one.refused | other.refused
        one.decide(left, other.numbers)
        other.decide(left, one.numbers)
        epoch = self._epoch(sides, left, matchless)
        emitted = self._emitted(epoch)
        if emitted is None:
            return None
        output = self._batch(epoch, emitted)
        one.apply(left)
        other.apply(left)
        rows = [
            side.changes.rows_of(np.array([each in left for each in side.numbers], np.bool_))
            for side in sides
        ]
        return DoneOnSides(output, rows, len(numbers))

    def _sides(
        self, given: Sequence[KeyedColumns], numbers: dict[bytes, int], key_groups: list[int]
    ) -> tuple[list[ColumnarSide], list[Integers]]:
        """The changes of both inputs and their state; and rows of changes that never meet any."""
        keys = [*numbers]
        sides: list[ColumnarSide] = []
        matchless: list[Integers] = []
        for number, changes in enumerate(given):
            row, layout = self._spec.inputs[number], self._layouts[number]
            has_none = np.zeros(len(changes.keys), np.bool_)
            for column, filters in zip(row.key, self._spec.filter_nulls, strict=True):
                array = changes.columns.arrays[column]
                if filters and array.null_count:
                    is_null = array.is_null().to_numpy(zero_copy_only=False)
                    has_none |= is_null[changes.row_of[changes.first]]
            some = changes.without(has_none) if has_none.any() else changes
            entries = layout.entries_of(self._session, keys, key_groups)
            side = OuterSide if self._spec.is_outer[number] else ColumnarSide
            sides.append(side(layout, some, [numbers[key] for key in some.keys], entries))
            matchless.append(changes.rows_of(has_none) if has_none.any() else np.zeros(0, np.int64))
        return sides, matchless

    def _epoch(
        self, sides: Sequence[ColumnarSide], left: set[int], matchless: Sequence[Integers]
    ) -> _Epoch:
        """The changes of both sides but for those of keys that are left, and what they may meet."""
        meetings, alone = [], []
        for mine, its, rows in zip(sides, sides[::-1], matchless, strict=True):
            kept = [each for each in mine.numbers if each not in left]
            meetings.append(Meetings(mine, kept, its.met(kept)))
            shown = meetings[-1].is_kept.copy()
            shown[rows] = True
            alone.append(shown)
        tables = [
            side.layout.table(side.changes, of_other.met.stored)
            for side, of_other in zip(sides, meetings[::-1], strict=True)
        ]
        return _Epoch(sides, meetings, tables, alone)

    def _emitted(self, epoch: _Epoch) -> Emitted | None:
        """What is emitted, left rows first, by rank; None: the condition fails for a pair."""
        found = []
        for low, high in sections(epoch.meetings):
            parts = []
            for number in (0, 1):
                part = self._section(epoch, number, low, high)
                if part is None:
                    return None
                parts.append(part)
            found.append(by_rank(self._shown(epoch, parts)))
        return together(found)

    def _section(self, epoch: _Epoch, number: int, low: int, high: int) -> Section | None:
        """The changes of a side with these ranks; None: the condition fails for one of them."""
        meetings, shift = epoch.meetings[number], epoch.tables[1 - number][1]
        rows = meetings.rows_of(low, high)
        pairs = meetings.pairs(rows)
        if self._condition is not None and pairs.cause.size:
            its = meetings.met.source[pairs.place] + shift
            mine_and_its = (pairs.cause, its) if number == 0 else (its, pairs.cause)
            columns = _columns(epoch.tables, mine_and_its)
            values = [*map(python_values, self._pair_types, columns)]
            holds = _holding(self._condition, [*zip(*values, strict=True)])
            if holds is None:
                return None
            pairs = pairs.where(holds)
        counts = self._spec.is_outer[number]
        matches = meetings.numbers_met(rows, pairs) if counts else np.zeros(0, np.int64)
        return Section(meetings, rows, pairs, matches, shift)

    def _shown(self, epoch: _Epoch, parts: Sequence[Section]) -> list[Emitted]:
        """What a section of both sides' changes emits; of the right side's turned about."""
        for side, part in zip(epoch.sides, parts, strict=True):
            if isinstance(side, OuterSide):
                side.associations[part.rows.start : part.rows.stop] = part.matches
        found: list[Emitted] = []
        for number, part in enumerate(parts):
            is_outer, other = self._spec.is_outer[number], epoch.sides[1 - number]
            before = None
            if isinstance(other, OuterSide):
                before = associations_before(other, part, epoch.sides[number].replaces)
            if self._spec.shows == "JOIN":
                emitted = of_join(part, before, is_outer=is_outer, alone=epoch.alone[number])
            elif number == 0:
                is_anti = self._spec.shows == "ANTI"
                emitted = of_left_rows(part, is_anti=is_anti, alone=epoch.alone[number])
            else:
                emitted = of_right_rows(part, before, is_anti=self._spec.shows == "ANTI")
            found += emitted if number == 0 else [each.turned() for each in emitted]
        return found

    def _batch(self, epoch: _Epoch, emitted: Emitted) -> ChangeBatch:
        """Emissions with their columns, which are made once it is known what all of them are."""
        ranks, kinds, left, right = emitted
        count = 2 if self._spec.shows == "JOIN" else 1
        columns = of_types(_columns(epoch.tables[:count], (left, right)[:count]), self._types)
        return ChangeBatch(tuple(columns), kinds, ranks, np.zeros(ranks.size, np.int32))


def _crowded(one: ColumnarSide, other: ColumnarSide) -> set[int]:
    """Keys whose changes come and go, and of which too many meet."""
    return {
        number
        for number in one.at.keys() & other.at.keys()
        if one.count_of(number) * other.count_of(number)
        > _MEETINGS_MAX * (one.count_of(number) + other.count_of(number))
        and (one.takes_back(number) or other.takes_back(number))
    }


def _holding(condition: Callable[[Row], bool], pairs: Sequence[Row]) -> Flags | None:
    """Whether the condition is TRUE of each pair; None: it fails for one."""
    try:
        return np.fromiter(map(condition, pairs), np.bool_, len(pairs))
    except Exception:  # the other path meets it again, and tells of whom it is
        return None


def _columns(tables: Sequence[Table], rows: Sequence[AnyIntegers]) -> list[pa.Array]:
    """The columns of sides' rows beside each other, by where they stand in their tables."""
    found: list[pa.Array] = []
    for (columns, _), of_side in zip(tables, rows, strict=True):
        is_missing = of_side == NO_ROW
        places = pa.array(of_side, mask=is_missing if is_missing.any() else None)
        found += [each.take(places) for each in columns]
    return found
