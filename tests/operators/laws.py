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
    from state.primitives.session import StateSession


def answered_any_way(spec: OperatorSpec, data: st.DataObject) -> OperatorHarness:
    """An operator on heap whose requests are answered one by one, in whatever order is drawn.

    Nothing is prefetched, else most operators would never wait; few changes are in flight and few
    requests share a batch, so that changes begin between the steps of others. When an epoch begins,
    nothing of the one before it may be in flight.
    """
    limits = {
        "in_flight_max": data.draw(st.integers(1, 6), label="in flight"),
        "batch_max": data.draw(st.integers(1, 3), label="batch"),
    }
    channels: list[ManualChannel] = []

    def any_one(count: int) -> Sequence[int]:
        return [data.draw(st.integers(0, count - 1))]

    def channel_of(session: StateSession) -> ManualChannel:
        while channels:
            channels.pop().check_over()
        channels.append(ManualChannel(session, any_one))
        return channels[0]

    return OperatorHarness.on_heap(
        spec.model_copy(update={"limits": limits}), channel_of=channel_of, prefetches=False
    )


def emits_the_same_any_way(
    spec: OperatorSpec, steps: Sequence[object], data: st.DataObject, size: int
) -> list[Change]:
    """Whatever the size of epochs, and in whatever order requests are answered.

    An operator that works by bundles, which are epochs, is given the same ones both times.

    Returns:
        What is emitted.
    """
    plain = OperatorHarness.on_heap(spec)
    emitted = plain.run(steps, epoch_changes=size if spec.bundles else None)
    assert answered_any_way(spec, data).run(steps, epoch_changes=size) == emitted
    return emitted
