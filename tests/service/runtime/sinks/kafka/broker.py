"""A stand-in for a Kafka broker: real sockets and Kafka's protocol, with transactions that count.

librdkafka's own mock cluster takes transactions and forgets their offsets, fences nobody, and shows
records of transactions that were aborted. This one does those three as Kafka does (KIP-98), since
they are what the sinks here depend on; it keeps everything in memory, in one broker, and knows only
the versions of requests that it lists.

What it cannot show: replication, coordinators that move, expiry of transactions by time,
authentication, quotas, compression. What a real broker does in these is taken on trust.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.service.runtime.sinks.kafka.wire_format import Batch, Reader, many, read_batches, text

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_THERE = 3
TOO_LARGE = 10
TOPIC_DENIED = 29
UNSUPPORTED_VERSION = 35
PRODUCE, END = 0, 26
"""Kinds of requests that tests name."""
STALE_PRODUCER = 47
NO_TRANSACTION = 48
TRANSACTION_DENIED = 53
_VERSIONS = {
    0: (0, 7), 1: (0, 4), 2: (0, 2), 3: (0, 4), 8: (0, 2), 9: (0, 5), 10: (0, 1), 18: (0, 0),
    22: (0, 1), 24: (0, 0), 25: (0, 0), 26: (0, 1), 28: (0, 2),
}  # fmt: skip  # a list of numbers
Offsets = dict[tuple[str, str, int], tuple[int, str | None]]
"""By group, topic and partition: offset and metadata."""


@dataclass
class Record:
    """A record in a partition's log."""

    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: tuple[tuple[bytes, bytes], ...]
    state: str = "open"
    """open, committed or aborted."""


@dataclass
class Transactional:
    """What the broker knows of a transactional id."""

    producer: int
    epoch: int = 0
    is_open: bool = False
    records: list[Record] = field(default_factory=list)
    offsets: Offsets = field(default_factory=dict)

    def end(self, committed: Offsets | None) -> None:
        """Commit, or abort if there is nowhere to commit to."""
        for each in self.records:
            each.state = "aborted" if committed is None else "committed"
        if committed is not None:
            committed.update(self.offsets)
        self.records, self.offsets, self.is_open = [], {}, False


def _nothing(_kind: int) -> None:
    """Called where a test has nothing to do."""


def _received(connection: socket.socket, size: int) -> bytes:
    """So many bytes; none if the connection has ended."""
    found = b""
    while len(found) < size and (more := connection.recv(size - len(found))):
        found += more
    return found if len(found) == size else b""


