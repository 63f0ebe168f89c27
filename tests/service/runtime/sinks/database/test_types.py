"""Values of every type come back from a database as they went in, or are refused."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite

from service.runtime.dataflow_errors import SinkRefused
from service.runtime.sinks.database.columns import keeps
from state.types import parse_type
from tests.service.runtime.sinks.database.stand import Database, Pipeline

if TYPE_CHECKING:
    import redis

UTC_TIME = dt.datetime(2013, 1, 31, 23, 59, 59, 123_456, tzinfo=dt.UTC)
PLAIN_TIME = UTC_TIME.replace(tzinfo=None)
DIGITS_38 = "1234567890123456789012345678.0123456789"
BINARY = "COLLATE utf8mb4_bin"

TYPES: dict[str, tuple[dict[str, str], list[Any]]] = {
    "BOOLEAN": ({"": "BOOLEAN"}, [True, False]),
    "TINYINT": ({"": "SMALLINT", "mysql": "TINYINT"}, [-128, 127]),
    "SMALLINT": ({"": "SMALLINT"}, [-(2**15), 2**15 - 1]),
    "INT": ({"": "INTEGER"}, [-(2**31), 2**31 - 1]),
    "BIGINT": ({"": "BIGINT"}, [-(2**63), 2**63 - 1]),
    "FLOAT": ({"": "REAL", "mysql": "FLOAT"}, [0.5, -1.5]),
    "DOUBLE": (
        {"": "DOUBLE PRECISION", "sqlite": "DOUBLE"},
        [0.1, -1e300, 5e-324],
    ),
    "DECIMAL(38, 10)": (
        {"": "NUMERIC(38, 10)", "sqlite": "TEXT"},
        [Decimal(DIGITS_38), Decimal("-0.0000000001"), Decimal("0E-10")],
    ),
    "DECIMAL(15, 2)": ({"": "NUMERIC(15, 2)"}, [Decimal("-1234567890123.45")]),
    "VARCHAR(2147483647)": (
        {"": "TEXT", "mysql": f"LONGTEXT CHARACTER SET utf8mb4 {BINARY}"},
        ["", "  blanks  ", "ünïcode 🛩", "quote ' \" ` % :x \\ \n\t"],
    ),
    "CHAR(3)": ({"": "CHAR(3)"}, ["abc"]),
    "BYTES": ({"": "BLOB", "postgresql": "BYTEA"}, [b"", bytes(range(256))]),
    "DATE": ({"": "DATE"}, [dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "TIME(3)": ({"": "TIME", "mysql": "TIME(3)"}, [dt.time(0), dt.time(23, 59, 59, 999_000)]),
    "TIMESTAMP(6)": (
        {"": "TIMESTAMP(6)", "mysql": "DATETIME(6)", "sqlite": "DATETIME"},
        [PLAIN_TIME, PLAIN_TIME.replace(second=0, microsecond=0)],
    ),
    "TIMESTAMP_LTZ(6)": (
        {"": "TIMESTAMP(6) WITH TIME ZONE", "mysql": "TIMESTAMP(6) NULL", "sqlite": "TIMESTAMP"},
        [UTC_TIME],
    ),
}


def typed(database: Database, column: str) -> str:
    """The type of a column in this database."""
    there = TYPES[column][0]
    return there.get(database.dialect, there[""])


@pytest.fixture
def everything(database: Database, redis_client: redis.Redis) -> tuple[Pipeline, str]:
    """A pipeline whose sink has a column of each type, and its table."""
    pipeline = Pipeline(database, redis_client)
    columns = [f"c{at} {typed(database, each)}" for at, each in enumerate(TYPES)]
    table = database.table("t", ", ".join(["id BIGINT PRIMARY KEY", *columns]))
    shown = {f"c{at}": each for at, each in enumerate(TYPES)}
    pipeline.sink(table, {"id": "BIGINT NOT NULL", **shown}, key=["id"])
    pipeline.start()
    return pipeline, table


def as_read(database: Database, table: str, column: str, kind: str) -> list[Any]:
    """The values of a column by id, as a client of the database has them."""
    types: dict[str, Any] = {
        "DATE": sa.Date(),
        "TIME(3)": sa.Time(),
        "TIMESTAMP(6)": sa.DateTime(),
        "TIMESTAMP_LTZ(6)": sa.DateTime(),
        "BOOLEAN": sa.Boolean(),
    }
    found = sa.column(column, types[kind]) if kind in types else sa.column(column)
    chosen = sa.select(found).select_from(sa.table(table)).order_by(sa.column("id"))
    with database.engine.begin() as connection:
        return list(connection.execute(chosen).scalars())


def expected(database: Database, kind: str, value: Any) -> Any:
    """A value as a client has it."""
    if database.dialect == "sqlite" and kind == "DECIMAL(38, 10)":
        return format(value, "f")
    if database.dialect == "sqlite" and kind == "DECIMAL(15, 2)":
        return float(value)
    if database.dialect != "postgresql" and kind == "TIMESTAMP_LTZ(6)":
        return value.replace(tzinfo=None)
    return value


def test_values_of_every_type_are_kept(everything: tuple[Pipeline, str]) -> None:
    pipeline, table = everything
    longest = max(len(values) for _, values in TYPES.values())
    rows = [[values[at % len(values)] for _, values in TYPES.values()] for at in range(longest)] + [
        [None] * len(TYPES)
    ]

    pipeline.write(1, [("+I", at, *_for_arrow(row)) for at, row in enumerate(rows)])

    for place, kind in enumerate(TYPES):
        found = as_read(pipeline.database, table, f"c{place}", kind)
        wanted = [
            None if row[place] is None else expected(pipeline.database, kind, row[place])
            for row in rows
        ]
        assert found == wanted, kind


@pytest.mark.parametrize(
    "kind", [each for each in TYPES if each not in ("VARCHAR(2147483647)", "BYTES", "FLOAT")]
)
def test_rows_are_found_by_keys_of_every_type(
    database: Database, redis_client: redis.Redis, kind: str
) -> None:
    pipeline = Pipeline(database, redis_client)
    column = typed(database, kind).removesuffix(" NULL")
    binary = BINARY if database.dialect == "mysql" and "CHAR" in kind else ""
    table = database.table("t", f"k {column} {binary} NOT NULL PRIMARY KEY, v INTEGER")
    pipeline.sink(table, {"k": f"{kind} NOT NULL", "v": "INT"}, key=["k"])
    pipeline.start()
    values = _for_arrow(TYPES[kind][1])

    pipeline.write(1, [("+I", value, 1) for value in values])
    pipeline.write(2, [("+U", value, 2) for value in values])
    assert pipeline.database.rows(table, "v") == [(2,)] * len(values)
    pipeline.write(3, [("-D", value, 2) for value in values])

    assert pipeline.database.rows(table) == []


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_kept_or_refused(
    database: Database, redis_client: redis.Redis, value: float
) -> None:
    pipeline = Pipeline(database, redis_client)
    table = database.table("t", "v DOUBLE PRECISION")
    pipeline.sink(table, {"v": "DOUBLE"})
    pipeline.start()
    has_it = database.dialect == "postgresql" or (
        database.dialect == "sqlite" and math.isinf(value)
    )

    if has_it:
        pipeline.write(1, [("+I", value)])
        ((found,),) = database.rows(table)
        assert repr(found) == repr(value)
    else:
        with pytest.raises(
            SinkRefused, match=r"column v of sink sink0 is (NaN|an infinite number)"
        ):
            pipeline.write(1, [("+I", value)])
        assert database.rows(table) == []


def test_a_year_that_no_client_knows_is_refused(pipeline: Pipeline) -> None:
    table = pipeline.database.table("t", f"d {typed(pipeline.database, 'TIMESTAMP(6)')}")
    pipeline.sink(table, {"d": "TIMESTAMP(6)"})
    pipeline.start()

    with pytest.raises(SinkRefused, match="a time out of range"):
        pipeline.write(1, [("+I", 2**60)])


PG, MY, LITE = "postgresql", "mysql", "sqlite"


@pytest.mark.parametrize(
    ("kind", "column", "dialect", "is_kept"),
    [
        ("BIGINT", sa.BIGINT(), PG, True),
        ("BIGINT", sa.INTEGER(), PG, False),
        ("BIGINT", sa.INTEGER(), LITE, True),
        ("INT", sa.SMALLINT(), PG, False),
        ("SMALLINT", mysql.TINYINT(), MY, False),
        ("INT", mysql.MEDIUMINT(), MY, False),
        ("SMALLINT", mysql.MEDIUMINT(), MY, True),
        ("INT", sa.NUMERIC(10, 0), PG, True),
        ("INT", sa.NUMERIC(10, 1), PG, False),
        ("INT", sa.NUMERIC(), PG, True),
        ("INT", sa.REAL(), PG, False),
        ("BOOLEAN", sa.INTEGER(), PG, False),
        ("BOOLEAN", mysql.TINYINT(display_width=1), MY, True),
        ("BOOLEAN", mysql.BIT(), MY, False),
        ("DOUBLE", sa.REAL(), PG, False),
        ("DOUBLE", sa.REAL(), LITE, True),
        ("FLOAT", sa.REAL(), PG, True),
        ("FLOAT", sa.DOUBLE_PRECISION(), PG, True),
        ("DOUBLE", mysql.FLOAT(), MY, False),
        ("DOUBLE", mysql.DOUBLE(), MY, True),
        ("DOUBLE", sa.NUMERIC(38, 10), PG, False),
        ("DECIMAL(10, 2)", sa.NUMERIC(10, 2), PG, True),
        ("DECIMAL(10, 2)", sa.NUMERIC(12, 4), PG, True),
        ("DECIMAL(10, 2)", sa.NUMERIC(10, 4), PG, False),
        ("DECIMAL(10, 2)", sa.NUMERIC(10, 1), PG, False),
        ("DECIMAL(10, 2)", sa.DOUBLE_PRECISION(), PG, False),
        ("DECIMAL(10, 2)", mysql.DECIMAL(10, 2), MY, True),
        ("DECIMAL(15, 2)", sa.NUMERIC(15, 2), LITE, True),
        ("DECIMAL(16, 2)", sa.NUMERIC(16, 2), LITE, False),
        ("DECIMAL(38, 2)", sa.TEXT(), LITE, True),
        ("DECIMAL(10, 2)", sa.TEXT(), PG, False),
        ("STRING", sa.TEXT(), PG, True),
        ("STRING", sa.VARCHAR(10), PG, True),
        ("STRING", sa.CHAR(10), PG, False),
        ("STRING", mysql.CHAR(10), MY, False),
        ("CHAR(10)", sa.CHAR(10), PG, True),
        ("STRING", postgresql.ENUM("a", name="e"), PG, False),
        ("STRING", mysql.ENUM("a"), MY, False),
        ("STRING", mysql.SET("a"), MY, False),
        ("STRING", postgresql.JSONB(), PG, False),
        ("STRING", sa.UUID(), PG, False),
        ("STRING", sa.INTEGER(), PG, False),
        ("BYTES", postgresql.BYTEA(), PG, True),
        ("BYTES", sa.BLOB(), LITE, True),
        ("BYTES", mysql.BINARY(8), MY, False),
        ("BINARY(8)", mysql.BINARY(8), MY, True),
        ("BYTES", sa.TEXT(), PG, False),
        ("DATE", sa.DATE(), PG, True),
        ("DATE", postgresql.TIMESTAMP(), PG, False),
        ("DATE", sa.TEXT(), LITE, True),
        ("DATE", sa.TEXT(), PG, False),
        ("TIME(3)", postgresql.TIME(), PG, True),
        ("TIME(3)", postgresql.TIME(precision=0), PG, False),
        ("TIME(3)", mysql.TIME(), MY, False),
        ("TIME(0)", mysql.TIME(), MY, True),
        ("TIMESTAMP(6)", postgresql.TIMESTAMP(), PG, True),
        ("TIMESTAMP(6)", postgresql.TIMESTAMP(precision=3), PG, False),
        ("TIMESTAMP(6)", postgresql.TIMESTAMP(timezone=True), PG, False),
        ("TIMESTAMP_LTZ(6)", postgresql.TIMESTAMP(timezone=True), PG, True),
        ("TIMESTAMP_LTZ(6)", postgresql.TIMESTAMP(), PG, False),
        ("TIMESTAMP(6)", mysql.DATETIME(), MY, False),
        ("TIMESTAMP(6)", mysql.DATETIME(fsp=6), MY, True),
        ("TIMESTAMP(0)", mysql.TIMESTAMP(), MY, False),
        ("TIMESTAMP_LTZ(0)", mysql.TIMESTAMP(), MY, True),
        ("TIMESTAMP_LTZ(0)", mysql.DATETIME(), MY, False),
        ("TIMESTAMP_LTZ(6)", sqlite.DATETIME(), LITE, True),
        ("INT", sa.types.NullType(), LITE, False),
    ],
)
def test_a_column_takes_what_it_keeps_exactly(
    kind: str, column: Any, dialect: Any, is_kept: bool
) -> None:
    assert keeps(parse_type(kind), column, dialect) is is_kept


def _for_arrow(values: list[Any]) -> list[Any]:
    """TIME is a number of ms in Arrow."""
    return [
        (((v.hour * 60) + v.minute) * 60 + v.second) * 1000 + v.microsecond // 1000
        if isinstance(v, dt.time)
        else v
        for v in values
    ]
