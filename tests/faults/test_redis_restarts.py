"""Redis itself ends, or comes back with another past: nothing wrong is ever gone on with.

Real servers, killed as by a power cut. Inside an epoch every restart is answered by a new run,
whether the append-only file kept everything or lost its tail, at each command of the epoch; where
what was closed is gone, `StateLost` names both sides.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import redis

from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp, HashGet, HashPut
from state.backends.redis import RedisBackend
from state.backends.transport import ClientSettings, RedisTransport
from state.epochs import EpochLedger
from state.errors import IncarnationChanged, StateLost, StateUnavailable
from state.testing.faults import Ahead, FaultPlan, FaultyTransport
from tests.conftest import RedisServer
from tests.faults.spark_rules import (
    AHEAD,
    EPOCHS,
    NODE,
    PARALLELISM,
    WORK,
    Run,
    Spark,
    Work,
    expected,
)
from tests.faults.worlds import PIPELINE, RedisWorld
from tests.state.backends.test_transport import await_true

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from state.backends.interface import EpochTransaction


class Machine:
    """A Redis server with its files, and Spark beside it; each run connects anew."""

    def __init__(self, folder: Path) -> None:
        self.server = RedisServer(folder)
        self.server.start()
        self.plan = FaultPlan()
        """Counts what workers and drivers send that connect from now on."""
        self.ahead: Ahead | None = None
        """When the server carries out what they send ahead; None: they send nothing so."""
        self._open: list[RedisTransport] = []

    @property
    def work(self) -> Work:
        return WORK if self.ahead is None else AHEAD

    @property
    def settings(self) -> ClientSettings:
        return ClientSettings(self.server.url, attempts_max=2, backoff_ms=1)

    def spark(self) -> Spark:
        return Spark(self.open_run)

    def open_run(self) -> Run:
        ledger = EpochLedger(self._transport(None), PIPELINE)
        number = ledger.open_run([NODE], PARALLELISM)
        run = Run(number, ledger, ledger, HeapBackend(), work=self.work)
        self.connect_workers(run)
        return run

    def connect_workers(self, run: Run) -> None:
        """New processes for driver and workers, which got the run's incarnation as a setting."""
        assert isinstance(run.driver, EpochLedger)
        incarnation = run.driver.incarnation
        run.driver = EpochLedger(self._transport(incarnation), PIPELINE)
        worker = self._transport(incarnation)
        run.worker, run.backend = EpochLedger(worker, PIPELINE), RedisBackend(worker, PIPELINE)

    def _transport(self, incarnation: str | None) -> FaultyTransport:
        transport = RedisTransport(self.settings, incarnation)
        self._open.append(transport)
        return FaultyTransport(transport, self.plan, self.ahead)

    def log_length(self) -> int:
        """Bytes of the append-only file; `appendfsync always` has all that was replied to in it."""
        return self._log().stat().st_size

    def power_cut(self, keep: int | None = None) -> None:
        """Kill the server and start it again, with so many bytes of its file."""
        self.server.kill()
        if keep is not None:
            with self._log().open("r+b") as log:
                log.truncate(keep)
        self.server.start()

    def _log(self) -> Path:
        (path,) = (self.server.folder / "appendonlydir").glob("*.incr.aof")
        return path

    def contents(self) -> dict[str, object]:
        with redis.Redis(port=self.server.port) as client:
            world = RedisWorld(client, self.work)
            seen = world.contents()
            world.close()
        return seen

    def close(self) -> None:
        for transport in self._open:
            transport.close()
        self.server.stop()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "redis")
    yield machine
    machine.close()


