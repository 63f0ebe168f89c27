"""Group aggregation: what is emitted for what, and the laws of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operators.changelog import Change, RowKind, check_well_formed, materialize
from operators.errors import InvalidSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.batch_aggregate import grouped
from operators.testing.operator_harness import (
    At,
    OperatorHarness,
    delete,
    insert,
    update_after,
    update_before,
)
from state.errors import OperatorFailed
from state.key_groups import key_group
from state.primitives.inspection import StateContent, read_state
from state.registry import RegisteredState
from state.ttl import DISABLED, TtlClock
from state.types import parse_type
from tests.operators.aggregate.calls import (
    TYPES,
    call,
    changelogs,
    few_calls,
    spec,
    taken_back,
)
from tests.operators.laws import emits_the_same_any_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from operators.aggregate.group_aggregate import GroupAggregateSpec
    from operators.changelog import Row

MODEST = settings(max_examples=25)
"""Each example computes 25 calls, several times over."""
COUNT_AND_SUM = (call("COUNT", []), call("SUM", needs_retraction=True))


def row(key: str | None, value: int | None = None, text: str | None = None) -> Row:
    return (key, value, text, None)


def run(operator: GroupAggregateSpec, *steps: Change | At, **options: Any) -> list[Change]:
    return OperatorHarness.on_heap(operator).run(steps, **options)


def test_a_group_comes_changes_and_goes() -> None:
    assert run(
        spec(COUNT_AND_SUM),
        insert(*row("a", 1)),
        insert(*row("a", 2)),
        delete(*row("a", 1)),
        delete(*row("a", 2)),
        insert(*row("a", 5)),
    ) == [
        insert("a", 1, 1),
        update_before("a", 1, 1),
        update_after("a", 2, 3),
        update_before("a", 2, 3),
        update_after("a", 1, 2),
        delete("a", 1, 2),
        insert("a", 1, 5),
    ]


def test_emissions_follow_their_causes_across_groups() -> None:
    """All changes of a group are handed over at once; what they emit goes where each stood."""
    steps = [insert(*row("b", 1)), insert(*row("a", 1)), insert(*row("b", 2)), insert(*row("a", 2))]
    operator = spec(COUNT_AND_SUM, generate_update_before=False)
    assert [each.row for each in run(operator, *steps)] == [
        ("b", 1, 1),
        ("a", 1, 1),
        ("b", 2, 3),
        ("a", 2, 3),
    ]


def test_update_before_is_left_out_where_nobody_asks_for_it() -> None:
    operator = spec(COUNT_AND_SUM, generate_update_before=False)
    assert run(operator, insert(*row("a", 1)), insert(*row("a", 2)), delete(*row("a", 1))) == [
        insert("a", 1, 1),
        update_after("a", 2, 3),
        update_after("a", 1, 2),
    ]


def test_an_equal_result_is_not_emitted_again() -> None:
    operator = spec([call("MAX", needs_retraction=True)])
    assert run(operator, insert(*row("a", 2)), insert(*row("a", 1)), delete(*row("a", 1))) == [
        insert("a", 2)
    ]


def test_with_a_ttl_an_equal_result_is_emitted_again() -> None:
    operator = spec([call("MAX", needs_retraction=True)], ttl_ms=(10,))
    assert run(operator, insert(*row("a", 2)), insert(*row("a", 1))) == [
        insert("a", 2),
        update_before("a", 2),
        update_after("a", 2),
    ]


@pytest.mark.parametrize(
    "operator", [{}, {"bundles": True}, {"bundles": True, "is_two_phase": True}]
)
def test_what_is_taken_back_of_no_group_is_an_orphan(operator: dict[str, Any]) -> None:
    harness = OperatorHarness.on_heap(spec(COUNT_AND_SUM, **operator))
    assert harness.run([delete(*row("a", 1)), update_before(*row("b", 1))]) == []
    assert harness.statistics[-1]["orphans"] == 2
    assert harness.stored_names() == {b"orphans", b"counters"}
    assert harness.run([insert(*row("a", 1))]) == [insert("a", 1, 1)]


def test_null_is_a_group() -> None:
    assert run(spec(COUNT_AND_SUM), insert(*row(None, 1)), insert(*row(None, 1))) == [
        insert(None, 1, 1),
        update_before(None, 1, 1),
        update_after(None, 2, 2),
    ]


def test_a_total_is_there_from_the_first_epoch_on_and_stays() -> None:
    """As `SELECT COUNT(*), SUM(v)` gives one row of any table."""
    harness = OperatorHarness.on_heap(spec(COUNT_AND_SUM, key=()))
    assert harness.run_epoch([]) == [insert(0, None)]
    assert harness.run_epoch([]) == []
    assert harness.run([insert(*row("a", 1)), insert(*row("b", 2)), delete(*row("a", 1))]) == [
        update_before(0, None),
        update_after(1, 1),
        update_before(1, 1),
        update_after(2, 3),
        update_before(2, 3),
        update_after(1, 2),
    ]
    assert harness.run([delete(*row("b", 2)), delete(*row("b", 2))]) == [
        update_before(1, 2),
        update_after(0, None),
    ]
    assert harness.statistics[-1]["orphans"] == 1


@pytest.mark.parametrize("is_two_phase", [False, True])
def test_a_total_of_a_bundle_that_takes_itself_back_is_that_of_no_rows(is_two_phase: bool) -> None:
    harness = OperatorHarness.on_heap(
        spec(COUNT_AND_SUM, key=(), bundles=True, is_two_phase=is_two_phase)
    )
    assert harness.run([insert(*row("a", 1)), delete(*row("a", 1))]) == [insert(0, None)]
    assert harness.run([insert(*row("a", 2))]) == [update_before(0, None), update_after(1, 2)]


def test_a_total_that_has_expired_stays_with_those_who_have_it() -> None:
    """Expiry emits nothing, nor does the epoch that finds nothing left."""
    harness = OperatorHarness.on_heap(spec(COUNT_AND_SUM, key=(), ttl_ms=(10,)))
    assert harness.run([insert(*row("a", 1))])[-1] == update_after(1, 1)
    assert harness.run([At(10), At(20)]) == []
    assert harness.run([insert(*row("a", 2))]) == [insert(1, 2)]


def test_a_bundle_is_emitted_once() -> None:
    harness = OperatorHarness.on_heap(spec(COUNT_AND_SUM, bundles=True))
    assert harness.run([insert(*row("a", 1)), insert(*row("b", 1)), insert(*row("a", 2))]) == [
        insert("b", 1, 1),
        insert("a", 2, 3),
    ]
    assert harness.run([delete(*row("a", 1)), insert(*row("a", 1)), delete(*row("b", 1))]) == [
        delete("b", 1, 1)
    ]


def test_a_bundle_drops_what_is_taken_back_first_of_no_group() -> None:
    """Flink's one-phase mini-batch drops it; two phases net it."""
    steps = [delete(*row("a", 1)), insert(*row("a", 1)), insert(*row("a", 2))]
    one = OperatorHarness.on_heap(spec(COUNT_AND_SUM, bundles=True))
    two = OperatorHarness.on_heap(spec(COUNT_AND_SUM, bundles=True, is_two_phase=True))
    assert one.run(steps) == [insert("a", 2, 3)]
    assert one.statistics[-1]["orphans"] == 1
    assert two.run(steps) == [insert("a", 1, 2)]


