"""Bounds of the controller."""

from __future__ import annotations

import pytest

from state.execution.limits import ControllerLimits


def test_defaults_are_those_of_flink() -> None:
    limits = ControllerLimits()

    assert (limits.in_flight_max, limits.batch_max, limits.timeout_ms) == (6_000, 1_000, 1_000)


@pytest.mark.parametrize(
    "bound", ["in_flight_max", "batch_max", "wait_max_ms", "firing_rounds_max"]
)
def test_bounds_without_which_nothing_could_run_are_refused(bound: str) -> None:
    with pytest.raises(ValueError, match=f"{bound} begins at 1, found 0"):
        ControllerLimits(**{bound: 0})


def test_a_negative_overdraft_is_refused() -> None:
    with pytest.raises(ValueError, match="overdraft_max"):
        ControllerLimits(overdraft_max=-1)
