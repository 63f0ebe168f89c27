"""Kafka tables on real Spark: the whole way behind the source, which a stand-in of ours plays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from pyspark.errors import StreamingQueryException

from service.runtime import kafka_stream
from service.runtime.dataflow_errors import UnsupportedConnector, code_in
from service.sql import compile_script
from tests.integration.kafka_stand_in import KafkaStandIn, write_records
from tests.integration.materialized import (
    INPUT,
    OUTPUT,
    PROJECTION,
    expected_table,
    materialize_plan,
    random_changes,
)
from tests.integration.pipelines import Pipeline, PlanBuilder, change, final_table

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from pyspark.sql.connect.session import SparkSession

pytestmark = pytest.mark.integration


@pytest.fixture
def kafka(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Options of a table in the stand-in's broker."""
    spark.dataSource.register(KafkaStandIn)
    monkeypatch.setattr(kafka_stream, "FORMAT", KafkaStandIn.name())
    return table_options(tmp_path / "broker")


def table_options(broker: Path) -> dict[str, str]:
    return {
        "connector": "kafka",
        "topic": "changes",
        "properties__bootstrap__servers": str(broker),
        "scan__startup__mode": "earliest-offset",
        "format": "changelog-json",
    }


def kafka_plan(options: dict[str, str]) -> dict[str, Any]:
    """As `materialize_plan`, of a Kafka table."""
    document = materialize_plan()
    plan = PlanBuilder()
    plan.scan("s", INPUT, **options)
    document["nodes"][0] = plan.nodes[0]
    return document


def by_key(lines: list[bytes]) -> list[list[bytes]]:
    """The lines on two partitions, those of a key on one, as producers do."""
    partitions: list[list[bytes]] = [[], []]
    for line in lines:
        partitions[int(orjson.loads(line)["data"]["k"][1:]) % 2].append(line)
    return partitions


def marker_offsets(client: redis.Redis) -> Any:
    return orjson.loads(client.hget("tailrace:{p}:marker", "offsets") or b"{}")


def forget_commit(folder: Path, epoch: int) -> None:
    """Take back Spark's note that its last epoch is through, if it came to that."""
    (folder / f"checkpoint/commits/{epoch - 1}").unlink(missing_ok=True)


def test_a_materialized_table_is_exact_across_restarts_and_replays(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, kafka: dict[str, str]
) -> None:
    lines = random_changes(60)
    # Offsets with gaps; among them records that are no changes, and one over two lines.
    partitions = [
        {7 + 3 * at: line for at, line in enumerate(mine)} for mine in map(list, by_key(lines))
    ]
    partitions[0] |= {8: b"{not json", 11: None}
    partitions[1] |= {8: change("+I", id=1, k="k1", v="x"), 12: b" "}
    partitions[1][7] = partitions[1][7].replace(b",", b",\n", 1)
    broker, run = tmp_path / "broker", {"rows_per_epoch_max": 40}
    cuts = [{at: each for at, each in all_.items() if at < 50} for all_ in partitions]
    for number, cut in enumerate(cuts):
        write_records(broker, "changes", number, cut)

    with Pipeline(spark, redis_client, tmp_path, kafka_plan(kafka), **run) as pipeline:
        pipeline.wait_for_rows(sum(map(len, cuts)))
    # Spark did not note the end of the last epoch, so it runs again; Tailrace has closed it.
    forget_commit(tmp_path, pipeline.fence())
    for number, all_ in enumerate(partitions):
        write_records(broker, "changes", number, all_)
    with Pipeline(spark, redis_client, tmp_path, kafka_plan(kafka), **run) as pipeline:
        records = pipeline.wait_for_rows(64)

    assert final_table(pipeline.files("out"), "k") == expected_table(lines)
    assert sum(each["rows_in"] for each in records) == 60
    assert [each["epoch"] for each in records] == list(range(1, len(records) + 1))
    assert len({each["run"] for each in records}) == 2
    ends = {str(number): max(each) + 1 for number, each in enumerate(partitions)}
    assert marker_offsets(redis_client)["s"] == {"topics": {"changes": ends}}
    letters = {each["position"]: each["reason"] for each in pipeline.dead_letters()}
    assert set(letters) == {"changes/0/8", "changes/0/11", "changes/1/8", "changes/1/12"}
    assert letters["changes/0/8"] == "not valid JSON"
    assert letters["changes/0/11"] == letters["changes/1/12"] == "no value"
    assert "v" in letters["changes/1/8"]


