"""Round trips to Redis: many commands out, their replies back, errors in our words.

What is hard here is what may be repeated. Opening a connection may always be tried again, a batch
of commands only where its caller says that it is safe; anything else that breaks off is reported as
`StateUnavailable`, with the effect unknown. Each new connection compares the server's run id with
the one that the run of the pipeline began with, since a Redis that restarted may have lost writes
that it had acknowledged. Functions are loaded when a call first misses them.

Used by the Redis backend, the ledger and the reader; `Transport` is what the crash tests fake.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import redis
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)
from redis.maint_notifications import MaintNotificationsConfig
from redis.retry import Retry

from state.backends.wire import Command, Connection, SentAhead, as_one, exchanged, misses_function
from state.errors import (
    FormatVersionMismatch,
    IncarnationChanged,
    StateAccessDenied,
    StateCorrupt,
    StateError,
    StateUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Ahead",
    "ClientSettings",
    "Command",
    "RedisTransport",
    "Transport",
    "as_one",
    "checked",
    "function",
    "kind_of",
    "library",
    "shared_transport",
    "translate",
    "transport_of",
]

_AWAY = (
    ConnectionError,
    TimeoutError,
    ReadOnlyError,
    OutOfMemoryError,
    ClusterDownError,
    TryAgainError,
)
_DENIED = (AuthenticationError, AuthorizationError, NoPermissionError)
_PASSING = ("MISCONF", "BUSY", "NOREPLICAS", "LOADING", "MASTERDOWN")
_ADDRESS = {"host", "port", "path", "db", "username", "password", "credential_provider"}
_DRIVER = DriverInfo()
"""What redis-py says of itself; else each connection looks its version up in what is installed."""
_CODE = re.compile(r"[A-Z]+")
_FORMATS = re.compile(r"FORMAT (\d+) (\d+) (\d+)")
_UNKNOWN = re.compile(r"UNKNOWN ([A-Z]{1,32})")
_CORRUPT = re.compile(r"CORRUPT ([a-z][a-z ,]{1,80})")
_OF_ANOTHER_VERSION = (
    "nothing was overwritten: go on with the version that wrote it, or take a savepoint with that "
    "one and restore it with this one"
)


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How to reach Redis, and for how long to try."""

    url: str = field(repr=False)
    """redis://, rediss:// or unix://; may hold a password."""
    connect_timeout_ms: int = 2_000
    socket_timeout_ms: int = 30_000
    """For one reply; promoting or closing a big epoch is one."""
    attempts_max: int = 3
    """Of opening a connection, and of what may be repeated."""
    backoff_ms: int = 50
    """Before the second attempt; doubled before each further one."""

    def __post_init__(self) -> None:
        if min(self.connect_timeout_ms, self.socket_timeout_ms, self.attempts_max) < 1:
            raise ValueError("timeouts and attempts begin at 1")


@runtime_checkable
class Transport(Protocol):
    """Where commands go."""

    @property
    def incarnation(self) -> str:
        """The server's run id; connects if there was no connection yet."""

    @property
    def place(self) -> tuple[str, int]:
        """What holds the keys: the server's run id, and the number of one of its databases."""

    def exchange(self, commands: Sequence[Command], *, is_repeatable: bool = False) -> list[Any]:
        """Send commands in one round trip and wait for all replies.

        Args:
            commands: They are carried out in order, but not as one.
            is_repeatable: Whether all of them may be carried out twice.

        Returns:
            A reply each; a `ResponseError` stands for itself, so that one does not hide others.

        Raises:
            StateUnavailable: No reply; unknown how many commands were carried out.
            StateAccessDenied: Wrong credentials.
            IncarnationChanged: The server is another process than the run began with.
        """

    def ahead(self) -> Ahead | None:
        """A way to send commands before their replies are wanted; None if there is none now."""

    def close(self) -> None:
        """Close idle connections."""


class Ahead(Protocol):
    """Commands that may be carried out twice, on their way while the caller does something else.

    Nothing is lost with one that nobody asks for its replies, but for a connection.
    """

    def send(self, commands: Sequence[Command]) -> None:
        """Send commands behind those that were sent before; what goes wrong shows in `replies`."""

    def replies(self) -> list[Any] | None:
        """All replies, once; None if something broke: then all are to be sent by `exchange`."""


