"""Tables that do not take what will be written, databases that do not answer: said clearly."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from service.runtime.dataflow_errors import InvalidTableOption, SinkRefused, SinkUnavailable
from service.runtime.sinks.database.commit import claim_tables
from service.runtime.sinks.database.options import check_driver
from service.runtime.sinks.database.session import open_engine
from service.runtime.sinks.owner import Owner
from tests.conftest import free_port
from tests.service.runtime.sinks.database.stand import Database, Pipeline

if TYPE_CHECKING:
    import redis

COLUMNS = {"k": "BIGINT NOT NULL", "v": "INT"}


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("k BIGINT PRIMARY KEY, w INTEGER", 'has no column "v"'),
        ("k BIGINT PRIMARY KEY, v SMALLINT", '"v" of table .* is SMALLINT.* keep every INT'),
        ("k BIGINT, v INTEGER", r"no primary key or unique index of \(k\)"),
        ("k BIGINT, v INTEGER, PRIMARY KEY (k, v)", r"no primary key or unique index of \(k\)"),
        ("k BIGINT PRIMARY KEY, v INTEGER, w INTEGER NOT NULL", '"w" of table .* needs a value'),
    ],
)
def test_a_table_that_does_not_take_what_will_be_written(
    pipeline: Pipeline, columns: str, words: str
) -> None:
    if "SMALLINT" in columns and pipeline.database.dialect == "sqlite":
        columns, words = "k BIGINT PRIMARY KEY, v DATE", '"v" of table .* is DATE'
    pipeline.sink(pipeline.database.table("t", columns), COLUMNS, key=["k"])

    with pytest.raises(InvalidTableOption, match=words):
        pipeline.start()

    assert pipeline.database.fence(pipeline.id) == {}


NUMBERED = {"sqlite": "k INTEGER PRIMARY KEY", "mysql": "k BIGINT AUTO_INCREMENT PRIMARY KEY"}
"""Keys that make a number of NULL."""


@pytest.mark.on(*NUMBERED)
def test_a_key_that_makes_numbers_of_null_is_refused(pipeline: Pipeline) -> None:
    columns = f"{NUMBERED[pipeline.database.dialect]}, v INTEGER"
    table = pipeline.database.table("t", columns)
    pipeline.sink(table, {"k": "BIGINT", "v": "INT"})

    with pytest.raises(InvalidTableOption, match=r'"k" of table .* makes a value of its own'):
        pipeline.start()


def test_a_table_that_is_not_there(pipeline: Pipeline) -> None:
    pipeline.sink("no_such_table", COLUMNS, key=["k"])

    with pytest.raises(InvalidTableOption, match=r"the database has no table .*no_such_table"):
        pipeline.start()


@pytest.mark.parametrize(
    "more",
    ["w INTEGER", "w INTEGER DEFAULT 3", "w INTEGER NOT NULL DEFAULT 3"],
)
def test_columns_that_fill_themselves_are_left_alone(pipeline: Pipeline, more: str) -> None:
    table = pipeline.database.table("t", f"k BIGINT, v INTEGER, {more}, UNIQUE (k)")
    pipeline.sink(table, COLUMNS, key=["k"])

    pipeline.start()
    pipeline.write(1, [("+I", 1, 2)])

    assert pipeline.database.rows(table, "k, v") == [(1, 2)]


def test_a_schema_may_stand_before_the_table(pipeline: Pipeline) -> None:
    table = pipeline.database.table("t", "k BIGINT PRIMARY KEY, v INTEGER")
    pipeline.sink(pipeline.database.full_name(table), COLUMNS, key=["k"])

    pipeline.start()
    pipeline.write(1, [("+I", 1, 2)])

    assert pipeline.database.rows(table) == [(1, 2)]


def told(error: BaseException) -> str:
    """All that Spark would print of an error."""
    return "".join(traceback.format_exception(error))


def test_a_row_that_breaks_a_constraint_is_refused_without_its_values(pipeline: Pipeline) -> None:
    table = pipeline.database.table("t", "k BIGINT, v INTEGER, CHECK (v < 5000)")
    pipeline.sink(table, COLUMNS)
    pipeline.start()

    # The traceback shows lines of code, too.
    values = 7_654_321, 8_765_432

    with pytest.raises(SinkRefused) as refused:
        pipeline.write(1, [("+I", values[0], 1), ("+I", 1, values[1])])

    text = told(refused.value)
    assert "[tailrace:sink-refused] the database refuses to write table" in text
    assert not any(str(each) in text for each in values)
    assert pipeline.database.rows(table) == []


@pytest.mark.on("postgresql", "mysql")  # SQLite keeps texts of any length
def test_a_text_that_is_too_long_is_refused_aloud(pipeline: Pipeline) -> None:
    table = pipeline.database.table("t", "k VARCHAR(3)")
    pipeline.sink(table, {"k": "STRING"})
    pipeline.start()

    with pytest.raises(SinkRefused, match="refuses to write table"):
        pipeline.write(1, [("+I", "too long")])


def test_a_table_that_went_away_while_a_run_writes(pipeline: Pipeline) -> None:
    table = pipeline.database.table("t", "k BIGINT, v INTEGER")
    pipeline.sink(table, COLUMNS)
    pipeline.start()
    pipeline.database.execute(f"DROP TABLE {table}")

    with pytest.raises((SinkRefused, SinkUnavailable), match=f"write table .*{table}"):
        pipeline.write(1, [("+I", 1, 1)])


def test_a_file_that_is_not_there_is_not_made(
    file_database: Database, redis_client: redis.Redis
) -> None:
    pipeline = Pipeline(file_database, redis_client)
    pipeline.sink("t", COLUMNS, url="jdbc:sqlite:other.sqlite")

    with pytest.raises(SinkUnavailable, match="cannot show its tables"):
        pipeline.start()

    assert sorted(os.listdir(file_database.files_root)) == ["db.sqlite"]


def test_a_driver_that_is_missing_beside_spark_is_named(
    file_database: Database, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    pipeline = Pipeline(file_database, redis_client)
    pipeline.sink("t", COLUMNS, url="jdbc:mysql://127.0.0.1:1/d")

    with pytest.raises(SinkRefused, match="needs the Python module pymysql"):
        pipeline.start()


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_server_that_does_not_answer_is_unavailable_and_its_password_is_not_told(
    file_database: Database, redis_client: redis.Redis, scheme: str
) -> None:
    pipeline = Pipeline(file_database, redis_client)
    url = f"jdbc:{scheme}://127.0.0.1:{free_port()}/d"
    options = {"url": url, "username": "user-1", "password": "hunter-2"}
    pipeline.sink("t", COLUMNS, **options)

    with pytest.raises(SinkUnavailable, match="cannot show its tables") as caught:
        claim_tables(Owner("i", "p", 1), pipeline.sinks, file_database.files_root, marker=0)

    assert "hunter-2" not in told(caught.value)
    assert "hunter-2" not in repr(pipeline.sinks)


@pytest.mark.on("postgresql", "mysql")  # files have no users
def test_a_wrong_password_is_not_told(database: Database, redis_client: redis.Redis) -> None:
    pipeline = Pipeline(database, redis_client)
    pipeline.sink("t", COLUMNS, password="hunter-2")

    with pytest.raises(SinkUnavailable, match="cannot show its tables") as caught:
        pipeline.start()

    assert "hunter-2" not in told(caught.value)


@pytest.mark.on("mysql")
def test_encryption_is_tried_unless_it_is_disabled(database: Database) -> None:
    for mode, is_tried in (("", True), ("DISABLED", False)):
        engine = open_engine(replace(database.address, encryption=mode))
        with engine.connect() as connection:
            driver: Any = connection.connection.driver_connection
            assert driver.ssl is is_tried
            assert connection.exec_driver_sql("SELECT 1").scalar() == 1


def test_a_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from service.runtime.dataflow_errors import UnsupportedConnector
    from service.runtime.sinks.database.options import address_of

    monkeypatch.setattr("service.runtime.sinks.database.options.find_spec", lambda _: None)

    for url, package in (("postgresql", r"psycopg\[binary\]"), ("mariadb", "pymysql")):
        address = address_of({"url": f"jdbc:{url}://h/d"}, "/")
        with pytest.raises(UnsupportedConnector, match=f"needs the Python package {package}"):
            check_driver(address)
    check_driver(address_of({"url": "jdbc:sqlite:f"}, "/"))


MYSQL_TABLES = [
    ("k BIGINT PRIMARY KEY, v INTEGER, UNIQUE (v)", {}, r"a second unique key \(v\)"),
    ("k FLOAT PRIMARY KEY, v INTEGER", {"k": "FLOAT NOT NULL"}, "is FLOAT, which MySQL finds no"),
    (
        "k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, v INTEGER",
        {"k": "STRING NOT NULL"},
        "collation utf8mb4_general_ci",
    ),
    (
        "k BIGINT PRIMARY KEY, `v%` INTEGER",
        {"k": "BIGINT NOT NULL", "v%": "INT"},
        "has a % in its name",
    ),
]


@pytest.mark.on("mysql")
@pytest.mark.parametrize(("columns", "types", "words"), MYSQL_TABLES)
def test_tables_in_which_mysql_would_take_rows_for_each_other(
    pipeline: Pipeline, columns: str, types: dict[str, str], words: str
) -> None:
    shown = types if "v%" in types else COLUMNS | types
    pipeline.sink(pipeline.database.table("t", columns), shown, key=["k"])

    with pytest.raises(InvalidTableOption, match=words):
        pipeline.start()


IN_SQLITE = [
    ("k TEXT COLLATE NOCASE PRIMARY KEY", "has a collation"),
    ("k TEXT COLLATE RTRIM, UNIQUE (k)", "has a collation"),
    ("k TEXT PRIMARY KEY ON CONFLICT REPLACE", "says ON CONFLICT REPLACE"),
    ("k TEXT PRIMARY KEY, v TEXT UNIQUE on conflict ignore", "says ON CONFLICT IGNORE"),
]
IN_POSTGRESQL = [
    ("k TEXT COLLATE loose PRIMARY KEY", "has collation loose"),
    ("k citext PRIMARY KEY", "has type citext"),
    ("k NAME PRIMARY KEY", "is NAME, which keeps 63 bytes"),
    ("k TEXT PRIMARY KEY, v NAME", "is NAME, which keeps 63 bytes"),
    ("k TEXT, UNIQUE (k) DEFERRABLE", "no primary key or unique index"),
    ("k TEXT PRIMARY KEY DEFERRABLE", "no primary key or unique index"),
]


def texts_by_key(pipeline: Pipeline, columns: str) -> None:
    """Give the pipeline a sink of texts, on a table with these columns."""
    table = pipeline.database.table("t", columns)
    types = {"k": "STRING NOT NULL"} | ({"v": "STRING"} if ", v " in columns else {})
    pipeline.sink(table, types, key=["k"])


@pytest.mark.on("sqlite")
@pytest.mark.parametrize(("columns", "words"), IN_SQLITE)
def test_tables_in_which_sqlite_would_lose_rows(
    pipeline: Pipeline, columns: str, words: str
) -> None:
    texts_by_key(pipeline, columns)

    with pytest.raises(InvalidTableOption, match=words):
        pipeline.start()


@pytest.mark.on("sqlite")
@pytest.mark.parametrize(
    ("of_column", "of_index", "words"),
    [("NOCASE", "BINARY", "has a collation"), ("BINARY", "NOCASE", "has collation NOCASE")],
)
def test_an_index_of_sqlite_with_a_collation_of_its_own(
    pipeline: Pipeline, of_column: str, of_index: str, words: str
) -> None:
    """Deletes go by the column's, upserts by the index's."""
    texts_by_key(pipeline, f"k TEXT COLLATE {of_column}")
    table = pipeline.sinks[0].options["table-name"]
    pipeline.database.execute(f"CREATE UNIQUE INDEX {table}_k ON {table} (k COLLATE {of_index})")

    with pytest.raises(InvalidTableOption, match=words):
        pipeline.start()


def loose_collation(database: Database) -> None:
    """Make collation `loose` of PostgreSQL: without regard to case."""
    database.execute(
        "CREATE COLLATION IF NOT EXISTS loose "
        "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
    )


@pytest.mark.on("postgresql")
@pytest.mark.parametrize(("columns", "words"), IN_POSTGRESQL)
def test_tables_in_which_postgresql_would_lose_rows(
    pipeline: Pipeline, columns: str, words: str
) -> None:
    loose_collation(pipeline.database)
    pipeline.database.execute("CREATE EXTENSION IF NOT EXISTS citext")
    texts_by_key(pipeline, columns)

    with pytest.raises(InvalidTableOption, match=words):
        pipeline.start()


@pytest.mark.on("postgresql")
def test_an_index_of_postgresql_with_a_collation_of_its_own(pipeline: Pipeline) -> None:
    """ON CONFLICT finds an index whatever its collation is."""
    loose_collation(pipeline.database)
    texts_by_key(pipeline, "k TEXT, v TEXT")
    table = pipeline.sinks[0].options["table-name"]
    pipeline.database.execute(f"CREATE UNIQUE INDEX {table}_k ON {table} (k COLLATE loose)")

    with pytest.raises(InvalidTableOption, match="has collation loose"):
        pipeline.start()


@pytest.mark.on("postgresql")
def test_an_index_of_a_key_beside_an_expression_is_not_unique_by_the_key(
    pipeline: Pipeline,
) -> None:
    texts_by_key(pipeline, "k TEXT, v TEXT")
    table = pipeline.sinks[0].options["table-name"]
    pipeline.database.execute(f"CREATE UNIQUE INDEX {table}_k ON {table} (k, lower(v))")

    with pytest.raises(InvalidTableOption, match="no primary key or unique index"):
        pipeline.start()


@pytest.mark.on("sqlite")
def test_an_upsert_into_a_table_of_sqlite_needs_its_name_as_it_is(pipeline: Pipeline) -> None:
    table = pipeline.database.table("T", "k BIGINT PRIMARY KEY, v INTEGER")
    pipeline.sink(table.swapcase(), COLUMNS, key=["k"])

    with pytest.raises(InvalidTableOption, match="has no table"):
        pipeline.start()


@pytest.mark.on("sqlite")
def test_a_table_of_sqlite_that_loses_rows_does_so_under_its_name_in_any_case(
    pipeline: Pipeline,
) -> None:
    table = pipeline.database.table("T", "k BIGINT PRIMARY KEY ON CONFLICT REPLACE, v INTEGER")
    pipeline.sink(table.swapcase(), COLUMNS)

    with pytest.raises(InvalidTableOption, match="says ON CONFLICT REPLACE"):
        pipeline.start()


@pytest.mark.on("sqlite")
def test_a_view_of_sqlite_takes_inserts_by_a_trigger(pipeline: Pipeline) -> None:
    table = pipeline.database.table("t", "k BIGINT, v INTEGER")
    pipeline.database.execute(f"CREATE VIEW {table}_v AS SELECT k, v FROM {table}")
    pipeline.database.execute(
        f"CREATE TRIGGER {table}_i INSTEAD OF INSERT ON {table}_v "
        f"BEGIN INSERT INTO {table} VALUES (NEW.k, NEW.v); END"
    )
    pipeline.sink(f"{table}_v", COLUMNS)

    pipeline.start()
    pipeline.write(1, [("+I", 1, 2)])

    assert pipeline.database.rows(table) == [(1, 2)]


@pytest.mark.on("sqlite", "postgresql")
def test_a_collation_of_a_column_that_is_no_key_does_not_matter(pipeline: Pipeline) -> None:
    if pipeline.database.dialect == "postgresql":
        loose_collation(pipeline.database)
    collations = {"sqlite": ("BINARY", "NOCASE"), "postgresql": ('"C"', "loose")}
    of_key, of_value = collations[pipeline.database.dialect]
    texts_by_key(pipeline, f"k TEXT COLLATE {of_key} PRIMARY KEY, v TEXT COLLATE {of_value}")
    pipeline.start()
    pipeline.write(1, [("+I", "a", "x"), ("+I", "A", "X")])

    table = pipeline.sinks[0].options["table-name"]
    assert pipeline.database.rows(table) == [("A", "X"), ("a", "x")]


@pytest.mark.on("mysql")
def test_a_table_without_transactions_is_refused(pipeline: Pipeline) -> None:
    table = pipeline.database.table("t", "k BIGINT PRIMARY KEY, v INTEGER")
    pipeline.database.execute(f"ALTER TABLE {table} ENGINE = MyISAM")
    pipeline.sink(table, COLUMNS, key=["k"])

    with pytest.raises(InvalidTableOption, match="takes no part in transactions"):
        pipeline.start()


@pytest.mark.on("postgresql")
@pytest.mark.parametrize("more", ["GENERATED ALWAYS AS IDENTITY", "GENERATED ALWAYS AS (k) STORED"])
def test_a_column_that_the_database_computes_is_refused(pipeline: Pipeline, more: str) -> None:
    table = pipeline.database.table("t", f"k BIGINT PRIMARY KEY, v INTEGER {more}")
    pipeline.sink(table, COLUMNS, key=["k"])

    with pytest.raises(InvalidTableOption, match=r'"v" of table .* is computed'):
        pipeline.start()


def test_what_plans_and_tasks_need_of_databases_is_known_without_sqlalchemy() -> None:
    """A process that writes no database does not pay for it."""
    modules = "service.runtime.sinks.writer, service.runtime.sinks.commit, service.runtime.dataflow"
    code = f"import sys, {modules}; sys.exit('sqlalchemy' in sys.modules)"

    done: Any = subprocess.run([sys.executable, "-c", code], timeout=120, check=False)

    assert done.returncode == 0
