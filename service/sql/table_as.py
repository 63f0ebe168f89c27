"""CREATE TABLE .. AS: a table with the columns of a query, and the INSERT that fills it.

    CREATE TABLE name [(column, ..) | (entry, ..)] [COMMENT ..] [PARTITIONED BY ..] WITH (..)
    AS query

A list of names alone puts the query's columns into another order. Entries are those of any table:
a column that the query has, too, keeps its place and has the declared type; others come first.

Source: Flink `MergeTableAsUtil` (2.3), messages included.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from service.sql import types
from service.sql.binder.query import QueryBinder
from service.sql.catalogue import Column
from service.sql.errors import UnsupportedSql, ValidationError, nearest
from service.sql.statements import Insert
from service.sql.type_names import summary
from state.types import TypeParseError, format_type, parse_type

if TYPE_CHECKING:
    from service.sql.catalogue import CatalogTable, Catalogue
    from service.sql.cursor import Cursor
    from service.sql.errors import Position
    from service.sql.source_text import Fragment
    from service.sql.statements import CreateTable
    from service.sql.table_draft import TableDraft
    from service.sql.terms import Row
    from state.types import LogicalType


@dataclass(frozen=True, slots=True)
class TableQuery:
    """An AS clause."""

    text: Fragment
    position: Position
    row: Row
    """What the query gives."""


def read_as(cursor: Cursor, catalogue: Catalogue, statement: CreateTable) -> TableQuery | None:
    """The clause that is next, if one is.

    Raises:
        SqlError: The query means nothing, or the table is temporary.
    """
    if not cursor.take("AS"):
        return None
    if statement.is_temporary:
        raise ValidationError(
            "CREATE TABLE AS SELECT syntax does not support to create temporary table yet.",
            statement.position,
        )
    position = cursor.position()
    text = cursor.rest()
    return TableQuery(text, position, QueryBinder(catalogue, text).bind().row)


def ordered(own: TableDraft, names: tuple[str, ...], query: TableQuery) -> TableDraft:
    """The table with the query's columns in the order of a list of names.

    Raises:
        ValidationError: The list has other columns than the query.
    """
    given = _columns(query)
    if len(names) != len(given):
        raise ValidationError(
            "The number of columns in the column list must match the number of columns in the "
            "source schema.",
            query.position,
        )
    if len({*names}) < len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        raise ValidationError(f"column {twice!r} is named twice", query.position)
    for name in names:
        if name not in given:
            raise ValidationError(
                f"Column '{name}' not found in the source schema.",
                query.position,
                hint=nearest(name, [*given]),
            )
    return replace(own, columns=[given[name] for name in names], names={*names})


def joined(own: TableDraft, query: TableQuery) -> TableDraft:
    """What a table declares itself, then the columns of its query.

    Raises:
        ValidationError: A column of the query may not be what is declared, or not part of a key.
    """
    given = _columns(query)
    types_given = dict(zip(query.row.names, query.row.types, strict=True))
    for name in own.key:
        if name in given and name not in own.names and given[name].type.nullable:
            key_name = own.key_name or "PK_" + "_".join(own.key)
            raise ValidationError(
                f"Invalid primary key '{key_name}'. Column '{name}' is nullable.", query.position
            )
    first = {}
    for at, column in enumerate(own.columns):
        if column.name in given:
            replaced = types_given[column.name]
            _require_replaceable(replaced, _with_key(column, own), at, query.position)
            given[column.name] = column
        else:
            first[column.name] = column
    columns = {**first, **given}
    return replace(own, columns=[*columns.values()], names={*columns})


def check_declarable(draft: TableDraft, query: TableQuery) -> None:
    """See that the table can be declared as a text, too: that is how a session keeps it.

    Raises:
        UnsupportedSql: A column has the type of '', of which none can be declared.
    """
    for column in draft.columns:
        text = format_type(column.type)
        try:
            parse_type(text, is_sql=True)
        except TypeParseError:
            raise UnsupportedSql(
                f"column '{column.name}' of type {text} cannot be declared",
                query.position,
                hint="a CAST to STRING gives '' another type",
            ) from None


def insert_of(table: CatalogTable, query: TableQuery) -> Insert:
    """The INSERT that fills a table."""
    names = query.row.names
    is_same = names == tuple(column.name for column in table.persisted)
    columns = () if is_same else names
    return Insert(table.names, None, columns, query.text, None, position=query.position)


def _columns(query: TableQuery) -> dict[str, Column]:
    row = query.row
    return {
        name: Column(name, types.regular(kind))
        for name, kind in zip(row.names, row.types, strict=True)
    }


def _with_key(column: Column, own: TableDraft) -> Column:
    """A column with the type that it will have: those of the key are NOT NULL."""
    if column.name not in own.key:
        return column
    return replace(column, type=column.type.with_nullable(False))


def _require_replaceable(given: LogicalType, column: Column, at: int, position: Position) -> None:
    """See that a declared column may stand in the place of the query's, which has such a type."""
    refused = f"A column named '{column.name}' already exists in the source schema."
    if column.kind == "COMPUTED":
        raise ValidationError(
            f"{refused} Computed columns cannot overwrite columns from source.", position
        )
    loses_nulls = given.nullable and not column.type.nullable
    if loses_nulls or not types.can_cast_implicitly(given, column.type):
        raise ValidationError(
            f"Incompatible types for sink column '{column.name}' at position {at + 1}. The source "
            f"column has type '{summary(given)}', while the target column has type "
            f"'{summary(column.type)}'.",
            position,
        )
    if column.is_virtual:
        raise ValidationError(
            f"{refused} Virtual metadata columns cannot overwrite columns from source.",
            position,
        )
