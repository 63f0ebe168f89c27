"""Keeps every pipeline as the registry wants it: one `PipelineKeeper` task each.

The supervisor only hands out orders and keeps the tasks; what a pipeline does is decided in
`keeper`. It reads the names in the registry when it starts, and now and then after, so that a
pipeline is found even if Redis was away at the start. Closing it leaves the queries running: the
next one adopts them. It lives for as long as the service has the lease (`supervision`).
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from typing import TYPE_CHECKING

import anyio.to_thread
import structlog

from service.runtime.errors import RegistryCorrupt, RegistryUnavailable
from service.runtime.keeper import PipelineKeeper
from service.runtime.keeper_ports import KeeperPorts, Run
from service.runtime.registry import now_ms
from service.runtime.status import PipelineState, PipelineStatus, StatusError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

__all__ = [
    "KeeperPorts",
    "PipelineState",
    "PipelineStatus",
    "Run",
    "StatusError",
    "Supervisor",
    "SystemClock",
]

_SCAN = "(scan)"  # no pipeline can have this name
SCAN_INTERVAL_MS = 10_000
"""Time between two readings of the registry's names."""

log = structlog.get_logger(__name__)


class SystemClock:
    """Real time."""

    def now_ms(self) -> int:
        """The time of day, ms since 1970."""
        return now_ms()

    def elapsed_ms(self) -> int:
        """A time that never jumps, and goes on while the machine sleeps: leases end by it."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000

    async def wait(self, event: asyncio.Event, timeout_ms: int | None) -> None:
        """Return when the event is set, or after the time."""
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1_000):
                await event.wait()
        except TimeoutError:
            return


class Supervisor:
    """All keepers of one service; for one event loop."""

    def __init__(self, ports: KeeperPorts, scan_interval_ms: int = SCAN_INTERVAL_MS) -> None:
        self._ports = ports
        self._scan_interval_ms = scan_interval_ms
        self._keepers: dict[str, PipelineKeeper] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._scans = asyncio.Event()
        """An order to look for pipelines."""
        self._closed = False

    async def start(self) -> None:
        """Take up every pipeline that the registry has; returns before their queries run."""
        self._spawn(_SCAN, self._scan_for_ever())

    async def close(self) -> None:
        """End all keepers; their queries go on at the Spark Connect server."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # all end, however each does

    def wake(self, name: str) -> None:
        """Bring a pipeline to what the registry says now; nothing once this is closed."""
        if not self._closed:
            self._keeper(name).wake()

    def wake_all(self) -> None:
        """Bring all pipelines to what the registry says now, new ones among them."""
        for keeper in self._keepers.values():
            keeper.wake()
        self._scans.set()

    def status(self, name: str) -> PipelineStatus:
        """What a pipeline does now; CREATED for one that nobody has looked at yet."""
        keeper = self._keepers.get(name)
        return keeper.status if keeper is not None else PipelineStatus()

    def statuses(self) -> Mapping[str, PipelineStatus]:
        """What all pipelines do now, by name."""
        return {name: keeper.status for name, keeper in self._keepers.items()}

    def _keeper(self, name: str) -> PipelineKeeper:
        found = self._keepers.get(name)
        if found is None:
            found = self._keepers[name] = PipelineKeeper(name, self._ports)
            self._spawn(name, self._keep(found))
        return found

    async def _keep(self, keeper: PipelineKeeper) -> None:
        try:
            await keeper.run()
        finally:
            # Nothing is awaited between the keeper's last look for orders and this.
            del self._keepers[keeper.name], self._tasks[keeper.name]

    async def _scan_for_ever(self) -> None:
        is_connected = False
        while True:
            self._scans.clear()
            try:
                if not is_connected:
                    # Else queries of another session are taken for gone, and new runs replace them.
                    await self._ports.queries.reconnect()
                    is_connected = True
                names = await anyio.to_thread.run_sync(self._ports.registry.names)
            except (RegistryUnavailable, RegistryCorrupt) as error:
                log.warning("registry not read", code=error.code)
                names = frozenset()
            for name in sorted(names - self._keepers.keys()):
                self._keeper(name)
            await self._ports.clock.wait(self._scans, self._scan_interval_ms)

    def _spawn(self, name: str, work: Coroutine[None, None, None]) -> None:
        # A context of its own: a keeper outlives the request whose log fields it would inherit.
        context = contextvars.Context()
        self._tasks[name] = asyncio.create_task(work, name=f"tailrace {name}", context=context)
