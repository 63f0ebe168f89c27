"""The first rows of windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.changelog import Change
from operators.errors import InvalidSpec
from operators.event_time import from_ms
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import Of, OperatorHarness, Watermark, insert
from operators.windows.shapes import Tumbling
from operators.windows.window_rank import OrderColumn, WindowRankSpec
from service.plan import load_plan
from service.runtime.specs import BUILDERS, StatefulNode
from state.types import parse_type
from tests.operators.laws import answered_any_way
from tests.service.plan.builders import recorded_plan

if TYPE_CHECKING:
    import redis

INT, BIGINT, TIME = parse_type("INT"), parse_type("BIGINT"), parse_type("TIMESTAMP(3)")
Steps = list[Change | Of | Watermark]


def spec(**fields: Any) -> WindowRankSpec:
    """Columns v, n, end; the highest v."""
    types, names = (INT, INT, TIME), ("v", "n", "end")
    given_fields: dict[str, Any] = {
        "order": (OrderColumn(column=0, descending=True, nulls_last=True),),
        "last": 2,
        "end_column": 2,
    } | fields
    rank = (BIGINT,) if given_fields.get("with_rank") else ()
    return WindowRankSpec.build(
        inputs=(InputSpec(types=types, names=names, key=()),),
        output=RowSpec(types=(*types, *rank), names=(*names, *("rank" for _ in rank))),
        shape=Tumbling(size_ms=10),
        **given_fields,
    )


def row(value: int | None, number: int, end: int = 10) -> Change:
    return insert(value, number, from_ms(end, TIME))


def numbers(emitted: list[Change]) -> list[Any]:
    return [each.row[1] for each in emitted]


ROWS: Steps = [row(3, 0), row(7, 1), row(None, 2), row(5, 3), row(7, 4), row(9, 5, 20)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [1, 4]),
        ({"last": 1}, [1]),
        ({"last": 1, "ties_last": True}, [4]),
        ({"last": 9, "first": 4}, [0, 2]),
        ({"last": 9, "ties_last": True}, [4, 1, 3, 0, 2]),
        ({"order": (OrderColumn(column=0),)}, [2, 0]),
    ],
)
def test_the_first_rows_come_out_when_the_watermark_passes(
    fields: dict[str, Any], expected: list[int]
) -> None:
    harness = OperatorHarness.on_heap(spec(**fields))
    assert harness.run([*ROWS, Watermark(8)], epoch_changes=1) == []
    assert numbers(harness.run([Watermark(9)])) == expected
    assert harness.run([row(9, 9), insert(1, 9, None), Watermark(10)]) == []
    assert harness.statistics[-1]["late"] == 2
    harness.run([Watermark(19)])
    assert harness.stored_names() == {b"counters"}


def test_the_rank_stands_behind_the_columns() -> None:
    harness = OperatorHarness.on_heap(spec(with_rank=True, first=2))
    assert [each.row[-1] for each in harness.run([*ROWS, Watermark(9)])] == [2]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"first": 3}, "from the first"),
        ({"order": ()}, "names columns"),
        ({"end_column": None}, "come"),
    ],
)
def test_what_cannot_be(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidSpec, match=reason):
        spec(**fields)


WINDOWING = {
    "strategy": "WindowAttached",
    "window": {"type": "TumblingWindow", "size": "PT10S"},
    "timeAttributeType": "TIMESTAMP(3)",
    "windowStart": 1,
    "windowEnd": 2,
    "isRowtime": True,
}


@pytest.mark.parametrize(
    ("node_type", "properties", "expected"),
    [
        (
            "stream-exec-window-rank_1",
            {
                "rankType": "ROW_NUMBER",
                "partitionSpec": {"fields": [0]},
                "sortSpec": {"fields": [{"index": 1, "isAscending": False, "nullIsLast": True}]},
                "rankRange": {"type": "Constant", "start": 1, "end": 3},
                "outputRowNumber": False,
            },
            (3, 1, True, False),
        ),
        (
            "stream-exec-window-deduplicate_1",
            {"partitionKeys": [0], "orderKey": 2, "keepLastRow": True},
            (1, 2, True, True),
        ),
    ],
)
def test_the_nodes_of_plans(
    node_type: str, properties: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    document = recorded_plan("130_")
    [local] = [each for each in document["nodes"] if "local-window" in each["type"]]
    columns = [each["name"] for each in document["nodes"][1]["outputType"]["fields"]]
    assert columns == ["k", "v", "ts"]
    local |= {"type": node_type, "windowing": WINDOWING} | properties
    local["outputType"] = document["nodes"][1]["outputType"]
    plan = load_plan(document)
    node = plan.node(local["id"])
    built = BUILDERS[node.type.removeprefix("stream-exec-")](StatefulNode(node, plan))
    assert isinstance(built, WindowRankSpec)
    [order] = built.order
    assert (built.last, order.column, order.descending, built.ties_last) == expected
    assert built.inputs[0].key == (0,)


came_rows = st.lists(
    st.tuples(st.sampled_from([None, 1, 2, 3]), st.sampled_from([10, 20])), max_size=12
)


@settings(max_examples=60)
@given(data=st.data(), came=came_rows, last=st.integers(1, 4), ties_last=st.booleans())
def test_what_comes_out_are_the_first_of_all_rows(
    data: st.DataObject, came: list[tuple[int | None, int]], last: int, ties_last: bool
) -> None:
    harness = answered_any_way(spec(last=last, ties_last=ties_last), data)
    rows: Steps = [row(value, number, end) for number, (value, end) in enumerate(came)]
    emitted = harness.run([*rows, Watermark(100)], epoch_changes=data.draw(st.integers(1, 5)))
    expected = []
    for wanted in (10, 20):
        mine = [(value, n) for n, (value, end) in enumerate(came) if end == wanted]
        mine.sort(key=lambda x: (-(x[0] or 0), -x[1] if ties_last else x[1]))
        expected += [n for _, n in mine[:last]]
    assert numbers(emitted) == expected
    assert harness.stored_names() == set()


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    heap = OperatorHarness.on_heap(spec())
    remote = OperatorHarness.on_redis(spec(), redis_client)
    steps = [*ROWS, Watermark(15), row(1, 8), row(12, 9, 20), Watermark(30)]
    assert remote.run(steps, epoch_changes=2) == heap.run(steps)
    remote.close()
