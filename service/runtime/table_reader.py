"""Sinks' Redis tables, dead letters and progress: what lies in a pipeline's own slot.

Closing an epoch changes all of it in one call, so one MULTI that reads the marker too sees one
epoch. Tables are `canonical primary key -> row` hashes (`slot_keys`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from service.runtime.inspection import glob_of
from service.runtime.inspection_errors import KeyNotFound
from service.runtime.key_listing import Part
from service.runtime.slot_keys import (
    CLOSES_NAME,
    DEAD_COUNT_NAME,
    DEAD_NAME,
    INGRESS_DEAD_NAME,
    PROGRESS_NAME,
    TOTALS_NAME,
    print_name,
    slot_key,
    table_name,
)
from service.runtime.transactions import transact
from state.backends.byte_client import byte_client
from state.backends.names import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import redis

    from service.runtime.key_text import KeyText
    from state.backends.byte_client import Entry, Pipeline

SCANS_MAX = 64
_SCAN_COUNT = 500


class SlotReader:
    """Reads what lies in one pipeline's slot; blocks for a round trip each call."""

    def __init__(self, client: redis.Redis, pipeline: str) -> None:
        self._client = byte_client(client)
        self._pipeline = pipeline

    def epoch(self) -> int:
        """The last closed epoch."""
        return self._with_epoch(lambda transaction: None)[0]

    def marker(self) -> tuple[int, dict[str, Any]]:
        """The last closed epoch, and where each source's reading had come by its end."""
        epoch, offsets = self.marker_text()
        return epoch, orjson.loads(offsets)

    def marker_text(self) -> tuple[int, str]:
        """The same as it is stored."""
        held = self._client.hmget(self._key("marker"), ["epoch", "offsets"])
        return int(held[0] or 0), (held[1] or b"{}").decode()

    def table_row(self, table: str, canonical: bytes) -> tuple[int, dict[str, Any]]:
        """The epoch and the row of a key.

        Raises:
            KeyNotFound: the table has none.
        """
        name = self._key(table_name(table))
        epoch, found = self._with_epoch(lambda transaction: transaction.hget(name, canonical))
        if found is None:
            raise KeyNotFound(f"the table has no row of this key in epoch {epoch}")
        return epoch, orjson.loads(found)

    def table_rows(
        self, table: str, keys: KeyText, prefix: str, start: tuple[int, str] | None, limit: int
    ) -> Part[tuple[list[Any], dict[str, Any]]]:
        """A page of a table; a position is a scan cursor and the last key taken behind it.

        A row that is there all the time is listed at least once; while the table grows or shrinks,
        one may be listed twice.
        """
        name, match = self._key(table_name(table)), glob_of(keys.prefix(prefix) if prefix else b"")
        cursor, last = start or (0, "")
        found: list[tuple[list[Any], dict[str, Any]]] = []
        epoch = 0
        for _ in range(SCANS_MAX):
            epoch, (after, page) = self._scan(name, cursor, match)
            names = sorted(each for each in page if each > last.encode())
            room = limit - len(found)
            found += [(keys.shown.values(n), orjson.loads(page[n])) for n in names[:room]]
            if len(names) > room:
                return Part(tuple(found), (cursor, names[room - 1].decode()), epoch)
            cursor, last = after, ""
            if not cursor:
                return Part(tuple(found), None, epoch)
            if len(found) == limit:
                break
        return Part(tuple(found), (cursor, last), epoch)

    def rows_together(
        self, wanted: Sequence[tuple[str, bytes | None]]
    ) -> tuple[int, list[dict[bytes, bytes]]]:
        """Rows of several tables as of one epoch, and which it is.

        Args:
            wanted: Tables, each with a key, or None for all of its rows.
            limit: Most rows of one table.

        Returns:
            The epoch, and for each wanted what there is, by canonical key.

        Raises:
            TableTooLarge: All rows of a table are wanted, and it has more.
        """

        def read(transaction: Pipeline) -> None:
            for table, key in wanted:
                name = self._key(table_name(table))
                if key is None:
                    transaction.hgetall(name)
                else:
                    transaction.hget(name, key)

        epoch, *found = self._together(read)
        rows = [
            each if key is None else ({} if each is None else {key: each})
            for (_, key), each in zip(wanted, found, strict=True)
        ]
        return int(epoch or 0), rows

    def print_changes(self, sink: str, after: str, limit: int) -> Part[tuple[int, dict[str, Any]]]:
        """A page of the newest changes of a print sink, oldest first, each with its epoch.

        A position is the id of the last one taken. What is trimmed meanwhile is left out.
        """
        name, low = self._key(print_name(sink)), f"({after}" if after else "-"
        epoch, entries = self._with_epoch(
            lambda transaction: transaction.xrange(name, low, "+", count=limit + 1)
        )
        found = tuple(
            (int(identity.partition(b"-")[0]), orjson.loads(fields[b"change"]))
            for identity, fields in entries[:limit]
        )
        position = (entries[limit - 1][0].decode(),) if len(entries) > limit else None
        return Part(found, position, epoch)

    def print_size(self, sink: str) -> int:
        """Changes that a print sink keeps."""
        return self._client.xlen(self._key(print_name(sink)))

    def table_size(self, table: str) -> int:
        """Rows of a table."""
        return self._client.hlen(self._key(table_name(table)))

    def progress(self, before: int | None, limit: int) -> tuple[int, list[dict[str, Any]]]:
        """The epoch, and records of closed epochs, newest first, from before one of them.

        To each is added `close_ms`: what the sinks' commit took until the marker moved.
        """
        name = self._key(PROGRESS_NAME)
        # A number without a dash is the last id that begins with it; there is no epoch 0.
        newest = "+" if before is None else str(max(before, 1) - 1)
        epoch, found = self._with_epoch(
            lambda transaction: transaction.xrevrange(name, newest, "-", count=limit)
        )
        return epoch, self._records(found)

    def totals(self) -> dict[str, int]:
        """Sums over all closed epochs, their number, and all dead letters, the door's with them."""
        name = self._key(TOTALS_NAME)
        epoch, held = self._with_epoch(lambda transaction: transaction.hgetall(name))
        sums = {each: int(held.get(each.encode(), 0)) for each in ("rows_in", "rows_out")}
        return {"epochs": epoch, **sums, "dead": self.dead_count()}

    def dead_count(self) -> int:
        """Dead letters that the pipeline ever had, whatever the way in."""
        return int(self._client.get(self._key(DEAD_COUNT_NAME)) or 0)

    def registered(self) -> dict[bytes, bytes]:
        """What is registered with the pipeline; see `state.registry`."""
        return self._client.hgetall(self._key(REGISTRY.decode()))

    def add_registered(self, field: bytes, by: int, check: Callable[[int], None]) -> int:
        """Add to an entry of it that holds an integer, unless `check` of it raises; its new value.

        Raises:
            RegistryUnavailable: Redis does not answer.
        """
        key = self._key(REGISTRY.decode())

        def add(transaction: Pipeline) -> int:
            held = int(transaction.hget(key, field) or 0)
            check(held)
            transaction.multi()
            transaction.hincrby(key, field, by)
            return held + by

        return transact(self._client, add, key)

    def progress_after(self, epoch: int, limit: int) -> list[dict[str, Any]]:
        """Records of epochs after one, oldest first."""
        found = self._client.xrange(self._key(PROGRESS_NAME), f"({epoch}-0", "+", count=limit)
        return self._records(found)

    def _records(self, entries: Sequence[Entry]) -> list[dict[str, Any]]:
        """Progress records, each with what closing its epoch took; None where nobody noted it."""
        if not entries:
            return []
        ends = sorted(
            (entries[0][0], entries[-1][0]), key=lambda each: int(each.partition(b"-")[0])
        )
        noted = self._client.xrange(self._key(CLOSES_NAME), ends[0].decode(), ends[1].decode())
        closes = dict(noted)
        return [
            {
                **orjson.loads(fields[b"progress"]),
                "close_ms": float(closes[identity][b"ms"]) if identity in closes else None,
            }
            for identity, fields in entries
        ]

    def dead_letters(
        self, start: tuple[int, str] | None, limit: int
    ) -> tuple[int, list[dict[str, Any]], tuple[int, str] | None]:
        """How many there were, a page of them, and where the next one starts.

        First those that sources rejected, then those that were rejected at ingress; oldest first in
        each. A position is which of the two lists, and the id of the last one taken.
        """
        streams = (self._key(DEAD_NAME), self._key(INGRESS_DEAD_NAME))
        count = self.dead_count()
        number, after = start or (0, "")
        found: list[dict[str, Any]] = []
        position: tuple[int, str] | None = None
        while 0 <= number < len(streams):
            low = f"({after}" if after else "-"
            room = limit - len(found)
            page = self._client.xrange(streams[number], low, "+", count=room + 1)
            for identity, fields in page[:room]:
                found.append(_letter(number, identity, fields))
                position = (number, identity.decode())
            if len(page) > room:
                return count, found, position or (number, after)
            number, after = number + 1, ""
        return count, found, None

    def _scan(
        self, name: str, cursor: int, match: bytes | None
    ) -> tuple[int, tuple[int, dict[bytes, bytes]]]:
        epoch, reply = self._with_epoch(
            lambda transaction: transaction.hscan(name, cursor, match=match, count=_SCAN_COUNT)
        )
        return epoch, (int(reply[0]), reply[1])

    def _with_epoch(self, read: Callable[[Pipeline], Any]) -> tuple[int, Any]:
        epoch, *found = self._together(read)
        return int(epoch or 0), found[0] if found else None

    def _together(self, read: Callable[[Pipeline], Any]) -> Sequence[Any]:
        """The replies to the marker's epoch and to what `read` asks, of one moment."""
        with self._client.pipeline(transaction=True) as transaction:
            transaction.hget(self._key("marker"), "epoch")
            read(transaction)
            replies: Sequence[Any] = transaction.execute()
        return replies

    def _key(self, name: str) -> str:
        return slot_key(self._pipeline, name)


def _letter(number: int, identity: bytes, fields: dict[bytes, bytes]) -> dict[str, Any]:
    letter = orjson.loads(fields[b"letter"])
    shown = {name: letter.get(name) for name in ("table", "position", "reason")}
    first = int(identity.partition(b"-")[0])
    if number:
        return {**shown, "origin": "ingress", "epoch": None, "time_ms": first}
    return {**shown, "origin": "source", "epoch": first, "time_ms": None}
