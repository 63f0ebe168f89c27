"""How much the controller may hold, and for how long it may wait.

Every queue and every wait of the controller has its bound here. Three of them are Flink's options
with Flink's defaults (FLIP-425, as released in 2.3); their names are here for whoever takes them.

Where Flink lets one record more than the limit in flight (it waits while the count is *greater*
than the limit), ours is the stricter reading: never more than the limit. Only timers, and records
of another key that a process begins, may go over it, and by no more than `overdraft_max`.
"""

from __future__ import annotations

from dataclasses import dataclass

IN_FLIGHT_OPTION = "execution.async-state.total-buffer-size"
BATCH_OPTION = "execution.async-state.active-buffer-size"
TIMEOUT_OPTION = "execution.async-state.active-buffer-timeout"


@dataclass(frozen=True, slots=True)
class ControllerLimits:
    """The bounds of one controller.

    Raises:
        ValueError: A bound is below what the controller can work with.
    """

    in_flight_max: int = 6_000
    """Records that have begun or wait for their key, and are not finished."""
    batch_max: int = 1_000
    """Requests that make the active buffer full; the most that go out together."""
    timeout_ms: int = 1_000
    """How long a request waits in a buffer that is not full; 0 or less: until nothing else can run.

    It is looked at when something is submitted or polled, since there is no second thread."""
    overdraft_max: int = 1_000
    """How many timers and begun records may be in flight beyond `in_flight_max`."""
    wait_max_ms: int = 60_000
    """How long the controller waits for any one answer before it gives up."""
    firing_rounds_max: int = 1_000
    """How often timers may register timers that are due at once, before one non-record."""

    def __post_init__(self) -> None:
        for name in ("in_flight_max", "batch_max", "wait_max_ms", "firing_rounds_max"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} begins at 1, found {getattr(self, name)}")
        if self.overdraft_max < 0:
            raise ValueError(f"overdraft_max begins at 0, found {self.overdraft_max}")


DEFAULT_LIMITS = ControllerLimits()
