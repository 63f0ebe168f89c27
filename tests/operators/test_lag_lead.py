"""LAG and LEAD with retraction: what neighbours show when a row comes or goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.changelog import Change, RowKind, check_well_formed, materialize
from operators.errors import InvalidSpec
from operators.lag_lead import LagLeadSpec, Neighbour
from operators.ordering import SortColumn
from operators.over.calls import Constant
from operators.spec import InputSpec, RowSpec
from operators.testing.batch_over import in_order, neighbour
from operators.testing.operator_harness import (
    At,
    OperatorHarness,
    delete,
    insert,
    update_after,
    update_before,
)
from state.types import parse_type
from tests.batch_sql import batch_sql
from tests.operators.laws import answered_any_way
from tests.operators.over.changelogs import COLUMNS, live_rows, null_last
from tests.operators.over.changelogs import changelogs as ordered_changelogs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from operators.changelog import Row

STRING, INT = parse_type("STRING"), parse_type("INT")
BOTH = (Neighbour(function="LAG", column=1), Neighbour(function="LEAD", column=1))


def spec(neighbours: Sequence[Neighbour] = BOTH, **fields: Any) -> LagLeadSpec:
    names = ("k", "v", *(f"n{at}" for at in range(len(neighbours))))
    return LagLeadSpec.build(
        inputs=(InputSpec(types=(STRING, INT), names=("k", "v"), key=(0,)),),
        output=RowSpec(types=(STRING, *[INT] * (1 + len(neighbours))), names=names),
        neighbours=tuple(neighbours),
        **fields,
    )


def test_neighbours_are_told_when_a_row_comes_or_goes() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps = [insert("a", 1), insert("a", 2), insert("b", 9), insert("a", 3), delete("a", 2)]
    assert harness.run(steps) == [
        insert("a", 1, None, None),
        update_before("a", 1, None, None),
        update_after("a", 1, None, 2),
        insert("a", 2, 1, None),
        insert("b", 9, None, None),
        update_before("a", 2, 1, None),
        update_after("a", 2, 1, 3),
        insert("a", 3, 2, None),
        update_before("a", 1, None, 2),
        update_after("a", 1, None, 3),
        delete("a", 2, 1, 3),
        update_before("a", 3, 2, None),
        update_after("a", 3, 1, None),
    ]


def test_of_equal_rows_the_oldest_goes() -> None:
    harness = OperatorHarness.on_heap(spec())
    steps = [insert("a", 1), insert("a", 2), insert("a", 1), delete("a", 1)]
    assert harness.run(steps)[-3:] == [
        delete("a", 1, None, 2),
        update_before("a", 2, 1, 1),
        update_after("a", 2, None, 1),
    ]


def test_an_unmatched_retraction_is_an_orphan() -> None:
    harness = OperatorHarness.on_heap(spec())
    assert harness.run([insert("a", 1), delete("a", 2)]) == [insert("a", 1, None, None)]
    assert harness.statistics[-1]["orphans"] == 1


def test_an_idle_key_goes_as_a_whole() -> None:
    """One row alone would leave neighbours that show it."""
    harness = OperatorHarness.on_heap(spec(ttl_ms=(10,)))
    harness.run([insert("a", 1), At(8), insert("a", 2), At(15)])
    assert harness.run([insert("a", 3)])[-1] == insert("a", 3, 2, None)
    harness.run([At(30)])
    assert harness.stored_names() == set()
    assert harness.run([delete("a", 1), insert("a", 4)]) == [insert("a", 4, None, None)]


def test_in_an_order_of_columns_a_row_comes_between_others() -> None:
    harness = OperatorHarness.on_heap(spec(order=(SortColumn(column=1, descending=True),)))
    steps = [insert("a", 1), insert("a", 3), insert("a", 2), delete("a", 3)]
    assert harness.run(steps) == [
        insert("a", 1, None, None),
        insert("a", 3, None, 1),
        update_before("a", 1, None, None),
        update_after("a", 1, 3, None),
        update_before("a", 3, None, 1),
        update_after("a", 3, None, 2),
        insert("a", 2, 3, 1),
        update_before("a", 1, 3, None),
        update_after("a", 1, 2, None),
        delete("a", 3, None, 2),
        update_before("a", 2, 3, 1),
        update_after("a", 2, None, 1),
    ]


def test_a_row_is_the_same_at_another_processing_time() -> None:
    """Its column of processing time is null until it is made a value."""
    harness = OperatorHarness.on_heap(spec([BOTH[1]], proctime=(1,)))
    assert harness.run([insert("a", 5), delete("a", 6)]) == [
        insert("a", None, None),
        delete("a", None, None),
    ]


def test_where_no_row_is_the_default_stands() -> None:
    seven = Constant(type=INT, text="[7]")
    chosen = [Neighbour(function="LAG", column=1, offset=2, default=seven)]
    harness = OperatorHarness.on_heap(spec(chosen))
    found = harness.run([insert("a", None), insert("a", 2), insert("a", 3)])
    assert found == [insert("a", None, 7), insert("a", 2, 7), insert("a", 3, None)]


def test_a_spec_that_cannot_be() -> None:
    with pytest.raises(InvalidSpec, match="column that is not there"):
        spec([Neighbour(function="LAG", column=7)])
    with pytest.raises(InvalidSpec, match="column that is not there"):
        spec([Neighbour(function="LAG", column=0, default_column=7)])
    with pytest.raises(InvalidSpec, match="at least 1"):
        spec([])
    with pytest.raises(InvalidSpec, match="no column of the input"):
        spec(order=(SortColumn(column=7),))


neighbours = st.lists(
    st.builds(
        Neighbour,
        function=st.sampled_from(["LAG", "LEAD"]),
        column=st.just(1),
        offset=st.integers(1, 3),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def changelogs(draw: st.DrawFn) -> list[Change]:
    live: list[Row] = []
    found: list[Change] = []
    for _ in range(draw(st.integers(0, 16))):
        if live and draw(st.integers(0, 2)) == 0:
            row = live.pop(draw(st.integers(0, len(live) - 1)))
            found.append(Change(RowKind.DELETE, row))
        else:
            live.append((draw(st.sampled_from("ab")), draw(st.sampled_from([None, 1, 2, 3]))))
            found.append(Change(RowKind.INSERT, live[-1]))
    return found


def defined(functions: Sequence[Neighbour], changes: Sequence[Change]) -> list[Row]:
    """Every live row with its neighbours' values."""
    groups: dict[object, list[Row]] = {}
    for change in changes:
        rows = groups.setdefault(change.row[0], [])
        if change.kind.is_retraction:
            rows.remove(change.row)
        else:
            rows.append(change.row)
    found: list[Row] = []
    for rows in groups.values():
        for at, row in enumerate(rows):
            places = [at + each.distance for each in functions]
            values = [rows[place][1] if 0 <= place < len(rows) else None for place in places]
            found.append((*row, *values))
    return found


