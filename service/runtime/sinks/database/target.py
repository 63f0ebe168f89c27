"""One table of a database: found and checked when a run starts, and the statements that change it.

Upserts are the dialect's own (ON CONFLICT, ON DUPLICATE KEY UPDATE), by the primary key that the
plan declares, for which the table must have a primary key or unique index of exactly its columns.
MySQL would take a row for the same one by any other unique key, too, and by letters that its
collation holds to be equal: such tables are refused.

SQLAlchemy makes each statement from the names of columns, so nothing in them is text of a user.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import mysql, postgresql, sqlite

from service.runtime.dataflow_errors import InvalidTableOption
from service.runtime.sinks.database.catalog import (
    confuses,
    cuts_off,
    deferrable_constraints,
    resolves_conflicts,
)
from service.runtime.sinks.database.columns import bound_type, keeps
from service.runtime.sinks.database.options import table_of
from state.types import STRING_ROOTS, format_type, parse_type

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy.sql.dml import Delete, Insert

    from service.runtime.sinks.database.options import Dialect
    from service.runtime.sinks.spec import SinkSpec
    from state.types import LogicalType

_TELLS_APART: Mapping[Dialect, str] = {
    "postgresql": "give columns of the key type text with a deterministic collation",
    "mysql": "give columns of the key a collation that ends in _bin",
    "sqlite": "give columns of the key and their unique index no collation",
}
_KEY = "key_{}"
_COLUMN = "column_{}"


@dataclass(frozen=True, slots=True)
class Target:
    """A sink's table, as statements know it: parameters are `column_<n>`, of deletes `key_<n>`."""

    spec: SinkSpec
    dialect: Dialect
    schema: str
    table: str
    types: tuple[LogicalType, ...]

    @classmethod
    def of(cls, spec: SinkSpec, dialect: Dialect, default_schema: str) -> Target:
        """The table that a sink's options name."""
        schema, table = table_of(spec.options)
        types = tuple(parse_type(each) for each in spec.types)
        return cls(spec, dialect, schema or default_schema, table, types)

    @property
    def full_name(self) -> str:
        """With its schema, for messages and the fence."""
        return f"{self.schema}.{self.table}" if self.schema else self.table

    @property
    def is_upsert(self) -> bool:
        """Whether rows are written by key."""
        return self.spec.mode == "upsert"

    def put(self) -> Insert:
        """The statement that brings a row: an upsert by key, or an insert."""
        table = self._table()
        if not self.is_upsert:
            return sa.insert(table)
        key = [table.columns[_COLUMN.format(each)] for each in self.spec.primary_key]
        others = [each for each in table.columns if each not in set(key)]
        if self.dialect == "mysql":
            made = mysql.insert(table)
            # A row that is nothing but its key stays as it is.
            changed = {each.key: made.inserted[each.key] for each in others or key}
            return made.on_duplicate_key_update(changed)
        insert = postgresql.insert if self.dialect == "postgresql" else sqlite.insert
        put = insert(table)
        if not others:
            return put.on_conflict_do_nothing(index_elements=key)
        return put.on_conflict_do_update(
            index_elements=key, set_={each: put.excluded[each.key] for each in others}
        )

    def remove(self) -> Delete:
        """The statement that takes the row of a key away."""
        table = self._table()
        return sa.delete(table).where(
            *(
                table.columns[_COLUMN.format(each)] == sa.bindparam(_KEY.format(each))
                for each in self.spec.primary_key
            )
        )

    def check(self, inspector: sa.Inspector) -> None:
        """See that the table is there, and takes what will be written.

        Raises:
            InvalidTableOption: It is not, or does not.
            SQLAlchemyError: The database does not tell.
        """
        try:
            self._check(inspector)
        except exc.NoSuchTableError:
            # Of SQLite some of what is asked finds a name in any case, and some does not.
            raise InvalidTableOption(
                f"the database has no table {self.full_name}", hint="tables are not made here"
            ) from None

    def _check(self, inspector: sa.Inspector) -> None:
        columns = {
            each["name"]: each for each in inspector.get_columns(self.table, self.schema or None)
        }
        for name, logical in zip(self.spec.names, self.types, strict=True):
            self._check_column(name, logical, columns)
        for name, column in columns.items():
            if name not in self.spec.names and _needs_a_value(column):
                raise InvalidTableOption(
                    f'column "{name}" of table {self.full_name} needs a value, and sink '
                    f"{self.spec.table} has no such column"
                )
        if self.is_upsert:
            self._check_key(inspector)
        if self.dialect == "mysql":
            self._check_mysql(inspector, columns)
        with inspector.engine.connect() as connection:
            self._check_texts(connection)
            if self.dialect == "sqlite" and (clause := resolves_conflicts(connection, self.table)):
                raise InvalidTableOption(
                    f"table {self.full_name} says {clause}, by which it would lose rows in silence"
                )

    def _table(self) -> sa.Table:
        columns = (
            sa.Column(name, bound_type(each, self.dialect), key=_COLUMN.format(at))
            for at, (name, each) in enumerate(zip(self.spec.names, self.types, strict=True))
        )
        return sa.Table(self.table, sa.MetaData(), *columns, schema=self.schema or None)

    def _check_column(self, name: str, logical: LogicalType, columns: Mapping[str, Any]) -> None:
        if name not in columns:
            near = get_close_matches(name, list(columns), 1)
            raise InvalidTableOption(
                f'table {self.full_name} has no column "{name}"',
                hint=f'did you mean "{near[0]}"?' if near else "",
            )
        column = columns[name]
        if column.get("computed") or (column.get("identity") or {}).get("always"):
            raise InvalidTableOption(
                f'column "{name}" of table {self.full_name} is computed by the database'
            )
        if logical.nullable and self._makes_values(column, columns):
            raise InvalidTableOption(
                f'column "{name}" of table {self.full_name} makes a value of its own of NULL, and '
                f"sink {self.spec.table} may have NULL there",
                hint="declare the sink's column NOT NULL",
            )
        if not keeps(logical, column["type"], self.dialect):
            raise InvalidTableOption(
                f'column "{name}" of table {self.full_name} is {_type_text(column["type"])}, which '
                f"does not keep every {format_type(logical.with_nullable(True))} as it is",
                hint="docs/connectors.md lists the types that do",
            )

    def _check_texts(self, connection: sa.Connection) -> None:
        """See that texts are kept whole, and told apart in keys."""
        at = (self.schema, self.table)
        texts = [n for n, each in enumerate(self.types) if each.root in STRING_ROOTS]
        for number in texts:
            name = self.spec.names[number]
            if self.dialect == "postgresql" and cuts_off(connection, *at, name):
                raise InvalidTableOption(
                    f'column "{name}" of table {self.full_name} is NAME, which keeps 63 bytes of a '
                    "text in silence"
                )
            if not self.is_upsert or number not in self.spec.primary_key:
                continue
            if what := confuses(connection, self.dialect, *at, name):
                raise InvalidTableOption(
                    f'column "{name}" of table {self.full_name} has {what}, by which different '
                    "keys are the same",
                    hint=_TELLS_APART[self.dialect],
                )

    def _makes_values(self, column: Mapping[str, Any], columns: Mapping[str, Any]) -> bool:
        """Whether NULL is stored as a number, or a time, that the database makes."""
        if self.dialect == "sqlite":
            key = [each for each in columns.values() if each.get("primary_key")]
            return key == [column] and str(column["type"]).upper() == "INTEGER"
        is_now = isinstance(column["type"], mysql.TIMESTAMP) and not column["nullable"]
        return column.get("autoincrement") is True or (self.dialect == "mysql" and is_now)

    def _check_key(self, inspector: sa.Inspector) -> None:
        key = self._key_names()
        if key not in self._unique(inspector):
            listed = ", ".join(self.spec.names[each] for each in self.spec.primary_key)
            raise InvalidTableOption(
                f"table {self.full_name} has no primary key or unique index of ({listed}), which "
                f"is the primary key of sink {self.spec.table}"
            )

    def _key_names(self) -> frozenset[str]:
        return frozenset(self.spec.names[each] for each in self.spec.primary_key)

    def _unique(self, inspector: sa.Inspector) -> set[frozenset[str]]:
        """The sets of columns of which no two rows may have the same."""
        at = (self.table, self.schema or None)
        later: Collection[str] = ()
        if self.dialect == "postgresql":
            with inspector.engine.connect() as connection:
                later = deferrable_constraints(connection, self.schema, self.table)
        primary = inspector.get_pk_constraint(*at)
        found = {frozenset(() if primary["name"] in later else primary["constrained_columns"])}
        found |= {
            frozenset(each["column_names"])
            for each in inspector.get_unique_constraints(*at)
            if each["name"] not in later
        }
        for index in inspector.get_indexes(*at):
            if index["name"] in later:
                continue
            options = index.get("dialect_options", {})
            # Of some rows only, of the beginnings of texts only, or with an expression (None).
            is_partial = any(name.endswith(("_where", "_length")) for name in options)
            names = [each for each in index["column_names"] if each is not None]
            if index["unique"] and not is_partial and len(names) == len(index["column_names"]):
                found.add(frozenset(names))
        return found - {frozenset()}

    def _check_mysql(self, inspector: sa.Inspector, columns: Mapping[str, Any]) -> None:
        options = inspector.get_table_options(self.table, self.schema or None)
        if str(options.get("mysql_engine", options.get("mariadb_engine", ""))).lower() != "innodb":
            raise InvalidTableOption(
                f"table {self.full_name} is not of InnoDB, and takes no part in transactions"
            )
        if not self.is_upsert:
            return
        if odd := next((each for each in self.spec.names if "%" in each), ""):
            # SQLAlchemy doubles the sign twice in ON DUPLICATE KEY UPDATE.
            raise InvalidTableOption(
                f'column "{odd}" has a % in its name, which no upsert can hold'
            )
        key = self._key_names()
        for other in self._unique(inspector) - {key}:
            if other & set(self.spec.names):
                raise InvalidTableOption(
                    f"table {self.full_name} has a second unique key ({', '.join(sorted(other))}), "
                    "by which MySQL would replace rows of other keys"
                )
        for at in self.spec.primary_key:
            name = self.spec.names[at]
            if isinstance(columns[name]["type"], mysql.FLOAT):
                raise InvalidTableOption(
                    f'column "{name}" of table {self.full_name} is FLOAT, which MySQL finds no '
                    "row by"
                )


def _needs_a_value(column: Mapping[str, Any]) -> bool:
    """Whether a row without the column is refused."""
    has_own = column.get("computed") or column.get("identity") or column.get("default") is not None
    return not (column["nullable"] or has_own or column.get("autoincrement") is True)


def _type_text(column: object) -> str:
    """A type as the database has it; some have no text."""
    try:
        return str(column)
    except exc.CompileError:
        return type(column).__name__
