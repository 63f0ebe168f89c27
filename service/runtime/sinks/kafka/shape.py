"""Which columns of a table are a record's key, which its value, and the bytes that they become.

Metadata columns are neither: a record says them beside both.

The same rows always give the same bytes: objects of JSON with their fields in the order of the
columns, of a key in that of the primary key or of `key.fields`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from service.runtime.dataflow_errors import InvalidTableOption
from service.runtime.kafka_fields import UPSERT, RecordFields
from service.runtime.sinks.kafka.options import check_key_format, value_format
from state.codec import RowCodec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from service.runtime.sinks.spec import SinkSpec

_BLOCK_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class RecordShape:
    """What of a row a record holds."""

    spec: SinkSpec
    key: tuple[int, ...]
    """Columns of the key; none: records have no key."""
    prefix: str
    """What names of the key's columns lose in the key."""
    value: tuple[int, ...]
    with_kind: bool
    """Whether a value tells the kind of its change."""

    @classmethod
    def of(cls, spec: SinkSpec) -> RecordShape:
        """The shape that a table's options ask for.

        Raises:
            InvalidTableOption: Options contradict each other, or the table.
            UnsupportedConnector: A format is not one of ours.
        """
        options = spec.options
        form = value_format(options)
        if spec.primary_key and spec.connector != UPSERT and form == "json":
            raise InvalidTableOption(
                f"kafka table {spec.table} has a primary key, which inserts cannot keep",
                hint="connector upsert-kafka keeps it; else leave it out",
            )
        check_key_format(options)
        is_upsert = spec.connector == UPSERT
        primary_key = [spec.names[at] for at in spec.primary_key] if is_upsert else None
        names = spec.names[: len(spec.names) - len(spec.metadata)]
        fields = RecordFields.of(options, names, primary_key, table=spec.table)
        return cls(spec, fields.key, fields.prefix, fields.value, form == "changelog-json")

    @property
    def is_upsert(self) -> bool:
        """Whether a row that is gone is a key without a value."""
        return self.spec.connector == UPSERT

    def keys(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The key of each row; null where records have none."""
        if not self.key:
            return pa.nulls(len(columns[0]), pa.binary())
        codec = self._codec(self.key, len(self.prefix))
        return _lines(codec, None, [columns[at] for at in self.key])

    def values(self, columns: Sequence[pa.Array], kinds: np.ndarray) -> pa.Array:
        """The value of each row."""
        codec = self._codec(self.value, 0)
        shown = kinds if self.with_kind else None
        return _lines(codec, shown, [columns[at] for at in self.value])

    def _codec(self, positions: Sequence[int], cut: int) -> RowCodec:
        types = [parse_type(self.spec.types[at]) for at in positions]
        return RowCodec(types, [self.spec.names[at][cut:] for at in positions])


def _lines(
    codec: RowCodec, kinds: np.ndarray | None, columns: Sequence[pa.Array]
) -> pa.LargeBinaryArray:
    """Rows as JSON, block by block: all of a task's may be more than an Arrow text array holds."""
    blocks = [pa.array([], pa.large_binary())]
    for start in range(0, len(columns[0]), _BLOCK_ROWS):
        part = slice(start, start + _BLOCK_ROWS)
        lines = codec.encode_json_lines(
            None if kinds is None else kinds[part], [each[part] for each in columns]
        )
        blocks.append(pa.array(lines, pa.large_binary()))
    return pa.concat_arrays(blocks)
