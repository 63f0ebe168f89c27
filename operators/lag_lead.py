"""LAG and LEAD over rows that may be taken back.

Flink refuses both: LAG with retraction, LEAD on streams at all (`AggFunctionFactory`). What is hard
is that a row that goes changes what its neighbours show, on both sides. With rows in a sequenced
multiset (FLIP-544) the neighbours of any row are a few entries away, however many rows there are.

With LAG(v) and LEAD(v) of one row:

    input       emitted                                         table
    +I 1        +I (1, null, null)                              (1, -, -)
    +I 2        -U (1, null, null) +U (1, null, 2) +I (2, 1, null)  (1, -, 2) (2, 1, -)
    +I 3        -U (2, 1, null) +U (2, 1, 3) +I (3, 2, null)    (1, -, 2) (2, 1, 3) (3, 2, -)
    -D 2        -U (1, null, 2) +U (1, null, 3) -D (2, 1, 3)
                -U (3, 2, null) +U (3, 1, null)                 (1, -, 3) (3, 1, -)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, model_validator

from operators.changelog import Row, RowKind
from operators.keyed import KeyedOperator
from operators.spec import OperatorSpec
from operators.stored_rows import StoredRows
from state.descriptors import MultisetDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.keyed import InputChange, OpenEpoch


class Neighbour(BaseModel):
    """LAG or LEAD of a column; null where there is no such row."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    function: Literal["LAG", "LEAD"]
    column: NonNegativeInt
    offset: PositiveInt = 1
    """How many rows before (LAG) or behind (LEAD)."""

    @property
    def distance(self) -> int:
        """From a row's place to that of the row that it shows."""
        return -self.offset if self.function == "LAG" else self.offset


class LagLeadSpec(OperatorSpec):
    """Rows of a key in the order in which they came, each with values of its neighbours."""

    kind: Literal["lag-lead"] = "lag-lead"
    neighbours: tuple[Neighbour, ...] = Field(min_length=1)
    generate_update_before: bool = True

    @model_validator(mode="after")
    def _fields(self) -> Self:
        width = len(self.inputs[0].types)
        if any(each.column >= width for each in self.neighbours):
            raise ValueError("LAG or LEAD of a column that is not there")
        if len(self.output.types) != width + len(self.neighbours):
            raise ValueError("the output is the input's columns and a column for each function")
        return self

    def operator(self) -> LagLead:
        """The operator."""
        return LagLead(self)


class LagLead(KeyedOperator):
    """Show with each row what is so many rows before and behind it.

    Characteristics:
        input       +I -U +U -D; rows are in the order in which they came, an update comes anew
        output      +I -U +U -D of rows with the functions' columns
        state       a sequenced multiset of rows for each key; empty once all are taken back
        state cost  a change reads 4 times the greatest offset of entries, and writes one
        time        none; TTL of each row; one that expired is seen no more and not taken back
        unseen -D   an orphan, dropped

    Source: FLIP-544's motive for `SequencedMultiSetState`; LAG and LEAD of SQL:2016.
    """

    def __init__(self, spec: LagLeadSpec) -> None:
        self._spec = spec
        self._rows: MultisetDescriptor[Row] = MultisetDescriptor(
            name="rows",
            codec=StoredRows(spec.inputs[0]),
            ttl=spec.ttl_of(0),
            **spec.past_of("rows"),
        )
        self.descriptors = self.prefetched = (self._rows,)
        self._reach = max(each.offset for each in spec.neighbours)
        self._encode = spec.output.codec().encode

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle for an epoch."""
        self._handle = epoch.session.multiset(self._rows)

    async def process(self, change: InputChange) -> None:
        """One row more, or one less."""
        if change.kind.is_retraction:
            await self._remove(change)
        else:
            await self._append(change)

    async def _append(self, change: InputChange) -> None:
        await self._handle.append(change.row)
        newest = await self._handle.last()
        assert newest is not None, "a row was appended"
        before = await self._before(newest.sequence)
        after = [*before, newest.row]
        self._emit_updates(change, before, after, range(len(before)), shift=0)
        change.emit(RowKind.INSERT, self._shown(after, len(before)))

    async def _remove(self, change: InputChange) -> None:
        found = await self._handle.find(change.row)
        if found is None:
            change.orphan()
            return
        before = await self._before(found.sequence)
        behind = await self._behind(found.sequence)
        await self._handle.remove(change.row)
        place = len(before)
        old, new = [*before, found.row, *behind], [*before, *behind]
        self._emit_updates(change, old, new, range(place), shift=0)
        change.emit(RowKind.DELETE, self._shown(old, place))
        self._emit_updates(change, old, new, range(place + 1, len(old)), shift=-1)

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
            places: Of rows in `old`; those out of reach show the same and are passed over, since
                what they show may lie outside of what was read.
            shift: From a place in `old` to that in `new`.
        """
        reached = places[-self._reach :] if shift == 0 else places[: self._reach]
        for place in reached:
            was, now = self._shown(old, place), self._shown(new, place + shift)
            if self._encode(was) != self._encode(now):
                if self._spec.generate_update_before:
                    change.emit(RowKind.UPDATE_BEFORE, was)
                change.emit(RowKind.UPDATE_AFTER, now)

    def _shown(self, rows: Sequence[Row], place: int) -> Row:
        values: list[Any] = []
        for each in self._spec.neighbours:
            at = place + each.distance
            values.append(rows[at][each.column] if 0 <= at < len(rows) else None)
        return (*rows[place], *values)

    async def _before(self, sequence: int) -> list[Row]:
        """The rows before a place, oldest first: twice as many as a function reaches."""
        rows: list[Row] = []
        while len(rows) < 2 * self._reach:
            entry = await self._handle.entry_before(sequence)
            if entry is None:
                break
            rows.append(entry.row)
            sequence = entry.sequence
        return rows[::-1]

    async def _behind(self, sequence: int) -> list[Row]:
        """The rows behind a place, oldest first: twice as many as a function reaches."""
        rows: list[Row] = []
        while len(rows) < 2 * self._reach:
            entry = await self._handle.entry_after(sequence)
            if entry is None:
                break
            rows.append(entry.row)
            sequence = entry.sequence
        return rows
