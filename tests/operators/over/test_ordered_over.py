"""OVER in an order that is no time: what rows behind a change show, idle keys, and the laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.aggregate import AggregateCall
from operators.changelog import Change, RowKind, check_well_formed, materialize
from operators.errors import InvalidSpec
from operators.ordering import SortColumn
from operators.over.ordered_over import OrderedOverSpec
from operators.over.positions import PositionCall
from operators.spec import InputSpec, RowSpec
from operators.testing.batch_over import in_order, running_frames
from operators.testing.operator_harness import (
    At,
    OperatorHarness,
    delete,
    insert,
    update_after,
    update_before,
)
from tests.batch_sql import batch_sql
from tests.operators.laws import answered_any_way
from tests.operators.over.changelogs import (
    BIGINT,
    COLUMNS,
    INT,
    STRING,
    changelogs,
    live_rows,
    null_first,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from operators.changelog import Row

KEY = (SortColumn(column=1),)


def aggregate(function: str, column: int = 2, **more: Any) -> AggregateCall:
    return AggregateCall(
        function=function,
        name=function,
        arguments=(column,),
        argument_types=(INT,),
        result_type=BIGINT if function == "COUNT" else INT,
        needs_retraction=False,
        **more,
    )


def position(function: str) -> PositionCall:
    return PositionCall(function=function, name=function, result_type=BIGINT)


SUM = (aggregate("SUM"),)


def spec(
    calls: Sequence[AggregateCall | PositionCall] = SUM,
    *,
    is_rows: bool = False,
    order: tuple[SortColumn, ...] = KEY,
    **fields: Any,
) -> OrderedOverSpec:
    """Columns k, v, w; partition by k, order by v; the sum of w."""
    names = ("k", "v", "w")
    return OrderedOverSpec.build(
        inputs=(InputSpec(types=(STRING, INT, INT), names=names, key=(0,)),),
        output=RowSpec(
            types=(STRING, INT, INT, *(each.result_type for each in calls)),
            names=(*names, *(f"o{number}" for number in range(len(calls)))),
        ),
        calls=tuple(calls),
        is_rows=is_rows,
        order=order,
        **fields,
    )


def test_of_a_range_rows_with_one_sort_key_show_one_value() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps = [insert("a", 2, 5), insert("a", 1, 1), insert("a", 1, 3), delete("a", 1, 1)]
    assert harness.run(steps) == [
        insert("a", 2, 5, 5),
        insert("a", 1, 1, 1),
        update_before("a", 2, 5, 5),
        update_after("a", 2, 5, 6),
        update_before("a", 1, 1, 1),
        update_after("a", 1, 1, 4),
        insert("a", 1, 3, 4),
        update_before("a", 2, 5, 6),
        update_after("a", 2, 5, 9),
        delete("a", 1, 1, 4),
        update_before("a", 1, 3, 4),
        update_after("a", 1, 3, 3),
        update_before("a", 2, 5, 9),
        update_after("a", 2, 5, 8),
    ]


def test_of_rows_each_shows_its_own_and_equal_ones_stand_as_they_came() -> None:
    harness = OperatorHarness.on_heap(spec(is_rows=True))
    steps = [insert("a", 1, 1), insert("a", 1, 3), insert("a", 1, 1), delete("a", 1, 1)]
    assert harness.run(steps) == [
        insert("a", 1, 1, 1),
        insert("a", 1, 3, 4),
        insert("a", 1, 1, 5),
        delete("a", 1, 1, 1),
        update_before("a", 1, 3, 4),
        update_after("a", 1, 3, 3),
        update_before("a", 1, 1, 5),
        update_after("a", 1, 1, 4),
    ]


def test_an_update_keeps_its_kind_where_the_row_goes_in() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps = [insert("a", 1, 1), update_before("a", 1, 1), update_after("a", 2, 1)]
    assert harness.run(steps)[1:] == [delete("a", 1, 1, 1), update_after("a", 2, 1, 1)]


def test_a_row_is_the_same_at_another_processing_time() -> None:
    """Its column of processing time is null until it is made a value."""
    harness = OperatorHarness.on_heap(spec((aggregate("COUNT", 1),), proctime=(2,)))
    assert harness.run([insert("a", 1, 7), delete("a", 1, 8)]) == [
        insert("a", 1, None, 1),
        delete("a", 1, None, 1),
    ]


def test_rank_is_that_of_the_first_with_a_sort_key() -> None:
    harness = OperatorHarness.on_heap(spec([position("RANK"), position("DENSE_RANK")]))
    harness.run([insert("a", 1, 0), insert("a", 1, 1), insert("a", 5, 2)])
    assert harness.run([insert("a", 1, 3)]) == [
        insert("a", 1, 3, 1, 1),
        update_before("a", 5, 2, 3, 2),
        update_after("a", 5, 2, 4, 2),
    ]


def test_an_unmatched_retraction_is_an_orphan() -> None:
    for is_rows in (False, True):
        harness = OperatorHarness.on_heap(spec(is_rows=is_rows))
        steps = [insert("a", 1, 1), delete("a", 1, 2), delete("a", 2, 1), delete("b", 1, 1)]
        assert harness.run(steps) == [insert("a", 1, 1, 1)]
        assert harness.statistics[-1]["orphans"] == 3


def test_an_idle_partition_goes_as_a_whole() -> None:
    harness = OperatorHarness.on_heap(spec(ttl_ms=(100,)))
    harness.run([insert("a", 1, 1), At(60), insert("a", 2, 2), At(200)])
    assert harness.run([insert("a", 3, 3)]) == [insert("a", 3, 3, 6)]
    # The last change at 200: by 350 nothing came.
    harness.run([At(350)])
    assert harness.stored_names() == set()
    assert harness.run([delete("a", 1, 1), insert("a", 3, 3)]) == [insert("a", 3, 3, 3)]


def test_a_spec_that_cannot_be() -> None:
    lag = PositionCall(function="LAG", name="l", arguments=(2,), result_type=INT)
    for fields, reason in (
        ({"order": ()}, "at least 1"),
        ({"order": (SortColumn(column=9),)}, "no column"),
        ({"calls": (lag,)}, "of its own"),
    ):
        with pytest.raises(InvalidSpec, match=reason):
            spec(**fields)


CALLS = (
    aggregate("SUM"),
    aggregate("COUNT"),
    aggregate("MIN"),
    aggregate("COUNT", is_distinct=True),
)


def defined(changes: Sequence[Change], *, is_rows: bool) -> list[Row]:
    """Every live row with the values of `CALLS`."""
    found: list[Row] = []
    for ordered in in_order(live_rows(changes), 0, lambda row: null_first(row[1])):
        for row, frame in running_frames(ordered, is_rows=is_rows):
            values: list[Any] = [each[2] for each in frame if each[2] is not None]
            least = min(values, default=None)
            total = sum(values) if values else None
            found.append((*row, total, len(values), least, len(set(values))))
    return sorted(found, key=repr)


@given(changes=changelogs(), is_rows=st.booleans())
def test_the_definition_is_that_of_sql(changes: list[Change], is_rows: bool) -> None:
    frame = "ORDER BY v, n ROWS" if is_rows else "ORDER BY v RANGE"
    over = f"OVER (PARTITION BY k {frame} UNBOUNDED PRECEDING)"
    query = f"SELECT k, v, w, SUM(w) {over}, COUNT(w) {over}, MIN(w) {over} FROM t"
    found = batch_sql(query, t=(COLUMNS, live_rows(changes)))
    assert sorted(found, key=repr) == sorted(
        (row[:6] for row in defined(changes, is_rows=is_rows)), key=repr
    )


@settings(max_examples=60)
@given(changes=changelogs(), is_rows=st.booleans(), size=st.integers(1, 4), data=st.data())
def test_laws(changes: list[Change], is_rows: bool, size: int, data: st.DataObject) -> None:
    """As the definition at every prefix; well formed; any order of answers; nothing is left."""
    made = spec(CALLS, is_rows=is_rows)
    harness, other = OperatorHarness.on_heap(made), answered_any_way(made, data)
    stop = data.draw(st.integers(0, len(changes)))
    emitted: list[Change] = []
    for at, change in enumerate(changes):
        if at == stop:
            harness.restart(made)
        emitted += harness.run([change])
        found = sorted(materialize(emitted).elements(), key=repr)
        assert found == defined(changes[: at + 1], is_rows=is_rows)
    check_well_formed(emitted)
    assert other.run(changes, epoch_changes=size) == emitted
    harness.run([Change(RowKind.DELETE, row) for row in live_rows(changes)])
    assert harness.stored_names() == set()


@pytest.mark.parametrize("is_rows", [False, True])
def test_on_redis_it_is_the_same(redis_client: redis.Redis, is_rows: bool) -> None:
    steps = [insert("a", value * 7 % 31, value) for value in range(200)]
    steps += [delete("a", value * 7 % 31, value) for value in range(0, 200, 3)]
    harness = OperatorHarness.on_redis(spec(is_rows=is_rows), redis_client)
    found = harness.run(steps, epoch_changes=25)
    harness.close()
    assert found == OperatorHarness.on_heap(spec(is_rows=is_rows)).run(steps)


@pytest.mark.parametrize("is_rows", [False, True])
def test_rows_before_a_change_are_not_read(redis_client: redis.Redis, is_rows: bool) -> None:
    """A change at the end of the order costs the same however many rows stand before it."""
    costs = []
    for size in (200, 2000):
        harness = OperatorHarness.on_redis(spec(is_rows=is_rows), redis_client)
        harness.run([insert("a", value, 1) for value in range(size)])
        emitted = harness.run([insert("a", size, 1), delete("a", size - 1, 1)])
        assert [each.kind.short for each in emitted] == ["+I", "-D", "-U", "+U"]
        costs.append(harness.statistics[-1]["commands"])
        harness.close()
    assert costs[0] == costs[1]


def test_rows_behind_that_stay_as_they_are_are_not_read(redis_client: redis.Redis) -> None:
    """A maximum that a row does not raise: the first place behind it is enough."""
    costs = []
    for size in (200, 2000):
        harness = OperatorHarness.on_redis(spec((aggregate("MAX"),)), redis_client)
        harness.run([insert("a", value, 9) for value in range(size)])
        assert harness.run([insert("a", 3, 1)]) == [insert("a", 3, 1, 9)]
        costs.append(harness.statistics[-1]["commands"])
        harness.close()
    assert costs[0] == costs[1]
