"""Operators of users: keyed process functions.

A function is a class in a package that is installed wherever workers and the service run; nothing
is uploaded. The package names it in its entry points:

    [project.entry-points."tailrace.functions"]
    CustomWindow = "my_package.windows:CustomWindow"

and a plan calls it by that name as Flink's process table function (a `systemName`, or the last part
of a `catalogName`; upper and lower case are the same):

    class CountRows(ProcessFunction):
        arguments = ("step",)

        @classmethod
        def result(cls, setting: FunctionSetting) -> RowSpec:
            return RowSpec(types=(parse_type("BIGINT"),), names=("n",))

        def __init__(self, setting: FunctionSetting) -> None:
            self._step = setting.arguments["step"] or 1
            self._counts = setting.value("counts", JSON)
            self.states = (self._counts,)

        def open(self, epoch: FunctionEpoch) -> None:
            self._count = epoch.session.value(self._counts)

        async def process(self, change: FunctionChange) -> None:
            count = (await self._count.value() or 0) + self._step
            await self._count.update(count)
            change.emit(RowKind.INSERT, (count,))

What comes out has the partition's columns of every input, then those of `result`, then the row time
where the call names one (`on_time`): that of the change, or of the timer that fired.

What holds for every operator holds here, too: changes of a key are processed in order, an `await`
is where others go on, and nothing may be kept between two of them but local variables, nor between
epochs but state. No clock, no randomness, no threads: the same epoch must give the same again.

Source: FLIP-220 and FLIP-425 have such functions as their motive; Flink's ProcessTableFunction
(FLIP-440) is how a plan calls one.
"""

from __future__ import annotations

import importlib.metadata
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn, Self

from pydantic import NonNegativeInt, model_validator

from operators.errors import FunctionUnavailable, InvalidSpec, NoWatermark
from operators.event_time import from_ms
from operators.keyed import KeyedOperator
from operators.spec import InputSpec, OperatorSpec, RowSpec
from operators.windows.spec import time_of
from state.descriptors import (
    AggregatingDescriptor,
    ListDescriptor,
    MapDescriptor,
    MultisetDescriptor,
    ReducingDescriptor,
    SortedMapDescriptor,
    TimersDescriptor,
    ValueDescriptor,
)
from state.ttl import DISABLED, TtlConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.changelog import Row, RowKind
    from operators.keyed import EpochTimes, FiredTimer, InputChange, KeyTimers, OpenEpoch
    from state.descriptors import Aggregator, Codec, MatchColumns, StateDescriptor
    from state.primitives.session import StateSession

GROUP: Final = "tailrace.functions"
"""The group of entry points that functions are found in."""


