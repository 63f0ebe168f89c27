"""UNION ALL of several inputs, on Spark: each change once, in the order of its input."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from service.sql import compile_script
from tests.integration.pipelines import Pipeline, change, write_lines

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql.connect.session import SparkSession

TABLES = """
CREATE TABLE s (id INT) WITH
  ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'in');
CREATE TABLE t (branch INT, id INT) WITH ('connector' = 'print');
"""


def test_all_branches_give_their_changes_once(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    branches = [f"SELECT {at}, id FROM s" for at in range(4)]
    sql = f"{TABLES} INSERT INTO t {' UNION ALL '.join(branches)};"
    lines = [change("+I", id=1), b"no change", change("-U", id=1), change("+U", id=2)]
    write_lines(tmp_path / "in/a.jsonl", lines)
    pipeline = Pipeline(spark, redis_client, tmp_path, compile_script(sql)[-1].document)

    with pipeline:
        pipeline.wait_for_rows(4)

    printed = [(row["branch"], op, row["id"]) for op, row in pipeline.printed("t")]
    for branch in range(4):
        mine = [each[1:] for each in printed if each[0] == branch]
        assert mine == [("+I", 1), ("-U", 1), ("+U", 2)]
    assert len(pipeline.dead_letters()) == 1
    assert Counter(op for _, op, _ in printed) == {"+I": 4, "-U": 4, "+U": 4}
