"""One connection per address and process: workers and helpers of the driver outlive epochs."""

from __future__ import annotations

from functools import lru_cache

import redis

from state.backends.transport import ClientSettings, shared_transport
from state.epochs import EpochLedger

_CACHED_MAX = 64
_SOCKET_TIMEOUT_S = 30
_HEALTH_CHECK_S = 30


@lru_cache(_CACHED_MAX)
def redis_of(url: str) -> redis.Redis:
    """The process's client of this address (replies are bytes); connects at the first command."""
    return redis.Redis.from_url(
        url, health_check_interval=_HEALTH_CHECK_S, socket_timeout=_SOCKET_TIMEOUT_S
    )


@lru_cache(_CACHED_MAX)
def ledger_of(url: str, pipeline: str, incarnation: str | None) -> EpochLedger:
    """The process's ledger of a pipeline in one incarnation of Redis."""
    return EpochLedger(shared_transport(ClientSettings(url), incarnation), pipeline)
