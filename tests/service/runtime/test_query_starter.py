"""From a record and the settings to a job, and the ledgers of pipelines in a real Redis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import redis

from service.runtime.errors import StartFailed
from service.runtime.keeper import Run
from service.runtime.query_starter import DataflowStarter, RedisLedgers
from service.runtime.records import PipelineOptions, PipelineRecord
from service.settings import (
    ExecutionSettings,
    FilesSettings,
    RedisSettings,
    Settings,
    SparkSettings,
)
from state.errors import CodecMismatch, StateUnavailable
from state.multiset.registered import HistoryDescriptor
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


def test_stateful_operators_of_the_demo_are_found(tmp_path: Path) -> None:
    states = DataflowStarter(settings(tmp_path)).states(record(demo_plan()))

    ((operator, (history,)),) = states.items()
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


def test_runs_are_counted_and_know_their_redis(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))

    first = ledgers.open_run("p", {"3_sink-materializer": []}, 4)
    second = ledgers.open_run("p", {"3_sink-materializer": []}, 4)

    assert (first.number, second.number) == (1, 2)
    assert first.incarnation == redis_client.info("server")["run_id"]


def test_a_ttl_that_is_switched_on_is_told_with_its_time(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))
    without = HistoryDescriptor(name="history", row="INT", key=(0,), match=())
    with_ttl = replace(without, ttl=TtlConfig(1000))

    runs = [ledgers.open_run("p", {"3": [each]}, 4) for each in (without, with_ttl, with_ttl)]
    others = ledgers.open_run("q", {"3": [with_ttl]}, 4)

    before, switched, kept = (each.ttl_enabled_ms["3"] for each in runs)
    assert before is None
    assert switched is not None
    assert kept == switched
    assert others.ttl_enabled_ms == {"3": None}


def test_state_of_another_form_is_not_opened(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))
    history = HistoryDescriptor(name="history", row="INT", key=(0,), match=())
    ledgers.open_run("p", {"3": [history]}, 4)

    with pytest.raises(CodecMismatch, match="history of INT"):
        ledgers.open_run("p", {"3": [replace(history, row="BIGINT")]}, 4)


def test_epoch_is_that_of_the_marker(redis_server: RedisServer, redis_client: redis.Redis) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))
    assert ledgers.epoch("p") == 0

    redis_client.hset("tailrace:{p}:marker", "epoch", 9)

    assert ledgers.epoch("p") == 9


def test_dropped_state_leaves_the_run_counter_only(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    ledgers = RedisLedgers(redis_client, RedisSettings(url=redis_server.url))
    ledgers.open_run("p", {"3_sink-materializer": []}, 4)

    ledgers.drop("p")

    assert redis_client.keys() == [b"tailrace:{p}:run"]


def test_silent_redis_is_unavailable() -> None:
    port = free_port()
    with (
        redis.Redis(port=port, socket_connect_timeout=1) as client,
        pytest.raises(StateUnavailable),
    ):
        RedisLedgers(client, RedisSettings(url=f"redis://127.0.0.1:{port}/0")).epoch("p")
