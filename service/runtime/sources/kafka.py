"""Records of Spark's Kafka source as changes: what runs in its `mapInArrow`.

Spark plans the offsets, reads the topics and keeps its place in the checkpoint; it reads a Kafka
partition's part of an epoch in one task. Here a record becomes a change (`record_decoder`).

What is hard is a place in the epoch for each record that is the same whenever the epoch runs and
that no two records share, since tasks know nothing of each other. It is

    offset * 65,536 + number of the partition

(of a format with two rows of a record, twice the offset, and one more for the second),
where the number comes from the plan, if that names the topics. Of a pattern nobody knows the topics
beforehand: there the partitions are numbered as they are first met, in a list in Redis that never
changes but at its end. So changes of one partition keep their order, and those of several go by
offset, then partition; between partitions Kafka has no order that could be kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from operators.wire import TICK, ControlRow, SourceNote, to_note
from service.runtime.connections import redis_of
from service.runtime.kafka_fields import KEY_FORMAT
from service.runtime.slot_keys import places_key, slot_key
from service.runtime.sources.base import Chunk, Rejected, WireBatches, redis_errors
from service.runtime.sources.kafka_options import topics_of
from service.runtime.sources.record_decoder import record_decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import StructType

    from service.runtime.sources.spec import SourceSpec

COLUMNS = ("value", "topic", "partition", "offset")
"""What is always read of the columns that Spark's Kafka source gives."""
_OTHERS = {"headers": "headers", "timestamp": "timestamp", "timestamp-type": "timestampType"}
"""By key of metadata: what is read of them where a table has such a column."""
_TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
"""What Kafka calls the ids that Spark gives."""
_PLACE_BITS = 16
_OFFSET_BITS = 47


def record_columns(spec: SourceSpec) -> tuple[str, ...]:
    """What is read of the columns that Spark's Kafka source gives, for a table."""
    key = ("key",) if KEY_FORMAT in spec.options else ()
    return (*COLUMNS, *key, *(_OTHERS[each] for each, _ in spec.metadata if each in _OTHERS))


def in_epoch(spec: SourceSpec, epoch: int) -> SourceSpec:
    """The table as an epoch reads it: in one that Redis has closed no record fails any more.

    Raises:
        SourceUnavailable: Redis does not answer, where it is asked.
    """
    if not spec.fail_on_malformed:
        return spec
    with redis_errors():
        closed = redis_of(spec).hget(slot_key(spec.pipeline, "marker"), "epoch")
    return replace(spec, fail_on_malformed=epoch > int(closed or 0))


