"""OVER aggregation: each row comes out with what its functions say of it and the rows before it.

    frame                                  row time                        processing time
    UNBOUNDED PRECEDING .. CURRENT ROW     when the watermark reaches      at once, one by one
      RANGE                                its time, all rows of a time
                                           with the same values
      ROWS                                 the same, one by one
    RANGE n ms PRECEDING .. CURRENT ROW    the same, with one value        in the next epoch: all
                                           for all rows of a time          rows of an epoch together
    ROWS n PRECEDING .. CURRENT ROW        the same, one by one            at once, one by one

Worked example, SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE 10 s PRECEDING):

    +I (a, 1, 00:01)       waits
    +I (a, 3, 00:08)       waits
    +I (a, 4, 00:12)       waits
    watermark 00:12        +I (a, 1, 00:01, 1)   +I (a, 3, 00:08, 4)   +I (a, 4, 00:12, 7)

Late rows in row time: those at or before the watermark where the frame is unbounded; else those at
or before the time of which the key's last rows came out. They are dropped and counted.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import NonNegativeInt, model_validator

from operators.changelog import RowKind
from operators.keyed import KeyedOperator
from operators.over.frame_calls import FrameCalls
from operators.over.idle_rows import IdleRows
from operators.over.positions import PositionCall
from operators.over.spec import OverCallsSpec
from operators.stored_rows import StoredRows
from operators.windows.spec import time_of
from state.descriptors import JSON, SortedMapDescriptor, TimersDescriptor, ValueDescriptor
from state.lexicographic import lexicographic_codec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from operators.changelog import Row
    from operators.keyed import FiredTimer, InputChange, OpenEpoch
    from state.descriptors import StateDescriptor

    Emitted = tuple[Row, Callable[[RowKind, Row], None]]

_BIGINT = parse_type("BIGINT NOT NULL")


class OverSpec(OverCallsSpec):
    """What an OVER aggregation is to do; its input has no retractions."""

    kind: Literal["over-aggregate"] = "over-aggregate"
    bundles: bool = True
    """What a key keeps is read and written once an epoch."""
    time_column: NonNegativeInt | None
    """The row time that rows are ordered by; None: the time of the epoch that brings them."""
    preceding: NonNegativeInt | None
    """How many rows, or ms, before the current row the frame begins; None: it has no beginning."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.time_column is not None and self.time_column >= len(self.inputs[0].types):
            raise ValueError("the row time is not a column of the input")
        if self.preceding is not None and any(isinstance(x, PositionCall) for x in self.calls):
            raise ValueError("positions count all rows before the current one")
        return self

    def operator(self) -> OverAggregate:
        """The operator of it."""
        return OverAggregate(self)


