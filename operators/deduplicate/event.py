"""Deduplication by event time, of input that only grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.changelog import RowKind
from operators.deduplicate.columnar import EventTimeColumns
from operators.event_time import event_ms
from operators.keyed import KeyedOperator, OpenEpoch
from operators.stored_rows import StoredRows
from state.descriptors import JSON, TimersDescriptor, ValueDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.deduplicate.spec import DeduplicateSpec
    from operators.keyed import FiredTimer, InputChange
    from state.primitives.value import ValueHandle


class EventTimeRow(KeyedOperator):
    """Show the first or the last row of each key by event time, as far as rows have come.

    Of rows with one time the first to come is the first, and the last to come is the last.

    Characteristics:
        input       +I
        output      +I -U +U, upsert key = the key
        state       the row of each key
        state cost  one field read; one written if the row changed
        time        event time of rows; no watermark; TTL of the row, from when it was shown
        bundle      each change is emitted, as versions of a temporal join need; with `compacts`
                    only what the bundle adds up to
        on columns  a whole epoch at once, but for keys with a retraction, and where an event
                    time is missing
        unseen -D   any retraction: an orphan

    Source: Flink's RowTimeDeduplicateFunction and its two mini-batch twins.
    """

    def __init__(self, spec: DeduplicateSpec) -> None:
        (row,) = spec.inputs
        assert spec.rowtime is not None
        self._rowtime = spec.rowtime
        self._keeps_last = spec.keeps_last
        self._update_before = spec.update_before
        self._tells_inserts = spec.update_before or spec.tells_inserts
        self._compacts = spec.compacts
        self._rows: ValueDescriptor[Row] = ValueDescriptor(
            name="row", codec=StoredRows(row), ttl=spec.ttl_of(0), **spec.past_of("row")
        )
        self.descriptors = self.prefetched = (self._rows,)
        self.columnar = self._on_columns = EventTimeColumns(spec, spec.rowtime)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle."""
        self._row: ValueHandle[Row] = epoch.session.value(self._rows)
        self._on_columns.open(self._row)

    async def process(self, change: InputChange) -> None:
        """Show the row if it takes the place of the one that is shown."""
        if change.kind.is_retraction:
            change.orphan()
            return
        row, shown = change.row, await self._row.value()
        if shown is not None and not self._replaces(row, shown):
            return
        if shown is not None and self._update_before:
            change.emit(RowKind.UPDATE_BEFORE, shown)
        is_insert = shown is None and self._tells_inserts
        change.emit(RowKind.INSERT if is_insert else RowKind.UPDATE_AFTER, row)
        await self._row.update(row)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Show each of the rows, or the one that remains of them."""
        kept: InputChange | None = None
        for change in changes:
            if not self._compacts or change.kind.is_retraction:
                await self.process(change)
            elif kept is None or self._replaces(change.row, kept.row):
                kept = change
        if kept is not None:
            await self.process(kept)

    def _replaces(self, row: Row, other: Row) -> bool:
        new_ms, old_ms = event_ms(row, self._rowtime), event_ms(other, self._rowtime)
        return new_ms >= old_ms if self._keeps_last else new_ms < old_ms


class FirstRowOnce(KeyedOperator):
    """Emit the first row of each key by event time, once no earlier one can come.

    Characteristics:
        input       +I
        output      +I, one a key
        state       the row that waits for the watermark; then, that one was emitted
        state cost  two fields read; one written and a timer, if the row is earlier
        time        a timer in event time at the row's time. A row below the watermark is late and
                    passed over. TTL from the emission; what waits has none: it would be lost
        unseen -D   any retraction: an orphan

    Source: Flink's RowTimeDeduplicateKeepFirstRowFunction (2.3).
    """

    def __init__(self, spec: DeduplicateSpec) -> None:
        (row,) = spec.inputs
        assert spec.rowtime is not None
        self._rowtime = spec.rowtime
        self._waiting: ValueDescriptor[Row] = ValueDescriptor(
            name="waiting", codec=StoredRows(row), **spec.past_of("waiting")
        )
        self._emitted: ValueDescriptor[bool] = ValueDescriptor(
            name="emitted", codec=JSON, ttl=spec.ttl_of(0), **spec.past_of("emitted")
        )
        self.descriptors = self.prefetched = (self._waiting, self._emitted)
        self._due = self.event_timers = TimersDescriptor(name="event_timers")

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        self._row: ValueHandle[Row] = epoch.session.value(self._waiting)
        self._is_done: ValueHandle[bool] = epoch.session.value(self._emitted)
        self._timers = epoch.timers(self._due)
        self._watermark_ms = epoch.times.watermark_ms

    async def process(self, change: InputChange) -> None:
        """Let the row wait if it is the earliest."""
        if change.kind.is_retraction:
            change.orphan()
            return
        time_ms = event_ms(change.row, self._rowtime)
        if time_ms < self._watermark_ms:
            change.late()
            return
        if await self._is_done.value() is not None:
            return
        waiting = await self._row.value()
        if waiting is not None:
            waiting_ms = event_ms(waiting, self._rowtime)
            if waiting_ms <= time_ms:
                return
            self._timers.remove(waiting_ms)
        self._timers.register(time_ms)
        await self._row.update(change.row)

    async def on_event_timer(self, timer: FiredTimer) -> None:
        """Emit the row that waits."""
        row = await self._row.value()
        if row is not None:
            timer.emit(RowKind.INSERT, row)
            await self._row.clear()
            await self._is_done.update(True)
