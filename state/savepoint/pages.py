"""Structures of Redis in pieces of bounded size, while nobody writes to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from state.backends.transport import checked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from state.backends.transport import Command, Transport

COUNT: Final = 250
"""About how many fields or members a page has."""
ENTRIES: Final = 16
"""How many entries of a stream a page has: at ingress, each is the body of a request."""
_BEGINNING: Final = b"-"

Entry = tuple[bytes, list[bytes]]
"""Id and flat fields of a stream's entry."""


class Pages:
    """Reads structures, a round trip a page.

    No page is read while the structure changes, so each field comes exactly once.

    Raises (any call): StateUnavailable, IncarnationChanged, StateAccessDenied, StateCorrupt.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def ask(self, *commands: Command) -> list[Any]:
        """The replies to commands that change nothing, in one round trip."""
        return checked(self._transport.exchange(commands, is_repeatable=True))

    def fields(self, key: bytes) -> Iterator[list[bytes]]:
        """A hash: fields and values, alternating."""
        cursor = 0
        while True:
            ((cursor, flat),) = self.ask(("HSCAN", key, cursor, "COUNT", COUNT))
            if flat:
                yield flat
            if int(cursor) == 0:
                return

    def scores(self, key: bytes) -> Iterator[list[tuple[bytes, float]]]:
        """A sorted set: members with their scores, lowest first."""
        start = 0
        while True:
            (flat,) = self.ask(("ZRANGE", key, start, start + COUNT - 1, "WITHSCORES"))
            if not flat:
                return
            yield list(zip(flat[0::2], map(float, flat[1::2]), strict=True))
            start += COUNT

    def members(self, key: bytes) -> Iterator[list[bytes]]:
        """A list, in order."""
        start = 0
        while True:
            (values,) = self.ask(("LRANGE", key, start, start + COUNT - 1))
            if not values:
                return
            yield values
            start += COUNT

    def entries(self, key: bytes, after: bytes = b"") -> Iterator[list[Entry]]:
        """A stream, oldest entry first, from the first one behind an id."""
        low = b"(" + after if after else _BEGINNING
        while True:
            (entries,) = self.ask(("XRANGE", key, low, "+", "COUNT", ENTRIES))
            if not entries:
                return
            yield [(identity, fields) for identity, fields in entries]
            low = b"(" + bytes(entries[-1][0])

    def last_id(self, key: bytes) -> bytes:
        """The newest id that a stream ever gave, whether its entry is still there; b"" if none."""
        (kind,) = self.ask(("TYPE", key))
        if kind != b"stream":
            return b""
        (info,) = self.ask(("XINFO", "STREAM", key))
        told: Sequence[Any] = info
        return bytes(dict(zip(told[0::2], told[1::2], strict=True))[b"last-generated-id"])
