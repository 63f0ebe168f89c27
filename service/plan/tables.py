"""Tables as a plan refers to them: the catalogue's description, written into the plan or not.

A plan holds a table's schema and options (compiled with catalogue objects ALL, Flink's default),
its schema only (SCHEMA), or its name only (IDENTIFIER, and every temporary table). What is missing
comes from a catalogue, if the caller has one; options are merged, the catalogue's win.

Source: Flink `ContextResolvedTableJsonDeserializer` (2.3) with
`table.plan.restore.catalog-objects` = ALL.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from service.plan.errors import SchemaMismatch, UnresolvedTable
from service.plan.properties import JsonObject
from service.plan.rex import parse_rex
from service.plan.type_json import parse_type_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.plan.rex import Rex
    from state.types import LogicalType

_NAME = re.compile(r"`((?:[^`]|``)+)`|([^`.\s]+)")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    kind: Literal["PHYSICAL", "COMPUTED", "METADATA"]
    type: LogicalType | None
    """None for a computed column, whose expression has the type."""
    path: str
    expression: Rex | None = None
    metadata_key: str | None = None
    is_virtual: bool = False

    @property
    def is_persisted(self) -> bool:
        """Whether a sink writes it."""
        return self.kind == "PHYSICAL" or (self.kind == "METADATA" and not self.is_virtual)


@dataclass(frozen=True, slots=True)
class Watermark:
    """The watermark that a table declares."""

    rowtime_attribute: str
    expression: Rex


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table and what is known about them."""

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    """Names of its columns; empty if there is none."""
    watermarks: tuple[Watermark, ...] = ()

    @property
    def physical(self) -> tuple[Column, ...]:
        """The columns that a source's format holds, in order."""
        return tuple(column for column in self.columns if column.kind == "PHYSICAL")

    @property
    def persisted(self) -> tuple[Column, ...]:
        """The columns that a sink's input has, in order."""
        return tuple(column for column in self.columns if column.is_persisted)


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a plan, with all that is needed to read or write it."""

    identifier: str
    """As the plan writes it: `` `catalog`.`database`.`table` ``."""
    names: tuple[str, ...]
    """Catalogue, database, table."""
    schema: Schema
    options: Mapping[str, str]
    path: str
    is_partitioned: bool = False
    """Whether it has partition keys."""

    @property
    def name(self) -> str:
        """The table's own name."""
        return self.names[-1]


def parse_identifier(text: str) -> tuple[str, ...] | None:
    """Catalogue, database and table of an identifier; None if it is none.

    >>> parse_identifier("`c`.`d`.`a``b.c`"), parse_identifier("t")
    (('c', 'd', 'a`b.c'), None)
    """
    names: list[str] = []
    position = 0
    while True:
        found = _NAME.match(text, position)
        if found is None:
            return None
        names.append(found[1].replace("``", "`") if found[1] is not None else found[2])
        position = found.end()
        if position == len(text):
            break
        if text[position] != "." or len(names) == 3:
            return None
        position += 1
    return tuple(names) if len(names) == 3 else None


def parse_table(spec: JsonObject, catalog: Mapping[str, Mapping[str, Any]] | None) -> Table:
    """The table that a scan or sink refers to under `table`.

    Raises:
        UnresolvedTable: The plan has no more than its name, and neither has the catalogue.
        SchemaMismatch: Plan and catalogue describe different tables.
        PlanError: The description is malformed.
    """
    reference = spec.object("table")
    is_named = reference.has("identifier")
    identifier = reference.text("identifier") if is_named else ""
    names = parse_identifier(identifier) if is_named else ("*anonymous*",)
    if names is None:
        raise reference.fail(
            "identifier",
            f"{identifier!r} is not a table identifier",
            "it has a catalogue, a database and a table: `c`.`d`.`t`",
        )
    found = _catalog_table(names, catalog, reference)
    resolved = reference.object("resolvedTable") if reference.has("resolvedTable") else None
    described = resolved or found
    if described is None:
        raise UnresolvedTable(
            f"table {identifier} is not resolved: the plan has only its name",
            hint="register the table, or compile the plan again with "
            "table.plan.compile.catalog-objects = ALL and without temporary tables",
            node_id=spec.node_id,
            path=reference.at("resolvedTable"),
        )
    schema = parse_schema(described.object("schema"))
    if resolved is not None and found is not None:
        _check_same(identifier, resolved, found)
    options = (resolved.texts("options") if resolved else {}) | (
        found.texts("options") if found else {}
    )
    keys = described.list("partitionKeys", is_optional=True)
    return Table(identifier, names, schema, options, reference.path, bool(keys))


