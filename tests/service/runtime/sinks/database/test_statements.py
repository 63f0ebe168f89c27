"""The statements of each kind of database, as its driver gets them."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy.dialects.mysql import pymysql
from sqlalchemy.dialects.postgresql import psycopg
from sqlalchemy.dialects.sqlite import pysqlite

from service.runtime.sinks.database.target import Target
from service.runtime.sinks.spec import SinkSpec

DIALECTS: dict[str, Any] = {
    "postgresql": psycopg.dialect(),
    "mysql": pymysql.dialect(),
    "sqlite": pysqlite.dialect(),
}


def target(dialect: Any, *, key: tuple[int, ...], columns: str = "kv") -> Target:
    spec = SinkSpec(
        node=1,
        table="snk",
        connector="jdbc",
        names=tuple({"k": "K", "v": "a value"}[each] for each in columns),
        types=("INT",) * len(columns),
        primary_key=key,
        mode="upsert" if key else "append",
        options={"table-name": "my schema.t"},
    )
    return Target.of(spec, dialect, "unused")


def text(statement: Any, dialect: str) -> str:
    return " ".join(str(statement.compile(dialect=DIALECTS[dialect])).split())


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        (
            "postgresql",
            'INSERT INTO "my schema".t ("K", "a value") VALUES (%(column_0)s::BIGINT, '
            '%(column_1)s::BIGINT) ON CONFLICT ("K") DO UPDATE SET "a value" = excluded."a value"',
        ),
        (
            "mysql",
            "INSERT INTO `my schema`.t (`K`, `a value`) VALUES (%s, %s) "
            "ON DUPLICATE KEY UPDATE `a value` = VALUES(`a value`)",
        ),
        (
            "sqlite",
            'INSERT INTO "my schema".t ("K", "a value") VALUES (?, ?) '
            'ON CONFLICT ("K") DO UPDATE SET "a value" = excluded."a value"',
        ),
    ],
)
def test_a_row_is_put_by_its_key(dialect: str, expected: str) -> None:
    assert text(target(dialect, key=(0,)).put(), dialect) == expected


@pytest.mark.parametrize(
    ("dialect", "ending"),
    [
        ("postgresql", 'ON CONFLICT ("K") DO NOTHING'),
        ("mysql", "ON DUPLICATE KEY UPDATE `K` = VALUES(`K`)"),
        ("sqlite", 'ON CONFLICT ("K") DO NOTHING'),
    ],
)
def test_a_row_that_is_nothing_but_its_key_stays(dialect: str, ending: str) -> None:
    assert text(target(dialect, key=(0,), columns="k").put(), dialect).endswith(ending)


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_without_a_key_rows_are_inserted(dialect: str) -> None:
    assert "CONFLICT" not in (found := text(target(dialect, key=()).put(), dialect))
    assert "DUPLICATE" not in found


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("postgresql", 'DELETE FROM "my schema".t WHERE "my schema".t."K" = %(key_0)s::BIGINT'),
        ("mysql", "DELETE FROM `my schema`.t WHERE `my schema`.t.`K` = %s"),
        ("sqlite", 'DELETE FROM "my schema".t WHERE "my schema".t."K" = ?'),
    ],
)
def test_a_row_is_removed_by_its_key(dialect: str, expected: str) -> None:
    assert text(target(dialect, key=(0,)).remove(), dialect) == expected
