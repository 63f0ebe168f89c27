"""Conditions of joins that are expressions of the plan."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.expressions import rex_to_json
from operators.join.interval import IntervalJoinSpec
from operators.join.lookup import LookupJoinSpec, LookupKey
from operators.join.lookup_table import TableRows
from operators.join.multi import Attribute, MultiInput, MultiJoinSpec
from operators.join.semi_anti import SemiAntiJoinSpec
from operators.join.streaming import StreamingJoinSpec
from operators.join.temporal import TemporalJoinSpec
from operators.spec import InputSpec, RowSpec
from operators.testing.joins import bags, changelogs, join_of, never_below_zero
from operators.testing.operator_harness import (
    Of,
    OperatorHarness,
    Watermark,
    delete,
    insert,
    update_after,
)
from service.plan.rex import parse_rex
from state.types import parse_type

if TYPE_CHECKING:
    from collections import Counter

    from operators.changelog import Row

INT = parse_type("INT")
SIDE = InputSpec(types=(INT, INT), names=("k", "v"), key=(0,))
OUTPUT = RowSpec(types=SIDE.types * 2, names=("k", "v", "k0", "v0"))


def ref(index: int, logical: str = "INT") -> dict[str, Any]:
    return {"kind": "INPUT_REF", "inputIndex": index, "type": logical}


def literal(value: int) -> dict[str, Any]:
    return {"kind": "LITERAL", "value": value, "type": "INT NOT NULL"}


def call(name: str, *operands: Any, logical: str = "BOOLEAN") -> Any:
    raw = {"kind": "CALL", "internalName": name, "operands": list(operands), "type": logical}
    return rex_to_json(parse_rex({**raw, "syntax": "BINARY"}, ""))


LESS = call("$<$1", ref(1), ref(3))
"""The left value is less than the right one; unknown with a null."""


def less(one: Row, other: Row) -> bool:
    of_left, of_right = one[1], other[1]
    if one[0] is None or not isinstance(of_left, int) or not isinstance(of_right, int):
        return False
    return one[0] == other[0] and of_left < of_right


ROWS = st.tuples(st.sampled_from([1, 2, None]), st.sampled_from([1, 2, 3, None]))


@given(
    join_type=st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]),
    changes=changelogs([ROWS, ROWS], [(), ()]),
)
def test_a_join_by_more_than_its_key(join_type: str, changes: list[Of]) -> None:
    kind = SemiAntiJoinSpec if join_type in ("SEMI", "ANTI") else StreamingJoinSpec
    output = SIDE.part((0, 1)) if kind is SemiAntiJoinSpec else OUTPUT
    joined = kind.build(
        inputs=(SIDE, SIDE),
        output=output,
        join_type=join_type,
        filter_nulls=(True,),
        condition=LESS,
    )
    emitted = OperatorHarness.on_heap(joined).run(changes)
    expected = join_of(*bags(changes, 2), join_type, less, (2, 2))
    assert never_below_zero(emitted) == expected


@given(changes=changelogs([ROWS] * 3, [()] * 3), join_type=st.sampled_from(["INNER", "LEFT"]))
def test_a_chain_by_more_than_its_key(changes: list[Of], join_type: str) -> None:
    by_key = (Attribute(before=0, column=0),)
    joins = (
        MultiInput(),
        MultiInput(join_type=join_type, attributes=by_key, condition=LESS),
        MultiInput(join_type=join_type, attributes=by_key),
    )
    output = RowSpec(types=SIDE.types * 3, names=tuple("abcdef"))
    joined = MultiJoinSpec.build(inputs=(SIDE,) * 3, output=output, joins=joins)
    emitted = OperatorHarness.on_heap(joined).run(changes)
    first, second, third = bags(changes, 3)
    pairs = join_of(first, second, join_type, less, (2, 2))
    same: Counter[Row] = join_of(
        pairs, third, join_type, lambda a, b: a[0] is not None and a[0] == b[0], (4, 2)
    )
    assert never_below_zero(emitted) == same


TIMED = InputSpec(
    types=(INT, INT, parse_type("TIMESTAMP_LTZ(3)")), names=("k", "v", "ts"), key=(0,)
)


@pytest.mark.parametrize("kind", ["temporal", "interval"])
def test_joins_in_event_time_by_more_than_their_key(kind: str) -> None:
    now = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    common: dict[str, Any] = {
        "inputs": (TIMED, TIMED),
        "output": RowSpec(types=TIMED.types * 2, names=tuple("abcdef")),
        "join_type": "LEFT",
        "filter_nulls": (True,),
        "condition": call("$<$1", ref(1), ref(4)),
    }
    if kind == "temporal":
        joined: Any = TemporalJoinSpec.build(**common, left_time=2, right_time=2)
    else:
        joined = IntervalJoinSpec.build(**common, lower_ms=0, upper_ms=0, times=(2, 2))
    harness = OperatorHarness.on_heap(joined)
    steps = [Of(1, insert(1, 5, now)), Of(0, insert(1, 4, now)), Of(0, insert(1, 6, now))]
    emitted = harness.run([*steps, Watermark(5_000)])
    assert emitted == [insert(1, 4, now, 1, 5, now), insert(1, 6, now, None, None, None)]


def test_a_look_up_filters_projects_and_compares() -> None:
    table = RowSpec(types=(INT, INT), names=("pid", "w"))
    projected = RowSpec(types=(INT,), names=("w10",))
    joined = LookupJoinSpec.build(
        inputs=(SIDE,),
        output=RowSpec(types=(INT, INT, INT), names=("k", "v", "w10")),
        join_type="LEFT",
        table=TableRows(rows=("[1,1]", "[1,2]", "[1,3]")),
        table_row=table,
        keys=(LookupKey(column=0, field=0),),
        pre_filter=call("$>$1", ref(1), literal(0)),
        filter=call("$<$1", ref(1), literal(3)),
        projection=(call("$*$1", ref(1), literal(10), logical="INT"),),
        projected=projected,
        condition=call("$<$1", ref(1), ref(2)),
    )
    steps = [insert(1, 5), insert(1, 15), insert(1, 25), insert(1, 0)]
    assert OperatorHarness.on_heap(joined).run(steps) == [
        insert(1, 5, 10),
        insert(1, 5, 20),
        insert(1, 15, 20),
        insert(1, 25, None),
        insert(1, 0, None),
    ]
    kept = joined.model_copy(update={"materializes": True})
    harness = OperatorHarness.on_heap(kept)
    assert harness.run([insert(1, 15), delete(1, 15), delete(1, 0)])[1:] == [
        delete(1, 15, 20),
        delete(1, 0, None),
    ]
    # A row that is not looked up takes the place of one that was, of which nothing is left.
    assert harness.run([insert(1, 15), update_after(1, 0), delete(1, 0)]) == [
        insert(1, 15, 20),
        update_after(1, 0, None),
        delete(1, 0, None),
    ]
    assert harness.stored_names() == set()