def test_rows_that_go_two_ways_are_read_once_and_ticks_come_without_data(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, kafka: dict[str, str]
) -> None:
    del kafka["topic"]
    plan = PlanBuilder()
    scan = plan.scan("s", INPUT, **kafka, topic_pattern="changes-.*")
    calc = plan.calc(OUTPUT, scan, PROJECTION)
    plan.sink("snk", OUTPUT, calc, key=["k"], materialize=True, connector="redis")
    plan.sink("seen", INPUT, scan, connector="print")
    lines = random_changes(30)
    broker = tmp_path / "broker"
    write_records(broker, "other", 0, {0: b"not read"})
    for topic, mine in zip(("changes-a", "changes-b"), by_key(lines), strict=True):
        write_records(broker, topic, 0, {**dict(enumerate(mine)), len(mine): b"bad"})

    with Pipeline(spark, redis_client, tmp_path, plan.document(), tick_interval_ms=300) as pipeline:
        pipeline.wait_for_rows(32)
        records = pipeline.wait(lambda each: each[-1]["rows_in"] == 0)
        count = len(pipeline.query.lastProgress["sources"])

    assert {each["k"]: each for each in pipeline.table("snk").values()} == expected_table(lines)
    seen = [(each["op"], each["data"]) for each in map(orjson.loads, lines)]
    assert sorted(pipeline.printed("seen"), key=str) == sorted(seen, key=str)
    assert sum(each["rows_in"] for each in records) == 30
    positions = sorted(each["position"] for each in pipeline.dead_letters())
    counts = [len(mine) for mine in by_key(lines)]
    assert positions == [f"changes-{n}/0/{count}" for n, count in zip("ab", counts, strict=True)]
    assert all(each["time_ms"] > 0 for each in records)
    assert count == 2, "two ways are one source to Spark, and the ticks another"
    ends = {f"changes-{n}": {"0": count + 1} for n, count in zip("ab", counts, strict=True)}
    assert marker_offsets(redis_client)["s"] == {"topics": ends}
    assert records[-1]["offsets"]["s"]["tick"] > 0


def test_specific_offsets_and_a_query_that_fails_on_a_bad_record(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, kafka: dict[str, str]
) -> None:
    kafka |= {
        "scan__startup__mode": "specific-offsets",
        "scan__startup__specific_offsets": "partition:0,offset:2",
    }
    plan = PlanBuilder()
    scan = plan.scan("s", INPUT, **kafka)
    plan.sink("seen", INPUT, scan, connector="print")
    lines = [change("+I", id=n, k="a", v=n) for n in range(4)]
    records = dict(enumerate(lines))
    write_records(tmp_path / "broker", "changes", 0, records)

    with Pipeline(spark, redis_client, tmp_path, plan.document(), on_malformed="fail") as pipeline:
        pipeline.wait_for_rows(2)
        write_records(tmp_path / "broker", "changes", 0, {**records, 4: b"{}"})
        with pytest.raises(StreamingQueryException) as caught:
            pipeline.query.awaitTermination(240)

    assert [each["id"] for _, each in pipeline.printed("seen")] == [2, 3]
    code, message = code_in(str(caught.value)) or ("", "")
    assert code == "malformed-change"
    assert message.startswith("s at changes/0/4: ")


