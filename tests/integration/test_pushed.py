"""Filters that a source took over, on Spark: rows that do not pass do not come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.integration.pipelines import Pipeline, PlanBuilder, change, write_lines
from tests.service.plan.builders import call, literal, ref

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql.connect.session import SparkSession

BOTH, ONE = {"id": "INT", "a": "INT"}, {"id": "INT"}


def test_each_scan_of_a_table_has_its_own_filter_over_columns_that_it_need_not_give(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    builder = PlanBuilder()
    options = {"connector": "filesystem", "format": "changelog-json", "path": "in"}
    narrow, whole = builder.scan("s", BOTH, **options), builder.scan("s", BOTH, **options)
    scan = builder.nodes[0]
    scan["outputType"] = "ROW<`id` INT>"
    scan["scanTableSource"]["abilities"] = [
        {"type": "FilterPushDown", "predicates": [call(">", ref(1), literal(1))]},
        {"type": "ProjectPushDown", "projectedFields": [[0]], "producedType": "ROW<`id` INT>"},
    ]
    builder.sink("t", ONE, narrow, connector="print")
    builder.sink("u", BOTH, whole, connector="print")
    lines = [change(op, id=n, a=a) for op, n, a in [("+I", 7, 1), ("+I", 8, 2), ("-D", 8, 2)]]
    write_lines(tmp_path / "in/a.jsonl", lines)
    pipeline = Pipeline(spark, redis_client, tmp_path, builder.document())

    with pipeline:
        pipeline.wait_for_rows(3)

    assert [(op, row["id"]) for op, row in pipeline.printed("t")] == [("+I", 8), ("-D", 8)]
    assert [row["id"] for _, row in pipeline.printed("u")] == [7, 8, 8]
