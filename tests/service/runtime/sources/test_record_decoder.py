"""Records with keys: where a row's columns are from, and which records give none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.runtime.dataflow_errors import DataflowError, InvalidTableOption, UnsupportedConnector
from service.runtime.sources.kafka_options import reader_options, record_fields, task_options
from service.runtime.sources.record_decoder import record_decoder
from service.runtime.sources.spec import SourceSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UPSERT = {
    "connector": "upsert-kafka",
    "topic": "t",
    "properties.bootstrap.servers": "b:9092",
    "key.format": "json",
    "value.format": "json",
}
KEYED = {
    "connector": "kafka",
    "topic": "t",
    "properties.bootstrap.servers": "b:9092",
    "scan.startup.mode": "earliest-offset",
    "key.format": "json",
    "key.fields": "id",
    "format": "changelog-json",
}
PREFIXED = {"key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY"}
Record = tuple[bytes | None, bytes | None]
"""Key and value."""


def spec(options: Mapping[str, str], *names: str, key: str = "id") -> SourceSpec:
    """A table of `key` INT and `v` STRING, of which these columns are asked for."""
    types = {key: "INT NOT NULL", "v": "VARCHAR(9) NOT NULL"}
    asked = names or (*types,)
    return SourceSpec(
        connector=options["connector"],
        table="t",
        pipeline="p",
        redis_url="",
        names=asked,
        types=tuple(types[each] for each in asked),
        physical=tuple(types.items()),
        options=dict(options),
        primary_key=(key,),
    )


def decode(table: SourceSpec, records: Sequence[Record]) -> tuple[list[Any], dict[int, str]]:
    """Record, kind and columns of each row; and of records without one the reason."""
    keys, values = ([each[at] for each in records] for at in (0, 1))
    batch = pa.record_batch(
        {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
    )
    reader_options(table.options, 1)
    record_fields(table)
    found = record_decoder(replace(table, options=task_options(table.options))).decode(batch)
    columns = [each.to_pylist() for each in found.columns]
    places = list(zip(found.records.tolist(), found.places.tolist(), strict=True))
    assert places == sorted(set(places))
    rows = zip(found.records.tolist(), found.kinds.tolist(), *columns, strict=True)
    return list(rows), found.refused


def test_a_value_is_what_its_key_has_and_none_takes_it_away() -> None:
    rows, refused = decode(
        spec(UPSERT),
        [
            (b'{"id":1}', b'{"id":1,"v":"a"}'),
            (b'{"id":2}', None),
            (b'{"id":1}', b'{"id":3,"v":"b"}'),
            (b'{"id":"x"}', b'{"id":1,"v":"c"}'),
            (None, b'{"id":1,"v":"d"}'),
            (None, None),
            (b'{"id":4}', b"{"),
            (b'{"id":5}', b""),
            (b'{"id":5}', b" \n"),
        ],
    )

    # As in Flink the value has the last word on a column that is in both.
    assert rows == [(0, 2, 1, "a"), (1, 3, 2, None), (2, 2, 3, "b")]
    assert refused == {
        3: 'key: column "id" must be INT, found a string of another form',
        4: "no key",
        5: "no key",
        6: "not valid JSON",
        7: "no value",
        8: "no value",
    }


def test_a_prefix_tells_columns_of_the_key_from_those_of_the_value() -> None:
    table = spec({**UPSERT, **PREFIXED}, "v", "k_id", key="k_id")

    rows, refused = decode(table, [(b'{"id":1}', b'{"v":"a"}'), (b' {"id":\n2}', None)])

    assert rows == [(0, 2, "a", 1), (1, 3, None, 2)]
    assert refused == {}


def test_both_changes_of_an_event_have_its_key() -> None:
    options = {**KEYED, "format": "debezium-json", "value.fields-include": "EXCEPT_KEY"}
    event = b'{"op":"u","before":{"v":"a"},"after":{"v":"b"}}'

    rows, refused = decode(spec(options), [(b'{"id":1}', event), (b'{"id":1}', None)])

    assert rows == [(0, 1, 1, "a"), (0, 2, 1, "b")]
    assert refused == {}


KEYS: dict[bytes | None, int | None] = {
    b'{"id":1}': 1, b'{"id":2,"v":0}': 2, b'{"id":null}': None, b"[]": None, b" ": None, None: None,
}  # fmt: skip  # a table
VALUES: dict[bytes | None, tuple[int, int, str] | None] = {
    b'{"op":"+I","data":{"id":7,"v":"a"}}': (0, 7, "a"),
    b'{"op":"-U","data":{"id":8,"v":"b"}}': (1, 8, "b"),
    b'{"op":"+U","data":{"id":9,"v":null}}': None,
    b"{": None,
    None: None,
}


@given(
    st.lists(st.tuples(st.sampled_from([*KEYS]), st.sampled_from([*VALUES])), max_size=6),
    st.sampled_from([("id", "v"), ("v", "id"), ("v",), ("id",)]),
    st.booleans(),
)
def test_a_row_has_its_columns_from_the_key_if_the_value_has_not(
    records: list[Record],
    names: tuple[str, ...],
    without_key: bool,
) -> None:
    include = "EXCEPT_KEY" if without_key else "ALL"
    # Of a declared key, a -U alone is a -D: see `test_key_moves`.
    table = replace(spec({**KEYED, "value.fields-include": include}, *names), primary_key=())
    rows, refused = decode(table, records)

    expected = []
    for at, (key, value) in enumerate(records):
        read = VALUES[value]
        if value == b'{"op":"+U","data":{"id":9,"v":null}}' and names == ("id",):
            # Nobody asked for the column that is bad.
            read = (2, 9, "")
        if read is not None and KEYS[key] is not None:
            columns = {"id": KEYS[key] if without_key else read[1], "v": read[2]}
            expected.append((at, read[0], *(columns[each] for each in names)))
    assert rows == expected
    assert sorted(refused) == sorted({*range(len(records))} - {each[0] for each in expected})


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({**UPSERT, "key.format": "raw"}, UnsupportedConnector, 'for connector "upsert-kafka"'),
        ({**UPSERT, "value.format": "debezium-json"}, UnsupportedConnector, "debezium"),
        ({**UPSERT, "key.fields": "id"}, InvalidTableOption, '"key.fields" is not honoured'),
        ({**UPSERT, "scan.startup.mode": "latest-offset"}, InvalidTableOption, "scan.startup.mode"),
        ({**UPSERT, "properties.auto.offset.reset": "x"}, InvalidTableOption, "auto.offset.reset"),
        ({**UPSERT, "key.fields-prefix": "i"}, InvalidTableOption, "EXCEPT_KEY"),
        ({**KEYED, "key.fields": "id;w"}, InvalidTableOption, '"w", which is not a column of t'),
        ({**KEYED, "key.fields": "id;id"}, InvalidTableOption, "names a column twice"),
        ({**KEYED, "key.fields": ""}, InvalidTableOption, 'needs option "key.fields"'),
        ({**KEYED, "key.format": "csv"}, UnsupportedConnector, '"csv" is .* for connector "kafka"'),
        ({**KEYED, "value.fields-include": "NONE"}, InvalidTableOption, "ALL or EXCEPT_KEY"),
        ({**KEYED, "key.fields": "id;v", "value.fields-include": "EXCEPT_KEY"},
         InvalidTableOption, "no column that is not of the key"),
    ],
)  # fmt: skip  # a table: a case a line
def test_what_cannot_be_is_refused_by_name(
    options: dict[str, str], error: type[DataflowError], words: str
) -> None:
    with pytest.raises(error, match=words):
        decode(spec(options), [])


def test_a_table_without_a_primary_key_is_refused() -> None:
    with pytest.raises(InvalidTableOption, match="no primary key"):
        record_fields(replace(spec(UPSERT), primary_key=()))


def test_a_table_of_metadata_alone_has_a_row_for_each_record() -> None:
    options = {**KEYED, "format": "json"}
    del options["key.format"], options["key.fields"]
    table = replace(spec(options), names=(), types=(), physical=())

    rows, refused = decode(table, [(None, b'{"id":1}'), (None, b"{"), (b"k", b"{}")])

    assert rows == [(0, 0), (2, 0)]
    assert refused == {1: "not valid JSON"}


def test_a_table_that_is_also_written_is_read_from_the_start() -> None:
    options = {**UPSERT, "sink.transactional-id-prefix": "x", "changelog-mode": "upsert"}

    assert reader_options(options, 7) == {
        "kafka.bootstrap.servers": "b:9092",
        "subscribe": "t",
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "7",
        "failOnDataLoss": "true",
    }
    assert task_options(options) == {"topic": "t", "key.format": "json", "format": "json"}
