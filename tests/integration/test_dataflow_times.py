"""Plans run on real Spark and Redis: ticks, times of epochs, TTL and time zones."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.sql import compile_script
from tests.integration.materialized import INPUT, materialize_plan
from tests.integration.pipelines import Pipeline, PlanBuilder, call, change, ref, write_lines

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql.connect.session import SparkSession

ZONED = """
SET 'table.local-time-zone' = 'Europe/Berlin';
CREATE TABLE a (k BIGINT, z TIMESTAMP_LTZ(3))
  WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'a');
CREATE TABLE b (k BIGINT, s STRING)
  WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'b');
CREATE TABLE snk (t STRING, h BIGINT, f TIMESTAMP_LTZ(3)) WITH ('connector' = 'print');
COMPILE PLAN 'p' FOR INSERT INTO snk
  SELECT CAST(a.z AS STRING), EXTRACT(HOUR FROM a.z), FLOOR(a.z TO DAY)
  FROM a JOIN b ON a.k = b.k AND DATE_FORMAT(a.z, 'HH') >= b.s;
"""


def test_calcs_and_conditions_of_operators_are_of_the_zone_that_set_says(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    (planned,) = compile_script(ZONED)
    instants = ["2024-03-31 00:59:59Z", "2024-03-31 01:00:00Z", "2024-10-27 00:30:00Z"]
    write_lines(tmp_path / "a/a.jsonl", [change("+I", k=1, z=each) for each in instants])
    # An hour later it is three, since the clocks skip two to three; in UTC it would never be.
    write_lines(tmp_path / "b/b.jsonl", [change("+I", k=1, s="02")])

    with Pipeline(spark, redis_client, tmp_path, planned.document) as pipeline:
        pipeline.wait_for_rows(len(instants) + 1)

    found = sorted(pipeline.printed("snk"), key=str)
    assert found == [
        ("+I", {"t": "2024-03-31 03:00:00.000", "h": 3, "f": "2024-03-30 22:00:00Z"}),
        ("+I", {"t": "2024-10-27 02:30:00.000", "h": 2, "f": "2024-10-26 22:00:00Z"}),
    ]


def test_ticks_run_epochs_while_no_data_comes(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    with Pipeline(
        spark, redis_client, tmp_path, materialize_plan(), tick_interval_ms=300
    ) as pipeline:
        records = pipeline.wait(lambda each: len(each) >= 3)

    assert all(each["rows_in"] == 0 and each["nodes"] == {} for each in records)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("parallelism", [1, 3])
def test_state_expires_in_epochs_that_no_task_of_the_source_reads(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, parallelism: int
) -> None:
    plan = materialize_plan()
    plan["nodes"][2]["state"][0]["ttl"] = "1 s"
    lines = [change("+I", id=number, k=f"k{number}", v=1) for number in range(20)]
    write_lines(tmp_path / "in/s.jsonl", lines)

    def expired(record: dict[str, Any]) -> int:
        return int(record["nodes"].get("3_sink-materializer", {}).get("expired", 0))

    with Pipeline(
        spark,
        redis_client,
        tmp_path,
        plan,
        tick_interval_ms=200,
        parallelism=parallelism,
    ) as pipeline:
        records = pipeline.wait(lambda all_: sum(map(expired, all_)) >= 20)
        batches = {each["batchId"]: each for each in pipeline.query.recentProgress}

    assert sum(map(expired, records)) == 20
    quiet = [each for each in records if expired(each)]
    assert all(each["rows_in"] == 0 for each in quiet)
    # Spark read no row: not even a tick.
    read = [batches[each["epoch"] - 1] for each in quiet if each["epoch"] - 1 in batches]
    assert all(source["numInputRows"] == 0 for each in read for source in each["sources"])
    for each in records:
        assert each["time_ms"] == each["offsets"]["s"]["time"]


def test_no_constant_of_an_epoch_is_in_the_code_that_spark_compiles(
    spark: SparkSession,
    redis_client: redis.Redis,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ltz = "TIMESTAMP_LTZ(3) NOT NULL"
    timed = {"id": "INT NOT NULL", "at": ltz}
    plan = PlanBuilder()
    scan = plan.scan("s", INPUT, connector="filesystem", format="changelog-json", path="in")
    now = call("PROCTIME", ltz, syntax="FUNCTION")
    calc = plan.calc(timed, scan, [ref(0, "INT NOT NULL"), now])
    plan.sink("snk", timed, calc, connector="print")
    write_lines(tmp_path / "in/s.jsonl", [change("+I", id=1, k="a", v=1)])

    # Without ticks: the plan of an epoch that only a tick began has nothing in it.
    with Pipeline(spark, redis_client, tmp_path, plan.document()) as pipeline:
        records = pipeline.wait_for_rows(1)
        pipeline.query.explain()
        (_, row), *_ = pipeline.printed("snk")

    assert [each["time_ms"] for each in records] == [
        each["offsets"]["s"]["time"] for each in records
    ]
    shown = datetime.datetime.fromisoformat(row["at"])
    assert shown.timestamp() * 1_000 == records[0]["time_ms"]
    physical = capsys.readouterr().out
    assert "Exchange" in physical or "Project" in physical, physical
    # A timestamp in a plan is a literal, and literals are in the code that is made of it.
    assert "unix_millis" not in physical
    assert f"{records[-1]['time_ms'] // 1_000_000}" not in physical


def test_time_from_the_lines_drives_ttl(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    steps = [(0, "+I", 1, 10), (300, "+I", 2, 20), (3000, "-D", 2, 20), (3300, "+I", 3, 30)]
    steps += [(3600, "+I", 4, 40), (3900, "-D", 4, 40)]
    lines = [
        orjson.dumps({"op": op, "data": {"id": number, "k": "a", "v": value}, "t": t})
        for t, op, number, value in steps
    ]
    write_lines(tmp_path / "in/s.jsonl", lines)
    epochs = orjson.dumps([(t, 1_700_000_000_000 + t) for t, *_ in steps]).decode()
    plan = materialize_plan(testing__time_field="t", testing__epochs=epochs)
    plan["nodes"][2]["state"][0]["ttl"] = "2 s"

    with Pipeline(spark, redis_client, tmp_path, plan) as pipeline:
        records = pipeline.wait_for_rows(len(lines))

    assert [each["time_ms"] - records[0]["time_ms"] for each in records] == [t for t, *_ in steps]
    shown = [(each["op"], each["data"]["v"]) for each in pipeline.files("out")]
    assert shown == [("+I", 10), ("+U", 20), ("+I", 30), ("+U", 40), ("+U", 30)]
