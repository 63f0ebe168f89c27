"""What operators share whose windows come out when their time has come."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from operators.keyed import KeyedOperator
from state.descriptors import TimersDescriptor

if TYPE_CHECKING:
    from operators.keyed import FiredTimer, InputChange, OpenEpoch
    from operators.windows.spec import WindowedSpec


class WindowedOperator(KeyedOperator):
    """An operator with a timer for each window, in event or in processing time.

    Args:
        spec: Says which.
    """

    def __init__(self, spec: WindowedSpec) -> None:
        self._zone = spec.local_time
        self._is_event_time = spec.is_event_time
        if spec.is_event_time:
            self.event_timers = TimersDescriptor(name="event_timers")
        else:
            self.processing_timers = TimersDescriptor(name="processing_timers")

    def open(self, epoch: OpenEpoch) -> None:
        """Take the timers, and the times of the epoch."""
        descriptor = self.event_timers or self.processing_timers
        assert descriptor is not None
        self._timers = epoch.timers(descriptor)
        self._now_ms = self._zone.of(epoch.times.time_ms)
        self._watermark_ms = epoch.times.watermark_ms

    async def process(self, change: InputChange) -> None:
        """Let one row into its window."""
        await self.process_bundle((change,))

    async def on_event_timer(self, timer: FiredTimer) -> None:
        """The watermark has passed a window."""
        await self._fire(timer)

    async def on_processing_timer(self, timer: FiredTimer) -> None:
        """A window is over."""
        await self._fire(timer)

    @abstractmethod
    async def _fire(self, timer: FiredTimer) -> None:
        """Emit the window whose time this is."""

    def _has_passed(self, window_end: int) -> bool:
        """Whether the watermark has passed a window; in processing time none has."""
        return self._is_event_time and self._watermark_ms >= self._zone.passed(window_end - 1)

    def _fires_ms(self, window_end: int) -> int:
        """When a window's timer fires.

        In event time with the window's last millisecond. In processing time a row of it may still
        come with the epoch of that time, so one later.
        """
        return self._zone.passed(window_end - 1) + (not self._is_event_time)
