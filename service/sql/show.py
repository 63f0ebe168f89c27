"""What SHOW, DESCRIBE and SET without a key answer: columns with names, and rows of text.

Values of options that look like secrets are masked, as in Flink.

Source: Flink `ShowTablesOperation`, `ShowCreateUtil` and `DescribeTableOperation` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sqlglot.tokens import TokenType

from service.plan.secrets import masked
from service.sql.binder.query import QueryBinder, renamed
from service.sql.catalogue import CATALOGUE, DATABASE, CatalogTable
from service.sql.dialect import tokenize
from service.sql.errors import ValidationError
from service.sql.table_hints import masked_hint
from state.types import format_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.sql.catalogue import Catalogue, Column, View
    from service.sql.errors import Position
    from service.sql.source_text import Fragment
    from service.sql.statements import Describe, Show
    from service.sql.terms import Row
    from state.types import LogicalType

Cell: TypeAlias = str | bool | None
_STRING = "VARCHAR(2147483647)"


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows that a statement answers with."""

    columns: tuple[tuple[str, str], ...]
    """Name and type."""
    rows: tuple[tuple[Cell, ...], ...]


def text_listing(name: str, rows: Iterable[str]) -> Listing:
    """One column of text."""
    return Listing(((name, "STRING"),), tuple((row,) for row in rows))


def show(statement: Show, catalogue: Catalogue) -> Listing:
    """What a SHOW statement answers.

    Raises:
        ValidationError: There is no such table or view.
    """
    match statement.what:
        case "TABLES" | "VIEWS":
            # As in Flink, tables are tables and views.
            names = sorted(
                names[-1]
                for names, entry in catalogue.objects.items()
                if statement.what == "TABLES" or not isinstance(entry, CatalogTable)
            )
            title = statement.what.lower().removesuffix("s")
            return text_listing(f"{title} name", _like(statement, names))
        case "CATALOGS" | "CURRENT CATALOG":
            names = sorted({CATALOGUE, *(names[0] for names in catalogue.objects)})
            is_all = statement.what == "CATALOGS"
            title = "catalog name" if is_all else "current catalog name"
            return text_listing(title, names if is_all else [CATALOGUE])
        case "DATABASES" | "CURRENT DATABASE":
            inside = {names[1] for names in catalogue.objects if names[0] == CATALOGUE}
            is_all = statement.what == "DATABASES"
            title = "database name" if is_all else "current database name"
            return text_listing(title, sorted({DATABASE, *inside}) if is_all else [DATABASE])
        case "COLUMNS":
            listing = _columns(catalogue, statement.names, statement.position)
            wanted = set(_like(statement, [str(row[0]) for row in listing.rows]))
            rows = tuple(row for row in listing.rows if row[0] in wanted)
            return Listing((("field", "STRING"), *listing.columns[1:]), rows)
        case _:
            return _show_create(statement, catalogue)


def describe(statement: Describe, catalogue: Catalogue) -> Listing:
    """The columns of a table or view.

    Raises:
        ValidationError: There is no such table or view.
    """
    return _columns(catalogue, statement.names, statement.position)


def options_listing(options: Mapping[str, str]) -> Listing:
    """The options that are set, by key."""
    rows = tuple((key, masked(key, options[key])) for key in sorted(options))
    return Listing((("key", "STRING"), ("value", "STRING")), rows)


def _columns(catalogue: Catalogue, names: tuple[str, ...], position: Position) -> Listing:
    entry = catalogue.find(names, position)
    if isinstance(entry, CatalogTable):
        rows = [_column_row(column, entry) for column in entry.columns]
        if any(column.comment for column in entry.columns):
            comments = [column.comment for column in entry.columns]
            shown = tuple((*row, note) for row, note in zip(rows, comments, strict=True))
            return Listing((*_COLUMNS, ("comment", "STRING")), shown)
    else:
        row = view_row(entry, catalogue, position)
        rows = [
            (name, _type_text(kind), kind.nullable, None, None, None)
            for name, kind in zip(row.names, row.types, strict=True)
        ]
    return Listing(_COLUMNS, tuple(rows))


_COLUMNS = (
    ("name", "STRING"),
    ("type", "STRING"),
    ("null", "BOOLEAN"),
    ("key", "STRING"),
    ("extras", "STRING"),
    ("watermark", "STRING"),
)


def view_row(view: View, catalogue: Catalogue, position: Position) -> Row:
    """The columns of a view.

    Raises:
        SqlError: What it is made of has changed, so that it means nothing any more.
    """
    return renamed(QueryBinder(catalogue, view.query).bind(), view.column_names, position).row


def _column_row(column: Column, table: CatalogTable) -> tuple[Cell, ...]:
    mark = table.watermark if table.watermark and table.watermark.column == column.name else None
    text = _type_text(column.type) + (" *ROWTIME*" if mark else "")
    key = f"PRI({', '.join(table.primary_key)})" if column.name in table.primary_key else None
    extras = _extras(column) or None
    watermark = mark.expression_sql if mark else None
    return column.name, text, column.type.nullable, key, extras, watermark


