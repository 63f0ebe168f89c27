"""How a stateful operator is written: changes in, changes out, state by key.

An operator is a subclass of `KeyedOperator`. It says which states it keeps (`descriptors`), takes
its handles when an epoch opens, and processes one change at a time:

    class CountRows(KeyedOperator):
        def __init__(self, spec: CountSpec) -> None:
            self._counts = ValueDescriptor(
                name="counts", codec=JSON, ttl=spec.ttl_of(0), **spec.past_of("counts")
            )
            self.descriptors = self.prefetched = (self._counts,)

        def open(self, epoch: OpenEpoch) -> None:
            self._count = epoch.session.value(self._counts)

        async def process(self, change: InputChange) -> None:
            count = (await self._count.value() or 0) + change.kind.weight
            await self._count.update(count)
            change.emit(RowKind.UPDATE_AFTER, (*change.key, count))

The same code runs on any backend, synchronously or with thousands of changes in flight: changes of
one key never overtake each other, and an `await` is where others may go on. So an operator keeps
nothing of its own between two `await`s but local variables, and nothing between epochs but state.
What an epoch gives is a pure function of the state before it, its input in order, and its times:
no clock, no randomness, no arrival order.

The order of an epoch
---------------------
1. Timers in processing time that are due by the epoch's time fire.
2. Changes are processed, in order within a key. The watermark is still that of the epoch before.
3. The watermark moves on, and timers in event time that are due by then fire. While it stands
   still none fires, even such as were registered for a time that has passed already.

So a change is never late for a watermark that came after it, and what timers emit goes before what
the next epoch brings, as in Flink, where a watermark is a record among others.

Source: Flink's `KeyedProcessFunction` and `AsyncKeyedProcessOperator` (FLIP-425).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from state.ttl import TIME_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from operators.changelog import Row, RowKind
    from operators.keyed_columns import ColumnarPath, ColumnarSides
    from state.descriptors import StateDescriptor, TimersDescriptor
    from state.execution.timers import TimerService
    from state.primitives.session import StateSession

WATERMARK_MIN: Final = TIME_MIN
"""No watermark has come."""
WATERMARK_MAX: Final = (1 << 63) - 1
"""No row is to come any more: the inputs have ended (Flink: Watermark.MAX_WATERMARK)."""


def held_back(watermark_ms: int, by_ms: int) -> int:
    """A watermark behind an operator whose rows leave with times that far below it."""
    if watermark_ms in (WATERMARK_MIN, WATERMARK_MAX):
        return watermark_ms
    return watermark_ms - by_ms


@dataclass(frozen=True, slots=True)
class EpochTimes:
    """The times of an epoch of one operator; ms since 1970."""

    time_ms: int
    """Processing time: the same for the whole epoch, and when it runs again."""
    watermark_ms: int = WATERMARK_MIN
    """The watermark that holds while the epoch's changes are processed: the least over inputs."""
    next_watermark_ms: int = WATERMARK_MIN
    """The watermark that comes after the epoch's changes; never below `watermark_ms`."""


class RowTexts:
    """The canonical texts of an input's rows in an epoch.

    Cost: for all rows together, when the first one is asked for; a fraction of `RowCodec.encode`.
    """

    __slots__ = ("_columns", "_encode", "_length", "_texts")

    def __init__(
        self,
        encode: Callable[[Sequence[pa.Array], int], list[bytes]],
        columns: Sequence[pa.Array],
        length: int,
    ) -> None:
        self._encode = encode
        self._columns = columns
        self._length = length
        self._texts: list[bytes] | None = None

    def of(self, at: int) -> bytes:
        """The text of the row at a place of its batch."""
        if self._texts is None:
            self._texts = self._encode(self._columns, self._length)
        return self._texts[at]


class InputChange:
    """A change on its way through an operator, and where to emit what follows from it."""

    __slots__ = (
        "_at",
        "_out",
        "_rank",
        "_texts",
        "input",
        "is_late",
        "is_orphan",
        "key",
        "key_group",
        "kind",
        "row",
        "set_aside_as",
        "stored_key",
    )

    def __init__(
        self,
        out: Callable[[tuple[int, RowKind, Row]], None],
        rank: int,
        input: int,
        kind: RowKind,
        row: Row,
        key: Row,
        stored_key: bytes,
        key_group: int,
        texts: RowTexts,
        at: int,
    ) -> None:
        self._out = out
        self._rank = rank
        self._texts = texts
        self._at = at
        self.input = input
        """Which input it came by, from 0."""
        self.kind = kind
        self.row = row
        """Python values (`state.types` says which), None for null."""
        self.key = key
        """The key's columns."""
        self.stored_key = stored_key
        """The key's canonical text."""
        self.key_group = key_group
        """Of the key."""
        self.is_orphan = False
        self.is_late = False
        self.set_aside_as = ""

    @property
    def text(self) -> bytes:
        """The row's canonical text; made for all rows of an input at once when one is asked for."""
        return self._texts.of(self._at)

    def emit(self, kind: RowKind, row: Row) -> None:
        """Send a change downstream."""
        self._out((self._rank, kind, row))

    def emit_in_place_of(self, other: InputChange) -> None:
        """From now on, have what this change emits leave where another one's output does."""
        self._rank = other._rank

    def orphan(self) -> None:
        """Say that this retraction matched nothing: it is counted and listed for people."""
        self.is_orphan = True

    def set_aside(self, reason: str) -> None:
        """Say that this change is dropped: it becomes a dead letter with its key.

        Args:
            reason: Why, without any value of the row.
        """
        self.set_aside_as = reason

    @property
    def rank(self) -> int:
        """Its place among the changes of its epoch."""
        return self._rank

    def late(self) -> None:
        """Say that this row is dropped, since the watermark has passed it: it is counted."""
        self.is_late = True


