"""Functions of users: found by entry point, called by plans, with state, timers and TTL."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operators.aggregate import AggregateCall
from operators.changelog import Change, RowKind
from operators.errors import FunctionUnavailable, InvalidSpec, NoWatermark
from operators.event_time import from_ms, to_ms
from operators.keyed import WATERMARK_MAX
from operators.over.over_aggregate import OverSpec
from operators.process_function import (
    FunctionChange,
    FunctionEpoch,
    FunctionSetting,
    FunctionTimer,
    ProcessFunction,
    ProcessFunctionSpec,
    find_function,
)
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import At, Of, OperatorHarness, Watermark, delete, insert
from service.plan import load_plan
from service.runtime.dataflow import check_plan, stateful_nodes
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.event_time import event_times
from service.runtime.specs import BUILDERS, StatefulNode
from service.settings import FilesSettings, Settings
from state.descriptors import JSON, MatchColumns
from state.errors import OperatorFailed
from state.lexicographic import lexicographic_codec
from state.ttl import Cleanup, TimeCharacteristic, TtlConfig, UpdateType
from state.types import parse_type
from tests.operators.laws import emits_the_same_any_way
from tests.service.plan.builders import recorded_plan

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from service.plan import CompiledPlan
    from state.descriptors import StateDescriptor

STRING, BIGINT, TIME = (parse_type(each) for each in ("STRING", "BIGINT", "TIMESTAMP(3)"))
Steps = list[Change | Of | At | Watermark]


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


NOT_A_FUNCTION = 7


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, custom_window: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example, installed; and metadata that names the functions of this module."""
    metadata = tmp_path / "functions_of_users-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: functions-of-users\n")
    (metadata / "entry_points.txt").write_text(
        "[tailrace.functions]\n"
        f"Everything = {__name__}:Everything\n"
        f"Stamped = {__name__}:Stamped\n"
        f"Doubtful = {__name__}:Doubtful\n"
        f"Lasting = {__name__}:Lasting\n"
        f"Ticking = {__name__}:Ticking\n"
        f"NoFunction = {__name__}:NOT_A_FUNCTION\n"
        "Missing = no_such_module:Missing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(custom_window))


def everything(**fields: Any) -> ProcessFunctionSpec:
    one = InputSpec(types=(STRING, BIGINT), names=("k", "v"), key=(0,))
    return ProcessFunctionSpec.build(
        inputs=(one, one),
        output=RowSpec(types=(STRING, STRING, STRING), names=("k", "k0", "seen")),
        function="everything",
        arguments={"step": 2},
        **fields,
    )


def test_a_function_has_every_kind_of_state() -> None:
    harness = OperatorHarness.on_heap(everything())
    emitted = harness.run([insert("a", 3), Of(1, insert("a", 1)), delete("a", 1), At(9)])
    assert [each.row for each in emitted] == [
        ("a", "a", "[2,[3],[3],[3],3,3.0]"),
        ("a", "a", "[4,[3,1],[1,3],[1,3],3,2.0]"),
    ]
    assert harness.statistics[0]["orphans"] == 1
    assert [each.row for each in harness.run([At(10)])] == [("a", "a", "a at 10")]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    came=st.lists(st.tuples(st.integers(0, 1), st.sampled_from("ab"), st.integers(0, 3))),
    size=st.integers(1, 4),
    data=st.data(),
)
def test_a_function_emits_the_same_any_way(
    came: list[tuple[int, str, int]], size: int, data: st.DataObject
) -> None:
    steps: Steps = [Of(side, insert(key, amount)) for side, key, amount in came]
    emits_the_same_any_way(everything(), [*steps, At(9), At(20)], data, size)


def test_a_function_has_the_ttl_of_the_plan_unless_it_says_otherwise() -> None:
    harness = OperatorHarness.on_heap(everything(ttl_ms=(5,)))
    emitted = harness.run([insert("a", 3), At(6), insert("a", 1)])
    assert emitted[-1].row[2] == "[2,[3,1],[1],[1],1,1.0]"


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