class FunctionSetting:
    """What a function is called with, and how it makes its states.

    Args:
        spec: The call.
    """

    def __init__(self, spec: ProcessFunctionSpec) -> None:
        self._spec = spec
        self.inputs: tuple[InputSpec, ...] = spec.inputs
        """The tables that it is called with, and what they are partitioned by."""
        self.arguments: Mapping[str, Any] = dict(spec.arguments)
        """By name; null where the call leaves one out."""
        self.ttl: TtlConfig = spec.ttl_of(0)
        """That of the plan; `dataclasses.replace` it for another update type, visibility, time or
        clean-up. What counts event time is stamped by `on_time` of the row, or by the timer."""

    def value(
        self, name: str, codec: Codec[Any], ttl_ms: int | None = None, ttl: TtlConfig | None = None
    ) -> ValueDescriptor[Any]:
        """One value a key.

        Args:
            name: Unique in the function.
            codec: How values are written.
            ttl_ms: Its time to live, 0 is for ever; None: as the plan says.
            ttl: All about its time to live, in place of `ttl_ms`.

        Raises:
            InvalidSpec: Both are given.
        """
        return ValueDescriptor(codec=codec, **self._common(name, ttl_ms, ttl))

    def list(
        self, name: str, codec: Codec[Any], ttl_ms: int | None = None, ttl: TtlConfig | None = None
    ) -> ListDescriptor[Any]:
        """A list of elements a key."""
        return ListDescriptor(codec=codec, **self._common(name, ttl_ms, ttl))

    def map(
        self,
        name: str,
        key_codec: Codec[Any],
        codec: Codec[Any],
        ttl_ms: int | None = None,
        ttl: TtlConfig | None = None,
    ) -> MapDescriptor[Any, Any]:
        """A map a key."""
        return MapDescriptor(key_codec=key_codec, codec=codec, **self._common(name, ttl_ms, ttl))

    def sorted_map(
        self,
        name: str,
        key_codec: Codec[Any],
        codec: Codec[Any],
        ttl_ms: int | None = None,
        ttl: TtlConfig | None = None,
    ) -> SortedMapDescriptor[Any, Any]:
        """Lists of values by keys in order: `state.lexicographic` has codecs for these."""
        return SortedMapDescriptor(
            key_codec=key_codec, codec=codec, **self._common(name, ttl_ms, ttl)
        )

    def reducing(
        self,
        name: str,
        codec: Codec[Any],
        reduce: Callable[[Any, Any], Any],
        ttl_ms: int | None = None,
        ttl: TtlConfig | None = None,
    ) -> ReducingDescriptor[Any]:
        """One value a key, into which each added one is folded."""
        return ReducingDescriptor(codec=codec, reduce=reduce, **self._common(name, ttl_ms, ttl))

    def aggregating(
        self,
        name: str,
        codec: Codec[Any],
        aggregator: Aggregator[Any, Any, Any],
        ttl_ms: int | None = None,
        ttl: TtlConfig | None = None,
    ) -> AggregatingDescriptor[Any, Any, Any]:
        """One accumulator a key."""
        common = self._common(name, ttl_ms, ttl)
        return AggregatingDescriptor(codec=codec, aggregator=aggregator, **common)

    def multiset(
        self,
        name: str,
        codec: Codec[Any],
        match: MatchColumns[Any, Any] | None = None,
        ttl_ms: int | None = None,
        ttl: TtlConfig | None = None,
    ) -> MultisetDescriptor[Any]:
        """A sequenced multiset of rows a key."""
        return MultisetDescriptor(codec=codec, match=match, **self._common(name, ttl_ms, ttl))

    def _common(self, name: str, ttl_ms: int | None, ttl: TtlConfig | None) -> dict[str, Any]:
        if ttl is None:
            ttl = self.ttl
            if ttl_ms is not None:
                ttl = TtlConfig(ttl_ms) if ttl_ms else DISABLED
        elif ttl_ms is not None:
            raise InvalidSpec(f"state {name!r} is given both ttl_ms and ttl")
        return {"name": name, "ttl": ttl, **self._spec.past_of(name)}


class NoEventTimers:
    """In place of timers in event time, where no watermark comes: in Flink none would ever fire."""

    def __init__(self, function: str) -> None:
        self._function = function

    def register(self, time_ms: int, namespace: bytes = b"") -> NoReturn:
        """Refuse it.

        Raises:
            NoWatermark: Always.
        """
        raise NoWatermark(
            f"the function {self._function} registers a timer in event time, and no watermark "
            "comes to it: declare WATERMARK FOR in its tables, or use processing time"
        )

    def remove(self, time_ms: int, namespace: bytes = b"") -> None:
        """Do nothing: there is none."""


@dataclass(frozen=True, slots=True)
class FunctionEpoch:
    """What a function has for one epoch."""

    session: StateSession
    """Makes the handles of its states, which are good for this epoch only."""
    times: EpochTimes
    event_timers: KeyTimers | NoEventTimers
    """Timers that wait for the watermark, of the current key; registering one is an error where no
    watermark comes (`ProcessFunctionSpec.has_watermark`)."""
    processing_timers: KeyTimers
    """Timers that wait for processing time, of the current key."""


