"""Metadata columns of tables: what their connectors tell, and what a declaration makes of it.

Source: Flink `DynamicSourceUtils` and `DynamicSinkUtils.validateAndApplyMetadata` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.metadata import readable_metadata, why_not_read
from service.sql.errors import UnsupportedSql, ValidationError
from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    MAP_ROOTS,
    NUMBER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    TypeRoot,
    format_type,
)

if TYPE_CHECKING:
    from service.sql.catalogue import CatalogTable
    from service.sql.errors import Position
    from state.types import LogicalType

_DAYS = frozenset({TypeRoot.DATE, TypeRoot.TIME})
_WRITTEN_BY = ("kafka", "upsert-kafka")
"""Connectors whose sinks have metadata in Flink."""


def check_read(table: CatalogTable, position: Position) -> None:
    """See that the source of a table has the metadata that it declares, read or not.

    Raises:
        ValidationError: It has no such key, or one of a type that is not cast to the column's.
    """
    connector = table.options.get("connector", "")
    known = readable_metadata(connector)
    for column in table.columns:
        if column.kind != "METADATA":
            continue
        key = column.read_key
        if not known:
            raise ValidationError(
                f"Table '{table.summary}' declares metadata columns",
                position,
                hint=why_not_read(connector, key),
            )
        if key not in known:
            raise ValidationError(
                f"Invalid metadata key '{key}' in column '{column.name}' of table "
                f"'{table.summary}'",
                position,
                hint=why_not_read(connector, key),
            )
        if not _is_castable(known[key], column.type):
            raise ValidationError(
                f"Invalid data type for metadata column '{column.name}' with metadata key '{key}' "
                f"of table '{table.summary}'. The column cannot be declared as "
                f"'{format_type(column.type)}' because the type must be castable from metadata "
                f"type '{format_type(known[key])}'.",
                position,
            )


def read_metadata(table: CatalogTable) -> tuple[str, ...]:
    """What explanations say beside a table's name of the metadata that is read: `metadata=[..]`."""
    keys = [column.read_key for column in table.scanned if column.kind == "METADATA"]
    return (f"metadata=[{', '.join(keys)}]",) if keys else ()


def check_written(table: CatalogTable, position: Position) -> None:
    """See that no metadata column is to be written: it would be one of the record's value.

    Raises:
        ValidationError: One is, and the connector has none that are written.
        UnsupportedSql: One is, and in Flink the connector has.
    """
    written = [each for each in table.columns if each.kind == "METADATA" and each.is_persisted]
    if not written:
        return
    hint = "a column that is only read can be declared VIRTUAL"
    connector = table.options.get("connector", "")
    if connector in _WRITTEN_BY:
        raise UnsupportedSql(
            f"metadata column '{written[0].name}' of table '{table.summary}' is not written by a "
            f"{connector} sink",
            position,
            hint=hint,
        )
    raise ValidationError(
        f"Table '{table.summary}' declares persistable metadata columns",
        position,
        hint=f"its connector writes none; {hint}",
    )


def _is_castable(source: LogicalType, target: LogicalType) -> bool:
    """Whether CAST makes one of the other; of the types that keys have.

    Source: Flink `LogicalTypeCasts.supportsExplicitCast`.
    """
    into = target.root
    if into in STRING_ROOTS:
        return True
    if source.root in STRING_ROOTS:
        return into in BINARY_ROOTS | NUMBER_ROOTS | TIMESTAMP_ROOTS | _DAYS | {TypeRoot.BOOLEAN}
    if source.root in INTEGER_BITS:
        return into in NUMBER_ROOTS | {TypeRoot.BOOLEAN}
    if source.root in TIMESTAMP_ROOTS:
        return into in TIMESTAMP_ROOTS | _DAYS
    if source.root in MAP_ROOTS:
        pairs = zip(source.children, target.children, strict=False)
        return into is source.root and all(_is_castable(*pair) for pair in pairs)
    return source.with_nullable(True) == target.with_nullable(True)
