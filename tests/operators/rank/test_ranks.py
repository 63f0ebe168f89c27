"""What is particular of the rank operators: offsets, ends by column, top-1, the newest first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind, check_well_formed, materialize
from operators.errors import InvalidSpec
from operators.testing.batch_rank import LiveRows, live_rows
from operators.testing.operator_harness import At, OperatorHarness
from tests.operators.laws import emits_the_same_any_way
from tests.operators.rank.ranks import ASCENDING, changes, rank_spec


def run(spec, text: str) -> list[Change]:
    return OperatorHarness.on_heap(spec).run(changes(text))


def test_a_retraction_before_an_offset_shifts_all_behind_it() -> None:
    """Where Flink loses such retractions: it writes kinds into the rows that it keeps."""
    spec = rank_spec(order=(), start=2, end=3, key=())
    emitted = run(spec, "+I 1 a 1; +I 2 a 1; +I 3 a 1; +I 4 a 1; -D 2 a 1; -D 1 a 1; -D 3 a 1")
    assert emitted == changes(
        """
        +I 2 a 1; +I 3 a 1
        -U 2 a 1; +U 3 a 1; -U 3 a 1; +U 4 a 1
        -U 3 a 1; +U 4 a 1; -D 4 a 1; -D 4 a 1
        """
    )


def test_without_the_row_before_whoever_leaves_an_offset_is_deleted() -> None:
    """Where Flink emits the bare +U, and what left the range stays in the sink."""
    spec = rank_spec(order=ASCENDING, start=2, end=3, update_before=False)
    emitted = run(spec, "+I 1 a 1; +I 2 a 2; +I 3 a 3; +I 0 a 0; -D 1 a 1; -D 3 a 3")
    assert emitted == changes(
        "+I 2 a 2; +I 3 a 3; -D 3 a 3; +I 1 a 1; -D 1 a 1; +I 3 a 3; -D 3 a 3"
    )


def test_the_end_may_be_a_column_of_the_key() -> None:
    spec = rank_spec("append", key=(1, 2), order=(), end=None, end_column=2)
    assert run(spec, "+I 1 a 1; +I 2 a 1; +I 3 a 2; +I 4 a 2; +I 5 a 2; +I 6 a -") == changes(
        "+I 1 a 1; +I 3 a 2; +I 4 a 2"
    )


def test_the_end_is_that_of_the_first_row_where_it_is_no_column_of_the_key() -> None:
    spec = rank_spec(order=(), end=None, end_column=2)
    given = "+I 1 a 1; +I 2 a 9; -D 1 a 1; -D 2 a 9; +I 3 a 2; +I 4 a 1"
    assert run(spec, given) == changes("+I 1 a 1; -D 1 a 1; +I 2 a 9; -D 2 a 9; +I 3 a 2; +I 4 a 1")


def test_an_end_beyond_a_hundred_holds() -> None:
    spec = rank_spec("append", order=ASCENDING, key=(1, 0), end=None, end_column=0)
    given = [Change(RowKind.INSERT, (150, "a", at)) for at in range(160)]
    assert OperatorHarness.on_heap(spec).run(given) == given[:150]


def test_the_first_row_may_change_elsewhere_than_in_its_sort_key() -> None:
    """Where Flink drops the update: by unique key it is one of the row that is shown."""
    spec = rank_spec("update", end=1, unique_key=(0, 1))
    (column,) = spec.order
    spec = rank_spec("update", end=1, unique_key=(1,), order=(column,), key=())
    assert run(spec, "+I 1 a 5; +U 2 a 5; +U 2 a 5; +I 3 b 5; +I 3 b 6; -U 3 b 6; +U 1 a 1") == (
        changes("+I 1 a 5; -U 1 a 5; +U 2 a 5; -U 2 a 5; +U 3 b 6")
    )


@pytest.mark.parametrize("end", [1, 3])
def test_the_only_row_is_updated_without_a_unique_key(end: int) -> None:
    """What an aggregate without groups gives: Flink names an empty key."""
    spec = rank_spec("update", end=end, unique_key=(), key=())
    assert run(spec, "+I 1 a 5; +U 2 a 5; +U 3 a 6") == changes(
        "+I 1 a 5; -U 1 a 5; +U 2 a 5; -U 2 a 5; +U 3 a 6"
    )


def test_an_update_with_the_same_sort_key_keeps_its_rank() -> None:
    spec = rank_spec("update", end=3, unique_key=(0,), with_number=True, ttl_ms=(10,))
    harness = OperatorHarness.on_heap(spec)
    harness.run(changes("+I 1 a 5; +I 2 a 5; +I 3 a 5"))
    assert harness.run([At(9), *changes("+U 2 a 5")]) == changes("-U 2 a 5 2; +U 2 a 5 2")
    assert harness.run([At(15), *changes("+U 2 a 6; +I 1 a 5")]) == changes(
        "-U 2 a 5 1; +U 2 a 6 1; +I 1 a 5 2"
    )


def test_a_row_that_falls_keeps_being_shown() -> None:
    spec = rank_spec("update", end=3, unique_key=(0,), with_number=True)
    given = "+I 1 a 9; +I 2 a 8; +I 3 a 7; +U 1 a 7; +U 3 a 1"
    assert run(spec, given) == changes(
        """
        +I 1 a 9 1; +I 2 a 8 2; +I 3 a 7 3
        -U 1 a 9 1; -U 2 a 8 2; +U 2 a 8 1; -U 3 a 7 3; +U 3 a 7 2; +U 1 a 7 3
        -U 3 a 7 2; -U 1 a 7 3; +U 1 a 7 2; +U 3 a 1 3
        """
    )


@pytest.mark.parametrize("strategy", ["append", "update"])
def test_a_retraction_of_what_is_never_taken_back_is_an_orphan(strategy: str) -> None:
    for fields in ({}, {"end": 1}, {"order": ()} if strategy == "append" else {}):
        key = {"unique_key": (0,)} if strategy == "update" else {}
        harness = OperatorHarness.on_heap(rank_spec(strategy, **key, **fields))
        assert harness.run(changes("+I 1 a 1; -D 1 a 1")) == changes("+I 1 a 1")
        assert harness.statistics[-1]["orphans"] == 1


def test_limit_counts_anew_when_its_state_has_expired() -> None:
    harness = OperatorHarness.on_heap(rank_spec("append", order=(), ttl_ms=(10,)))
    assert harness.run([*changes("+I 1 a 1"), At(9), *changes("+I 2 a 1; +I 3 a 1")]) == changes(
        "+I 1 a 1; +I 2 a 1"
    )
    assert harness.run([At(19), *changes("+I 4 a 1")]) == changes("+I 4 a 1")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"start": 3, "end": 2}, "no rank lies in the range"),
        ({"end_column": 0}, "a number or a column"),
        ({"end": None, "end_column": 1}, "must be SMALLINT, INTEGER or BIGINT"),
        ({"unique_key": (0,)}, "belongs to strategy update"),
        ({"unique_key": (7,), "strategy": "update"}, "must name columns"),
        ({"order": (), "unique_key": (0,), "strategy": "update"}, "only rise in an order"),
        ({"newest_first": True}, "where there is no other order"),
        ({"output": {"types": (), "names": ()}}, "the output must be the input's columns"),
    ],
)
def test_a_spec_that_cannot_be_is_refused(fields: dict, reason: str) -> None:
    with pytest.raises(InvalidSpec, match=reason):
        rank_spec(**fields)


rows = st.tuples(st.integers(1, 2), st.sampled_from("ab"), st.sampled_from((None, 1)))
anything = st.lists(st.builds(Change, st.sampled_from(RowKind), rows), max_size=14)


@given(
    given=anything,
    limits=st.sampled_from([(1, 1), (1, 2), (2, 3)]),
    with_number=st.booleans(),
    size=st.integers(1, 4),
    data=st.data(),
)
def test_the_newest_rows_are_those_that_came_last(
    given: list[Change],
    limits: tuple[int, int],
    with_number: bool,
    size: int,
    data: st.DataObject,
) -> None:
    """ORDER BY processing time DESC: its column, here p, tells nothing, and is null."""
    start, end = limits
    spec = rank_spec(
        order=(),
        newest_first=True,
        proctime=(2,),
        start=start,
        end=end,
        with_number=with_number,
    )
    emitted = emits_the_same_any_way(spec, given, data, size)
    check_well_formed(emitted)
    blank = [Change(each.kind, (*each.row[:2], None)) for each in given]
    shown = [
        Change(RowKind.INSERT, (*row, rank) if with_number else row)
        for live in live_rows(blank, (1,), takes_newest=True)
        for rank, row in enumerate(reversed(live), 1)
        if start <= rank <= end
    ]
    assert materialize(emitted) == materialize(shown)


@given(given=anything, data=st.data())
def test_nothing_is_left_of_the_newest_rows(given: list[Change], data: st.DataObject) -> None:
    live = LiveRows((1,))
    harness = OperatorHarness.on_heap(rank_spec(order=(), newest_first=True))
    put = [each.with_kind(RowKind.INSERT) for each in given]
    back = [each.with_kind(RowKind.DELETE) for each in data.draw(st.permutations(put))]
    for each in (*put, *back):
        live.apply(each)
    harness.run([*put, *back], epoch_changes=4)
    assert not live.keys
    assert harness.stored_names() == set()
