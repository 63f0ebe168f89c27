"""Aggregates of windows: when they come out, late rows, retractions, and the laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.aggregate import AggregateCall
from operators.changelog import Change, RowKind
from operators.errors import InvalidSpec
from operators.event_time import from_ms, to_ms
from operators.keyed import WATERMARK_MAX
from operators.spec import InputSpec, RowSpec
from operators.testing.batch_windows import sessions_of, windows_of
from operators.testing.operator_harness import (
    At,
    Of,
    OperatorHarness,
    Watermark,
    delete,
    insert,
    update_after,
    update_before,
)
from operators.windows.session_aggregate import SessionAggregateSpec
from operators.windows.shapes import Cumulating, Hopping, Session, Tumbling
from operators.windows.window_aggregate import SlicedAggregateSpec
from service.plan import load_plan
from service.plan.errors import InvalidProperty
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs import BUILDERS, StatefulNode
from service.runtime.specs.windows import identity_nodes
from state.types import parse_type
from tests.operators.laws import answered_any_way
from tests.oracles import RECORDED
from tests.oracles.cases import read_lines
from tests.service.plan.builders import recorded_plan

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    import redis

    from operators.windows.spec import WindowAggregateSpec

STRING, INT, BIGINT = parse_type("STRING"), parse_type("INT"), parse_type("BIGINT")
TIME = parse_type("TIMESTAMP(3)")
POINT = parse_type("TIMESTAMP_LTZ(3)")
Steps = list[Change | Of | At | Watermark]
SUM = AggregateCall(
    function="SUM",
    name="s",
    arguments=(1,),
    argument_types=(INT,),
    result_type=INT,
    needs_retraction=True,
)
COUNT = AggregateCall(function="COUNT", name="c", result_type=BIGINT, needs_retraction=True)


def at(ms: int) -> dt.datetime:
    return from_ms(ms, TIME)


def spec(shape: Any, *, time: Any = TIME, **fields: Any) -> WindowAggregateSpec:
    """Columns k, v, ts; by k: sum, count, start and end."""
    types, names = (STRING, INT, time), ("k", "v", "ts")
    cls = SessionAggregateSpec if isinstance(shape, Session) else SlicedAggregateSpec
    given: dict[str, Any] = {"time_column": 2} | fields
    built: WindowAggregateSpec = cls.build(
        inputs=(InputSpec(types=types, names=names, key=(0,)),),
        output=RowSpec(
            types=(STRING, INT, BIGINT, TIME, TIME), names=("k", "s", "c", "start", "end")
        ),
        shape=shape,
        calls=(SUM, COUNT),
        properties=("start", "end"),
        **given,
    )
    return built


def seen(emitted: list[Change]) -> list[tuple[Any, ...]]:
    """Key, sum, count, start and end in ms."""
    assert all(each.kind is RowKind.INSERT for each in emitted)
    return [(*each.row[:3], to_ms(each.row[3]), to_ms(each.row[4])) for each in emitted]


def test_a_tumbling_window_comes_out_once_with_its_last_millisecond() -> None:
    harness = OperatorHarness.on_heap(spec(Tumbling(size_ms=10)))
    harness.run([insert("a", 1, at(3)), insert("a", 2, at(9)), insert("b", 4, at(12))])
    assert harness.run([Watermark(8)]) == []
    assert seen(harness.run([Watermark(9)])) == [("a", 3, 2, 0, 10)]
    assert harness.run([insert("a", 9, at(9)), insert("a", 9, None), Watermark(18)]) == []
    assert [each["late"] for each in harness.statistics][-1] == 2
    assert seen(harness.run([Watermark(19)])) == [("b", 4, 1, 10, 20)]
    assert harness.stored_names() == {b"counters"}


def test_hopping_windows_share_slices() -> None:
    harness = OperatorHarness.on_heap(spec(Hopping(size_ms=10, slide_ms=5)))
    harness.run([insert("a", 1, at(3)), insert("a", 2, at(8))])
    assert seen(harness.run([Watermark(9)])) == [("a", 1, 1, -5, 5), ("a", 3, 2, 0, 10)]
    assert harness.run([insert("a", 4, at(9)), insert("a", 8, at(3)), Watermark(10)]) == []
    assert [each["late"] for each in harness.statistics][-1] == 1
    assert seen(harness.run([Watermark(40)])) == [("a", 6, 2, 5, 15)]
    assert harness.stored_names() == {b"counters"}


@pytest.mark.parametrize(
    "shape",
    [
        Tumbling(size_ms=10),
        Hopping(size_ms=10, slide_ms=5),
        Cumulating(size_ms=10, step_ms=5),
        Session(gap_ms=10),
    ],
)
def test_what_was_taken_back_unseen_counts_whatever_epochs_end_in_between(shape: Any) -> None:
    """As in Flink, also where as many rows came as were taken back."""
    steps: Steps = [delete("a", 5, at(3)), insert("a", 3, at(3)), insert("a", 1, at(3))]
    for size in (1, 2, 3):
        harness = OperatorHarness.on_heap(spec(shape))
        emitted = seen(harness.run([*steps, Watermark(100)], epoch_changes=size))
        assert {row[:3] for row in emitted} == {("a", -1, 1)}
        assert harness.stored_names() == set()


@pytest.mark.parametrize("has_panes", [False, True])
def test_rows_of_hopping_windows_that_add_up_to_none_leave_nothing(has_panes: bool) -> None:
    """A row that was never there is taken back: of one window no row is left, of the next some."""
    harness = OperatorHarness.on_heap(spec(Hopping(size_ms=10, slide_ms=5, has_panes=has_panes)))
    harness.run([insert("a", 1, at(3)), delete("a", 2, at(8))])
    emitted = seen(harness.run([Watermark(40)]))
    assert emitted == [("a", 1, 1, -5, 5), ("a", -2, -1, 5, 15)]
    assert harness.stored_names() == set()


def test_hopping_windows_in_panes() -> None:
    """Ten long, every four: the panes are two long, and a row's windows are not its pane's end."""
    harness = OperatorHarness.on_heap(spec(Hopping(size_ms=10, slide_ms=4, has_panes=True)))
    harness.run([insert("a", 1, at(3)), insert("a", 2, at(8))])
    assert seen(harness.run([Watermark(9)])) == [("a", 1, 1, -4, 6), ("a", 3, 2, 0, 10)]
    assert harness.run([insert("a", 4, at(9)), insert("a", 8, at(3)), Watermark(10)]) == []
    assert [each["late"] for each in harness.statistics][-1] == 1
    assert seen(harness.run([Watermark(40)])) == [("a", 6, 2, 4, 14), ("a", 6, 2, 8, 18)]
    assert harness.stored_names() == {b"counters"}


def test_a_row_between_windows_is_in_none_and_not_late() -> None:
    harness = OperatorHarness.on_heap(spec(Hopping(size_ms=4, slide_ms=10, has_panes=True)))
    harness.run([insert("a", 1, at(3)), insert("a", 2, at(4)), insert("a", 4, at(9))])
    assert seen(harness.run([Watermark(40)])) == [("a", 1, 1, 0, 4)]
    assert not any(each["late"] for each in harness.statistics)
    assert harness.stored_names() == set()


def test_cumulating_windows_come_out_at_each_step_until_their_size() -> None:
    harness = OperatorHarness.on_heap(spec(Cumulating(size_ms=15, step_ms=5)))
    harness.run([insert("a", 1, at(1)), Watermark(4), insert("a", 2, at(3))])
    assert seen(harness.run([Watermark(9)])) == [("a", 3, 2, 0, 10)]
    assert seen(harness.run([insert("a", 4, at(12)), Watermark(14)])) == [("a", 7, 3, 0, 15)]
    harness.run([insert("a", 8, at(14)), Watermark(50)])
    assert harness.statistics[-1]["late"] == 1
    assert harness.stored_names() == {b"counters"}


def test_sessions_grow_and_merge() -> None:
    harness = OperatorHarness.on_heap(spec(Session(gap_ms=5)))
    harness.run([insert("a", 1, at(1)), insert("a", 2, at(8)), insert("b", 8, at(2))])
    assert seen(harness.run([insert("a", 4, at(4)), Watermark(6)])) == [("b", 8, 1, 2, 7)]
    harness.run([insert("b", 1, at(1)), Watermark(11)])
    assert harness.statistics[-1]["late"] == 1
    harness.run([insert("a", 8, at(-5)), insert("a", 16, at(13))])
    assert harness.statistics[-1]["late"] == 1, "too far before the session to join it"
    assert seen(harness.run([insert("a", 32, at(1)), Watermark(17)])) == [("a", 55, 5, 1, 18)]
    assert harness.stored_names() == {b"counters"}


def test_processing_time() -> None:
    for shape, ends in [(Tumbling(size_ms=10), (0, 10)), (Session(gap_ms=3), (4, 11))]:
        harness = OperatorHarness.on_heap(spec(shape, time_column=None))
        given_steps: Steps = [At(4), insert("a", 1, None), At(6), insert("a", 2, None)]
        assert harness.run([*given_steps, At(8), insert("a", 4, None)]) == []
        assert harness.run([At(9)]) == []
        assert seen(harness.run([At(12)])) == [("a", 7, 3, *ends)]
        assert harness.stored_names() == set()


def test_what_is_taken_back_leaves_no_window() -> None:
    for shape in (Tumbling(size_ms=10), Hopping(size_ms=10, slide_ms=5), Session(gap_ms=5)):
        harness = OperatorHarness.on_heap(spec(shape))
        steps: Steps = [insert("a", 1, at(3)), update_before("a", 1, at(3))]
        assert harness.run([*steps, Watermark(50)]) == []
        assert harness.stored_names() == set()
    harness = OperatorHarness.on_heap(spec(Tumbling(size_ms=10)))
    steps = [insert("a", 1, at(3)), update_before("a", 1, at(3)), update_after("a", 5, at(4))]
    steps += [insert("a", 7, at(5)), delete("a", 7, at(5)), Watermark(50)]
    assert seen(harness.run(steps)) == [("a", 5, 1, 0, 10)]


def test_windows_of_a_zone() -> None:
    day_ms = 86_400_000
    built = spec(Tumbling(size_ms=day_ms), time=POINT, zone="Asia/Shanghai")
    harness = OperatorHarness.on_heap(built)
    evening = from_ms(20 * 3_600_000, POINT)
    harness.run([insert("a", 1, evening), insert("a", 2, from_ms(0, POINT))])
    assert seen(harness.run([Watermark(16 * 3_600_000 - 1)])) == [("a", 2, 1, 0, day_ms)]
    assert seen(harness.run([Watermark(2 * day_ms)])) == [("a", 1, 1, day_ms, 2 * day_ms)]


def test_windows_that_are_attached_to_rows() -> None:
    built = spec(Hopping(size_ms=10, slide_ms=5), time_column=None, end_column=2)
    harness = OperatorHarness.on_heap(built)
    harness.run([insert("a", 1, at(5)), insert("a", 2, at(10)), insert("a", 4, at(5))])
    assert seen(harness.run([Watermark(4)])) == [("a", 5, 2, -5, 5)]
    assert harness.run([insert("a", 8, at(5)), Watermark(6)]) == []
    assert seen(harness.run([Watermark(20)])) == [("a", 2, 1, 0, 10)]
    assert harness.stored_names() == {b"counters"}


@pytest.mark.parametrize(
    ("shape", "fields", "reason"),
    [
        (Hopping(size_ms=10, slide_ms=4), {}, "multiple of their slide"),
        (Tumbling(size_ms=10), {"time_column": 7}, "not a column of the input"),
        (Tumbling(size_ms=10), {"end_column": 2}, "or a time"),
        (Tumbling(size_ms=10), {"zone": "Mars/Olympus"}, "no zone"),
    ],
)
def test_what_cannot_be(shape: Any, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidSpec, match=reason):
        spec(shape, **fields)


def test_the_recorded_plan() -> None:
    case = next((RECORDED / "plans").glob("130_*"))
    plan = load_plan(recorded_plan("130_"))
    assert identity_nodes(plan) == {3, 4}
    built = BUILDERS["global-window-aggregate"](StatefulNode(plan.node(5), plan))
    assert built.inputs[0].names == ("k", "v", "ts")
    codec = built.inputs[0].codec()
    lines = read_lines(case / "inputs" / "s.jsonl")
    rows = [codec.decode_json(line["data"]) for line in lines]
    emitted = OperatorHarness.on_heap(built).run([*(insert(*r) for r in rows), Watermark(1 << 50)])
    expected = read_lines(case / "expected_changelog.jsonl")
    names = ("k", "c", "sm", "ws", "we")
    found = [
        dict(zip(names, [*each.row[:3], *(f"{x:%Y-%m-%d %H:%M:%S}" for x in each.row[3:])]))  # noqa: B905 - five of five
        for each in emitted
    ]
    by_end = [*found[:2], *found[2:]]
    assert sorted(map(str, by_end)) == sorted(
        str({name: line["data"][name] for name in names}) for line in expected
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: it["window"].update(type="CountWindow"), "CountWindow"),
        (lambda it: it["window"].pop("size"), "size is missing"),
        (lambda it: it["window"].update(size="soon"), "size of a window is not a duration"),
        (lambda it: it.update(strategy="SliceAttached"), "SliceAttached"),
    ],
)
def test_what_is_not_run_is_refused(change: Callable[[Any], Any], reason: str) -> None:
    document = recorded_plan("130_")
    [local] = [each for each in document["nodes"] if "local-window" in each["type"]]
    change(local["windowing"])
    plan = load_plan(document)
    with pytest.raises((UnsupportedNode, InvalidProperty), match=reason):
        BUILDERS["global-window-aggregate"](StatefulNode(plan.node(5), plan))


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ({"kind": "TUMBLING", "size": "PT5S"}, Tumbling(size_ms=5_000)),
        (
            {"kind": "SLIDING", "size": "PT10S", "slide": "PT5S"},
            Hopping(size_ms=10_000, slide_ms=5_000, has_panes=True),
        ),
        (
            {"kind": "SLIDING", "size": "PT10S", "slide": "PT4S"},
            Hopping(size_ms=10_000, slide_ms=4_000, has_panes=True),
        ),
        ({"kind": "SESSION", "gap": "PT5S"}, Session(gap_ms=5_000)),
        ({"kind": "TUMBLING", "size": 5, "isTimeWindow": False}, "windows counted in rows"),
        ({"kind": "OTHER"}, "kind OTHER"),
    ],
)
def test_group_windows(window: dict[str, Any], expected: Any) -> None:
    """The recorded plan with one node of the older kind in place of both phases."""
    document = recorded_plan("130_")
    nodes = {each["id"]: each for each in document["nodes"]}
    nodes[3]["type"], nodes[3]["outputType"] = "stream-exec-exchange_1", nodes[2]["outputType"]
    nodes[3]["inputProperties"] = nodes[4]["inputProperties"]
    nodes[4]["outputType"] = nodes[2]["outputType"]
    field = {"fieldIndex": 2, "fieldName": "ts", "fieldType": "TIMESTAMP(3)", "inputIndex": 0}
    nodes[5]["type"] = "stream-exec-group-window-aggregate_1"
    nodes[5]["window"] = {"isTimeWindow": True, "timeField": field} | window
    plan = load_plan(document)
    at_node = StatefulNode(plan.node(5), plan)
    if isinstance(expected, str):
        with pytest.raises(UnsupportedNode, match=expected):
            BUILDERS["group-window-aggregate"](at_node)
        return
    built: Any = BUILDERS["group-window-aggregate"](at_node)
    assert (built.shape, built.time_column, built.inputs[0].key) == (expected, 2, (0,))
    assert built.properties == ("start", "end")
    assert identity_nodes(plan) == set()


SHAPES: list[tuple[Any, int, int, bool]] = [
    (Tumbling(size_ms=6), 6, 6, False),
    (Hopping(size_ms=6, slide_ms=2), 6, 2, False),
    (Hopping(size_ms=6, slide_ms=4, has_panes=True), 6, 4, False),
    (Hopping(size_ms=4, slide_ms=6, has_panes=True), 4, 6, False),
    (Cumulating(size_ms=6, step_ms=2), 6, 2, True),
]
arrivals = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.integers(0, 20)), max_size=14
)


@settings(max_examples=60)
@given(data=st.data(), came=arrivals, chosen=st.sampled_from(SHAPES))
def test_windows_hold_the_rows_that_they_contain(
    data: st.DataObject, came: list[tuple[str, int, int]], chosen: tuple[Any, int, int, bool]
) -> None:
    """Rows in time: for any watermarks, sizes of epochs and orders of answers."""
    shape, size_ms, every_ms, cumulates = chosen
    expected: dict[tuple[str, int, int], list[int]] = {}
    for key, value, ms in came:
        for span in windows_of(ms, size_ms, every_ms, cumulates=cumulates):
            expected.setdefault((key, span.start, span.end), []).append(value)
    if cumulates:
        for key, start, end in list(expected):
            for later in range(end, start + size_ms + 1, every_ms):
                expected.setdefault((key, start, later), expected[key, start, end])
    cut = data.draw(st.integers(0, 20))
    ordered = [each for each in came if each[2] <= cut] + [each for each in came if each[2] > cut]
    rows = [insert(key, value, at(ms)) for key, value, ms in ordered]
    middle = sum(ms <= cut for _, _, ms in came)
    steps: Steps = [*rows[:middle], Watermark(cut), *rows[middle:], Watermark(1_000)]
    emitted = _run(data, spec(shape), steps)
    assert sorted(seen(emitted)) == sorted(
        (key, sum(values), len(values), start, end)
        for (key, start, end), values in expected.items()
    )


@settings(max_examples=60)
@given(data=st.data(), came=arrivals)
def test_sessions_hold_the_rows_that_follow_each_other(
    data: st.DataObject, came: list[tuple[str, int, int]]
) -> None:
    expected = []
    for wanted in "ab":
        mine = {number: (v, ms) for number, (key, v, ms) in enumerate(came) if key == wanted}
        for span, times in sessions_of([ms for _, ms in mine.values()], 3):
            inside = [v for v, ms in mine.values() if span.start <= ms < span.end]
            assert len(inside) == len(times)
            expected.append((wanted, sum(inside), len(inside), span.start, span.end))
    rows: Steps = [insert(key, value, at(ms)) for key, value, ms in came]
    emitted = _run(data, spec(Session(gap_ms=3)), [*rows, Watermark(WATERMARK_MAX)])
    assert sorted(seen(emitted)) == sorted(expected)


def _run(data: st.DataObject, built: WindowAggregateSpec, steps: Steps) -> list[Change]:
    harness = answered_any_way(built, data)
    emitted = harness.run(steps, epoch_changes=data.draw(st.integers(1, 5)))
    assert not any(each["late"] for each in harness.statistics)
    assert harness.stored_names() == set()
    return emitted


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    for shape in (*(each[0] for each in SHAPES), Session(gap_ms=3)):
        heap = OperatorHarness.on_heap(spec(shape))
        remote = OperatorHarness.on_redis(spec(shape), redis_client)
        rows = [insert("a", 1, at(3)), insert("b", 2, at(5)), insert("a", 4, at(9))]
        steps: Steps = [*rows, Watermark(6), insert("a", 8, at(7)), insert("b", 1, at(1))]
        assert remote.run([*steps, Watermark(50)], epoch_changes=2) == heap.run(
            [*steps, Watermark(50)]
        )
        assert max(each["round_trips"] for each in remote.statistics) <= 5
        remote.close()


@pytest.mark.parametrize(
    "shape",
    [
        Hopping(slide_ms=1_000, size_ms=1_200_000),
        Cumulating(step_ms=60_000, size_ms=86_400_000),
    ],
    ids=["hop 1 s of 20 min", "cumulate 1 min of 1 day"],
)
def test_a_watermark_that_jumps_fires_every_window_on_its_way(shape: Any) -> None:
    harness = OperatorHarness.on_heap(spec(shape))
    harness.run([insert("a", 1, at(0)), Watermark(10)])

    step_ms = shape.slide_ms if isinstance(shape, Hopping) else shape.step_ms

    assert len(harness.run([Watermark(WATERMARK_MAX)])) == shape.size_ms // step_ms
