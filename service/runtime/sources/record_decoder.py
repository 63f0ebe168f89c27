"""Kafka's records into rows: out of their values alone, or out of their keys and values.

Where a table's options name a format of keys, a record without a good key gives no row. Of
`upsert-kafka` a value is the row that its key has from now on, and a key without a value takes the
row away: what the row was is not known, so its other columns are null.

Source: Flink `DynamicKafkaDeserializationSchema`, which passes over records without a key.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from operators.changelog import RowKind
from service.runtime.kafka_fields import KEY_FORMAT, UPSERT
from service.runtime.sources.decoding import LineDecoder
from service.runtime.sources.formats import CAPTURE_FORMATS
from service.runtime.sources.kafka_options import record_fields, value_format

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.sources.spec import SourceSpec

_BLANK = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """What a batch of records holds; they count from 0 within the batch."""

    columns: Sequence[pa.Array]
    kinds: np.ndarray
    records: np.ndarray
    """The record of each row, growing; rows of one record stand together."""
    places: np.ndarray
    """Of each row its place in its record."""
    refused: dict[int, str]
    """Of records that are no change, the reason."""


class RecordDecoder(ABC):
    """Decodes batches of records."""

    rows_max: int
    """Rows of a record at most."""

    @abstractmethod
    def decode(self, batch: pa.RecordBatch) -> DecodedRecords:
        """The rows of a batch."""


def record_decoder(spec: SourceSpec) -> RecordDecoder:
    """What decodes the records of a table, with the options of `kafka_options.task_options`."""
    return KeyedDecoder(spec) if KEY_FORMAT in spec.options else ValueDecoder(spec)


class ValueDecoder(RecordDecoder):
    """Rows are in records' values."""

    def __init__(self, spec: SourceSpec) -> None:
        form = value_format(spec.options)
        self._lines = LineDecoder(spec, form)
        self.rows_max = self._lines.rows_max
        # Debezium's connectors send a key alone behind a delete, for compaction; Flink's other
        # formats of this kind pass over it, too.
        self._passes_empty = form in CAPTURE_FORMATS
        # What a key without a value means, whoever looks at keys says; a blank value is none.
        self._passes_null = spec.connector == UPSERT

    def decode(self, batch: pa.RecordBatch) -> DecodedRecords:
        """See `RecordDecoder`."""
        values, filled = as_lines(batch.column("value"))
        found = self._lines.decode(b"\n".join(values))
        refused = dict.fromkeys(map(int, self._without(batch.column("value"), filled)), "no value")
        refused |= {int(filled[line]): reason for line, reason in found.rejected}
        return DecodedRecords(
            found.columns, found.kinds, filled[found.lines], found.places, refused
        )

    def _without(self, values: pa.Array, filled: np.ndarray) -> np.ndarray:
        """The records that are refused as they have no value."""
        if self._passes_empty:
            return np.zeros(0, np.int64)
        is_asked = np.ones(len(values), np.bool_)
        is_asked[filled] = False
        if self._passes_null:
            is_asked &= values.is_valid().to_numpy(zero_copy_only=False)
        return np.flatnonzero(is_asked)


class KeyedDecoder(RecordDecoder):
    """Columns are in records' keys, too."""

    def __init__(self, spec: SourceSpec) -> None:
        fields = record_fields(spec)
        cut = len(fields.prefix)
        key = [spec.physical[at] for at in fields.key]
        in_value = {spec.physical[at][0] for at in fields.value}
        kinds = dict(zip(spec.names, spec.types, strict=True))
        valued = [each for each in spec.names if each in in_value]
        self._key_at = {name: at for at, (name, _) in enumerate(key)}
        self._value_at = {name: at for at, name in enumerate(valued)}
        self._names = spec.names
        self._is_upsert = spec.connector == UPSERT
        of_keys = replace(
            spec,
            names=tuple(name[cut:] for name, _ in key),
            types=tuple(kind for _, kind in key),
            options={},
        )
        of_values = replace(spec, names=tuple(valued), types=tuple(kinds[n] for n in valued))
        self._keys = LineDecoder(of_keys, "json")
        self._values = ValueDecoder(of_values)
        self.rows_max = self._values.rows_max

    def decode(self, batch: pa.RecordBatch) -> DecodedRecords:
        """See `RecordDecoder`."""
        keys, filled = as_lines(batch.column("key"))
        found = self._keys.decode(b"\n".join(keys))
        key_of = np.full(batch.num_rows, -1)
        key_of[filled[found.lines]] = np.arange(found.lines.size)
        read = self._values.decode(batch)
        count = read.records.size
        gone = self._gone(batch.column("value"))
        records = np.concatenate((read.records, gone))
        places = np.concatenate((read.places, np.zeros(gone.size, np.int64)))
        value_of = np.concatenate((np.arange(count), np.full(gone.size, -1)))
        became = np.full(count, RowKind.UPDATE_AFTER) if self._is_upsert else read.kinds
        kinds = np.concatenate((became, np.full(gone.size, RowKind.DELETE))).astype(np.int8)
        kept = np.flatnonzero(key_of[records] >= 0)
        rows = kept[np.lexsort((places[kept], records[kept]))]
        columns = [
            self._column(name, read, found.columns, value_of[rows], key_of[records[rows]])
            for name in self._names
        ]
        # Of a record that is passed over nobody asks what its key is.
        asked = {*records.tolist(), *read.refused}
        refused = read.refused | dict.fromkeys(asked.difference(filled.tolist()), "no key")
        for line, reason in found.rejected:
            if (at := int(filled[line])) in asked:
                refused[at] = f"key: {reason}"
        return DecodedRecords(columns, kinds[rows], records[rows], places[rows], refused)

    def _gone(self, values: pa.Array) -> np.ndarray:
        """The records that take a row away."""
        if not self._is_upsert:
            return np.zeros(0, np.int64)
        return np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))

    def _column(
        self,
        name: str,
        read: DecodedRecords,
        keys: Sequence[pa.Array],
        value_of: np.ndarray,
        key_of: np.ndarray,
    ) -> pa.Array:
        """A column of rows: out of the value, else out of the key, else null."""
        if name not in self._value_at:
            return keys[self._key_at[name]].take(pa.array(key_of))
        column = read.columns[self._value_at[name]]
        if name not in self._key_at:
            return column.take(pa.array(value_of, mask=value_of < 0))
        both = pa.concat_arrays([column, keys[self._key_at[name]]])
        return both.take(pa.array(np.where(value_of < 0, len(column) + key_of, value_of)))


def as_lines(texts: pa.Array) -> tuple[list[bytes], np.ndarray]:
    """Texts of JSON as lines, and which they are; those that are null or blank are left out.

    In JSON a line feed may stand only where a carriage return may, too; so one becomes the other.
    """
    found = [each and each.strip(_BLANK) for each in texts.to_pylist()]
    filled = [at for at, each in enumerate(found) if each]
    return [found[at].replace(b"\n", b"\r") for at in filled], np.array(filled, np.int64)
