"""One row of each key: the first or the last, by arrival or event time, of any input."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind, check_well_formed, materialize
from operators.deduplicate.spec import DeduplicateSpec
from operators.errors import InvalidSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.batch_rank import live_rows
from operators.testing.operator_harness import (
    At,
    OperatorHarness,
    Watermark,
    delete,
    insert,
    update_after,
    update_before,
)
from state.errors import OperatorFailed
from state.types import parse_type
from tests.operators.laws import emits_the_same_any_way

if TYPE_CHECKING:
    import redis

TYPES = tuple(parse_type(each) for each in ("STRING", "INT", "TIMESTAMP_LTZ(3)"))
START = datetime(2020, 1, 1, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
FIRST = {"keeps_last": False, "rowtime": 2}
LAST = {"keeps_last": True, "rowtime": 2}


def spec(**fields: Any) -> DeduplicateSpec:
    row = InputSpec(types=TYPES, names=("k", "v", "ts"), key=(0,))
    output = RowSpec(types=TYPES, names=("k", "v", "ts"))
    return DeduplicateSpec.build(inputs=(row,), output=output, **fields)


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


def run(harness: OperatorHarness, *steps: Any, **options: Any) -> list[Change]:
    return harness.run(steps, **options)


def test_the_first_row_by_arrival_is_emitted_once() -> None:
    harness = OperatorHarness.on_heap(spec(keeps_last=False))
    assert run(harness, insert("a", 1, None), insert("a", 2, None), delete("a", 1, None)) == [
        insert("a", 1, None)
    ]
    assert harness.statistics[-1]["orphans"] == 1


def test_later_rows_do_not_prolong_the_first_ones_life() -> None:
    harness = OperatorHarness.on_heap(spec(keeps_last=False, ttl_ms=(10,)))
    steps = [insert("a", 1, None), At(9), insert("a", 2, None), At(10), insert("a", 3, None)]
    assert run(harness, *steps) == [insert("a", 1, None), insert("a", 3, None)]


@pytest.mark.parametrize("with_before", [True, False])
def test_each_row_replaces_the_last_one(with_before: bool) -> None:
    """A repeat is passed over behind a +I only: recorded of Flink 2.3.0 on its heap backend."""
    harness = OperatorHarness.on_heap(
        spec(keeps_last=True, update_before=with_before, proctime=(2,))
    )
    given = [insert("a", v, at(n)) for n, v in enumerate((1, 1, 2, 2, 2))]
    emitted = run(harness, *given, epoch_changes=2)
    expected = [
        insert("a", 1, at(0)),
        update_before("a", 1, at(0)),
        update_after("a", 2, at(2)),
        update_before("a", 2, at(2)),
        update_after("a", 2, at(3)),
        update_before("a", 2, at(3)),
        update_after("a", 2, at(4)),
    ]
    assert emitted == [
        each for each in expected if with_before or each.kind is not RowKind.UPDATE_BEFORE
    ]


def test_with_a_ttl_each_row_is_emitted_and_prolongs() -> None:
    """After expiry the next row is inserted, and what expired is not taken back."""
    harness = OperatorHarness.on_heap(spec(keeps_last=True, ttl_ms=(10,)))
    steps = [insert("a", 1, None), At(9), insert("a", 1, None), At(18), insert("a", 2, None)]
    assert run(harness, *steps, At(28), insert("a", 3, None)) == [
        insert("a", 1, None),
        update_before("a", 1, None),
        update_after("a", 1, None),
        update_before("a", 1, None),
        update_after("a", 2, None),
        insert("a", 3, None),
    ]


def test_nothing_is_kept_where_all_is_an_update() -> None:
    harness = OperatorHarness.on_heap(
        spec(keeps_last=True, update_before=False, tells_inserts=False)
    )
    assert run(harness, insert("a", 1, None)) == [update_after("a", 1, None)]
    assert harness.stored_names() == set()


def test_of_a_bundle_the_last_row_counts() -> None:
    harness = OperatorHarness.on_heap(spec(keeps_last=True, bundles=True))
    assert run(harness, insert("a", 1, None), insert("a", 2, None)) == [insert("a", 2, None)]
    assert run(harness, insert("a", 3, None), delete("a", 2, None)) == [
        update_before("a", 2, None),
        update_after("a", 3, None),
    ]


def test_by_event_time_the_first_to_come_is_first_and_the_last_to_come_is_last() -> None:
    given = [insert("a", v, at(ms)) for v, ms in ((1, 5), (2, 3), (3, 3), (4, 5), (5, 4))]
    first = OperatorHarness.on_heap(spec(**FIRST))
    assert run(first, *given) == [
        insert("a", 1, at(5)),
        update_before("a", 1, at(5)),
        update_after("a", 2, at(3)),
    ]
    last = OperatorHarness.on_heap(spec(**LAST, update_before=False))
    assert run(last, *given) == [insert("a", 1, at(5)), update_after("a", 4, at(5))]
    bare = OperatorHarness.on_heap(spec(**LAST, update_before=False, tells_inserts=False))
    assert run(bare, *given) == [update_after("a", 1, at(5)), update_after("a", 4, at(5))]


def test_a_bundle_by_event_time_emits_all_unless_it_compacts() -> None:
    given = [insert("a", v, at(v)) for v in (1, 2, 3)]
    whole = OperatorHarness.on_heap(spec(**LAST, bundles=True, update_before=False))
    assert [each.kind.short for each in run(whole, *given)] == ["+I", "+U", "+U"]
    compact = OperatorHarness.on_heap(spec(**LAST, bundles=True, compacts=True))
    assert run(compact, *given) == [insert("a", 3, at(3))]
    assert run(compact, insert("a", 4, at(2)), insert("a", 5, at(1))) == []


def test_the_first_row_waits_for_the_watermark() -> None:
    harness = OperatorHarness.on_heap(spec(**FIRST, once=True, ttl_ms=(10,)))
    given = [insert("a", 1, at(5)), insert("b", 2, at(3)), insert("a", 3, at(2))]
    assert run(harness, *given, insert("a", 4, at(2)), Watermark(START_MS + 1)) == []
    assert run(harness, At(100), Watermark(START_MS + 4)) == [
        insert("a", 3, at(2)),
        insert("b", 2, at(3)),
    ]
    # Late; emitted already; and at the watermark, which is not late.
    more = [insert("c", 5, at(3)), insert("a", 6, at(9)), insert("c", 7, at(4))]
    assert run(harness, *more, Watermark(START_MS + 20)) == [insert("c", 7, at(4))]
    assert run(harness, At(110), insert("a", 8, at(30)), Watermark(START_MS + 30)) == [
        insert("a", 8, at(30))
    ]


def test_no_timer_is_left_of_a_row_that_an_earlier_one_took_the_place_of() -> None:
    """It would let a later row out before the watermark has reached it."""
    harness = OperatorHarness.on_heap(spec(**FIRST, once=True, ttl_ms=(10,)))
    run(harness, insert("a", 1, at(20)), insert("a", 2, at(5)), Watermark(START_MS + 5))
    # That one was shown is forgotten by now, and what comes waits for its own time.
    assert run(harness, At(100), insert("a", 3, at(40)), Watermark(START_MS + 30)) == []
    assert run(harness, Watermark(START_MS + 40)) == [insert("a", 3, at(40))]
    assert {b"waiting", b"event_timers"} & harness.stored_names() == set()


def test_of_first_rows_what_is_below_the_watermark_is_late_and_a_later_row_is_not() -> None:
    harness = OperatorHarness.on_heap(spec(**FIRST, once=True))
    run(harness, insert("a", 1, at(2)), Watermark(START_MS + 4))
    below = [insert("a", 2, at(3)), insert("b", 3, at(3))]
    # A row at the watermark, one whose key was emitted, and a retraction.
    others = [insert("b", 4, at(4)), insert("a", 5, at(9)), delete("b", 4, at(1))]
    assert run(harness, *below, *others) == []
    counts = [(each["late"], each["orphans"]) for each in harness.statistics]
    assert counts == [(0, 0), (2, 1)]


def test_a_row_without_event_time_ends_the_task() -> None:
    with pytest.raises(OperatorFailed):
        run(OperatorHarness.on_heap(spec(**LAST)), insert("a", 1, at(1)), insert("a", 1, None))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"keeps_last": False, "rowtime": 1}, "must be TIMESTAMP"),
        ({"keeps_last": True, "rowtime": 2, "once": True}, "only the first row by event time"),
        ({"keeps_last": True, "proctime": (9,)}, "columns of the input"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidSpec, match=reason):
        spec(**fields)


def test_a_row_that_is_taken_back_lets_the_one_before_it_show() -> None:
    harness = OperatorHarness.on_heap(spec(keeps_last=True, retracts=True))
    a, b, c = (("k", v, None) for v in (1, 2, 3))
    given = [insert(*a), insert(*b), delete(*a), insert(*c), delete(*c), delete(*c), delete(*b)]
    assert run(harness, *given) == [
        insert(*a),
        update_before(*a),
        update_after(*b),
        update_before(*b),
        update_after(*c),
        update_before(*c),
        update_after(*b),
        delete(*b),
    ]
    assert harness.statistics[-1]["orphans"] == 1


rows = st.tuples(
    st.sampled_from("ab"), st.integers(1, 2), st.sampled_from([at(ms) for ms in (1, 2, 3)])
)
anything = st.lists(st.builds(Change, st.sampled_from(RowKind), rows), max_size=16)
options = st.fixed_dictionaries(
    {"keeps_last": st.booleans(), "rowtime": st.sampled_from((None, 2))}
)


def kept_row(live: list[Any], keeps_last: bool, rowtime: int | None) -> Any:
    """The row that the batch definition keeps of those that are live, in order of arrival."""
    ordered = live if rowtime is None else sorted(live, key=lambda row: row[rowtime])
    return ordered[-1 if keeps_last else 0]


@given(given=anything, options=options, size=st.integers(1, 4), data=st.data())
def test_of_a_changelog_the_row_is_kept_that_the_batch_keeps(
    given: list[Change], options: dict[str, Any], size: int, data: st.DataObject
) -> None:
    chosen = spec(retracts=True, **options)
    emitted = emits_the_same_any_way(chosen, given, data, size)
    check_well_formed(emitted)
    check_well_formed(
        OperatorHarness.on_heap(spec(retracts=True, update_before=False, **options)).run(given),
        upsert_key=(0,),
    )
    harness, so_far = OperatorHarness.on_heap(chosen), []
    for number, change in enumerate(given, 1):
        so_far += harness.run([change])
        kept = [kept_row(live, **options) for live in live_rows(given[:number], (0,))]
        assert materialize(so_far) == materialize(Change(RowKind.INSERT, row) for row in kept)


@given(given=anything, options=options, size=st.integers(1, 4), data=st.data())
def test_of_rows_that_only_come_the_row_is_kept_that_the_batch_keeps(
    given: list[Change], options: dict[str, Any], size: int, data: st.DataObject
) -> None:
    given = [each.with_kind(RowKind.INSERT) for each in given]
    emitted = emits_the_same_any_way(spec(**options), given, data, size)
    check_well_formed(emitted)
    kept = [kept_row(live, **options) for live in live_rows(given, (0,))]
    assert materialize(emitted) == materialize(Change(RowKind.INSERT, row) for row in kept)


@given(given=anything, size=st.integers(1, 4), data=st.data())
def test_of_rows_that_wait_the_first_is_emitted_once(
    given: list[Change], size: int, data: st.DataObject
) -> None:
    given = [each.with_kind(RowKind.INSERT) for each in given]
    steps = [*given, Watermark(START_MS + 3)]
    emitted = emits_the_same_any_way(spec(**FIRST, once=True), steps, data, size)
    kept = [kept_row(live, **FIRST) for live in live_rows(given, (0,))]
    assert materialize(emitted) == materialize(Change(RowKind.INSERT, row) for row in kept)


@given(given=anything, options=options, data=st.data())
def test_nothing_is_left_of_what_was_taken_back(
    given: list[Change], options: dict[str, Any], data: st.DataObject
) -> None:
    put = [each.with_kind(RowKind.INSERT) for each in given]
    back = [each.with_kind(RowKind.DELETE) for each in data.draw(st.permutations(put))]
    harness = OperatorHarness.on_heap(spec(retracts=True, **options))
    harness.run([*put, *back], epoch_changes=3)
    assert harness.stored_names() == set()


@pytest.mark.parametrize("fields", [FIRST, LAST, {"keeps_last": True}, {"keeps_last": False}])
@pytest.mark.parametrize("retracts", [True, False])
def test_on_redis_as_on_heap(
    redis_client: redis.Redis, fields: dict[str, Any], retracts: bool
) -> None:
    given = [insert("ab"[v % 2], v, at(v * 7 % 5)) for v in range(100)]
    if retracts:
        given += [delete(*each.row) for each in given[50:]]
    chosen = spec(retracts=retracts, **fields)
    heap, remote = OperatorHarness.on_heap(chosen), OperatorHarness.on_redis(chosen, redis_client)
    assert remote.run(given, epoch_changes=30) == heap.run(given)
    remote.close()