def parse_schema(schema: JsonObject) -> Schema:
    """The schema of a table, as a plan writes it."""
    columns = tuple(
        _parse_column(JsonObject.of(entry, path, "a column", schema.node_id))
        for entry, path in schema.items("columns")
    )
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        raise schema.fail("columns", f"the schema has a column twice: {names}")
    watermarks = tuple(
        _parse_watermark(JsonObject.of(entry, path, "a watermark", schema.node_id))
        for entry, path in schema.items("watermarkSpecs", is_optional=True)
    )
    key: tuple[str, ...] = ()
    if schema.has("primaryKey"):
        declared = schema.object("primaryKey")
        key = tuple(str(name) for name in declared.list("columns"))
        if not key:
            raise declared.fail("columns", "a primary key has no columns")
        if not declared.text("name"):
            raise declared.fail("name", "a primary key has no name")
        declared.choice("type", ("PRIMARY_KEY",))
        unknown = set(key) - set(names)
        if unknown:
            raise declared.fail(
                "columns", f"the primary key names columns that do not exist: {sorted(unknown)}"
            )
    return Schema(columns, key, watermarks)


def _parse_column(column: JsonObject) -> Column:
    name = column.text("name")
    if not name.strip():
        raise column.fail("name", "a column has no name")
    kind = column.text("kind") if column.has("kind") else "PHYSICAL"
    if kind == "COMPUTED":
        expression = column.object("expression")
        rex = parse_rex(expression.value.get("rexNode"), expression.at("rexNode"))
        return Column(name, "COMPUTED", None, column.path, expression=rex)
    logical = parse_type_json(column.value.get("dataType"), column.at("dataType"))
    if kind == "METADATA":
        key = column.text("metadataKey") if column.has("metadataKey") else name
        is_virtual = column.flag("isVirtual")
        return Column(
            name, "METADATA", logical, column.path, metadata_key=key, is_virtual=is_virtual
        )
    if kind != "PHYSICAL":
        raise column.fail("kind", f"unknown kind of column {kind!r}")
    return Column(name, "PHYSICAL", logical, column.path)


def _parse_watermark(watermark: JsonObject) -> Watermark:
    expression = watermark.object("expression")
    rex = parse_rex(expression.value.get("rexNode"), expression.at("rexNode"))
    return Watermark(watermark.text("rowtimeAttribute"), rex)


def _catalog_table(
    names: tuple[str, ...],
    catalog: Mapping[str, Mapping[str, Any]] | None,
    reference: JsonObject,
) -> JsonObject | None:
    for identifier, table in (catalog or {}).items():
        if parse_identifier(identifier) == names:
            return JsonObject.of(table, reference.path, "a catalogue's table", reference.node_id)
    return None


def _check_same(identifier: str, planned: JsonObject, found: JsonObject) -> None:
    """Refuse a table whose columns, key or watermarks are not the catalogue's."""
    difference = _difference(
        _comparable(planned.object("schema")), _comparable(found.object("schema"))
    )
    if difference:
        raise SchemaMismatch(
            f"the schema of table {identifier} in the plan is not the catalogue's: {difference}",
            hint="compile the plan again, or register the table as it was",
            node_id=planned.node_id,
            path=planned.at("schema"),
        )


def _comparable(schema: JsonObject) -> dict[str, str]:
    """What makes two schemas one: comments do not count, the name of the key does."""
    parsed = parse_schema(schema)
    described: dict[str, str] = {}
    for entry, column in zip(schema.list("columns"), parsed.columns, strict=True):
        # An expression is known by the SQL text that it was made of.
        text = entry["expression"].get("serializableString") if column.expression else None
        shown = (column.kind, column.type, column.metadata_key, column.is_virtual, text)
        described[f'column "{column.name}"'] = str(shown)
    described["primary key"] = str((schema.value.get("primaryKey") or {}).get("name")) + str(
        parsed.primary_key
    )
    described["watermarks"] = str([mark.rowtime_attribute for mark in parsed.watermarks])
    described["columns"] = str([column.name for column in parsed.columns])
    return described


def _difference(planned: dict[str, str], found: dict[str, str]) -> str:
    for what in (*planned, *found):
        if what not in found:
            return f"{what} is not in the catalogue"
        if what not in planned:
            return f"{what} is not in the plan"
    different = [what for what in planned if planned[what] != found[what]]
    return f"{different[0]} differs" if different else ""
