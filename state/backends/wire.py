"""Commands and replies as they travel over one connection to Redis."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol

from redis.exceptions import RedisError, ResponseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Command = tuple[Any, ...]
"""Name and arguments: bytes, text or numbers. Or what `as_one` made."""

_PIECE_BYTES = 1024 * 1024
"""So much of a long request is sent before the rest of it is looked at. Less would wake Redis more
often: pieces of 64 kB cost both sides a twentieth of an epoch of 400 kB."""
_TOGETHER = "*as one*"
"""Stands in the place of a name in what `as_one` makes."""
_TRANSACTION_BYTES = 512 * 1024
"""What `as_one` made is sent in one transaction with its neighbours, up to here. An append-only
file that is synced always is so once a transaction: for a commit of 64 key groups 64 times, which
took Redis a third of its processor time, and tasks waited for the disk as often."""
_BYTES_ONLY: Final = {bytes}
_LENGTHS: Final = [b"\r\n$%d\r\n" % each for each in range(4_096)]
"""What stands before an argument of so many bytes, behind the one before it: formatting it takes
five times as long as looking it up."""
_MISSING_FUNCTION = "Function not found"


class Connection(Protocol):
    """What we use of redis-py's connections, whose own types are partial."""

    def on_connect(self) -> None:
        """Log in."""

    def disconnect(self) -> None:
        """Close it; the client opens it again when it is used."""

    def can_read(self) -> bool:
        """Whether something has come that nobody has read."""

    def send_command(self, *args: str) -> None:
        """Send one command."""

    def send_packed_command(self, command: object) -> None:
        """Send bytes that Redis reads as commands."""

    def read_response(self) -> Any:
        """The next reply; an error of Redis is raised."""


class Lender(Protocol):
    """Where a connection comes from."""

    def keep(self, connection: Connection) -> None:
        """Keep a connection whose replies were all read."""

    def give_back(self, connection: Connection) -> None:
        """Take a closed connection back."""


def as_one(*commands: Command) -> Command:
    """Commands that are carried out together or not at all (MULTI, EXEC): one for an exchange.

    Its reply is that of the last one, or the first error; where its neighbours are such commands,
    too, and one of them is refused, none is carried out, and the refusal is the reply to all.
    """
    return (_TOGETHER, *commands)


def is_together(command: Command) -> bool:
    """Whether `as_one` made it."""
    return bool(command[0] == _TOGETHER)


def exchanged(connection: Connection, commands: Sequence[Command]) -> list[Any]:
    """Replies to commands; an error of one stands for itself."""
    try:
        parcels = _parcels(commands)
        _send(connection, parcels)
        return _replies_to(connection, parcels)
    except BaseException:  # replies of this exchange must never be read as those of another
        connection.disconnect()
        raise


def misses_function(commands: Sequence[Command], replies: Sequence[Any]) -> bool:
    """Whether a reply, or one in that of a transaction, says that our functions are not loaded."""
    return any(
        isinstance(each, ResponseError) and _MISSING_FUNCTION in str(each)
        for command, reply in zip(commands, replies, strict=True)
        for each in (reply if command[0] == "EXEC" and isinstance(reply, list) else (reply,))
    )


