"""From settings to running services: connections opened, pipelines taken up, and closed again."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import anyio.to_thread
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from service.api.deps import Services
from service.runtime.collector import Collector
from service.runtime.contents import ContentsCache
from service.runtime.gateway import SparkGateway
from service.runtime.lease import Lease
from service.runtime.query_starter import DataflowStarter, keeper_ports
from service.runtime.registry import Registry
from service.runtime.savepoints import Savepoints
from service.runtime.supervision import Supervision

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from service.api.deps import SparkProbe
    from service.runtime.keeper_ports import KeeperPorts
    from service.settings import RedisSettings, Settings
    from service.telemetry import Telemetry

THREADS_MAX = 48
"""Calls of Redis that may wait at a time; each needs a connection too."""


@asynccontextmanager
async def open_services(settings: Settings, telemetry: Telemetry) -> AsyncIterator[Services]:
    """Everything that the routes work with, for the life of the application.

    Neither Redis nor Spark need answer yet: what is done waits for them, and `/readyz` says so.
    Queries are not stopped at the end: the next service finds them in the registry.
    """
    client = redis_client(settings.redis)
    with lease_of(settings) as lease:
        registry = Registry(client, settings.limits.pipelines_max)
        gateway = SparkGateway(settings.spark, registry, parallelism=settings.execution.parallelism)

        def ports_of(token: str) -> KeeperPorts:
            return keeper_ports(settings, client, gateway, token=token)

        try:
            async with serving(settings, telemetry, client, ports_of, lease, gateway) as services:
                yield services
        finally:
            await gateway.close()
            client.connection_pool.disconnect()


@contextmanager
def lease_of(settings: Settings) -> Iterator[Lease]:
    """The service's side of the lease, over connections of its own.

    No other request may keep it waiting, and no answer is worth more than a part of its life. An
    attempt that failed is followed by the next beat.
    """
    life_ms = settings.execution.lease_ms
    redis_settings = settings.redis
    wait_ms = min(redis_settings.socket_timeout_ms, life_ms // 3)
    client = redis.Redis.from_url(
        redis_settings.url,
        socket_timeout=wait_ms / 1_000,
        socket_connect_timeout=min(redis_settings.connect_timeout_ms, wait_ms) / 1_000,
        retry=Retry(NoBackoff(), 0),
    )
    try:
        yield Lease(client, life_ms)
    finally:
        client.close()


@asynccontextmanager
async def serving(
    settings: Settings,
    telemetry: Telemetry,
    client: redis.Redis,
    ports_of: Callable[[str], KeeperPorts],
    lease: Lease,
    spark: SparkProbe,
) -> AsyncIterator[Services]:
    """The services over given neighbours: the lease is asked for, and let go at the end."""
    registry = Registry(client, settings.limits.pipelines_max)
    limiter = anyio.to_thread.current_default_thread_limiter()
    limiter.total_tokens = min(THREADS_MAX, settings.redis.connections_max)
    supervisor = Supervision(ports_of, lease)
    contents = ContentsCache(client, settings.execution)
    collector = Collector(client, registry, supervisor.status, telemetry)
    try:
        await collector.prime()
        await supervisor.start()
        yield Services(
            settings=settings,
            redis=client,
            registry=registry,
            supervisor=supervisor,
            spark=spark,
            telemetry=telemetry,
            contents=contents,
            collector=collector,
            savepoints=Savepoints(settings, client, DataflowStarter(settings)),
        )
    finally:
        await supervisor.close()
        contents.close()


def redis_client(settings: RedisSettings) -> redis.Redis:
    """The service's own client: one pool for all requests, with limits on every wait."""
    pool = redis.BlockingConnectionPool.from_url(
        settings.url,
        max_connections=settings.connections_max,
        timeout=settings.socket_timeout_ms / 1_000,
        socket_timeout=settings.socket_timeout_ms / 1_000,
        socket_connect_timeout=settings.connect_timeout_ms / 1_000,
        health_check_interval=30,
    )
    return redis.Redis(connection_pool=pool)
