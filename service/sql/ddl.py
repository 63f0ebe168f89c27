"""CREATE TABLE: columns, computed and metadata ones, WATERMARK, PRIMARY KEY, options, LIKE, AS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from service.sql import types
from service.sql.catalogue import COLUMNS_MAX, CatalogTable, Column, Watermark
from service.sql.dialect import parse_expression
from service.sql.errors import SqlSyntaxError, UnsupportedSql, ValidationError, nearest
from service.sql.expressions import ExpressionBinder
from service.sql.rex import type_of
from service.sql.scope import Scope, Source
from service.sql.sql_text import to_sql
from service.sql.table_as import check_declarable, insert_of, joined, ordered, read_as
from service.sql.table_draft import TableDraft
from service.sql.table_like import merged, read_like
from service.sql.terms import Row
from state.types import TIMESTAMP_ROOTS, TypeParseError, parse_type

if TYPE_CHECKING:
    from service.plan.rex import Rex
    from service.sql.catalogue import Catalogue
    from service.sql.cursor import Cursor
    from service.sql.errors import Position
    from service.sql.source_text import Fragment
    from service.sql.statements import CreateTable, Insert

_TYPE_ENDS = ((",",), ("METADATA",), ("COMMENT",), ("PRIMARY", "KEY"), ("CONSTRAINT",))


@dataclass(frozen=True, slots=True)
class DeclaredTable:
    """What CREATE TABLE says."""

    table: CatalogTable
    insert: Insert | None
    """Of CREATE TABLE .. AS: what fills it."""


def create_table(statement: CreateTable, catalogue: Catalogue) -> DeclaredTable:
    """The table that a statement declares.

    Raises:
        SqlSyntaxError: The statement is malformed.
        ValidationError: A column, type or expression in it means nothing.
        UnsupportedSql: It is DISTRIBUTED, or its query is not supported.
    """
    cursor = statement.body
    draft = TableDraft()
    begin = replace(cursor)
    listed = _names_alone(cursor)
    has_list = not listed and cursor.take("(")
    if has_list:
        _entries(cursor, draft)
    comment = cursor.text() if cursor.take("COMMENT") else ""
    if cursor.looking_at("DISTRIBUTED"):
        raise UnsupportedSql("DISTRIBUTED is not supported", cursor.position())
    if cursor.take("PARTITIONED", "BY"):
        draft.partitions = cursor.name_list()
    if cursor.take("WITH"):
        draft.options = _options(cursor)
    query = read_as(cursor, catalogue, statement)
    like = read_like(cursor, catalogue)
    if query is not None:
        draft = ordered(draft, listed, query) if listed else joined(draft, query)
        _check_count(draft, query.position)
        check_declarable(draft, query)
    elif listed:
        raise cursor.fail("AS")
    elif like is not None:
        draft = merged(draft, like)
        _check_count(draft, like.position)
    elif not has_list:
        raise begin.fail("(")
    if not cursor.is_done:
        raise cursor.fail("the end of the statement")
    columns = _resolved(draft, statement)
    _check_key(columns, draft, statement)
    _check_partitions(draft, statement)
    _check_metadata(columns, statement)
    table = CatalogTable(
        catalogue.qualify(statement.names),
        columns,
        draft.key,
        draft.key_name,
        _watermark(columns, draft, statement),
        draft.options,
        is_temporary=statement.is_temporary,
        comment=comment,
        partition_keys=draft.partitions,
    )
    return DeclaredTable(table, None if query is None else insert_of(table, query))


def _names_alone(cursor: Cursor) -> tuple[str, ...]:
    """A list of names without types, if that is next: it orders the columns of a query."""
    ahead = replace(cursor)
    if ahead.take("(") and not ahead.looking_at("PRIMARY", "KEY"):
        ahead.name()
        if ahead.looking_at(",") or ahead.looking_at(")"):
            return cursor.name_list()
    return ()


def _entries(cursor: Cursor, draft: TableDraft) -> None:
    while True:
        _entry(cursor, draft)
        _check_count(draft, cursor.position())
        if not cursor.take(","):
            break
    cursor.expect(")")


def _check_count(draft: TableDraft, position: Position) -> None:
    if len(draft.columns) > COLUMNS_MAX:
        raise ValidationError(f"a table has at most {COLUMNS_MAX} columns", position)


def _entry(cursor: Cursor, draft: TableDraft) -> None:
    """One entry between the brackets."""
    if cursor.looking_at("WATERMARK", "FOR"):
        cursor.expect("WATERMARK", "FOR")
        column = cursor.name()
        cursor.expect("AS")
        draft.watermark = (column, cursor.until((",",)))
    elif cursor.looking_at("PRIMARY", "KEY") or cursor.looking_at("CONSTRAINT"):
        draft.key_name = cursor.name() if cursor.take("CONSTRAINT") else ""
        cursor.expect("PRIMARY", "KEY")
        draft.key = cursor.name_list()
        cursor.expect("NOT", "ENFORCED")
    else:
        _column(cursor, draft)


def _column(cursor: Cursor, draft: TableDraft) -> None:
    name = cursor.name()
    if name in draft.names:
        raise ValidationError(f"column {name!r} is declared twice", cursor.position())
    if cursor.take("AS"):
        draft.computed[name] = cursor.until((",",), ("COMMENT",))
        column = Column(name, types.STRING, "COMPUTED")
    else:
        column = _typed_column(name, cursor)
    if cursor.take("PRIMARY", "KEY"):
        cursor.expect("NOT", "ENFORCED")
        draft.key = (name,)
    if cursor.take("COMMENT"):
        column = replace(column, comment=cursor.text())
    draft.columns.append(column)
    draft.names.add(name)


def _typed_column(name: str, cursor: Cursor) -> Column:
    fragment = cursor.until(*_TYPE_ENDS, is_type=True)
    try:
        logical = parse_type(fragment.text, is_sql=True)
    except TypeParseError as problem:
        raise ValidationError(
            f"type of column {name!r}: {problem}", fragment.position()
        ) from problem
    if not types.is_known(logical):
        hint = nearest(fragment.text.strip(), types.NAMES)
        raise ValidationError(f"unknown type {fragment.text}", fragment.position(), hint=hint)
    if not cursor.take("METADATA"):
        return Column(name, logical)
    key = cursor.text() if cursor.take("FROM") else None
    is_virtual = cursor.take("VIRTUAL")
    return Column(name, logical, "METADATA", metadata_key=key, is_virtual=is_virtual)


def _options(cursor: Cursor) -> dict[str, str]:
    cursor.expect("(")
    found: dict[str, str] = {}
    while True:
        key = cursor.text()
        cursor.expect("=")
        found[key] = cursor.text()
        if not cursor.take(","):
            break
    cursor.expect(")")
    return found


def _resolved(draft: TableDraft, statement: CreateTable) -> tuple[Column, ...]:
    """The columns, computed ones bound, key columns NOT NULL."""
    plain = [column for column in draft.columns if column.kind != "COMPUTED"]
    row = Row(tuple(column.name for column in plain), tuple(column.type for column in plain))
    scope = Scope((Source(statement.names[-1], row, 0),))
    made = []
    for column in draft.columns:
        fragment = draft.computed.get(column.name)
        if fragment is not None:
            bound, text = bind_fragment(fragment, scope)
            column = replace(
                column,
                type=type_of(bound),
                expression=bound,
                expression_sql=text,
                expression_source=fragment.text,
            )
        if column.name in draft.key and column.kind != "COMPUTED":
            column = replace(column, type=column.type.with_nullable(False))
        made.append(column)
    return tuple(made)


def bind_fragment(fragment: Fragment, scope: Scope) -> tuple[Rex, str]:
    """An expression of a declaration, bound, and as Flink writes it in SQL."""
    tree = parse_expression(fragment)
    return ExpressionBinder(scope, fragment).rex(tree), to_sql(tree)


def _watermark(
    columns: tuple[Column, ...], draft: TableDraft, statement: CreateTable
) -> Watermark | None:
    if draft.watermark is None:
        return None
    name, fragment = draft.watermark
    found = next((column for column in columns if column.name == name), None)
    if found is None:
        known = [column.name for column in columns]
        raise ValidationError(
            f"the watermark names column {name!r}, which the table does not have",
            fragment.position(),
            hint=nearest(name, known),
        )
    if found.type.root not in TIMESTAMP_ROOTS or (found.type.precision or 0) > 3:
        raise ValidationError(
            f"column {name!r} cannot be event time: it must be TIMESTAMP(p) or TIMESTAMP_LTZ(p) "
            "with p at most 3",
            fragment.position(),
        )
    row = Row(tuple(column.name for column in columns), tuple(column.type for column in columns))
    bound, text = bind_fragment(fragment, Scope((Source(statement.names[-1], row, 0),)))
    return Watermark(name, bound, text, fragment.text)


def _check_key(columns: tuple[Column, ...], draft: TableDraft, statement: CreateTable) -> None:
    if not draft.key:
        return
    physical = [column.name for column in columns if column.kind == "PHYSICAL"]
    for name in draft.key:
        if name not in physical:
            raise ValidationError(
                f"the primary key names {name!r}, which is not a physical column of the table",
                statement.position,
                hint=nearest(name, physical),
            )
    if len(set(draft.key)) != len(draft.key):
        raise SqlSyntaxError("the primary key has a column twice", statement.position)
    draft.key_name = draft.key_name or "PK_" + "_".join(draft.key)


def _check_partitions(draft: TableDraft, statement: CreateTable) -> None:
    for name in draft.partitions:
        if name not in draft.names:
            known = ", ".join(f"'{column.name}'" for column in draft.columns)
            raise ValidationError(
                f"Partition column '{name}' not defined in the table schema. Available columns: "
                f"[{known}]",
                statement.position,
                hint=nearest(name, [*draft.names]),
            )


def _check_metadata(columns: tuple[Column, ...], statement: CreateTable) -> None:
    seen: dict[str, str] = {}
    for column in columns:
        if column.kind != "METADATA":
            continue
        first = seen.setdefault(column.read_key, column.name)
        if first != column.name:
            raise ValidationError(
                f"The column `{first}` and `{column.name}` in the table are both from the same "
                f"metadata key '{column.read_key}'. Please specify one of the columns as the "
                "metadata column and use the computed column syntax to specify the others.",
                statement.position,
            )