def test_a_function_may_count_event_time_from_the_first_row_on() -> None:
    """OnCreate at 20 with TTL 50: it lives while the watermark is below 70, whatever came since."""
    harness = OperatorHarness.on_heap(stamped())

    steps = [("a", 20), ("a", 60), Watermark(69), ("a", 69), Watermark(70), ("a", 71)]
    emitted = harness.run(
        [each if isinstance(each, Watermark) else insert(each[0], at(each[1])) for each in steps]
    )

    assert [each.row[1] for each in emitted] == [1, 2, 3, 1]


def test_a_timer_of_event_time_stamps_what_it_writes() -> None:
    """The count of 20 is gone at 80; the timer of 100 counts anew, and that lives until 150."""
    harness = OperatorHarness.on_heap(stamped())

    first = harness.run(
        [insert("a", at(20)), *map(Watermark, (80, 100, 149)), insert("a", at(149))]
    )
    later = harness.run([Watermark(150), insert("a", at(150))])

    assert [each.row[1] for each in (*first, *later)] == [1, 2, 1]


def test_records_and_accesses_of_a_function_pay_for_clean_up() -> None:
    """One record that accesses state three times lets four of five keys go, though none of them is
    touched again."""
    harness = OperatorHarness.on_heap(stamped(), max_parallelism=1)
    harness.run([*(insert(f"k{each}", at(0)) for each in range(5)), Watermark(60)])

    for _ in range(3):
        harness.run([insert("other", at(60))])

    assert [each["expired"] for each in harness.statistics[1:]] == [4, 1, 0]


def test_a_function_says_a_ttl_once() -> None:
    with pytest.raises(InvalidSpec, match="given both ttl_ms and ttl"):
        stamped("doubtful").operator()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("Nowhere", "no installed"), ("NoFunction", "no ProcessFunction"), ("Missing", "be loaded")],
)
def test_a_function_that_is_not_there(name: str, reason: str) -> None:
    spec = everything().model_copy(update={"function": name})
    with pytest.raises(FunctionUnavailable, match=reason):
        spec.operator()


def test_a_function_gives_what_the_plan_has() -> None:
    spec = everything()
    short = spec.model_copy(update={"output": spec.output.part((0, 1))})
    with pytest.raises(InvalidSpec, match="gives 3 columns, the plan has 2"):
        short.operator()


def window(size_ms: int) -> ProcessFunctionSpec:
    types, names = (STRING, BIGINT, TIME), ("k", "v", "ts")
    return ProcessFunctionSpec.build(
        inputs=(InputSpec(types=types, names=names, key=(0,)),),
        output=RowSpec(types=(STRING, BIGINT, TIME), names=("k", "total", "rowtime")),
        function="CustomWindow",
        arguments={"column": "v", "size_ms": size_ms},
        time_columns=(2,),
    )


def over(size_ms: int) -> OverSpec:
    types, names = (STRING, BIGINT, TIME), ("k", "v", "ts")
    call = AggregateCall(
        function="$SUM0",
        name="total",
        arguments=(1,),
        argument_types=(BIGINT,),
        result_type=BIGINT,
        needs_retraction=True,
    )
    return OverSpec.build(
        inputs=(InputSpec(types=types, names=names, key=(0,)),),
        output=RowSpec(types=(*types, BIGINT), names=(*names, "total")),
        calls=(call,),
        time_column=2,
        is_rows=False,
        preceding=size_ms,
    )


came_rows = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(-3, 3), st.integers(1, 20)), max_size=14
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(came=came_rows, size_ms=st.integers(0, 8), epoch=st.integers(1, 5))
def test_the_custom_window_is_the_built_in_one(
    came: list[tuple[str, int, int]], size_ms: int, epoch: int
) -> None:
    ordered = sorted(came, key=lambda each: each[2] > 10)
    steps: Steps = [insert(key, v, from_ms(ms, TIME)) for key, v, ms in ordered]
    steps.insert(sum(ms <= 10 for _, _, ms in came), Watermark(10))
    steps.append(Watermark(WATERMARK_MAX))
    mine = OperatorHarness.on_heap(window(size_ms))
    built_in = OperatorHarness.on_heap(over(size_ms))
    found = [(x.row[0], to_ms(x.row[2]), x.row[1]) for x in mine.run(steps, epoch_changes=epoch)]
    expected = [(x.row[0], to_ms(x.row[2]), x.row[3]) for x in built_in.run(steps)]
    for key in "ab":
        assert [x for x in found if x[0] == key] == [x for x in expected if x[0] == key]
    assert mine.stored_names() == set()


