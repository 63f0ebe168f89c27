"""Segments: blocks of a spread history that lie in hashes of their own.

    T:history:<key>:blocks          hash   blocks before the first segment
    T:history:<key>:blocks:<first>  hash   a segment: blocks from this number on, to the next one

Blocks that are new are most of what a large epoch writes. In a hash of their own Redis gives them
a name when they are promoted (`HashReplace`), where into one that is there each of their bytes
would have to go through Lua. So such an epoch begins a segment, and says so in the history's
header: `@313,344` there are the first blocks of two segments. Which hash has a block follows from
its number, so that nothing more is read for it than before. What changes in a block later is
written where the block is, and what is too little for a segment goes into the last one.

There are few segments at a time. One of which nothing is left is taken out of the header by an
epoch that knows the whole index; its numbers then belong to the one before, which has none of them.
Where the header is full, an epoch that brings many blocks first puts the narrowest neighbours
together: they are read, and written as one hash, so that this does not go through Lua either. What
has been put together is wide, and is left alone until its neighbours are as wide; so a block is
written anew as often as a list of eight grows to the number of segments: seldom.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from state.backends.interface import Drop, HashGet, HashReplace, HashScan
from state.multiset.spread import BLOCK_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from state.backends.interface import Write

SEGMENTS_MAX = 128
"""Of a short history: all stand in its header, which has less than 1 kB more then, and is read with
each change of its key. Where there are so many, some are put together before one is begun."""
SEGMENT_ENTRIES = 1024
"""A longer history may have one more for so many entries, so that what only grows, by epochs as
large as these, is never put together."""
SEGMENTS_MERGED = 8
"""So many at a time: an epoch in seven pays for it, when there are no fewer."""
_BLOCKS_MERGED_MIN = 2
"""Fewer new blocks than these are no reason to put segments together."""
SEGMENT_BYTES_MIN = 16 * 1024
"""Fewer bytes of new blocks go into a hash that is there, or there would soon be many segments."""

_MARK = b"@"


def is_segments(field: bytes) -> bool:
    """Whether a field of a header tells segments."""
    return field.startswith(_MARK)


def parse_segments(field: bytes) -> tuple[int, ...]:
    """The first blocks of segments.

    Raises:
        ValueError: It is no list of them.

    >>> parse_segments(b"@313,344")
    (313, 344)
    """
    segments = tuple(map(int, field.removeprefix(_MARK).split(b",")))
    if segments[0] < 0 or any(first >= following for first, following in pairwise(segments)):
        raise ValueError("first blocks of segments ascend")
    return segments


def format_segments(segments: Sequence[int]) -> bytes:
    """What `parse_segments` reads, of one segment at least."""
    return _MARK + b",".join([b"%d" % first for first in segments])


def segment_name(blocks: bytes, first: int) -> bytes:
    """The hash of a segment.

    Args:
        blocks: The name of the blocks before the first one.
        first: Its first block.
    """
    return b"%b:%d" % (blocks, first)


def segments_max(size: int) -> int:
    """How many segments a history of so many entries may have."""
    return SEGMENTS_MAX + size // SEGMENT_ENTRIES


def block_hashes(blocks: bytes, segments: Sequence[int]) -> list[bytes]:
    """All hashes that may have blocks."""
    return [blocks, *(segment_name(blocks, first) for first in segments)]


def block_hash(blocks: bytes, segments: Sequence[int], number: int) -> bytes:
    """The hash that has a block, if it is there.

    >>> [block_hash(b"b", (3, 5), number) for number in (2, 3, 4, 5, 99)]
    [b'b', b'b:3', b'b:3', b'b:5', b'b:5']
    """
    place = bisect_right(segments, number)
    return segment_name(blocks, segments[place - 1]) if place else blocks


def by_hash(
    blocks: bytes, segments: Sequence[int], numbers: Iterable[int]
) -> list[tuple[bytes, list[int]]]:
    """Blocks by the hash that has them.

    >>> by_hash(b"b", (3,), [1, 4, 2, 7])
    [(b'b', [1, 2]), (b'b:3', [4, 7])]
    """
    if not segments:
        wanted = [*numbers]
        return [(blocks, wanted)] if wanted else []
    found: dict[int, list[int]] = {}
    for number in numbers:
        found.setdefault(bisect_right(segments, number), []).append(number)
    return [
        (block_hash(blocks, segments, found[place][0]), found[place]) for place in sorted(found)
    ]


def block_reads(
    key_group: int, blocks: bytes, segments: Sequence[int], numbers: Iterable[int]
) -> list[HashGet]:
    """What reads these blocks; in their order, if they ascend."""
    return [
        HashGet(key_group, name, [b"%d" % number for number in some])
        for name, some in by_hash(blocks, segments, numbers)
    ]


def with_entries(segments: Sequence[int], numbers: NDArray[np.int64]) -> tuple[int, ...]:
    """The segments that have entries.

    Args:
        segments: The first block of each.
        numbers: Sequence numbers of all entries of the history, ascending.
    """
    starts = numbers.searchsorted([first * BLOCK_ENTRIES for first in segments]).tolist()
    return tuple(
        first
        for first, (low, high) in zip(segments, pairwise([*starts, numbers.size]), strict=True)
        if low < high
    )


@dataclass(frozen=True, slots=True)
class SegmentMerge:
    """Neighbouring segments of a history that become one, to make room in its header."""

    blocks: bytes
    """The name of the blocks before the first segment."""
    firsts: tuple[int, ...]
    """The first block of each."""

    @classmethod
    def wanted(
        cls, blocks: bytes, segments: Sequence[int], size: int, last: int, newest: int
    ) -> SegmentMerge | None:
        """Those to put together, if there is no room for one more.

        It depends on the header alone, so that all attempts of an epoch write the same.

        Args:
            blocks: The name of the blocks before the first segment.
            segments: The first block of each.
            size: Entries of the history before the epoch.
            last: The newest block before the epoch.
            newest: The newest block behind it.
        """
        if len(segments) < segments_max(size) or newest - last < _BLOCKS_MERGED_MIN:
            return None
        count = min(SEGMENTS_MERGED, len(segments))
        ends = [*segments[1:], last + 1][count - 1 :]
        widths = [end - first for first, end in zip(segments, ends, strict=False)]
        place = widths.index(min(widths))
        return cls(blocks, tuple(segments[place : place + count]))

    def reads(self, key_group: int) -> list[HashScan]:
        """What reads them, each as a whole."""
        return [HashScan(key_group, segment_name(self.blocks, first)) for first in self.firsts]

    def writes(self, found: Mapping[bytes, bytes]) -> list[Write]:
        """What puts these blocks, by number, into the first one; the others go.

        Raises:
            ValueError: A field is no number.
        """
        names = [segment_name(self.blocks, first) for first in self.firsts]
        if not found:
            return [Drop(name) for name in names]
        numbers = sorted(found, key=int)
        pairs = [part for number in numbers for part in (number, found[number])]
        return [HashReplace(names[0], pairs), *(Drop(name) for name in names[1:])]

    def left(self, segments: Sequence[int], found: Mapping[bytes, bytes]) -> tuple[int, ...]:
        """The segments that there are then."""
        gone = {*(self.firsts[1:] if found else self.firsts)}
        return tuple(first for first in segments if first not in gone)
