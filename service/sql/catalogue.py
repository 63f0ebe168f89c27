"""Tables and views by name, as DDL declared them, and the options that SET changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from service.plan.metadata import readable_metadata, writable_metadata
from service.sql.errors import ValidationError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.plan.rex import Rex
    from service.sql.errors import Position
    from service.sql.source_text import Fragment
    from state.types import LogicalType

CATALOGUE, DATABASE = "default_catalog", "default_database"
COLUMNS_MAX = 10_000
"""Columns of a table, and of a query."""
ColumnKind = Literal["PHYSICAL", "COMPUTED", "METADATA"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    name: str
    type: LogicalType
    kind: ColumnKind = "PHYSICAL"
    comment: str | None = None
    expression: Rex | None = None
    """Of a computed column, over the columns that are not computed."""
    expression_sql: str = ""
    """As Flink writes it, which is not always read as the same again."""
    expression_source: str = ""
    """As the statement wrote it."""
    metadata_key: str | None = None
    is_virtual: bool = False

    @property
    def is_persisted(self) -> bool:
        """Whether a sink writes it."""
        return self.kind == "PHYSICAL" or (self.kind == "METADATA" and not self.is_virtual)

    @property
    def read_key(self) -> str:
        """The key of a metadata column: its own name, unless another one is given."""
        return self.name if self.metadata_key is None else self.metadata_key


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far event time has come, by a column of the table."""

    column: str
    expression: Rex
    """Over all columns of the table."""
    expression_sql: str
    expression_source: str
    """Both as of a column."""


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table that DDL declared."""

    names: tuple[str, str, str]
    """Catalogue, database, table."""
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    primary_key_name: str
    watermark: Watermark | None
    options: Mapping[str, str] = field(hash=False)
    is_temporary: bool = False
    comment: str = ""
    partition_keys: tuple[str, ...] = ()
    hint: str = ""
    """Of one reference to the table whose options a hint changed: what a plan tells of it."""

    @property
    def identifier(self) -> str:
        """As a plan writes it."""
        return ".".join("`" + name.replace("`", "``") + "`" for name in self.names)

    @property
    def summary(self) -> str:
        """As messages write it."""
        return ".".join(self.names)

    @property
    def scanned(self) -> tuple[Column, ...]:
        """The columns that a source gives: physical ones, then metadata.

        Metadata comes in the order of the connector's keys and with their types; a column of a key
        that the connector does not have is none.
        """
        declared = [column for column in self.columns if column.kind == "METADATA"]
        return self._with_metadata(declared, readable_metadata(self.options.get("connector", "")))

    @property
    def persisted(self) -> tuple[Column, ...]:
        """The columns that a statement may write, in their order."""
        return tuple(column for column in self.columns if column.is_persisted)

    @property
    def written(self) -> tuple[Column, ...]:
        """The columns that a sink takes: physical ones, then metadata, as its keys say."""
        told = [column for column in self.persisted if column.kind == "METADATA"]
        return self._with_metadata(told, writable_metadata(self.options.get("connector", "")))

    def _with_metadata(
        self, declared: Sequence[Column], known: Mapping[str, LogicalType]
    ) -> tuple[Column, ...]:
        physical = (column for column in self.columns if column.kind == "PHYSICAL")
        by_key = {each.read_key: each for each in declared}
        told = (
            replace(by_key[key], type=kind, metadata_key=key)
            for key, kind in known.items()
            if key in by_key
        )
        return (*physical, *told)


@dataclass(frozen=True, slots=True)
class View:
    """A query by name; it is bound anew wherever it is used."""

    names: tuple[str, str, str]
    query: Fragment
    column_names: tuple[str, ...] = ()
    is_temporary: bool = False


@dataclass(slots=True)
class Catalogue:
    """What a session knows."""

    objects: dict[tuple[str, str, str], CatalogTable | View] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)

    def qualify(self, parts: tuple[str, ...]) -> tuple[str, str, str]:
        """The full name of a name of one to three parts."""
        catalogue, database, name = (CATALOGUE, DATABASE, *parts)[-3:] if len(parts) < 3 else parts
        return catalogue, database, name

    def add(
        self, entry: CatalogTable | View, position: Position | None, *, if_absent: bool = False
    ) -> None:
        """Add a table or view.

        Raises:
            ValidationError: There is one of this name.
        """
        if entry.names in self.objects:
            if if_absent:
                return
            raise ValidationError(
                f"a table or view {'.'.join(entry.names)} exists already", position
            )
        self.objects[entry.names] = entry

    def find(self, parts: tuple[str, ...], position: Position | None) -> CatalogTable | View:
        """The table or view of a name.

        Raises:
            ValidationError: There is none.
        """
        found = self.objects.get(self.qualify(parts))
        if found is None:
            known = [names[-1] for names in self.objects]
            raise ValidationError(
                f"Object '{'.'.join(parts)}' not found", position, hint=nearest(parts[-1], known)
            )
        return found
