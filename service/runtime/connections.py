"""One connection per address and process: workers and helpers of the driver outlive epochs.

Sources use nothing else of Redis; what sinks do with it is in `ledgers`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import redis

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


@lru_cache(_CACHED_MAX)
def _client(url: str, connect_timeout_ms: int, socket_timeout_ms: int) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        health_check_interval=_HEALTH_CHECK_S,
        socket_connect_timeout=connect_timeout_ms / 1_000,
        socket_timeout=socket_timeout_ms / 1_000,
    )
