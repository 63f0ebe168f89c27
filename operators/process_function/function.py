"""What a function of a user derives from, and what it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NoReturn

from operators.errors import NoWatermark

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.changelog import Row, RowKind
    from operators.keyed import EpochTimes, FiredTimer, InputChange, KeyTimers
    from operators.process_function.setting import FunctionSetting
    from operators.spec import RowSpec
    from state.descriptors import StateDescriptor
    from state.primitives.session import StateSession


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
