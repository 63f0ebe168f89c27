"""Laws that hold of every keyed operator, whatever it does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from operators.testing.operator_harness import OperatorHarness
from state.testing.execution import ManualChannel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Change
    from operators.spec import OperatorSpec


def answered_any_way(spec: OperatorSpec, data: st.DataObject) -> OperatorHarness:
    """An operator on heap whose requests are answered in whatever order is drawn."""

    def any_order(count: int) -> Sequence[int]:
        return data.draw(st.permutations(range(count)))

    return OperatorHarness.on_heap(
        spec, channel_of=lambda session: ManualChannel(session, any_order)
    )


def emits_the_same_any_way(
    spec: OperatorSpec, steps: Sequence[object], data: st.DataObject, size: int
) -> list[Change]:
    """Whatever the size of epochs, and in whatever order requests are answered.

    Returns:
        What is emitted.
    """
    emitted = OperatorHarness.on_heap(spec).run(steps)
    assert answered_any_way(spec, data).run(steps, epoch_changes=size) == emitted
    return emitted
