"""Streams in the order of time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.errors import InvalidSpec
from operators.keyed import WATERMARK_MAX
from operators.ordering import SortColumn
from operators.spec import InputSpec, RowSpec
from operators.temporal_sort import TemporalSortSpec
from operators.testing.operator_harness import At, OperatorHarness, Watermark, delete, insert
from state.types import parse_type
from tests.operators.laws import emits_the_same_any_way

if TYPE_CHECKING:
    import redis

TYPES = (parse_type("INT"), parse_type("TIMESTAMP(3)"))
START = datetime(1970, 1, 1)  # noqa: DTZ001 - TIMESTAMP has no zone
V_DESC = (SortColumn(column=0, descending=True),)


def spec(**fields: Any) -> TemporalSortSpec:
    row = InputSpec(types=TYPES, names=("v", "ts"), key=())
    output = RowSpec(types=TYPES, names=("v", "ts"))
    return TemporalSortSpec.build(inputs=(row,), output=output, **{"rowtime": 1, **fields})


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


def test_rows_wait_for_the_watermark_and_late_ones_are_passed_over() -> None:
    harness = OperatorHarness.on_heap(spec())
    given = [insert(1, at(5)), insert(2, at(3)), insert(3, at(5)), insert(4, at(8))]
    assert harness.run([*given, Watermark(5)]) == [
        insert(2, at(3)),
        insert(1, at(5)),
        insert(3, at(5)),
    ]
    late = [insert(5, at(5)), insert(6, at(6)), delete(6, at(6))]
    assert harness.run([*late, Watermark(WATERMARK_MAX)]) == [insert(6, at(6)), insert(4, at(8))]
    assert [each["orphans"] for each in harness.statistics] == [0, 1]


def test_late_is_what_is_not_above_the_last_row_that_was_emitted() -> None:
    """As in Flink, which compares with the last timer that fired, not with the watermark."""
    harness = OperatorHarness.on_heap(spec())
    assert harness.run([insert(1, at(3)), Watermark(9)]) == [insert(1, at(3))]
    assert (
        harness.run([insert(2, at(8)), insert(3, at(3)), insert(4, at(5)), delete(9, at(1))]) == []
    )
    assert harness.statistics[-1]["late"] == 1
    assert harness.run([Watermark(10)]) == [insert(4, at(5)), insert(2, at(8))]
    assert [each["late"] for each in harness.statistics] == [0, 1, 0]


def test_rows_of_one_processing_time_come_in_order_in_the_next() -> None:
    harness = OperatorHarness.on_heap(spec(rowtime=None, order=V_DESC))
    assert harness.run([At(10), insert(1, None), insert(2, None), insert(3, None)]) == []
    assert harness.run([At(11), insert(9, None)]) == [
        insert(3, None),
        insert(2, None),
        insert(1, None),
    ]
    assert harness.run([At(12)]) == [insert(9, None)]
    assert harness.stored_names() == set()


def test_by_processing_time_alone_rows_are_passed_on() -> None:
    harness = OperatorHarness.on_heap(spec(rowtime=None))
    given = [insert(2, None), insert(1, None)]
    assert harness.run(given) == given
    assert harness.stored_names() == set()


def test_a_spec_that_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="must be TIMESTAMP"):
        spec(rowtime=0)
    with pytest.raises(InvalidSpec, match="must name columns"):
        spec(order=(SortColumn(column=5),))


steps = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 3), st.integers(0, 9)),
        st.integers(0, 9).map(Watermark),
    ),
    max_size=16,
)


@given(steps=steps, has_order=st.booleans(), size=st.integers(1, 4), data=st.data())
def test_what_is_emitted_is_sorted_between_watermarks(
    steps: list[Any], has_order: bool, size: int, data: st.DataObject
) -> None:
    """Whatever was not late when it came, in the order of time at the watermark that passes it."""
    given: list[Any] = []
    waiting: list[tuple[int, int]] = []
    expected: list[Change] = []
    watermark_ms = last_ms = -1
    for step in [*steps, Watermark(10)]:
        if isinstance(step, Watermark):
            given.append(Watermark(max(watermark_ms, step.ms)))
            if step.ms <= watermark_ms:
                continue
            watermark_ms = step.ms
            due = [each for each in waiting if each[1] <= watermark_ms]
            waiting = [each for each in waiting if each[1] > watermark_ms]
            due.sort(key=lambda each: (each[1], -each[0] if has_order else 0))
            expected += [Change(RowKind.INSERT, (v, at(ms))) for v, ms in due]
            last_ms = due[-1][1] if due else last_ms
        else:
            given.append(insert(step[0], at(step[1])))
            if step[1] > last_ms:
                waiting.append(step)
    chosen = spec(order=V_DESC) if has_order else spec()
    assert emits_the_same_any_way(chosen, given, data, size) == expected
    harness = OperatorHarness.on_heap(chosen)
    harness.run(given)
    kept = {b"last_emitted"} if expected else set()
    assert harness.stored_names() - {b"counters"} == kept


arrivals = st.lists(st.one_of(st.integers(1, 3), st.none()), max_size=16)


@given(arrivals=arrivals, size=st.integers(1, 4), data=st.data())
def test_of_one_processing_time_the_rows_come_in_order(
    arrivals: list[int | None], size: int, data: st.DataObject
) -> None:
    """None: the next processing time has come."""
    given: list[Any] = []
    expected: list[Change] = []
    waiting: list[Change] = []
    for number, each in enumerate([*arrivals, None]):
        if each is None:
            given.append(At(10 * number + 10))
            expected += sorted(waiting, key=lambda change: -change.row[0])
            waiting.clear()
        else:
            given.append(insert(each, None))
            waiting.append(given[-1])
    chosen = spec(rowtime=None, order=V_DESC)
    assert emits_the_same_any_way(chosen, given, data, size) == expected


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    given = [
        *[insert(v, at(v * 37 % 101)) for v in range(100)],
        Watermark(50),
        *[insert(v, at(v * 37 % 101)) for v in range(100)],
        Watermark(200),
    ]
    chosen = spec(order=V_DESC)
    heap, remote = OperatorHarness.on_heap(chosen), OperatorHarness.on_redis(chosen, redis_client)
    assert remote.run(given, epoch_changes=30) == heap.run(given)
    remote.close()
