"""Sums over pipelines' progress: for `/metrics`, and for the totals of one pipeline.

Closed epochs are read from the progress streams, each entry once, when somebody asks; nothing runs
in between. The streams are bounded, so epochs that nobody asked about for long may be missing from
sums: `since_epoch` says from where on they are complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import redis
import structlog

from service.runtime.errors import RegistryUnavailable
from service.runtime.table_reader import SlotReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.runtime.records import PipelineRecord
    from service.runtime.registry import Registry
    from service.runtime.status import PipelineStatus
    from service.telemetry import Telemetry

_BATCH = 1_000

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Sums:
    """What was added up of one pipeline."""

    since_epoch: int = 0
    last_epoch: int = 0
    rows_in: int = 0
    rows_out: int = 0
    dead: int = 0

    def add(self, record: dict[str, Any]) -> None:
        self.since_epoch = self.since_epoch or record["epoch"]
        self.last_epoch = record["epoch"]
        self.rows_in += record.get("rows_in", 0)
        self.rows_out += record.get("rows_out", 0)
        self.dead += record.get("dead", 0)


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
        self._sums: dict[str, _Sums] = {}
        self._lock = anyio.Lock()

    async def prime(self) -> None:
        """Begin to count: what was closed before the service started is not counted again."""
        try:
            self._seen = await anyio.to_thread.run_sync(self._epochs)
        except (RegistryUnavailable, redis.exceptions.RedisError):
            log.warning("progress not read at the start: metrics will count older epochs too")

    async def collect(self) -> None:
        """Bring the metrics of all pipelines up to date."""
        async with self._lock:
            names = await anyio.to_thread.run_sync(self._registry.names)
            statuses = {name: self._status(name) for name in sorted(names)}
            self._telemetry.pipelines(
                {name: str(each.state) for name, each in statuses.items()},
                {name: each.restarts for name, each in statuses.items()},
            )
            for name in statuses:
                found = await anyio.to_thread.run_sync(self._news, name)
                self._telemetry.progress(name, found)
            self._seen = {name: each for name, each in self._seen.items() if name in names}

    async def totals(self, record: PipelineRecord) -> dict[str, int]:
        """Sums over the epochs of a pipeline."""
        async with self._lock:
            return await anyio.to_thread.run_sync(self._totals, record)

    def _epochs(self) -> dict[str, int]:
        return {name: SlotReader(self._client, name).epoch() for name in self._registry.names()}

    def _news(self, name: str) -> list[dict[str, Any]]:
        slot = SlotReader(self._client, name)
        last = self._seen.get(name, 0)
        if slot.epoch() < last:
            # The pipeline was deleted and another one has its name: epochs begin anew.
            last = 0
        found = slot.progress_after(last, _BATCH)
        self._seen[name] = found[-1]["epoch"] if found else last
        return found

    def _totals(self, record: PipelineRecord) -> dict[str, int]:
        sums = self._sums.setdefault(record.id, _Sums())
        slot = SlotReader(self._client, record.name)
        while found := slot.progress_after(sums.last_epoch, _BATCH):
            for each in found:
                sums.add(each)
        return {
            "epochs": sums.last_epoch,
            "since_epoch": sums.since_epoch,
            "rows_in": sums.rows_in,
            "rows_out": sums.rows_out,
            "dead": sums.dead,
        }
