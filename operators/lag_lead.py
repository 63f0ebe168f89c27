"""LAG and LEAD over rows that may be taken back, in any order.

Flink refuses both: LAG with retraction, LEAD on streams at all (`AggFunctionFactory`). What is hard
is that a row that comes or goes changes what its neighbours show, on both sides. With rows in a
sequenced multiset (FLIP-544), or in a sorted map (FLIP-220), the neighbours of any row are a few
entries away, however many rows there are.

    order                      rows are in                    a row that comes
    of columns                 a sorted map, by sort key,     goes behind those with its sort key
                               then by arrival
    none: that of arrival      a sequenced multiset           goes behind all

With LAG(v) and LEAD(v) of one row, in the order of arrival:

    input       emitted                                         table
    +I 1        +I (1, null, null)                              (1, -, -)
    +I 2        -U (1, null, null) +U (1, null, 2) +I (2, 1, null)  (1, -, 2) (2, 1, -)
    +I 3        -U (2, 1, null) +U (2, 1, 3) +I (3, 2, null)    (1, -, 2) (2, 1, 3) (3, 2, -)
    -D 2        -U (1, null, 2) +U (1, null, 3) -D (2, 1, 3)
                -U (3, 2, null) +U (3, 1, null)                 (1, -, 3) (3, 1, -)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, model_validator

from operators.changelog import Row, RowKind
from operators.keyed import KeyedOperator
from operators.neighbour_rows import ArrivedRows, OrderedRows
from operators.ordering import SortColumn
from operators.over.calls import Constant
from operators.over.idle_rows import IdleRows
from operators.processing_time import blanked
from operators.spec import OperatorSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.keyed import FiredTimer, InputChange, OpenEpoch

OFFSET_MAX = 10_000
"""A change reads four times as many rows as the greatest offset."""


class Neighbour(BaseModel):
    """LAG or LEAD of a column."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    function: Literal["LAG", "LEAD"]
    column: NonNegativeInt
    offset: int = Field(default=1, ge=0, le=OFFSET_MAX)
    """How many rows before (LAG) or behind (LEAD)."""
    default: Constant | None = None
    """Where there is no such row; None: null."""
    default_column: NonNegativeInt | None = None
    """Where there is no such row: this column of the row itself."""

    @property
    def distance(self) -> int:
        """From a row's place to that of the row that it shows."""
        return -self.offset if self.function == "LAG" else self.offset


class LagLeadSpec(OperatorSpec):
    """Rows of a key in order, each with values of its neighbours."""

    kind: Literal["lag-lead"] = "lag-lead"
    neighbours: tuple[Neighbour, ...] = Field(min_length=1)
    order: tuple[SortColumn, ...] = ()
    """Of equal sort keys, the first to come is first; without columns: the order of arrival."""

    proctime: tuple[NonNegativeInt, ...] = ()
    """Columns of processing time, which are null in state and output."""

    @model_validator(mode="after")
    def _fields(self) -> Self:
        width = len(self.inputs[0].types)
        columns = [each.column for each in self.neighbours]
        columns += [each.default_column or 0 for each in self.neighbours]
        if any(each >= width for each in columns):
            raise ValueError("LAG or LEAD of a column that is not there")
        if any(each.column >= width for each in self.order):
            raise ValueError("the order is by no column of the input")
        if len(self.output.types) != width + len(self.neighbours):
            raise ValueError("the output is the input's columns and a column for each function")
        return self

    def operator(self) -> LagLead:
        """The operator."""
        return LagLead(self)


