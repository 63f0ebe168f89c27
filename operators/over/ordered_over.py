"""OVER aggregation in the order of columns that are no time, over any changelog.

A row may come anywhere, so what comes out is never final: rows behind one that comes or goes show
other values than before. Frames go from the partition's first row to the current one.

    RANGE    rows with the same sort key show one value: that of all rows up to the last of them
    ROWS     each row shows that of the rows up to itself; equal sort keys in the order of arrival

Worked example, SUM(v) OVER (PARTITION BY k ORDER BY v), RANGE:

    +I (a, 2)     +I (a, 2, 2)
    +I (a, 1)     +I (a, 1, 1)                      -U (a, 2, 2)   +U (a, 2, 3)
    +I (a, 1)     -U (a, 1, 1)   +U (a, 1, 2)   +I (a, 1, 2)   -U (a, 2, 3)   +U (a, 2, 4)
    -D (a, 2)     -D (a, 2, 4)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, NonNegativeInt, model_validator

from operators.changelog import RowKind
from operators.keyed import KeyedOperator
from operators.ordering import SortColumn
from operators.over.calls import OverCalls
from operators.over.idle_rows import IdleRows
from operators.over.positions import PositionCall
from operators.over.sort_places import SortPlaces
from operators.over.spec import OverCallsSpec
from operators.processing_time import blanked
from operators.stored_rows import StoredRows
from state.descriptors import SortedMapDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.keyed import FiredTimer, InputChange, OpenEpoch
    from operators.over.calls import OverAccumulators
    from operators.over.sort_places import PlaceKey

_GROUPS_FIRST = 16
"""So many groups behind a change are read at first; then twice as many each time."""
_GROUPS_MAX = 1024


class OrderedOverSpec(OverCallsSpec):
    """What an OVER aggregation in an order that is no time is to do."""

    kind: Literal["ordered-over"] = "ordered-over"
    order: tuple[SortColumn, ...] = Field(min_length=1)
    proctime: tuple[NonNegativeInt, ...] = ()
    """Columns of processing time, which are null in state and output."""

    @model_validator(mode="after")
    def _order(self) -> Self:
        width = len(self.inputs[0].types)
        if any(each.column >= width for each in self.order):
            raise ValueError("the order is by no column of the input")
        if any(isinstance(each, PositionCall) and each.function == "LAG" for each in self.calls):
            raise ValueError("LAG in such an order has an operator of its own")
        return self

    def operator(self) -> OrderedOver:
        """The operator of it."""
        return OrderedOver(self)


class OrderedOver(KeyedOperator):
    """Show with each row the values of functions over the rows up to it, in order.

    Characteristics:
        input       +I -U +U -D, keyed by partition
        output      +I -U +U -D. A row that comes has the kind that it came with, one that goes is a
                    -D; then, in order, -U and +U of each row behind it whose values change
        state       `rows`: all rows in order; `accumulators`: of all rows up to a sort key (RANGE)
                    or a row (ROWS), in the same order; `cleanup_at`. Nothing is left once all rows
                    are taken back
        state cost  the rows of the sort key, the accumulators before it, and those behind with
                    their rows up to the first that stay as they are: nothing before is read
        time        none but a timer: a partition goes when nothing came for 1 to 1.5 TTLs
        unseen -D   an orphan

    Functions that remember every value (DISTINCT, LISTAGG) keep those of all rows up to a row with
    it: their state grows with the square of a partition.

    Source: Flink NonTimeRangeUnboundedPrecedingFunction, NonTimeRowsUnboundedPrecedingFunction.
    """

    def __init__(self, spec: OrderedOverSpec) -> None:
        self._spec = spec
        self._calls = OverCalls(spec.calls, spec.constants)
        self._places = SortPlaces(spec.inputs[0], spec.order, is_numbered=spec.is_rows)
        self._encode_row = StoredRows(spec.inputs[0]).encode
        self._encode = spec.output.codec().encode
        self._row_lists: SortedMapDescriptor[PlaceKey, Row] = SortedMapDescriptor(
            name="rows", key_codec=self._places.codec, codec=StoredRows(spec.inputs[0])
        )
        self._accumulator: SortedMapDescriptor[PlaceKey, OverAccumulators] = SortedMapDescriptor(
            name="accumulators", key_codec=self._places.codec, codec=self._calls.codec
        )
        self._idle = IdleRows(spec, self._row_lists.name)
        self.descriptors = self.prefetched = (
            self._row_lists,
            self._accumulator,
            self._idle.planned,
        )
        self.processing_timers, self.left_timers = self._idle.timers, self._idle.left_timers
        self.planned = self._idle.planned

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        self._rows = epoch.session.sorted_map(self._row_lists)
        self._accumulators = epoch.session.sorted_map(self._accumulator)
        self._idle.open(epoch)

    async def process(self, change: InputChange) -> None:
        """Put a row into its place, or take one out, and tell the rows behind it."""
        if change.kind.is_retraction:
            await self._remove(change)
        else:
            await self._insert(change)
        if await self._rows.is_empty():
            await self._idle.forget()
        else:
            await self._idle.keep()

    async def on_untimed_key(self) -> None:
        """A key that was there before there was a TTL."""
        await self._idle.plan()

    async def on_processing_timer(self, timer: FiredTimer) -> None:
        """A partition was idle for long."""
        if await self._idle.is_due():
            await self._rows.clear()
            await self._accumulators.clear()
            await self._idle.forget()

    async def _insert(self, change: InputChange) -> None:
        row = blanked(change.row, self._spec.proctime)
        key = await self._places.new(self._rows, row)
        peers = await self._rows.values_at(key) or []
        held = await self._at(key)
        # Where nothing is held there is no peer that was shown.
        shown: Row = () if held is None else self._calls.values(held)
        if held is None:
            held = await self._before(key)
        self._take_in(held, key, [row])
        values = self._calls.values(held)
        for each in peers:
            self._emit_update(change, each, shown, values)
        change.emit(change.kind, (*row, *values))
        await self._rows.add(key, row)
        await self._accumulators.put(key, [held])
        await self._tell_behind(change, key, held)

    async def _remove(self, change: InputChange) -> None:
        row = blanked(change.row, self._spec.proctime)
        found = await self._places.find(self._rows, row, self._encode_row)
        if found is None:
            change.orphan()
            return
        key, peers, place = found
        held = await self._at(key)
        assert held is not None, "where a row is there are accumulators"
        shown = self._calls.values(held)
        rest = [*peers[:place], *peers[place + 1 :]]
        held = await self._before(key)
        self._take_in(held, key, rest)
        values = self._calls.values(held)
        for number, each in enumerate(peers):
            if number == place:
                change.emit(RowKind.DELETE, (*each, *shown))
            else:
                self._emit_update(change, each, shown, values)
        await self._rows.take(key, peers[place])
        if rest:
            await self._accumulators.put(key, [held])
        else:
            await self._accumulators.clear_entry_at(key)
        await self._tell_behind(change, key, held)

    async def _at(self, key: PlaceKey) -> OverAccumulators | None:
        """The accumulators that a place has."""
        stored = await self._accumulators.values_at(key)
        return stored[0] if stored else None

    async def _before(self, key: PlaceKey) -> OverAccumulators:
        """The accumulators of all rows before a place."""
        entry = await self._accumulators.last_entry_until(key)
        return entry[1][0] if entry else self._calls.create()

    def _take_in(self, held: OverAccumulators, key: PlaceKey, rows: Sequence[Row]) -> None:
        """Rows of one place, in order."""
        at = self._places.sort_text(key)
        for row in rows:
            self._calls.accumulate(held, row, at)

    async def _tell_behind(
        self, change: InputChange, key: PlaceKey, held: OverAccumulators
    ) -> None:
        """Compute the places behind one anew, until one stays as it is: so do all behind it.

        Args:
            change: The cause.
            key: The place.
            held: Of all rows up to it; used up.
        """
        count = _GROUPS_FIRST
        encode = self._calls.codec.encode
        while True:
            behind = self._accumulators.behind(key)
            following = await self._accumulators.entries_behind(behind, count)
            if not following:
                return
            first, key = following[0][0], following[-1][0]
            groups = await self._rows.read_range(first, key, inclusive_to=True)
            for (place, was), (_, rows) in zip(following, groups, strict=True):
                self._take_in(held, place, rows)
                if encode(held) == encode(was):
                    return
                shown, values = self._calls.values(was), self._calls.values(held)
                for row in rows:
                    self._emit_update(change, row, shown, values)
                await self._accumulators.put(place, [held])
            if len(following) < count:
                return
            count = min(2 * count, _GROUPS_MAX)

    def _emit_update(self, change: InputChange, row: Row, was: Row, now: Row) -> None:
        """Emit a row whose values are others than before; one whose are the same is passed over."""
        old, new = (*row, *was), (*row, *now)
        if self._encode(old) != self._encode(new):
            change.emit(RowKind.UPDATE_BEFORE, old)
            change.emit(RowKind.UPDATE_AFTER, new)