class Broker:
    """One broker on a port of its own, until `close`."""

    def __init__(self, topics: dict[str, int]) -> None:
        """Serve these topics, with so many partitions each."""
        self.logs: dict[str, list[list[Record]]] = {
            name: [[] for _ in range(count)] for name, count in topics.items()
        }
        self.offsets: Offsets = {}
        self.ids: dict[str, Transactional] = {}
        self.record_max = 1_000_000
        self.denied: set[str] = set()
        """Topics and transactional ids that may not be written."""
        self.before: Callable[[int], None] = _nothing
        """Called with the kind of each request before it is carried out, as is the next after."""
        self.after: Callable[[int], None] = _nothing
        self._lock = threading.RLock()
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def read(self, topic: str, *, uncommitted: bool = False) -> list[tuple[Any, Any]]:
        """Keys and values of a topic as a reader finds them, partition by partition."""
        with self._lock:
            return [
                (each.key, each.value)
                for log in self.logs[topic]
                for each in log
                if uncommitted or each.state == "committed"
            ]

    def group(self, group: str, topic: str) -> tuple[int, str | None] | None:
        return self.offsets.get((group, topic, 0))

    def reset(self) -> None:
        """Empty everything."""
        with self._lock:
            for name, logs in self.logs.items():
                self.logs[name] = [[] for _ in logs]
            self.offsets.clear()
            self.ids.clear()

    def close(self) -> None:
        # Wakes the thread that accepts; a test may have closed it before.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._connections:
                # Whoever reads from it finds its end; a client may have gone first.
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # A client that ends does not say so.
        with contextlib.suppress(OSError), connection:
            while head := _received(connection, 4):
                size = struct.unpack(">i", head)[0]
                reply = self._answer(Reader(_received(connection, size)))
                connection.sendall(struct.pack(">i", len(reply)) + reply)

    def _answer(self, reader: Reader) -> bytes:
        kind, version, number = reader.take("h"), reader.take("h"), reader.take("i")
        if kind == 18:
            return struct.pack(">i", number) + self._versions(version)
        reader.text()
        answer: Callable[[int, Reader], bytes] = {
            0: self._produce,
            2: self._list_offsets,
            3: self._metadata,
            9: self._fetch_offsets,
            10: self._coordinator,
            22: self._init_producer,
            24: self._add_partitions,
            25: self._add_group,
            26: self._end,
            28: self._commit_offsets,
        }[kind]
        with self._lock:
            self.before(kind)
            reply = struct.pack(">i", number) + answer(version, reader)
            self.after(kind)
            return reply

    def _versions(self, version: int) -> bytes:
        listed = [struct.pack(">hhh", kind, *span) for kind, span in _VERSIONS.items()]
        return struct.pack(">h", 0 if version == 0 else UNSUPPORTED_VERSION) + many(listed)

    def _metadata(self, version: int, reader: Reader) -> bytes:
        assert version == 4
        asked = reader.take("i")
        names = [reader.text() for _ in range(asked)] if asked >= 0 else list(self.logs)
        mine = struct.pack(">i", 1) + text("127.0.0.1") + struct.pack(">i", self.port) + text(None)
        topics = [self._topic(str(each)) for each in names]
        return (
            struct.pack(">i", 0) + many([mine]) + text("stand-in") + struct.pack(">i", 1)
            + many(topics)
        )  # fmt: skip  # in the order of the protocol

    def _topic(self, name: str) -> bytes:
        error = 0 if name in self.logs else NOT_THERE
        one = many([struct.pack(">i", 1)])
        partitions = [
            struct.pack(">hii", 0, at, 1) + one + one for at in range(len(self.logs.get(name, ())))
        ]
        return struct.pack(">h", error) + text(name) + b"\0" + many(partitions)

    def _coordinator(self, version: int, reader: Reader) -> bytes:
        head = struct.pack(">ih", 0, 0) + text(None) if version else struct.pack(">h", 0)
        return head + struct.pack(">i", 1) + text("127.0.0.1") + struct.pack(">i", self.port)

    def _init_producer(self, version: int, reader: Reader) -> bytes:
        name, _timeout = reader.text(), reader.take("i")
        assert name is not None
        if name in self.denied:
            return struct.pack(">ihqh", 0, TRANSACTION_DENIED, -1, -1)
        known = self.ids.get(name)
        if known is None:
            known = self.ids[name] = Transactional(1_000 + len(self.ids))
        else:
            known.end(None)
            known.epoch += 1
        return struct.pack(">ihqh", 0, 0, known.producer, known.epoch)

    def _stale(self, name: str | None, producer: int, epoch: int) -> int:
        known = self.ids.get(name or "")
        is_mine = known is not None and (known.producer, known.epoch) == (producer, epoch)
        return 0 if is_mine else STALE_PRODUCER

    def _add_partitions(self, version: int, reader: Reader) -> bytes:
        name, producer, epoch = reader.text(), reader.take("q"), reader.take("h")
        topics = reader.many(lambda: (reader.text(), reader.many(lambda: reader.take("i"))))
        error = self._stale(name, producer, epoch)
        if not error:
            self.ids[str(name)].is_open = True
        denied = [each for each, _ in topics if each in self.denied]
        codes = {each: error or (TOPIC_DENIED if denied else 0) for each, _ in topics}
        return struct.pack(">i", 0) + many(
            [
                text(topic) + many([struct.pack(">ih", at, codes[topic]) for at in places])
                for topic, places in topics
            ]
        )

    def _add_group(self, version: int, reader: Reader) -> bytes:
        name, producer, epoch = reader.text(), reader.take("q"), reader.take("h")
        error = self._stale(name, producer, epoch)
        if not error:
            self.ids[str(name)].is_open = True
        return struct.pack(">ih", 0, error)

    def _commit_offsets(self, version: int, reader: Reader) -> bytes:
        name, group = reader.text(), reader.text()
        producer, epoch = reader.take("q"), reader.take("h")
        error = self._stale(name, producer, epoch)

        def place() -> tuple[int, int, str | None]:
            at, offset = reader.take("i"), reader.take("q")
            if version >= 2:
                reader.take("i")
            return at, offset, reader.text()

        topics = reader.many(lambda: (reader.text(), reader.many(place)))
        for topic, places in topics:
            for at, offset, metadata in places:
                if not error:
                    self.ids[str(name)].offsets[str(group), topic, at] = (offset, metadata)
        return struct.pack(">i", 0) + many(
            [
                text(topic) + many([struct.pack(">ih", at, error) for at, _, _ in places])
                for topic, places in topics
            ]
        )

    def _end(self, version: int, reader: Reader) -> bytes:
        name, producer, epoch = reader.text(), reader.take("q"), reader.take("h")
        is_commit = reader.take("?")
        error = self._stale(name, producer, epoch)
        if not error:
            known = self.ids[str(name)]
            error = 0 if known.is_open else NO_TRANSACTION
            known.end(self.offsets if is_commit else None)
        return struct.pack(">ih", 0, error)

    def _produce(self, version: int, reader: Reader) -> bytes:
        assert version == 7
        name, _acks, _timeout = reader.text(), reader.take("h"), reader.take("i")
        topics = reader.many(
            lambda: (reader.text(), reader.many(lambda: (reader.take("i"), reader.blob())))
        )
        replies = []
        for topic, places in topics:
            appended = [
                struct.pack(">ihqqq", at, *self._append(name, topic, at, data), -1, 0)
                for at, data in places
            ]
            replies.append(text(topic) + many(appended))
        return many(replies) + struct.pack(">i", 0)

    def _append(self, name: str | None, topic: str, at: int, data: bytes) -> tuple[int, int]:
        """Error and offset."""
        log = self.logs[topic][at]
        offset = len(log)
        for batch in read_batches(data):
            error = self._refusal(name, batch)
            if error:
                return error, -1
            made = [Record(*each) for each in batch.records]
            log += made
            self.ids[str(name)].records += made
        return 0, offset

    def _refusal(self, name: str | None, batch: Batch) -> int:
        if batch.size > self.record_max:
            return TOO_LARGE
        stale = self._stale(name, batch.producer, batch.epoch)
        return stale or (0 if self.ids[str(name)].is_open else NO_TRANSACTION)

    def _fetch_offsets(self, version: int, reader: Reader) -> bytes:
        assert version == 5
        group = reader.text()
        topics = reader.many(lambda: (reader.text(), reader.many(lambda: reader.take("i"))))

        def place(topic: str, at: int) -> bytes:
            offset, metadata = self.offsets.get((str(group), topic, at), (-1, ""))
            return struct.pack(">iqi", at, offset, -1) + text(metadata) + struct.pack(">h", 0)

        listed = [
            text(topic) + many([place(topic, at) for at in places]) for topic, places in topics
        ]
        return struct.pack(">i", 0) + many(listed) + struct.pack(">h", 0)

    def _list_offsets(self, version: int, reader: Reader) -> bytes:
        assert version == 2
        reader.take("i"), reader.take("b")
        topics = reader.many(
            lambda: (reader.text(), reader.many(lambda: (reader.take("i"), reader.take("q"))))
        )

        def place(topic: str, at: int, time: int) -> bytes:
            end = len(self.logs[topic][at])
            return struct.pack(">ihqq", at, 0, -1, 0 if time == -2 else end)

        listed = [
            text(topic) + many([place(topic, *each) for each in places]) for topic, places in topics
        ]
        return struct.pack(">i", 0) + many(listed)
