"""Metadata columns on real Spark: plans of Flink's and of ours, files and Kafka's stand-in."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from service.runtime import kafka_stream
from service.sql import compile_script
from tests.integration.kafka_stand_in import KafkaStandIn, write_records
from tests.integration.pipelines import Pipeline, write_lines
from tests.service.plan.builders import recorded_plan

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql.connect.session import SparkSession

pytestmark = pytest.mark.integration


def write(path: Path, modified_ms: int, *lines: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(b"".join(each + b"\n" for each in lines))
    os.utime(hidden, ns=(0, modified_ms * 1_000_000))
    hidden.rename(path)


def beside(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """One plan of two; what the second one writes is called `other`."""
    for node in second["nodes"]:
        node["id"] += 100
    for edge in second["edges"]:
        edge["source"] += 100
        edge["target"] += 100
    sink = second["nodes"][-1]["dynamicTableSink"]["table"]
    sink["identifier"] = "`default_catalog`.`default_database`.`other`"
    nodes, edges = (first[part] + second[part] for part in ("nodes", "edges"))
    return {**first, "nodes": nodes, "edges": edges}


def test_files_tell_the_same_whenever_an_epoch_runs(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    """Two plans of Flink's in one, which read different keys of one table.

    Both cast `s` to INT. Flink 2.3 gave the same paths, times and sizes of these two files.
    """
    document = beside(recorded_plan("170_metadata_projected"), recorded_plan("171_metadata_alone"))
    first, second = tmp_path / "in/a.json", tmp_path / "in/sub dir/b \u00e4.json"
    write(first, 1_700_000_000_123, b'{"id":1,"n":10}', b'{"id":2,"n":20}')
    run = {"rows_per_epoch_max": 1, "parallelism": 1}

    with Pipeline(spark, redis_client, tmp_path, document, **run) as pipeline:
        pipeline.wait_for_rows(1)
    # The file is touched between two epochs that read it, and one of them runs again.
    epoch = pipeline.fence()
    (tmp_path / f"checkpoint/commits/{epoch - 1}").unlink(missing_ok=True)
    os.utime(first)
    write(second, 1_700_000_100_500, b'{"id":3,"n":30}')
    with Pipeline(spark, redis_client, tmp_path, document, **run) as pipeline:
        pipeline.wait_for_rows(3)

    assert sorted(row["nm"] for _, row in pipeline.printed("other")) == [
        "a.json",
        "a.json",
        "b \u00e4.json",
    ]
    assert [row["s"] for _, row in pipeline.printed("other")] == [32, 32, 16]
    told = {"m": "2023-11-14 22:13:20.123Z", "s": 32, "p": str(first)}
    assert pipeline.printed("o") == [
        ("+I", {"n": 10, **told}),
        ("+I", {"n": 20, **told}),
        ("+I", {"n": 30, "m": "2023-11-14 22:15:00.5Z", "s": 16, "p": str(second)}),
    ]


def test_a_records_time_is_event_time_and_files_can_be_grouped_by(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.dataSource.register(KafkaStandIn)
    monkeypatch.setattr(kafka_stream, "FORMAT", KafkaStandIn.name())
    broker = tmp_path / "broker"
    for partition, offsets in enumerate([(0, 1, 59, 130), (2, 61, 131)]):
        records = {each: b'{"id":%d}' % each for each in offsets}
        write_records(broker, "t", partition, records)
    write_lines(tmp_path / "in/a", [b'{"id":1}', b'{"id":2}'])
    write_lines(tmp_path / "in/b", [b'{"id":3}'])
    script = f"""
        CREATE TABLE k (
          id INT,
          part INT METADATA FROM 'partition' VIRTUAL,
          ts TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL,
          headers MAP<STRING NOT NULL, BYTES NOT NULL> NOT NULL METADATA VIRTUAL,
          topic STRING METADATA VIRTUAL,
          place AS topic || '/' || CAST(`offset` AS STRING),
          `offset` BIGINT NOT NULL METADATA VIRTUAL,
          WATERMARK FOR ts AS ts - INTERVAL '1' SECOND
        ) WITH (
          'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = '{broker}',
          'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
        );
        CREATE TABLE f (name STRING METADATA FROM 'file.name' VIRTUAL, id INT)
          WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
        CREATE TABLE windows (start TIMESTAMP(3), c BIGINT, parts BIGINT)
          WITH ('connector' = 'print');
        CREATE TABLE seen (place STRING, `at` STRING, part INT) WITH ('connector' = 'print');
        CREATE TABLE files (name STRING, c BIGINT, PRIMARY KEY (name) NOT ENFORCED)
          WITH ('connector' = 'redis');
        EXECUTE STATEMENT SET BEGIN
        INSERT INTO windows SELECT window_start, COUNT(*), COUNT(DISTINCT part)
          FROM TABLE(TUMBLE(TABLE k, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
          GROUP BY window_start, window_end;
        INSERT INTO seen SELECT place, CAST(headers['at'] AS STRING), part FROM k WHERE id < 3;
        INSERT INTO files SELECT name, COUNT(*) FROM f GROUP BY name;
        END;
    """
    document = compile_script(script)[-1].document

    with Pipeline(spark, redis_client, tmp_path, document, tick_interval_ms=300) as pipeline:
        pipeline.wait_for_rows(10)
        pipeline.wait(lambda _: len(pipeline.printed("windows")) == 2)

    # The third minute is not over by the last record.
    assert pipeline.printed("windows") == [
        ("+I", {"start": f"2023-11-14 22:{minute}:00", "c": count, "parts": 2})
        for minute, count in ((13, 3), (14, 2))
    ]
    seen: list[dict[str, Any]] = [row for _, row in pipeline.printed("seen")]
    assert sorted(seen, key=lambda row: row["place"]) == [
        {"place": "t/0", "at": "0", "part": 0},
        {"place": "t/1", "at": None, "part": 0},
        {"place": "t/2", "at": "2", "part": 1},
    ]
    rows = {row["name"]: row["c"] for row in pipeline.table("files").values()}
    assert rows == {"a": 2, "b": 1}
