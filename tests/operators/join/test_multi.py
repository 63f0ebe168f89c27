"""Joins of several inputs: what is emitted, and the laws."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.errors import InvalidSpec
from operators.join.multi import Attribute, MultiInput, MultiJoinSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.joins import bags, changelogs, join_of, never_below_zero, taking_back
from operators.testing.operator_harness import (
    At,
    Of,
    OperatorHarness,
    delete,
    insert,
    update_after,
    update_before,
)
from state.types import parse_type
from tests.operators.laws import answered_any_way

if TYPE_CHECKING:
    from collections.abc import Sequence

    import redis

    from operators.changelog import Change, Row

INT, STRING = parse_type("INT"), parse_type("STRING")
SIDE = InputSpec(types=(INT, STRING), names=("k", "v"), key=(0,))
BY_KEY = (Attribute(before=0, column=0),)
BY_KEY_AND_VALUE = (*BY_KEY, Attribute(before=3, column=1))
"""The third input by its value, too, which must be that of the second one."""
BY_NULL_SAFE_VALUE = (*BY_KEY, Attribute(before=3, column=1, filters_null=False))
UNIQUE_KEYS: dict[str, tuple[int, ...] | None] = {
    "contained": (0,),
    "unique": (0, 1),
    "none": None,
}


def spec(
    types: Sequence[str],
    unique: Sequence[str] = ("unique",) * 3,
    third: tuple[Attribute, ...] = BY_KEY,
    **fields: Any,
) -> MultiJoinSpec:
    attributes = ((), BY_KEY, third)
    joins = tuple(
        MultiInput(join_type=each, attributes=by, unique_key=UNIQUE_KEYS[known])
        for each, by, known in zip(("INNER", *types), attributes, unique, strict=True)
    )
    output = RowSpec(types=SIDE.types * 3, names=("k", "v", "k0", "v0", "k1", "v1"))
    return MultiJoinSpec.build(inputs=(SIDE,) * 3, output=output, joins=joins, **fields)


A, B, C = (1, "a"), (1, "b"), (1, "c")
NONE = (None, None)


def test_a_chain_without_state_between_joins() -> None:
    harness = OperatorHarness.on_heap(spec(("INNER", "LEFT")))
    changed = (1, "bb")
    emitted = [
        harness.run([each])
        for each in (
            Of(1, insert(*B)),
            Of(0, insert(*A)),
            Of(2, insert(*C)),
            Of(1, update_before(*B)),
            Of(1, update_after(*changed)),
            Of(2, delete(*C)),
            Of(0, delete(*A)),
            Of(1, delete(*changed)),
        )
    ]
    assert emitted == [
        [],
        [insert(*A, *B, *NONE)],
        [delete(*A, *B, *NONE), insert(*A, *B, *C)],
        [update_before(*A, *B, *C)],
        [update_after(*A, *changed, *C)],
        [delete(*A, *changed, *C), insert(*A, *changed, *NONE)],
        [delete(*A, *changed, *NONE)],
        [],
    ]
    assert harness.stored_names() == set()


def test_two_left_joins_pad_by_themselves() -> None:
    harness = OperatorHarness.on_heap(spec(("LEFT", "LEFT")))
    steps = [Of(0, insert(*A)), Of(2, insert(*C)), Of(1, insert(*B)), Of(1, delete(*B))]
    assert [harness.run([each]) for each in steps] == [
        [insert(*A, *NONE, *NONE)],
        [delete(*A, *NONE, *NONE), insert(*A, *NONE, *C)],
        [delete(*A, *NONE, *C), insert(*A, *B, *C)],
        [delete(*A, *B, *C), insert(*A, *NONE, *C)],
    ]


def test_each_input_has_its_own_ttl() -> None:
    harness = OperatorHarness.on_heap(spec(("INNER", "INNER"), ttl_ms=(0, 10, 0)))
    assert harness.run([Of(1, insert(*B)), Of(2, insert(*C)), At(10), Of(0, insert(*A))]) == []
    assert harness.run([Of(1, insert(*B))]) == [insert(*A, *B, *C)]


def test_a_retraction_of_nothing_is_an_orphan() -> None:
    harness = OperatorHarness.on_heap(spec(("INNER", "LEFT")))
    harness.run([Of(number, delete(*A)) for number in range(3)])
    assert harness.statistics[-1]["orphans"] == 3


def test_rows_that_can_never_match_are_kept_nowhere() -> None:
    harness = OperatorHarness.on_heap(spec(("LEFT", "LEFT"), third=BY_KEY_AND_VALUE))
    harness.run([Of(1, insert(None, "b")), Of(2, insert(None, "b")), Of(2, insert(1, None))])
    assert harness.stored_names() == set()
    assert harness.run([Of(0, insert(None, "a"))]) == [insert(None, "a", *NONE, *NONE)]


def test_a_spec_refuses_inputs_that_do_not_fit() -> None:
    with pytest.raises(InvalidSpec, match="attribute does not name"):
        spec(("INNER", "LEFT"), third=(Attribute(before=9, column=0),))
    with pytest.raises(InvalidSpec, match="3 joins for 2 inputs"):
        MultiJoinSpec.build(**{**dict(spec(("LEFT", "LEFT"))), "inputs": (SIDE, SIDE)})


ROWS = st.tuples(st.sampled_from([1, 2, None]), st.sampled_from(["x", "y", None]))


@st.composite
def cases(draw: st.DrawFn) -> tuple[MultiJoinSpec, list[Of]]:
    types = draw(st.tuples(*[st.sampled_from(["INNER", "LEFT"])] * 2))
    unique = draw(st.tuples(*[st.sampled_from(sorted(UNIQUE_KEYS))] * 3))
    third = draw(st.sampled_from([BY_KEY, BY_KEY_AND_VALUE, BY_NULL_SAFE_VALUE]))
    changes = draw(changelogs([ROWS] * 3, [UNIQUE_KEYS[each] for each in unique]))
    return spec(types, unique, third), changes


def belong(attributes: Sequence[Attribute], before: Row, row: Row) -> bool:
    return all(
        before[each.before] == row[each.column]
        and not (each.filters_null and row[each.column] is None)
        for each in attributes
    )


def expected_bag(joined: MultiJoinSpec, changes: Sequence[Of]) -> Counter[Row]:
    found, *others = bags(changes, 3)
    for number, (join, other) in enumerate(zip(joined.joins[1:], others, strict=True), start=1):
        matches = partial(belong, join.attributes)
        found = join_of(found, other, join.join_type, matches, (2 * number, 2))
    return found


@given(case=cases())
def test_every_prefix_is_the_join_of_what_came(case: tuple[MultiJoinSpec, list[Of]]) -> None:
    joined, changes = case
    harness = OperatorHarness.on_heap(joined)
    emitted: list[Change] = []
    for place, change in enumerate(changes, start=1):
        emitted += harness.run([change])
        assert never_below_zero(emitted) == expected_bag(joined, changes[:place])
    emitted += harness.run(taking_back(changes, 3))
    assert never_below_zero(emitted) == Counter()
    assert harness.stored_names() == set()


@given(case=cases(), size=st.integers(1, 5), data=st.data())
def test_the_same_whatever_is_answered_when(
    case: tuple[MultiJoinSpec, list[Of]], size: int, data: st.DataObject
) -> None:
    joined, changes = case

    plain = OperatorHarness.on_heap(joined)
    other = answered_any_way(joined, data)
    assert other.run(changes, epoch_changes=size) == plain.run(changes)


@pytest.mark.parametrize("third", [BY_KEY, BY_KEY_AND_VALUE])
def test_on_redis_as_on_heap(third: tuple[Attribute, ...], redis_client: redis.Redis) -> None:
    joined = spec(("INNER", "LEFT"), third=third)
    changes = [
        *(Of(1, insert(1, f"b{at}")) for at in range(70)),
        *(Of(2, insert(1, f"b{at}")) for at in range(0, 70, 7)),
        *(Of(0, insert(1, f"a{at}")) for at in range(3)),
        *(Of(1, delete(1, f"b{at}")) for at in range(70)),
    ]
    heap, remote = OperatorHarness.on_heap(joined), OperatorHarness.on_redis(joined, redis_client)
    assert remote.run(changes, epoch_changes=40) == heap.run(changes)
    remote.close()
