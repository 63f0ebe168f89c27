"""From settings to running services: connections opened, pipelines taken up, and closed again."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio.to_thread
import redis

from service.api.deps import Services
from service.runtime.collector import Collector
from service.runtime.contents import ContentsCache
from service.runtime.gateway import SparkGateway
from service.runtime.query_starter import DataflowStarter, keeper_ports
from service.runtime.registry import Registry
from service.runtime.savepoints import Savepoints
from service.runtime.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from service.api.deps import SparkProbe
    from service.runtime.keeper_ports import KeeperPorts
    from service.settings import RedisSettings, Settings
    from service.telemetry import Telemetry

THREADS_MAX = 48
"""Calls of Redis that may wait at a time; each needs a connection too."""


@asynccontextmanager
async def open_services(settings: Settings, telemetry: Telemetry) -> AsyncIterator[Services]:
    """Everything that the routes work with, for the life of the application.

    Neither Redis nor Spark need answer yet: the supervisor waits for them, and `/readyz` says so.
    Queries are not stopped at the end: the next service finds them in the registry.
    """
    client = redis_client(settings.redis)
    registry = Registry(client, settings.limits.pipelines_max)
    gateway = SparkGateway(settings.spark, registry, parallelism=settings.execution.parallelism)
    ports = keeper_ports(settings, client, registry, gateway)
    try:
        async with serving(settings, telemetry, client, ports, gateway) as services:
            yield services
    finally:
        await gateway.close()
        client.connection_pool.disconnect()


@asynccontextmanager
async def serving(
    settings: Settings,
    telemetry: Telemetry,
    client: redis.Redis,
    ports: KeeperPorts,
    spark: SparkProbe,
) -> AsyncIterator[Services]:
    """The services over given neighbours: pipelines are taken up, and let go at the end."""
    limiter = anyio.to_thread.current_default_thread_limiter()
    limiter.total_tokens = min(THREADS_MAX, settings.redis.connections_max)
    supervisor = Supervisor(ports)
    contents = ContentsCache(client, settings.execution)
    collector = Collector(client, ports.registry, supervisor.status, telemetry)
    try:
        await collector.prime()
        await supervisor.start()
        yield Services(
            settings=settings,
            redis=client,
            registry=ports.registry,
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
