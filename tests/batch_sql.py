"""What SQL in batch gives of tables: DuckDB, as the judge of definitions and of queries."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from operators.changelog import Row

PLACE = "n"
"""The column behind those of a table: the place of a row, from 0."""
_TYPES = {
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "VARCHAR": pa.string(),
}


def batch_sql(query: str, *arguments: object, **tables: tuple[str, Iterable[Row]]) -> list[Row]:
    """The rows that a query gives. As in Flink, null is the lowest value of an ORDER BY.

    Args:
        query: In DuckDB's SQL.
        arguments: For its question marks.
        tables: By name, the columns (`k VARCHAR, v INTEGER`) and rows of each; `n` numbers them.
    """
    database = _database()
    for name, (declared, rows) in tables.items():
        database.register(name, _table(declared, list(rows)))
    found = database.execute(query, arguments).fetchall()
    for name in tables:
        database.unregister(name)
    return found


def batch_answers(queries: Sequence[str], **tables: tuple[str, Iterable[Row]]) -> list[list[Row]]:
    """The rows that each of several queries gives of the same tables, as `batch_sql`.

    Tables are small: queries are run as they were bound, which takes half of the time.
    """
    database = _database()
    for name, (declared, rows) in tables.items():
        database.register(name, _table(declared, list(rows)))
    database.execute("PRAGMA disable_optimizer")
    found = [database.execute(each).fetchall() for each in queries]
    database.execute("PRAGMA enable_optimizer")
    for name in tables:
        database.unregister(name)
    return found


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """One for all, as opening one takes longer than a query."""
    settings = {"threads": 1, "default_null_order": "nulls_first_on_asc_last_on_desc"}
    return duckdb.connect(":memory:", config=settings)


def _table(declared: str, rows: list[Row]) -> pa.Table:
    columns = [each.split() for each in declared.split(", ")]
    arrays = {
        name: pa.array([row[at] for row in rows], _TYPES[type_name])
        for at, (name, type_name) in enumerate(columns)
    }
    return pa.table({**arrays, PLACE: pa.array(range(len(rows)), pa.int32())})
