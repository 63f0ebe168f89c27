"""Functions of users: found by entry point, run with state, timers and TTL."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operators.aggregate import AggregateCall
from operators.errors import FunctionUnavailable, InvalidSpec, NoWatermark
from operators.event_time import from_ms, to_ms
from operators.keyed import WATERMARK_MAX
from operators.over.over_aggregate import OverSpec
from operators.process_function import ProcessFunctionSpec, find_function
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import At, Of, OperatorHarness, Watermark, delete, insert
from state.errors import OperatorFailed
from tests.operators.functions import BIGINT, STRING, TIME, announce, at, everything, stamped
from tests.operators.laws import emits_the_same_any_way

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from operators.changelog import Change

    Steps = list[Change | Of | At | Watermark]


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, custom_window: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example, installed; and the functions of the tests."""
    announce(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(custom_window))


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
    [("Nowhere", "no installed"), ("NotAFunction", "no ProcessFunction"), ("Missing", "be loaded")],
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


def test_the_example_is_found_where_it_is_installed(
    custom_window: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A benchmark's test may have taken it from the sources in this process.
    monkeypatch.delitem(sys.modules, "custom_window", raising=False)
    found = find_function("customwindow")

    assert found.__name__ == "CustomWindow"
    assert inspect.getfile(found) == str(custom_window / "custom_window.py")
