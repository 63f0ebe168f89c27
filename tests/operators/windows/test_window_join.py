"""Rows of two tables in the same window."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.errors import InvalidSpec
from operators.event_time import from_ms, to_ms
from operators.expressions import rex_to_json
from operators.keyed import WATERMARK_MAX
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import Of, OperatorHarness, Watermark, insert
from operators.windows.window_join import WindowJoinSpec
from service.plan import load_plan
from service.plan.rex import parse_rex
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs import StatefulNode
from service.runtime.specs.window_join import window_join_spec
from state.types import parse_type
from tests.operators.laws import answered_any_way
from tests.service.plan.builders import recorded_plan

if TYPE_CHECKING:
    import redis

STRING, INT, TIME = parse_type("STRING"), parse_type("INT"), parse_type("TIMESTAMP(3)")
RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())
Steps = list[Of | Watermark]


def spec(join: Any = "INNER", **fields: Any) -> WindowJoinSpec:
    """Both sides k, n, end; by k."""
    side = InputSpec(types=(STRING, INT, TIME), names=("k", "n", "end"), key=(0,))
    width = 1 if join in ("SEMI", "ANTI") else 2
    given_fields: dict[str, Any] = {"end_columns": (2, 2), "filter_nulls": (True,)} | fields
    return WindowJoinSpec.build(
        inputs=(side, side),
        output=RowSpec(
            types=side.types * width, names=tuple(f"c{number}" for number in range(3 * width))
        ),
        join=join,
        **given_fields,
    )


def left(key: str | None, number: int, end: int = 10) -> Of:
    return Of(0, insert(key, number, from_ms(end, TIME)))


def right(key: str | None, number: int, end: int = 10) -> Of:
    return Of(1, insert(key, number, from_ms(end, TIME)))


def pairs(emitted: list[Any]) -> list[tuple[Any, ...]]:
    """The numbers of both sides; of one where there is one."""
    return [tuple(each.row[1::3]) for each in emitted]


ROWS: Steps = [
    *(left("a", 1), right("a", 5), left("a", 2), right("a", 6)),
    *(left("b", 3), right("c", 7), left(None, 4), right(None, 8), right("b", 9, 20)),
]
MATCHED = [(1, 5), (1, 6), (2, 5), (2, 6)]


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("INNER", MATCHED),
        ("LEFT", [*MATCHED, (3, None), (4, None)]),
        ("RIGHT", [(1, 5), (2, 5), (1, 6), (2, 6), (None, 7), (None, 8)]),
        ("FULL", [*MATCHED, (3, None), (None, 7), (4, None), (None, 8)]),
        ("SEMI", [(1,), (2,)]),
        ("ANTI", [(3,), (4,)]),
    ],
)
def test_joins(join: str, expected: list[tuple[Any, ...]]) -> None:
    harness = OperatorHarness.on_heap(spec(join))
    assert harness.run([*ROWS, Watermark(8)]) == []
    assert sorted(pairs(harness.run([Watermark(9)])), key=repr) == sorted(expected, key=repr)
    harness.run([left("a", 1), right("a", 1), Watermark(100)])
    assert harness.statistics[-1]["late"] == 2
    assert harness.stored_names() == {b"counters"}


def test_the_order_of_a_window_is_that_of_its_rows() -> None:
    for join, expected in (("INNER", MATCHED), ("RIGHT", [(1, 5), (2, 5), (1, 6), (2, 6)])):
        harness = OperatorHarness.on_heap(spec(join))
        assert pairs(harness.run([*ROWS[:4], Watermark(9)])) == expected


SMALLER = {
    "kind": "CALL",
    "syntax": "BINARY",
    "internalName": "$<$1",
    "operands": [
        {"kind": "INPUT_REF", "inputIndex": 1, "type": "INT"},
        {"kind": "INPUT_REF", "inputIndex": 4, "type": "INT"},
    ],
    "type": "BOOLEAN",
}


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("INNER", [(1, 2), (1, 5), (4, 5)]),
        ("LEFT", [(1, 2), (1, 5), (4, 5), (6, None)]),
        ("RIGHT", [(1, 2), (None, 0), (1, 5), (4, 5)]),
        ("FULL", [(1, 2), (1, 5), (4, 5), (6, None), (None, 0)]),
        ("SEMI", [(1,), (4,)]),
        ("ANTI", [(6,)]),
    ],
)
def test_a_condition_beside_the_key(join: str, expected: list[tuple[Any, ...]]) -> None:
    """Left 1, 4, 6 and right 2, 0, 5 of one window, joined where left < right."""
    condition = rex_to_json(parse_rex(SMALLER, "test"))
    harness = OperatorHarness.on_heap(spec(join, condition=condition))
    rows: Steps = [left("a", number) for number in (1, 4, 6)]
    rows += [right("a", number) for number in (2, 0, 5)]
    assert pairs(harness.run([*rows, Watermark(9)])) == expected


def test_null_keys_match_where_they_are_not_filtered() -> None:
    harness = OperatorHarness.on_heap(spec(filter_nulls=(False,)))
    assert pairs(harness.run([*ROWS[6:8], Watermark(9)])) == [(4, 8)]


def test_windows_of_a_zone_wait_for_its_midnight() -> None:
    day_ms = 86_400_000
    harness = OperatorHarness.on_heap(spec(zone="+01:00"))
    harness.run([left("a", 1, day_ms), right("a", 2, day_ms)])
    assert harness.run([Watermark(23 * 3_600_000 - 2)]) == []
    assert pairs(harness.run([Watermark(23 * 3_600_000 - 1)])) == [(1, 2)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"end_columns": (2, 3)}, "not a column of its side"),
        ({"filter_nulls": (True, True)}, "filters nulls"),
        ({"zone": "Mars/Olympus"}, "no zone"),
    ],
)
def test_what_cannot_be(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidSpec, match=reason):
        spec(**fields)


def test_what_flink_gave() -> None:
    """Even numbers of the recorded rows against odd ones, row by row."""
    harness = OperatorHarness.on_heap(spec("FULL"))
    emitted = []
    for key, number, text in RECORDED["rows"]:
        at = dt.datetime.fromisoformat(text)
        end = at - dt.timedelta(seconds=at.second % 10) + dt.timedelta(seconds=10)
        # The watermark goes on with every row; the query's filters take one without a number away.
        watermark_ms = max(harness.watermark_ms, to_ms(at))
        came = [] if number is None else [Of(number % 2, insert(key, number, end))]
        emitted += harness.run_epoch(came, watermark_ms=watermark_ms)
    emitted += harness.run_epoch([], watermark_ms=WATERMARK_MAX)
    found = [
        (each.row[0], each.row[1], each.row[4], None if each.row[2] is None else str(each.row[2]))
        for each in emitted
    ]
    expected = [(k, v, rv, end) for k, v, rv, _, end in RECORDED["queries"]["join"]["rows"]]
    # This row is late. Flink read one branch of the source ahead of the other, so its watermark,
    # which is the lesser of both, stood further back.
    expected.remove(("a", 8, None, "2020-01-01 00:00:20"))
    assert sorted(found, key=repr) == sorted(expected, key=repr)


WINDOWING = {
    "strategy": "WindowAttached",
    "window": {"type": "TumblingWindow", "size": "PT10S"},
    "timeAttributeType": "TIMESTAMP(3)",
    "windowStart": 1,
    "windowEnd": 2,
    "isRowtime": True,
}


def planned(condition: Any) -> WindowJoinSpec:
    """The recorded inner join, made one of windows."""
    document = recorded_plan("070_")
    [node] = [each for each in document["nodes"] if each["type"] == "stream-exec-join_1"]
    node |= {"type": "stream-exec-window-join_1", "leftWindowing": WINDOWING}
    node["rightWindowing"] = WINDOWING | {"windowEnd": 0}
    node["joinSpec"]["nonEquiCondition"] = condition
    del node["state"]
    plan = load_plan(document)
    return window_join_spec(StatefulNode(plan.node(node["id"]), plan))


def test_the_node_of_a_plan() -> None:
    built = planned(None)
    assert (built.join, built.end_columns, len(built.filter_nulls)) == ("INNER", (2, 0), 1)
    assert built.condition is None
    literal = {"kind": "LITERAL", "value": True, "type": "BOOLEAN NOT NULL"}
    assert planned(literal).condition is not None
    with pytest.raises(UnsupportedNode, match="NO_SUCH"):
        planned({"kind": "CALL", "internalName": "$NO_SUCH$1", "type": "BOOLEAN"})


came_rows = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from(["a", "b", None]), st.sampled_from([10, 20])),
    max_size=10,
)


@settings(max_examples=60)
@given(data=st.data(), came=came_rows, join=st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL"]))
def test_what_comes_out_is_what_a_join_of_all_rows_gives(
    data: st.DataObject, came: list[tuple[int, str | None, int]], join: str
) -> None:
    harness = answered_any_way(spec(join), data)
    steps: Steps = [
        (right if side else left)(key, number, end) for number, (side, key, end) in enumerate(came)
    ]
    size = data.draw(st.integers(1, 4))
    emitted = harness.run([*steps, Watermark(WATERMARK_MAX)], epoch_changes=size)
    rows = list(enumerate(came))
    matched = [
        (one, other)
        for one, (side, key, end) in rows
        for other, (other_side, *found) in rows
        if (side, other_side) == (0, 1) and [key, end] == found and key is not None
    ]
    expected: list[tuple[int | None, int | None]] = [*matched]
    if join in ("LEFT", "FULL"):
        lefts = {one for one, _ in matched}
        expected += [(n, None) for n, (side, _, _) in rows if side == 0 and n not in lefts]
    if join in ("RIGHT", "FULL"):
        rights = {other for _, other in matched}
        expected += [(None, n) for n, (side, _, _) in rows if side == 1 and n not in rights]
    assert sorted(pairs(emitted), key=repr) == sorted(expected, key=repr)
    assert harness.stored_names() == set()


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    heap = OperatorHarness.on_heap(spec("FULL"))
    remote = OperatorHarness.on_redis(spec("FULL"), redis_client)
    assert remote.run([*ROWS, Watermark(50)], epoch_changes=2) == heap.run([*ROWS, Watermark(50)])
    remote.close()
