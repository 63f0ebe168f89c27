"""The laws ask what they are meant to ask."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from operators.testing.operator_harness import OperatorHarness, insert
from tests.operators.aggregate.calls import call, spec
from tests.operators.laws import answered_any_way

CHANGES = [insert(key, 1, None, None) for key in "abcab"]


@settings(max_examples=10)
@given(data=st.data())
def test_every_key_has_to_wait_for_its_state(data: st.DataObject) -> None:
    """Also of an operator that reads all its state ahead, which in epochs of tasks never waits."""
    operator = spec([call("COUNT", [])])
    plain, harness = OperatorHarness.on_heap(operator), answered_any_way(operator, data)

    assert harness.run(CHANGES) == plain.run(CHANGES)

    (asked,) = harness.statistics
    assert asked["requests"] == 3
    assert asked["cache_hits"] < len(CHANGES)
