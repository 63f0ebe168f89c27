"""State backends for benchmarks: heap, or a Redis given or of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import redis

from state.backends.heap import HeapBackend
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from state.backends.interface import Ledger, StateBackend

_PIPELINE = "bench"


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A backend and the ledger that closes its epochs."""

    backend: StateBackend
    ledger: Ledger


@contextmanager
def heap_neighbours() -> Iterator[Neighbours]:
    """State in this process."""
    backend = HeapBackend()
    yield Neighbours(backend, backend.ledger())


@contextmanager
def redis_neighbours(url: str | None = None) -> Iterator[Neighbours]:
    """State in the Redis at this address, else in a server of our own."""
    if url is None:
        with own_redis() as own:
            yield from _connected(own)
    else:
        yield from _connected(url)


def _connected(url: str) -> Iterator[Neighbours]:
    with redis.Redis.from_url(url) as client:
        transport = RedisTransport(client)
        yield Neighbours(RedisBackend(transport, _PIPELINE), EpochLedger(transport, _PIPELINE))
        transport.close()


@contextmanager
def own_redis(under: Sequence[str] = ()) -> Iterator[str]:
    """Address of an append-only redis-server on a free loopback port, ended afterwards.

    Args:
        under: A command that runs it, such as valgrind and its options.
    """
    binary = shutil.which("redis-server")
    if binary is None:
        raise SystemExit("redis-server is not installed: run make setup, or give --redis")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "--bind": "127.0.0.1",
            "--port": str(port),
            "--dir": folder,
            "--appendonly": "yes",
            "--appendfsync": "everysec",
            "--maxmemory-policy": "noeviction",
            "--save": "",
            "--loglevel": "warning",
            # As servers of ours have it.
            "--hash-max-listpack-entries": "64",
            "--zset-max-listpack-entries": "64",
        }
        flat = [part for pair in settings.items() for part in pair]
        process = subprocess.Popen([*under, binary, *flat], stdout=subprocess.DEVNULL)
        try:
            retry = redis.retry.Retry(
                redis.backoff.ConstantBackoff(0.02),
                500,
                supported_errors=(redis.exceptions.ConnectionError,),
            )
            with redis.Redis(port=port, retry=retry) as client:
                client.ping()
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait(timeout=10)
