"""Functions of users for tests, and the metadata by which they are found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from operators.changelog import RowKind
from operators.event_time import from_ms
from operators.process_function import (
    FunctionChange,
    FunctionEpoch,
    FunctionSetting,
    FunctionTimer,
    ProcessFunction,
    ProcessFunctionSpec,
)
from operators.spec import InputSpec, RowSpec
from state.descriptors import JSON, MatchColumns
from state.lexicographic import lexicographic_codec
from state.ttl import Cleanup, TimeCharacteristic, TtlConfig, UpdateType
from state.types import parse_type

if TYPE_CHECKING:
    from pathlib import Path

    from state.descriptors import StateDescriptor

STRING, BIGINT, TIME = (parse_type(each) for each in ("STRING", "BIGINT", "TIMESTAMP(3)"))


def announce(folder: Path) -> None:
    """Leave what an installer would leave of a package with the functions of this module."""
    metadata = folder / "functions_of_users-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: functions-of-users\n")
    names = ("Everything", "Stamped", "Doubtful", "Lasting", "Ticking", "NotAFunction")
    named = "".join(f"{each} = {__name__}:{each}\n" for each in names)
    (metadata / "entry_points.txt").write_text(
        f"[tailrace.functions]\n{named}Missing = no_such_module:Missing\n"
    )


class Everything(ProcessFunction):
    """Keeps the amounts of a key in every kind of state, and tells what each holds."""

    arguments = ("step",)

    @classmethod
    def result(cls, setting: FunctionSetting) -> RowSpec:
        return RowSpec(types=(STRING,), names=("seen",))

    def __init__(self, setting: FunctionSetting) -> None:
        order = lexicographic_codec([BIGINT])
        self._step = setting.arguments["step"]
        self._value = setting.value("value", JSON)
        self._list = setting.list("list", JSON, ttl_ms=0)
        self._map = setting.map("map", JSON, JSON)
        self._sorted = setting.sorted_map("sorted", order, JSON)
        self._reducing = setting.reducing("reducing", JSON, max)
        self._aggregating = setting.aggregating("aggregating", JSON, Mean())
        match = MatchColumns(name="first", codec=JSON, of=lambda row: row[:1])
        self._multiset = setting.multiset("multiset", JSON, match)
        self.states: tuple[StateDescriptor, ...] = (
            *(self._value, self._list, self._map, self._sorted),
            *(self._reducing, self._aggregating, self._multiset),
        )

    def open(self, epoch: FunctionEpoch) -> None:
        session = epoch.session
        self.value, self.list, self.map = (
            session.value(self._value),
            session.list(self._list),
            session.map(self._map),
        )
        self.sorted, self.reducing = (
            session.sorted_map(self._sorted),
            session.reducing(self._reducing),
        )
        self.aggregating, self.multiset = (
            session.aggregating(self._aggregating),
            session.multiset(self._multiset),
        )
        self.timers = epoch.processing_timers
        self.now_ms = epoch.times.time_ms

    async def process(self, change: FunctionChange) -> None:
        amount: Any = change.row[1]
        if change.kind.is_retraction:
            change.orphan()
            return
        await self.value.update((await self.value.value() or 0) + self._step)
        await self.list.add(amount)
        await self.map.put(amount, change.input)
        await self.sorted.add((amount,), self.now_ms)
        await self.reducing.add(amount)
        await self.aggregating.add(amount)
        await self.multiset.append([amount, change.input])
        self.timers.register(self.now_ms + 10, b"soon")
        shown = [
            await self.value.value(),
            await self.list.get(),
            await self.map.keys(),
            [key for (key,), _ in await self.sorted.entries()],
            await self.reducing.get(),
            await self.aggregating.get(),
        ]
        change.emit(RowKind.INSERT, (JSON.encode(shown).decode(),))

    async def on_processing_timer(self, timer: FunctionTimer) -> None:
        assert timer.namespace == b"soon"
        timer.emit(RowKind.DELETE, (f"{timer.key[0]} at {timer.time_ms}",))


class Mean:
    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        return [accumulator[0] + value, accumulator[1] + 1]

    def get_result(self, accumulator: list[int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, one: list[int], other: list[int]) -> list[int]:
        return [one[0] + other[0], one[1] + other[1]]


class Stamped(ProcessFunction):
    """Counts the rows of a key in a state whose TTL says all that a TTL can say."""

    @classmethod
    def result(cls, setting: FunctionSetting) -> RowSpec:
        return RowSpec(types=(BIGINT,), names=("n",))

    def __init__(self, setting: FunctionSetting) -> None:
        cleanup = Cleanup(1, incremental_on_record=True, background=False)
        time = TimeCharacteristic.EVENT_BY_WATERMARK
        ttl = replace(setting.ttl, update=UpdateType.ON_CREATE, time=time, cleanup=cleanup)
        self._count = setting.value("count", JSON, ttl=ttl)
        self.states = (self._count,)

    def open(self, epoch: FunctionEpoch) -> None:
        self.count, self.timers = epoch.session.value(self._count), epoch.event_timers

    async def process(self, change: FunctionChange) -> None:
        await self.add_one()
        self.timers.register(100)
        change.emit(RowKind.INSERT, (await self.count.value(),))

    async def on_event_timer(self, timer: FunctionTimer) -> None:
        await self.add_one()

    async def add_one(self) -> None:
        await self.count.update((await self.count.value() or 0) + 1)


class Lasting(Stamped):
    """Counts rows in a state that lives for 50 ms of event time, whatever the plan says."""

    def __init__(self, setting: FunctionSetting) -> None:
        ttl = TtlConfig(50, time=TimeCharacteristic.EVENT_BY_WATERMARK)
        self._count = setting.value("count", JSON, ttl=ttl)
        self.states = (self._count,)


class Ticking(ProcessFunction):
    """Says when the time that each row names has come, in the domain of its argument."""

    arguments = ("domain",)

    @classmethod
    def result(cls, setting: FunctionSetting) -> RowSpec:
        return RowSpec(types=(BIGINT,), names=("n",))

    def __init__(self, setting: FunctionSetting) -> None:
        self._domain = setting.arguments["domain"]

    def open(self, epoch: FunctionEpoch) -> None:
        both = {"event": epoch.event_timers, "processing": epoch.processing_timers}
        self.timers = both[self._domain]

    async def process(self, change: FunctionChange) -> None:
        time_ms: Any = change.row[1]
        self.timers.register(time_ms)

    async def on_event_timer(self, timer: FunctionTimer) -> None:
        timer.emit(RowKind.INSERT, (timer.time_ms,))

    on_processing_timer = on_event_timer


class Doubtful(Stamped):
    """Says twice how long a state lives."""

    def __init__(self, setting: FunctionSetting) -> None:
        setting.value("count", JSON, 5, setting.ttl)


NotAFunction = 7


def everything(**fields: Any) -> ProcessFunctionSpec:
    one = InputSpec(types=(STRING, BIGINT), names=("k", "v"), key=(0,))
    return ProcessFunctionSpec.build(
        inputs=(one, one),
        output=RowSpec(types=(STRING, STRING, STRING), names=("k", "k0", "seen")),
        function="everything",
        arguments={"step": 2},
        **fields,
    )


def at(ms: int) -> Any:
    return from_ms(ms, TIME)


def stamped(function: str = "stamped") -> ProcessFunctionSpec:
    types, names = (STRING, TIME), ("k", "ts")
    return ProcessFunctionSpec.build(
        inputs=(InputSpec(types=types, names=names, key=(0,)),),
        output=RowSpec(types=(STRING, BIGINT, TIME), names=("k", "n", "rowtime")),
        function=function,
        time_columns=(1,),
        ttl_ms=(50,),
    )