class OverAggregate(KeyedOperator):
    """Emit each row with the values of functions over the rows before it.

    Characteristics:
        input       +I, keyed by partition
        output      +I, in order of time within a partition; each row once
        state       `rows`: what waits for the watermark, and of a RANGE what is in the frame;
                    `window`: the rows of a ROWS frame by number; `accumulators`, and beside them
                    what of them grows (`operators.over.frame_calls`); `triggered` and `row_count`:
                    how far the partition has come; `cleanup_at`
        state cost  a row is stored once, and read again when it comes out and when it leaves the
                    frame: a range of sorted state for each once a key and epoch; of DISTINCT and
                    of functions that remember values (MIN of a bounded frame) the entries of rows
                    that come and leave, whatever the frame holds
        time        event-time timers at the rows' times. The state of a partition goes when no row
                    has come for 1.5 frames (RANGE), or for 1 to 1.5 TTLs in processing time
        unseen -D   there are none

    Source: Flink RowTime- and ProcTime- -RangeBoundedPrecedingFunction,
    -RowsBoundedPrecedingFunction and -UnboundedPrecedingFunction; a first row at or before 1970 is
    late in Flink's bounded frames and is not here.
    """

    def __init__(self, spec: OverSpec) -> None:
        self._spec = spec
        self._calls = FrameCalls(spec)
        self._is_range = spec.preceding is not None and not spec.is_rows
        self._is_window = spec.preceding is not None and spec.is_rows
        self._waits = spec.time_column is not None or self._is_range
        self._delay_ms = int(spec.time_column is None)
        """Rows of processing time come out when the next millisecond has begun."""
        rows, key_codec = StoredRows(spec.inputs[0]), lexicographic_codec([_BIGINT])
        self._row_lists: SortedMapDescriptor[tuple[int], Row] = SortedMapDescriptor(
            name="rows", key_codec=key_codec, codec=rows
        )
        self._windows: SortedMapDescriptor[tuple[int], Row] = SortedMapDescriptor(
            name="window", key_codec=key_codec, codec=rows
        )
        self._accumulator: ValueDescriptor[Any] = ValueDescriptor(
            name="accumulators", codec=self._calls.codec
        )
        self._triggers: ValueDescriptor[Any] = ValueDescriptor(name="triggered", codec=JSON)
        self._counts: ValueDescriptor[Any] = ValueDescriptor(name="row_count", codec=JSON)
        # A key has rows that wait, or some came out.
        waiting = (self._row_lists.name,) * self._waits
        self._idle = IdleRows(spec, self._accumulator.name, *waiting)
        used: list[StateDescriptor] = [self._accumulator, self._idle.planned]
        used += [self._row_lists] * self._waits
        used += [self._windows, self._counts] * self._is_window
        used += [self._triggers] * (self._is_range or self._is_window)
        self.descriptors = [*used, *self._calls.descriptors]
        # What rows that wait are to read is read when they come out.
        self.prefetched = used if self._waits else [*used, *self._calls.prefetched]
        if not self._is_range:
            self.processing_timers, self.left_timers = self._idle.timers, self._idle.left_timers
            self.planned = self._idle.planned
        if spec.time_column is not None:
            self.event_timers = TimersDescriptor(name="event_timers")
        elif self._is_range:
            self.processing_timers = TimersDescriptor(name="processing_timers")

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        session = epoch.session
        self._rows = session.sorted_map(self._row_lists)
        self._window = session.sorted_map(self._windows)
        self._accumulators = session.value(self._accumulator)
        self._triggered = session.value(self._triggers)
        self._count = session.value(self._counts)
        # Of a RANGE, when its last frame is over: `IdleRows` has nothing to do with it.
        self._cleanup_at = session.value(self._idle.planned)
        self._calls.open(epoch)
        if not self._is_range:
            self._idle.open(epoch)
        waits_for = self.event_timers or self.processing_timers
        if self._waits and waits_for is not None:
            self._timers = epoch.timers(waits_for)
        self._now_ms = epoch.times.time_ms
        self._watermark_ms = epoch.times.watermark_ms
        self._next_ms = epoch.times.next_watermark_ms

    async def process(self, change: InputChange) -> None:
        """Take one row in."""
        await self.process_bundle((change,))

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Take the rows of a key in, in order."""
        if not self._is_range:
            await self._idle.keep()
        if not self._waits:
            rows = [(each.row, each.emit) for each in changes]
            await self._advance([(self._now_ms, rows)])
            return
        last_ms = await self._last_ms()
        times: list[int] = []
        for change in changes:
            at_ms = self._time_of(change, last_ms)
            if at_ms is None or (last_ms is not None and at_ms <= last_ms):
                change.late()
                continue
            await self._rows.add((at_ms,), change.row)
            self._timers.register(at_ms + self._delay_ms)
            times.append(at_ms)
        if self._is_range:
            await self._clean_after(times)

    async def on_event_timer(self, timer: FiredTimer) -> None:
        """The watermark has reached a time of which rows wait: all that wait come out."""
        if not self._is_range:
            await self._come_out(timer, self._next_ms)
            await self._idle.keep()
        elif not await self._cleans_up(timer.time_ms):
            await self._come_out(timer, self._next_ms)

    async def on_untimed_key(self) -> None:
        """A key that was there before there was a TTL."""
        await self._idle.plan()

    async def on_processing_timer(self, timer: FiredTimer) -> None:
        """Rows of the epoch before come out; or a key was idle for long."""
        if self._is_range:
            if not await self._cleans_up(timer.time_ms):
                await self._come_out(timer, self._now_ms - self._delay_ms)
        elif await self._idle.is_due():
            if self._waits and await self._rows.first_entry() is not None:
                await self._idle.keep()
            else:
                await self._forget()

    def _time_of(self, change: InputChange, last_ms: int | None) -> int | None:
        """The time of a row; None if it has none.

        That of an epoch may be before the one that the epoch before had, where a clock was set
        back; what comes to a partition is never before what came out of it.
        """
        if self._spec.time_column is not None:
            return time_of(change.row, self._spec.time_column)
        return self._now_ms if last_ms is None else max(self._now_ms, last_ms + 1)

    async def _last_ms(self) -> int | None:
        """Rows up to here are late; None: none is."""
        is_bounded = self._is_range or self._is_window
        return await self._triggered.value() if is_bounded else self._watermark_ms

    async def _come_out(self, timer: FiredTimer, until_ms: int) -> None:
        """Emit all rows that wait, up to a time; their timers have nothing more to do."""
        is_bounded = self._is_range or self._is_window
        last_ms = await self._triggered.value() if is_bounded else None
        if last_ms is None or self._is_window:
            due = await self._rows.read_range_until((until_ms,), inclusive_to=True)
        else:
            due = await self._rows.read_range((last_ms + 1,), (until_ms,), inclusive_to=True)
        for (at_ms,), _ in due:
            self._timers.remove(at_ms + self._delay_ms)
        if due:
            await self._advance(
                [(at_ms, [(row, timer.emit) for row in rows]) for (at_ms,), rows in due]
            )
        if not self._is_range:
            await self._rows.clear_range_until((until_ms,), inclusive_to=True)
        if is_bounded:
            reached = [at_ms for (at_ms,), _ in due[-1:]] + [timer.time_ms - self._delay_ms]
            await self._triggered.update(max(reached if last_ms is None else [*reached, last_ms]))

    async def _advance(self, batches: Sequence[tuple[int, Sequence[Emitted]]]) -> None:
        """Let the rows of some times into the frame, and emit them."""
        calls = self._calls
        leaving = await self._leaving(batches)
        coming = [row for _, rows in batches for row, _ in rows]
        held = await calls.begin(await self._accumulators.value(), [*coming, *leaving.rows])
        one_by_one = self._spec.is_rows or not self._waits
        for at_ms, rows in batches:
            for gone in leaving.before(at_ms):
                await calls.retract(held, gone)
            for row, emit in rows:
                for gone in leaving.for_one_more():
                    await calls.retract(held, gone)
                await calls.accumulate(held, row, at_ms)
                if one_by_one:
                    emit(RowKind.INSERT, (*row, *await calls.values(held)))
            if not one_by_one:
                values = await calls.values(held)
                for row, emit in rows:
                    emit(RowKind.INSERT, (*row, *values))
        await self._accumulators.update(held)

    async def _leaving(self, batches: Sequence[tuple[int, Sequence[Emitted]]]) -> _Leaving:
        """The rows that leave the frame as these come in; they are removed from state."""
        preceding = self._spec.preceding
        if preceding is not None and self._is_range:
            end = (batches[-1][0] - preceding,)
            found = await self._rows.read_range_until(end)
            await self._rows.clear_range_until(end)
            return _Leaving([(at_ms, row) for (at_ms,), rows in found for row in rows], preceding)
        if preceding is None:
            return _Leaving([], 0)
        number = await self._count.value() or 0
        added = [row for _, rows in batches for row, _ in rows]
        start = max(0, number + len(added) - preceding - 1)
        stored = await self._window.read_range_until((start,))
        await self._window.clear_range_until((start,))
        for at, row in enumerate(added, number):
            if at >= start:
                await self._window.add((at,), row)
        await self._count.update(number + len(added))
        gone = [(0, row) for _, rows in stored for row in rows] + [(0, row) for row in added]
        return _Leaving(gone, preceding, room=preceding + 1 - number)

    async def _clean_after(self, times: Sequence[int]) -> None:
        """Let the key's state go 1 to 1.5 frames after its last row."""
        preceding = self._spec.preceding or 0
        stored_ms = planned_ms = await self._cleanup_at.value()
        for at_ms in times:
            out_ms = at_ms + self._delay_ms + 1
            if planned_ms is None or planned_ms < out_ms + preceding:
                planned_ms = out_ms + preceding * 3 // 2
                self._timers.register(planned_ms)
        if planned_ms != stored_ms:
            await self._cleanup_at.update(planned_ms)

    async def _cleans_up(self, time_ms: int) -> bool:
        """Let the state of a RANGE go if it is time for that."""
        planned_ms = await self._cleanup_at.value()
        if planned_ms is None or planned_ms > time_ms:
            return False
        await self._forget()
        return True

    async def _forget(self) -> None:
        for each in (self._rows, self._window):
            await each.clear()
        for value in (self._accumulators, self._triggered, self._count):
            await value.clear()
        await self._calls.clear()
        if self._is_range:
            await self._cleanup_at.clear()
        else:
            await self._idle.forget()


class _Leaving:
    """Rows that leave the frame, oldest first.

    Args:
        rows: With their times.
        preceding: Of the frame.
        room: ROWS: so many rows come in before the first one leaves; None: RANGE.
    """

    def __init__(
        self, rows: Sequence[tuple[int, Row]], preceding: int, room: int | None = None
    ) -> None:
        self._left = deque(rows)
        self._preceding = preceding
        self._room = room

    @property
    def rows(self) -> list[Row]:
        """All that are left; not each of them need leave."""
        return [row for _, row in self._left]

    def before(self, at_ms: int) -> Iterator[Row]:
        """RANGE: those that are too old for rows of this time."""
        while self._room is None and self._left and self._left[0][0] < at_ms - self._preceding:
            yield self._left.popleft()[1]

    def for_one_more(self) -> Iterator[Row]:
        """ROWS: the one that a row pushes out, if there is no room for it."""
        if self._room is None:
            return
        if self._room > 0:
            self._room -= 1
        else:
            yield self._left.popleft()[1]
