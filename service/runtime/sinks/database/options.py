"""Flink's options of a `jdbc` table: where its database is, and who asks.

    url                              jdbc:postgresql://host[:port]/database[?sslmode=..]
                                     jdbc:mysql://host[:port]/database[?sslMode=..], or mariadb
                                     jdbc:sqlite:path, below the files root
    table-name                       table, or schema.table
    username, password
    connection.max-retry-timeout     longest wait for a connection; 60 s by default
    driver                           the class that Flink would load for the address, if any

Nothing here knows a database or imports its driver. Errors name options and never show what is in
them.

Source: Flink `JdbcConnectorOptions`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from service.plan.durations import parse_duration_ms
from service.plan.errors import DurationError
from service.runtime.dataflow_errors import InvalidTableOption, UnsupportedConnector
from service.runtime.files import path_below

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Dialect = Literal["postgresql", "mysql", "sqlite"]

_PREFIXES: Mapping[str, Dialect] = {
    "jdbc:postgresql:": "postgresql",
    "jdbc:mysql:": "mysql",
    "jdbc:mariadb:": "mysql",
    "jdbc:sqlite:": "sqlite",
}
_PORTS: Mapping[Dialect, int] = {"postgresql": 5432, "mysql": 3306}
_PACKAGES: Mapping[Dialect, tuple[str, str]] = {
    "postgresql": ("psycopg", "psycopg[binary]"),
    "mysql": ("pymysql", "pymysql"),
}
"""The module of a driver, and what is installed to have it."""
_ENCRYPTION: Mapping[Dialect, tuple[str, frozenset[str]]] = {
    "postgresql": (
        "sslmode",
        frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}),
    ),
    "mysql": ("sslMode", frozenset({"DISABLED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"})),
}
"""The one parameter of an address that is honoured, and its values."""
_TIMEOUT = "connection.max-retry-timeout"
_TIMEOUT_DEFAULT_MS = 60_000
FENCE_TABLE: Final = "tailrace_epochs"
"""Where each database keeps which epoch its tables are of; see `fence`."""
_NAME_MAX = 255


@dataclass(frozen=True, slots=True)
class Address:
    """A database, and the user that writes there."""

    dialect: Dialect
    host: str
    """Empty for a file."""
    port: int
    database: str
    """Its name; of SQLite the file's real path."""
    encryption: str = ""
    """The value of `sslmode`, if it is given."""
    username: str = ""
    password: str = field(default="", repr=False)
    connect_timeout_ms: int = _TIMEOUT_DEFAULT_MS


def address_of(options: Mapping[str, str], files_root: str) -> Address:
    """Where a table's database is.

    Raises:
        InvalidTableOption: An option is missing or cannot be.
        UnsupportedConnector: The address is of another kind of database.
        PathOutsideRoot: A file is.
    """
    url = options.get("url", "").strip()
    if not url:
        raise InvalidTableOption('option "url" is missing')
    prefix = next((each for each in _PREFIXES if url.lower().startswith(each)), None)
    if prefix is None:
        raise UnsupportedConnector(
            'option "url" does not name a supported database',
            hint=f"it must start with {', '.join(sorted(_PREFIXES))}",
        )
    dialect = _PREFIXES[prefix]
    timeout_ms = _timeout_ms(options)
    if dialect == "sqlite":
        return Address(
            dialect, "", 0, _file(url[len(prefix) :], files_root), "", "", "", timeout_ms
        )
    host, port, database, encryption = _server(dialect, url[len("jdbc:") :])
    user, password = options.get("username", ""), options.get("password", "")
    if password and not user:
        raise InvalidTableOption('option "password" needs option "username"')
    return Address(dialect, host, port, database, encryption, user, password, timeout_ms)


def table_of(options: Mapping[str, str]) -> tuple[str | None, str]:
    """Schema, if one is given, and name of the table.

    Raises:
        InvalidTableOption: It is missing or no name.
    """
    text = options.get("table-name", "")
    schema, dot, name = text.rpartition(".")
    if name.casefold() == FENCE_TABLE:
        raise InvalidTableOption(
            f'option "table-name" names {FENCE_TABLE}, which is reserved for the record of epochs',
            hint="another table",
        )
    if not name or (dot and not schema) or "." in schema or len(text) > _NAME_MAX:
        raise InvalidTableOption(
            'option "table-name" names no table' if text else 'option "table-name" is missing',
            hint="a table, or schema.table",
        )
    return schema or None, name


def check_host(address: Address, hosts: Sequence[str]) -> None:
    """See that the settings let plans write to a server.

    Raises:
        InvalidTableOption: They do not list it.
    """
    if not address.host:
        return
    place = f"{address.host}:{address.port}"
    if not {"*", address.host, place}.intersection(each.lower() for each in hosts):
        raise InvalidTableOption(
            'option "url" names a server that the settings do not list',
            hint="list its host, or host:port, in TAILRACE_DATABASES__HOSTS",
        )


def check_driver(address: Address) -> None:
    """See that the package that speaks to this kind of database is installed here.

    Raises:
        UnsupportedConnector: It is not.
    """
    if address.dialect not in _PACKAGES:
        return
    module, package = _PACKAGES[address.dialect]
    if find_spec(module) is None:
        raise UnsupportedConnector(
            f"a {address.dialect} database needs the Python package {package}",
            hint=f"install tailrace[{address.dialect}] for the service and the Spark workers",
        )


def _timeout_ms(options: Mapping[str, str]) -> int:
    try:
        found = parse_duration_ms(options.get(_TIMEOUT, f"{_TIMEOUT_DEFAULT_MS} ms"))
    except DurationError as error:
        raise InvalidTableOption(f'option "{_TIMEOUT}" is not a duration: {error}') from error
    if found < 1_000:
        raise InvalidTableOption(f'option "{_TIMEOUT}" must be at least 1 s')
    return found


def _file(text: str, files_root: str) -> str:
    if not text or "?" in text or text.startswith((":", "file:")):
        raise InvalidTableOption(
            'option "url" names no file', hint="jdbc:sqlite:path, relative to the files root"
        )
    return str(path_below(files_root, text))


def _server(dialect: Dialect, url: str) -> tuple[str, int, str, str]:
    """Host, port, database and encryption of an address without `jdbc:`."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS[dialect]
    except ValueError:
        host, port, parts = None, 0, urlsplit("")
    database = unquote(parts.path.removeprefix("/"))
    if not host or not database or "/" in database or "," in parts.netloc or parts.fragment:
        raise InvalidTableOption(
            'option "url" is not the address of a database',
            hint=f"jdbc:{dialect}://host:port/database",
        )
    parameters = parse_qsl(parts.query, keep_blank_values=True)
    names = {re.sub("[^a-z]", "", name.lower()) for name, _ in parameters}
    if "@" in parts.netloc or names & {"user", "username", "password"}:
        raise InvalidTableOption(
            'option "url" contains a user', hint='use options "username" and "password"'
        )
    known, values = _ENCRYPTION[dialect]
    for name, value in parameters:
        if name != known or value not in values:
            raise InvalidTableOption(
                'a parameter of option "url" is not honoured',
                hint=f"{known} may be {', '.join(sorted(values))}; leave out others",
            )
    return host, port, database, dict(parameters).get(known, "")
