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
from operators.testing.operator_harness import At, OperatorHarness, delete, insert
from state.backends.heap import HeapBackend
from state.errors import OperatorFailed
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("k", "tiny", "big", "passes")
TYPES = tuple(map(parse_type, ("STRING", "TINYINT", "BIGINT", "BOOLEAN")))
NEVER = 1 << 30
"""No epoch has so many changes."""
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


@st.composite
def any_steps(draw: st.DrawFn, kinds: Sequence[RowKind]) -> list[Change | At]:
    """Changes that need not be well formed: rows that never came are taken back, too."""
    change = st.builds(Change, st.sampled_from(kinds), ROWS)
    found: list[Change | At] = []
    for time_ms, changes in enumerate(draw(st.lists(st.lists(change, max_size=12), max_size=4))):
        found += [*changes, At(3 * (time_ms + 1))]
    return found


def ran(
    operator: GroupAggregateSpec, steps: Sequence[Change | At], columns_from: int
) -> tuple[list[Change], Any, list[dict[str, int]]]:
    """What is emitted, all that is stored at the end, and some counts of each epoch."""
    harness = OperatorHarness.on_heap(operator, columns_from=columns_from)
    emitted = harness.run(steps)
    harness.stored_names()
    assert isinstance(harness._backend, HeapBackend)
    groups = harness._backend.store.key_groups
    stored = {
        number: {
            name: held if isinstance(held, dict) else dict(held.scores)
            for name, held in group.space.structures.items()
            if name not in (b"orphans", b"meta")
        }
        for number, group in groups.items()
    }
    told = ("rows_in", "rows_out", "orphans", "keys", "expired")
    return emitted, stored, [{name: each[name] for name in told} for each in harness.statistics]


@given(st.data())
def test_both_paths_emit_and_store_the_same(data: st.DataObject) -> None:
    operator = data.draw(specs())
    kinds = tuple(RowKind) if operator.needs_retraction else (RowKind.INSERT, RowKind.UPDATE_AFTER)
    steps = data.draw(any_steps(kinds))
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
    assert [str(each.kind.short) for each in emitted] == ["+I", "+I", "-D", "+U", "+I"]
    assert [each.row for each in emitted[2:]] == [("a", 1, 1), ("b", 2, 5), ("a", 1, 4)]
    assert counts == [{"rows_in": 6, "rows_out": 5, "orphans": 1, "keys": 3, "expired": 0}]


def test_a_long_epoch_of_one_key_keeps_each_extreme_on_its_way() -> None:
    calls = [call("MAX", 2, retracts=False), call("MIN", 2, retracts=False)]
    operator = spec(calls, needs_retraction=False, generate_update_before=False)
    numbers = [(at * 7919) % 1009 for at in range(1000)]
    steps = [insert("a", None, each, None) for each in numbers]
    emitted = ran(operator, steps, 1)[0]
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
