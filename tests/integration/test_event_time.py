"""Event time on Spark: sources that are idle, and rows that have no time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from service.sql import compile_script
from tests.integration.pipelines import Pipeline, write_lines

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql.connect.session import SparkSession

SCRIPT = """
CREATE TABLE a (id INT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH
  ('connector' = 'filesystem', 'format' = 'json', 'path' = 'a');
CREATE TABLE b (id INT, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH
  ('connector' = 'filesystem', 'format' = 'json', 'path' = 'b');
CREATE TABLE o (id INT, at TIMESTAMP(3)) WITH ('connector' = 'print');
INSERT INTO o SELECT a.id, a.at FROM a LEFT JOIN b
  ON a.id = b.id AND a.at BETWEEN b.at - INTERVAL '1' SECOND AND b.at;
"""


def test_an_idle_source_holds_nothing_back_and_a_row_without_a_time_is_a_dead_letter(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    rows = [(1, "2020-01-01 00:00:00"), (2, None), (3, "2020-01-01 01:00:00")]
    (tmp_path / "b").mkdir()
    write_lines(tmp_path / "a/a.json", [orjson.dumps({"id": i, "at": at}) for i, at in rows])
    document = compile_script(SCRIPT)[-1].document
    options = {"tick_interval_ms": 200, "source_idle_timeout_ms": 1_000}
    pipeline = Pipeline(spark, redis_client, tmp_path, document, **options)

    with pipeline:
        # Its row waits until no row of the other table, which has none, can come any more.
        pipeline.wait(lambda records: sum(each["rows_out"] for each in records) >= 1)

    assert [row["id"] for _, row in pipeline.printed("o")] == [1]
    (letter,) = pipeline.dead_letters()
    assert 'event time "at" is NULL' in letter["reason"]
    assert letter["position"] == "key [2]"
