"""How a function of a user is found, and the operator that runs it."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from pydantic import NonNegativeInt, model_validator

from operators.errors import FunctionUnavailable, InvalidSpec
from operators.event_time import from_ms
from operators.keyed import KeyedOperator
from operators.process_function.function import (
    FunctionChange,
    FunctionEpoch,
    FunctionTimer,
    NoEventTimers,
    ProcessFunction,
)
from operators.process_function.setting import FunctionSetting
from operators.spec import OperatorSpec
from operators.windows.spec import time_of
from state.descriptors import TimersDescriptor

if TYPE_CHECKING:
    from operators.changelog import Row
    from operators.keyed import FiredTimer, InputChange, OpenEpoch

GROUP: Final = "tailrace.functions"
"""The group of entry points that functions are found in."""


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
