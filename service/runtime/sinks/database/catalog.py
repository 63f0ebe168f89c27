"""What SQLAlchemy's inspector does not tell: how texts are compared, and what a key puts off.

Two rows have the same key with us only if every character is the same. Where a database holds more
to be the same, an upsert of one key would replace the row of another one.

    PostgreSQL   collations that are not deterministic, on the column or on a unique index; citext;
                 name keeps 63 bytes of a text
    MySQL        all collations but those that end in _bin
    SQLite       NOCASE, RTRIM, and collations of a program, on the column or on its unique index
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Collection

    from service.runtime.sinks.database.options import Dialect

_OF_POSTGRESQL = sa.text(
    """
    SELECT t.typname AS type, c.collname AS collation, c.collisdeterministic AS tells_apart
      FROM pg_catalog.pg_attribute a
      JOIN pg_catalog.pg_class r ON r.oid = a.attrelid
      JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
      JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
      LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
     WHERE n.nspname = :schema AND r.relname = :table AND a.attname = :column
    """
)
# ON CONFLICT finds an index by its columns, whatever its collation is.
_OF_POSTGRESQL_INDEX = sa.text(
    """
    SELECT c.collname
      FROM pg_catalog.pg_index i
      JOIN pg_catalog.pg_class r ON r.oid = i.indrelid
      JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
     CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indcollation::oid[]) AS k(number, rule)
      JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum = k.number
      JOIN pg_catalog.pg_collation c ON c.oid = k.rule
     WHERE n.nspname = :schema AND r.relname = :table AND a.attname = :column
       AND i.indisunique AND NOT c.collisdeterministic
    """
)
_DEFERRABLE = sa.text(
    """
    SELECT k.conname
      FROM pg_catalog.pg_constraint k
      JOIN pg_catalog.pg_class r ON r.oid = k.conrelid
      JOIN pg_catalog.pg_namespace n ON n.oid = r.relnamespace
     WHERE n.nspname = :schema AND r.relname = :table AND k.condeferrable
    """
)
_OF_MYSQL = sa.text(
    """
    SELECT collation_name FROM information_schema.columns
     WHERE table_schema = :schema AND table_name = :table AND column_name = :column
    """
)
_OF_SQLITE_INDEX = sa.text(
    """
    SELECT x.name AS "column", x.coll AS collation, i.name AS "index"
      FROM pragma_index_list(:table) i, pragma_index_xinfo(i.name) x
     WHERE i."unique" AND x.key
    """
)
_OF_SQLITE_TABLE = sa.text(
    "SELECT sql FROM sqlite_master WHERE type = 'table' AND lower(name) = lower(:table)"
)
_SILENT = re.compile(r"\bON\s+CONFLICT\s+(REPLACE|IGNORE)\b", re.IGNORECASE)
_PAIRS = (("a", "A"), ("a", "a "))
"""Texts that NOCASE, and RTRIM, hold to be the same."""


def cuts_off(connection: sa.Connection, schema: str, table: str, column: str) -> bool:
    """Whether a text column of PostgreSQL is of type name, which keeps the beginning of a text."""
    found = connection.execute(
        _OF_POSTGRESQL, {"schema": schema, "table": table, "column": column}
    ).one()
    return str(found.type) == "name"


def confuses(
    connection: sa.Connection, dialect: Dialect, schema: str, table: str, column: str
) -> str:
    """What makes a text column take different texts for the same; empty if nothing does."""
    at = {"schema": schema, "table": table, "column": column}
    if dialect == "mysql":
        collation = str(connection.execute(_OF_MYSQL, at).scalar_one())
        return "" if collation.endswith("_bin") else f"collation {collation}"
    if dialect == "sqlite":
        return _confuses_in_sqlite(connection, table, column)
    found = connection.execute(_OF_POSTGRESQL, at).one()
    if found.type == "citext":
        return "type citext"
    if found.tells_apart is False:
        return f"collation {found.collation}"
    of_index = connection.execute(_OF_POSTGRESQL_INDEX, at).scalars().first()
    return "" if of_index is None else f"collation {of_index}"


def _confuses_in_sqlite(connection: sa.Connection, table: str, column: str) -> str:
    # It tells the collations of indexes; of a column, only how it compares.
    named = sa.table(table, sa.column(column)).c[column]
    for left, right in _PAIRS:
        both = sa.select(named).where(sa.false()).union_all(sa.select(sa.literal(left)))
        held = both.subquery()
        if connection.execute(sa.select(held).where(held.c[column] == right)).first():
            return "a collation"
    for row in connection.execute(_OF_SQLITE_INDEX, {"table": table}):
        if row.column == column and row.collation.upper() != "BINARY":
            return f"collation {row.collation}"
    return ""


def deferrable_constraints(connection: sa.Connection, schema: str, table: str) -> Collection[str]:
    """Names of a PostgreSQL table's constraints that may wait for a transaction's end.

    No upsert can go by them.
    """
    return set(connection.execute(_DEFERRABLE, {"schema": schema, "table": table}).scalars())


def resolves_conflicts(connection: sa.Connection, table: str) -> str:
    """What an SQLite table does with rows that break a constraint, if it is not an error.

    A view has none.
    """
    statement = connection.execute(_OF_SQLITE_TABLE, {"table": table}).scalar_one_or_none()
    found = _SILENT.search(str(statement))
    return f"ON CONFLICT {found[1].upper()}" if found else ""
