"""Interval joins: which rows meet, when rows without a match are padded, and what is left."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.errors import InvalidSpec
from operators.join.interval import IntervalJoinSpec
from operators.keyed import WATERMARK_MAX
from operators.spec import InputSpec, RowSpec
from operators.testing.joins import bags, join_of
from operators.testing.operator_harness import At, Of, OperatorHarness, Watermark
from state.types import parse_type
from tests.operators.join.test_conditions import call, ref
from tests.operators.laws import answered_any_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from operators.changelog import Row

    Steps = list[Of | Watermark | At]

INT, STRING, TIMESTAMP = parse_type("INT"), parse_type("STRING"), parse_type("TIMESTAMP(3)")
EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
TYPES = ("INNER", "LEFT", "RIGHT", "FULL")


def spec(join_type: str = "FULL", **fields: Any) -> IntervalJoinSpec:
    """`l.t BETWEEN r.t - 2 AND r.t + 5`: a left row meets right ones from t - 5 to t + 2."""
    side = InputSpec(types=(INT, STRING, TIMESTAMP), names=("n", "k", "ts"), key=(1,))
    output = RowSpec(types=side.types * 2, names=("n", "k", "ts", "n0", "k0", "ts0"))
    given: dict[str, Any] = {
        "inputs": (side, side),
        "output": output,
        "join_type": join_type,
        "lower_ms": -2,
        "upper_ms": 5,
        "times": (2, 2),
        "filter_nulls": (True,),
        **fields,
    }
    return IntervalJoinSpec.build(**given)


def row(number: int, ms: int, key: str | None = "a") -> Row:
    return (number, key, EPOCH + timedelta(milliseconds=ms))


def left(number: int, ms: int, key: str | None = "a") -> Of:
    return Of(0, Change(RowKind.INSERT, row(number, ms, key)))


def right(number: int, ms: int, key: str | None = "a") -> Of:
    return Of(1, Change(RowKind.INSERT, row(number, ms, key)))


def shown(changes: Sequence[Change]) -> list[tuple[object, object]]:
    """The left number and the right one, of insertions."""
    assert all(each.kind is RowKind.INSERT for each in changes)
    return [(each.row[0], each.row[3]) for each in changes]


def test_both_ends_of_the_range_belong_to_it() -> None:
    harness = OperatorHarness.on_heap(spec("INNER"))
    harness.run([right(at, at) for at in range(1, 20)])
    assert shown(harness.run([left(100, 10)])) == [(100, at) for at in range(5, 13)]
    assert shown(harness.run([left(101, 2), right(50, 4)])) == [
        *((101, at) for at in range(1, 5)),
        (101, 50),
    ]


@pytest.mark.parametrize(
    ("join_type", "padded"),
    [("INNER", [[], []]), ("LEFT", [[(1, None)], []]), ("RIGHT", [[], [(None, 2)]])],
)
def test_rows_without_a_match_are_padded_when_their_range_has_passed(
    join_type: str, padded: list[Any]
) -> None:
    harness = OperatorHarness.on_heap(spec(join_type))
    # The left row waits for right ones up to 12, the right row for left ones up to 25.
    assert harness.run([left(1, 10), right(2, 20), Watermark(12)]) == []
    assert shown(harness.run([Watermark(13)])) == padded[0]
    assert harness.run([Watermark(25)]) == []
    assert shown(harness.run([Watermark(26)])) == padded[1]
    assert harness.stored_names() == set()


def test_a_row_that_was_joined_is_not_padded() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps: Steps = [
        left(1, 10),
        left(2, 10),
        right(3, 6, "b"),
        right(4, 8),
        Watermark(WATERMARK_MAX),
    ]
    assert shown(harness.run(steps)) == [(1, 4), (2, 4), (None, 3)]
    assert harness.stored_names() == set()


def test_a_row_that_was_joined_stays_so_where_another_one_does_not_meet_the_condition() -> None:
    less = call("$<$1", ref(0), ref(3))
    harness = OperatorHarness.on_heap(spec("LEFT", condition=less))
    steps: Steps = [left(1, 10), right(4, 8), right(0, 9), Watermark(WATERMARK_MAX)]
    assert shown(harness.run(steps)) == [(1, 4)]


def test_a_late_row_meets_what_waits_and_does_not_wait_itself() -> None:
    harness = OperatorHarness.on_heap(spec())
    harness.run([right(1, 16), right(2, 19), Watermark(20)])
    # Right rows at 14 and before have gone at 20; a left row at 18 or before does not wait.
    assert shown(harness.run([left(3, 18), left(4, 12)])) == [(3, 1), (3, 2), (4, None)]
    assert shown(harness.run([right(5, 15)])) == [(None, 5)]
    assert harness.run([right(6, 16)]) == []
    assert shown(harness.run([left(7, 19)])) == [(7, 1), (7, 6), (7, 2)]


@pytest.mark.parametrize(("join_type", "late"), [("INNER", [2, 1]), ("RIGHT", [2, 0])])
def test_late_is_what_is_neither_joined_nor_padded_nor_kept(
    join_type: str, late: list[int]
) -> None:
    harness = OperatorHarness.on_heap(spec(join_type))
    harness.run([right(1, 16), Watermark(20)])
    # Only the first meets a row, only the last waits; a row without a key is not late.
    harness.run([left(2, 18), left(3, 12), left(4, 1), left(5, 19), left(6, 1, None)])
    harness.run([right(7, 1)])
    assert [each["late"] for each in harness.statistics] == [0, *late]


def test_the_earliest_row_sets_the_timer() -> None:
    harness = OperatorHarness.on_heap(spec("LEFT"))
    harness.run([left(1, 30), left(2, 10), left(3, 20)])
    assert shown(harness.run([Watermark(13)])) == [(2, None)]
    assert shown(harness.run([Watermark(23)])) == [(3, None)]
    assert shown(harness.run([left(4, 25), Watermark(40)])) == [(4, None), (1, None)]


def test_rows_without_a_key_wait_only_to_be_padded() -> None:
    harness = OperatorHarness.on_heap(spec("LEFT"))
    assert harness.run([right(1, 10, None), left(2, 10, None)]) == []
    assert shown(harness.run([Watermark(13)])) == [(2, None)]
    assert harness.stored_names() == set()


def test_a_range_that_holds_nothing_pads_at_once() -> None:
    harness = OperatorHarness.on_heap(spec("FULL", lower_ms=3, upper_ms=2))
    assert shown(harness.run([left(1, 10), right(2, 10)])) == [(1, None), (None, 2)]
    assert OperatorHarness.on_heap(spec("INNER", lower_ms=3, upper_ms=2)).run([left(1, 1)]) == []
    assert harness.stored_names() == set()


def test_retractions_are_orphans() -> None:
    harness = OperatorHarness.on_heap(spec())
    assert harness.run([Of(0, Change(RowKind.DELETE, row(1, 10)))]) == []
    assert harness.statistics[-1]["orphans"] == 1


def test_rows_may_wait_longer_for_fewer_timers() -> None:
    harness = OperatorHarness.on_heap(spec("LEFT", cleanup_delay_ms=10))
    harness.run([left(1, 10), left(2, 15)])
    assert harness.run([Watermark(22)]) == []
    assert shown(harness.run([Watermark(23)])) == [(1, None), (2, None)]


def test_in_processing_time_a_row_has_the_time_of_its_epoch() -> None:
    harness = OperatorHarness.on_heap(spec(times=None))
    # Of its own time and up to 5 later for left rows, 2 for right ones.
    assert harness.run([At(100), right(1, 0), At(105), left(2, 0)])[0].row[0] == 2
    assert harness.run([At(106)]) == []
    assert shown(harness.run([left(3, 0), At(108)])) == []
    assert shown(harness.run([At(109)])) == [(3, None)]
    assert harness.stored_names() == set()


def test_watermarks_are_held_back_by_how_far_rows_lag() -> None:
    assert spec().watermark_delay_ms == 5
    assert spec(lower_ms=-9).watermark_delay_ms == 9
    assert spec(times=None).watermark_delay_ms == 0


def test_a_spec_refuses_a_row_time_that_is_no_column() -> None:
    with pytest.raises(InvalidSpec, match="row time"):
        spec(times=(2, 3))


EVENTS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 12), st.sampled_from(["a", "b", None]), st.booleans()),
    max_size=14,
)


def played(events: Sequence[tuple[bool, int, str | None, bool]]) -> Steps:
    """Rows, and between them watermarks behind which nothing comes."""
    steps: Steps = []
    for at, (is_left, ms, key, has_watermark) in enumerate(events):
        steps.append((left if is_left else right)(at, ms, key))
        least = min((each[1] for each in events[at + 1 :]), default=100)
        if has_watermark:
            steps.append(Watermark(least - 1))
    return [*steps, Watermark(WATERMARK_MAX)]


def belong(one: Row, other: Row) -> bool:
    if one[1] is None or one[1] != other[1]:
        return False
    assert isinstance(one[2], datetime)
    assert isinstance(other[2], datetime)
    behind = one[2] - other[2]
    return timedelta(milliseconds=-2) <= behind <= timedelta(milliseconds=5)


@given(events=EVENTS, join_type=st.sampled_from(TYPES), size=st.integers(1, 4))
def test_all_rows_that_are_near_meet_whatever_the_epochs_are(
    events: list[tuple[bool, int, str | None, bool]], join_type: str, size: int
) -> None:
    steps = played(events)
    harness = OperatorHarness.on_heap(spec(join_type))
    emitted = harness.run(steps, epoch_changes=size)
    of_left, of_right = bags([each for each in steps if isinstance(each, Of)], 2)
    joined = join_of(of_left, of_right, join_type, belong, (3, 3))
    assert Counter(each.row for each in emitted) == joined
    assert emitted == OperatorHarness.on_heap(spec(join_type)).run(steps)
    assert harness.stored_names() == set()


@given(events=EVENTS, at=st.integers(0, 20))
def test_a_restart_anywhere_changes_nothing(
    events: list[tuple[bool, int, str | None, bool]], at: int
) -> None:
    steps = played(events)
    harness = OperatorHarness.on_heap(spec())
    emitted = harness.run(steps[:at])
    harness.restart(spec())
    emitted += harness.run(steps[at:])
    assert emitted == OperatorHarness.on_heap(spec()).run(steps)


@given(events=EVENTS, data=st.data())
def test_the_same_whatever_is_answered_when(
    events: list[tuple[bool, int, str | None, bool]], data: st.DataObject
) -> None:
    steps = played(events)
    plain = OperatorHarness.on_heap(spec())
    other = answered_any_way(spec(), data)
    assert other.run(steps, epoch_changes=3) == plain.run(steps)


def test_on_redis_as_on_heap(redis_client: redis.Redis) -> None:
    """With so many rows of a key that they are spread."""
    steps: Steps = [right(at, at) for at in range(100)]
    steps += [left(at, 2 * at) for at in range(40)]
    steps += [Watermark(50), Watermark(WATERMARK_MAX)]
    heap, remote = OperatorHarness.on_heap(spec()), OperatorHarness.on_redis(spec(), redis_client)
    assert remote.run(steps, epoch_changes=70) == heap.run(steps, epoch_changes=70)
    remote.close()