class Sizes:
    """How long the append-only file was before each command of an epoch."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.before_run = machine.log_length()
        self.before: list[int] = []

    def note(self) -> None:
        self.before.append(self._machine.log_length())


TAILS: dict[str, Callable[[Sizes], int | None]] = {
    "nothing lost": lambda sizes: None,
    "last command lost": lambda sizes: sizes.before[-2] if len(sizes.before) > 1 else None,
    "epoch lost": lambda sizes: sizes.before[0],
    "start of the run lost": lambda sizes: sizes.before_run,
}


def _struck(machine: Machine, command: int, tail: Callable[[Sizes], int | None]) -> Spark:
    """Two epochs; a power cut strikes the second one before one of its commands."""
    machine.plan.is_counting = False
    with redis.Redis(port=machine.server.port) as client:
        client.flushall()
    spark = machine.spark()
    spark.run_until(1)
    sizes = Sizes(machine)
    run = machine.open_run()
    start, runs = spark.open_run, [run]
    spark.open_run = lambda: runs.pop() if runs else start()
    plan = machine.plan = FaultPlan()
    machine.connect_workers(run)
    for earlier in range(1, command):
        plan.visit(earlier, sizes.note)

    def strike() -> None:
        sizes.note()
        machine.power_cut(tail(sizes))

    plan.visit(command, strike)
    spark.run_until(2)
    return spark


@pytest.mark.parametrize(
    ("tail", "ahead"),
    [
        *((tail, None) for tail in TAILS),
        ("nothing lost", Ahead.WHEN_AWAITED),
        ("last command lost", Ahead.AT_ONCE),
    ],
)
def test_a_restart_inside_an_epoch_is_answered_by_a_new_run(
    machine: Machine, tail: str, ahead: Ahead | None
) -> None:
    """At each command of an epoch, until there is none left to strike at."""
    machine.ahead = ahead
    command = 1
    while True:
        spark = _struck(machine, command, TAILS[tail])
        words = f"at command {command}: {spark.failures}"
        assert machine.contents() == expected(2, machine.work), words
        if machine.plan.passed < command:
            break
        # No attempt of the old run gets through: the new Redis is not the one that it began with.
        assert spark.runs == 3, words
        assert set(spark.failures) <= {
            "task: StateUnavailable",
            "task: IncarnationChanged",
            "run: StateUnavailable",
            "run: IncarnationChanged",
        }, words
        command += 1
    assert command > 20


def test_what_was_sent_ahead_of_a_restart_is_not_gone_on_with(machine: Machine) -> None:
    """Over a real connection, whether its replies came before the server ended or not."""
    transport = RedisTransport(machine.settings)
    run = EpochLedger(transport, PIPELINE).open_run([NODE], PARALLELISM)
    transaction = RedisBackend(transport, PIPELINE).begin(NODE, EpochStamp(1, run, 0), [0])
    waiting = transaction.expect([HashGet(0, b"h", [b"a"])])

    machine.power_cut()

    with pytest.raises(IncarnationChanged):
        _wait_and_commit(waiting, transaction)
    transport.close()


def _wait_and_commit(waiting: Callable[[], object], transaction: EpochTransaction) -> None:
    waiting()
    transaction.commit({0: [HashPut(b"h", [b"a", b"1"])]})


def test_a_connection_to_another_incarnation_is_refused(machine: Machine) -> None:
    transport = RedisTransport(machine.settings)
    known = transport.incarnation
    machine.power_cut()

    # Again and again: a connection that was refused once is not handed out as a good one.
    for _ in range(3):
        with pytest.raises(IncarnationChanged, match=known):
            transport.exchange([("SET", "a", "1")])
    transport.close()


def test_a_lost_close_that_spark_recorded_is_refused(machine: Machine) -> None:
    spark = machine.spark()
    spark.run_until(1)
    keep = machine.log_length()
    spark.run_until(EPOCHS)

    machine.power_cut(keep)

    with pytest.raises(StateLost, match=rf"epoch 1\b.*epoch {EPOCHS + 1}\b") as caught:
        spark.run_until(EPOCHS + 1)
    assert "restore the redis that belongs to the checkpoint" in caught.value.hint
    assert "from a savepoint" in caught.value.hint


@pytest.mark.parametrize("behind", [0, 1, 2])
def test_a_replica_that_takes_over_has_every_closed_epoch_or_is_refused(
    machine: Machine, tmp_path: Path, behind: int
) -> None:
    """Replication was cut so many epochs before the primary was lost."""
    replica = RedisServer(tmp_path / "replica")
    replica.start()
    with redis.Redis(port=machine.server.port) as client:
        client.config_set("repl-diskless-sync-delay", "0")
    spark = machine.spark()
    spark.run_until(1)
    with redis.Redis(port=replica.port) as client:
        # Redis does not end while it writes the file of what it was sent first.
        client.config_set("appendonly", "no")
        client.replicaof("127.0.0.1", machine.server.port)
        await_true(lambda: client.info("replication")["master_link_status"] == "up")
        spark.run_until(EPOCHS - behind)
        offset = _flushed_offset(machine)
        await_true(lambda: client.info("replication")["slave_repl_offset"] >= offset)
        client.replicaof("NO", "ONE")
    spark.run_until(EPOCHS)
    run = machine.open_run()

    machine.server.kill()
    lost, machine.server = machine.server, replica

    with pytest.raises(StateUnavailable):
        run.worker.check(EPOCHS + 1)
    if not behind:
        spark.run_until(EPOCHS + 1)
        assert machine.contents() == expected(EPOCHS + 1)
    else:
        told = rf"epoch {EPOCHS - behind}\b.*epoch {EPOCHS + 1}\b"
        with pytest.raises(StateLost, match=told) as caught:
            spark.run_until(EPOCHS + 1)
        assert "restore the redis that belongs to the checkpoint" in caught.value.hint
        assert machine.contents() == expected(EPOCHS - behind), "nothing was overwritten"
    lost.stop()


def _flushed_offset(machine: Machine) -> int:
    with redis.Redis(port=machine.server.port) as client:
        return int(client.info("replication")["master_repl_offset"])


def test_a_redis_restored_from_an_older_dump_is_refused(machine: Machine, tmp_path: Path) -> None:
    spark = machine.spark()
    spark.run_until(1)
    machine.server.kill()
    shutil.copytree(machine.server.folder, tmp_path / "dump")
    machine.server.start()
    spark.run_until(EPOCHS)

    machine.server.kill()
    shutil.rmtree(machine.server.folder)
    shutil.copytree(tmp_path / "dump", machine.server.folder)
    machine.server.start()

    with pytest.raises(StateLost, match=rf"epoch 1\b.*epoch {EPOCHS + 1}\b"):
        spark.run_until(EPOCHS + 1)
    spark.checkpoint.recorded = 1
    spark.run_until(EPOCHS)
    assert machine.contents() == expected(), "a dump and the checkpoint of its time go together"


def test_a_redis_restored_inside_a_run_is_refused(machine: Machine, tmp_path: Path) -> None:
    """The query still runs, and notices at its next connection."""
    spark = machine.spark()
    spark.run_until(1)
    machine.server.kill()
    shutil.copytree(machine.server.folder, tmp_path / "dump")
    machine.server.start()
    spark.run_until(EPOCHS - 1)
    run = machine.open_run()

    machine.server.kill()
    shutil.rmtree(machine.server.folder)
    shutil.copytree(tmp_path / "dump", machine.server.folder)
    machine.server.start()

    with pytest.raises(IncarnationChanged):
        run.worker.check(EPOCHS)
    with pytest.raises(StateLost):
        spark.run_until(EPOCHS)


@pytest.mark.parametrize("recorded", [1, EPOCHS])
def test_an_emptied_redis_is_refused_between_runs(machine: Machine, recorded: int) -> None:
    spark = machine.spark()
    spark.run_until(recorded)
    _flush(machine)

    with pytest.raises(StateLost, match=rf"epoch 0\b.*epoch {recorded + 1}\b"):
        spark.run_until(recorded + 1)


@pytest.mark.parametrize("first", [1, 2])
def test_an_emptied_redis_is_refused_inside_a_run(machine: Machine, first: int) -> None:
    """FLUSHALL leaves the incarnation as it is: at each command, in the first epoch and later."""
    command = 1
    while True:
        _flush(machine)
        machine.plan.is_counting = False
        spark = machine.spark()
        spark.run_until(first - 1)
        run = machine.open_run()
        plan = machine.plan = FaultPlan()
        machine.connect_workers(run)
        plan.visit(command, lambda: _flush(machine))
        try:
            spark.run_epoch(run, first)
        except StateLost:
            command += 1
            continue
        break
    # What follows the close is promotion, which finds nothing to promote: the next epoch tells.
    assert command > 20
    with pytest.raises(StateLost):
        run.worker.check(first + 1)


def test_functions_are_loaded_when_they_are_missing(machine: Machine) -> None:
    spark = machine.spark()
    for epoch in range(1, EPOCHS + 1):
        with redis.Redis(port=machine.server.port) as client:
            client.function_flush()
        spark.run_until(epoch)

    assert machine.contents() == expected()
    assert not spark.failures


def _flush(machine: Machine) -> None:
    with redis.Redis(port=machine.server.port) as client:
        client.flushall()
