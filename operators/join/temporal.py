"""Join each left row with the version of a table that was valid at the row's time.

The right side is a versioned table: a row of a key is valid from its row time on until the next one
of the key, and a -D or -U says that from then on there is none. Nothing is emitted before the
watermark says that no version is missing any more:

    left row at t, version at v the newest one with v <= t    emitted once the watermark is at t
      it accumulates and the condition is TRUE                 kind row+version
      else, or there is none                                   LEFT: kind row+null; INNER: nothing

What the watermark releases at once leaves in the order in which it came, so that an update stays in
order whatever its row times are. A left row that comes late (at or behind the watermark) waits for
the next one, and meets what is still there.

Of the versions up to the watermark only the newest can still be met; the others go when a row of
the key is released. The newest stays even where it says that there is no row: an older version that
comes late must not stand in its place. Where `retention_ms` is set, all state of a key goes once
nothing came for it that long (Flink: `table.exec.state.ttl`, since the plan has none for this
node).

    rates   +I (EUR, 100) at 2
    orders  +I (1, EUR) at 1, +I (2, EUR) at 6
    rates   +U (EUR, 110) at 5
    watermark 6             LEFT: +I (1, EUR, null), +I (2, EUR, 110);  version 2 goes

Source: Flink's `TemporalRowTimeJoinOperator` (2.3), with FLIP-220's sorted state: what a watermark
does not release is not read.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import NonNegativeInt, model_validator

from operators.changelog import RowKind
from operators.event_time import to_ms
from operators.idle_cleanup import IdleCleanup
from operators.join.condition import compile_condition, unmatchable
from operators.keyed import WATERMARK_MAX, KeyedOperator
from operators.spec import OperatorSpec
from operators.stored_rows import KindText, RowText, WaitingText
from state.descriptors import JSON, SortedMapDescriptor, TimersDescriptor, ValueDescriptor
from state.lexicographic import lexicographic_codec
from state.types import parse_type

if TYPE_CHECKING:
    from operators.changelog import Row
    from operators.keyed import FiredTimer, InputChange, OpenEpoch

TIME_KEY = lexicographic_codec([parse_type("BIGINT NOT NULL")])
"""Times as keys of sorted state."""


class TemporalJoinSpec(OperatorSpec):
    """What a temporal join is to do; `inputs` are the rows and the versioned table, by the key."""

    kind: Literal["temporal-join"] = "temporal-join"
    join_type: Literal["INNER", "LEFT"]
    left_time: NonNegativeInt
    """The left column of the row time."""
    right_time: NonNegativeInt
    """The right column of the row time, from which on a version is valid."""
    filter_nulls: tuple[bool, ...]
    """For each column of the key whether a null in it has no match."""
    condition: list[Any] | None = None
    """What else must be TRUE, over left and right columns one behind the other."""
    retention_ms: NonNegativeInt = 0
    """State of a key that nothing came for goes after between once and one and a half times of
    this; up to 1: never."""

    @model_validator(mode="after")
    def _sides(self) -> Self:
        if len(self.inputs) != 2:
            raise ValueError(f"a join has two inputs, not {len(self.inputs)}")
        times = zip(self.inputs, (self.left_time, self.right_time), strict=True)
        if any(time >= len(side.types) for side, time in times):
            raise ValueError("a row time does not name a column")
        return self

    @property
    def needed_times(self) -> tuple[tuple[int, int], ...]:
        """See `OperatorSpec`."""
        return (0, self.left_time), (1, self.right_time)

    def operator(self) -> TemporalJoin:
        """The operator."""
        return TemporalJoin(self)


class TemporalJoin(KeyedOperator):
    """Joins rows with versions of a table in event time.

    Characteristics:
        input       +I -U +U -D of both sides, keyed by the join's columns, with row times
        output      the kinds of the left side
        state       rows: left rows that wait, by row time; versions: by row time; next_steps: a
                    number for the next row, the time of the key's timer, that of its clean-up
        state cost  a change: one append or replacement; a timer: two ranges and their removal
        time        event time; one timer a key
        unseen -D   nothing special: versions are replaced, not looked up
    """

    def __init__(self, spec: TemporalJoinSpec) -> None:
        left, right = spec.inputs
        self._spec = spec
        self._texts = (RowText(left), RowText(right))
        self._nulls: Row = (None,) * len(right.types)
        self._has_no_match = unmatchable(spec.filter_nulls)
        self._now_ms = 0
        width = len(left.types) + len(right.types)
        self._condition = compile_condition(spec.condition, width, lambda: self._now_ms)
        self._rows = SortedMapDescriptor(name="rows", key_codec=TIME_KEY, codec=WaitingText(left))
        self._versions = SortedMapDescriptor(
            name="versions", key_codec=TIME_KEY, codec=KindText(right)
        )
        self._pending = ValueDescriptor(name="next_steps", codec=JSON)
        self.descriptors = self.prefetched = (self._rows, self._versions, self._pending)
        self.event_timers = self._event_timers = TimersDescriptor(name="event_timers")
        self._idle = IdleCleanup(spec.retention_ms, spec.ttl_extension_ms)
        self._cleanup_timers = self._idle.timers(spec, "cleanup_timers", (self._pending.name,))
        self.planned = self._pending
        if self._idle.is_active:
            self.processing_timers = self._cleanup_timers
        else:
            self.left_timers = self._cleanup_timers

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles and the epoch's times."""
        session = epoch.session
        self._left = session.sorted_map(self._rows)
        self._right = session.sorted_map(self._versions)
        self._state = session.value(self._pending)
        self._timers = epoch.timers(self._event_timers)
        self._idle.open(epoch.timers(self._cleanup_timers), epoch.times.time_ms)
        self._now_ms = epoch.times.time_ms
        self._watermark_ms = epoch.times.watermark_ms
        self._next_watermark_ms = epoch.times.next_watermark_ms
        for text in self._texts:
            text.begin()

    async def process(self, change: InputChange) -> None:
        """Keep a row until the watermark, or a version."""
        is_left = change.input == 0
        if self._has_no_match(change.key) and not (is_left and self._spec.join_type == "LEFT"):
            return
        time = self._spec.left_time if is_left else self._spec.right_time
        time_ms = to_ms(change.row[time])
        row = change.text
        number, timer_ms, planned = await self._state.value() or (0, None, None)
        if is_left:
            await self._left.add((time_ms,), (number, change.kind.short, row))
            number += 1
        else:
            await self._right.put((time_ms,), [(change.kind.short, row)])
        # Only a watermark that is yet to come releases anything.
        timer_ms = self._earlier_timer(timer_ms, self._next_ms(time_ms))
        await self._state.update([number, timer_ms, self._idle.put_off(planned)])

    def _next_ms(self, time_ms: int) -> int:
        """When a row of this time is released: at the end of all inputs with what is left."""
        return min(max(time_ms, self._watermark_ms + 1), WATERMARK_MAX)

    def _earlier_timer(self, timer_ms: int | None, wanted_ms: int) -> int:
        """Have one timer, at the earlier of two times."""
        if timer_ms is not None and timer_ms <= wanted_ms:
            return timer_ms
        if timer_ms is not None:
            self._timers.remove(timer_ms)
        self._timers.register(wanted_ms)
        return wanted_ms

    async def on_event_timer(self, timer: FiredTimer) -> None:
        """Emit what the watermark releases, and forget what can not be met any more."""
        until_ms = self._next_watermark_ms
        released = await self._left.read_range_until((until_ms,), inclusive_to=True)
        if released:
            await self._emit(timer, released)
            await self._left.clear_range_until((until_ms,), inclusive_to=True)
        valid = await self._right.last_entry_until((until_ms,), inclusive_to=True)
        if valid is not None:
            await self._right.clear_range_until(valid[0], inclusive_to=False)
        await self._wait_for_next()

    async def _emit(self, timer: FiredTimer, released: list[tuple[tuple[Any, ...], Any]]) -> None:
        first, last = released[0][0], released[-1][0]
        before = await self._right.last_entry_until(first, inclusive_to=True)
        versions = [] if before is None or before[0] == first else [before]
        versions += await self._right.read_range(first, last, inclusive_to=True)
        times = [time for time, _ in versions]
        rows = [(waiting, time) for time, waits in released for waiting in waits]
        rows.sort(key=itemgetter(0))
        left, right = self._texts
        for (_, kind, row), time in rows:
            place = bisect_right(times, time) - 1
            values = left.decode(row)
            joined = None
            if place >= 0:
                ((of_version, version),) = versions[place][1]
                if not RowKind.from_short(of_version).is_retraction:
                    joined = values + right.decode(version)
            if joined is not None and (self._condition is None or self._condition(joined)):
                timer.emit(RowKind.from_short(kind), joined)
            elif self._spec.join_type == "LEFT":
                timer.emit(RowKind.from_short(kind), values + self._nulls)

    async def _wait_for_next(self) -> None:
        """Set the timer for the rows that are left, and number rows anew once none waits.

        A version alone has no timer from here on, as in Flink, so a row that comes late may still
        meet the version before it.
        """
        number, _, planned = await self._state.value() or (0, None, None)
        first = await self._left.first_entry()
        newest = await self._right.last_entry()
        timer_ms = None if first is None else self._earlier_timer(None, first[0][0])
        if first is None:
            number = 0
        if first is None and newest is None:
            self._idle.cancel(planned)
            await self._state.clear()
        else:
            await self._state.update([number, timer_ms, self._idle.put_off(planned)])

    async def on_untimed_key(self) -> None:
        """A key that was there before there was a TTL."""
        number, timer_ms, before = await self._state.value() or (0, None, None)
        planned = self._idle.planned(before)
        if planned is not before:
            await self._state.update([number, timer_ms, planned])

    async def on_processing_timer(self, timer: FiredTimer) -> None:
        """Forget a key that nothing came for."""
        number, timer_ms, planned = await self._state.value() or (0, None, None)
        is_due, later = self._idle.is_due(planned)
        if later is not planned:
            await self._state.update([number, timer_ms, later])
        if not is_due:
            return
        if timer_ms is not None:
            self._timers.remove(timer_ms)
        await self._left.clear()
        await self._right.clear()
        await self._state.clear()