class FunctionChange:
    """A change that a function processes."""

    __slots__ = ("_change", "_finish", "time_ms")

    def __init__(
        self,
        change: InputChange,
        finish: Callable[[Row, Row, int | None], Row],
        time_ms: int | None,
    ) -> None:
        self._change = change
        self._finish = finish
        self.time_ms = time_ms
        """The row's time, in ms, where the call names one (`on_time`)."""

    @property
    def input(self) -> int:
        """By which table it came, from 0."""
        return self._change.input

    @property
    def kind(self) -> RowKind:
        """What it does with its row."""
        return self._change.kind

    @property
    def row(self) -> Row:
        """All columns of the table."""
        return self._change.row

    @property
    def key(self) -> Row:
        """The partition's columns."""
        return self._change.key

    def emit(self, kind: RowKind, row: Row) -> None:
        """Send a change downstream: the columns of `result`."""
        self._change.emit(kind, self._finish(self._change.key, row, self.time_ms))

    def orphan(self) -> None:
        """Say that this retraction matched nothing: it is counted and listed."""
        self._change.orphan()

    def late(self) -> None:
        """Say that this row is dropped since the watermark has passed it: it is counted."""
        self._change.late()


class FunctionTimer:
    """A timer that fires."""

    __slots__ = ("_finish", "_timer")

    def __init__(self, timer: FiredTimer, finish: Callable[[Row, Row, int | None], Row]) -> None:
        self._timer = timer
        self._finish = finish

    @property
    def time_ms(self) -> int:
        """The time that it was registered for."""
        return self._timer.time_ms

    @property
    def namespace(self) -> bytes:
        """As it was registered; states are in it, too."""
        return self._timer.namespace

    @property
    def key(self) -> Row:
        """The partition's columns."""
        return self._timer.key

    def emit(self, kind: RowKind, row: Row) -> None:
        """Send a change downstream: the columns of `result`."""
        self._timer.emit(kind, self._finish(self._timer.key, row, self._timer.time_ms))


class ProcessFunction(ABC):
    """A keyed process function; made once a process, it serves many epochs and keys."""

    arguments: ClassVar[Sequence[str]] = ()
    """Names of the arguments that are no tables, in the order of the call."""
    states: Sequence[StateDescriptor] = ()
    """All its states; made by the setting's methods."""

    @classmethod
    @abstractmethod
    def result(cls, setting: FunctionSetting) -> RowSpec:
        """The columns that it emits, for this call.

        Raises:
            InvalidSpec: It cannot be called so.
        """

    @abstractmethod
    def __init__(self, setting: FunctionSetting) -> None:
        """Make the descriptors."""

    @abstractmethod
    def open(self, epoch: FunctionEpoch) -> None:
        """Take the handles for an epoch."""

    @abstractmethod
    async def process(self, change: FunctionChange) -> None:
        """Process one change; its key is current."""

    async def on_event_timer(self, timer: FunctionTimer) -> None:
        """The watermark has reached a timer's time."""
        raise NotImplementedError(f"{type(self).__name__} registers no timers in event time")

    async def on_processing_timer(self, timer: FunctionTimer) -> None:
        """Processing time has reached a timer's time."""
        raise NotImplementedError(f"{type(self).__name__} registers no timers in processing time")


class ProcessFunctionSpec(OperatorSpec):
    """A call of a function."""

    kind: Literal["process-function"] = "process-function"
    function: str
    """Its name among the entry points."""
    arguments: Mapping[str, Any] = {}
    """JSON values by name."""
    time_columns: tuple[NonNegativeInt | None, ...] = ()
    """Of each input, the row time where the call names one; then it stands behind the result."""
    has_watermark: bool = True
    """Whether each of its tables has a watermark; only a call with `time_columns` asks for it."""

    @model_validator(mode="after")
    def _inputs(self) -> Self:
        if not self.inputs:
            raise ValueError("a process function needs a table")
        if self.time_columns and len(self.time_columns) != len(self.inputs):
            raise ValueError("each table has a row time, or none has")
        return self

    @property
    def has_time(self) -> bool:
        """Whether the row time stands behind the result."""
        return any(each is not None for each in self.time_columns)

    def operator(self) -> ProcessOperator:
        """The operator of it.

        Raises:
            FunctionUnavailable: It is not installed here.
            InvalidSpec: It cannot be called so.
        """
        return ProcessOperator(self)