class SentAhead:
    """Commands on a connection of their own until their replies are read; see `Ahead`."""

    def __init__(self, lender: Lender, connection: Connection) -> None:
        self._lender = lender
        self._connection: Connection | None = connection
        self._commands: list[Command] = []
        self._parcels: list[Sequence[Command]] = []
        """The same as they were sent."""

    def send(self, commands: Sequence[Command]) -> None:
        """Send more."""
        if self._connection is None or not commands:
            return
        parcels = _parcels(commands)
        try:
            _send(self._connection, parcels)
        except BaseException as error:  # whatever it was, half of it may have gone
            self._break_off()
            if not isinstance(error, RedisError):
                raise
        self._commands += commands
        self._parcels += parcels

    def replies(self) -> list[Any] | None:
        """All replies; None if something broke, or our functions are not loaded."""
        connection = self._connection
        if connection is None:
            return None
        try:
            replies = _replies_to(connection, self._parcels)
        except BaseException as error:  # whatever it was, some replies were not read
            self._break_off()
            if not isinstance(error, RedisError):
                raise
            return None
        self._connection = None
        self._lender.keep(connection)
        return None if misses_function(self._commands, replies) else replies

    def _break_off(self) -> None:
        """Replies that were not read must never be read as those of others."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()
            self._lender.give_back(connection)

    def __del__(self) -> None:
        # An attempt that fails before it asks has nobody else who would know.
        self._break_off()


def _parcels(commands: Sequence[Command]) -> list[Sequence[Command]]:
    """Commands as they go: one by one, but neighbours that `as_one` made in one transaction."""
    parcels: list[Sequence[Command]] = []
    room = -1
    for command in commands:
        if not is_together(command):
            parcels.append((command,))
            room = -1
            continue
        texts = (each for part in command[1:] for each in part if isinstance(each, bytes))
        length = sum(map(len, texts))
        if length <= room:
            parcels[-1] = (*parcels[-1], command)
            room -= length
        else:
            parcels.append((command,))
            room = _TRANSACTION_BYTES - length
    return parcels


def _send(connection: Connection, parcels: Sequence[Sequence[Command]]) -> None:
    connection.send_packed_command(_encoded(_on_the_wire(parcels)))


def _replies_to(connection: Connection, parcels: Sequence[Sequence[Command]]) -> list[Any]:
    replies: list[Any] = []
    for parcel in parcels:
        if is_together(parcel[0]):
            replies += _replies_of_all(connection, [len(each) - 1 for each in parcel])
        else:
            replies.append(_reply(connection))
    return replies


def _on_the_wire(parcels: Sequence[Sequence[Command]]) -> list[Command]:
    sent: list[Command] = []
    for parcel in parcels:
        if is_together(parcel[0]):
            sent += [("MULTI",), *(part for each in parcel for part in each[1:]), ("EXEC",)]
        else:
            sent += parcel
    return sent


def _encoded(commands: Sequence[Command]) -> Iterator[bytes]:
    """Commands as Redis reads them; without a step of Python for each of many arguments.

    In pieces: Redis takes a long command in while the one behind it is still put together.
    """
    parts: list[bytes] = []
    held = 0
    for command in commands:
        texts = [_text(command[0]), *command[1:]]
        if {*map(type, texts)} != _BYTES_ONLY:
            texts = [*map(_text, texts)]
        lengths = [*map(len, texts)]
        pieces = [b""] * (2 * len(texts))
        if max(lengths) < len(_LENGTHS):
            pieces[0::2] = map(_LENGTHS.__getitem__, lengths)
        else:
            known = len(_LENGTHS)
            pieces[0::2] = [
                _LENGTHS[each] if each < known else b"\r\n$%d\r\n" % each for each in lengths
            ]
        pieces[1::2] = texts
        parts += (b"*%d" % len(texts), *pieces, b"\r\n")
        held += sum(lengths)
        if held >= _PIECE_BYTES:
            yield b"".join(parts)
            parts, held = [], 0
    if parts:
        yield b"".join(parts)


def _text(argument: object) -> bytes:
    return argument if isinstance(argument, bytes) else str(argument).encode()


def _reply(connection: Connection) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


def _replies_of_all(connection: Connection, counts: Sequence[int]) -> list[Any]:
    """The replies to what `as_one` made of so many commands each, which come with the last."""
    queued = [_reply(connection) for _ in range(sum(counts) + 1)]
    done = _reply(connection)
    refusals = [each for each in (*queued, done) if isinstance(each, Exception)]
    if refusals:
        return [refusals[0]] * len(counts)
    return [
        next((each for each in done[low:high] if isinstance(each, Exception)), done[high - 1])
        for low, high in pairwise(accumulate(counts, initial=0))
    ]
