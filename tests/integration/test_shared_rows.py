"""A table that is read several ways is one stream of Spark, and read once in an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.sql import compile_script
from tests.integration.pipelines import Pipeline, change, write_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis
    from pyspark.sql.connect.session import SparkSession

SCRIPT = """
CREATE TABLE s (id INT, k STRING, v INT) WITH
  ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'in', 'changelog-mode' = 'I');
CREATE TABLE copied (k STRING, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE counted (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'redis');
CREATE TABLE beside (id INT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'redis');
CREATE TABLE spread (n BIGINT, m BIGINT, PRIMARY KEY (n) NOT ENFORCED) WITH ('connector' = 'redis');
CREATE VIEW counts AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
EXECUTE STATEMENT SET BEGIN
INSERT INTO copied SELECT k, CAST(id AS BIGINT) FROM s WHERE v > 0;
INSERT INTO counted SELECT k, n FROM counts;
INSERT INTO beside SELECT s.id, c.n FROM s JOIN counts AS c ON s.k = c.k ON CONFLICT DO DEDUPLICATE;
INSERT INTO spread SELECT n, COUNT(*) FROM counts GROUP BY n;
END;
"""
WAYS = 5
"""From the table to a sink: two of them in the join."""
TICKS = 2


@pytest.fixture
def forgetful(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose server plans each part anew, as it does once it has planned much else."""
    name = "spark.connect.session.planCache.enabled"
    spark.conf.set(name, "false")
    yield spark
    spark.conf.unset(name)


def test_a_table_that_goes_many_ways_is_one_stream_and_is_read_once(
    forgetful: SparkSession,
    redis_client: redis.Redis,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = compile_script(SCRIPT)[-1].document
    views = {each.name for each in forgetful.catalog.listTables()}
    write_lines(tmp_path / "in/a.jsonl", [lines(n) for n in range(5)])
    write_lines(tmp_path / "in/b.jsonl", [b"no change"])
    with Pipeline(forgetful, redis_client, tmp_path, document) as pipeline:
        pipeline.wait_for_rows(6)
        pipeline.query.explain()
    write_lines(tmp_path / "in/c.jsonl", [lines(n) for n in range(5, 7)])
    with pipeline:
        pipeline.wait_for_rows(8)
        pipeline.query.processAllAvailable()
        read = [each["sources"] for each in pipeline.query.recentProgress]

    assert {len(each) for each in read} == {1}
    assert 2 + TICKS in [each["numInputRows"] for (each,) in read]
    *_, record = sorted((tmp_path / "checkpoint/offsets").glob("[0-9]*"))
    ends = record.read_text().split("\n")[2:]
    assert len(ends) == WAYS
    assert len(set(ends)) == 1
    # Three aggregates, and the join, whose materializer is the writer's: each of them once.
    physical = capsys.readouterr().out
    assert physical.count("MicroBatchScan[") == 1
    assert physical.count("MapInArrow OperatorStage(") == 4
    assert {each.name for each in forgetful.catalog.listTables()} == views
    # Three of k0, two each of k1 and k2.
    assert pipeline.table("counted") == rows("k", {"k0": 3, "k1": 2, "k2": 2}, "n")
    assert pipeline.table("spread") == rows("n", {3: 1, 2: 2}, "m")
    assert pipeline.table("beside") == rows(
        "id", {n: 3 if n % 3 == 0 else 2 for n in range(7)}, "n"
    )
    assert sorted(row["n"] for _, row in pipeline.printed("copied")) == [*range(1, 7)]
    assert len(pipeline.dead_letters()) == 1


def lines(n: int) -> bytes:
    return change("+I", id=n, k=f"k{n % 3}", v=n)


def rows(key: str, values: dict[Any, int], column: str) -> dict[str, Any]:
    """A Redis table with these rows."""
    texts = {k: f'["{k}"]' if isinstance(k, str) else f"[{k}]" for k in values}
    return {texts[k]: {key: k, column: value} for k, value in values.items()}
