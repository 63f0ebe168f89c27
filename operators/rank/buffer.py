"""What the rank operators share: the rows of a partition in order, and the end of the range.

state      key         holds
rows       partition   sorted map: sort key -> rows, equal keys in the order of arrival
rank_end   partition   the last rank, where a column says it that is not of the partition's key
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.changelog import RowKind
from operators.keyed import KeyedOperator, OpenEpoch
from operators.ordering import SortKeys
from operators.rank.ranking import Ranking, inserted
from operators.stored_rows import StoredRows
from state.descriptors import JSON, SortedMapDescriptor, StateDescriptor, ValueDescriptor

if TYPE_CHECKING:
    from operators.changelog import Row
    from operators.keyed import InputChange
    from operators.rank.spec import RankSpec
    from state.primitives.sorted import SortedMapHandle
    from state.primitives.value import ValueHandle


class RankEnd:
    """The last rank that is shown: a number, a column, or none.

    The column of a partition's first row counts, as in Flink, until the state expires or the last
    row is taken back: then the next one is a first one. Null counts as 0: nothing is shown.
    """

    def __init__(self, spec: RankSpec) -> None:
        self._fixed = spec.end
        self._column = spec.end_column
        self._stored: ValueDescriptor[int] | None = None
        if spec.end_column is not None and spec.end_column not in spec.inputs[0].key:
            self._stored = ValueDescriptor(
                name="rank_end", codec=JSON, ttl=spec.ttl_of(0), **spec.past_of("rank_end")
            )
        self.descriptors: tuple[StateDescriptor, ...] = (self._stored,) if self._stored else ()

    @property
    def is_kept(self) -> bool:
        """Whether it is one of each partition, and stored."""
        return self._stored is not None

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle."""
        if self._stored is not None:
            self._state: ValueHandle[int] = epoch.session.value(self._stored)

    async def of(self, row: Row) -> int | None:
        """The last rank of the current key; None: there is none."""
        if self._column is None:
            return self._fixed
        value: Any = row[self._column]  # a BIGINT, as the spec says of this column
        if self._stored is None:
            return value or 0
        stored = await self._state.value()
        if stored is None:
            stored = value or 0
            await self._state.update(stored)
        return stored

    async def live_on(self) -> None:
        """Have it expire with what is written of the current key now."""
        if self._stored is not None and (stored := await self._state.value()) is not None:
            await self._state.update(stored)

    async def clear(self) -> None:
        """Forget the current key."""
        if self._stored is not None:
            await self._state.clear()


class RankBuffer(KeyedOperator):
    """The rows of each partition in order, and what is emitted of them."""

    def __init__(self, spec: RankSpec) -> None:
        (row,) = spec.inputs
        self.rows_codec = StoredRows(row)
        self.sort = SortKeys(row, spec.order, newest_first=spec.newest_first)
        self.end = RankEnd(spec)
        self.ranking = Ranking(
            start=spec.start,
            with_number=spec.with_number,
            update_before=spec.update_before,
            encode=self.rows_codec.encode,
        )
        self._rows: SortedMapDescriptor[tuple[Any, ...], Row] = SortedMapDescriptor(
            name="rows",
            key_codec=self.sort.codec,
            codec=self.rows_codec,
            ttl=spec.ttl_of(0),
            **spec.past_of("rows"),
        )
        self.descriptors = self.prefetched = (self._rows, *self.end.descriptors)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        self.rows: SortedMapHandle[tuple[Any, ...], Row] = epoch.session.sorted_map(self._rows)
        self.end.open(epoch)

    async def rank_behind(self, key: tuple[Any, ...], end: int | None) -> int:
        """The rank that a new row of this sort key has; ranks behind the end are all one."""
        before = await self.rows.count_until(key, inclusive_to=True, at_most=end)
        return before + 1

    async def show(
        self, change: InputChange, row: Row, key: tuple[Any, ...], rank: int, end: int | None
    ) -> bool:
        """Emit what follows when a new row gets a rank that is not behind the end.

        Returns:
            Whether a row leaves the range: the last one that it had.
        """
        place = self.rows.behind(key)
        if self.ranking.counts_ranks:
            count = None if end is None else end - rank + 1
            displaced = await self.rows.values_from(place, count)
            self.ranking.emit(change, inserted(row, rank, displaced, end), end)
            return len(displaced) == count
        out = None if end is None else await self.rows.value_from(place, end - rank)
        if out is not None:
            change.emit(RowKind.DELETE, out)
        change.emit(RowKind.INSERT, row)
        return out is not None


def is_retraction(change: InputChange) -> bool:
    """Whether a change takes a row back, where none can: it is an orphan then."""
    if change.kind.is_retraction:
        change.orphan()
    return change.kind.is_retraction