class RedisTransport:
    """Round trips over a pool of connections to one Redis.

    Characteristics:
        timeouts      of connect and of each reply
        repeats       opening a connection, and repeatable batches, up to a limit
        thread-safe   yes; a connection for each round trip under way, kept for the next one
        forks         a child opens connections of its own
    """

    def __init__(
        self, source: redis.Redis | ClientSettings, incarnation: str | None = None
    ) -> None:
        """Take a client's address and credentials, or settings; connects at first use."""
        limits = source if isinstance(source, ClientSettings) else ClientSettings("")
        self._attempts = limits.attempts_max
        self._backoff_ms = limits.backoff_ms
        self._expected = incarnation
        self._pool = self._own_pool(source, limits)
        self._spare: list[tuple[int, Connection]] = []
        """Connections that nobody uses, each with the process that opened it."""

    @property
    def incarnation(self) -> str:
        """The server's run id.

        Raises:
            StateUnavailable: It does not tell, or does not answer.
        """
        if self._expected is None:
            self.exchange([("PING",)], is_repeatable=True)
        if self._expected is None:
            raise StateUnavailable("redis does not tell its run id")
        return self._expected

    @property
    def place(self) -> tuple[str, int]:
        """The server's run id and the number of the database; raises as `incarnation`."""
        return self.incarnation, int(self._pool.connection_kwargs.get("db") or 0)

    def exchange(self, commands: Sequence[Command], *, is_repeatable: bool = False) -> list[Any]:
        """Send commands in one round trip; see `Transport.exchange`."""
        if not commands:
            return []
        replies = self._attempted(commands, is_repeatable=is_repeatable)
        if misses_function(commands, replies):
            # All our functions may be called twice: what went through the first time stays so.
            self._attempted([("FUNCTION", "LOAD", "REPLACE", library()[0])], is_repeatable=True)
            replies = self._attempted(commands, is_repeatable=is_repeatable)
        return replies

    def ahead(self) -> Ahead | None:
        """Over a connection that is open already; none is opened for it."""
        connection = self._ready()
        return None if connection is None else SentAhead(self, connection)

    def close(self) -> None:
        """Close all connections."""
        while (connection := self._spared()) is not None:
            self.give_back(connection)
        self._pool.disconnect()

    def _attempted(self, commands: Sequence[Command], *, is_repeatable: bool) -> list[Any]:
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(self._backoff_ms * 2 ** (attempt - 1) / 1_000)
            is_last = attempt == self._attempts - 1
            try:
                connection = self._connection()
            except RedisError as error:
                if is_last or isinstance(error, _DENIED):
                    raise translate(error) from error
                continue
            try:
                replies = exchanged(connection, commands)
            except BaseException as error:  # the connection is closed; the pool counts those lent
                self.give_back(connection)
                if not isinstance(error, RedisError):
                    raise
                if is_last or not is_repeatable or isinstance(error, _DENIED):
                    raise translate(error) from error
            else:
                self.keep(connection)
                return replies
        raise StateUnavailable("redis was not tried")

    def keep(self, connection: Connection) -> None:
        """Keep a connection whose replies were all read.

        Taking one from the pool and giving it back costs as much as the round trip of a short
        command, so it is kept beside the pool.
        """
        self._spare.append((os.getpid(), connection))

    def give_back(self, connection: Connection) -> None:
        """Give a closed connection back to the pool, which counts those it lent."""
        lent = cast("redis.Connection", connection)  # the part of what is lent that is used here
        self._pool.release(lent)

    def _connection(self) -> Connection:
        """A connection that nobody uses."""
        connection = self._ready()
        if connection is not None:
            return connection
        return cast("Connection", self._pool.get_connection())  # the part that is used here

    def _ready(self) -> Connection | None:
        """A spare connection that is still open; None if there is none."""
        while (connection := self._spared()) is not None:
            is_ready = False
            try:
                is_ready = not connection.can_read()
            except RedisError:
                # The server closed it; the pool opens it again, and we see who answers.
                pass
            finally:
                if not is_ready:
                    connection.disconnect()
                    self.give_back(connection)
            if is_ready:
                return connection
        return None

    def _spared(self) -> Connection | None:
        """One of the spare connections, no longer spare; those of a parent process are left."""
        while self._spare:
            try:
                process, connection = self._spare.pop()
            except IndexError:
                # Another thread took the last one.
                break
            if process == os.getpid():
                return connection
        return None

    def _own_pool(
        self, source: redis.Redis | ClientSettings, limits: ClientSettings
    ) -> redis.ConnectionPool:
        """A pool like the client's, but with our limits, bytes as replies, and our check."""
        if isinstance(source, ClientSettings):
            given = redis.ConnectionPool.from_url(source.url)
        else:
            given = source.connection_pool
        # Where it is and who we are; its policies and handlers are replaced by ours.
        options = {
            name: value
            for name, value in given.connection_kwargs.items()
            if name in _ADDRESS or name.startswith("ssl_")
        }
        options |= {
            "socket_timeout": limits.socket_timeout_ms / 1_000,
            "socket_connect_timeout": limits.connect_timeout_ms / 1_000,
            "decode_responses": False,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "maint_notifications_config": MaintNotificationsConfig(enabled=False),
            "redis_connect_func": self._greet,
            "driver_info": _DRIVER,
        }
        return redis.ConnectionPool(connection_class=given.connection_class, **options)

    def _greet(self, connection: Connection) -> None:
        """Log in, and see that the server is the one that the run began with."""
        try:
            connection.on_connect()
            connection.send_command("INFO", "server")
            self._recognize(connection.read_response())
        except BaseException:  # the pool would lend it again, with replies that nobody has read
            connection.disconnect()
            raise

    def _recognize(self, server: bytes) -> None:
        """See that what a server tells of itself is what the first one told."""
        told = re.search(rb"^run_id:(\w+)", server, re.MULTILINE)
        found = told[1].decode() if told else "unknown"
        if self._expected is None:
            self._expected = found
        elif found != self._expected:
            raise IncarnationChanged(self._expected, found)


