"""One connection per address and process: workers and helpers of the driver outlive epochs."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import redis

from state.backends.transport import ClientSettings, shared_transport
from state.epochs import EpochLedger

if TYPE_CHECKING:
    from service.runtime.sinks.spec import WriterSpec
    from state.backends.transport import RedisTransport

_CACHED_MAX = 64
_HEALTH_CHECK_S = 30


class RedisSpec(Protocol):
    """What a spec says of Redis: the service's settings, as they reached another process."""

    @property
    def redis_url(self) -> str:
        """Its address; may hold a password."""

    @property
    def connect_timeout_ms(self) -> int:
        """Longest wait for a connection."""

    @property
    def socket_timeout_ms(self) -> int:
        """Longest wait for a reply."""


def redis_of(spec: RedisSpec) -> redis.Redis:
    """The process's client of a spec's Redis (replies are bytes); connects at the first command."""
    return _client(spec.redis_url, spec.connect_timeout_ms, spec.socket_timeout_ms)


def transport_of(spec: WriterSpec) -> RedisTransport:
    """The process's transport to a writer's Redis, in the incarnation of its run."""
    settings = ClientSettings(spec.redis_url, spec.connect_timeout_ms, spec.socket_timeout_ms)
    return shared_transport(settings, spec.incarnation)


def ledger_of(spec: WriterSpec) -> EpochLedger:
    """The process's ledger of a writer's pipeline."""
    return _ledger(transport_of(spec), spec.pipeline)


@lru_cache(_CACHED_MAX)
def _client(url: str, connect_timeout_ms: int, socket_timeout_ms: int) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        health_check_interval=_HEALTH_CHECK_S,
        socket_connect_timeout=connect_timeout_ms / 1_000,
        socket_timeout=socket_timeout_ms / 1_000,
    )


@lru_cache(_CACHED_MAX)
def _ledger(transport: RedisTransport, pipeline: str) -> EpochLedger:
    return EpochLedger(transport, pipeline)
