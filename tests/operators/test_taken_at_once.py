"""Operators that take all changes of a key at once do what they do when they take one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.changelog import Change, RowKind
from operators.join.streaming import StreamingJoinSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.operator_harness import At, Of, OperatorHarness, insert
from state.types import parse_type
from tests.operators.columnar_paths import NEVER, epochs, stored_of
from tests.operators.rank.ranks import ASCENDING, DESCENDING, rank_spec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.spec import OperatorSpec

TTL = ((), (4, 4))
TYPES = tuple(map(parse_type, ("INT", "STRING")))
SIDE = InputSpec(types=TYPES, names=("k", "v"), key=(0,))
PAIR = RowSpec(types=TYPES * 2, names=("k", "v", "k0", "v0"))
JOIN_ROWS = st.tuples(st.sampled_from((1, 2, None)), st.sampled_from(("a", "b", "c")))
RANK_ROWS = st.tuples(
    st.integers(1, 4), st.sampled_from("ab"), st.sampled_from((None, -5, 1, 2, 3, 9))
)


def ran(spec: OperatorSpec, steps: Sequence[Any], *, at_once: bool) -> tuple[list[Change], Any]:
    """What is emitted, and all that is stored at the end."""
    # Neither is the path on columns.
    harness = OperatorHarness.on_heap(spec, columns_from=NEVER)
    if not at_once:
        harness._runner.operator.takes_bundles = False
    emitted = harness.run(steps)
    return emitted, stored_of(harness)


@given(st.data())
def test_ranks_of_input_that_grows(data: st.DataObject) -> None:
    spec = rank_spec(
        "append",
        order=data.draw(st.sampled_from((DESCENDING, ASCENDING, (*ASCENDING, *DESCENDING)))),
        start=data.draw(st.integers(1, 2)),
        end=data.draw(st.sampled_from((2, 3, 5, None))),
        with_number=data.draw(st.booleans()),
        update_before=data.draw(st.booleans()),
        ttl_ms=data.draw(st.sampled_from(TTL))[:1],
    )
    kinds = st.sampled_from((RowKind.INSERT, RowKind.INSERT, RowKind.DELETE))
    steps = data.draw(epochs(st.builds(Change, kinds, RANK_ROWS)))
    once, one_by_one = ran(spec, steps, at_once=True), ran(spec, steps, at_once=False)
    assert once[0] == one_by_one[0]
    if not spec.ttl_ms:
        # What has expired is removed when somebody looks at it, which one of the two does sooner.
        assert once[1] == one_by_one[1]


@given(st.data())
def test_joins(data: st.DataObject) -> None:
    spec = StreamingJoinSpec.build(
        inputs=(SIDE, SIDE),
        output=PAIR,
        join_type=data.draw(st.sampled_from(("INNER", "INNER", "LEFT", "FULL"))),
        unique_keys=data.draw(st.sampled_from(((None, None), ((1,), None), ((0,), (1,))))),
        filter_nulls=(data.draw(st.booleans()),),
        ttl_ms=data.draw(st.sampled_from(TTL)),
    )
    change = st.builds(Change, st.sampled_from(tuple(RowKind)), JOIN_ROWS)
    steps = data.draw(epochs(st.builds(Of, st.integers(0, 1), change)))
    assert ran(spec, steps, at_once=True) == ran(spec, steps, at_once=False)


@pytest.mark.parametrize("number", [100, 200])
def test_a_join_of_many_rows_of_one_key_is_the_same_when_its_state_is_spread(number: int) -> None:
    spec = StreamingJoinSpec.build(
        inputs=(SIDE, SIDE), output=PAIR, join_type="INNER", filter_nulls=(True,)
    )
    rows = [Of(at % 2, insert(1, f"v{at % 70}")) for at in range(number)]
    steps = [*rows, At(1), *rows[::3], At(2), Of(0, insert(1, "last"))]
    assert ran(spec, steps, at_once=True) == ran(spec, steps, at_once=False)
