"""Pipelines' progress for `/metrics`.

Closed epochs are read from the progress streams, each entry once, when somebody asks; nothing runs
in between. The streams are bounded, so epochs that nobody asked about for long are not counted;
sums that lose none are `SlotReader.totals`. Dead letters are told as counted there, whatever their
way in. What closing an epoch took is noted a moment later than the epoch, and not counted for one
that is read in between. While Redis is away, what the service itself counts is still told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import redis
import structlog

from service.runtime.errors import RegistryUnavailable
from service.runtime.table_reader import SlotReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.runtime.registry import Registry
    from service.runtime.status import PipelineStatus
    from service.telemetry import Telemetry

_BATCH = 1_000
_AWAY = (RegistryUnavailable, redis.exceptions.RedisError)

log = structlog.get_logger(__name__)


class Collector:
    """Reads progress on demand; for one event loop.

    Args:
        client: Redis.
        registry: Tells which pipelines there are.
        status: Tells what a pipeline does.
        telemetry: Gets the sums.
    """

    def __init__(
        self,
        client: redis.Redis,
        registry: Registry,
        status: Callable[[str], PipelineStatus],
        telemetry: Telemetry,
    ) -> None:
        self._client = client
        self._registry = registry
        self._status = status
        self._telemetry = telemetry
        self._seen: dict[str, int] = {}
        self._lock = anyio.Lock()

    async def prime(self) -> None:
        """Begin to count: what was closed before the service started is not counted again."""
        try:
            self._seen = await anyio.to_thread.run_sync(self._epochs)
        except _AWAY:
            log.warning("progress not read at the start: metrics will count older epochs too")

    async def collect(self) -> None:
        """Bring the metrics of all pipelines up to date, as far as Redis answers."""
        async with self._lock:
            try:
                await self._collect()
            except _AWAY:
                self._telemetry.redis(up=False)
            else:
                self._telemetry.redis(up=True)

    async def _collect(self) -> None:
        names = await anyio.to_thread.run_sync(self._registry.names)
        statuses = {name: self._status(name) for name in sorted(names)}
        self._telemetry.pipelines(
            {name: str(each.state) for name, each in statuses.items()},
            {name: each.failures for name, each in statuses.items()},
        )
        for name in statuses:
            dead, found = await anyio.to_thread.run_sync(self._news, name)
            self._telemetry.progress(name, found)
            self._telemetry.dead_letters(name, dead)
        self._seen = {name: each for name, each in self._seen.items() if name in names}

    def _epochs(self) -> dict[str, int]:
        return {name: SlotReader(self._client, name).epoch() for name in self._registry.names()}

    def _news(self, name: str) -> tuple[int, list[dict[str, Any]]]:
        """A pipeline's dead letters, and the epochs that it has closed since this was asked."""
        slot = SlotReader(self._client, name)
        last = self._seen.get(name, 0)
        if slot.epoch() < last:
            # The pipeline was deleted and another one has its name: epochs begin anew.
            last = 0
        found = slot.progress_after(last, _BATCH)
        self._seen[name] = found[-1]["epoch"] if found else last
        return slot.dead_count(), found
