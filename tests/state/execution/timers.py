"""A service of timers in a list: as slow and obvious as it can be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.execution.timers import Timer

if TYPE_CHECKING:
    from collections.abc import Iterable


class HeapTimers:
    """Timers of one domain in a set."""

    def __init__(self, timers: Iterable[tuple[int, bytes]] = ()) -> None:
        self.timers = {Timer(time_ms, key, 0, b"") for time_ms, key in timers}

    def register(self, key: bytes, key_group: int, time_ms: int, namespace: bytes = b"") -> None:
        self.timers.add(Timer(time_ms, key, key_group, namespace))

    def remove(self, key: bytes, key_group: int, time_ms: int, namespace: bytes = b"") -> None:
        self.timers.discard(Timer(time_ms, key, key_group, namespace))

    def due(self, until_ms: int) -> list[tuple[bytes, int]]:
        return [(each.key, each.key_group) for each in sorted(self.timers) if each[0] <= until_ms]

    def take(self, key: bytes, key_group: int, until_ms: int) -> Timer | None:
        mine = [each for each in self.timers if each.key == key and each.time_ms <= until_ms]
        if not mine:
            return None
        first = min(mine, key=lambda each: (each.time_ms, each.namespace))
        self.timers.remove(first)
        return first
