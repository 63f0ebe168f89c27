"""A supervisor with one pipeline, moved by hand; for the tests of keepers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from service.runtime.gateway import QueryLook, QueryState
from service.runtime.keeper_ports import KeeperPorts
from service.runtime.registry import Registry
from service.runtime.spark_errors import QueryError
from service.runtime.status import RestartLimits
from service.runtime.supervisor import PipelineStatus, Supervisor
from tests.service.runtime.fakes import (
    HANG_LIMIT_S,
    FakeLedgers,
    FakeQueries,
    FakeSavepoints,
    FakeStarter,
    ManualClock,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import redis

PLAN: dict[str, object] = {"nodes": []}
LOOK_MS = 1_000
LIMITS = RestartLimits(restarts_max=3, backoff_min_ms=500, backoff_max_ms=4_000, reset_ms=60_000)


class Rig:
    """A supervisor with one pipeline, `p`, that is in the registry and not started."""

    def __init__(self, client: redis.Redis) -> None:
        self.client = client
        self.clock = ManualClock()
        self.queries = FakeQueries()
        self.starter = FakeStarter()
        self.ledgers = FakeLedgers()
        self.savepoints = FakeSavepoints(self.queries)
        self.registry = Registry(client, 10)
        self.supervisor = Supervisor(self.ports(), scan_interval_ms=10**9)

    def ports(self) -> KeeperPorts:
        return KeeperPorts(
            registry=self.registry,
            queries=self.queries,
            starter=self.starter,
            ledgers=self.ledgers,
            savepoints=self.savepoints,
            clock=self.clock,
            limits=LIMITS,
            look_interval_ms=LOOK_MS,
            stop_timeout_ms=5_000,
            max_parallelism=16,
            chance=lambda: 0.0,
        )

    @property
    def status(self) -> PipelineStatus:
        return self.supervisor.status("p")

    @property
    def error_code(self) -> str | None:
        return self.status.error.code if self.status.error else None

    async def settle(self) -> None:
        await self.clock.parked()

    async def order(self, desired: str) -> None:
        if desired == "RUNNING":
            self.registry.order_start("p")
        else:
            self.registry.update("p", desired=desired)
        self.supervisor.wake("p")
        await self.settle()

    async def restart(self) -> None:
        self.registry.order_restart("p")
        self.supervisor.wake("p")
        await self.settle()

    async def running(self) -> None:
        self.registry.create("p", PLAN)
        await self.order("RUNNING")
        assert self.status.state == "RUNNING"

    async def forgotten(self) -> None:
        """Return once the keeper of the deleted pipeline has ended."""
        keepers = [each for each in asyncio.all_tasks() if each.get_name() == "tailrace p"]
        if keepers:
            await asyncio.wait(keepers)
        assert self.registry.names() == frozenset()

    async def look(self) -> None:
        await self.clock.advance(LOOK_MS)

    def query_ends(self, code: str | None = "query.failed") -> None:
        (alive,) = self.queries.alive
        error = None if code is None else QueryError(code, "told so")
        self.queries.looks[alive] = QueryLook(QueryState.ENDED, error)

    async def replace_service(self) -> None:
        """As if the service died and another one came: same Redis, same Spark."""
        await self.supervisor.close()
        self.supervisor = Supervisor(self.ports(), scan_interval_ms=10**9)
        await self.supervisor.start()
        await self.clock.parked(2)


def in_rig(scenario: Callable[[Rig], Awaitable[None]]) -> Callable[[redis.Redis], None]:
    """A test that runs a scenario with a rig of its own, in a loop of its own."""

    def test(redis_client: redis.Redis) -> None:
        async def run() -> None:
            rig = Rig(redis_client)
            async with asyncio.timeout(HANG_LIMIT_S):
                try:
                    await scenario(rig)
                finally:
                    await rig.supervisor.close()

        asyncio.run(run())

    test.__name__ = scenario.__name__
    test.__doc__ = scenario.__doc__
    return test
