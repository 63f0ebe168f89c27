"""Join rows that lie near each other in time: `l.t BETWEEN r.t + lower AND r.t + upper`.

Rows of both sides wait for as long as a match can come, in event time (row times against the
watermark) or in processing time (the epoch's time, which is the time of its rows, too). *Now* is
the watermark, but not below 0, or the epoch's time; a left row at t matches right rows from
t - upper to t - lower, a right row at t left rows from t + lower to t + upper.

    row at t                                       emitted, and kept
      each waiting row of the other side in its range,
      with the condition TRUE                      +I row+match; the match has been joined
      then, while now is before its range's end    kept, with whether it was joined
      else (late), own side outer, not joined      +I row+null
    now is past the end of a waiting row's range   it goes; own side outer, not joined: +I row+null

Both sides are append-only, as Flink's planner sees to. A range whose ends are the wrong way round
holds nothing: outer rows are padded at once.

    l LEFT JOIN r ON l.t BETWEEN r.t - 5 AND r.t + 5
    left   (1) at 10          waits
    right  (a) at 12          +I (1, a)
    left   (2) at 30          waits
    watermark 36              +I (2, null)

One difference from Flink: there the timer of a key is that of the row that came first, so that a
row with an earlier time may wait longer than it should, and meet a late one. Here the earliest row
counts.

Source: Flink's `RowTimeIntervalJoin` and `ProcTimeIntervalJoin` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import NonNegativeInt, model_validator

from operators.changelog import RowKind
from operators.event_time import to_ms
from operators.join.condition import compile_condition, unmatchable
from operators.join.temporal import TIME_KEY
from operators.keyed import WATERMARK_MAX, KeyedOperator
from operators.spec import OperatorSpec
from operators.stored_rows import CountedText, RowText
from state.descriptors import JSON, SortedMapDescriptor, TimersDescriptor, ValueDescriptor

if TYPE_CHECKING:
    from operators.changelog import Row
    from operators.keyed import FiredTimer, InputChange, KeyTimers, OpenEpoch
    from state.primitives.sorted import SortedMapHandle

_NAMES = ("leftRows", "rightRows")


class IntervalJoinSpec(OperatorSpec):
    """What an interval join is to do; `inputs` are the left and the right one, by the key."""

    kind: Literal["interval-join"] = "interval-join"
    join_type: Literal["INNER", "LEFT", "RIGHT", "FULL"]
    lower_ms: int
    upper_ms: int
    """How far a left row may lie behind a right one, from and to, both included; in ms."""
    times: tuple[NonNegativeInt, NonNegativeInt] | None
    """The columns of the left and the right row time; None: processing time."""
    filter_nulls: tuple[bool, ...]
    """For each column of the key whether a null in it has no match."""
    condition: list[Any] | None = None
    """What else must be TRUE, over left and right columns one behind the other."""
    cleanup_delay_ms: NonNegativeInt = 0
    """How much longer rows wait, so that fewer timers fire; padded rows come that much later."""

    @model_validator(mode="after")
    def _sides(self) -> Self:
        if len(self.inputs) != 2:
            raise ValueError(f"a join has two inputs, not {len(self.inputs)}")
        for side, time in zip(self.inputs, self.times or (0, 0), strict=True):
            if time >= len(side.types):
                raise ValueError("a row time does not name a column")
        return self

    @property
    def watermark_delay_ms(self) -> int:
        """By how much watermarks must be held back behind the operator; in event time only.

        Rows leave with row times that far below the watermark. Flink: `getMaxOutputDelay`.
        """
        return max(-self.lower_ms, self.upper_ms, 0) if self.times else 0

    @property
    def needed_times(self) -> tuple[tuple[int, int], ...]:
        """See `OperatorSpec`."""
        return () if self.times is None else ((0, self.times[0]), (1, self.times[1]))

    def operator(self) -> IntervalJoin:
        """The operator."""
        return IntervalJoin(self)


class _Side:
    """The waiting rows of one side."""

    def __init__(self, spec: IntervalJoinSpec, number: int) -> None:
        row = spec.inputs[number]
        outer = {0: ("LEFT", "FULL"), 1: ("RIGHT", "FULL")}
        self.number = number
        self.is_outer = spec.join_type in outer[number]
        self.text = RowText(row)
        self.descriptor: SortedMapDescriptor[tuple[Any, ...], tuple[int, bytes]] = (
            SortedMapDescriptor(
                name=_NAMES[number], key_codec=TIME_KEY, codec=CountedText(row, "joined")
            )
        )
        self.namespace = b"left" if number == 0 else b"right"
        """Of its timers."""
        # A match of a left row at t lies in [t - upper, t - lower], of a right one in [t + lower,
        # t + upper].
        before, after = (spec.upper_ms, -spec.lower_ms)
        self.before_ms, self.after_ms = (before, after) if number == 0 else (after, before)
        self.rows: SortedMapHandle[tuple[Any, ...], tuple[int, bytes]]
        self._nulls: Row = (None,) * len(spec.inputs[1 - number].types)

    def joined(self, mine: Row, other: Row) -> Row:
        """The output row of a pair."""
        return other + mine if self.number else mine + other

    def padded(self, mine: Row) -> Row:
        """The output row of a row without a match."""
        return self._nulls + mine if self.number else mine + self._nulls


class IntervalJoin(KeyedOperator):
    """Joins rows that lie near each other in time.

    Characteristics:
        input       +I of both sides, keyed by the join's columns
        output      +I
        state       leftRows, rightRows: rows that wait, by time, each with 1 if it was joined;
                    next_steps: the time of each side's timer
        state cost  a change: one range of the other side, one append; with outer sides the rows
                    that are joined for the first time are written again
        time        event or processing time; a timer for each side of a key
        unseen -D   every retraction is an orphan: these joins are of append-only inputs
    """

    def __init__(self, spec: IntervalJoinSpec) -> None:
        self._spec = spec
        self._sides = (_Side(spec, 0), _Side(spec, 1))
        self._times = spec.times
        self._is_empty = spec.upper_ms < spec.lower_ms
        self._has_no_match = unmatchable(spec.filter_nulls)
        self._epoch_ms = 0
        width = sum(len(each.types) for each in spec.inputs)
        self._condition = compile_condition(spec.condition, width, lambda: self._epoch_ms)
        self._steps = ValueDescriptor(name="next_steps", codec=JSON)
        self.descriptors = self.prefetched = (
            *(each.descriptor for each in self._sides),
            self._steps,
        )
        self._timers_descriptor = TimersDescriptor(name="timers")
        if spec.times is None:
            self.processing_timers = self._timers_descriptor
        else:
            self.event_timers = self._timers_descriptor

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles and the epoch's times."""
        session, times = epoch.session, epoch.times
        self._session = session
        self._next = session.value(self._steps)
        self._timers: KeyTimers = epoch.timers(self._timers_descriptor)
        for side in self._sides:
            side.rows = session.sorted_map(side.descriptor)
            side.text.begin()
        self._epoch_ms = self._now_ms = self._timer_ms = times.time_ms
        if self._times is not None:
            self._now_ms = max(times.watermark_ms, 0)
            self._timer_ms = max(times.next_watermark_ms, 0)

    async def process(self, change: InputChange) -> None:
        """Join a row with what waits, and let it wait."""
        if change.kind.is_retraction:
            change.orphan()
            return
        mine, other = self._sides[change.input], self._sides[1 - change.input]
        values = change.row
        if self._is_empty:
            if mine.is_outer:
                change.emit(RowKind.INSERT, mine.padded(values))
            return
        time_ms = self._now_ms
        if self._times is not None:
            time_ms = to_ms(values[self._times[change.input]])
        has_no_match = self._has_no_match(change.key)
        if has_no_match and not mine.is_outer:
            return
        # Whatever waits at `expired_ms` or before cannot be met any more.
        expired_ms = self._expired_ms(other, self._now_ms)
        end_ms = time_ms + mine.after_ms
        is_joined = False
        if not has_no_match and expired_ms < end_ms:
            is_joined = await self._join(change, time_ms, mine, other)
        if self._now_ms < end_ms:
            row = mine.text.encode(values)
            await mine.rows.add((time_ms,), (int(is_joined), row))
            await self._wake(mine, time_ms)
        elif mine.is_outer and not is_joined:
            change.emit(RowKind.INSERT, mine.padded(values))
        elif not is_joined:
            change.late()

    async def _join(self, change: InputChange, time_ms: int, mine: _Side, other: _Side) -> bool:
        """Emit the pairs of a row; whether there were any."""
        condition, values = self._condition, change.row
        start, end = (time_ms - mine.before_ms,), (time_ms + mine.after_ms,)
        is_joined = False
        for time, waiting in await other.rows.read_range(start, end, inclusive_to=True):
            now_joined = []
            for was_joined, row in waiting:
                pair = mine.joined(values, other.text.decode(row))
                matches = condition is None or condition(pair)
                if matches:
                    is_joined = True
                    change.emit(RowKind.INSERT, pair)
                now_joined.append((int(matches or was_joined), row))
            if other.is_outer and now_joined != waiting:
                await other.rows.put(time, now_joined)
        return is_joined

    def _expired_ms(self, side: _Side, now_ms: int) -> int:
        """Rows of a side at this time or before have no match to come."""
        if now_ms >= WATERMARK_MAX:
            return WATERMARK_MAX
        return now_ms - side.after_ms - 1

    async def _wake(self, side: _Side, time_ms: int) -> None:
        """Let a side's timer be that of a row at this time, unless it is earlier."""
        steps = await self._next.value() or [None, None]
        old_ms = steps[side.number]
        new_ms = time_ms + side.after_ms + self._spec.cleanup_delay_ms + 1
        if old_ms is not None and old_ms <= new_ms:
            return
        if old_ms is not None:
            self._timers.remove(old_ms, side.namespace)
        self._timers.register(new_ms, side.namespace)
        steps[side.number] = new_ms
        await self._next.update(steps)

    async def on_event_timer(self, timer: FiredTimer) -> None:
        """Let rows of a side go that the watermark has passed."""
        await self._expire(timer)

    async def on_processing_timer(self, timer: FiredTimer) -> None:
        """Let rows of a side go that the epoch's time has passed."""
        await self._expire(timer)

    async def _expire(self, timer: FiredTimer) -> None:
        side = self._sides[0 if timer.namespace == self._sides[0].namespace else 1]
        # Timers are told apart by namespaces; state is the key's.
        self._session.set_namespace(b"")
        expired = (self._expired_ms(side, self._timer_ms),)
        if side.is_outer:
            for _, waiting in await side.rows.read_range_until(expired, inclusive_to=True):
                for was_joined, row in waiting:
                    if not was_joined:
                        timer.emit(RowKind.INSERT, side.padded(side.text.decode(row)))
        await side.rows.clear_range_until(expired, inclusive_to=True)
        steps = await self._next.value() or [None, None]
        steps[side.number] = None
        await self._next.update(None if steps == [None, None] else steps)
        first = await side.rows.first_entry()
        if first is not None:
            await self._wake(side, first[0][0])
