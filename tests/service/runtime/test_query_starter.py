"""From a record and the settings to a job, and the ledgers of pipelines in a real Redis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from operators.wire import EPOCH_TIME
from operators.worker import OperatorTask
from service.runtime.connections import redis_of
from service.runtime.errors import QueryFailed, StartFailed
from service.runtime.keeper_ports import PlannedStates, Run
from service.runtime.query_starter import DataflowStarter, RedisLedgers
from service.runtime.records import PipelineOptions, PipelineRecord
from service.runtime.sinks.spec import WriterSpec
from service.runtime.sources.spec import SourceSpec
from service.runtime.spark_configuration import SPEC_OPTION
from service.settings import (
    ExecutionSettings,
    FilesSettings,
    RedisSettings,
    Settings,
    SparkSettings,
)
from state.backends.interface import EpochStamp
from state.epochs import EpochLedger
from state.errors import CodecMismatch, StateUnavailable
from state.multiset.registered import HistoryDescriptor
from state.registry import extend_ttl
from state.ttl import TtlConfig
from tests.conftest import RedisServer, free_port

if TYPE_CHECKING:
    from pathlib import Path


def settings(folder: Path, **execution: int) -> Settings:
    return Settings(
        redis=RedisSettings(url="redis://127.0.0.1:1/0"),
        spark=SparkSettings(checkpoint_folder=folder / "checkpoints"),
        files=FilesSettings(root=folder / "files"),
        execution=ExecutionSettings(**execution),
    )


def record(plan: dict[str, object], max_parallelism: int | None = None) -> PipelineRecord:
    options = PipelineOptions(max_parallelism=max_parallelism)
    return PipelineRecord(name="p", id="0" * 32, plan=plan, options=options)


def demo_plan() -> dict[str, object]:
    import json
    from importlib.resources import files

    text = files("service.demo").joinpath("latest_flight.plan.json").read_text()
    return dict(json.loads(text))


def test_job_is_of_the_record_the_run_and_the_settings(tmp_path: Path) -> None:
    starter = DataflowStarter(settings(tmp_path, parallelism=3, orphans_max=7))

    job = starter.job(record(demo_plan(), max_parallelism=16), Run(5, "incarnation"))

    assert (job.pipeline, job.run, job.incarnation) == ("p", 5, "incarnation")
    assert (job.parallelism, job.max_parallelism, job.orphans_max) == (3, 16, 7)
    assert job.checkpoint == str(tmp_path / "checkpoints" / ("0" * 32))
    assert job.files_root == str(tmp_path / "files")


class RecordingSpark(MagicMock):
    """Takes any call of a session and of what comes of it; frames are wide enough for any plan."""

    columns = ("column",) * 40

    def options(self) -> dict[str, list[str]]:
        """Values of all options that were set anywhere, by name."""
        found: dict[str, list[str]] = {}
        for name, arguments, _ in self.mock_calls:
            if name.endswith(".option"):
                found.setdefault(arguments[0], []).append(arguments[1])
        return found


def test_what_runs_in_spark_waits_for_redis_as_the_service_does(tmp_path: Path) -> None:
    password = "b0b"
    given = settings(tmp_path).model_copy(
        update={
            "redis": RedisSettings(
                url=f"redis://:{password}@127.0.0.1:1/0",
                connect_timeout_ms=123,
                socket_timeout_ms=4_567,
            )
        }
    )
    spark = RecordingSpark()

    DataflowStarter(given).start(spark, record(demo_plan()), Run(5, "incarnation"))

    options = spark.options()
    source, writer = options.pop(SPEC_OPTION)
    specs = [SourceSpec.from_json(source), WriterSpec.from_json(writer)]
    task = OperatorTask.from_json(specs[1].sinks[0].operator)
    for each in (*specs, task.settings):
        assert (each.connect_timeout_ms, each.socket_timeout_ms) == (123, 4_567)
        assert password not in repr(each)
    pool = redis_of(specs[0]).connection_pool.connection_kwargs
    assert (pool["socket_connect_timeout"], pool["socket_timeout"]) == (0.123, 4.567)
    assert password not in str(options)
    assert password not in repr(specs)


def test_stateful_operators_of_the_demo_are_found(tmp_path: Path) -> None:
    states = DataflowStarter(settings(tmp_path)).states(record(demo_plan()))

    ((operator, (history,)),) = states.descriptors.items()
    assert operator.endswith("_sink-materializer")
    assert (history.name, history.kind) == ("history", "history")


def test_plan_that_is_none_is_a_failed_start(tmp_path: Path) -> None:
    with pytest.raises(StartFailed) as refused:
        DataflowStarter(settings(tmp_path)).states(record({"nodes": "none"}))

    assert refused.value.code.startswith("plan")


def test_checkpoint_is_removed_also_when_there_is_none(tmp_path: Path) -> None:
    starter = DataflowStarter(settings(tmp_path))
    folder = starter.checkpoint(record({}))
    (folder / "offsets").mkdir(parents=True)

    starter.discard(record({}))
    starter.discard(record({}))

    assert not folder.exists()


def test_checkpoint_that_cannot_be_removed_is_told(tmp_path: Path) -> None:
    starter = DataflowStarter(settings(tmp_path))
    folder = starter.checkpoint(record({}))
    folder.parent.mkdir(parents=True)
    folder.write_text("a file, which no folder of a checkpoint is")

    with pytest.raises(QueryFailed, match="cannot be removed: Not a directory") as told:
        starter.discard(record({}))
    assert told.value.code == "checkpoint-unusable"


def test_runs_are_counted_and_know_their_redis(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))

    first = ledgers.open_run("p", PlannedStates({"3_sink-materializer": []}), 4)
    second = ledgers.open_run("p", PlannedStates({"3_sink-materializer": []}), 4)

    assert (first.number, second.number) == (1, 2)
    assert first.incarnation == redis_client.info("server")["run_id"]


def test_a_ttl_that_is_switched_on_is_told_with_its_time(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))
    without = HistoryDescriptor(name="history", row="INT", key=(0,), match=())
    with_ttl = replace(without, ttl=TtlConfig(1000))

    runs = [
        ledgers.open_run("p", PlannedStates({"3": [each]}), 4)
        for each in (without, with_ttl, with_ttl)
    ]
    others = ledgers.open_run("q", PlannedStates({"3": [with_ttl]}), 4)

    before, switched, kept = (each.states["3"][0].enabled_ms for each in runs)
    assert before is None
    assert switched is not None
    assert kept == switched
    assert others.states["3"][0].enabled_ms is None


def test_a_ttl_begins_no_earlier_than_the_last_epoch_where_a_clock_was_set_back(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    """Epochs go on by the time of the last one: a life of an hour would be over at once."""
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))
    without = HistoryDescriptor(name="history", row="INT", key=(0,), match=())
    ledgers.open_run("p", PlannedStates({"3": [without]}), 4)
    ahead_ms = 9_999_999_999_999
    ledger = EpochLedger(redis_client, "p")
    ledger.close_epoch(EpochStamp(1, 1, ahead_ms), {EPOCH_TIME: ahead_ms}, [])

    run = ledgers.open_run("p", PlannedStates({"3": [replace(without, ttl=TtlConfig(1))]}), 4)

    assert run.states["3"][0].enabled_ms == ahead_ms


def test_an_extension_of_lives_reaches_the_options_of_the_next_run(
    redis_server: RedisServer, redis_client: redis.Redis, tmp_path: Path
) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))
    extend_ttl(EpochLedger(redis_client, "p"), 3_000)
    extend_ttl(EpochLedger(redis_client, "p"), 4_000)

    run = ledgers.open_run("p", PlannedStates({}), 4)

    (operator,) = DataflowStarter(settings(tmp_path)).job(record(demo_plan()), run).operators()
    assert operator.spec.ttl_extension_ms == 7_000


def test_state_of_another_form_is_not_opened(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))
    history = HistoryDescriptor(name="history", row="INT", key=(0,), match=())
    ledgers.open_run("p", PlannedStates({"3": [history]}), 4)

    with pytest.raises(CodecMismatch, match="history of INT"):
        ledgers.open_run("p", PlannedStates({"3": [replace(history, row="BIGINT")]}), 4)


def test_epoch_is_that_of_the_marker(redis_server: RedisServer, redis_client: redis.Redis) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))
    assert ledgers.epoch("p") == 0

    redis_client.hset("tailrace:{p}:marker", "epoch", 9)

    assert ledgers.epoch("p") == 9


def test_dropped_state_leaves_the_run_counter_only(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))
    ledgers.open_run("p", PlannedStates({"3_sink-materializer": []}), 4)

    ledgers.drop("p")

    assert redis_client.keys() == [b"tailrace:{p}:run"]


def test_silent_redis_is_unavailable() -> None:
    port = free_port()
    with (
        redis.Redis(port=port, retry=Retry(NoBackoff(), 0)) as client,
        pytest.raises(StateUnavailable),
    ):
        RedisLedgers(client, RedisSettings(url=f"redis://127.0.0.1:{port}/0")).epoch("p")
