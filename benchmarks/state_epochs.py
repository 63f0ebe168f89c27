"""Epochs over keyed state for benchmarks, and what they cost in wall and processor time.

A `Pipeline` is one arm of a comparison: a pipeline of its own, on a heap or in a Redis that it
shares with the other arms. An epoch is whole: reads, clean-up, commit, close and promotion.
"""

from __future__ import annotations

import gc
import os
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import redis

from benchmarks.neighbours import own_redis
from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger
from state.primitives.session import PRIMITIVE_THRESHOLDS, StateSession
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from state.backends.interface import Ledger, StateBackend, TransactionStatistics
    from state.multiset.strategy import Thresholds

NODE = "bench"


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds that something took."""

    wall: float
    cpu: float
    """Processor time of this process."""
    redis_cpu: float
    """Processor time of the Redis server; 0 on heap."""

    @property
    def work(self) -> float:
        """Processor time of both: what other users of the machine do not change much."""
        return self.cpu + self.redis_cpu


@dataclass(frozen=True, slots=True)
class Ground:
    """Where pipelines live: this process, or a Redis server."""

    name: str
    client: redis.Redis | None
    transports: list[RedisTransport] = field(default_factory=list)
    """What was opened to the server."""

    def transport(self, client: redis.Redis) -> RedisTransport:
        """A new one."""
        self.transports.append(RedisTransport(client))
        return self.transports[-1]

    def close(self) -> None:
        """Close what was opened; the client is its owner's."""
        for each in self.transports:
            each.close()

    def pipeline(self, name: str, thresholds: Thresholds = PRIMITIVE_THRESHOLDS) -> Pipeline:
        """A new pipeline, without state."""
        if self.client is None:
            heap = HeapBackend()
            return Pipeline(heap, heap.ledger(), thresholds, is_local=True)
        transport = self.transport(self.client)
        ledger = EpochLedger(transport, name)
        ledger.drop()
        return Pipeline(RedisBackend(transport, name), ledger, thresholds, is_local=False)

    def clear(self) -> None:
        """Forget all pipelines; their objects are of no use any more."""
        if self.client is None:
            return
        self.client.flushall()
        # An append-only file that is made anew by itself would be so within an epoch.
        self.client.config_set("auto-aof-rewrite-percentage", 0)
        self.client.bgrewriteaof()
        while True:
            told: Any = self.client.info("persistence")
            if not told["aof_rewrite_in_progress"] and not told["aof_rewrite_scheduled"]:
                return
            time.sleep(0.01)

    def now(self) -> Spent:
        """What was spent so far."""
        used = 0.0
        if self.client is not None:
            told: Any = self.client.info("cpu")
            used = told["used_cpu_user"] + told["used_cpu_sys"]
        return Spent(time.perf_counter(), time.process_time(), used)

    def spent(self, action: Callable[[], Any]) -> Spent:
        """What an action takes; garbage of what went before is not its own."""
        gc.collect()
        return self.taken(action)

    def taken(self, action: Callable[[], Any]) -> Spent:
        """The same where the caller sees to garbage."""
        before = self.now()
        action()
        after = self.now()
        return Spent(
            after.wall - before.wall, after.cpu - before.cpu, after.redis_cpu - before.redis_cpu
        )


@contextmanager
def ground(name: str, under: Sequence[str] = ()) -> Iterator[Ground]:
    """The heap, or a Redis server of our own; see `own_redis`."""
    if name == "heap":
        yield Ground(name, None)
        return
    with (
        own_redis(under) as url,
        redis.Redis.from_url(url) as client,
        closing(Ground(name, client)) as where,
    ):
        yield where


class Pipeline:
    """Epochs of one pipeline with one node and one key group."""

    def __init__(
        self, backend: StateBackend, ledger: Ledger, thresholds: Thresholds, *, is_local: bool
    ) -> None:
        self._backend = backend
        self._ledger = ledger
        self._thresholds = thresholds
        self._is_local = is_local
        self._run = ledger.open_run([NODE], 1)
        self._epoch = 0
        self.cleaned = 0
        """Elements that the last epoch's clean-up removed."""
        self.cost: TransactionStatistics
        """What the last epoch cost."""

    def epoch(
        self, ms: int, operate: Callable[[StateSession], Any], *, cleans: bool = True
    ) -> None:
        """One whole epoch; as in a worker, no garbage is looked for in it.

        Args:
            ms: Its processing time.
            operate: Opens handles and uses them.
            cleans: Whether it cleans up at its end.
        """
        is_collecting = gc.isenabled()
        gc.disable()
        try:
            self._run_epoch(ms, operate, cleans=cleans)
        finally:
            if is_collecting:
                gc.enable()

    def _run_epoch(self, ms: int, operate: Callable[[StateSession], Any], *, cleans: bool) -> None:
        self._epoch += 1
        stamp = EpochStamp(self._epoch, self._run, ms)
        transaction = self._backend.begin(NODE, stamp, [0])
        session = StateSession(
            transaction,
            clock=TtlClock(ms),
            thresholds=self._thresholds,
            is_local=self._is_local,
        )
        operate(session)
        if cleans:
            session.clean_up((0,))
        transaction.commit(session.writes())
        self._ledger.close_epoch(stamp, {}, [])
        self._ledger.promote_all([NODE], 1)
        self.cleaned = session.statistics().cleaned
        self.cost = transaction.statistics()
        session.close()


def load_text() -> str:
    """The load of the machine, which belongs beside every figure."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