def test_two_phases_take_back_what_came_in_the_bundle_first() -> None:
    calls = [call("LISTAGG", needs_retraction=True)]
    steps: Sequence[Change] = [insert(*row("a", 1, "x")), delete(*row("a", 1, "x"))]
    for is_two_phase, expected in ((True, []), (False, [("a", "x,y"), ("a", "y,x")])):
        harness = OperatorHarness.on_heap(spec(calls, bundles=True, is_two_phase=is_two_phase))
        harness.run([insert(*row("a", 1, "x")), insert(*row("a", 1, "y"))])
        assert [each.row for each in harness.run(steps)] == expected


def test_a_group_expires_and_begins_anew() -> None:
    operator = spec(COUNT_AND_SUM, ttl_ms=(10,))
    assert run(
        operator,
        insert(*row("a", 1)),
        At(9),
        insert(*row("a", 2)),
        At(18),
        insert(*row("a", 4)),
        At(28),
        delete(*row("a", 4)),
        insert(*row("a", 8)),
    ) == [
        insert("a", 1, 1),
        update_before("a", 1, 1),
        update_after("a", 2, 3),
        update_before("a", 2, 3),
        update_after("a", 3, 7),
        insert("a", 1, 8),
    ]


def test_distinct_values_expire_one_by_one() -> None:
    """A value that comes again does not live longer; once it is gone, it counts again."""
    operator = spec([call("COUNT", [2], is_distinct=True)], ttl_ms=(10,), needs_retraction=False)
    x, y = insert(*row("a", 1, "x")), insert(*row("a", 1, "y"))
    found = run(operator, x, At(6), y, At(9), x, At(12), x, At(17), y)
    assert [each.row[1] for each in found if each.kind is not RowKind.UPDATE_BEFORE] == [
        1,
        2,
        2,
        3,
        4,
    ]


