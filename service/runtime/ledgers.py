"""The process's ledgers, one per pipeline: what sinks reach Redis by."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from state.backends.transport import ClientSettings, shared_transport
from state.epochs import EpochLedger

if TYPE_CHECKING:
    from service.runtime.sinks.spec import WriterSpec
    from state.backends.transport import RedisTransport

_CACHED_MAX = 64


def transport_of(spec: WriterSpec) -> RedisTransport:
    """The process's transport to a writer's Redis, in the incarnation of its run."""
    settings = ClientSettings(spec.redis_url, spec.connect_timeout_ms, spec.socket_timeout_ms)
    return shared_transport(settings, spec.incarnation)


def ledger_of(spec: WriterSpec) -> EpochLedger:
    """The process's ledger of a writer's pipeline."""
    return _ledger(transport_of(spec), spec.pipeline)


@lru_cache(_CACHED_MAX)
def _ledger(transport: RedisTransport, pipeline: str) -> EpochLedger:
    return EpochLedger(transport, pipeline)