def ordered(functions: Sequence[Neighbour], changes: Sequence[Change]) -> list[Row]:
    """Every live row with its neighbours' values of w, by v descending, null first."""
    found: list[Row] = []
    for rows in in_order(live_rows(changes), 0, lambda row: (-null_last(row[1])[0],)):
        for place, (_, row) in enumerate(rows):
            shown = [
                neighbour(rows, place, each.distance, ("", None, None))[2] for each in functions
            ]
            found.append((*row, *shown))
    return sorted(found, key=repr)


@given(changes=ordered_changelogs(), offset=st.integers(1, 3))
def test_the_definition_is_that_of_sql(changes: list[Change], offset: int) -> None:
    over = "OVER (PARTITION BY k ORDER BY v DESC NULLS FIRST, n)"
    select = f"SELECT k, v, w, LAG(w, {offset}) {over}, LEAD(w, {offset}) {over} FROM t"
    functions = [Neighbour(function=name, column=2, offset=offset) for name in ("LAG", "LEAD")]
    found = sorted(batch_sql(select, t=(COLUMNS, live_rows(changes))), key=repr)
    assert found == ordered(functions, changes)


@settings(max_examples=60)
@given(functions=neighbours, changes=ordered_changelogs(), size=st.integers(1, 4), data=st.data())
def test_laws_in_an_order_of_columns(
    functions: list[Neighbour], changes: list[Change], size: int, data: st.DataObject
) -> None:
    """As the definition at every prefix; well formed; any order of answers; nothing is left."""
    chosen = [each.model_copy(update={"column": 2}) for each in functions]
    names = ("k", "v", "w", *(f"n{at}" for at in range(len(chosen))))
    made = LagLeadSpec.build(
        inputs=(InputSpec(types=(STRING, INT, INT), names=names[:3], key=(0,)),),
        output=RowSpec(types=(STRING, *[INT] * (2 + len(chosen))), names=names),
        neighbours=tuple(chosen),
        order=(SortColumn(column=1, descending=True),),
    )
    harness, other = OperatorHarness.on_heap(made), answered_any_way(made, data)
    stop = data.draw(st.integers(0, len(changes)))
    emitted: list[Change] = []
    for at, change in enumerate(changes):
        if at == stop:
            harness.restart(made)
        emitted += harness.run([change])
        found = sorted(materialize(emitted).elements(), key=repr)
        assert found == ordered(chosen, changes[: at + 1])
    check_well_formed(emitted)
    assert other.run(changes, epoch_changes=size) == emitted
    harness.run([Change(RowKind.DELETE, row) for row in live_rows(changes)])
    assert harness.stored_names() == set()


@settings(max_examples=60)
@given(functions=neighbours, changes=changelogs(), size=st.integers(1, 4), data=st.data())
def test_each_row_shows_its_neighbours(
    functions: list[Neighbour], changes: list[Change], size: int, data: st.DataObject
) -> None:
    """At every prefix; whatever the epochs are, and the order of answers."""

    harness = OperatorHarness.on_heap(spec(functions))
    other = answered_any_way(spec(functions), data)
    emitted: list[Change] = []
    for at, change in enumerate(changes):
        emitted += harness.run([change])
        found = sorted(materialize(emitted).elements(), key=repr)
        assert found == sorted(defined(functions, changes[: at + 1]), key=repr)
    check_well_formed(emitted)
    assert other.run(changes, epoch_changes=size) == emitted
    harness.run([Change(RowKind.DELETE, row[:2]) for row in defined(functions, changes)])
    assert harness.stored_names() == set()


@pytest.mark.parametrize("order", [(), (SortColumn(column=1),)])
def test_on_redis_a_change_costs_the_same_however_many_rows_there_are(
    redis_client: redis.Redis, order: tuple[SortColumn, ...]
) -> None:
    costs = []
    for size in (200, 2000):
        harness = OperatorHarness.on_redis(spec(order=order), redis_client)
        harness.run([insert("a", value) for value in range(size)])
        emitted = harness.run([delete("a", 100)])
        assert [each.kind.short for each in emitted] == ["-U", "+U", "-D", "-U", "+U"]
        costs.append(harness.statistics[-1]["commands"])
        harness.close()
    assert costs[0] == costs[1]