def test_an_extreme_whose_values_have_expired_stays_until_it_changes() -> None:
    operator = spec([call("MIN", needs_retraction=True)], ttl_ms=(10,))
    found = run(
        operator,
        insert(*row("a", 1)),
        At(6),
        insert(*row("a", 3)),
        At(12),
        insert(*row("a", 2)),
        At(13),
        delete(*row("a", 2)),
    )
    assert [each.row for each in found if each.kind is not RowKind.UPDATE_BEFORE] == [("a", 1)] * 4


def test_what_is_not_a_number_is_equal_to_itself() -> None:
    double = parse_type("DOUBLE")
    largest = call("MAX").model_copy(update={"argument_types": (double,), "result_type": double})
    operator = spec([largest], needs_retraction=False)
    types = (TYPES[0], double, *TYPES[2:])
    operator = operator.model_copy(
        update={"inputs": (InputSpec(types=types, names=("k", "v", "s", "b"), key=(0,)),)}
    )
    found = run(operator, insert("a", float("nan"), None, None), insert("a", 1.0, None, None))
    assert len(found) == 1


def test_rows_are_not_taken_back_where_the_plan_says_so() -> None:
    with pytest.raises(OperatorFailed):
        run(spec(COUNT_AND_SUM, needs_retraction=False), insert(*row("a", 1)), delete(*row("a", 1)))


def test_a_spec_whose_columns_do_not_fit_is_refused() -> None:
    one = InputSpec(types=TYPES, names=("k", "v", "s", "b"), key=(0,))
    output = RowSpec(types=TYPES[:1], names=("k",))
    with pytest.raises(InvalidSpec, match="1 columns for 2 calls"):
        spec(COUNT_AND_SUM).build(
            inputs=(one,),
            output=output,
            calls=COUNT_AND_SUM,
            needs_retraction=True,
            generate_update_before=True,
        )


def test_state_is_shown_in_its_own_words() -> None:
    calls = [
        call("COUNT", [], name="c"),
        call("MIN", name="mn", needs_retraction=True),
        call("COUNT", [2], name="cd", is_distinct=True, needs_retraction=True),
    ]
    operator = spec(calls)
    harness = OperatorHarness.on_heap(operator)
    harness.run([insert(*row("a", 2, "x")), insert(*row("a", 1, "x"))])
    view, group = harness.view(), key_group(TYPES[:1], ["a"], 4)

    def shown(name: str, kind: str) -> list[tuple[Any, Any]]:
        content = read_state(
            view, RegisteredState("", name, kind, (), DISABLED), group, b'["a"]', clock=TtlClock(0)
        )
        assert isinstance(content, StateContent)
        return [(each.key, each.value) for each in content.elements]

    assert shown("groupAggregateState", "value") == [
        (None, {"rows": 2, "c": 2, "mn": [1, 2], "cd": 1})
    ]
    assert shown("groupAggregateState_distinct_0", "map") == [(["x"], [2])]
    assert [value for _, value in shown("groupAggregateState_values_1", "sorted_map")] == [1, 1]


@MODEST
@given(changes=changelogs(), size=st.integers(1, 4), key=st.sampled_from([(0,), (), (0, 2)]))
def test_the_table_is_what_the_definition_says(
    changes: list[Change], size: int, key: tuple[int, ...]
) -> None:
    calls = few_calls(needs_retraction=True)
    harness = OperatorHarness.on_heap(spec(calls, key=key))
    emitted: list[Change] = []
    for start in range(0, len(changes), size):
        emitted += harness.run(changes[start : start + size])
        assert table(emitted) == expected(calls, key, changes[: start + size])
    check_well_formed(map(hashable, emitted))
    emitted += harness.run(taken_back(changes))
    if key:
        assert harness.stored_names() == set()
    elif changes:
        assert table(emitted) == expected(calls, key, [])


@MODEST
@given(changes=changelogs(), size=st.integers(1, 9), is_two_phase=st.booleans())
def test_bundles_lead_to_the_same_table(
    changes: list[Change], size: int, is_two_phase: bool
) -> None:
    """But for the order of values where a bundle takes back what came in it."""
    calls = few_calls(needs_retraction=True)
    if is_two_phase:
        ordered = ("FIRST_VALUE", "LAST_VALUE", "LISTAGG", "ARRAY_AGG")
        calls = [each for each in calls if each.function not in ordered]
    harness = OperatorHarness.on_heap(spec(calls, bundles=True, is_two_phase=is_two_phase))
    emitted = harness.run(changes, epoch_changes=size)
    assert table(emitted) == expected(calls, (0,), changes)
    check_well_formed(map(hashable, emitted))
    harness.run(taken_back(changes))
    assert harness.stored_names() == set()