def test_a_record_that_was_listed_fails_nothing_when_its_closed_epoch_runs_again(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, kafka: dict[str, str]
) -> None:
    plan = PlanBuilder()
    plan.sink("seen", INPUT, plan.scan("s", INPUT, **kafka), connector="print")
    records = {0: change("+I", id=1, k="a", v=1), 1: b"{no json"}
    write_records(tmp_path / "broker", "changes", 0, records)
    with Pipeline(spark, redis_client, tmp_path, plan.document()) as pipeline:
        pipeline.wait_for_rows(2)
    forget_commit(tmp_path, pipeline.fence())

    records[2] = change("+I", id=2, k="a", v=2)
    write_records(tmp_path / "broker", "changes", 0, records)
    with Pipeline(spark, redis_client, tmp_path, plan.document(), on_malformed="fail") as pipeline:
        pipeline.wait_for_rows(3)

    assert [each["id"] for _, each in pipeline.printed("seen")] == [1, 2]
    assert len(pipeline.dead_letters()) == 1


def test_a_server_without_the_jar_is_told_which_one_it_lacks(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path
) -> None:
    options = table_options(tmp_path)

    with pytest.raises(UnsupportedConnector, match="table s needs Spark's Kafka") as caught:
        Pipeline(spark, redis_client, tmp_path, kafka_plan(options)).start()

    assert f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}" in caught.value.hint


def test_rows_of_upsert_kafka_come_and_go_by_their_keys(
    spark: SparkSession, redis_client: redis.Redis, tmp_path: Path, kafka: dict[str, str]
) -> None:
    """A key without a value takes a row away, although its columns may not be null."""
    broker = kafka["properties__bootstrap__servers"]
    document = compile_script(f"""
        CREATE TABLE s (
          k_id STRING NOT NULL, v INT NOT NULL, PRIMARY KEY (k_id) NOT ENFORCED
        ) WITH (
          'connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = '{broker}',
          'key.format' = 'json', 'value.format' = 'json',
          'key.fields-prefix' = 'k_', 'value.fields-include' = 'EXCEPT_KEY'
        );
        CREATE TABLE counts (v INT, c BIGINT, PRIMARY KEY (v) NOT ENFORCED)
          WITH ('connector' = 'redis');
        CREATE TABLE kept (k_id STRING, v INT, PRIMARY KEY (k_id) NOT ENFORCED)
          WITH ('connector' = 'redis');
        CREATE TABLE seen (k_id STRING, v INT) WITH ('connector' = 'print');
        EXECUTE STATEMENT SET BEGIN
        INSERT INTO counts SELECT v, COUNT(*) FROM s GROUP BY v;
        INSERT INTO kept SELECT k_id, v + 1 FROM s WHERE v > 5;
        INSERT INTO seen SELECT * FROM s;
        END;
    """)[-1].document
    assert document is not None
    upserts: list[tuple[bytes | None, bytes | None]] = [
        *((b'{"id":"a"}', b'{"v":5}'), (b'{"id":"b"}', b'{"v":6}'), (b'{"id":"c"}', b'{"v":6}')),
        *((b'{"id":"a"}', b'{"v":6}'), (b'{"id":"b"}', None), (None, b'{"v":9}')),
        *((b'{"id":"z"}', None), (b'{"id":"c"}', b'{"v":4}'), (b'{"id":"d"}', b'{"v":7}')),
    ]
    for at in (4, len(upserts)):
        write_records(tmp_path / "broker", "t", 0, dict(enumerate(upserts[:at])))
        with Pipeline(spark, redis_client, tmp_path, document, rows_per_epoch_max=2) as pipeline:
            pipeline.wait_for_rows(at)

    counts = {row["v"]: row["c"] for row in pipeline.table("counts").values()}
    kept = {row["k_id"]: row["v"] for row in pipeline.table("kept").values()}
    assert counts == {6: 1, 4: 1, 7: 1}
    assert kept == {"a": 7, "d": 8}
    assert [(kind, row["k_id"], row["v"]) for kind, row in pipeline.printed("seen")] == [
        *(("+I", "a", 5), ("+I", "b", 6), ("+I", "c", 6), ("-U", "a", 5), ("+U", "a", 6)),
        *(("-D", "b", 6), ("-U", "c", 6), ("+U", "c", 4), ("+I", "d", 7)),
    ]
    assert [each["reason"] for each in pipeline.dead_letters()] == ["no key"]