def test_the_custom_window_drops_late_rows_and_checks_its_column() -> None:
    harness = OperatorHarness.on_heap(window(5))
    assert harness.run([Watermark(9), insert("a", 1, from_ms(9, TIME)), Watermark(20)]) == []
    assert harness.statistics[-1]["late"] == 1
    wrong = window(5).model_copy(update={"arguments": {"column": "k", "size_ms": 5}})
    with pytest.raises(InvalidSpec, match="no column of whole numbers"):
        wrong.operator()


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    heap = OperatorHarness.on_heap(window(5))
    remote = OperatorHarness.on_redis(window(5), redis_client)
    rows = [insert("a", v, from_ms(ms, TIME)) for v, ms in [(1, 3), (2, 7), (4, 7), (8, 9)]]
    steps: Steps = [*rows[:2], Watermark(3), *rows[2:], Watermark(50)]
    assert remote.run(steps, epoch_changes=2) == heap.run(steps)
    remote.close()


DOMAIN = {"kind": "LITERAL", "value": "processing", "type": "CHAR(10) NOT NULL"}
LITERAL = {"kind": "LITERAL", "value": "v", "type": "CHAR(1) NOT NULL"}
SIZE = {"kind": "LITERAL", "value": 60_000, "type": "INT NOT NULL"}
DESCRIPTOR = {
    "kind": "CALL",
    "internalName": "$DESCRIPTOR$1",
    "operands": [{"kind": "LITERAL", "value": "ts", "type": "CHAR(2) NOT NULL"}],
    "type": "DESCRIPTOR NOT NULL",
}
DEFAULT = {
    "kind": "CALL",
    "syntax": "SPECIAL",
    "internalName": "$DEFAULT$1",
    "operands": [],
    "type": "VARCHAR(2147483647)",
}


def call(*operands: Any, keys: list[int] | None = None, name: str = "CustomWindow") -> Any:
    """The spec of a plan that calls the function."""
    plan, node = calling(*operands, keys=keys, name=name)
    return BUILDERS["process-table-function"](StatefulNode(plan.node(node), plan))


def calling(
    *operands: Any, keys: list[int] | None = None, name: str = "CustomWindow", timed: bool = True
) -> tuple[CompiledPlan, int]:
    """A plan that calls the function in place of the OVER node of a recorded one, and the node."""
    document = recorded_plan("131_")
    [node] = [each for each in document["nodes"] if "overSpec" in each]
    row = document["nodes"][2]["outputType"]
    table = {"kind": "TABLE_ARG_CALL", "inputIndex": 0, "type": row}
    table["partitionKeys"] = [0] if keys is None else keys
    with_time = ", `rowtime` TIMESTAMP(3)" if DESCRIPTOR in operands else ""
    output = f"ROW<`k` STRING, `total` BIGINT{with_time}>"
    node |= {
        "type": "stream-exec-process-table-function_1",
        "uid": "f",
        "functionCall": {
            "kind": "CALL",
            "catalogName": f"`cat`.`db`.`{name}`",
            "operands": [table, *operands],
            "type": output,
        },
        "inputChangelogModes": [["INSERT"]],
        "outputChangelogMode": ["INSERT"],
        "outputType": output,
    }
    null = {"kind": "LITERAL", "value": None, "type": "INT"}
    first = {"kind": "INPUT_REF", "inputIndex": 0, "type": "VARCHAR(2147483647)"}
    document["nodes"][4]["projection"] = [first, null, null]
    if not timed:
        document["nodes"][1] = {
            **document["nodes"][1],
            "type": "stream-exec-drop-update-before_1",
        }
        del document["nodes"][1]["watermarkExpr"], document["nodes"][1]["rowtimeFieldIndex"]
    return load_plan(document), node["id"]


