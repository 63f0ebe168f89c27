"""Where the crash tests run: the protocol over real Redis, and over the heap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from state.backends.heap import HeapBackend, HeapLedger
from state.backends.names import slot_prefix
from state.backends.reads import command_of, value_of
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport, checked
from state.epochs import EpochLedger
from state.reader import CommittedReader
from state.testing.faults import Ahead, FaultPlan, FaultyBackend, FaultyLedger, FaultyTransport
from tests.faults.spark_rules import NODE, PARALLELISM, WORK, Run, Spark, Work, found

if TYPE_CHECKING:
    import redis

    from state.backends.interface import Read
    from state.backends.transport import Transport

PIPELINE = "orders"
NO_TTL = -1
"""What Redis answers of a key that stays."""


class World(Protocol):
    """A backend with a pipeline on it."""

    work: Work
    stride: int
    """Of the combinations of two events, each so manieth is played."""

    def begun(self, plan: FaultPlan) -> Spark:
        """Forget everything but a first epoch; Spark behind it, over connections with this plan."""

    def straggling(self, run: Run, plan: FaultPlan) -> Run:
        """The same run over other connections: those of a process that lives on."""

    def contents(self) -> dict[str, Any]:
        """What state and sinks hold, as `spark_rules.expected` tells it."""


def run_first_epoch(spark: Spark, plan: FaultPlan) -> None:
    """Run it without faults; nothing of it counts."""
    with plan.resting():
        spark.run_until(1)


class RedisWorld:
    """Each command of the real protocol counts."""

    def __init__(
        self, client: redis.Redis, work: Work = WORK, ahead: Ahead | None = None, stride: int = 1
    ) -> None:
        self.work = work
        self.stride = stride
        self._ahead = ahead
        self._client = client
        self._transport = RedisTransport(client)
        self._reader = CommittedReader(client, PIPELINE)
        self._first_epoch: dict[bytes, bytes] = {}
        """All that Redis holds behind it, by key."""

    def begun(self, plan: FaultPlan) -> Spark:
        # Functions stay loaded: loading is tested apart.
        spark = self._spark(plan)
        if not self._first_epoch:
            self._client.flushall()
            run_first_epoch(spark, plan)
            self._first_epoch = self._dumped()
            return spark
        restores = [("RESTORE", key, 0, dumped) for key, dumped in self._first_epoch.items()]
        checked(self._transport.exchange([("FLUSHALL",), *restores]))
        spark.runs = spark.checkpoint.recorded = 1
        return spark

    def _dumped(self) -> dict[bytes, bytes]:
        keys = self._client.keys()
        assert all(self._client.ttl(key) == NO_TTL for key in keys)
        return {key: self._client.dump(key) for key in keys}

    def _spark(self, plan: FaultPlan) -> Spark:
        transport = FaultyTransport(self._transport, plan, self._ahead)

        def open_run() -> Run:
            ledger = EpochLedger(transport, PIPELINE)
            return self._run(ledger.open_run([NODE], PARALLELISM), transport)

        return Spark(open_run)

    def straggling(self, run: Run, plan: FaultPlan) -> Run:
        transport = FaultyTransport(self._transport, plan, self._ahead)
        return self._run(run.number, transport, attempts=90)

    def contents(self) -> dict[str, Any]:
        slot = slot_prefix(PIPELINE)

        def read(asked: Read) -> Any:
            command = command_of(asked, slot)
            return value_of(asked, command and checked(self._transport.exchange([command]))[0])

        (closed,) = checked(self._transport.exchange([("GET", slot + b"closed")]))
        ledger = EpochLedger(self._transport, PIPELINE)
        return found(self._reader.view(NODE).fetch, read, int(closed or 0), ledger, self.work)

    def _run(self, number: int, transport: Transport, attempts: int = 0) -> Run:
        ledger = EpochLedger(transport, PIPELINE)
        backend = RedisBackend(transport, PIPELINE)
        return Run(number, ledger, ledger, backend, attempts, self.work)

    def close(self) -> None:
        self._reader.close()
        self._transport.close()


class HeapWorld:
    """Each call counts."""

    def __init__(self) -> None:
        self.work = WORK
        self.stride = 1
        self._backend = HeapBackend()

    def begun(self, plan: FaultPlan) -> Spark:
        def open_run() -> Run:
            ledger = FaultyLedger(self._ledger(), plan)
            return self._run(ledger.open_run([NODE], PARALLELISM), plan)

        self._backend = HeapBackend()
        spark = Spark(open_run)
        run_first_epoch(spark, plan)
        return spark

    def straggling(self, run: Run, plan: FaultPlan) -> Run:
        return self._run(run.number, plan, attempts=90)

    def contents(self) -> dict[str, Any]:
        slot = self._backend.store.slot
        counter = slot.structures.get(b"closed")
        closed = counter.value if counter else 0
        return found(self._backend.view(NODE).fetch, slot.read, closed, self._ledger())

    def _ledger(self) -> HeapLedger:
        return HeapLedger(self._backend.store)

    def _run(self, number: int, plan: FaultPlan, attempts: int = 0) -> Run:
        ledger = FaultyLedger(self._ledger(), plan)
        return Run(number, ledger, ledger, FaultyBackend(self._backend, plan), attempts)
