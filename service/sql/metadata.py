"""Metadata columns of tables: what their connectors tell, and what a declaration makes of it.

Source: Flink `DynamicSourceUtils` and `DynamicSinkUtils.validateAndApplyMetadata` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.metadata import (
    readable_metadata,
    why_not_read,
    why_not_written,
    writable_metadata,
)
from service.sql.errors import ValidationError
from service.sql.type_names import summary
from state.types import (
    BINARY_ROOTS,
    INTEGER_BITS,
    MAP_ROOTS,
    NUMBER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    TypeRoot,
)

if TYPE_CHECKING:
    from service.sql.catalogue import CatalogTable, Column
    from service.sql.errors import Position
    from state.types import LogicalType

_DAYS = frozenset({TypeRoot.DATE, TypeRoot.TIME})


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
            raise _wrong_type(table, column, "from", known[key], position)


def read_metadata(table: CatalogTable) -> tuple[str, ...]:
    """What explanations say beside a table's name of the metadata that is read: `metadata=[..]`."""
    keys = [column.read_key for column in table.scanned if column.kind == "METADATA"]
    return (f"metadata=[{', '.join(keys)}]",) if keys else ()


def check_written(table: CatalogTable, position: Position) -> None:
    """See that the sink of a table takes the metadata that is declared, unless it is VIRTUAL.

    Raises:
        ValidationError: It has no such key, or one of a type that the column is not cast to.
    """
    connector = table.options.get("connector", "")
    known = writable_metadata(connector)
    for column in table.persisted:
        if column.kind != "METADATA":
            continue
        key = column.read_key
        hint = f"{why_not_written(connector, key)}; a column that is only read can be VIRTUAL"
        if not known:
            raise ValidationError(
                f"Table '{table.summary}' declares persistable metadata columns",
                position,
                hint=hint,
            )
        if key not in known:
            raise ValidationError(
                f"Invalid metadata key '{key}' in column '{column.name}' of table "
                f"'{table.summary}'",
                position,
                hint=hint,
            )
        if not _is_castable(column.type, known[key]):
            raise _wrong_type(table, column, "to", known[key], position)


def _wrong_type(
    table: CatalogTable, column: Column, direction: str, wanted: LogicalType, position: Position
) -> ValidationError:
    return ValidationError(
        f"Invalid data type for metadata column '{column.name}' with metadata key "
        f"'{column.read_key}' of table '{table.summary}'. The column cannot be declared as "
        f"'{summary(column.type)}' because the type must be castable {direction} metadata "
        f"type '{summary(wanted)}'.",
        position,
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
    if source.root in _DAYS and into in TIMESTAMP_ROOTS:
        return True
    if source.root in MAP_ROOTS:
        pairs = zip(source.children, target.children, strict=False)
        return into is source.root and all(_is_castable(*pair) for pair in pairs)
    return source.with_nullable(True) == target.with_nullable(True)
