"""Temporal joins: which version a row meets, when, in which order, and what is left of it."""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.errors import InvalidSpec, MissingRowTime
from operators.join.temporal import TemporalJoinSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import At, Of, OperatorHarness, Watermark
from state.backends.interface import SortedRange
from state.errors import OperatorFailed
from state.types import parse_type
from tests.operators.laws import answered_any_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from operators.changelog import Row

    Steps = list[Of | Watermark | At]

INT, STRING, TIMESTAMP = parse_type("INT"), parse_type("STRING"), parse_type("TIMESTAMP(3)")
NONE = (None, None, None)
EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)


def spec(join_type: str = "LEFT", **fields: Any) -> TemporalJoinSpec:
    side = InputSpec(types=(INT, STRING, TIMESTAMP), names=("n", "cur", "ts"), key=(1,))
    output = RowSpec(types=side.types * 2, names=("n", "cur", "ts", "n0", "cur0", "ts0"))
    given: dict[str, Any] = {
        "inputs": (side, side),
        "output": output,
        "join_type": join_type,
        "left_time": 2,
        "right_time": 2,
        "filter_nulls": (True,),
        **fields,
    }
    return TemporalJoinSpec.build(**given)


def row(number: int, ms: int, cur: str | None = "EUR") -> Row:
    return (number, cur, EPOCH + timedelta(milliseconds=ms))


def order(number: int, ms: int, kind: RowKind = RowKind.INSERT, cur: str | None = "EUR") -> Of:
    return Of(0, Change(kind, row(number, ms, cur)))


def rate(number: int, ms: int, kind: RowKind = RowKind.INSERT, cur: str | None = "EUR") -> Of:
    return Of(1, Change(kind, row(number, ms, cur)))


def shown(changes: Sequence[Change]) -> list[tuple[str, object, object]]:
    """Kind, the left number and the right one."""
    return [(each.kind.short, each.row[0], each.row[3]) for each in changes]


def test_each_row_meets_the_version_of_its_time() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps: Steps = [rate(100, 2), order(1, 1), order(2, 6), rate(110, 5, RowKind.UPDATE_AFTER)]
    assert harness.run(steps) == []
    assert shown(harness.run([Watermark(6)])) == [("+I", 1, None), ("+I", 2, 110)]
    assert shown(harness.run([order(3, 7), order(4, 5), Watermark(7)])) == [
        ("+I", 3, 110),
        ("+I", 4, 110),
    ]


def test_inner_joins_leave_away_what_meets_nothing() -> None:
    harness = OperatorHarness.on_heap(spec("INNER"))
    steps: Steps = [rate(100, 2), order(1, 1), order(2, 2), order(3, 3, cur=None)]
    assert shown(harness.run([*steps, Watermark(9)])) == [("+I", 2, 100)]


def test_a_version_may_say_that_there_is_none() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps: Steps = [rate(100, 2), rate(100, 4, RowKind.DELETE), order(1, 3), order(2, 4)]
    assert shown(harness.run([*steps, Watermark(5)])) == [("+I", 1, 100), ("+I", 2, None)]
    late: Steps = [rate(90, 3), order(3, 6), Watermark(6)]
    assert shown(harness.run(late)) == [("+I", 3, None)], "an older version came too late"


def test_a_later_version_of_the_same_time_replaces_it() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps: Steps = [rate(100, 2, RowKind.UPDATE_BEFORE), rate(110, 2), order(1, 2), Watermark(2)]
    assert shown(harness.run(steps)) == [("+I", 1, 110)]


def test_changes_leave_in_the_order_in_which_they_came() -> None:
    harness = OperatorHarness.on_heap(spec())
    before, after, removed = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE
    steps: Steps = [order(1, 9), order(1, 9, before), order(2, 3, after), order(2, 3, removed)]
    assert shown(harness.run([*steps, Watermark(9)])) == [
        ("+I", 1, None),
        ("-U", 1, None),
        ("+U", 2, None),
        ("-D", 2, None),
    ]
    assert harness.stored_names() == set()


def test_a_late_row_waits_for_the_next_watermark() -> None:
    harness = OperatorHarness.on_heap(spec())
    harness.run([rate(100, 2), rate(110, 5), Watermark(6)])
    assert harness.run([order(1, 3), order(2, 5)]) == []
    assert harness.run([rate(120, 4)]) == []
    assert shown(harness.run([Watermark(7)])) == [("+I", 1, None), ("+I", 2, 110)]


def test_a_late_row_meets_the_version_before_while_no_row_was_released_since() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps: Steps = [rate(100, 8), order(1, 8), rate(110, 13), Watermark(10)]
    assert shown(harness.run(steps)) == [("+I", 1, 100)]
    assert harness.run([Watermark(15), order(2, 12)]) == []
    assert shown(harness.run([Watermark(17)])) == [("+I", 2, 100)]


def test_rows_without_a_key_meet_nothing_in_their_time() -> None:
    harness = OperatorHarness.on_heap(spec())
    assert harness.run([rate(100, 1, cur=None), order(1, 2, cur=None)]) == []
    assert shown(harness.run([Watermark(2)])) == [("+I", 1, None)]
    assert harness.stored_names() == set()


def test_one_timer_a_key_whatever_comes() -> None:
    harness = OperatorHarness.on_heap(spec())
    harness.run([order(at, 20 - at) for at in range(10)])
    reads = [SortedRange(group, b"event_timers", -math.inf, math.inf) for group in range(4)]
    assert sum(len(found) for found in harness.view().fetch(reads)) == 1
    assert len(harness.run([Watermark(15)])) == 5
    assert len(harness.run([Watermark(20)])) == 5
    assert harness.stored_names() == set()