def transport_of(
    source: Transport | redis.Redis | ClientSettings, incarnation: str | None = None
) -> Transport:
    """A transport as it is, or one of its own for a client or for settings."""
    if isinstance(source, (redis.Redis, ClientSettings)):
        return RedisTransport(source, incarnation)
    return source


@cache
def shared_transport(settings: ClientSettings, incarnation: str | None) -> RedisTransport:
    """One transport for all tasks of this process that talk to the same incarnation."""
    return RedisTransport(settings, incarnation)


@cache
def library() -> tuple[str, str]:
    """The source of our functions, and the version that is part of their names."""
    source = Path(__file__).with_name("tailrace.lua").read_text(encoding="utf-8")
    version = hashlib.sha256(source.encode()).hexdigest()[:12]
    return source.replace("VERSION", version), version


@cache
def function(name: str) -> str:
    """The full name of one of our functions."""
    return f"{name}_{library()[1]}"


def translate(error: RedisError) -> StateError:
    """An error of Redis in our words; replies that our functions give are told apart elsewhere.

    Of the error's text only the kind goes on: messages of ours reach users, and the text may hold
    addresses, names of users, or what a command was given.
    """
    if isinstance(error, _DENIED):
        return StateAccessDenied(f"redis denies access ({kind_of(error)})")
    if formats := _FORMATS.fullmatch(str(error)):
        found, least, most = map(int, formats.groups())
        whose = "an older" if found < least else "a newer"
        return FormatVersionMismatch(
            f"state in redis has format {found}, written by {whose} version; this version reads "
            f"formats {least} to {most}",
            hint=_OF_ANOTHER_VERSION,
        )
    if unknown := _UNKNOWN.fullmatch(str(error)):
        return FormatVersionMismatch(
            f"writes that wait in redis hold a command {unknown[1]}, which this version does not "
            "know",
            hint=_OF_ANOTHER_VERSION,
        )
    if corrupt := _CORRUPT.fullmatch(str(error)):
        # Words of our own functions, which name types at most.
        return StateCorrupt(f"what is stored in redis is not what we write: {corrupt[1]}")
    if isinstance(error, _AWAY) or str(error).startswith(_PASSING):
        return StateUnavailable(f"redis does not answer ({kind_of(error)})")
    return StateCorrupt(f"redis refuses a command ({kind_of(error)})")


def checked(replies: Sequence[Any]) -> list[Any]:
    """The replies, if none is an error.

    Raises:
        StateUnavailable, StateAccessDenied, StateCorrupt: The first error among them.
    """
    for reply in replies:
        if isinstance(reply, RedisError):
            raise translate(reply) from reply
    return list(replies)


def kind_of(error: RedisError) -> str:
    """The server's own code, such as MISCONF, where it gave one; else the client's class."""
    code = str(error).partition(" ")[0]
    is_code = isinstance(error, ResponseError) and _CODE.fullmatch(code) is not None
    return code if is_code else type(error).__name__
