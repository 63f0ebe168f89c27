"""What a controller has done and holds: the same numbers for gauges, tests and people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ControllerStatistics:
    """A controller at one moment. All gauges are 0 when it is drained, failed or cancelled."""

    in_flight: int
    """Records that have begun or wait for their key. Flink: numInFlightRecords."""
    active: int
    """Requests that gather for the next batch. Flink: activeBufferSize."""
    executing: int
    """Requests that were sent and have not come back."""
    blocking: int
    """Records that wait for their key. Flink: blockingBufferSize."""
    blocking_keys: int
    """Keys that records wait for."""
    held_keys: int
    """Keys that a record in flight holds. Flink: numBlockingKeys."""
    closed_stretches: int
    """Non-records that wait for records before them."""
    in_flight_peak: int
    """The most records that were in flight at a time."""
    active_peak: int
    """The most requests that gathered for a batch."""
    blocking_peak: int
    """The most records that waited for their key at a time."""
    blocking_keys_peak: int
    """The most keys that records waited for at a time."""
    completed: int
    """Records and turns of timers that ended."""
    never_waited: int
    """Of these, the ones that ended without a request that had to be sent, in their first step."""
    batches: int
    """Batches that were sent."""
    requests: int
    """Requests that were sent."""
    timeouts: int
    """Batches that were sent because their time had passed."""

    @property
    def requests_per_batch(self) -> float:
        """How many requests share a round trip, on average; 0 before the first."""
        return self.requests / self.batches if self.batches else 0.0
