"""Tables as a plan holds them: identifier, schema, options.

Source: Flink `ContextResolvedTableJsonSerializer` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.sql.terms import Row
from service.sql.to_json import rex_to_json, row_to_json, type_to_json
from service.sql.types import rowtime_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.sql.catalogue import CatalogTable, Column, Watermark


def table_to_json(table: CatalogTable, catalog_objects: str) -> dict[str, Any]:
    """A table, with as much as `table.plan.compile.catalog-objects` says.

    A temporary table whose options a hint changed is described, too: Flink forgets the hint.
    """
    value: dict[str, Any] = {"identifier": table.identifier}
    if (table.is_temporary and not table.hint) or catalog_objects == "IDENTIFIER":
        return value
    resolved: dict[str, Any] = {"schema": _schema(table)}
    if table.partition_keys:
        resolved["partitionKeys"] = list(table.partition_keys)
    if catalog_objects == "ALL":
        if table.comment:
            resolved["comment"] = table.comment
        resolved["options"] = dict(sorted(table.options.items()))
    return value | {"resolvedTable": resolved}


def abilities_to_json(table: CatalogTable, row: Row) -> dict[str, Any]:
    """What the source of a table takes over: to read the metadata that is declared, if any is."""
    return _metadata_ability(table.scanned, row, "ReadingMetadata", "producedType")


def sink_abilities_to_json(table: CatalogTable) -> dict[str, Any]:
    """What the sink of a table takes over: to write the metadata that is declared, if any is."""
    columns = table.written
    row = Row(tuple(each.name for each in columns), tuple(each.type for each in columns))
    return _metadata_ability(columns, row, "WritingMetadata", "consumedType")


def _metadata_ability(
    columns: Sequence[Column], row: Row, name: str, row_name: str
) -> dict[str, Any]:
    keys = [column.metadata_key for column in columns if column.kind == "METADATA"]
    if not keys:
        return {}
    row_type = row_to_json(row, nullable=False)
    return {"abilities": [{"type": name, "metadataKeys": keys, row_name: row_type}]}


def _schema(table: CatalogTable) -> dict[str, Any]:
    rowtime = table.watermark.column if table.watermark is not None else None
    schema: dict[str, Any] = {"columns": [_column(each, rowtime) for each in table.columns]}
    if table.watermark is not None:
        schema["watermarkSpecs"] = [_watermark(table.watermark)]
    if table.primary_key:
        schema["primaryKey"] = {
            "name": table.primary_key_name,
            "type": "PRIMARY_KEY",
            "columns": list(table.primary_key),
        }
    return schema


def _column(column: Column, rowtime: str | None) -> dict[str, Any]:
    value: dict[str, Any] = {"name": column.name}
    logical = rowtime_type(column.type) if column.name == rowtime else column.type
    if column.kind == "COMPUTED":
        assert column.expression is not None, "a computed column has an expression"
        value |= {
            "kind": "COMPUTED",
            "expression": {
                "rexNode": rex_to_json(column.expression),
                "serializableString": column.expression_sql,
            },
        }
    elif column.kind == "METADATA":
        value |= {"kind": "METADATA", "dataType": type_to_json(logical)}
        if column.metadata_key is not None:
            value["metadataKey"] = column.metadata_key
        value["isVirtual"] = column.is_virtual
    else:
        value["dataType"] = type_to_json(logical)
    return value | ({"comment": column.comment} if column.comment else {})


def _watermark(watermark: Watermark) -> dict[str, Any]:
    return {
        "rowtimeAttribute": watermark.column,
        "expression": {
            "rexNode": rex_to_json(watermark.expression),
            "serializableString": watermark.expression_sql,
        },
    }