def test_a_key_that_nothing_comes_for_goes_after_its_retention() -> None:
    harness = OperatorHarness.on_heap(spec(retention_ms=100))
    harness.run([rate(100, 1), order(1, 50), At(60), order(2, 60), At(149)])
    assert harness.stored_names() != set()
    harness.run([At(210)])
    assert harness.stored_names() == set()
    assert harness.run([Watermark(100)]) == []


def test_a_key_of_which_nothing_is_left_has_no_timer_for_it() -> None:
    harness = OperatorHarness.on_heap(spec(retention_ms=100))
    harness.run([order(1, 10), order(2, 15)])
    assert b"cleanup_timers" in harness.stored_names()
    assert shown(harness.run([Watermark(20)])) == [("+I", 1, None), ("+I", 2, None)]
    assert harness.stored_names() == set()


def test_what_a_watermark_touches_lives_on() -> None:
    harness = OperatorHarness.on_heap(spec(retention_ms=100))
    harness.run([rate(100, 1), At(140), Watermark(5), At(160), order(1, 6)])
    assert shown(harness.run([Watermark(6)])) == [("+I", 1, 100)]


def test_a_row_without_a_time_ends_the_query() -> None:
    harness = OperatorHarness.on_heap(spec())
    with pytest.raises(OperatorFailed) as failed:
        harness.run([Of(0, Change(RowKind.INSERT, (1, "EUR", None)))])
    assert isinstance(failed.value.__cause__, MissingRowTime)


def test_a_spec_refuses_a_row_time_that_is_no_column() -> None:
    with pytest.raises(InvalidSpec, match="row time"):
        spec(left_time=7)


EVENTS = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(0, 8),
        st.sampled_from(["EUR", "USD", None]),
        st.sampled_from(list(RowKind)),
        st.booleans(),
    ),
    max_size=14,
)


def played(events: Sequence[tuple[bool, int, str | None, RowKind, bool]]) -> Steps:
    """Rows, and between them watermarks behind which nothing comes."""
    steps: Steps = []
    for at, (is_left, ms, cur, kind, has_watermark) in enumerate(events):
        steps.append((order if is_left else rate)(at, ms, kind, cur))
        least = min((each[1] for each in events[at + 1 :]), default=100)
        if has_watermark:
            steps.append(Watermark(least - 1))
    return [*steps, Watermark(100)]


def expected(steps: Steps, join_type: str) -> list[tuple[str, object, object]]:
    """What comes out of all rows, once no version is missing."""
    versions: dict[tuple[object, object], Change] = {}
    found = []
    for each in steps:
        if isinstance(each, Of) and each.input == 1:
            versions[each.change.row[1], each.change.row[2]] = each.change
    for each in steps:
        if not isinstance(each, Of) or each.input == 1:
            continue
        number, cur, time = each.change.row
        times = [v for k, v in versions if k == cur and v <= time and cur]
        version = versions[cur, max(times)] if times else None
        if version is not None and not version.kind.is_retraction:
            found.append((each.change.kind.short, number, version.row[0]))
        elif join_type == "LEFT":
            found.append((each.change.kind.short, number, None))
    return found


@given(events=EVENTS, join_type=st.sampled_from(["INNER", "LEFT"]), size=st.integers(1, 4))
def test_every_row_meets_its_version_whatever_the_epochs_are(
    events: list[tuple[bool, int, str | None, RowKind, bool]], join_type: str, size: int
) -> None:
    steps = played(events)
    harness = OperatorHarness.on_heap(spec(join_type))
    emitted = harness.run(steps, epoch_changes=size)
    assert Counter(shown(emitted)) == Counter(expected(steps, join_type))
    assert emitted == OperatorHarness.on_heap(spec(join_type)).run(steps)
    left_over = {b"versions", b"next_steps"}
    assert harness.stored_names() <= left_over


@given(events=EVENTS, at=st.integers(0, 20))
def test_a_restart_anywhere_changes_nothing(
    events: list[tuple[bool, int, str | None, RowKind, bool]], at: int
) -> None:
    steps = played(events)
    harness = OperatorHarness.on_heap(spec())
    emitted = harness.run(steps[:at])
    harness.restart(spec())
    emitted += harness.run(steps[at:])
    assert emitted == OperatorHarness.on_heap(spec()).run(steps)


@given(events=EVENTS, data=st.data())
def test_the_same_whatever_is_answered_when(
    events: list[tuple[bool, int, str | None, RowKind, bool]], data: st.DataObject
) -> None:
    steps = played(events)
    plain = OperatorHarness.on_heap(spec())
    other = answered_any_way(spec(), data)
    assert other.run(steps, epoch_changes=2) == plain.run(steps, epoch_changes=2)


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    """With so many rows and versions of a key that they are spread; what is not due is not read."""
    steps: Steps = [rate(at, 2 * at) for at in range(200)]
    steps += [order(at, at) for at in range(300)]
    steps += [Watermark(100), Watermark(101), Watermark(150), Watermark(400)]
    heap, remote = OperatorHarness.on_heap(spec()), OperatorHarness.on_redis(spec(), redis_client)
    assert remote.run(steps, epoch_changes=120) == heap.run(steps, epoch_changes=120)
    assert remote.statistics[-3]["round_trips"] <= 10
    remote.close()
