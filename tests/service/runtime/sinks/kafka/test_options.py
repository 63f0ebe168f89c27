"""Options of a Kafka table that is written: what the client is told, and what is refused."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from service.plan.secrets import masked
from service.runtime.dataflow_errors import (
    DataflowError,
    InvalidTableOption,
    UnsupportedConnector,
)
from service.runtime.sinks.kafka.options import (
    check_client,
    check_options,
    place_of,
    value_format,
)
from service.runtime.sinks.kafka.shape import RecordShape
from service.runtime.sinks.spec import SinkSpec

SERVERS = {"topic": "t", "properties.bootstrap.servers": "a:9092,b:9092"}
UPSERT = {**SERVERS, "connector": "upsert-kafka", "key.format": "json", "value.format": "json"}
APPEND = {**SERVERS, "connector": "kafka", "format": "json"}
PEM = "-----BEGIN PRIVATE KEY-----\nMIIpw7\n-----END PRIVATE KEY-----"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required "


def told(**properties: str) -> dict[str, str]:
    """What the client is told besides where the servers are, by properties with `_` for a dot."""
    given = {f"properties.{name.replace('_', '.')}": value for name, value in properties.items()}
    found = dict(place_of({**UPSERT, **given}).client)
    assert found.pop("bootstrap.servers") == "a:9092,b:9092"
    assert found.pop("transaction.timeout.ms") == "300000"
    if "max_request_size" not in properties:
        # As Kafka's own producers.
        assert found.pop("message.max.bytes") == "1048576"
    return found


def shape(
    options: dict[str, str], names: str = "a b c", key: tuple[int, ...] | None = None
) -> RecordShape:
    columns = tuple(names.split())
    if key is None:
        key = (0,) if options["connector"] == "upsert-kafka" else ()
    spec = SinkSpec(
        1, "s", options["connector"], columns, ("INT",) * len(columns), key, "upsert", options
    )
    return RecordShape.of(spec)


def test_properties_get_the_names_that_librdkafka_has() -> None:
    assert told() == {}
    assert told(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=SCRAM + 'username="u\\"1" password="p;w 7";',
        ssl_truststore_type="PEM",
        ssl_truststore_certificates=PEM,
        ssl_keystore_key=PEM,
        max_request_size="5000000",
        acks="all",
        group_id="of readers",
    ) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": 'u"1',
        "sasl.password": "p;w 7",
        "ssl.ca.pem": PEM,
        "ssl.key.pem": PEM,
        "message.max.bytes": "5000000",
    }
    line = f"{PLAIN}password=pw7\n  username=u ;"
    assert told(sasl_jaas_config=line) == {"sasl.username": "u", "sasl.password": "pw7"}


def test_the_wait_is_the_producers_own() -> None:
    assert place_of(UPSERT).wait_ms == 60_000
    assert place_of({**UPSERT, "properties.max.block.ms": "700"}).wait_ms == 700


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # These would load a library, run a command, read a file.
        ("plugin.library.paths", "pw7.so"),
        ("sasl.kerberos.kinit.cmd", "pw7"),
        ("ssl.ca.location", "/etc/pw7"),
        ("ssl.keystore.location", "/etc/pw7"),
        ("ssl.keystore.key", "pw7, not PEM"),
        ("transactional.id", "pw7"),
        ("sasl.mechanism", "pw7"),
        ("sasl.jaas.config", "com.sun.security.auth.module.Krb5LoginModule required pw7=1;"),
        ("sasl.jaas.config", PLAIN + "username=u username=pw7;"),
        ("sasl.jaas.config", PLAIN + "username=pw7;"),
        ("acks", "1"),
        ("linger.ms", "pw7"),
        ("max.block.ms", "-7"),
        ("", "pw7"),
    ],
)
def test_other_properties_are_refused_by_name_without_their_value(name: str, value: str) -> None:
    with pytest.raises(InvalidTableOption) as refused:
        place_of({**UPSERT, f"properties.{name}": value})

    assert f'"properties.{name}"' in refused.value.message
    assert "pw7" not in refused.value.message + refused.value.hint


@pytest.mark.parametrize("name", ["sasl.jaas.config", "ssl.key.password", "ssl.keystore.key"])
def test_secrets_are_masked_where_a_plan_is_shown(name: str) -> None:
    assert masked(f"properties.{name}", "pw7") == "******"


def test_a_place_does_not_show_its_secrets() -> None:
    place = place_of({**UPSERT, "properties.sasl.jaas.config": PLAIN + "username=u password=pw7;"})

    assert "pw7" not in repr(place)


def _check(options: dict[str, str]) -> None:
    check_options(options)
    place_of(options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({**UPSERT, "topic": ""}, '"topic" is missing'),
        ({**UPSERT, "topic": "a;b"}, '"topic" names no topic'),
        ({**UPSERT, "properties.bootstrap.servers": ""}, '"properties.bootstrap.servers"'),
        ({"connector": "kafka", "topic": "t"}, '"properties.bootstrap.servers" is missing'),
        ({**UPSERT, "key.fields": "a"}, '"key.fields" is not honoured'),
        ({**UPSERT, "value-format": "json"}, '"value-format" is not honoured'),
        ({**UPSERT, "changelog-mode": "append"}, '"changelog-mode" has a value'),
        ({**UPSERT, "value.fields-include": "SOME"}, '"value.fields-include" has a value'),
        ({**UPSERT, "sink.delivery-guarantee": "none"}, '"sink.delivery-guarantee" has a value'),
        ({**UPSERT, "sink.transactional-id-prefix": "a:b"}, '"sink.transactional-id-prefix"'),
        ({**UPSERT, "value.json.encode.ignore-null-fields": "true"}, "ignore-null-fields"),
        ({**APPEND, "sink.partitioner": "round-robin"}, '"sink.partitioner" has a value'),
        ({**APPEND, "sink.buffer-flush.max-rows": "5"}, '"sink.buffer-flush.max-rows"'),
        ({**APPEND, "topic-pattern": "t.*"}, '"topic-pattern" is not honoured'),
    ],
)
def test_other_options_are_refused_by_name(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidTableOption) as refused:
        _check(options)

    assert words in refused.value.message


def test_options_for_reading_and_of_how_flink_writes_are_known() -> None:
    check_options(
        {
            **APPEND,
            "scan.startup.mode": "earliest-offset",
            "sink.delivery-guarantee": "exactly-once",
            "sink.parallelism": "3",
            "value.json.timestamp-format.standard": "SQL",
        }
    )
    check_options(
        {**UPSERT, "sink.buffer-flush.interval": "1 s", "sink.transactional-id-prefix": "eu-1"}
    )


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"value.format": None}, InvalidTableOption, '"value.format" is missing'),
        ({"value.format": "changelog-json"}, UnsupportedConnector, '"changelog-json"'),
        ({"value.format": "avro-confluent"}, UnsupportedConnector, '"avro-confluent"'),
        ({"key.format": None}, InvalidTableOption, '"key.format" is missing'),
        ({"key.format": "raw"}, UnsupportedConnector, '"raw"'),
        ({"key.fields-prefix": "a"}, InvalidTableOption, "EXCEPT_KEY"),
        (
            {"key.fields-prefix": "x", "value.fields-include": "EXCEPT_KEY"},
            InvalidTableOption,
            'column "a"',
        ),
    ],
)
def test_formats_other_than_json_and_keys_that_cannot_be(
    options: dict[str, Any], error: type[DataflowError], words: str
) -> None:
    given = {name: value for name, value in {**UPSERT, **options}.items() if value is not None}

    with pytest.raises(error) as refused:
        shape(given)

    assert words in refused.value.message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key.format": "json"}, '"key.format" needs option "key.fields"'),
        ({"key.fields": "a"}, '"key.fields" needs option "key.format"'),
        ({"key.format": "json", "key.fields": "a;z"}, '"z"'),
        ({"key.format": "json", "key.fields": "a;a"}, "twice"),
        ({"value.format": "json"}, "say the same"),
        (
            {"key.format": "json", "key.fields": "a;b;c", "value.fields-include": "EXCEPT_KEY"},
            "no column that is not of the key",
        ),
    ],
)
def test_keys_of_a_kafka_table_that_cannot_be(options: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidTableOption) as refused:
        shape({**APPEND, **options})

    assert words in refused.value.message


def test_keys_are_in_the_order_that_is_asked_for() -> None:
    assert shape(UPSERT, key=(2, 0)).key == (2, 0)
    assert shape({**APPEND, "key.format": "json", "key.fields": "c; a"}).key == (2, 0)
    assert shape(APPEND).key == ()
    assert value_format({**APPEND, "format": "changelog-json"}) == "changelog-json"


def test_a_primary_key_needs_a_sink_that_keeps_it() -> None:
    """Source: Flink `KafkaDynamicTableFactory.validatePKConstraints`."""
    with pytest.raises(InvalidTableOption, match="primary key, which inserts cannot keep"):
        shape(APPEND, key=(0,))
    assert shape({**APPEND, "format": "changelog-json"}, key=(0,)).key == ()


def test_values_are_the_same_however_many_are_encoded_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    form = shape({**APPEND, "format": "changelog-json"}, names="a b")
    columns = [pa.array(range(5), pa.int32()), pa.array([7, None, 9, 10, 11], pa.int32())]
    kinds = np.array([0, 1, 2, 3, 0], np.int8)
    at_once = form.values(columns, kinds)
    monkeypatch.setattr("service.runtime.sinks.kafka.shape._BLOCK_ROWS", 2)

    assert form.values(columns, kinds) == at_once
    assert at_once[3].as_py() == b'{"op":"-D","data":{"a":3,"b":10}}'
    assert len(form.values([each[:0] for each in columns], kinds[:0])) == 0


def test_a_client_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check_client()
    monkeypatch.setattr(
        "service.runtime.sinks.kafka.options.find_spec",
        lambda name: None if name == "confluent_kafka" else importlib.util.find_spec(name),
    )

    with pytest.raises(
        UnsupportedConnector, match="needs the Python package confluent-kafka"
    ) as no:
        check_client()
    assert "tailrace[kafka]" in no.value.hint