def _extras(column: Column) -> str:
    if column.kind == "COMPUTED":
        return f"AS {column.expression_sql}"
    if column.kind == "METADATA":
        source = f" FROM '{_quoted(column.metadata_key)}'" if column.metadata_key else ""
        return f"METADATA{source}{' VIRTUAL' if column.is_virtual else ''}"
    return ""


def _type_text(kind: LogicalType) -> str:
    """The type without NOT NULL, which has a column of its own."""
    text = format_type(kind.with_nullable(True))
    return "STRING" if text == _STRING else text


def _show_create(statement: Show, catalogue: Catalogue) -> Listing:
    entry = catalogue.find(statement.names, statement.position)
    is_table = isinstance(entry, CatalogTable)
    if is_table != (statement.what == "CREATE TABLE"):
        kind = "table" if is_table else "view"
        raise ValidationError(
            f"{'.'.join(statement.names)} is a {kind}",
            statement.position,
            hint=f"SHOW CREATE {kind.upper()}",
        )
    made = create_table_text(entry) if isinstance(entry, CatalogTable) else _view_text(entry)
    return text_listing("result", [made])


def create_table_text(table: CatalogTable, *, is_shown: bool = True) -> str:
    """The statement that declares a table.

    Args:
        table: What it declares.
        is_shown: Whether it is for people: as Flink writes it, with secrets masked. Else it is
            read again, and has expressions as they were written.
    """
    entries = [_declared(column, is_shown=is_shown) for column in table.columns]
    if table.watermark is not None:
        mark = table.watermark
        expression = mark.expression_sql if is_shown else mark.expression_source
        entries.append(f"WATERMARK FOR {_name(mark.column)} AS {expression}")
    if table.primary_key:
        key = ", ".join(map(_name, table.primary_key))
        name = _name(table.primary_key_name)
        entries.append(f"CONSTRAINT {name} PRIMARY KEY ({key}) NOT ENFORCED")
    kind = "TEMPORARY TABLE" if table.is_temporary else "TABLE"
    text = f"CREATE {kind} {table.identifier} (\n  " + ",\n  ".join(entries) + "\n)"
    if table.comment:
        text += f"\nCOMMENT '{_quoted(table.comment)}'"
    if table.partition_keys:
        text += f"\nPARTITIONED BY ({', '.join(map(_name, table.partition_keys))})"
    if table.options:
        shown = [
            f"'{_quoted(key)}' = '{_quoted(masked(key, value) if is_shown else value)}'"
            for key, value in table.options.items()
        ]
        text += "\nWITH (\n  " + ",\n  ".join(shown) + "\n)"
    return f"{text}\n"


def _declared(column: Column, *, is_shown: bool) -> str:
    text = _name(column.name)
    if column.kind == "COMPUTED":
        text += f" {_extras(column)}" if is_shown else f" AS {column.expression_source}"
    else:
        # The type says NOT NULL itself.
        text += f" {format_type(column.type)}"
        text += f" {_extras(column)}" if column.kind == "METADATA" else ""
    return text + (f" COMMENT '{_quoted(column.comment)}'" if column.comment else "")


def _view_text(view: View) -> str:
    kind = "TEMPORARY VIEW" if view.is_temporary else "VIEW"
    columns = f" ({', '.join(map(_name, view.column_names))})" if view.column_names else ""
    name = ".".join(map(_name, view.names))
    return f"CREATE {kind} {name}{columns} AS {_query_text(view.query)}"


def _query_text(query: Fragment) -> str:
    text, at = "", 0
    for token in tokenize(query):
        if token.token_type is TokenType.HINT:
            hint = query.part(token.start, token.end + 1)
            text += query.text[at : token.start] + masked_hint(hint)
            at = token.end + 1
    return (text + query.text[at:]).strip()


def _name(text: str) -> str:
    return "`" + text.replace("`", "``") + "`"


def _quoted(text: str | None) -> str:
    return (text or "").replace("'", "''")


def _like(statement: Show, names: list[str]) -> list[str]:
    if statement.pattern is None:
        return names
    pattern = statement.pattern
    return [each for each in names if is_like(each, pattern) != statement.is_negated]


def is_like(text: str, pattern: str) -> bool:
    r"""Whether a text fits a LIKE pattern; a backslash takes `%` and `_` as they are.

    Without a regular expression, whose time a pattern of many `%` could blow up.

    >>> is_like("orders", "o%s"), is_like("orders", "order_"), is_like("a_b", r"a\_b")
    (True, True, True)
    """
    tokens = _pattern_tokens(pattern)
    at, place, star, resume = 0, 0, -1, 0
    while at < len(text):
        if place < len(tokens) and tokens[place] in (text[at], None):
            at, place = at + 1, place + 1
        elif place < len(tokens) and tokens[place] == "":
            star, resume, place = place, at, place + 1
        elif star >= 0:
            resume += 1
            at, place = resume, star + 1
        else:
            return False
    return all(each == "" for each in tokens[place:])


def _pattern_tokens(pattern: str) -> list[str | None]:
    """A character for itself, None for any one, an empty text for any number."""
    found: list[str | None] = []
    characters = iter(pattern)
    for each in characters:
        if each == "\\":
            found.append(next(characters, "\\"))
        else:
            found.append({"%": "", "_": None}.get(each, each))
    return found
