"""Rows with their windows: at once, or when their session is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.errors import InvalidSpec
from operators.event_time import from_ms, to_ms
from operators.keyed import WATERMARK_MAX
from operators.spec import InputSpec, RowSpec
from operators.testing.batch_windows import sessions_of
from operators.testing.operator_harness import (
    At,
    Of,
    OperatorHarness,
    Watermark,
    insert,
    update_before,
)
from operators.windows.shapes import Cumulating, Hopping, Session, Tumbling
from operators.windows.window_table_function import WindowTableSpec
from service.plan import load_plan
from service.runtime.specs import BUILDERS, StatefulNode
from state.types import parse_type
from tests.operators.laws import answered_any_way
from tests.service.plan.builders import recorded_plan

if TYPE_CHECKING:
    import redis

STRING, INT = parse_type("STRING"), parse_type("INT")
TIME, POINT = parse_type("TIMESTAMP(3)"), parse_type("TIMESTAMP_LTZ(3)")
Steps = list[Change | Of | At | Watermark]


def row(key: str, value: int | None, ms: int) -> Change:
    return insert(key, value, from_ms(ms, TIME))


def spec(shape: Any, *, time: Any = TIME, key: tuple[int, ...] = (0,), **fields: Any) -> Any:
    """Columns k, v, ts, then those of the window."""
    types, names = (STRING, INT, time), ("k", "v", "ts")
    given_fields: dict[str, Any] = {"time_column": 2} | fields
    return WindowTableSpec.build(
        inputs=(InputSpec(types=types, names=names, key=key),),
        output=RowSpec(types=(*types, TIME, TIME, time), names=(*names, "start", "end", "time")),
        shape=shape,
        **given_fields,
    )


def seen(emitted: list[Change]) -> list[tuple[Any, ...]]:
    """Key, value, start and end in ms; the time is the last in the window."""
    assert all(to_ms(each.row[4]) - to_ms(each.row[5]) == 1 for each in emitted)
    return [(*each.row[:2], to_ms(each.row[3]), to_ms(each.row[4])) for each in emitted]


@pytest.mark.parametrize(
    ("shape", "windows"),
    [
        (Tumbling(size_ms=10), [(10, 20)]),
        (Hopping(size_ms=10, slide_ms=4), [(12, 22), (8, 18), (4, 14)]),
        (Hopping(size_ms=1, slide_ms=4), []),
        (Cumulating(size_ms=12, step_ms=4), [(12, 16), (12, 20), (12, 24)]),
    ],
)
def test_a_row_comes_out_at_once_with_each_window(
    shape: Any, windows: list[tuple[int, int]]
) -> None:
    harness = OperatorHarness.on_heap(spec(shape, key=()))
    assert seen(harness.run([row("a", 1, 13)])) == [("a", 1, *each) for each in windows]
    [*_, last] = [
        Change(RowKind.INSERT, ()),
        *harness.run([update_before("a", 1, from_ms(13, TIME))]),
    ]
    assert last.kind is (RowKind.UPDATE_BEFORE if windows else RowKind.INSERT)
    assert harness.run([insert("a", 1, None)]) == []
    assert harness.statistics[-1]["late"] == 1
    assert harness.stored_names() == {b"counters"}


def test_windows_of_processing_time_are_local_and_their_time_is_a_point() -> None:
    built = spec(Tumbling(size_ms=10), time=POINT, time_column=None, zone="+01:00")
    [found] = OperatorHarness.on_heap(built).run([At(13), insert("a", 1, None)])
    hour_ms = 3_600_000
    assert [to_ms(each) for each in found.row[3:]] == [hour_ms + 10, hour_ms + 20, 19]


def test_sessions_come_out_whole_in_the_order_of_arrival() -> None:
    harness = OperatorHarness.on_heap(spec(Session(gap_ms=5)))
    steps: Steps = [row("a", 1, 8), row("b", 2, 1), row("a", 3, 1), Watermark(4), row("a", 4, 5)]
    assert harness.run(steps) == []
    assert seen(harness.run([Watermark(5)])) == [("b", 2, 1, 6)]
    harness.run([row("b", 5, 0), row("b", 9, 8)])
    assert harness.statistics[-1]["late"] == 1
    assert seen(harness.run([Watermark(20)])) == [
        ("a", 1, 1, 13),
        ("a", 3, 1, 13),
        ("a", 4, 1, 13),
        ("b", 9, 8, 13),
    ]
    assert harness.stored_names() == {b"counters"}


def test_sessions_of_processing_time() -> None:
    harness = OperatorHarness.on_heap(spec(Session(gap_ms=5), time_column=None))
    steps: Steps = [At(3), insert("a", 1, None), At(7), insert("a", 2, None), At(11)]
    assert harness.run(steps) == []
    assert [each[:2] for each in seen_starts(harness.run([At(12)]))] == [(1, 3), (2, 3)]
    assert harness.stored_names() == set()


def seen_starts(emitted: list[Change]) -> list[tuple[Any, int]]:
    return [(each.row[1], to_ms(each.row[3])) for each in emitted]


def test_what_cannot_be() -> None:
    with pytest.raises(InvalidSpec, match="without a window"):
        spec(Tumbling(size_ms=1), time_column=None, end_column=2)
    with pytest.raises(InvalidSpec, match="multiple of their step"):
        WindowTableSpec.from_json(
            spec(Cumulating(size_ms=4, step_ms=2)).to_json().replace('"step_ms":2', '"step_ms":3')
        )


def test_the_node_of_a_plan() -> None:
    """The recorded plan's local phase stands for the table function: both have the same window."""
    document = recorded_plan("130_")
    [local] = [each for each in document["nodes"] if "local-window" in each["type"]]
    local["type"] = "stream-exec-window-table-function_1"
    columns = "`k` STRING, `v` INT, `ts` TIMESTAMP(3)"
    window = "`window_start` TIMESTAMP(3), `window_end` TIMESTAMP(3), `window_time` TIMESTAMP(3)"
    local["outputType"] = f"ROW<{columns}, {window}>"
    local["windowing"]["window"] = {"type": "SessionWindow", "gap": "PT5S"}
    local["windowing"]["window"]["partition_key_indices"] = [0]
    plan = load_plan(document)
    node = plan.node(local["id"])
    built = BUILDERS["window-table-function"](StatefulNode(node, plan))
    assert isinstance(built, WindowTableSpec)
    assert (built.shape, built.inputs[0].key, built.time_column) == (Session(gap_ms=5000), (0,), 2)


