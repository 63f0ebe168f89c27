"""Aggregates of sessions: rows of a key that follow each other within a gap.

A row begins a session of its own, from its time to the gap after it; sessions that overlap or touch
become one. Worked example, COUNT(*) of SESSION(gap 5 s):

    +I (a, 00:01)          session 00:01 to 00:06: 1
    +I (a, 00:08)          session 00:08 to 00:13: 1
    +I (a, 00:04)          joins both: 00:01 to 00:13: 3
    watermark 00:12.999    +I (a, 3, 00:01, 00:13)

A row is late, dropped and counted, if the session that it is in has come out: if it still joins a
session that has not, it counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import orjson

from operators.aggregate import AccumulatorCodec, Aggregates
from operators.changelog import RowKind
from operators.windows.shapes import Session, Span
from operators.windows.spec import PropertyColumns, WindowAggregateSpec, time_of
from operators.windows.window_aggregate import END_CODEC
from operators.windows.windowed import WindowedOperator
from state.descriptors import MapDescriptor
from state.errors import StateCorrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.aggregate import Accumulators
    from operators.keyed import FiredTimer, InputChange, OpenEpoch

    Sessions = dict[int, tuple[int, Accumulators]]


class SessionAggregateSpec(WindowAggregateSpec):
    """Aggregates of sessions."""

    kind: Literal["session-aggregate"] = "session-aggregate"
    shape: Session

    def operator(self) -> SessionAggregate:
        """The operator of it."""
        return SessionAggregate(self)


class SessionAggregate(WindowedOperator):
    """Emit the aggregates of each session once, when it is over.

    Characteristics:
        input       all kinds, keyed by what is grouped by
        output      +I: key, values, properties of the session
        state       `sessions`: end and accumulators of each session that is not over, by its start
        state cost  a round trip for an epoch's keys; a key's open sessions are read and written
                    once an epoch
        time        event or processing time: a timer for each session, moved as it grows
        unseen -D   makes or joins a session, and is taken back from it, as in Flink

    Source: Flink UnslicingWindowOperator, MergingWindowProcessFunction.
    """

    def __init__(self, spec: SessionAggregateSpec) -> None:
        super().__init__(spec)
        self._spec = spec
        self._aggregates = Aggregates(spec.calls)
        types = spec.output.types
        first = len(types) - len(spec.properties)
        self._properties = PropertyColumns(spec.properties, types[first:], self._zone)
        self._session_map: MapDescriptor[tuple[int], tuple[int, Accumulators]] = MapDescriptor(
            name="sessions", key_codec=END_CODEC, codec=_SessionCodec(self._aggregates)
        )
        self.descriptors = self.prefetched = (self._session_map,)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        super().open(epoch)
        self._sessions = epoch.session.map(self._session_map)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Let the rows of a key into their sessions."""
        entries = await self._sessions.entries()
        stored = {key[0]: value for key, value in entries if value is not None}
        sessions: Sessions = dict(stored)
        changed: set[int] = set()
        for change in changes:
            start = self._join(change, sessions)
            if start is None:
                change.late()
                continue
            changed.add(start)
            held = sessions[start][1]
            if change.kind.is_retraction:
                self._aggregates.retract(held, change.row)
            else:
                self._aggregates.accumulate(held, change.row)
        for start in stored.keys() - sessions.keys():
            await self._sessions.remove((start,))
        for start in sorted(changed & sessions.keys()):
            await self._sessions.put((start,), sessions[start])

    def _join(self, change: InputChange, sessions: Sessions) -> int | None:
        """Make, or merge into one, the session of a row; its start, or None if it is late."""
        if self._spec.time_column is None:
            at_ms: int | None = self._now_ms
        else:
            at_ms = time_of(change.row, self._spec.time_column)
            at_ms = None if at_ms is None else self._zone.of(at_ms)
        if at_ms is None:
            return None
        ends = {start: over for start, (over, _) in sessions.items()}
        whole, met = self._spec.shape.with_row(at_ms, ends)
        if self._has_passed(whole.end):
            return None
        held = self._aggregates.create()
        for each in met:
            over, more = sessions.pop(each)
            self._timers.remove(self._fires_ms(over))
            self._aggregates.merge(held, more)
        sessions[whole.start] = (whole.end, held)
        self._timers.register(self._fires_ms(whole.end))
        return whole.start

    async def _fire(self, timer: FiredTimer) -> None:
        """Emit the sessions of a key whose time this is."""
        for key, value in await self._sessions.entries():
            if value is None or self._fires_ms(value[0]) > timer.time_ms:
                continue
            end, held = value
            if held.rows:
                properties = self._properties.of(Span(start=key[0], end=end))
                values = self._aggregates.values(held)
                timer.emit(RowKind.INSERT, (*timer.key, *values, *properties))
            await self._sessions.remove(key)


class _SessionCodec:
    """End and accumulators of a session, as a JSON object."""

    __slots__ = ("_accumulators", "name")

    def __init__(self, aggregates: Aggregates) -> None:
        self._accumulators = AccumulatorCodec(
            aggregates.calls, aggregates.functions, len(aggregates.distinct)
        )
        self.name = f"session/1 {self._accumulators.name}"

    def encode(self, value: tuple[int, Any]) -> bytes:
        """The JSON object."""
        end, held = value
        own = orjson.Fragment(self._accumulators.encode(held))
        # A copy: the result of `dumps` keeps its buffer of 4 KiB for as long as it lives.
        return b"%b" % orjson.dumps({"end": end, "accumulators": own})

    def decode(self, data: bytes) -> tuple[int, Any]:
        """What such bytes hold.

        Raises:
            StateCorrupt: They are no session.
        """
        try:
            stored = orjson.loads(data)
            return stored["end"], self._accumulators.decode(orjson.dumps(stored["accumulators"]))
        except (ValueError, TypeError, KeyError) as error:
            raise StateCorrupt("a stored session is none") from error
