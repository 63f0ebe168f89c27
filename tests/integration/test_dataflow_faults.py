"""Processes of a running query that die in the middle of an epoch."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.materialized import expected_table, materialize_plan, random_changes
from tests.integration.pipelines import Pipeline, final_table, write_lines

if TYPE_CHECKING:
    import redis
    from pyspark.sql.connect.session import SparkSession

    from service.runtime.launcher import EmbeddedSpark

pytestmark = pytest.mark.integration

UDF_DAEMON = "service.runtime.daemon"
COMMIT_DAEMON = "python_streaming_sink_runner"
SOURCE_RUNNER = "python_streaming_source_runner"
PAUSE_MS = 60_000


def processes() -> dict[int, tuple[int, str]]:
    """Parent and command line of every process."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        found[int(folder.name)] = (parent, command)
    return found


def below(root: int, word: str) -> list[int]:
    """The processes below one whose command line has this word, without their common parent."""
    all_ = processes()

    def descends(pid: int) -> bool:
        while pid in all_:
            pid = all_[pid][0]
            if pid == root:
                return True
        return False

    named = {pid for pid, (_, command) in all_.items() if word in command and descends(pid)}
    workers = [pid for pid in named if all_[pid][0] in named]
    return sorted(workers or named)


def kill(pids: list[int]) -> int:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return len(pids)


def wait_until_a_write_is_held(client: redis.Redis) -> None:
    """Return once a command of an epoch waits for the end of the pause."""
    deadline = time.monotonic() + 60
    while not client.info("clients")["blocked_clients"]:
        assert time.monotonic() < deadline, "no epoch wrote anything"


def test_workers_killed_in_the_middle_of_epochs_change_nothing(
    spark: SparkSession, spark_server: EmbeddedSpark, redis_client: redis.Redis, tmp_path: Path
) -> None:
    lines = random_changes(90)
    write_lines(tmp_path / "in/a.jsonl", lines)
    assert spark_server.pid is not None
    killed = 0

    with Pipeline(
        spark, redis_client, tmp_path, materialize_plan(), rows_per_epoch_max=15
    ) as pipeline:
        for closed in (1, 3):
            pipeline.wait(lambda each, closed=closed: len(each) >= closed)
            redis_client.client_pause(PAUSE_MS, all=False)
            wait_until_a_write_is_held(redis_client)
            killed += kill(below(spark_server.pid, UDF_DAEMON))
            redis_client.client_unpause()
        pipeline.wait_for_rows(len(lines))

    assert killed >= 2
    assert final_table(pipeline.files("out"), "k") == expected_table(lines)
    assert sum(each["rows_in"] for each in pipeline.progress()) == len(lines)


@pytest.mark.parametrize("helper", [COMMIT_DAEMON, SOURCE_RUNNER])
def test_a_killed_helper_of_the_driver_loses_nothing(
    spark: SparkSession,
    spark_server: EmbeddedSpark,
    redis_client: redis.Redis,
    tmp_path: Path,
    helper: str,
) -> None:
    lines = random_changes(60)
    write_lines(tmp_path / "in/a.jsonl", lines)
    assert spark_server.pid is not None

    pipeline = Pipeline(
        spark, redis_client, tmp_path, materialize_plan(), rows_per_epoch_max=15
    ).start()
    pipeline.wait(lambda each: len(each) >= 1)
    redis_client.client_pause(PAUSE_MS, all=False)
    wait_until_a_write_is_held(redis_client)
    assert kill(below(spark_server.pid, helper)) >= 1
    redis_client.client_unpause()
    # If the held write was a worker's, Spark replaces the helper and the query does not even end.
    pipeline.wait(lambda each: sum(e["rows_in"] for e in each) == len(lines), may_fail=True)
    pipeline.stop()
    with pipeline:
        pipeline.wait_for_rows(len(lines))

    assert final_table(pipeline.files("out"), "k") == expected_table(lines)
    records = pipeline.progress()
    assert [each["epoch"] for each in records] == list(range(1, len(records) + 1))
    assert sum(each["rows_in"] for each in records) == len(lines)
