"""Records into changes: places in the epoch, values that are lines, notes, dead letters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.wire import DEAD_LETTER, KIND, NOTE, ORDER, TICK, NoteSum
from service.plan.metadata import readable_metadata
from service.runtime.dataflow_errors import MalformedChange
from service.runtime.sources.kafka import decode_records, record_columns
from service.runtime.sources.spec import SourceSpec
from service.runtime.wire_columns import wire_struct
from state.codec import RowCodec
from state.types import format_type, parse_type
from tests.service.runtime.sources.readers import make_reader, read_all, url_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import redis

COLUMNS = {"id": "INT", "k": "STRING"}
TYPES = [parse_type(each) for each in COLUMNS.values()]
Record = tuple[bytes | None, str, int, int]
"""Value, topic, partition, offset."""


def spec(**changes: Any) -> SourceSpec:
    values: dict[str, Any] = {
        "connector": "kafka",
        "table": "t",
        "pipeline": "p",
        "redis_url": "redis://127.0.0.1:1/0",
        "names": tuple(COLUMNS),
        "types": tuple(COLUMNS.values()),
        "physical": tuple(COLUMNS.items()),
        "options": {"topic": "a;b", "format": "changelog-json"},
        "partitions": 2,
    }
    return SourceSpec(**{**values, **changes})


def batch(records: Sequence[Record]) -> pa.RecordBatch:
    values, topics, partitions, offsets = zip(*records, strict=True) if records else ([],) * 4
    return pa.record_batch(
        {
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(topics, pa.string()),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
        }
    )


def decode(table: SourceSpec, batches: Iterable[Sequence[Record]]) -> list[dict[str, Any]]:
    """All wire rows of one task."""
    schema = wire_struct(TYPES, (KIND, ORDER, NOTE))
    found = decode_records(table, schema, iter([batch(each) for each in batches]))
    return [row for each in found for row in each.to_pylist()]


def changes(rows: Sequence[dict[str, Any]]) -> dict[int, tuple[Any, ...]]:
    """Kind and columns by order number; of dead letters position and reason."""
    found: dict[int, tuple[Any, ...]] = {}
    for row in rows:
        if row[KIND] != TICK:
            assert row[ORDER] not in found
            letter = orjson.loads(row[NOTE]) if row[KIND] == DEAD_LETTER else None
            found[row[ORDER]] = (
                (row[KIND], row["f0"], row["f1"])
                if letter is None
                else (letter["position"], letter["reason"])
            )
    return found


def value(number: int, op: str = "+I") -> bytes:
    return orjson.dumps({"op": op, "data": {"id": number, "k": f"k{number}"}})


VALUES: list[bytes | None] = [
    value(1),
    value(2, "-D"),
    value(3).replace(b",", b"\n,\r\n"),
    b" \n" + value(4) + b"\n",
    value(5) + b"\n" + value(6),
    value(7)[:-1],
    b"}",
    b'{"op":"+I","data":{"id":1,"k":"a\nb"}}',
    b'{"op":"+I","data":{"id":"x","k":"a"}}',
    b'{"op":"+I","data":{"id":1,"k":"\xff"}}',
    b"",
    b" \n\t",
    None,
]
RECORDS = st.lists(
    st.tuples(st.sampled_from(VALUES), st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 6)),
    unique_by=lambda each: each[1:],
    max_size=12,
)


@given(RECORDS, st.lists(st.integers(0, 12), max_size=3), st.integers(1, 3))
def test_a_record_means_the_same_however_the_epoch_is_cut(
    records: list[Record], bounds: list[int], tasks: int
) -> None:
    together = changes(decode(spec(), [records]))

    cuts = [0, *sorted(bounds), len(records)]
    batches = [records[low:high] for low, high in pairwise(cuts)]
    apart: list[dict[str, Any]] = []
    for task in range(tasks):
        mine = [[each for each in cut if each[2] % tasks == task] for cut in batches]
        apart += decode(spec(), mine)

    assert changes(apart) == together
    assert len(together) == len(records)


@given(RECORDS)
def test_a_value_is_taken_as_the_exact_decoder_takes_it_alone(records: list[Record]) -> None:
    codec = RowCodec(TYPES, list(COLUMNS))
    expected = []
    for held, topic, partition, offset in records:
        # A list of one line, in which a line feed parts nothing.
        alone = codec.decode_json_lines([held or b""], with_op=True)
        row = [int(alone.kinds[0])] if len(alone.kinds) else []
        row += [each[0].as_py() for each in alone.columns] if row else []
        reason = alone.rejected[0][1] if alone.rejected else "no value"
        expected.append(tuple(row) or (f"{topic}/{partition}/{offset}", reason))

    found = changes(decode(spec(), [records]))

    assert sorted(found.values(), key=str) == sorted(expected, key=str)


def test_order_goes_by_offset_then_partition() -> None:
    records = [
        (value(n), topic, partition, offset)
        for n, (offset, partition, topic) in enumerate(
            (offset, partition, topic)
            for offset in (3, 70_000, 2**46)
            for partition in (0, 1, 30_000)
            for topic in "ab"
        )
    ]

    found = changes(decode(spec(), [records[::-1]]))

    assert [found[order] for order in sorted(found)] == [(0, n, f"k{n}") for n in range(18)]


@pytest.mark.parametrize(("partition", "offset"), [(0, 2**47), (32_768, 0)])
def test_what_has_no_order_number_ends_the_epoch(partition: int, offset: int) -> None:
    with pytest.raises(OverflowError):
        decode(spec(), [[(value(1), "b", partition, offset)]])


def test_every_partition_gets_a_tick_and_every_kafka_partition_a_note() -> None:
    records = [
        [(value(1), "a", 0, 5), (value(2), "b", 1, 9)],
        [(None, "a", 0, 8), (value(3), "b", 1, 10), (value(4), "b", 1, 12)],
    ]

    rows = [each for each in decode(spec(partitions=3), records) if each[KIND] == TICK]
    notes = NoteSum()
    notes.add(each[NOTE] for each in rows if each[NOTE])

    told = [orjson.loads(each[NOTE]) for each in rows if each[NOTE]]
    assert {each[ORDER] for each in rows} == {0, 1, 2}
    assert {each["part"]: each["rows"] for each in told} == {"a/0": 1, "b/1": 3}
    assert notes.rows_in == 4
    assert notes.offsets == {"t": {"topics": {"a": {"0": 9}, "b": {"1": 13}}}}


def test_a_task_without_records_still_tells_the_time() -> None:
    rows = decode(spec(), [[]])

    assert [(each[KIND], each[ORDER], each[NOTE]) for each in rows] == [
        (TICK, 0, None),
        (TICK, 1, None),
    ]


def test_plain_rows_are_inserts_and_kinds_may_be_refused() -> None:
    plain = spec(options={"topic": "a", "format": "json"})
    only = {"topic": "a", "format": "changelog-json", "changelog-mode": "I"}

    rows = changes(decode(plain, [[(b'{"id":1,"k":"x"}', "a", 0, 0)]]))
    refused = changes(decode(spec(options=only), [[(value(1, "-D"), "a", 0, 0)]]))

    assert rows == {0: (0, 1, "x")}
    assert refused == {0: ("a/0/0", 'kind -D is not in changelog-mode "I"')}


def test_a_bad_record_ends_the_epoch_where_it_is_to() -> None:
    with pytest.raises(MalformedChange, match="t at a/0/7: no value"):
        decode(spec(fail_on_malformed=True), [[(value(1), "a", 0, 6), (None, "a", 0, 7)]])


def test_each_row_has_what_its_record_tells() -> None:
    """A refused record between them; headers of which one comes twice, no headers, NULL."""
    metadata = {key: format_type(kind) for key, kind in readable_metadata("kafka").items()}
    table = spec(options={"topic": "a", "format": "changelog-json"}, metadata=(*metadata.items(),))
    records = batch([(value(1), "a", 3, 5), (b"no", "a", 3, 6), (value(2), "a", 3, 7)])
    times = pa.array([1_000, 2_000, -1_000], pa.timestamp("us", "UTC"))
    kinds = pa.array([0, 1, -1], pa.int32())
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = pa.array(
        [
            [{"key": "x", "value": b"1"}, {"key": "y", "value": None}, {"key": "x", "value": b"2"}],
            [],
            None,
        ],
        pa.list_(header),
    )
    for name, column in (("timestamp", times), ("timestampType", kinds), ("headers", headers)):
        records = records.append_column(name, column)
    given = [*TYPES, *map(parse_type, metadata.values())]
    schema = wire_struct(given, (KIND, ORDER, NOTE))

    found = [
        tuple(row[f"f{at}"] for at in range(len(given)))
        for each in decode_records(table, schema, iter([records]))
        for row in each.to_pylist()
        if row[KIND] < TICK
    ]

    assert set(record_columns(table)) == set(records.schema.names)
    assert found == [
        (1, "k1", "a", 3, [("x", b"2"), ("y", None)], 5, instant(1), "CreateTime"),
        (2, "k2", "a", 3, [], 7, instant(-1), "NoTimestampType"),
    ]


def instant(milliseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


def test_no_more_is_read_of_records_than_is_asked_for() -> None:
    one = spec(metadata=(("topic", "STRING NOT NULL"), ("timestamp", "TIMESTAMP_LTZ(3) NOT NULL")))

    assert record_columns(spec()) == ("value", "topic", "partition", "offset")
    assert record_columns(one) == ("value", "topic", "partition", "offset", "timestamp")


def test_partitions_of_a_pattern_keep_the_number_of_their_first_sight(
    redis_client: redis.Redis,
) -> None:
    table = spec(options={"format": "changelog-json"}, redis_url=url_of(redis_client))
    first = [(value(1), "z", 0, 1), (value(2), "y", 4, 1)]

    before = changes(decode(table, [first]))
    # Another attempt of a task may add a partition for a second time.
    redis_client.rpush("tailrace:{p}:places:t", "z/0")
    decode(table, [[(value(3), "a", 0, 1)]])

    assert changes(decode(table, [first[::-1]])) == before
    assert len(before) == 2
    assert redis_client.lrange("tailrace:{p}:places:t", 0, -1) == [b"z/0", b"y/4", b"z/0", b"a/0"]


def test_ticks_alone_come_as_the_clock_says(redis_client: redis.Redis) -> None:
    reader = make_reader(redis_client, connector="ticks", tick_interval_ms=1_000)
    silent = make_reader(redis_client, connector="ticks")

    (epoch,) = read_all(reader)

    assert (epoch.rows, sorted(epoch.ticks)) == ([], [0, 1])
    assert orjson.loads(epoch.notes[0])["end"] == epoch.end == {"tick": epoch.end["tick"]}
    assert read_all(silent) == []