class LagLead(KeyedOperator):
    """Show with each row what is so many rows before and behind it.

    Characteristics:
        input       +I -U +U -D; an update takes a row out and puts one in
        output      +I -U +U -D of rows with the functions' columns. A row that comes has the kind
                    that it came with, one that goes is a -D; rows around it that show something
                    else have -U and +U
        state       `rows`: a sorted map or a sequenced multiset of rows; `cleanup_at`; empty once
                    all are taken back
        state cost  a change reads 4 times the greatest offset of entries, and writes one; in an
                    order of columns one that takes back reads the rows with its sort key, too
        time        none but a timer: a key goes when nothing came for 1 to 1.5 TTLs
        unseen -D   an orphan, dropped

    Source: FLIP-544's motive for `SequencedMultiSetState`; LAG and LEAD of SQL:2016.
    """

    def __init__(self, spec: LagLeadSpec) -> None:
        self._spec = spec
        self._reach = max(each.offset for each in spec.neighbours)
        rows = OrderedRows if spec.order else ArrivedRows
        self._rows = rows(spec.inputs[0], spec.order, 2 * self._reach)
        self._idle = IdleRows(spec, self._rows.descriptor.name)
        self.descriptors = self.prefetched = (self._rows.descriptor, self._idle.planned)
        self.processing_timers, self.left_timers = self._idle.timers, self._idle.left_timers
        self.planned = self._idle.planned
        self._encode = spec.output.codec().encode
        self._shows = [
            (
                each.distance,
                each.column,
                each.default.value() if each.default else None,
                each.default_column,
            )
            for each in spec.neighbours
        ]

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles for an epoch."""
        self._handle = self._rows.open(epoch.session)
        self._idle.open(epoch)

    async def process(self, change: InputChange) -> None:
        """One row more, or one less."""
        if change.kind.is_retraction:
            await self._remove(change)
        else:
            await self._add(change)
        if await self._handle.is_empty():
            await self._idle.forget()
        else:
            await self._idle.keep()

    async def on_untimed_key(self) -> None:
        """A key that was there before there was a TTL."""
        await self._idle.plan()

    async def on_processing_timer(self, timer: FiredTimer) -> None:
        """A key was idle for long."""
        if await self._idle.is_due():
            await self._handle.clear()
            await self._idle.forget()

    async def _add(self, change: InputChange) -> None:
        row = blanked(change.row, self._spec.proctime)
        before, behind = await self._handle.add(row)
        old, new = [*before, *behind], [*before, row, *behind]
        place = len(before)
        self._emit_updates(change, old, new, self._reached_before(place), shift=0)
        change.emit(change.kind, self._shown(new, place))
        self._emit_updates(change, old, new, self._reached_behind(place, len(old)), shift=1)

    async def _remove(self, change: InputChange) -> None:
        found = await self._handle.take(blanked(change.row, self._spec.proctime))
        if found is None:
            change.orphan()
            return
        before, row, behind = found
        old, new = [*before, row, *behind], [*before, *behind]
        place = len(before)
        self._emit_updates(change, old, new, self._reached_before(place), shift=0)
        change.emit(RowKind.DELETE, self._shown(old, place))
        self._emit_updates(change, old, new, self._reached_behind(place + 1, len(old)), shift=-1)

    def _reached_before(self, place: int) -> range:
        """Places before one whose rows may show others now."""
        return range(max(0, place - self._reach), place)

    def _reached_behind(self, place: int, end: int) -> range:
        """Places from one on whose rows may show others now; those further on are out of reach."""
        return range(place, min(end, place + self._reach))

    def _emit_updates(
        self,
        change: InputChange,
        old: Sequence[Row],
        new: Sequence[Row],
        places: range,
        *,
        shift: int,
    ) -> None:
        """Emit rows that show something else than before.

        Args:
            change: The cause.
            old: Rows before it, around where it happened.
            new: Rows after it.
            places: Of rows in `old`, with all that they reach in it.
            shift: From a place in `old` to that in `new`.
        """
        for place in places:
            was, now = self._shown(old, place), self._shown(new, place + shift)
            if self._encode(was) != self._encode(now):
                change.emit(RowKind.UPDATE_BEFORE, was)
                change.emit(RowKind.UPDATE_AFTER, now)

    def _shown(self, rows: Sequence[Row], place: int) -> Row:
        values: list[Any] = []
        for distance, column, default, own in self._shows:
            at = place + distance
            if 0 <= at < len(rows):
                values.append(rows[at][column])
            else:
                values.append(default if own is None else rows[place][own])
        return (*rows[place], *values)
