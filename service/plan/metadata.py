"""What connectors tell of a record beside its columns: keys of metadata columns, with their types.

Keys stand in the order in which a source appends them to the physical columns. A table may declare
another type for a column than its key has; then the plan casts, above the scan. A sink takes keys
in the same way: behind the physical columns, in its own order, cast below it.

Source: Flink 2.3 `FileSystemTableSource`, `KafkaDynamicSource`, `KafkaDynamicSink`,
`DynamicSourceUtils` and `DynamicSinkUtils`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.plan.nodes import TableScan
    from service.plan.tables import Column, Table
    from state.types import LogicalType

_INSTANT: Final = "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL"
_TEXT: Final = "VARCHAR(2147483647) NOT NULL"
_KAFKA: Final[Mapping[str, str]] = {
    "topic": _TEXT,
    "partition": "INT NOT NULL",
    "headers": "MAP<VARCHAR(2147483647) NOT NULL, VARBINARY(2147483647) NOT NULL> NOT NULL",
    "offset": "BIGINT NOT NULL",
    "timestamp": _INSTANT,
    "timestamp-type": _TEXT,
}
_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "filesystem": {
        "file.path": _TEXT,
        "file.name": _TEXT,
        "file.size": "BIGINT NOT NULL",
        "file.modification-time": _INSTANT,
    },
    "kafka": _KAFKA,
    "upsert-kafka": _KAFKA,
}
_TO_KAFKA: Final[Mapping[str, str]] = {
    "headers": "MAP<VARCHAR(2147483647), VARBINARY(2147483647)>",
    "timestamp": "TIMESTAMP(3) WITH LOCAL TIME ZONE",
}
_WRITTEN: Final[Mapping[str, Mapping[str, str]]] = {"kafka": _TO_KAFKA, "upsert-kafka": _TO_KAFKA}
_NOT_READ: Final[Mapping[tuple[str, str], str]] = {
    (connector, "leader-epoch"): "Spark's Kafka source does not give it"
    for connector in ("kafka", "upsert-kafka")
}
"""Keys that Flink's connector has and ours has not, with the reason."""


def readable_metadata(connector: str) -> Mapping[str, LogicalType]:
    """The keys of a connector and their types; none where its records tell nothing of themselves.

    >>> list(readable_metadata("filesystem"))
    ['file.path', 'file.name', 'file.size', 'file.modification-time']
    """
    return _readable(connector)


def writable_metadata(connector: str) -> Mapping[str, LogicalType]:
    """The keys that a connector's sink takes, with their types.

    >>> list(writable_metadata("kafka"))
    ['headers', 'timestamp']
    """
    return _writable(connector)


@cache
def _readable(connector: str) -> dict[str, LogicalType]:
    return {key: parse_type(text) for key, text in _TYPES.get(connector, {}).items()}


@cache
def _writable(connector: str) -> dict[str, LogicalType]:
    return {key: parse_type(text) for key, text in _WRITTEN.get(connector, {}).items()}


def why_not_read(connector: str, key: str) -> str:
    """Why a key is not read, or nothing.

    >>> why_not_read("kafka", "offset"), why_not_read("datagen", "time")
    ('', 'connector "datagen" has no metadata')
    """
    known = readable_metadata(connector)
    if key in known:
        return ""
    if not known:
        return f'connector "{connector}" has no metadata'
    if (connector, key) in _NOT_READ:
        return _NOT_READ[connector, key]
    if key.startswith("value."):
        return "metadata of formats is not read"
    return f'connector "{connector}" has {", ".join(known)}'


def metadata_columns(scan: TableScan) -> list[Column]:
    """The columns that a scan appends, under the table's names, with the types of their keys.

    A key that is not read, or that no column of the table names, has none.
    """
    known = readable_metadata(scan.table.options.get("connector", ""))
    declared = {
        each.metadata_key: each for each in scan.table.schema.columns if each.kind == "METADATA"
    }
    return [
        replace(declared[key], type=known[key])
        for key in scan.metadata_keys
        if key in known and key in declared
    ]


def why_not_written(connector: str, key: str) -> str:
    """Why a sink does not take a key, or nothing.

    >>> why_not_written("kafka", "timestamp"), why_not_written("kafka", "offset")
    ('', 'a sink of connector "kafka" takes headers, timestamp')
    >>> why_not_written("print", "timestamp")
    'a sink of connector "print" takes no metadata'
    """
    known = writable_metadata(connector)
    if key in known:
        return ""
    return f'a sink of connector "{connector}" takes {", ".join(known) or "no metadata"}'


def written_columns(table: Table, keys: Sequence[str]) -> tuple[Column, ...]:
    """The columns of a sink's input: physical ones, then metadata with the types of its keys.

    A key that no column of the table names has none.
    """
    known = writable_metadata(table.options.get("connector", ""))
    written = (each for each in table.schema.persisted if each.kind == "METADATA")
    declared = {each.metadata_key: each for each in written}
    told = [
        replace(declared[key], type=known.get(key, declared[key].type))
        for key in keys
        if key in declared
    ]
    return (*table.schema.physical, *told)
