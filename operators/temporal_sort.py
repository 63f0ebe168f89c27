"""Sort a stream by time: rows wait until no earlier one can come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import NonNegativeInt, model_validator

from operators.changelog import RowKind
from operators.event_time import event_ms, is_time
from operators.keyed import KeyedOperator, OpenEpoch
from operators.ordering import SortColumn, SortKeys
from operators.spec import OperatorSpec
from operators.stored_rows import StoredRows
from state.descriptors import (
    JSON,
    ListDescriptor,
    SortedMapDescriptor,
    TimersDescriptor,
    ValueDescriptor,
)
from state.lexicographic import lexicographic_codec
from state.types import parse_type

if TYPE_CHECKING:
    from operators.changelog import Row
    from operators.keyed import FiredTimer, InputChange
    from state.primitives.lists import ListHandle
    from state.primitives.sorted import SortedMapHandle


class TemporalSortSpec(OperatorSpec):
    """Emits rows in the order of their time, and of other columns among rows of one time."""

    kind: Literal["temporal-sort"] = "temporal-sort"
    rowtime: NonNegativeInt | None
    """The column of event time; None: the order is that of processing time."""
    order: tuple[SortColumn, ...] = ()
    """The order of rows of one time. Empty: that of their arrival."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        (row,) = self.inputs
        if self.rowtime is not None and not is_time(row, self.rowtime):
            raise ValueError("the column of event time must be TIMESTAMP or TIMESTAMP_LTZ")
        if any(each.column >= len(row.types) for each in self.order):
            raise ValueError("the order must name columns of the input")
        return self

    @property
    def needed_times(self) -> tuple[tuple[int, int], ...]:
        """See `OperatorSpec`."""
        return () if self.rowtime is None else ((0, self.rowtime),)

    def operator(self) -> KeyedOperator:
        """The operator."""
        return ProcessingTimeSort(self) if self.rowtime is None else EventTimeSort(self)


class EventTimeSort(KeyedOperator):
    """Emit rows by event time when the watermark has reached it.

    Characteristics:
        input       +I
        output      +I, in order for each key
        state       the rows that wait, by time; the time of the last row that was emitted
        state cost  one member written for a row; one range read when the watermark moves on
        time        a timer in event time for each time that rows wait for. A row that is not above
                    the last one that was emitted is late and passed over; one that is, and below
                    the watermark, waits for the next. No TTL
        unseen -D   any retraction: an orphan

    Source: Flink's RowTimeSortOperator.
    """

    def __init__(self, spec: TemporalSortSpec) -> None:
        (row,) = spec.inputs
        assert spec.rowtime is not None
        self._rowtime = spec.rowtime
        self._sort = SortKeys(row, spec.order)
        self._rows: SortedMapDescriptor[tuple[int, ...], Row] = SortedMapDescriptor(
            name="rows",
            key_codec=lexicographic_codec([parse_type("BIGINT NOT NULL")]),
            codec=StoredRows(row),
            **spec.past_of("rows"),
        )
        self._last = ValueDescriptor(
            name="last_emitted", codec=JSON, **spec.past_of("last_emitted")
        )
        self.descriptors = self.prefetched = (self._rows, self._last)
        self._due = self.event_timers = TimersDescriptor(name="event_timers")

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        self._waiting: SortedMapHandle[tuple[int, ...], Row] = epoch.session.sorted_map(self._rows)
        self._last_emitted = epoch.session.value(self._last)
        self._timers = epoch.timers(self._due)
        self._times = epoch.times

    async def process(self, change: InputChange) -> None:
        """Let the row wait for its time."""
        if change.kind.is_retraction:
            change.orphan()
            return
        time_ms = event_ms(change.row, self._rowtime)
        last_ms = await self._last_emitted.value()
        if last_ms is not None and time_ms <= last_ms:
            change.late()
            return
        await self._waiting.add((time_ms,), change.row)
        self._timers.register(time_ms)

    async def on_event_timer(self, timer: FiredTimer) -> None:
        """Emit all whose time has come: later timers of the epoch find nothing."""
        until = (self._times.next_watermark_ms,)
        for (time_ms,), rows in await self._waiting.read_range_until(until, inclusive_to=True):
            for row in sorted(rows, key=self._sort.text):
                timer.emit(RowKind.INSERT, row)
            await self._last_emitted.update(time_ms)
        await self._waiting.clear_range_until(until, inclusive_to=True)


class ProcessingTimeSort(KeyedOperator):
    """Emit the rows of one processing time, in order, when the next one has come.

    Rows of one epoch have one processing time. Without an order among them they are emitted as they
    come, and nothing is kept.

    Characteristics:
        input       +I
        output      +I, in order for each key and epoch
        state       the rows of the key's last epoch
        state cost  one element written for a row; all of them read in the next epoch
        time        a timer in processing time, 1 ms later. No TTL
        unseen -D   any retraction: an orphan

    Source: Flink's ProcTimeSortOperator.
    """

    def __init__(self, spec: TemporalSortSpec) -> None:
        (row,) = spec.inputs
        self._passes_on = not spec.order
        self._sort = SortKeys(row, spec.order)
        self._rows: ListDescriptor[Row] = ListDescriptor(
            name="rows", codec=StoredRows(row), **spec.past_of("rows")
        )
        self.descriptors = self.prefetched = (self._rows,)
        self._due = self.processing_timers = TimersDescriptor(name="processing_timers")

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        self._waiting: ListHandle[Row] = epoch.session.list(self._rows)
        self._timers = epoch.timers(self._due)
        self._time_ms = epoch.times.time_ms

    async def process(self, change: InputChange) -> None:
        """Let the row wait for the next epoch."""
        if change.kind.is_retraction:
            change.orphan()
        elif self._passes_on:
            change.emit(RowKind.INSERT, change.row)
        else:
            await self._waiting.add(change.row)
            self._timers.register(self._time_ms + 1)

    async def on_processing_timer(self, timer: FiredTimer) -> None:
        """Emit what waits, in order."""
        rows = await self._waiting.get()
        for row in sorted(rows or (), key=self._sort.text):
            timer.emit(RowKind.INSERT, row)
        await self._waiting.clear()
