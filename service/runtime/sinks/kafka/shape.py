"""Which columns of a table are a record's key, which its value, and the bytes that they become.

The same rows always give the same bytes: objects of JSON with their fields in the order of the
columns, of a key in that of the primary key or of `key.fields`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from service.runtime.dataflow_errors import InvalidTableOption
from service.runtime.sinks.kafka.options import UPSERT, has_key_format, value_format
from state.codec import RowCodec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from service.runtime.sinks.spec import SinkSpec

_PREFIX = "key.fields-prefix"
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
        key = _key(spec, has_key=has_key_format(options))
        prefix = options.get(_PREFIX, "")
        without_key = options.get("value.fields-include", "ALL") == "EXCEPT_KEY"
        if prefix and not without_key:
            raise InvalidTableOption(
                f'option "{_PREFIX}" needs option "value.fields-include" = EXCEPT_KEY'
            )
        for at in key:
            if not spec.names[at].startswith(prefix) or spec.names[at] == prefix:
                raise InvalidTableOption(
                    f'column "{spec.names[at]}" of the key does not begin with what option '
                    f'"{_PREFIX}" says'
                )
        value = tuple(at for at in range(len(spec.names)) if not without_key or at not in key)
        if not value:
            raise InvalidTableOption(
                f"sink {spec.table} has no column that is not of the key",
                hint='leave out option "value.fields-include"',
            )
        return cls(spec, key, prefix, value, form == "changelog-json")

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


def _key(spec: SinkSpec, *, has_key: bool) -> tuple[int, ...]:
    if spec.connector == UPSERT:
        if not spec.primary_key:
            raise InvalidTableOption(
                f"upsert-kafka table {spec.table} has no primary key",
                hint="declare PRIMARY KEY .. NOT ENFORCED",
            )
        return spec.primary_key
    listed = _fields(spec.options)
    if bool(listed) != has_key:
        given, missing = ("fields", "format") if listed else ("format", "fields")
        raise InvalidTableOption(f'option "key.{given}" needs option "key.{missing}"')
    strange = [each for each in listed if each not in spec.names]
    if strange or len(set(listed)) != len(listed):
        raise InvalidTableOption(
            f'option "key.fields" names "{strange[0]}", which is not a column of {spec.table}'
            if strange
            else 'option "key.fields" names a column twice'
        )
    return tuple(spec.names.index(each) for each in listed)


def _fields(options: Mapping[str, str]) -> list[str]:
    text = options.get("key.fields", "")
    return [each.strip() for each in text.split(";") if each.strip()]