def test_a_plan_calls_a_function_by_name() -> None:
    built = call(LITERAL, SIZE, DESCRIPTOR, DEFAULT)
    assert isinstance(built, ProcessFunctionSpec)
    assert (built.function, built.time_columns) == ("CustomWindow", (2,))
    assert built.arguments == {"column": "v", "size_ms": 60_000}
    built.operator()


def test_a_function_without_row_time_runs_on_a_table_without_watermark(tmp_path: Path) -> None:
    settings = Settings(files=FilesSettings(root=tmp_path))
    without, node = calling(DOMAIN, name="Ticking", timed=False)
    [operator] = stateful_nodes(without)
    check_plan(without, settings)
    assert operator.node_id == node
    assert event_times(without, [operator]).inputs == {node: ()}

    within, node = calling(DOMAIN, name="Ticking")
    check_plan(within, settings)
    [operator] = stateful_nodes(within)
    assert event_times(within, [operator]).inputs == {node: ((("2", 0),),)}


@pytest.mark.parametrize(
    ("name", "operands"),
    [("Ticking", (DOMAIN, DESCRIPTOR)), ("Lasting", ())],
    ids=["on_time", "ttl"],
)
def test_row_time_and_a_ttl_in_event_time_want_a_watermark(
    tmp_path: Path, name: str, operands: Any
) -> None:
    plan, _ = calling(*operands, name=name, timed=False)

    with pytest.raises(UnsupportedNode, match="waits for watermarks"):
        check_plan(plan, Settings(files=FilesSettings(root=tmp_path)))


def ticking(**fields: Any) -> OperatorHarness:
    return OperatorHarness.on_heap(
        ProcessFunctionSpec.build(
            inputs=(InputSpec(types=(STRING, BIGINT), names=("k", "v"), key=(0,)),),
            output=RowSpec(types=(STRING, BIGINT), names=("k", "n")),
            function="Ticking",
            **fields,
        )
    )


def test_without_watermark_timers_of_processing_time_fire() -> None:
    harness = ticking(arguments={"domain": "processing"}, has_watermark=False)
    harness.run([insert("a", 30)])
    assert harness.run([At(29)]) == []
    assert [each.row for each in harness.run([At(30)])] == [("a", 30)]


def test_without_watermark_a_timer_of_event_time_is_refused() -> None:
    with pytest.raises(OperatorFailed) as failed:
        ticking(arguments={"domain": "event"}, has_watermark=False).run([insert("a", 30)])
    assert isinstance(failed.value.__cause__, NoWatermark)
    assert "WATERMARK FOR" in str(failed.value.__cause__)


def test_event_times_timers_fire_by_the_watermark_without_row_time_too() -> None:
    """As in Flink, where `on_time` says what time a row has, not whether there is a watermark."""
    harness = ticking(arguments={"domain": "event"})
    assert harness.run([insert("a", 30), Watermark(29)]) == []
    assert [each.row for each in harness.run([Watermark(30)])] == [("a", 30)]


@pytest.mark.parametrize(
    ("operands", "keys", "reason"),
    [
        ((LITERAL, SIZE, DESCRIPTOR), [], "without PARTITION BY"),
        ((LITERAL,), None, "takes 2 arguments"),
        ((LITERAL, DESCRIPTOR, DESCRIPTOR), None, "neither tables nor literals"),
    ],
)
def test_what_a_call_cannot_be(operands: Any, keys: list[int] | None, reason: str) -> None:
    with pytest.raises(UnsupportedNode, match=reason):
        call(*operands, keys=keys)


def test_a_plan_with_a_function_that_is_not_installed() -> None:
    with pytest.raises(FunctionUnavailable):
        call(LITERAL, SIZE, DESCRIPTOR, name="Other")


def test_the_example_is_found_where_it_is_installed(
    custom_window: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A benchmark's test may have taken it from the sources in this process.
    monkeypatch.delitem(sys.modules, "custom_window", raising=False)
    found = find_function("customwindow")

    assert found.__name__ == "CustomWindow"
    assert inspect.getfile(found) == str(custom_window / "custom_window.py")