def find_function(name: str) -> type[ProcessFunction]:
    """The function of a name, out of the packages that are installed here.

    Raises:
        FunctionUnavailable: There is none, more than one, or it cannot be loaded.
    """
    entries = importlib.metadata.entry_points(group=GROUP)
    found = {each for each in entries if each.name.lower() == name.lower()}
    if len(found) != 1:
        many = "several packages have" if found else "no installed package has"
        raise FunctionUnavailable(f"{many} a function {name} among its {GROUP}")
    [entry] = found
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise FunctionUnavailable(f"the function {name} cannot be loaded: {error}") from error
    if not (isinstance(loaded, type) and issubclass(loaded, ProcessFunction)):
        raise FunctionUnavailable(f"the entry point {name} is no ProcessFunction")
    return loaded


class ProcessOperator(KeyedOperator):
    """Runs a function of a user.

    Characteristics:
        input       what the plan says, keyed by partition
        output      partition, result and row time; kinds as the function emits them
        state       that of the function, by its own names
        time        processing time, and event time where its tables have it, by its timers
        unseen -D   as the function says
    """

    def __init__(self, spec: ProcessFunctionSpec) -> None:
        found = find_function(spec.function)
        setting = FunctionSetting(spec)
        self._keys = len(spec.inputs)
        result = found.result(setting).types
        expected = sum(len(each.key) for each in spec.inputs) + len(result) + spec.has_time
        if len(spec.output.types) != expected:
            raise InvalidSpec(
                f"{spec.function} gives {expected} columns, the plan has {len(spec.output.types)}"
            )
        self._function = found(setting)
        self._times = spec.time_columns or (None,) * len(spec.inputs)
        self._time_type = spec.output.types[-1] if spec.has_time else None
        self.descriptors = self.prefetched = tuple(self._function.states)
        self._name = spec.function
        if spec.has_time or spec.has_watermark:
            self.event_timers = TimersDescriptor(name="event_timers")
        self.processing_timers = TimersDescriptor(name="processing_timers")

    def open(self, epoch: OpenEpoch) -> None:
        """Open the function; every state gets its handle, so that it can be prefetched."""
        self._session = epoch.session
        for each in self.descriptors:
            getattr(epoch.session, each.kind)(each)
        assert self.processing_timers is not None
        by_watermark = self.event_timers
        event = NoEventTimers(self._name) if by_watermark is None else epoch.timers(by_watermark)
        processing = epoch.timers(self.processing_timers)
        self._function.open(FunctionEpoch(epoch.session, epoch.times, event, processing))

    async def process(self, change: InputChange) -> None:
        """Let the function process one change."""
        column = self._times[change.input]
        time_ms = None if column is None else time_of(change.row, column)
        self._session.event_ms = time_ms
        await self._function.process(FunctionChange(change, self._finish, time_ms))

    async def on_event_timer(self, timer: FiredTimer) -> None:
        """Let the function's timer fire."""
        self._session.event_ms = timer.time_ms
        await self._function.on_event_timer(FunctionTimer(timer, self._finish))

    async def on_processing_timer(self, timer: FiredTimer) -> None:
        """Let the function's timer fire."""
        await self._function.on_processing_timer(FunctionTimer(timer, self._finish))

    def _finish(self, key: Row, row: Row, time_ms: int | None) -> Row:
        """A row as it goes downstream."""
        whole = (*key * self._keys, *row)
        if self._time_type is None:
            return whole
        return (*whole, None if time_ms is None else from_ms(time_ms, self._time_type))
