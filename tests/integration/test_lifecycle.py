"""Pipelines outlive what they run on: sessions, the Connect server, the service; all real.

The query is the smallest there is (rate to noop), on a checkpoint of its own, so that every restart
goes on with the same Spark query.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pytest

from service.runtime import gateway as gateway_module
from service.runtime.errors import SparkUnavailable, WorkersDiffer
from service.runtime.gateway import QueryState, SparkGateway
from service.runtime.keeper_ports import KeeperPorts, Run
from service.runtime.registry import Registry
from service.runtime.status import RestartLimits
from service.runtime.supervisor import Supervisor, SystemClock
from service.settings import ExecutionSettings, SparkSettings
from tests.conftest import free_port
from tests.integration.system import end_session

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    import redis

    from service.runtime.keeper_ports import States
    from service.runtime.launcher import EmbeddedSpark
    from service.runtime.records import PipelineRecord, RunOptions, SavepointOrder
    from service.runtime.supervisor import PipelineStatus

LIMIT_S = 240
LIMITS = RestartLimits(restarts_max=5, backoff_min_ms=50, backoff_max_ms=500, reset_ms=600_000)


class RateToNoop:
    """The smallest query; fails in a worker once `broken_by` is set."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.broken_by = ""

    def options(self, record: PipelineRecord, run: Run) -> RunOptions:
        return record.options.resolved(ExecutionSettings())

    def states(self, record: PipelineRecord) -> States:
        return {}

    def start(self, spark: Any, record: PipelineRecord, run: Run) -> Any:
        rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
        if text := self.broken_by:

            def fail(batches: Iterator[Any]) -> Iterator[Any]:
                for batch in batches:
                    if batch.num_rows:
                        raise RuntimeError(text)
                    yield batch

            rows = rows.mapInArrow(fail, rows.schema)
        return (
            rows.writeStream.format("noop")
            .queryName(record.name)
            .option("checkpointLocation", str(self._folder / record.id))
            .trigger(processingTime="100 milliseconds")
            .start()
        )

    def discard(self, record: PipelineRecord) -> None:
        return None


@dataclass
class CountedRuns:
    """Run counters of queries without state."""

    runs: dict[str, int] = field(default_factory=dict)

    def open_run(self, name: str, states: States, max_parallelism: int) -> Run:
        self.runs[name] = self.runs.get(name, 0) + 1
        return Run(self.runs[name], None)

    def epoch(self, name: str) -> int:
        return 0

    def require_run(self, name: str, run: int) -> None:
        assert self.runs[name] == run

    def drop(self, name: str) -> None:
        self.runs.pop(name)


class NoSavepoints:
    """None is asked for here."""

    def save(self, record: PipelineRecord, order: SavepointOrder) -> None:
        raise AssertionError("no savepoint was ordered")

    def restore(self, record: PipelineRecord) -> None:
        raise AssertionError("no restore was ordered")

    def latest(self, name: str) -> str | None:
        return None


class Service:
    """Gateway and supervisor as the service wires them."""

    def __init__(self, remote: str, client: redis.Redis, folder: Path) -> None:
        self.registry = Registry(client, 10)
        self.starter = RateToNoop(folder)
        self.ledgers = CountedRuns()
        self._settings = SparkSettings(remote=remote, connect_timeout_ms=120_000)
        self._open()

    def _open(self) -> None:
        self.gateway = SparkGateway(self._settings, self.registry)
        ports = KeeperPorts(
            registry=self.registry,
            queries=self.gateway,
            starter=self.starter,
            ledgers=self.ledgers,
            savepoints=NoSavepoints(),
            clock=SystemClock(),
            limits=LIMITS,
            look_interval_ms=50,
            stop_timeout_ms=60_000,
            max_parallelism=8,
        )
        self.supervisor = Supervisor(ports)

    async def close(self) -> None:
        await self.supervisor.close()
        await self.gateway.close()

    async def replace(self) -> None:
        """Die and come back as another process would: nothing survives but Redis and Spark."""
        await self.close()
        self._open()
        await self.supervisor.start()

    async def run(self, name: str) -> PipelineStatus:
        self.registry.create(name, {}, desired="RUNNING")
        self.supervisor.wake(name)
        return await self.until(name, lambda status: status.state == "RUNNING")

    async def until(self, name: str, holds: Callable[[PipelineStatus], bool]) -> PipelineStatus:
        """Watch a pipeline's status until it is as expected; the test's limit ends a hang."""
        while not holds(self.supervisor.status(name)):  # noqa: ASYNC110 - as clients poll it
            await asyncio.sleep(0.02)
        return self.supervisor.status(name)

    async def rows_seen(self, name: str) -> int:
        """Wait for the query's next epoch with rows; its batch id."""
        handle = self.registry.get(name).query
        assert handle is not None

        def last(spark: Any) -> Any:
            (query,) = [each for each in spark.streams.active if each.name == name]
            return query.lastProgress

        # Spark tells of progress only when asked.
        while True:
            found = await self.gateway.call(last)
            if found is not None and found.numInputRows:
                return int(found.batchId)
            await asyncio.sleep(0.05)

    async def names_active(self) -> list[str]:
        return await self.gateway.call(lambda spark: [each.name for each in spark.streams.active])


def serve(
    server: EmbeddedSpark,
    client: redis.Redis,
    folder: Path,
    scenario: Callable[[Service], Awaitable[None]],
) -> None:
    async def run() -> None:
        service = Service(server.remote, client, folder)
        try:
            async with asyncio.timeout(LIMIT_S):
                await scenario(service)
        finally:
            await service.close()
            await end_session(server, client)

    asyncio.run(run())