class FiredTimer:
    """A timer that fires, and where to emit what follows from it."""

    __slots__ = ("_orphan", "_out", "_place", "key", "namespace", "stored_key", "time_ms")

    def __init__(
        self,
        out: Callable[[tuple[tuple[int, bytes], RowKind, Row]], None],
        orphan: Callable[[RowKind, Row], None],
        time_ms: int,
        stored_key: bytes,
        key: Row,
        namespace: bytes,
    ) -> None:
        self._out = out
        self._orphan = orphan
        self._place = (time_ms, stored_key)
        self.time_ms = time_ms
        self.stored_key = stored_key
        self.key = key
        """The key's columns."""
        self.namespace = namespace
        """As it was registered; it is the session's current namespace, too."""

    def emit(self, kind: RowKind, row: Row) -> None:
        """Send a change downstream."""
        self._out((self._place, kind, row))

    def orphan(self, kind: RowKind, row: Row) -> None:
        """Say that a retraction that had waited matched nothing: it is counted and listed.

        Args:
            kind: Of the retraction.
            row: The whole row, as it came by the first input.
        """
        self._orphan(kind, row)


class KeyTimers:
    """Timers of one domain for the key that is current: what an operator registers and removes.

    Source: Flink's `TimerService`; registration is synchronous, as in FLIP-425.
    """

    __slots__ = ("_service", "_session")

    def __init__(self, service: TimerService, session: StateSession) -> None:
        self._service = service
        self._session = session

    def register(self, time_ms: int, namespace: bytes = b"") -> None:
        """Fire for the current key when this time is reached; twice is once."""
        self._service.register(self._session.key, self._session.key_group, time_ms, namespace)

    def remove(self, time_ms: int, namespace: bytes = b"") -> None:
        """Do not fire."""
        self._service.remove(self._session.key, self._session.key_group, time_ms, namespace)


@dataclass(frozen=True, slots=True)
class OpenEpoch:
    """What an operator has for one epoch."""

    session: StateSession
    """Makes the handles of state; they are good for this epoch only."""
    times: EpochTimes

    def timers(self, descriptor: TimersDescriptor) -> KeyTimers:
        """The timers of a domain, for the current key."""
        return KeyTimers(self.session.timers(descriptor), self.session)


class KeyedOperator(ABC):
    """A stateful operator over changes of one or more inputs that share a key.

    Guarantees:
        order     changes of a key are processed one after the other, in the order of the epoch
        emission  what one change emits stays together and in order; the order of causes is kept
        state     written when the epoch commits, all or nothing
    """

    descriptors: Sequence[StateDescriptor] = ()
    """All states, but timers; what the pipeline remembers of them."""
    prefetched: Sequence[StateDescriptor] = ()
    """States that nearly every change reads: loaded for all keys of an epoch in one round trip."""
    event_timers: TimersDescriptor | None = None
    """Timers that wait for the watermark; None: there are none."""
    processing_timers: TimersDescriptor | None = None
    """Timers that wait for the epoch's time; None: there are none."""
    left_timers: TimersDescriptor | None = None
    """Timers of a TTL that is off: they do not fire, and go with what they were for."""
    planned: StateDescriptor | None = None
    """Where idle keys go by `processing_timers`: what says of a key when it does."""
    takes_bundles: bool = False
    """Hand all changes of a key in an epoch over at once even where `spec.bundles` is not set: for
    operators that then emit for each change, but read and write their state once."""

    has_total: bool = False
    """Whether it has one key, of no columns, that is there before any change comes."""

    columnar: ColumnarPath | None = None
    """A second path for whole epochs of its only input, on columns, once `open` was called; what it
    reads is in `prefetched`. None: there is none."""
    columnar_sides: ColumnarSides | None = None
    """The same of an operator of several inputs; it reads what it needs by itself."""

    @property
    def states(self) -> tuple[StateDescriptor, ...]:
        """All that it keeps, timers too."""
        timers = (self.event_timers, self.processing_timers, self.left_timers)
        return (*self.descriptors, *(each for each in timers if each is not None))

    @abstractmethod
    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles for an epoch. Called once, before anything else of it."""

    @abstractmethod
    async def process(self, change: InputChange) -> None:
        """Process one change; its key is the session's current key."""

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Process all changes of a key in an epoch, in order.

        Called in place of `process` where `spec.bundles` or `takes_bundles` is set.

        An operator that can do with fewer emissions (Flink: mini-batch) overrides it.
        """
        for change in changes:
            await self.process(change)

    async def end_total(self, emit: Callable[[RowKind, Row], None]) -> None:
        """After the changes of each epoch, where `has_total` is set; its key is current."""
        raise NotImplementedError(f"{type(self).__name__} has no total")

    async def on_untimed_key(self) -> None:
        """The current key is there, and may have no timer by which it goes, where `planned` is."""
        raise NotImplementedError(f"{type(self).__name__} lets no keys go by timers")

    async def on_event_timer(self, timer: FiredTimer) -> None:
        """A timer's time was reached by the watermark; its key and namespace are current."""
        raise NotImplementedError(f"{type(self).__name__} registers no timers in event time")

    async def on_processing_timer(self, timer: FiredTimer) -> None:
        """A timer's time was reached by the epoch's time; its key and namespace are current."""
        raise NotImplementedError(f"{type(self).__name__} registers no timers in processing time")
