"""The columnar path of a group aggregation gives what the other path gives, changes and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.aggregate import AggregateCall
from operators.aggregate.columnar_aggregate import ColumnarAggregate
from operators.aggregate.group_aggregate import GroupAggregateSpec
from operators.changelog import Change, RowKind
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import OperatorHarness, delete, insert
from state.errors import OperatorFailed
from state.types import parse_type
from tests.operators.columnar_paths import NEVER, epochs, ran

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("k", "tiny", "big", "passes")
TYPES = tuple(map(parse_type, ("STRING", "TINYINT", "BIGINT", "BOOLEAN")))
_FUNCTIONS = ("COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX")
_REMEMBERS = ("MIN", "MAX")


def call(function: str, column: int, *, retracts: bool, passes: bool = False) -> AggregateCall:
    """A call over one of the numbers; MIN and MAX never remember."""
    return AggregateCall(
        function=function,
        name=f"{function}%{column}",
        arguments=(column,),
        argument_types=(TYPES[column],),
        result_type=parse_type("BIGINT") if function == "COUNT" else TYPES[column],
        filter=3 if passes else None,
        needs_retraction=retracts and function not in _REMEMBERS,
    )


def spec(calls: Sequence[AggregateCall], **fields: Any) -> GroupAggregateSpec:
    key = fields.pop("key", (0,))
    types = (*(TYPES[at] for at in key), *(each.result_type for each in calls))
    names = tuple(f"c{at}" for at in range(len(types)))
    given_fields = {"needs_retraction": True, "generate_update_before": True, **fields}
    return GroupAggregateSpec.build(
        inputs=(InputSpec(types=TYPES, names=NAMES, key=key),),
        output=RowSpec(types=types, names=names),
        calls=tuple(calls),
        **given_fields,
    )


@st.composite
def specs(draw: st.DrawFn) -> GroupAggregateSpec:
    retracts = draw(st.booleans())
    some = st.builds(
        call,
        st.sampled_from(_FUNCTIONS),
        st.sampled_from((1, 2)),
        retracts=st.just(retracts),
        passes=st.booleans(),
    )
    return spec(
        draw(st.lists(some, min_size=1, max_size=4)),
        key=draw(st.sampled_from(((0,), (), (0, 1)))),
        needs_retraction=retracts,
        generate_update_before=draw(st.booleans()),
        bundles=draw(st.booleans()),
        ttl_ms=draw(st.sampled_from(((), (5,)))),
    )


ROWS = st.tuples(
    st.sampled_from(("a", "b", None)),
    st.sampled_from((-128, -7, 0, 1, 127, None)),
    st.sampled_from((-(2**63), -3, 5, 2**63 - 1, None)),
    st.sampled_from((True, False, None)),
)


@given(st.data())
def test_both_paths_emit_and_store_the_same(data: st.DataObject) -> None:
    operator = data.draw(specs())
    kinds = tuple(RowKind) if operator.needs_retraction else (RowKind.INSERT, RowKind.UPDATE_AFTER)
    steps = data.draw(epochs(st.builds(Change, st.sampled_from(kinds), ROWS)))
    assert ColumnarAggregate.of(operator) is not None
    assert ran(operator, steps, 1) == ran(operator, steps, NEVER)


def test_the_least_sum_by_a_count_below_zero_wraps_around() -> None:
    """Found by a reviewer: numpy warns of it."""
    calls = [call("AVG", 2, retracts=True)]
    rows = [("a", 0, None, True), ("a", 0, None, True)]
    steps = [*(insert(*each) for each in rows), delete("a", 0, -(2**63), True)]
    assert ran(spec(calls), steps, 1) == ran(spec(calls), steps, NEVER)


def test_groups_that_end_within_an_epoch_go_the_other_way_beside_those_that_do_not() -> None:
    calls = [call("COUNT", 2, retracts=True), call("SUM", 1, retracts=True)]
    steps = [
        insert("a", 1, 1, None),
        insert("b", 2, 2, None),
        delete("a", 1, 1, None),
        delete("c", 9, 9, None),
        insert("b", 3, 3, None),
        insert("a", 4, 4, None),
    ]
    emitted, _, counts = ran(spec(calls, generate_update_before=False), steps, 1)
    assert [str(kind.short) for kind, _ in emitted] == ["+I", "+I", "-D", "+U", "+I"]
    assert [row for _, row in emitted[2:]] == [b'["a",1,1]', b'["b",2,5]', b'["a",1,4]']
    assert counts == [{"rows_in": 6, "rows_out": 5, "orphans": 1, "keys": 3, "expired": 0}]


def test_a_long_epoch_of_one_key_keeps_each_extreme_on_its_way() -> None:
    calls = [call("MAX", 2, retracts=False), call("MIN", 2, retracts=False)]
    operator = spec(calls, needs_retraction=False, generate_update_before=False)
    numbers = [(at * 7919) % 1009 for at in range(1000)]
    steps = [insert("a", None, each, None) for each in numbers]
    emitted = OperatorHarness.on_heap(operator, columns_from=1).run(steps)
    # What has been seen before is never seen again: extremes only move away from each other.
    known = [("a", max(numbers[: n + 1]), min(numbers[: n + 1])) for n in range(len(numbers))]
    assert [each.row for each in emitted] == list(dict.fromkeys(known))


def test_rows_taken_back_that_never_should_be_fail_on_both_paths() -> None:
    operator = spec([call("COUNT", 2, retracts=False)], needs_retraction=False)
    for columns_from in (1, NEVER):
        with pytest.raises(OperatorFailed):
            ran(operator, [insert("a", 1, 1, None), delete("a", 1, 1, None)], columns_from)


@pytest.mark.parametrize(
    ("function", "fields"),
    [("SUM", {"is_distinct": True}), ("MIN", {"needs_retraction": True})],
)
def test_what_remembers_values_has_no_columnar_path(function: str, fields: dict[str, Any]) -> None:
    remembering = call(function, 1, retracts=False).model_copy(update=fields)
    assert ColumnarAggregate.of(spec([remembering])) is None
