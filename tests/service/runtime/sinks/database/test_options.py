"""Flink's options of a jdbc table: read, or refused by name and without their secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from service.plan import load_plan
from service.runtime.dataflow import check_plan
from service.runtime.dataflow_errors import (
    DataflowError,
    InvalidTableOption,
    PathOutsideRoot,
    UnsupportedChangelog,
    UnsupportedConnector,
)
from service.runtime.sinks.database.options import Address, address_of, check_host, table_of
from service.settings import DatabaseSettings, FilesSettings, Settings
from tests.integration.pipelines import PlanBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SOURCE = {"connector": "filesystem", "format": "changelog-json", "path": "in"}
SINK = {"connector": "jdbc", "url": "jdbc:sqlite:db.sqlite", "table-name": "t"}


def check(
    root: Path,
    options: dict[str, str],
    *,
    columns: dict[str, str] | None = None,
    key: Sequence[str] = ("k",),
    hosts: tuple[str, ...] = (),
    **properties: Any,
) -> None:
    """Check a plan with this sink."""
    plan = PlanBuilder()
    columns = columns or {"k": "VARCHAR(9) NOT NULL", "v": "INT"}
    scan = plan.scan("s", columns)
    plan.sink("snk", columns, scan, key=key, **properties)
    document = plan.document()
    for node, role, given in ((0, "scanTableSource", SOURCE), (1, "dynamicTableSink", options)):
        document["nodes"][node][role]["table"]["resolvedTable"]["options"] = given
    settings = Settings(files=FilesSettings(root=root), databases=DatabaseSettings(hosts=hosts))
    check_plan(load_plan(orjson.dumps(document)), settings)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("jdbc:postgresql://h/d", Address("postgresql", "h", 5432, "d")),
        ("jdbc:postgresql://H:1/d?sslmode=require", Address("postgresql", "h", 1, "d", "require")),
        ("JDBC:mysql://[::1]:9/d%20d", Address("mysql", "::1", 9, "d d")),
        ("jdbc:mariadb://h/d?sslMode=VERIFY_CA", Address("mysql", "h", 3306, "d", "VERIFY_CA")),
    ],
)
def test_addresses_of_servers(url: str, address: Address) -> None:
    assert address_of({"url": url}, "/") == address


def test_an_address_has_its_user_and_shows_no_password(tmp_path: Path) -> None:
    given = {"url": "jdbc:mysql://h/d", "username": "u", "password": "hunter-2"}

    found = address_of(given | {"connection.max-retry-timeout": "5 s"}, str(tmp_path))

    assert (found.username, found.password, found.connect_timeout_ms) == ("u", "hunter-2", 5_000)
    assert "hunter-2" not in repr(found)


def test_a_file_lies_below_the_files_root(tmp_path: Path) -> None:
    found = address_of({"url": "jdbc:sqlite:a/b.db"}, str(tmp_path))

    assert found.database == str(tmp_path / "a/b.db")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"url": ""}, InvalidTableOption, '"url" is missing'),
        ({"url": "jdbc:oracle:thin:@h"}, UnsupportedConnector, "not name a supported database"),
        ({"url": "postgresql://h/d"}, UnsupportedConnector, "not name a supported database"),
        ({"url": "jdbc:sqlite:"}, InvalidTableOption, "names no file"),
        ({"url": "jdbc:sqlite::memory:"}, InvalidTableOption, "names no file"),
        ({"url": "jdbc:sqlite:a?mode=rwc"}, InvalidTableOption, "names no file"),
        ({"url": "jdbc:sqlite:file:/etc/x"}, InvalidTableOption, "names no file"),
        ({"url": "jdbc:sqlite:../x"}, PathOutsideRoot, "outside"),
        ({"url": "jdbc:sqlite:/etc/x"}, PathOutsideRoot, "outside"),
        ({"url": "jdbc:postgresql:d"}, InvalidTableOption, "not the address of a database"),
        ({"url": "jdbc:postgresql://h"}, InvalidTableOption, "not the address of a database"),
        ({"url": "jdbc:postgresql://h:x/d"}, InvalidTableOption, "not the address of a database"),
        ({"url": "jdbc:postgresql://a,b/d"}, InvalidTableOption, "not the address of a database"),
        ({"url": "jdbc:postgresql://u:hunter-2@h/d"}, InvalidTableOption, "contains a user"),
        ({"url": "jdbc:mysql://h/d?password=hunter-2"}, InvalidTableOption, "contains a user"),
        ({"url": "jdbc:mysql://h/d?useSSL=hunter-2"}, InvalidTableOption, "parameter of"),
        ({"url": "jdbc:postgresql://h/d?sslmode=hunter-2"}, InvalidTableOption, "parameter of"),
        ({"url": "jdbc:postgresql://h/d", "password": "hunter-2"}, InvalidTableOption, "username"),
        ({"connection.max-retry-timeout": "soon"}, InvalidTableOption, "not a duration"),
        ({"connection.max-retry-timeout": "10 ms"}, InvalidTableOption, "at least 1 s"),
        ({"table-name": ""}, InvalidTableOption, '"table-name" is missing'),
        ({"table-name": "a.b.c"}, InvalidTableOption, "names no table"),
        ({"table-name": ".b"}, InvalidTableOption, "names no table"),
        (
            {"table-name": "s.Tailrace_Epochs"},
            InvalidTableOption,
            "reserved for the record of epochs",
        ),
        ({"changelog-mode": "retract"}, InvalidTableOption, '"changelog-mode" is not honoured'),
        ({"sink.max-retries": "3"}, InvalidTableOption, '"sink.max-retries" is not honoured'),
        ({"driver": "com.example.Driver"}, InvalidTableOption, '"driver" is not honoured'),
        ({"lookup.cache": "NONE"}, InvalidTableOption, '"lookup.cache" is not honoured'),
        ({"password": "******", "username": "u"}, InvalidTableOption, "is masked"),
        (
            {"url": "jdbc:postgresql://h:1/d"},
            InvalidTableOption,
            "a server that the settings do not list",
        ),
    ],
)
def test_options_that_cannot_be_are_refused_with_their_place(
    tmp_path: Path, options: dict[str, str], error: type[DataflowError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        check(tmp_path, SINK | options)

    assert caught.value.path.startswith("/nodes/1/dynamicTableSink/table/resolvedTable/options")
    assert "hunter-2" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"driver": "org.sqlite.JDBC", "sink.parallelism": "3", "property-version": "1"},
        {"sink.buffer-flush.max-rows": "100", "sink.buffer-flush.interval": "1s"},
        {"connection.max-retry-timeout": "60s", "changelog-mode": "upsert"},
        {"table-name": "main.t"},
    ],
)
def test_options_that_are_honoured_or_change_nothing(
    tmp_path: Path, options: dict[str, str]
) -> None:
    check(tmp_path, SINK | options)


@pytest.mark.parametrize(
    ("hosts", "is_listed"),
    [
        ((), False),
        (("other", "db:1"), False),
        (("DB",), True),
        (("db:5432",), True),
        (("*",), True),
    ],
)
def test_servers_are_those_that_the_settings_list(hosts: tuple[str, ...], is_listed: bool) -> None:
    address = address_of({"url": "jdbc:postgresql://db/d"}, "/")

    if is_listed:
        check_host(address, hosts)
    else:
        with pytest.raises(InvalidTableOption, match="do not list"):
            check_host(address, hosts)


def test_updates_need_a_key(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedChangelog, match="inserts only") as refused:
        check(tmp_path, SINK, key=())

    assert "PRIMARY KEY" in refused.value.hint
    check(tmp_path, SINK, key=(), mode=["INSERT"])
    with pytest.raises(InvalidTableOption, match="no primary key"):
        check(tmp_path, SINK | {"changelog-mode": "upsert"}, key=(), mode=["INSERT"])
    with pytest.raises(UnsupportedChangelog, match="inserts only"):
        check(tmp_path, SINK | {"changelog-mode": "append"})


@pytest.mark.parametrize("kind", ["ARRAY<INT>", "MAP<INT, INT>", "MULTISET<INT>", "ROW<`a` INT>"])
def test_types_that_no_column_holds_are_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(UnsupportedConnector, match=r'column "v" has type .* of sink snk'):
        check(tmp_path, SINK, columns={"k": "INT NOT NULL", "v": kind})


def test_a_table_is_named_with_its_schema_or_without() -> None:
    assert table_of({"table-name": "t"}) == (None, "t")
    assert table_of({"table-name": "s.t"}) == ("s", "t")
