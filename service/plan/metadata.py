"""What connectors tell of a record beside its columns: keys of metadata columns, with their types.

Keys stand in the order in which a source appends them to the physical columns. A table may declare
another type for a column than its key has; then the plan casts, above the scan.

Source: Flink 2.3 `FileSystemTableSource`, `KafkaDynamicSource` and `DynamicSourceUtils`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.plan.nodes import TableScan
    from service.plan.tables import Column
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


@cache
def _readable(connector: str) -> dict[str, LogicalType]:
    return {key: parse_type(text) for key, text in _TYPES.get(connector, {}).items()}


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
