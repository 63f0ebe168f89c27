"""What a worker remembers of long histories that it wrote, so that it need not read it again.

The index of a history that was known as a whole is remembered as it was written, with the version
that the state then has. The epoch after goes on from it while Redis still carries out what was
written: so neither the index nor the header is read, and nothing waits for them. Only then, where
all blocks are remembered when all that is to be written is there, is it asked which version is
stored. If it is another one, all that was done is done again, from what is read.

Blocks are remembered, too, as they were written: those of a history that change again, the newest
ones above all, need not be read either. And where whole numbers tell match columns apart, those of
all entries are remembered, so that no digests are made to find them (`state.multiset.numbered`).

Of other histories that are spread it is remembered how many buckets their indexes have: a guess,
which saves a round trip.

It is a cache and no more: what is written is the same with it and without it, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from state.backends.interface import StateVersion
    from state.multiset.known_index import KnownIndex
    from state.multiset.text import Header

MEMORY_BYTES_MAX = 16 * 1024 * 1024
"""Of all that an operator remembers in one process, with what Python's objects take beside."""
BLOCK_BYTES_MAX = 4 * 1024 * 1024
"""Of the texts of the blocks of one history."""

_ENTRY_BYTES = 1_024
"""About what a history takes beside its index, its blocks and the text of its key."""
_BLOCK_BYTES = 100
"""About what a block takes beside its text."""
_BUCKET_BYTES = 36
"""What the number of a bucket takes beside its lines."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of one history as they are stored."""

    texts: Mapping[int, bytes]
    """By number."""
    length: int
    """Bytes of all texts."""

    def after(self, written: Mapping[int, bytes], dropped: Iterable[int]) -> Blocks:
        """With what an epoch wrote, as far as there is room: the lowest numbers go first."""
        texts, held = dict(self.texts), self.length
        for number in (*written, *dropped):
            held -= len(texts.pop(number, b""))
        texts.update(written)
        held += sum(map(len, written.values()))
        if held > BLOCK_BYTES_MAX:
            for number in sorted(texts):
                if held <= BLOCK_BYTES_MAX:
                    break
                held -= len(texts.pop(number))
        return Blocks(texts, held)


NO_BLOCKS = Blocks(MappingProxyType({}), 0)


@dataclass(frozen=True, slots=True)
class Remembered:
    """One spread history as an epoch left it."""

    version: StateVersion
    """Of its key group, with what the epoch wrote."""
    header: Header
    index: KnownIndex | None
    """All of it, by sequence number; None if the epoch did not know it as a whole."""
    blocks: Blocks = NO_BLOCKS
    """Some of its blocks."""

    @property
    def bytes(self) -> int:
        """About how many bytes it takes."""
        held = _ENTRY_BYTES + self.blocks.length + len(self.blocks.texts) * _BLOCK_BYTES
        if self.index is not None:
            held += self.index.bytes + len(self.index.read) * _BUCKET_BYTES
        return held


class HistoryMemory:
    """Spread histories as this process wrote them last, as far as there is room.

    Args:
        bytes_max: How much they may take; those that were written first go first.
    """

    def __init__(self, bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._order: dict[tuple[Hashable, bytes], int] = {}
        """What each was counted as when it was kept; an index may learn more later."""
        self._held: dict[Hashable, dict[bytes, Remembered]] = {}

    def __len__(self) -> int:
        return len(self._order)

    @property
    def bytes_held(self) -> int:
        """About how many bytes they take."""
        return self._bytes

    def of(self, place: Hashable) -> Mapping[bytes, Remembered]:
        """What was remembered last of the histories of a key group, of whatever version, by key."""
        return self._held.get(place, _NOTHING)

    def keep(self, key: bytes, remembered: Remembered) -> None:
        """Remember a history once it is stored."""
        place = remembered.version.place
        self.forget(place, key)
        counted = self._order[place, key] = remembered.bytes + len(key)
        self._held.setdefault(place, {})[key] = remembered
        self._bytes += counted
        while self._bytes > self._bytes_max:
            self.forget(*next(iter(self._order)))

    def forget(self, place: Hashable, key: bytes) -> None:
        """Forget a history, if it is remembered."""
        counted = self._order.pop((place, key), None)
        if counted is not None:
            self._bytes -= counted
            held = self._held[place]
            del held[key]
            if not held:
                del self._held[place]


_NOTHING: Mapping[bytes, Remembered] = MappingProxyType({})
