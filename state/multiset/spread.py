"""The spread layout: names and fields of a history that has names of its own.

    T:history               hash        key -> header (see `text`)
    T:history:<key>:order   sorted set  numbers of the blocks with entries, scored by themselves
    T:history:<key>:blocks  hash        number of a block -> its entries, written like a packed
                                        history, with the block's number as header
    T:history:<key>:index   hash        match columns -> sequence numbers of the entries that
                                        match, oldest first, commas between
    T:history:<key>:stamps  sorted set  numbers of blocks, scored by the oldest ms in each
    T:history:expiry        sorted set  keys, scored by a ms before which nothing of the key was
                                        written; only with TTL

Sixteen sequence numbers share a block: entry n is in block n // 16. A change needs the index of its
match columns, the blocks of what it matches, and the last block, however long the history is. In
the index, texts of more than 32 bytes stand by a digest that nobody can make collide, and so do
match columns that are more than 64 bytes even so.

Why blocks: what an entry costs in Redis is fields, not bytes. With a field and a sorted set member
for each entry, an epoch of 1,000 changes on one key wrote 3,000 fields; with blocks it is 1,000 of
the index and some 60 blocks, and an entry takes a third of the memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

STATE = b"history"
"""Hash of packed histories and of headers."""
EXPIRY = b"history:expiry"
"""Sorted set of keys by the age of what they hold. Scores are times of writes, not times at which
something is due: so another TTL needs nothing written anew."""

TEXT_BYTES_MAX = 32
"""Longer texts stand in an index field by their digest."""

BLOCK_ENTRIES = 16
"""Sequence numbers that share a block. Part of the stored format."""

_FIELD_BYTES_MAX = 64
_DIGEST_BYTES = 20


@dataclass(frozen=True, slots=True)
class SpreadNames:
    """State names of one spread history."""

    order: bytes
    blocks: bytes
    index: bytes
    stamps: bytes

    @classmethod
    def of(cls, key: bytes, state: bytes = STATE) -> SpreadNames:
        """The names for a canonical key in the state of this name."""
        prefix = state + b":" + key
        return cls(prefix + b":order", prefix + b":blocks", prefix + b":index", prefix + b":stamps")


def block_of(sequence: NDArray[np.int64]) -> NDArray[np.int64]:
    """The block of each sequence number."""
    return sequence // BLOCK_ENTRIES


def digest(text: bytes) -> str:
    """What stands for a long text: nobody can make two texts that have the same."""
    return "#" + blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()


def index_fields(matches: Iterable[bytes]) -> list[bytes]:
    """The index fields of match columns: as they are, or their digest where they are long.

    Args:
        matches: Canonical, but with each text of more than `TEXT_BYTES_MAX` by its digest. (So
            long columns that repeat are hashed once, and a text that looks like a digest is long
            enough to be told by its own.)
    """
    return [
        match if len(match) <= _FIELD_BYTES_MAX else digest(match).encode() for match in matches
    ]


def parse_index(
    values: Sequence[bytes | None],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which value each sequence number comes from, and the numbers, value by value."""
    known = [index for index, value in enumerate(values) if value is not None]
    texts = [value for value in values if value is not None]
    if not texts:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    numbers = parse_numbers(b",".join(texts).split(b","))
    counts = np.fromiter((text.count(b",") + 1 for text in texts), np.int64, len(texts))
    return np.repeat(np.array(known, np.int64), counts), numbers


def parse_numbers(texts: Sequence[bytes]) -> NDArray[np.int64]:
    """Decimal numbers."""
    return np.fromiter(map(int, texts), np.int64, len(texts))