def test_query_is_stopped_and_goes_on_from_its_checkpoint(
    spark_server: EmbeddedSpark, redis_client: redis.Redis, tmp_path: Path
) -> None:
    async def scenario(service: Service) -> None:
        first = await service.run("stop-start")
        seen = await service.rows_seen("stop-start")

        service.registry.update("stop-start", desired="STOPPED")
        service.supervisor.wake("stop-start")
        await service.until("stop-start", lambda status: status.state == "STOPPED")
        assert await service.names_active() == []

        service.registry.update("stop-start", desired="RUNNING")
        service.supervisor.wake("stop-start")
        second = await service.until("stop-start", lambda status: status.state == "RUNNING")
        assert (second.query_id, second.run) == (first.query_id, 2)
        assert await service.rows_seen("stop-start") > seen

    serve(spark_server, redis_client, tmp_path, scenario)


def test_end_of_the_session_does_not_end_the_pipeline(
    spark_server: EmbeddedSpark, redis_client: redis.Redis, tmp_path: Path
) -> None:
    async def scenario(service: Service) -> None:
        first = await service.run("session-end")
        await service.rows_seen("session-end")
        old_session = service.registry.session_id()

        # From another client, as a time-out or an administrator would: the server ends it.
        other = SparkGateway(SparkSettings(remote=spark_server.remote), service.registry)
        await other.call(lambda spark: spark.client.release_session())
        await other.close()

        status = await service.until("session-end", lambda status: status.run == 2)
        assert status.query_id == first.query_id, "it goes on from the checkpoint"
        await service.rows_seen("session-end")
        assert service.registry.session_id() != old_session

    serve(spark_server, redis_client, tmp_path, scenario)


def test_next_service_adopts_the_query_without_a_restart(
    spark_server: EmbeddedSpark, redis_client: redis.Redis, tmp_path: Path
) -> None:
    async def scenario(service: Service) -> None:
        await service.run("adopted")
        await service.rows_seen("adopted")
        before = service.registry.get("adopted").query

        await service.replace()
        status = await service.until("adopted", lambda status: status.state == "RUNNING")

        assert status.run == 1
        assert service.registry.get("adopted").query == before
        await service.rows_seen("adopted")

    serve(spark_server, redis_client, tmp_path, scenario)


def test_failure_that_a_worker_names_is_shown_without_anything_else(
    spark_server: EmbeddedSpark, redis_client: redis.Redis, tmp_path: Path
) -> None:
    async def scenario(service: Service) -> None:
        service.starter.broken_by = "[tailrace:state-lost] marker 3, checkpoint 5\nrow: secret"
        service.registry.create("lost", {}, desired="RUNNING")
        service.supervisor.wake("lost")

        status = await service.until("lost", lambda status: status.state == "FAILED")

        assert status.error is not None
        assert (status.error.code, status.error.message) == (
            "state-lost",
            "marker 3, checkpoint 5; there is no savepoint",
        )
        assert status.run == 1, "never tried again"

    serve(spark_server, redis_client, tmp_path, scenario)


def test_deleted_pipeline_leaves_no_query(
    spark_server: EmbeddedSpark, redis_client: redis.Redis, tmp_path: Path
) -> None:
    async def scenario(service: Service) -> None:
        await service.run("deleted")

        service.registry.delete("deleted")
        service.supervisor.wake("deleted")

        keepers = [each for each in asyncio.all_tasks() if each.get_name() == "tailrace deleted"]
        if keepers:
            await asyncio.wait(keepers, timeout=60)
        assert await service.names_active() == []
        assert service.registry.names() == frozenset()

    serve(spark_server, redis_client, tmp_path, scenario)


def test_workers_of_another_version_are_refused_before_a_query_starts(
    spark_server: EmbeddedSpark,
    redis_client: redis.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gateway_module, "package_version", lambda: "9.9.9")

    async def scenario(service: Service) -> None:
        with pytest.raises(WorkersDiffer, match=r"have tailrace .*, the service has 9\.9\.9"):
            await service.gateway.start(lambda spark: pytest.fail("must not start"))

    serve(spark_server, redis_client, tmp_path, scenario)


# The client warns that it has tried as often as it may, which is what is tested.
@pytest.mark.filterwarnings(r"ignore:\[RETRIES_EXCEEDED\]")
def test_absent_server_is_unavailable_within_the_limit(redis_client: redis.Redis) -> None:
    async def ask() -> None:
        settings = SparkSettings(remote=f"sc://127.0.0.1:{free_port()}", call_timeout_ms=15_000)
        gateway = SparkGateway(settings, Registry(redis_client, 10))
        try:
            with pytest.raises(SparkUnavailable):
                await gateway.version()
        finally:
            await gateway.close()

    asyncio.run(ask())


def test_unknown_query_is_gone(
    spark_server: EmbeddedSpark, redis_client: redis.Redis, tmp_path: Path
) -> None:
    async def scenario(service: Service) -> None:
        await service.run("known")
        handle = service.registry.get("known").query
        assert handle is not None
        missing = replace(handle, query_id="00000000-0000-4000-8000-000000000000")
        other_run = replace(handle, run_id="00000000-0000-4000-8000-000000000000")
        other_session = replace(handle, session_id="00000000-0000-4000-8000-000000000000")

        for each in (missing, other_run, other_session):
            assert (await service.gateway.look(each)).state is QueryState.GONE

    serve(spark_server, redis_client, tmp_path, scenario)
