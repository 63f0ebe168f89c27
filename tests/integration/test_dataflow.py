"""Plans run on real Spark and Redis: every source and sink, exactly once across restarts."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from service.runtime.dataflow_errors import code_in
from tests.integration.materialized import (
    INPUT,
    OUTPUT,
    PROJECTION,
    expected_table,
    materialize_plan,
    random_changes,
)
from tests.integration.pipelines import (
    Pipeline,
    PlanBuilder,
    call,
    change,
    final_table,
    literal,
    ref,
    write_lines,
)
from tests.service.runtime.sinks.kafka.broker import Broker
from tests.service.runtime.sinks.kafka.stand import options_of, table_of

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql.connect.session import SparkSession

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_materialized_table_is_exact_across_restarts(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, parallelism: int
) -> None:
    lines = random_changes(60)
    write_lines(tmp_path / "in/a.jsonl", lines[:40])
    run = {"parallelism": parallelism, "rows_per_epoch_max": 15}

    with Pipeline(spark, redis_client, tmp_path, materialize_plan(), **run) as pipeline:
        pipeline.wait_for_rows(20)
    write_lines(tmp_path / "in/b.jsonl", lines[40:])
    with Pipeline(spark, redis_client, tmp_path, materialize_plan(), **run) as pipeline:
        records = pipeline.wait_for_rows(60)

    assert final_table(pipeline.files("out"), "k") == expected_table(lines)
    assert [each["epoch"] for each in records] == list(range(1, len(records) + 1))
    assert sum(each["rows_in"] for each in records) == 60
    assert {each["run"] for each in records} <= {1, 2}
    statistics = records[0]["nodes"]["3_sink-materializer"]
    assert statistics["rows_in"] == 15
    assert statistics["commit_ms"] > 0
    assert records[-1]["offsets"]["s"]["file"] == 2


def test_new_files_are_picked_up_while_it_runs(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    lines = random_changes(20)
    plan = materialize_plan(source__monitor_interval="0 ms")

    with Pipeline(spark, redis_client, tmp_path, plan) as pipeline:
        write_lines(tmp_path / "in/z.jsonl", lines[:10])
        pipeline.wait_for_rows(10)
        write_lines(tmp_path / "in/a.jsonl", lines[10:])
        pipeline.wait_for_rows(20)

    assert final_table(pipeline.files("out"), "k") == expected_table(lines)


def test_a_table_of_a_database_is_exact_across_restarts(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    lines = random_changes(60)
    write_lines(tmp_path / "in/a.jsonl", lines)
    database = sqlite3.connect(tmp_path / "db.sqlite", isolation_level=None)
    database.execute("CREATE TABLE latest (k TEXT PRIMARY KEY, v INTEGER)")
    document = materialize_plan()
    table = document["nodes"][-1]["dynamicTableSink"]["table"]["resolvedTable"]
    table["options"] = {
        "connector": "jdbc",
        "url": "jdbc:sqlite:db.sqlite",
        "table-name": "latest",
    }

    with Pipeline(spark, redis_client, tmp_path, document, rows_per_epoch_max=15) as pipeline:
        pipeline.wait_for_rows(20)
    with Pipeline(spark, redis_client, tmp_path, document, rows_per_epoch_max=15) as pipeline:
        records = pipeline.wait_for_rows(60)

    found = database.execute("SELECT k, v FROM latest").fetchall()
    ((epoch,),) = database.execute("SELECT epoch FROM tailrace_epochs").fetchall()
    database.close()
    assert dict(found) == {k: row["v"] for k, row in expected_table(lines).items()}
    assert epoch >= len(records)


@pytest.mark.parametrize(
    "connector",
    [
        {"connector": "upsert-kafka", "key.format": "json", "value.format": "json"},
        {
            "connector": "kafka",
            "format": "changelog-json",
            "key.format": "json",
            "key.fields": "k",
        },
    ],
    ids=lambda each: each["connector"],
)
def test_a_topic_is_exact_across_restarts(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, connector: dict[str, str]
) -> None:
    lines = random_changes(60)
    write_lines(tmp_path / "in/a.jsonl", lines)
    broker = Broker({"latest": 3})
    document = materialize_plan()
    table = document["nodes"][-1]["dynamicTableSink"]["table"]["resolvedTable"]
    table["options"] = options_of(broker.servers, "latest", **connector)

    with contextlib.closing(broker):
        with Pipeline(spark, redis_client, tmp_path, document, rows_per_epoch_max=15) as pipeline:
            pipeline.wait_for_rows(20)
        with Pipeline(spark, redis_client, tmp_path, document, rows_per_epoch_max=15) as pipeline:
            records = pipeline.wait_for_rows(60)

    found = broker.read("latest")
    epoch, _ = broker.group("tailrace:p:latest", "latest") or (0, None)
    assert epoch >= len(records)
    if connector["connector"] == "upsert-kafka":
        assert table_of(found) == {(k,): row for k, row in expected_table(lines).items()}
    else:
        assert final_table([orjson.loads(value) for _, value in found], "k") == expected_table(
            lines
        )


def test_ingress_reaches_a_redis_table_and_is_trimmed(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    plan = PlanBuilder()
    scan = plan.scan("s", INPUT, connector="ingress")
    calc = plan.calc(OUTPUT, scan, PROJECTION)
    plan.sink("snk", OUTPUT, calc, key=["k"], materialize=True, connector="redis")
    stream = "tailrace:{p}:ingress:s"
    lines = random_changes(30)

    with Pipeline(spark, redis_client, tmp_path, plan.document()) as pipeline:
        for at in range(0, 30, 10):
            redis_client.xadd(stream, {"n": 10, "d": b"\n".join(lines[at : at + 10])})
            records = pipeline.wait_for_rows(at + 10)

    newest: Any = redis_client.xrevrange(stream, count=1)
    assert records[-1]["offsets"]["s"]["rows"] == 30
    assert records[-1]["offsets"]["s"]["id"] == newest[0][0].decode()
    assert redis_client.xlen(stream) < 3
    assert {each["k"]: each for each in pipeline.table("snk").values()} == expected_table(lines)


def test_malformed_lines_are_listed_with_their_position_and_the_rest_goes_on(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    good = change("+I", id=1, k="a", v=1)
    write_lines(tmp_path / "in/a.jsonl", [good, b"{oops", change("-D", id="x", k="b", v=2)])

    with Pipeline(spark, redis_client, tmp_path, materialize_plan()) as pipeline:
        records = pipeline.wait_for_rows(3)

    assert (records[0]["rows_in"], records[0]["dead"]) == (1, 2)
    positions = [each["position"] for each in pipeline.dead_letters()]
    assert positions == ["in/a.jsonl line 2", "in/a.jsonl line 3"]
    assert final_table(pipeline.files("out"), "k") == {"a": {"k": "a", "v": 1}}


def test_a_malformed_line_fails_the_query_where_that_is_asked(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    write_lines(tmp_path / "in/a.jsonl", [b"{oops"])
    options = {"on_malformed": "fail"}

    pipeline = Pipeline(spark, redis_client, tmp_path, materialize_plan(), **options).start()

    code, message = failure_of(pipeline)
    assert code == "malformed-change"
    assert "in/a.jsonl line 1" in message
    assert pipeline.progress() == []


def failure_of(pipeline: Pipeline) -> tuple[str, str]:
    """The code and message that the query ends with."""
    with pytest.raises(StreamingQueryException) as caught:
        pipeline.query.awaitTermination(120)
    found = code_in(str(caught.value))
    assert found is not None, str(caught.value)[:3_000]
    return found


def test_a_null_in_a_not_null_column_of_a_sink_fails_or_is_dropped(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    write_lines(
        tmp_path / "in/a.jsonl",
        [change("+I", id=1, k=None, v=1), change("+I", id=2, k="b", v=2)],
    )
    strict = {"k": "VARCHAR(2147483647) NOT NULL", "v": "INT"}

    def plan(enforcer: str) -> dict[str, Any]:
        built = PlanBuilder()
        scan = built.scan("s", INPUT, connector="filesystem", format="changelog-json", path="in")
        calc = built.calc(OUTPUT, scan, PROJECTION)
        number = built.sink(
            "snk",
            strict,
            calc,
            configuration={"table.exec.sink.not-null-enforcer": enforcer},
            connector="print",
        )
        built.nodes[number - 1]["outputType"] = built.nodes[calc - 1]["outputType"]
        return built.document()

    failing = Pipeline(
        spark, redis_client, tmp_path, plan("ERROR"), name="e", checkpoint="checkpoint-of-e"
    )
    assert failure_of(failing.start())[0] == "sink-refused"
    with Pipeline(spark, redis_client, tmp_path, plan("DROP"), name="d") as dropping:
        dropping.wait_for_rows(2)

    assert dropping.printed("snk") == [("+I", {"k": "b", "v": 2})]


def test_two_sinks_of_one_source_see_the_same_epochs(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    plan = PlanBuilder()
    scan = plan.scan("s", INPUT, connector="filesystem", format="changelog-json", path="in")
    calc = plan.calc(OUTPUT, scan, PROJECTION)
    plan.sink("snk", OUTPUT, calc, key=["k"], materialize=True, connector="redis")
    plan.sink("raw", INPUT, scan, connector="filesystem", format="changelog-json", path="raw")
    plan.sink("seen", INPUT, scan, connector="print")
    plan.sink("gone", INPUT, scan, connector="blackhole")
    lines = random_changes(40)
    write_lines(tmp_path / "in/a.jsonl", [*lines, b"no change"])

    with Pipeline(
        spark, redis_client, tmp_path, plan.document(), rows_per_epoch_max=15
    ) as pipeline:
        records = pipeline.wait_for_rows(41)

    assert [each["sinks"]["raw"] for each in records] == [15, 15, 10]
    assert [each["sinks"]["gone"] for each in records] == [15, 15, 10]
    assert {each["k"]: each for each in pipeline.table("snk").values()} == expected_table(lines)
    assert sorted(map(str, pipeline.files("raw"))) == sorted(map(str, map(orjson.loads, lines)))
    assert [(each["op"], each["data"]) for each in map(orjson.loads, lines)] == pipeline.printed(
        "seen"
    )
    assert len(pipeline.dead_letters()) == 1, "a dead letter goes one of the ways only"


def test_filters_unions_values_and_dropped_update_befores(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    plan = PlanBuilder()
    columns = {"k": "VARCHAR(2147483647)", "v": "INT"}
    left = plan.scan("a", columns, connector="filesystem", format="changelog-json", path="a")
    right = plan.scan("b", columns, connector="filesystem", format="json", path="b")
    rows = plan.node(
        "values_1",
        columns,
        [],
        tuples=[
            [literal("x", "VARCHAR(2147483647) NOT NULL"), literal(100, "INT NOT NULL")],
            [literal("y", "VARCHAR(2147483647) NOT NULL"), literal(None, "INT")],
        ],
    )
    positive = call(">", "BOOLEAN", ref(1, "INT"), literal(0, "INT NOT NULL"))
    calc = plan.calc(
        columns,
        left,
        [
            ref(0, "VARCHAR(2147483647)"),
            call("+", "INT", ref(1, "INT"), literal(1, "INT NOT NULL")),
        ],
        positive,
    )
    dropped = plan.node("drop-update-before_1", columns, [calc])
    union = plan.node("union_1", columns, [dropped, right, rows])
    plan.sink("snk", columns, union, connector="print")
    write_lines(
        tmp_path / "a/a.jsonl",
        [
            change("+I", k="a", v=1),
            change("-U", k="a", v=1),
            change("+U", k="a", v=2),
            change("+I", k="b", v=0),
            change("+I", k="c", v=None),
        ],
    )
    write_lines(tmp_path / "b/b.jsonl", [b'{"k":"d","v":7}'])

    with Pipeline(spark, redis_client, tmp_path, plan.document(), parallelism=1) as pipeline:
        records = pipeline.wait_for_rows(8)

    found = sorted(pipeline.printed("snk"), key=str)
    assert found == [
        ("+I", {"k": "a", "v": 2}),
        ("+I", {"k": "d", "v": 7}),
        ("+I", {"k": "x", "v": 100}),
        ("+I", {"k": "y", "v": None}),
        ("+U", {"k": "a", "v": 3}),
    ]
    assert set(records[-1]["offsets"]) == {"a", "b", "values-3"}


def test_a_keyed_sink_without_a_materializer_applies_changes_in_order(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    plan = PlanBuilder()
    columns = {"k": "VARCHAR(2147483647)", "v": "INT"}
    scan = plan.scan("s", columns, connector="filesystem", format="changelog-json", path="in")
    plan.sink("snk", columns, scan, key=["k"], connector="redis")
    lines = [change("+I", k=f"k{n}", v=0) for n in range(50)]
    lines += [change("+U", k=f"k{n % 50}", v=n) for n in range(400)]
    lines += [change("-D", k=f"k{n}", v=0) for n in range(0, 50, 2)]
    write_lines(tmp_path / "in/a.jsonl", lines)

    with Pipeline(spark, redis_client, tmp_path, plan.document(), parallelism=3) as pipeline:
        pipeline.wait_for_rows(len(lines))

    table = {each["k"]: each["v"] for each in pipeline.table("snk").values()}
    assert table == {f"k{n}": 350 + n for n in range(1, 50, 2)}


def test_datagen_makes_the_rows_it_was_asked_for(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    plan = PlanBuilder()
    columns = {"id": "BIGINT", "name": "VARCHAR(2147483647)", "d": "DECIMAL(8, 2)"}
    options = {
        "rows_per_second": "1000000",
        "fields__id__kind": "sequence",
        "fields__id__start": "1",
        "fields__id__end": "500",
        "fields__name__length": "5",
        "fields__d__max": "10",
    }
    scan = plan.scan("g", columns, connector="datagen", **options)
    sink = {"connector": "filesystem", "format": "parquet", "path": "out"}
    plan.sink("snk", columns, scan, mode=["INSERT"], **sink)

    with Pipeline(spark, redis_client, tmp_path, plan.document()) as pipeline:
        pipeline.wait_for_rows(500)

    table = pa.concat_tables(map(pq.read_table, sorted((tmp_path / "out").glob("*.parquet"))))
    assert sorted(table["id"].to_pylist()) == list(range(1, 501))
    assert {len(each) for each in table["name"].to_pylist()} == {5}
    assert table["d"].type == pa.decimal128(8, 2)
