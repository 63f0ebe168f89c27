"""Where records wait: for their turn at a backend (active), or for their key (blocking).

Requests of the active buffer belong to different keys, since one record of a key goes at a time,
so a batch of them may be executed in any order. The buffer marks when its first request must go at
the latest; the mark falls with the batch (Flink counts batches by a sequence number for that, which
is kept here as `sequence` and is the number of batches so far).

Source: Flink `StateRequestBuffer` (FLIP-425).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from state.execution.limits import ControllerLimits
    from state.execution.record_context import RecordContext


class ActiveBuffer:
    """Requests that can run and have not been sent."""

    __slots__ = (
        "_batch_max",
        "_clock",
        "_timeout_ms",
        "_waiting",
        "deadline_ms",
        "is_full",
        "peak",
        "sequence",
    )

    def __init__(self, limits: ControllerLimits, clock: Callable[[], int]) -> None:
        self._batch_max = limits.batch_max
        self._timeout_ms = limits.timeout_ms
        self._clock = clock
        self._waiting: list[RecordContext] = []
        self.sequence = 0
        """How many batches have been taken."""
        self.peak = 0
        """The most requests that gathered."""
        self.is_full = False
        """Whether a whole batch waits."""
        self.deadline_ms: int | None = None
        """When the oldest request must go, by the clock; None: nothing waits, or for no time."""

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, context: RecordContext) -> None:
        """Put a request last; the first one of a batch sets the mark."""
        if not self._waiting:
            self._mark()
        self._waiting.append(context)
        self.is_full = len(self._waiting) >= self._batch_max

    def is_due(self) -> bool:
        """Whether the mark has passed. Reads the clock only if there is one."""
        return self.deadline_ms is not None and self._clock() >= self.deadline_ms

    def take(self) -> list[RecordContext]:
        """Remove a batch: the oldest requests, at most `batch_max`."""
        self.peak = max(self.peak, len(self._waiting))
        batch = self._waiting[: self._batch_max]
        del self._waiting[: self._batch_max]
        self.sequence += 1
        self.is_full = len(self._waiting) >= self._batch_max
        self.deadline_ms = None
        if self._waiting:
            self._mark()
        return batch

    def take_all(self) -> list[RecordContext]:
        """Remove everything without it being a batch: what is kept or cancelled."""
        waiting, self._waiting = self._waiting, []
        self.is_full = False
        self.deadline_ms = None
        return waiting

    def _mark(self) -> None:
        if self._timeout_ms > 0:
            self.deadline_ms = self._clock() + self._timeout_ms


class BlockingBuffer:
    """Records that wait for their key, a queue for each."""

    __slots__ = ("_count", "_queues", "keys_peak", "peak")

    def __init__(self) -> None:
        self._queues: dict[bytes, deque[RecordContext]] = {}
        self._count = 0
        self.peak = 0
        """The most records that waited at a time."""
        self.keys_peak = 0
        """The most keys that records waited for at a time."""

    def __len__(self) -> int:
        return self._count

    @property
    def keys_count(self) -> int:
        """How many keys have records that wait."""
        return len(self._queues)

    def add(self, context: RecordContext) -> None:
        """Put a record behind those of its key, before those of lower priority."""
        self._count += 1
        queue = self._queues.setdefault(context.key, deque())
        self.peak = max(self.peak, self._count)
        self.keys_peak = max(self.keys_peak, len(self._queues))
        if not queue or queue[-1].priority >= context.priority:
            queue.append(context)
            return
        place = next(i for i, each in enumerate(queue) if each.priority < context.priority)
        queue.insert(place, context)

    def take(self, key: bytes) -> RecordContext | None:
        """Remove the first record that waits for a key, if there is one."""
        queue = self._queues.get(key)
        if queue is None:
            return None
        self._count -= 1
        context = queue.popleft()
        if not queue:
            del self._queues[key]
        return context

    def behind(self, key: bytes) -> Iterator[RecordContext]:
        """Who waits for a key, first to last."""
        return iter(self._queues.get(key, ()))

    def take_all(self) -> list[RecordContext]:
        """Remove everything, key by key."""
        waiting = [context for queue in self._queues.values() for context in queue]
        self._queues.clear()
        self._count = 0
        return waiting
