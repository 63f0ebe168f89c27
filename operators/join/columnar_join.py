"""An inner join over all changes of an epoch at once.

What is emitted and stored is what `StreamingJoin` defines, change by change; here the rows of all
keys are read, decoded, joined and written together. A change meets the rows that the other side has
when it comes: of a key with changes on one side only the stored ones, else **stays**, of which
`operators.join.columnar_side` knows.

Left to the other path, by whole keys: those with a retraction of a row that is not there; those
whose spread state may be packed again, or has stamps; and those of which so many changes of both
sides come and go that looking at each pair of a change and a stay would cost more than it gives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.arrow_columns import joined, of_types
from operators.batch import ChangeBatch
from operators.join.columnar_side import ColumnarSide, SideLayout
from operators.keyed_columns import DoneOnSides
from state.arrow_values import python_values
from state.types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from operators.changelog import Row
    from operators.join.binary import Side
    from operators.join.columnar_side import Met
    from operators.join.streaming import StreamingJoinSpec
    from operators.keyed_columns import KeyedColumns
    from state.primitives.session import StateSession

    Integers = NDArray[np.int64]

_MEETINGS_MAX = 64
"""Of a key whose sides both change and take back: so many pairs of changes for each change."""
_PAIRS_AT_ONCE = 1 << 16
"""So many pairs of a change and a stay are looked at together, and those of one change: what a
condition leaves of them may be few."""


class ColumnarJoin:
    """The columnar path of an inner join.

    Args:
        spec: The join.
        layouts: Of its sides.
        condition: What must be TRUE of a pair, beyond its key.
    """

    def __init__(
        self,
        spec: StreamingJoinSpec,
        layouts: Sequence[SideLayout],
        condition: Callable[[Row], bool] | None,
    ) -> None:
        self._spec = spec
        self._layouts = layouts
        self._condition = condition
        self._logical = spec.output.types
        self._types = [arrow_type(each) for each in self._logical]

    @classmethod
    def of(
        cls,
        spec: StreamingJoinSpec,
        sides: Sequence[Side],
        condition: Callable[[Row], bool] | None,
    ) -> ColumnarJoin | None:
        """The path of a join; None: something in it cannot be done on columns."""
        if spec.join_type != "INNER" or spec.bundles or not all(e.types for e in spec.inputs):
            return None
        layouts = [
            SideLayout(row, side.state, unique_key)
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
        one, other = sides = self._sides(given, numbers, key_groups)
        self._session.execute([*one.first_loads(), *other.first_loads()])
        self._session.execute([*one.more_loads(other), *other.more_loads(one)])
        left = _crowded(one, other) | one.refused | other.refused
        one.decide(left)
        other.decide(left)
        emitted = self._emitted(one, other, left, is_first=True)
        more = self._emitted(other, one, left, is_first=False)
        if emitted is None or more is None:
            return None
        one.apply(left)
        other.apply(left)
        if len(emitted) and len(more):
            emitted = more.after(emitted).in_order()
        rows = [
            side.changes.rows_of(np.array([each in left for each in side.numbers], np.bool_))
            for side in sides
        ]
        return DoneOnSides(emitted if len(emitted) else more, rows, len(numbers))

    def _sides(
        self, given: Sequence[KeyedColumns], numbers: dict[bytes, int], key_groups: list[int]
    ) -> tuple[ColumnarSide, ColumnarSide]:
        """The changes of both inputs, but for those that never meet anything, and their state."""
        keys = [*numbers]
        found = []
        for row, layout, changes in zip(self._spec.inputs, self._layouts, given, strict=True):
            matchless = np.zeros(len(changes.keys), np.bool_)
            for column, filters in zip(row.key, self._spec.filter_nulls, strict=True):
                array = changes.columns.arrays[column]
                if filters and array.null_count:
                    is_null = array.is_null().to_numpy(zero_copy_only=False)
                    matchless |= is_null[changes.row_of[changes.first]]
            some = changes.without(matchless) if matchless.any() else changes
            entries = layout.entries_of(self._session, keys, key_groups)
            found.append(ColumnarSide(layout, some, [numbers[key] for key in some.keys], entries))
        return found[0], found[1]

    def _emitted(
        self, mine: ColumnarSide, other: ColumnarSide, left: set[int], *, is_first: bool
    ) -> ChangeBatch | None:
        """What the changes of one input emit, by rank; None: the condition fails for one."""
        kept = [each for each in mine.numbers if each not in left]
        met = other.met(kept)
        loaded = other.layout.codec.decode_columns(met.stored)
        if met.since is not None:
            loaded = joined(other.layout.as_stored(other.changes), loaded)
        own = mine.changes.columns.arrays
        found = []
        for cause, place in _pairs(mine, kept, met):
            if self._condition is not None:
                pairs = self._columns(own, cause, loaded, met.source[place], is_first=is_first)
                values = [*map(python_values, self._logical, pairs)]
                holds = _holding(self._condition, [*zip(*values, strict=True)])
                if holds is None:
                    return None
                cause, place = cause[holds], place[holds]
            found.append((cause, place))
        cause, place = (np.concatenate(each) for each in zip(*found, strict=True))
        columns = self._columns(own, cause, loaded, met.source[place], is_first=is_first)
        times = met.times[place]
        if (times != 1).any():
            again = pa.array(np.repeat(np.arange(cause.size), times))
            columns = [each.take(again) for each in columns]
            cause = np.repeat(cause, times)
        batch = mine.changes.batch
        none = np.zeros(cause.size, np.int32)
        return ChangeBatch(tuple(columns), batch.kinds[cause], batch.order[cause], none)

    def _columns(
        self,
        own: Sequence[pa.Array],
        own_rows: Integers,
        others: Sequence[pa.Array],
        other_rows: Integers,
        *,
        is_first: bool,
    ) -> list[pa.Array]:
        """The columns of pairs."""
        mine, its = _taken(own, own_rows), _taken(others, other_rows)
        columns = [*mine, *its] if is_first else [*its, *mine]
        return of_types(columns, self._types)


def _crowded(one: ColumnarSide, other: ColumnarSide) -> set[int]:
    """Keys whose changes come and go, and of which too many meet."""
    return {
        number
        for number in one.at.keys() & other.at.keys()
        if (one.takes_back(number) or other.takes_back(number))
        and one.count_of(number) * other.count_of(number)
        > _MEETINGS_MAX * (one.count_of(number) + other.count_of(number))
    }


def _pairs(
    mine: ColumnarSide, kept: Sequence[int], met: Met
) -> Iterator[tuple[Integers, Integers]]:
    """Rows of changes, in order, and the places of the stays that each of them meets; in parts."""
    changes = mine.changes
    count = len(changes.batch)
    if not kept or not met.source.size:
        yield np.zeros(0, np.int64), np.zeros(0, np.int64)
        return
    of_key = np.zeros(len(changes.keys), np.int64)
    of_key[[mine.at[each] for each in kept]] = met.counts
    starts = np.cumsum(of_key) - of_key
    of_change, start = np.zeros(count, np.int64), np.zeros(count, np.int64)
    of_change[changes.row_of] = of_key[changes.key_of]
    start[changes.row_of] = starts[changes.key_of]
    for low, high in _parts(np.cumsum(of_change)):
        counts = of_change[low:high]
        cause = np.repeat(np.arange(low, high), counts)
        first = np.cumsum(counts) - counts
        place = np.arange(cause.size) + np.repeat(start[low:high] - first, counts)
        if met.since is not None and met.until is not None:
            ranks = changes.batch.order[cause]
            meets = (met.since[place] < ranks) & (ranks < met.until[place])
            cause, place = cause[meets], place[meets]
        yield cause, place


def _parts(ends: Integers) -> Iterator[tuple[int, int]]:
    """Rows of changes, from and to, with no more pairs than are looked at together.

    Args:
        ends: How many pairs the changes up to each have.
    """
    low = before = 0
    while low < ends.size:
        high = int(ends.searchsorted(before + _PAIRS_AT_ONCE, side="right"))
        high = max(high, low + 1)
        yield low, high
        low, before = high, int(ends[high - 1])


def _holding(condition: Callable[[Row], bool], pairs: Sequence[Row]) -> NDArray[np.bool_] | None:
    """Whether the condition is TRUE of each pair; None: it fails for one."""
    try:
        return np.fromiter(map(condition, pairs), np.bool_, len(pairs))
    except Exception:
        # Whatever it is, the other path meets it again, and tells of which operator it is.
        return None


def _taken(arrays: Sequence[pa.Array], rows: Integers) -> list[pa.Array]:
    """Rows of columns; the columns themselves where all are asked for in order."""
    if arrays and len(arrays[0]) == rows.size and bool((rows == np.arange(rows.size)).all()):
        return [*arrays]
    places = pa.array(rows)
    return [each.take(places) for each in arrays]
