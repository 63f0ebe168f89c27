"""What a worker remembers of long histories that it wrote, so that it need not read it again.

The index of a history that was read as a whole is remembered as it was written, with the version
that the state then has. The epoch after goes on from it while Redis still carries out what was
written: so neither the index nor the header is read, and nothing waits for them. Only then is it
asked which version is stored. If it is another one, all that was done is done again, from what is
read.

It is a cache and no more: what is written is the same with it and without it, bytes for bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

    from state.backends.interface import StateVersion
    from state.multiset.probing import KnownIndex
    from state.multiset.text import Header

MEMORY_BYTES_MAX = 16 * 1024 * 1024
"""Of all indexes that an operator remembers in one process."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """One spread history as an epoch left it."""

    version: StateVersion
    """Of its key group, with what the epoch wrote."""
    header: Header
    index: KnownIndex
    """All of it, by sequence number."""


class HistoryMemory:
    """Spread histories as this process wrote them last, as far as there is room.

    Args:
        bytes_max: How much the indexes may take; those that were written first go first.
    """

    def __init__(self, bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._held: dict[tuple[Hashable, bytes], Remembered] = {}

    def __len__(self) -> int:
        return len(self._held)

    def recall(self, place: Hashable, key: bytes) -> Remembered | None:
        """What was remembered last of a key in a key group, of whatever version."""
        return self._held.get((place, key))

    def keep(self, key: bytes, remembered: Remembered) -> None:
        """Remember a history once it is stored."""
        place = remembered.version.place
        self.forget(place, key)
        self._held[place, key] = remembered
        self._bytes += remembered.index.bytes
        while self._bytes > self._bytes_max:
            self.forget(*next(iter(self._held)))

    def forget(self, place: Hashable, key: bytes) -> None:
        """Forget a history, if it is remembered."""
        held = self._held.pop((place, key), None)
        if held is not None:
            self._bytes -= held.index.bytes