def decode_records(
    spec: SourceSpec, schema: StructType, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The changes of one task's records, their dead letters, ticks and notes.

    Args:
        spec: The table, with the options of `kafka_options.task_options`.
        schema: The wire columns to give.
        batches: Records, in the columns `record_columns`.

    Raises:
        MalformedChange: a record is no change, and the pipeline is to fail on it.
        SourceUnavailable: Redis does not answer, where it numbers the partitions.
    """
    wire = WireBatches(spec, schema)
    records = _Records(spec)
    for batch in batches:
        if batch.num_rows:
            yield from wire.of(records.read(batch))
    yield wire.control(records.ticks())


class Numbering(Protocol):
    """Numbers below 65,536 for the partitions of a table, each its own, always the same."""

    def number(self, topic: str, partition: int) -> int:
        """The partition's number."""


class _Planned:
    """The topics are known: their partitions take turns."""

    def __init__(self, topics: list[str]) -> None:
        self._topics = topics

    def number(self, topic: str, partition: int) -> int:
        return partition * len(self._topics) + self._topics.index(topic)


class _FirstSight:
    """Places in a list in Redis; of a partition that two attempts added, the first one counts."""

    def __init__(self, spec: SourceSpec, key: str) -> None:
        self._client = redis_of(spec)
        self._key = key

    def number(self, topic: str, partition: int) -> int:
        name = f"{topic}/{partition}"
        with redis_errors():
            found = self._client.lpos(self._key, name)
            if found is None:
                self._client.rpush(self._key, name)
                found = self._client.lpos(self._key, name)
        assert isinstance(found, int)
        return found


@dataclass
class _Place:
    """What a task read of one Kafka partition."""

    topic: str
    partition: int
    number: int
    rows: int = 0
    next_offset: int = 0

    def note(self, table: str) -> str:
        end = {"topics": {self.topic: {str(self.partition): self.next_offset}}}
        return to_note(SourceNote(table, f"{self.topic}/{self.partition}", self.rows, end))


class _Records:
    """Decodes batches of records and remembers what there was of each partition."""

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self._decoder = record_decoder(spec)
        topics = topics_of(spec.options)
        self._numbering: Numbering = (
            _Planned(topics) if topics else _FirstSight(spec, places_key(spec.pipeline, spec.table))
        )
        self._places: dict[tuple[str, int], _Place] = {}

    def read(self, batch: pa.RecordBatch) -> Chunk:
        """The changes of a batch, and the records among them that are none."""
        places, place_of = self._places_in(batch)
        offsets = batch.column("offset").to_numpy().astype(np.int64)
        numbers = np.array([each.number for each in places])[place_of]
        order = _order(offsets, self._decoder.rows_max, numbers)
        decoded = self._decoder.decode(batch)
        rows = decoded.records
        for at, place in enumerate(places):
            mine = place_of == at
            place.rows += int(np.count_nonzero(mine[rows]))
            place.next_offset = max(place.next_offset, int(offsets[mine].max()) + 1)
        rejected = [
            Rejected(int(order[at]), _position(places[place_of[at]], int(offsets[at])), reason)
            for at, reason in sorted(decoded.refused.items())
        ]
        own = order[rows] + (decoded.places << _PLACE_BITS)
        told = [_metadata(batch, key, rows) for key, _ in self._spec.metadata]
        return Chunk([*decoded.columns, *told], decoded.kinds, own, rejected)

    def ticks(self) -> list[ControlRow]:
        """A tick for every shuffle partition, and the notes.

        Every task gives them: none knows whether it is the only one that has anything to read.
        """
        count = self._spec.partitions
        return [
            *(ControlRow(TICK, each) for each in range(count)),
            *(
                ControlRow(TICK, each.number % count, each.note(self._spec.table))
                for each in self._places.values()
            ),
        ]

    def _places_in(self, batch: pa.RecordBatch) -> tuple[list[_Place], np.ndarray]:
        """The partitions that have records in a batch, and which one each record is of."""
        topics = batch.column("topic").dictionary_encode()
        codes = topics.indices.to_numpy().astype(np.int64) << 32
        found, place_of = np.unique(
            codes | batch.column("partition").to_numpy(), return_inverse=True
        )
        names = topics.dictionary.to_pylist()
        return [self._place(names[each >> 32], each & 0xFFFFFFFF) for each in found.tolist()], (
            place_of
        )

    def _place(self, topic: str, partition: int) -> _Place:
        place = self._places.get((topic, partition))
        if place is None:
            number = self._numbering.number(topic, partition)
            if number >> _PLACE_BITS:
                raise OverflowError(f"{self._spec.table}: more than 65,536 Kafka partitions")
            place = self._places[topic, partition] = _Place(topic, partition, number)
        return place


def _metadata(batch: pa.RecordBatch, key: str, rows: np.ndarray) -> pa.Array:
    """What the records that these rows are of tell of themselves."""
    told = batch.column(_OTHERS.get(key, key)).take(pa.array(rows))
    match key:
        case "timestamp-type":
            return pa.array([_TIMESTAMP_TYPES[each] for each in told.to_pylist()], pa.string())
        case "headers":
            # Of a name that comes more than once the last header counts, as in Flink.
            maps = [
                list({each["key"]: each["value"] for each in headers or ()}.items())
                for headers in told.to_pylist()
            ]
            return pa.array(maps, pa.map_(pa.string(), pa.binary()))
        case _:
            return told


def _order(offsets: np.ndarray, rows_max: int, numbers: np.ndarray) -> np.ndarray:
    """The place in the epoch of each record, or of its first row: by how many may come before."""
    # Before they are multiplied: what leaves 64 bits would be small again.
    if int(offsets.max()) >= (1 << _OFFSET_BITS) // rows_max:
        raise OverflowError("a Kafka offset that leaves no room for its records' changes")
    order: np.ndarray = (offsets * rows_max << _PLACE_BITS) | numbers
    return order


def _position(place: _Place, offset: int) -> str:
    return f"{place.topic}/{place.partition}/{offset}"
