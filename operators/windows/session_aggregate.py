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

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import orjson

from operators.aggregate.beside import shown_accumulators
from operators.changelog import RowKind
from operators.windows.shapes import Session, Span
from operators.windows.slice_aggregates import SliceAggregates
from operators.windows.spec import PropertyColumns, WindowAggregateSpec, time_of
from operators.windows.window_aggregate import END_CODEC
from operators.windows.windowed import WindowedOperator
from state.descriptors import JSON, MapDescriptor
from state.errors import StateCorrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.aggregate import Accumulators
    from operators.keyed import FiredTimer, InputChange, OpenEpoch


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
        state       `sessions`: end and accumulators of each session that is not over, by its start;
                    beside it what of them grows (`operators.windows.slice_aggregates`)
        state cost  a round trip for an epoch's keys; a key's open sessions are read and written
                    once an epoch; what grows as in `WindowAggregate`; sessions that become one:
                    all but the first are read whole
        time        event or processing time: a timer for each session, moved as it grows
        unseen -D   makes or joins a session, and is taken back from it, as in Flink

    Source: Flink UnslicingWindowOperator, MergingWindowProcessFunction.
    """

    def __init__(self, spec: SessionAggregateSpec) -> None:
        super().__init__(spec)
        self._spec = spec
        self._aggregates = SliceAggregates(spec, "sessions")
        types = spec.output.types
        first = len(types) - len(spec.properties)
        self._properties = PropertyColumns(spec.properties, types[first:], self._zone)
        self._session_map: MapDescriptor[tuple[int], OpenSession] = MapDescriptor(
            name="sessions", key_codec=END_CODEC, codec=_SessionCodec(self._aggregates)
        )
        self.descriptors = (self._session_map, *self._aggregates.descriptors)
        self.prefetched = (self._session_map,)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        super().open(epoch)
        self._session = epoch.session
        self._sessions = epoch.session.map(self._session_map)
        self._aggregates.open(epoch)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Let the rows of a key into their sessions."""
        stored = await self._open_sessions()
        sessions = dict(stored)
        changed: set[int] = set()
        for change in changes:
            start = await self._join(change, sessions)
            if start is None:
                change.late()
            else:
                changed.add(start)
                sessions[start].waiting.append(change)
        for start in stored.keys() - sessions.keys():
            await self._sessions.remove((start,))
        for start in sorted(changed & sessions.keys()):
            await self._settle(sessions[start])
            await self._sessions.put((start,), sessions[start])

    async def _open_sessions(self) -> dict[int, OpenSession]:
        """The sessions of the current key by their starts."""
        found: dict[int, OpenSession] = {}
        for (start,), each in await self._sessions.entries():
            if each is not None:
                found[start] = each
                each.at = start if each.at is None else each.at
        return found

    async def _join(self, change: InputChange, sessions: dict[int, OpenSession]) -> int | None:
        """Make, or merge into one, the session of a row; its start, or None if it is late.

        The first of those that become one keeps its states, and takes in those of the others.
        """
        if self._spec.time_column is None:
            at_ms: int | None = self._now_ms
        else:
            at_ms = time_of(change.row, self._spec.time_column)
            at_ms = None if at_ms is None else self._zone.of(at_ms)
        if at_ms is None:
            return None
        ends = {start: each.end for start, each in sessions.items()}
        whole, met = self._spec.shape.with_row(at_ms, ends)
        if self._has_passed(whole.end):
            return None
        merged: OpenSession | None = None
        for start in met:
            each = sessions.pop(start)
            self._timers.remove(self._fires_ms(each.end))
            merged = each if merged is None else await self._both(merged, each)
        if merged is None:
            merged = OpenSession(whole.end, self._aggregates.create(), whole.start)
        merged.end = whole.end
        sessions[whole.start] = merged
        self._timers.register(self._fires_ms(whole.end))
        return whole.start

    async def _both(self, session: OpenSession, more: OpenSession) -> OpenSession:
        """Two sessions in the first one."""
        await self._settle(session)
        await self._settle(more)
        session.held = await self._aggregates.merge(
            session.held, session.named, more.held, more.named
        )
        return session

    async def _settle(self, session: OpenSession) -> None:
        """Take in the rows that wait."""
        waiting, session.waiting = session.waiting, []
        session.held = await self._aggregates.add(session.held, session.named, waiting)

    async def _fire(self, timer: FiredTimer) -> None:
        """Emit the sessions of a key whose time this is."""
        for start, each in (await self._open_sessions()).items():
            if self._fires_ms(each.end) > timer.time_ms:
                continue
            if each.held.rows:
                properties = self._properties.of(Span(start=start, end=each.end))
                values = await self._aggregates.values(each.held, each.named)
                timer.emit(RowKind.INSERT, (*timer.key, *values, *properties))
            await self._sessions.remove((start,))
            await self._aggregates.clear(each.named)


@dataclass(slots=True)
class OpenSession:
    """A session that is not over."""

    end: int
    held: Accumulators
    at: int | None
    """Names what lies beside the accumulators; None where it is stored: its start. It stays when
    an earlier row moves the start: it is a time of the session, so no other one has it."""
    waiting: list[InputChange] = field(default_factory=list)
    """Rows of the epoch that are to be taken in."""

    @property
    def named(self) -> int:
        """`at`, of one that was read."""
        assert self.at is not None
        return self.at


class _SessionCodec:
    """End and accumulators of a session, as a JSON object, and what its states are named by."""

    __slots__ = ("_accumulators", "_names", "name")

    def __init__(self, aggregates: SliceAggregates) -> None:
        self._accumulators = aggregates.codec
        self._names = bool(aggregates.descriptors)
        self.name = f"session/1 {aggregates.codec.name}"

    def encode(self, value: OpenSession) -> bytes:
        """The JSON object."""
        own = orjson.Fragment(self._accumulators.encode(value.held))
        stored = {"end": value.end, "accumulators": own}
        if self._names:
            stored["at"] = value.named
        # A copy: the result of `dumps` keeps its buffer of 4 KiB for as long as it lives.
        return b"%b" % orjson.dumps(stored)

    def decode(self, data: bytes) -> OpenSession:
        """What such bytes hold.

        Raises:
            StateCorrupt: They are no session.
        """
        try:
            stored = orjson.loads(data)
            held = self._accumulators.decode(orjson.dumps(stored["accumulators"]))
            return OpenSession(stored["end"], held, stored.get("at"))
        except (ValueError, TypeError, KeyError) as error:
            raise StateCorrupt("a stored session is none") from error

    def shown(self, data: bytes) -> Any:
        """The session, with its accumulators as people see them."""
        stored = JSON.decode(data)
        return stored | {"accumulators": shown_accumulators(stored["accumulators"])}
