"""Top-n of input that only grows."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

from operators.changelog import RowKind
from operators.rank.buffer import RankBuffer, is_retraction
from operators.rank.columnar import ColumnarTopN
from operators.rank.kept_lines import LinesInOrder
from operators.rank.ranking import inserted
from state.types import INTEGER_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.keyed import InputChange, OpenEpoch
    from operators.rank.spec import RankSpec

_KNOWN_MAX: Final = 128
"""Up to so many rows of a partition are looked at as a whole."""


class AppendTopN(RankBuffer):
    """Show the rows of a range of ranks, of input without retractions.

    Ranks by p descending, 1 and 2 are shown:

        change      rows kept         emitted with ranks             emitted without
        +I a 10     a10               +I a 1                         +I a
        +I b 20     b20 a10           -U a 1  +U b 1  +I a 2         +I b
        +I c 15     b20 c15           -U a 2  +U c 2                 -D a  +I c
        +I d 15     b20 c15           (of equal rows the first stays)

    Characteristics:
        input       +I, keyed by the partition's columns
        output      with ranks +I -U +U, unique by partition and rank; without +I -D;
                    a range that begins behind rank 1: as with ranks, without their numbers
        state       the rows up to the last rank, in order
        state cost  the rows that are kept are read once an epoch (of more than 128: a count, and
                    the rows that shift); of those that came and are still kept at its end each is
                    written once, of those that gave way to them each removed (of more than 128, or
                    with a TTL: one written and one removed for each change; with a TTL also the
                    rows of the sort keys of these, once an epoch); `columnar` does an
                    epoch on columns where it can
        time        none; TTL of a sort key's rows, from when one of them came or gave way
        unseen -D   any retraction: an orphan

    Source: Flink's AppendOnlyTopNFunction and AppendOnlyTopNHelper. Where a column says the last
    rank and it is above 100, Flink keeps no more than 100 rows at the end; here all are kept.
    """

    takes_bundles = True

    def __init__(self, spec: RankSpec) -> None:
        super().__init__(spec)
        self._ages = spec.ttl_of(0).is_enabled
        is_short = spec.end is not None and spec.end <= _KNOWN_MAX
        self._known_end = spec.end if is_short and not self._ages else None
        self._number: int | None = None
        """The column of the order, where it is one of whole numbers."""
        if len(spec.order) == 1:
            only = spec.order[0]
            if spec.inputs[0].types[only.column].root in INTEGER_BITS:
                self._number, self._descends = only.column, only.descending
        self._lines = LinesInOrder(spec, self.sort)
        can = not self._rows.may_have_stamps
        self.columnar = ColumnarTopN.of(spec, self._lines) if can else None

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        super().open(epoch)
        self._lines.open(self.rows)

    async def process(self, change: InputChange) -> None:
        """Put a row into its place, if that is in the range, and drop the one behind the range."""
        await self._live_on(await self._put(change))

    async def _put(self, change: InputChange) -> list[Row]:
        """The same; gives rows whose sort keys live on from now: what came and what gave way."""
        if is_retraction(change):
            return []
        row, key = change.row, self.sort.of(change.row)
        end = await self.end.of(row)
        rank = await self.rank_behind(key, end)
        if end is not None and rank > end:
            return []
        self.rows_codec.know(change)
        is_full = await self.show(change, row, key, rank, end)
        await self.rows.add(key, row)
        gone = await self.rows.pop_last() if is_full else None
        return [row] if gone is None else [row, gone]

    async def _live_on(self, rows: Sequence[Row]) -> None:
        """With a TTL all rows of a sort key live on with one; each key is written once."""
        if not self._ages:
            return
        keys = {self.sort.text(row): self.sort.of(row) for row in rows}
        for key in keys.values():
            values = await self.rows.values_at(key)
            if values is not None:
                await self.rows.put(key, values)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """As `process` of each; where the range is short its rows are in memory meanwhile."""
        end = self._known_end
        if end is None or len(changes) == 1:
            touched: list[Row] = []
            for change in changes:
                touched += await self._put(change)
            await self._live_on(touched)
            return
        kept = _Kept(await self.rows.ordered_texts())
        for change in changes:
            if is_retraction(change):
                continue
            is_full = len(kept.keys) >= end
            if is_full and self._is_behind(change.row, kept, end):
                continue
            text = self.sort.text(change.row)
            if is_full and text >= kept.keys[end - 1]:
                continue
            self._insert(change, text, kept, end)
        for _ in range(kept.removed):
            await self.rows.pop_last()
        for came in kept.changes:
            if came is not None:
                self.rows_codec.know(came)
                await self.rows.add(self.sort.of(came.row), came.row)

    def _is_behind(self, row: Row, kept: _Kept, end: int) -> bool:
        """Whether a number says already that a row is behind the last one that is kept."""
        if self._number is None:
            return False
        number: Any = row[self._number]  # of a type with an order, which the plan has seen to
        last: Any = self._row_at(kept, end - 1)[self._number]  # of the same type
        if number is None or last is None:
            return False
        return bool(number <= last if self._descends else number >= last)

    def _insert(self, change: InputChange, text: bytes, kept: _Kept, end: int) -> None:
        """Emit what follows when a row comes into the range, and keep it."""
        place = bisect_right(kept.keys, text)
        row = change.row
        if self.ranking.counts_ranks:
            last = min(len(kept.keys), end)
            displaced = [self._row_at(kept, at) for at in range(place, last)]
            if self.ranking.is_bare:
                shifted = [row, *displaced]
                for rank, each in enumerate(shifted[: len(displaced)], place + 1):
                    change.emit(RowKind.UPDATE_AFTER, (*each, rank))
                if len(kept.keys) < end:
                    change.emit(RowKind.INSERT, (*shifted[-1], len(kept.keys) + 1))
            else:
                self.ranking.emit(change, inserted(row, place + 1, displaced, end), end)
        else:
            if len(kept.keys) >= end:
                change.emit(RowKind.DELETE, self._row_at(kept, end - 1))
            change.emit(RowKind.INSERT, row)
        kept.insert(place, text, change, end)

    def _row_at(self, kept: _Kept, at: int) -> Row:
        row = kept.rows[at]
        if row is None:
            row = kept.rows[at] = self.rows_codec.decode(kept.jsons[at])
        return row


class _Kept:
    """The rows of a partition in order, while a bundle is processed; lists go by place."""

    __slots__ = ("changes", "jsons", "keys", "removed", "rows")

    def __init__(self, stored: Sequence[tuple[bytes, bytes]]) -> None:
        self.keys = [key for key, _ in stored]
        """Sort keys as bytes that order as they do."""
        self.jsons = [json for _, json in stored]
        """As rows are stored; empty for one that came with the bundle."""
        self.rows: list[Row | None] = [None] * len(stored)
        """As far as they were looked at."""
        self.changes: list[InputChange | None] = [None] * len(stored)
        """What brought a row, if that was in the bundle."""
        self.removed = 0
        """Rows that were stored and gave way: the last ones of those."""

    def insert(self, place: int, key: bytes, change: InputChange, end: int) -> None:
        """Have a row at a place, and not more of them than the end."""
        self.keys.insert(place, key)
        self.jsons.insert(place, b"")
        self.rows.insert(place, change.row)
        self.changes.insert(place, change)
        if len(self.keys) > end:
            self.keys.pop()
            self.jsons.pop()
            self.rows.pop()
            self.removed += self.changes.pop() is None
