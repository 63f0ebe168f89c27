"""Deduplication of a changelog: FLIP-544's open case.

A row that is taken back may be the one that is shown; then the next one takes its place, so all
rows are kept: by arrival in a sequenced multiset, by event time in a sorted map. Either finds a row
without looking at the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from operators.changelog import RowKind
from operators.event_time import event_ms
from operators.keyed import KeyedOperator, OpenEpoch
from operators.processing_time import blanked
from operators.stored_rows import StoredRows
from state.descriptors import MultisetDescriptor, SortedMapDescriptor
from state.lexicographic import lexicographic_codec
from state.multiset.interface import NotFound
from state.types import parse_type

if TYPE_CHECKING:
    from operators.changelog import Row
    from operators.deduplicate.spec import DeduplicateSpec
    from operators.keyed import InputChange
    from state.descriptors import StateDescriptor


class _Rows(Protocol):
    """The rows of a key, of which one is shown."""

    @property
    def descriptor(self) -> StateDescriptor: ...

    def open(self, epoch: OpenEpoch) -> None: ...

    async def shown(self) -> Row | None: ...

    async def add(self, row: Row) -> None: ...

    async def remove(self, row: Row) -> bool: ...


class RetractingRow(KeyedOperator):
    """Show the first or the last row of each key that was not taken back.

    The last one by arrival:

        change   rows      emitted
        +I a     a         +I a
        +I b     a b       -U a  +U b
        -D a     b
        +I c     b c       -U b  +U c
        -D c     b         -U c  +U b
        -D b               -D b

    By event time the order is that of the rows' times, and of their arrival where those are equal.

    Characteristics:
        input       +I -U +U -D
        output      +I -U +U -D, upsert key = the key
        state       all rows of a key; nothing is left once all are retracted
        state cost  what is shown before and after, an addition or a removal: none grows with the
                    number of rows (by event time: but with the number of rows of one time)
        time        no watermark; TTL for each row, from its arrival
        unseen -D   an orphan
        equal rows  the first to come is taken back; an update to an equal row is not emitted

    Source: FLIP-544 names the case. Flink plans a RetractableTopNFunction instead, which compares
    rows with their processing time or ignores it.
    """

    def __init__(self, spec: DeduplicateSpec) -> None:
        (row,) = spec.inputs
        self._update_before = spec.update_before
        self._proctime = frozenset(spec.proctime)
        self._codec = StoredRows(row)
        self._rows: _Rows = (
            _ByArrival(spec, self._codec)
            if spec.rowtime is None
            else _ByEventTime(spec, self._codec, spec.rowtime)
        )
        self.descriptors = self.prefetched = (self._rows.descriptor,)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle."""
        self._rows.open(epoch)

    async def process(self, change: InputChange) -> None:
        """Add a row or take one back, and emit what is shown now."""
        row = blanked(change.row, self._proctime)
        before = await self._rows.shown()
        if not change.kind.is_retraction:
            await self._rows.add(row)
        elif not await self._rows.remove(row):
            change.orphan()
            return
        after = await self._rows.shown()
        if before is None:
            if after is not None:
                change.emit(RowKind.INSERT, after)
        elif after is None:
            change.emit(RowKind.DELETE, before)
        elif self._codec.encode(before) != self._codec.encode(after):
            if self._update_before:
                change.emit(RowKind.UPDATE_BEFORE, before)
            change.emit(RowKind.UPDATE_AFTER, after)


class _ByArrival:
    def __init__(self, spec: DeduplicateSpec, codec: StoredRows) -> None:
        self._keeps_last = spec.keeps_last
        self.descriptor: MultisetDescriptor[Row] = MultisetDescriptor(
            name="rows", codec=codec, ttl=spec.ttl_of(0), **spec.past_of("rows")
        )

    def open(self, epoch: OpenEpoch) -> None:
        self._rows = epoch.session.multiset(self.descriptor)

    async def shown(self) -> Row | None:
        found = await (self._rows.last() if self._keeps_last else self._rows.first())
        return None if found is None else found.row

    async def add(self, row: Row) -> None:
        await self._rows.append(row)

    async def remove(self, row: Row) -> bool:
        return not isinstance(await self._rows.remove(row), NotFound)


class _ByEventTime:
    def __init__(self, spec: DeduplicateSpec, codec: StoredRows, rowtime: int) -> None:
        self._keeps_last, self._rowtime = spec.keeps_last, rowtime
        self.descriptor: SortedMapDescriptor[tuple[int, ...], Row] = SortedMapDescriptor(
            name="rows",
            key_codec=lexicographic_codec([parse_type("BIGINT NOT NULL")]),
            codec=codec,
            ttl=spec.ttl_of(0),
            **spec.past_of("rows"),
        )

    def open(self, epoch: OpenEpoch) -> None:
        self._rows = epoch.session.sorted_map(self.descriptor)

    async def shown(self) -> Row | None:
        if self._keeps_last:
            return await self._rows.last_value()
        return await self._rows.value_from(self._rows.start, 0)

    async def add(self, row: Row) -> None:
        await self._rows.add((event_ms(row, self._rowtime),), row)

    async def remove(self, row: Row) -> bool:
        return await self._rows.take((event_ms(row, self._rowtime),), row) is not None
