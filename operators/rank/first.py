"""Top-n that needs no buffer: the first rows by arrival, and the first row by an order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.changelog import RowKind
from operators.keyed import KeyedOperator, OpenEpoch
from operators.ordering import SortKeys
from operators.rank.buffer import RankEnd, is_retraction
from operators.rank.columnar import ColumnarTopN
from operators.rank.columnar_first import ColumnarFirstN
from operators.rank.kept_lines import LineAlone
from operators.stored_rows import StoredRows
from state.descriptors import JSON, ValueDescriptor

if TYPE_CHECKING:
    from operators.changelog import Row
    from operators.keyed import InputChange
    from operators.rank.spec import RankSpec
    from state.primitives.value import ValueHandle


class FirstN(KeyedOperator):
    """Show the rows of a range of ranks by arrival: LIMIT, or ORDER BY processing time.

    Characteristics:
        input       +I, keyed by the partition's columns
        output      +I
        state       how many rows came, at most the last rank
        state cost  one field read, one written for a row that counts
        time        none; TTL of the count, from the last row that counted
        unseen -D   any retraction: an orphan

    Source: Flink's AppendOnlyFirstNFunction; for LIMIT, where Flink keeps the rows themselves
    (AppendOnlyTopNFunction), the same is emitted.
    """

    def __init__(self, spec: RankSpec) -> None:
        (row,) = spec.inputs
        self._start, self._with_number = spec.start, spec.with_number
        self._end = RankEnd(spec)
        self._counts: ValueDescriptor[int] = ValueDescriptor(
            name="count", codec=JSON, ttl=spec.ttl_of(0), **spec.past_of("count")
        )
        self.descriptors = self.prefetched = (self._counts, *self._end.descriptors)
        self._on_columns = ColumnarFirstN(spec)
        self.columnar = self._on_columns if spec.end_column is None and row.types else None

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        self._count: ValueHandle[int] = epoch.session.value(self._counts)
        self._on_columns.open(self._count)
        self._end.open(epoch)

    async def process(self, change: InputChange) -> None:
        """Count a row, and show it if its rank lies in the range."""
        if is_retraction(change):
            return
        end = await self._end.of(change.row)
        rank = (await self._count.value() or 0) + 1
        if end is not None and rank > end:
            return
        await self._count.update(rank)
        if rank >= self._start:
            change.emit(RowKind.INSERT, (*change.row, rank) if self._with_number else change.row)


class Top1(KeyedOperator):
    """Show the first row of each key by an order, of input that only grows or only rises.

    By p descending:

        change       row kept   emitted
        +I a 10      a10        +I a
        +I b 20      b20        -U a  +U b
        +I c 20      b20        (of equal rows the first stays)

    Characteristics:
        input       +I, and +U of rows that rise, keyed by the partition's columns
        output      +I -U +U, unique by the partition
        state       the row
        state cost  one field read, one written for a row that is shown
        time        none; TTL of the row, from when it became the first
        unseen -D   -D, and -U where rows only grow: an orphan

    Source: Flink's FastTop1Function. Flink drops an update of the first row that changes other
    columns than those of the order; here it is emitted, where a unique key tells that it is one.
    """

    def __init__(self, spec: RankSpec) -> None:
        (row,) = spec.inputs
        self._with_number, self._update_before = spec.with_number, spec.update_before
        self._sort = SortKeys(row, spec.order)
        self._only_rises = spec.strategy == "update"
        self._unique_key = spec.unique_key
        self._identity = StoredRows(row.part(spec.unique_key))
        self._codec = StoredRows(row)
        self._rows: ValueDescriptor[Row] = ValueDescriptor(
            name="row", codec=self._codec, ttl=spec.ttl_of(0), **spec.past_of("row")
        )
        self.descriptors = self.prefetched = (self._rows,)
        self._line = LineAlone(spec)
        self.columnar = ColumnarTopN.of(spec, self._line)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle."""
        self._row: ValueHandle[Row] = epoch.session.value(self._rows)
        self._line.open(self._row)

    async def process(self, change: InputChange) -> None:
        """Show a row if it is better than the one that is shown, or an update of it."""
        if self._only_rises and change.kind is RowKind.UPDATE_BEFORE:
            return
        if is_retraction(change):
            return
        row, shown = change.row, await self._row.value()
        if shown is None:
            change.emit(RowKind.INSERT, self._numbered(row))
        else:
            if not self._replaces(row, shown):
                return
            if self._update_before:
                change.emit(RowKind.UPDATE_BEFORE, self._numbered(shown))
            change.emit(RowKind.UPDATE_AFTER, self._numbered(row))
        await self._row.update(row)

    def _replaces(self, row: Row, shown: Row) -> bool:
        new, old = self._sort.text(row), self._sort.text(shown)
        if new != old or not self._only_rises:
            return new < old
        return self._identify(row) == self._identify(shown) and (
            self._codec.encode(row) != self._codec.encode(shown)
        )

    def _identify(self, row: Row) -> bytes:
        return self._identity.encode([row[at] for at in self._unique_key])

    def _numbered(self, row: Row) -> Row:
        return (*row, 1) if self._with_number else row
