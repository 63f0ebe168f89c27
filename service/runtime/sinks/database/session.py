"""Connections to a database, and what its errors become.

Nothing of an error of a driver or of SQLAlchemy goes on: they hold statements, addresses and values
of rows. What is told is our own words, the table, and where the driver gives them, the error's
SQLSTATE and the constraint's name.
"""

from __future__ import annotations

import contextlib
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.pool import NullPool

from service.runtime.dataflow_errors import SinkRefused, SinkUnavailable

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from service.runtime.sinks.database.options import Address

LOCK_TIMEOUT_S = 60
"""Longest wait for a lock that another one holds on a table."""
_REPLY_TIMEOUT_S = 600
"""Longest wait for a reply of a MySQL server."""
_REFUSALS = (exc.IntegrityError, exc.DataError, exc.ProgrammingError, exc.NotSupportedError)
"""What another attempt would meet again."""
_REFUSED_STATES = ("22", "23")
"""Classes of SQLSTATE of the same: a value that does not fit, a constraint. Drivers differ in the
kinds of error that they make of them."""


def open_engine(address: Address) -> sa.Engine:
    """An engine for one transaction an epoch: each has a connection of its own.

    A connection that rested for an epoch would have to be asked whether it lives, which is no less.
    """
    engine = sa.create_engine(
        _url(address),
        connect_args=_connect_arguments(address),
        hide_parameters=True,
        poolclass=NullPool,
    )
    if address.dialect == "sqlite":
        # Else its driver begins a transaction late, and not at all before CREATE.
        sa.event.listen(engine, "connect", _leave_transactions_to_us)
        sa.event.listen(engine, "begin", _begin_with_the_lock)
    return engine


def _url(address: Address) -> sa.URL:
    if address.dialect == "sqlite":
        # A file that is not there is not made.
        query = {"mode": "rw", "uri": "true"}
        return sa.URL.create("sqlite", database=f"file:{quote(address.database)}", query=query)
    return sa.URL.create(
        {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}[address.dialect],
        username=address.username or None,
        password=address.password or None,
        host=address.host,
        port=address.port,
        database=address.database,
    )


def _connect_arguments(address: Address) -> dict[str, Any]:
    timeout_s = max(1, address.connect_timeout_ms // 1_000)
    match address.dialect:
        case "postgresql":
            found: dict[str, Any] = {
                "connect_timeout": timeout_s,
                "application_name": "tailrace",
                "options": f"-c lock_timeout={LOCK_TIMEOUT_S}s -c timezone=UTC",
                "keepalives_idle": 30,
                "keepalives_interval": 10,
                "keepalives_count": 3,
            }
            return found | ({"sslmode": address.encryption} if address.encryption else {})
        case "mysql":
            return {
                "connect_timeout": timeout_s,
                "read_timeout": _REPLY_TIMEOUT_S,
                "write_timeout": _REPLY_TIMEOUT_S,
                "charset": "utf8mb4",
                # A value that does not fit is an error, whatever the server's default is.
                "init_command": "SET time_zone = '+00:00', "
                f"innodb_lock_wait_timeout = {LOCK_TIMEOUT_S}, "
                "sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ENGINE_SUBSTITUTION,"
                "NO_AUTO_VALUE_ON_ZERO'",
                "ssl": _encryption(address.encryption),
                # Else the driver, told nothing, tries encryption first.
                "ssl_disabled": address.encryption == "DISABLED",
            }
        case "sqlite":
            return {"timeout": LOCK_TIMEOUT_S}


def _encryption(mode: str) -> ssl.SSLContext | None:
    """What MySQL's driver takes for a value of `sslMode`."""
    if mode in ("", "DISABLED"):
        return None
    context = ssl.create_default_context()
    context.check_hostname = mode == "VERIFY_IDENTITY"
    if mode == "REQUIRED":
        context.verify_mode = ssl.CERT_NONE
    return context


def _leave_transactions_to_us(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None


def _begin_with_the_lock(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn errors of a database into ours.

    Args:
        what: The words for what was to be done with which table.

    Raises:
        SinkRefused: The database does not take it, now or later.
        SinkUnavailable: It does not answer, refuses the login, or cannot do it for now.
    """
    try:
        yield
    except exc.DBAPIError as error:
        if isinstance(error, _REFUSALS) or _state(error).startswith(_REFUSED_STATES):
            raise SinkRefused(f"the database refuses to {what}{_evidence(error)}") from None
        raise SinkUnavailable(f"the database cannot {what} for now{_evidence(error)}") from None
    except exc.StatementError:
        raise SinkRefused(f"the database's driver cannot {what}") from None
    except exc.SQLAlchemyError as error:
        raise SinkUnavailable(f"the database cannot {what}: {type(error).__name__}") from None


def _evidence(error: exc.DBAPIError) -> str:
    """The kind of an error, and what of it holds no values."""
    cause = error.orig
    found = [type(cause).__name__]
    if state := _state(error):
        found.append(state)
    diagnosis = getattr(cause, "diag", None)
    named = {kind: getattr(diagnosis, f"{kind}_name", None) for kind in ("constraint", "column")}
    found += [f"{kind} {name}" for kind, name in named.items() if name]
    return f": {', '.join(found)}"


def _state(error: exc.DBAPIError) -> str:
    """The SQLSTATE of an error, or its number or name where the driver has none."""
    cause = error.orig
    state = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None)
    number = cause.args[0] if cause is not None and cause.args else None
    return str(state or (number if isinstance(number, int) else ""))
