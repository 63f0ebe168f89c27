"""The spread layout: names and fields of a history that has names of its own.

    T:history               hash        key -> header (see `text`)
    T:history:<key>:order   sorted set  numbers of the blocks with entries, scored by themselves
    T:history:<key>:blocks  hash        number of a block -> its entries, written like a packed
                                        history, with the block's number as header; those of
                                        large epochs in hashes of their own: see `segments`
    T:history:<key>:index   hash        number of a bucket -> a line for each of its entries, with a
                                        digest of the match columns: see `index`
    T:history:<key>:stamps  sorted set  numbers of blocks, scored by the oldest ms in each
    T:history:expiry        sorted set  keys, scored by a ms before which nothing of the key was
                                        written; only with TTL

Sixteen sequence numbers share a block: entry n is in block n // 16. A change needs the bucket of
its match columns, the blocks of what it matches, and the last block, however long the history is. A
block whose sixteen entries all go is not read.

Why blocks and buckets: what an entry costs in Redis is fields, not bytes. With a field and a sorted
set member for each entry, an epoch of 1,000 changes on one key wrote 3,000 fields; now it is some
60 blocks and at most as many buckets as there are changes, and an entry takes a third of the
memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Spans = tuple[NDArray[np.int64], NDArray[np.int64]]

STATE = b"history"
"""Hash of packed histories and of headers."""
EXPIRY = b"history:expiry"
"""Sorted set of keys by the age of what they hold. Scores are times of writes, not times at which
something is due: so another TTL needs nothing written anew."""

TEXT_BYTES_MAX = 32
"""Longer texts stand by their digest in what the index is made from."""

_BLOCK_BITS = 4
BLOCK_ENTRIES = 1 << _BLOCK_BITS
"""Sequence numbers that share a block. Part of the stored format."""

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
    # A division takes five times as long.
    return sequence >> _BLOCK_BITS


def spans_of_blocks(numbers: NDArray[np.int64], blocks: NDArray[np.int64]) -> Spans:
    """Where the entries of blocks lie among sequence numbers that ascend: first place, and end."""
    first = blocks << _BLOCK_BITS
    return numbers.searchsorted(first), numbers.searchsorted(first + BLOCK_ENTRIES)


def places_in(spans: Spans) -> NDArray[np.int64]:
    """All places in spans, one span after the other."""
    low, high = spans
    counts = high - low
    ends = counts.cumsum()
    count = int(ends[-1]) if ends.size else 0
    places: NDArray[np.int64] = np.arange(count) + (low - ends + counts).repeat(counts)
    return places


def digest(text: bytes) -> str:
    """What stands for a long text: nobody can make two texts that have the same."""
    return "#" + blake2b(text, digest_size=_DIGEST_BYTES).hexdigest()


def parse_numbers(texts: Sequence[bytes]) -> NDArray[np.int64]:
    """Decimal numbers."""
    return np.fromiter(map(int, texts), np.int64, len(texts))
