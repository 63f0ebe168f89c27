"""Rows with the windows that they are in: TUMBLE, HOP, CUMULATE and SESSION as table functions.

    window                    when a row comes out
    tumbling                  at once, with its window
    hopping                   at once, as often as it has windows, the latest first
    cumulating                at once, as often as it has windows, the shortest first
    session                   when the session is over: all its rows, in the order they came

Behind a row's columns stand the window's start and end, in local time, and the last time in it. A
row without a time is dropped and counted as late; of sessions, a row whose session came out, too.

The first three keep nothing: any key does that spreads the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from operators.changelog import RowKind
from operators.keyed import KeyedOperator
from operators.spec import RowSpec
from operators.stored_rows import StoredRows
from operators.windows.shapes import Session, Span
from operators.windows.spec import Property, PropertyColumns, WindowedSpec, time_of
from operators.windows.window_aggregate import END_CODEC
from operators.windows.windowed import WindowedOperator
from state.descriptors import (
    JSON,
    MapDescriptor,
    SortedMapDescriptor,
    ValueDescriptor,
)
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.keyed import FiredTimer, InputChange, OpenEpoch

_PROPERTIES: tuple[Property, ...] = ("start", "end", "rowtime")
_ORDER, _OP = parse_type("BIGINT NOT NULL"), parse_type("STRING NOT NULL")


class WindowTableSpec(WindowedSpec):
    """Rows with their windows: the output has the input's columns, start, end and time."""

    kind: Literal["window-table-function"] = "window-table-function"

    @model_validator(mode="after")
    def _columns(self) -> Self:
        if len(self.output.types) != len(self.inputs[0].types) + len(_PROPERTIES):
            raise ValueError("the output has the input's columns and three of the window")
        if self.end_column is not None:
            raise ValueError("a window table function takes rows without a window")
        return self

    @property
    def properties(self) -> PropertyColumns:
        """Writes the window's columns."""
        types = self.output.types[len(self.inputs[0].types) :]
        return PropertyColumns(_PROPERTIES, types, self.local_time)

    def operator(self) -> KeyedOperator:
        """The operator of it."""
        if isinstance(self.shape, Session):
            return SessionTable(self, self.shape)
        return WindowTable(self)


class WindowTable(KeyedOperator):
    """Emit each row with each of its windows, at once.

    Characteristics:
        input       all kinds
        output      the same kinds
        state       none
        time        a row's own, or that of the epoch that brings it; no timers
        unseen -D   comes out with its windows like any change

    Source: Flink AlignedWindowTableFunctionOperator.
    """

    def __init__(self, spec: WindowTableSpec) -> None:
        self._spec = spec
        self._shape: Any = spec.shape  # of one kind for life, and each has methods of its own
        self._zone = spec.local_time
        self._properties = spec.properties

    def open(self, epoch: OpenEpoch) -> None:
        """Take the time of the epoch."""
        self._now_ms = epoch.times.time_ms

    async def process(self, change: InputChange) -> None:
        """Emit a row with its windows."""
        column = self._spec.time_column
        at_ms = self._now_ms if column is None else time_of(change.row, column)
        if at_ms is None:
            change.late()
            return
        for window in self._shape.windows(self._zone.of(at_ms)):
            change.emit(change.kind, (*change.row, *self._properties.of(window)))


class SessionTable(WindowedOperator):
    """Emit the rows of each session when it is over.

    Characteristics:
        input       all kinds, keyed by what sessions are of
        output      the same kinds
        state       `sessions`: the end of each one that is not over, by its start; `rows`: its
                    rows by their time; `arrivals`: how many rows have come
        state cost  a row is stored once and read once
        time        event or processing time: a timer for each session, moved as it grows
        unseen -D   comes out with its session like any change

    Source: Flink UnalignedWindowTableFunctionOperator.
    """

    def __init__(self, spec: WindowTableSpec, shape: Session) -> None:
        super().__init__(spec)
        self._spec, self._shape = spec, shape
        self._properties = spec.properties
        rows = spec.inputs[0]
        stored = RowSpec(types=(_ORDER, _OP, *rows.types), names=("arrival", "op", *rows.names))
        self._session_map: MapDescriptor[tuple[int], int] = MapDescriptor(
            name="sessions", key_codec=END_CODEC, codec=JSON
        )
        self._row_lists: SortedMapDescriptor[tuple[int], tuple[Any, ...]] = SortedMapDescriptor(
            name="rows", key_codec=END_CODEC, codec=StoredRows(stored)
        )
        self._arrival: ValueDescriptor[Any] = ValueDescriptor(name="arrivals", codec=JSON)
        self.descriptors = self.prefetched = (self._session_map, self._row_lists, self._arrival)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        super().open(epoch)
        self._sessions = epoch.session.map(self._session_map)
        self._rows = epoch.session.sorted_map(self._row_lists)
        self._arrivals = epoch.session.value(self._arrival)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Let the rows of a key into their sessions."""
        stored = {key[0]: end for key, end in await self._sessions.entries() if end is not None}
        sessions = dict(stored)
        arrivals = await self._arrivals.value() or 0
        for change in changes:
            at_ms = self._join(change.row, sessions)
            if at_ms is None:
                change.late()
                continue
            await self._rows.add((at_ms,), (arrivals, change.kind.short, *change.row))
            arrivals += 1
        for start in sorted(stored.keys() - sessions.keys()):
            await self._sessions.remove((start,))
        for start, end in sorted(sessions.items()):
            if stored.get(start) != end:
                await self._sessions.put((start,), end)
        if sessions:
            await self._arrivals.update(arrivals)

    def _join(self, row: Row, sessions: dict[int, int]) -> int | None:
        """The time of a row, whose session now holds it; None if it is late."""
        column = self._spec.time_column
        at_ms = self._now_ms
        if column is not None:
            given_ms = time_of(row, column)
            if given_ms is None:
                return None
            at_ms = self._zone.of(given_ms)
        whole, met = self._shape.with_row(at_ms, sessions)
        if self._has_passed(whole.end):
            return None
        for each in met:
            self._timers.remove(self._fires_ms(sessions.pop(each)))
        sessions[whole.start] = whole.end
        self._timers.register(self._fires_ms(whole.end))
        return at_ms

    async def _fire(self, timer: FiredTimer) -> None:
        """Emit the rows of the sessions whose time this is."""
        entries = await self._sessions.entries()
        left = len(entries)
        for (start,), end in entries:
            if end is None or self._fires_ms(end) > timer.time_ms:
                continue
            properties = self._properties.of(Span(start=start, end=end))
            found = await self._rows.read_range((start,), (end,))
            for _, op, *row in sorted(
                (each for _, values in found for each in values), key=lambda each: int(each[0])
            ):
                timer.emit(RowKind.from_short(op), (*row, *properties))
            await self._rows.clear_range((start,), (end,))
            await self._sessions.remove((start,))
            left -= 1
        if not left:
            await self._arrivals.clear()