arrivals = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 20)), max_size=12)


@settings(max_examples=60)
@given(data=st.data(), came=arrivals)
def test_sessions_hold_the_rows_that_follow_each_other(
    data: st.DataObject, came: list[tuple[str, int]]
) -> None:
    harness = answered_any_way(spec(Session(gap_ms=3)), data)
    rows: Steps = [row(key, number, ms) for number, (key, ms) in enumerate(came)]
    emitted = harness.run(
        [*rows, Watermark(WATERMARK_MAX)], epoch_changes=data.draw(st.integers(1, 5))
    )
    expected = []
    for wanted in "ab":
        mine = [(number, ms) for number, (key, ms) in enumerate(came) if key == wanted]
        for span, _ in sessions_of([ms for _, ms in mine], 3):
            expected += [
                (wanted, number, span.start, span.end)
                for number, ms in mine
                if span.start <= ms < span.end
            ]
    assert sorted(seen(emitted)) == sorted(expected)
    for wanted in "ab":
        assert [x for x in seen(emitted) if x[0] == wanted] == [
            x for x in expected if x[0] == wanted
        ]
    assert harness.stored_names() == set()


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    for shape in (Hopping(size_ms=6, slide_ms=2), Session(gap_ms=3)):
        heap = OperatorHarness.on_heap(spec(shape))
        remote = OperatorHarness.on_redis(spec(shape), redis_client)
        steps: Steps = [
            row("a", 1, 3),
            row("b", 2, 5),
            row("a", 4, 9),
            Watermark(6),
            row("a", 8, 7),
        ]
        assert remote.run([*steps, Watermark(50)], epoch_changes=2) == heap.run(
            [*steps, Watermark(50)]
        )
        remote.close()
