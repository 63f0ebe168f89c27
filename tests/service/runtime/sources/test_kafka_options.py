"""Flink's options of a Kafka table: what Spark is told for them, and what is refused."""

from __future__ import annotations

import orjson
import pytest

from service.runtime.dataflow_errors import (
    DataflowError,
    InvalidTableOption,
    UnsupportedConnector,
)
from service.runtime.sources.kafka_options import reader_options, task_options

TABLE = {
    "connector": "kafka",
    "topic": "orders",
    "properties.bootstrap.servers": "a:9092,b:9092",
    "scan.startup.mode": "earliest-offset",
    "format": "changelog-json",
}
TIMESTAMP = {"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "1700000000000"}
OFFSETS = {
    "scan.startup.mode": "specific-offsets",
    "scan.startup.specific-offsets": "partition:0,offset:42;partition:10,offset:0",
}


def table(**changes: str | None) -> dict[str, str]:
    """The table with other options; None takes one away, `__` is a dot and `_` a dash."""
    options: dict[str, str | None] = dict(TABLE)
    options |= {name.replace("__", ".").replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in options.items() if value is not None}


def test_spark_is_told_servers_topics_start_and_bound() -> None:
    assert reader_options(TABLE, 500) == {
        "kafka.bootstrap.servers": "a:9092,b:9092",
        "subscribe": "orders",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "500",
        "failOnDataLoss": "true",
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"topic": "b; a ;"}, {"subscribe": "a,b"}),
        ({"topic": None, "topic_pattern": "o.*s"}, {"subscribePattern": "o.*s"}),
        ({"scan__startup__mode": "latest-offset"}, {"startingOffsets": "latest"}),
        (
            {"properties__sasl__jaas__config": "x=y;", "properties__group__id": "g"},
            {"kafka.sasl.jaas.config": "x=y;", "kafka.group.id": "g"},
        ),
    ],
)
def test_each_option_has_its_counterpart(
    options: dict[str, str | None], expected: dict[str, str]
) -> None:
    found = reader_options(table(**options), 1)

    assert {name: found.get(name) for name in expected} == expected
    assert len({"subscribe", "subscribePattern"} & set(found)) == 1


def test_a_start_by_time_takes_partitions_without_later_records_from_their_end() -> None:
    found = reader_options({**TABLE, **TIMESTAMP}, 1)

    assert found["startingTimestamp"] == "1700000000000"
    assert found["startingOffsetsByTimestampStrategy"] == "latest"
    assert "startingOffsets" not in found


def test_a_start_by_offsets_names_them_for_the_one_topic() -> None:
    found = reader_options({**TABLE, **OFFSETS}, 1)

    assert orjson.loads(found["startingOffsets"]) == {"orders": {"0": 42, "10": 0}}


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (table(topic=None), InvalidTableOption, "either option"),
        (table(topic=" ; "), InvalidTableOption, "either option"),
        (table(topic_pattern="o.*"), InvalidTableOption, "either option"),
        (table(topic="a,b"), InvalidTableOption, "no topic can have"),
        (table(properties__bootstrap__servers=None), InvalidTableOption, "bootstrap.servers"),
        (table(format=None), InvalidTableOption, "no format"),
        (table(value__format="json"), InvalidTableOption, "say the same"),
        (table(format="avro"), UnsupportedConnector, "avro"),
        (table(debezium_json__schema_include="true"), InvalidTableOption, "schema-include"),
        (table(format="csv"), UnsupportedConnector, "csv"),
        (table(changelog_mode="I,Q"), InvalidTableOption, "changelog-mode"),
        (table(key__json__encode="json"), InvalidTableOption, '"key.json.encode"'),
        (table(startingOffsets="latest"), InvalidTableOption, '"startingOffsets"'),
        (table(properties__auto__offset__reset="x"), InvalidTableOption, "auto.offset.reset"),
        (table(properties__client__id__prefix="x"), InvalidTableOption, "client.id.prefix"),
        ({**TABLE, "properties.": "x"}, InvalidTableOption, '"properties."'),
        (table(scan__startup__mode=None), UnsupportedConnector, "not given, which means group"),
        (table(scan__startup__mode="group-offsets"), UnsupportedConnector, "is group-offsets"),
        (table(scan__startup__mode="soon"), InvalidTableOption, "no way to start"),
        (table(scan__startup__mode="timestamp"), InvalidTableOption, "timestamp-millis"),
        (table(scan__startup__timestamp_millis="1"), InvalidTableOption, "timestamp only"),
        ({**TABLE, **TIMESTAMP, "scan.startup.timestamp-millis": "-1"},
         InvalidTableOption, "ms since 1970"),
        ({**TABLE, **TIMESTAMP, "scan.startup.timestamp-millis": str(2**63)},
         InvalidTableOption, "ms since 1970"),
        (table(scan__startup__mode="specific-offsets"), InvalidTableOption, "not a list"),
        ({**TABLE, **OFFSETS, "topic": "a;b"}, InvalidTableOption, "one topic"),
        ({**TABLE, **OFFSETS, "scan.startup.specific-offsets": "partition:0,offset:-1"},
         InvalidTableOption, "not a list"),
        ({**TABLE, **OFFSETS,
          "scan.startup.specific-offsets": "partition:0,offset:1;partition:00,offset:2"},
         InvalidTableOption, "not a list"),
    ],
)  # fmt: skip  # a table: a case a line
def test_what_cannot_be_is_refused_by_name(
    options: dict[str, str], error: type[DataflowError], words: str
) -> None:
    with pytest.raises(error, match=words):
        reader_options(options, 1)


def test_a_misspelt_option_is_told_with_the_one_it_may_be() -> None:
    with pytest.raises(InvalidTableOption) as caught:
        reader_options(table(scan__startup__mod="latest-offset"), 1)

    assert caught.value.hint == 'did you mean "scan.startup.mode"?'


def test_no_error_shows_what_is_in_an_option_of_the_consumer() -> None:
    secret = {"properties.sasl.jaas.config": "hunter2"}

    with pytest.raises(DataflowError) as caught:
        reader_options({**TABLE, **secret, "properties.key.deserializer": "hunter2"}, 1)

    assert "hunter2" not in f"{caught.value.message} {caught.value.hint}"
    assert "hunter2" not in str(task_options({**TABLE, **secret}))


def test_a_task_is_told_how_to_read_records_only() -> None:
    assert task_options(table(format=None, value__format="json", changelog_mode="I")) == {
        "topic": "orders",
        "format": "json",
        "changelog-mode": "I",
    }
