"""Kafka's binary protocol, as far as a stand-in needs it: primitive types and batches of records.

Source: Kafka protocol guide; record batch format, version 2.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Reader:
    """Takes values from the front of some bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, form: str) -> Any:
        """A number, as `struct` names its form."""
        (value,) = struct.unpack_from(f">{form}", self._data, self._at)
        self._at += struct.calcsize(f">{form}")
        return value

    def text(self) -> str | None:
        found = self.raw(self.take("h"))
        return None if found is None else found.decode()

    def blob(self) -> bytes | None:
        return self.raw(self.take("i"))

    def raw(self, size: int) -> bytes | None:
        if size < 0:
            return None
        found = self._data[self._at : self._at + size]
        assert len(found) == size
        self._at += size
        return found

    def many(self, each: Callable[[], Any]) -> list[Any]:
        return [each() for _ in range(max(0, self.take("i")))]

    def varint(self) -> int:
        """A signed number, zigzag."""
        shift = value = 0
        while True:
            byte = self.take("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return (value >> 1) ^ -(value & 1)

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._data)


def text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def many(parts: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(parts)) + b"".join(parts)


@dataclass(frozen=True)
class Batch:
    """Records of one producer for one partition."""

    producer: int
    epoch: int
    records: tuple[tuple[bytes | None, bytes | None, int, Any], ...]
    """Keys, values, times in ms and headers."""
    size: int


def read_batches(data: bytes) -> list[Batch]:
    reader = Reader(data)
    found = []
    while not reader.is_done:
        reader.take("q")
        size = reader.take("i")
        body = reader.raw(size)
        assert body is not None
        found.append(_batch(body))
    return found


def _batch(body: bytes) -> Batch:
    reader = Reader(body)
    _leader, magic, _crc, attributes = (reader.take(each) for each in "ibIh")
    assert magic == 2, magic
    assert attributes & 7 == 0, "compressed"
    _last, first_ms, _newest = (reader.take(each) for each in "iqq")
    producer, epoch, _sequence, count = (reader.take(each) for each in "qhii")
    records = []
    for _ in range(count):
        reader.varint()
        reader.take("b")
        time_ms = first_ms + reader.varint()
        reader.varint()
        key = reader.raw(reader.varint())
        value = reader.raw(reader.varint())
        headers = tuple(
            (reader.raw(reader.varint()), reader.raw(reader.varint()))
            for _ in range(reader.varint())
        )
        records.append((key, value, time_ms, headers))
    return Batch(producer, epoch, tuple(records), len(body))