@MODEST
@given(changes=changelogs(), size=st.integers(1, 5), data=st.data())
def test_epochs_and_the_order_of_answers_make_no_difference(
    changes: list[Change], size: int, data: st.DataObject
) -> None:
    emits_the_same_any_way(spec(few_calls(needs_retraction=True)), changes, data, size)


@MODEST
@given(changes=changelogs(), size=st.integers(1, 5), is_two_phase=st.booleans(), data=st.data())
def test_of_bundles_the_order_of_answers_makes_no_difference(
    changes: list[Change], size: int, is_two_phase: bool, data: st.DataObject
) -> None:
    operator = spec(few_calls(needs_retraction=True), bundles=True, is_two_phase=is_two_phase)
    emits_the_same_any_way(operator, changes, data, size)


@MODEST
@given(changes=changelogs(), cut=st.integers(0, 14))
def test_a_restart_changes_nothing(changes: list[Change], cut: int) -> None:
    operator = spec(few_calls(needs_retraction=True))
    harness = OperatorHarness.on_heap(operator)
    emitted = harness.run(changes[:cut])
    harness.restart(operator)
    assert [*emitted, *harness.run(changes[cut:])] == run(operator, *changes)


@MODEST
@given(changes=changelogs(retracts=False), size=st.integers(1, 5))
def test_without_retraction_the_table_is_the_same(changes: list[Change], size: int) -> None:
    calls = few_calls(needs_retraction=False)
    emitted = run(spec(calls, needs_retraction=False), *changes, epoch_changes=size)
    assert table(emitted) == expected(calls, (0,), changes)


@settings(
    max_examples=10,
    # The harness drops what the example before left.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(changes=changelogs(most=10), size=st.integers(1, 5), bundles=st.booleans())
def test_on_redis_as_on_heap(
    redis_client: redis.Redis, changes: list[Change], size: int, bundles: bool
) -> None:
    operator = spec(few_calls(needs_retraction=True), bundles=bundles, is_two_phase=bundles)
    remote = OperatorHarness.on_redis(operator, redis_client)
    local = OperatorHarness.on_heap(operator)
    assert remote.run(changes, epoch_changes=size) == local.run(changes, epoch_changes=size)
    remote.close()


def test_an_epoch_costs_the_same_round_trips_whatever_the_group_holds(
    redis_client: redis.Redis,
) -> None:
    """The next least value of a thousand is found by one read of the range's end."""
    operator = spec(
        [
            call("MIN", needs_retraction=True),
            call("FIRST_VALUE", [1], needs_retraction=True, result_type="INT"),
        ]
    )
    trips = []
    for size in (100, 1000):
        harness = OperatorHarness.on_redis(operator, redis_client)
        harness.run([insert(*row("a", value)) for value in range(size)])
        assert harness.run([delete(*row("a", 0))])[-1] == update_after("a", 1, 1)
        trips.append({name: harness.statistics[-1][name] for name in ("round_trips", "commands")})
        harness.close()
    assert trips[0] == trips[1]
    assert trips[0]["round_trips"] <= 8


def test_an_epoch_costs_the_same_round_trips_however_many_groups_it_touches(
    redis_client: redis.Redis,
) -> None:
    """Accumulators and small collections are read together; what is written goes together."""
    calls = [
        *COUNT_AND_SUM,
        call("MIN", needs_retraction=True),
        call("COUNT", [2], is_distinct=True, needs_retraction=True),
    ]
    for groups in (1, 50):
        harness = OperatorHarness.on_redis(spec(calls), redis_client)
        changes = [insert(*row(f"k{at}", 1, "x")) for at in range(groups)]
        harness.run(changes)
        harness.run(changes)
        assert harness.statistics[-1]["round_trips"] == 2
        harness.close()


def hashable(change: Change) -> Change:
    return Change(change.kind, tuple(repr(each) for each in change.row))


def table(emitted: Sequence[Change]) -> list[tuple[object, ...]]:
    return sorted(materialize(map(hashable, emitted)))


def expected(
    calls: Sequence[Any], key: Sequence[int], changes: Sequence[Change]
) -> list[tuple[object, ...]]:
    rows = ((*group, *values) for group, values in grouped(calls, key, changes).items())
    return sorted(tuple(repr(each) for each in one) for one in rows)
