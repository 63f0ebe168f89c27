"""Aggregates of tumbling, hopping and cumulating windows.

A row is aggregated into its slice; when the watermark reaches a window's last millisecond its
slices are merged and the result comes out, once. Worked example, SUM(v) of HOP(slide 5 s, size
10 s):

    +I (a, 1, 00:03)       slice 00:05: 1
    +I (a, 2, 00:08)       slice 00:10: 2
    watermark 00:09.999    +I (a, 1, 23:55, 00:05)   +I (a, 3, 00:00, 00:10)
    +I (a, 4, 00:09)       late for its slice's first window, not for the last: slice 00:10: 6
    watermark 00:20        +I (a, 6, 00:05, 00:15)

A row is late, dropped and counted, once the last window that contains its time has come out; one
that no window contains, between windows of `HOP` that are shorter than their slide, is passed over.
In processing time, windows come out in the first epoch that begins at their end or later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from operators.changelog import RowKind
from operators.windows.shapes import Cumulating, Hopping, Sliced, Span
from operators.windows.slice_aggregates import SliceAggregates
from operators.windows.spec import PropertyColumns, WindowAggregateSpec, time_of
from operators.windows.windowed import WindowedOperator
from state.descriptors import MapDescriptor
from state.lexicographic import lexicographic_codec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.aggregate import Accumulators
    from operators.keyed import FiredTimer, InputChange, OpenEpoch

END_CODEC = lexicographic_codec([parse_type("BIGINT NOT NULL")])
"""Ends of windows in local time, in ms, in their order."""


class SlicedAggregateSpec(WindowAggregateSpec):
    """Aggregates of windows that are made of slices."""

    kind: Literal["window-aggregate"] = "window-aggregate"
    shape: Sliced

    @model_validator(mode="after")
    def _sliced(self) -> Self:
        if isinstance(self.shape, Hopping) and not self.shape.is_sliced:
            raise ValueError("the size of hopping windows must be a multiple of their slide")
        return self

    def operator(self) -> WindowAggregate:
        """The operator of it."""
        return WindowAggregate(self)


class WindowAggregate(WindowedOperator):
    """Emit the aggregates of each window once, when its time has come.

    Characteristics:
        input       all kinds, keyed by what is grouped by
        output      +I: key, values, properties of the window; nothing of a window without rows
        state       `slices`: the accumulators of each slice, by its end, and beside it what of them
                    grows (`operators.windows.slice_aggregates`); nothing once the last window of a
                    slice has come out
        state cost  a round trip for an epoch's keys; accumulators are read and written once an
                    epoch; of DISTINCT and remembering functions the entries that changes touch, in
                    a round trip for small sets and two for large ones
        time        event or processing time: a timer for each window
        unseen -D   taken back from its slice, as in Flink: the sum may go below zero

    Source: Flink SlicingWindowOperator with SliceSharedWindowAggProcessor and
    SliceUnsharedWindowAggProcessor; AggregateWindowOperator with PanedWindowProcessFunction.
    Flink's local phase has no part here: an epoch is a bundle. Nor has its buffer of rows, which is
    emptied by slices of UTC, so that in other zones windows that came out before lose its rows.
    """

    def __init__(self, spec: SlicedAggregateSpec) -> None:
        super().__init__(spec)
        self._spec = spec
        self._shape: Any = spec.shape  # of one kind for life, and each has methods of its own
        self._attached = spec.end_column is not None
        self._has_gaps = isinstance(spec.shape, Hopping) and spec.shape.has_gaps
        self._aggregates = SliceAggregates(spec, "slices")
        types = spec.output.types
        first = len(types) - len(spec.properties)
        self._properties = PropertyColumns(spec.properties, types[first:], self._zone)
        self._slice_map: MapDescriptor[tuple[int], Accumulators] = MapDescriptor(
            name="slices", key_codec=END_CODEC, codec=self._aggregates.codec
        )
        self.descriptors = (self._slice_map, *self._aggregates.descriptors)
        self.prefetched = (self._slice_map,)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        super().open(epoch)
        self._session = epoch.session
        self._slices = epoch.session.map(self._slice_map)
        self._aggregates.open(epoch)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Aggregate the rows of a key into their slices."""
        by_slice: dict[int, list[InputChange]] = {}
        for change in changes:
            slice_end = self._slice_end(change)
            if self._has_gaps and slice_end is not None and not self._shape.has_window(slice_end):
                continue
            target = None if slice_end is None else self._target(slice_end)
            if target is None:
                change.late()
            else:
                by_slice.setdefault(target, []).append(change)
        await self._aggregates.load(by_slice)
        for slice_end, mine in by_slice.items():
            held = await self._slices.get((slice_end,))
            held = await self._aggregates.add(held, slice_end, mine)
            await self._slices.put((slice_end,), held)

    def _target(self, slice_end: int) -> int | None:
        """The slice that its rows go into; None if they are late. The next window is woken."""
        unfired = slice_end if self._attached else self._shape.first_window_end(slice_end)
        if not self._has_passed(unfired):
            self._wake_at(unfired)
            return slice_end
        last = slice_end if self._attached else self._shape.last_window_end(slice_end)
        if self._has_passed(last):
            return None
        while self._has_passed(unfired):
            unfired = self._shape.next_window_end(unfired)
        self._wake_at(unfired)
        if isinstance(self._shape, Cumulating):
            return self._shape.first_slice_end(slice_end)
        return slice_end

    def _slice_end(self, change: InputChange) -> int | None:
        if self._spec.end_column is not None:
            return time_of(change.row, self._spec.end_column)
        if self._spec.time_column is None:
            return int(self._shape.slice_end(self._now_ms))
        at_ms = time_of(change.row, self._spec.time_column)
        return None if at_ms is None else int(self._shape.slice_end(self._zone.of(at_ms)))

    def _wake_at(self, window_end: int) -> None:
        self._timers.register(self._fires_ms(window_end), b"%d" % window_end)

    async def _fire(self, timer: FiredTimer) -> None:
        """Emit a window, and let go of the slice that no later window has."""
        self._session.set_namespace(b"")
        window_end = int(timer.namespace)
        start = self._shape.window_start(window_end)
        found = await self._found(window_end) if self._gathers else []
        held = await (self._gathered(found) if self._gathers else self._merged(window_end))
        if held is not None and held.rows:
            properties = self._properties.of(Span(start=start, end=window_end))
            values = await self._aggregates.values(held, self._kept_at(window_end))
            timer.emit(RowKind.INSERT, (*timer.key, *values, *properties))
        if self._gathers:
            last = [end for end, _ in found if self._shape.last_window_end(end) == window_end]
            for slice_end in last:
                await self._remove(slice_end)
            has_more = len(last) < len(found)
        else:
            await self._let_go(window_end, held)
            is_growing = not self._attached and isinstance(self._shape, Cumulating)
            has_more = is_growing and window_end < start + self._shape.size_ms
        if has_more:
            self._wake_at(self._shape.next_window_end(window_end))

    @property
    def _gathers(self) -> bool:
        """Whether a window is gathered from slices that others have, too."""
        return not self._attached and isinstance(self._shape, Hopping)

    def _kept_at(self, window_end: int) -> int:
        """The slice that has the rows of a window when it comes out."""
        if not self._attached and isinstance(self._shape, Cumulating):
            return self._shape.first_slice_end(window_end)
        return window_end

    async def _found(self, window_end: int) -> list[tuple[int, Accumulators]]:
        """The slices of a window that there are, in the order in which they are merged."""
        ends = self._shape.slices(window_end)
        return [(end, each) for end in ends if (each := await self._slices.get((end,)))]

    async def _gathered(self, found: Sequence[tuple[int, Accumulators]]) -> Accumulators | None:
        """Slices in one; they stay what they are. None of none."""
        await self._aggregates.load([end for end, _ in found])
        held = None
        for end, each in found:
            held = self._aggregates.gathered(held, await self._aggregates.whole(each, end))
        return held

    async def _merged(self, window_end: int) -> Accumulators | None:
        """The accumulators of a window whose slices are no other's; None if it has no row."""
        at, slices = self._kept_at(window_end), self._slices
        held = await slices.get((at,))
        if at == window_end:
            return held
        more = await slices.get((window_end,))
        if more is not None:
            await slices.remove((window_end,))
            held = await self._aggregates.merge(held, at, more, window_end)
        return held

    async def _let_go(self, window_end: int, held: Accumulators | None) -> None:
        """Remove what has come out, but of a cumulating window, which has later ones."""
        if held is None:
            return
        at = self._kept_at(window_end)
        if not self._attached and window_end < self._shape.last_window_end(window_end):
            await self._slices.put((at,), await self._aggregates.apart(held, at))
        else:
            await self._remove(at)

    async def _remove(self, slice_end: int) -> None:
        await self._slices.remove((slice_end,))
        await self._aggregates.clear(slice_end)
