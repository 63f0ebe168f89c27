r"""The index of a spread history: which entries match, found without reading the history.

    T:history:<key>:index   hash   number of a bucket -> its lines, oldest entry first

    digest sequence         a line for each entry: 20 characters of base64 that stand for its match
                            columns, and 16 digits; 38 bytes with the space and the newline

Equal match columns have equal digests, and nobody can make others that have the same (blake2b, 15
bytes), so what the index says need not be compared with rows. In what is digested, each text of
more than 32 bytes stands by a digest of its own: long columns that repeat are hashed once.

Buckets are those of linear hashing. The number of buckets is in the history's header and grows by
one, never by doubling: bucket `n` takes its lines from one older bucket. So the index is never
written anew as a whole, a bucket holds about 32 lines at most whatever the length of the history,
and what a change costs does not grow with it. The number does not shrink while a history is spread.

Why not a field for each entry: what Redis takes for an epoch of 1,000 changes goes by the number of
fields, in Lua above all, and a history of some thousand entries has only some hundred buckets. Such
an epoch touches most of these, so that they are twice as large as what is added to the index of a
longer history, where a change is mostly alone in its bucket and its bytes count. How many buckets
there are is stored, so an index that has more than it would get now is good as it is.

Source: W. Litwin, Linear Hashing, VLDB 1980.
"""

from __future__ import annotations

import re
from base64 import b64encode
from binascii import a2b_base64
from hashlib import blake2b
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from state.errors import StateCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Characters = NDArray[np.uint8]
    """A matrix: the characters of texts of one length, a row each."""

BUCKET_ENTRIES = 32
"""Entries for each bucket while a history is not long."""
LONG_ENTRIES = 8_192
"""A history of more entries than this is long."""
LONG_BUCKET_ENTRIES = 16
"""Entries for each bucket that is added to the index of a long history."""

DIGEST_CHARACTERS = 20
LINE_BYTES = 38

_DIGEST_BYTES = 15
_BEGUN = blake2b(digest_size=_DIGEST_BYTES)
_FEW_DIGESTS = 32
"""Fewer digests are looked at one by one, which is faster then."""
_LINE = re.compile(rb"([A-Za-z0-9+/]{20}) ([0-9]{16})\n")
_SPACE, _NEWLINE = 32, 10
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_VALUE_OF = np.zeros(256, np.int64)
_VALUE_OF[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64)
_FOUR_DIGITS = np.array([b"%04d" % each for each in range(10_000)], "S4").view(np.uint32)
_TABLE_BITS_MAX = 14
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ZEROS = np.uint64(0x3030303030303030)
_JOINS = tuple(
    (np.uint64(factor), np.uint64(bits), np.uint64(kept))
    for factor, bits, kept in (
        (10, 8, 0x00FF00FF00FF00FF),
        (100, 16, 0x0000FFFF0000FFFF),
        (10_000, 32, 0x00000000FFFFFFFF),
    )
)


def digest_of(match: bytes) -> bytes:
    """The digest of match columns whose long texts are shortened.

    >>> digest_of(b"[7]")
    b'3QZNyHiCuNIGJ1FKQzyh'
    """
    return b64encode(blake2b(match, digest_size=_DIGEST_BYTES).digest())


def digests_of(matches: Iterable[bytes]) -> Characters:
    """The same of many, a row each."""
    # A copy of a hash that was begun takes two thirds of the time of one that is set up.
    begun, digests = _BEGUN.copy, list[bytes]()
    for each in matches:
        hashed = begun()
        hashed.update(each)
        digests.append(hashed.digest())
    return np.frombuffer(b64encode(b"".join(digests)), np.uint8).reshape(-1, DIGEST_CHARACTERS)


def buckets_for(size: int) -> int:
    """How many buckets a history of so many entries has at least; one entry more, at most one more.

    >>> [buckets_for(size) for size in (0, 32, 33, 8_192, 8_193, 8_209, 1_000_000)]
    [1, 1, 2, 256, 257, 258, 62244]
    """
    if size > LONG_ENTRIES:
        return LONG_ENTRIES // BUCKET_ENTRIES - (LONG_ENTRIES - size) // LONG_BUCKET_ENTRIES
    return max(1, -(-size // BUCKET_ENTRIES))


def bucket_of(digest: bytes, buckets: int) -> int:
    """The bucket of a digest where there are so many."""
    place = int.from_bytes(a2b_base64(digest[:8])[:4]) >> 2
    bits = (buckets - 1).bit_length()
    bucket = place & ((1 << bits) - 1)
    return bucket - (1 << (bits - 1)) if bucket >= buckets else bucket


def buckets_of(digests: Characters, buckets: int) -> Integers:
    """The bucket of each digest; of lines, too, since they begin with one."""
    bits = (buckets - 1).bit_length()
    # The first five characters are 30 bits, of which the last ones say which bucket.
    place = _VALUE_OF.take(digests[:, 4])
    for back in range(1, min(-(-bits // 6), 5)):
        place |= _VALUE_OF.take(digests[:, 4 - back]) << (6 * back)
    bucket = place & ((1 << bits) - 1)
    bucket[bucket >= buckets] -= 1 << max(bits - 1, 0)
    return bucket


def buckets_of_each(digests: Sequence[bytes], buckets: int) -> list[int]:
    """The bucket of each digest."""
    if len(digests) < _FEW_DIGESTS:
        return [bucket_of(each, buckets) for each in digests]
    characters = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, DIGEST_CHARACTERS)
    numbers: list[int] = buckets_of(characters, buckets).tolist()
    return numbers


def origin_of(bucket: int, buckets: int) -> int:
    """The bucket that has the lines of this one, where there are so many yet.

    >>> [origin_of(bucket, 4) for bucket in range(10)]
    [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    """
    while bucket >= buckets:
        bucket -= 1 << (bucket.bit_length() - 1)
    return bucket


def parse_bucket(text: bytes | None) -> list[tuple[bytes, int]]:
    """Digest and sequence number of each line of a bucket; none where it is absent.

    Raises:
        StateCorrupt: It is no bucket.
    """
    if text is None:
        return []
    lines = _LINE.findall(text)
    if not lines or len(lines) * LINE_BYTES != len(text):
        raise StateCorrupt("the index of a history is not as we write it")
    return [(digest, int(number)) for digest, number in lines]


def write_bucket(pairs: Iterable[tuple[bytes, int]]) -> bytes:
    """A bucket of these digests and sequence numbers, by number."""
    return b"".join([b"%b %016d\n" % pair for pair in sorted(pairs, key=lambda each: each[1])])


def parse_lines(texts: Sequence[bytes]) -> Characters:
    """The lines of some buckets, a row each.

    Raises:
        StateCorrupt: One is no bucket.
    """
    content = np.frombuffer(b"".join(texts), np.uint8)
    if (
        b"" in texts
        or content.size % LINE_BYTES
        or (content[LINE_BYTES - 1 :: LINE_BYTES] != _NEWLINE).any()
    ):
        raise StateCorrupt("the index of a history is not as we write it")
    return content.reshape(-1, LINE_BYTES)


def numbers_in(lines: Characters) -> Integers:
    """The sequence number of each line."""
    # Eight digits are the bytes of one integer, the first one lowest: neighbours are put together
    # to numbers of two digits, of four, of eight, all within the integer.
    eights = np.ascontiguousarray(lines[:, DIGEST_CHARACTERS + 1 : LINE_BYTES - 1]).view("<u8")
    eights = eights - _ZEROS
    for factor, bits, kept in _JOINS:
        eights = (eights * factor + (eights >> bits)) & kept
    high, low = eights.astype(np.int64).T
    numbers: Integers = high * 10**8 + low
    return numbers


def lines_of(digests: Characters, numbers: Integers) -> Characters:
    """Lines of these digests and sequence numbers."""
    lines = np.empty((numbers.size, LINE_BYTES), np.uint8)
    lines[:, :DIGEST_CHARACTERS] = digests
    lines[:, DIGEST_CHARACTERS] = _SPACE
    lines[:, -1] = _NEWLINE
    parts = np.empty((numbers.size, 4), np.uint32)
    for place in (3, 2, 1, 0):
        if not numbers.any():
            parts[:, : place + 1] = _FOUR_DIGITS[0]
            break
        numbers, rest = np.divmod(numbers, 10_000)
        parts[:, place] = _FOUR_DIGITS.take(rest)
    lines[:, DIGEST_CHARACTERS + 1 : -1] = parts.view(np.uint8)
    return lines


def find_digests(wanted: Characters, lines: Characters) -> Integers:
    """Per line: the row of `wanted`, whose rows differ, that has its digest; -1 where none has."""
    found = np.full(len(lines), -1, np.int64)
    if not len(lines):
        return found
    # A table of rows by a few bits of the digest; rows that share them take turns.
    bits = min(len(wanted).bit_length() + 2, _TABLE_BITS_MAX)
    head, wanted_head = _heads(lines), _heads(wanted)
    place, wanted_place = _few_bits(head, bits), _few_bits(wanted_head, bits)
    table = np.full(1 << bits, -1, np.int32)
    left = np.arange(len(wanted), dtype=np.int32)
    table[wanted_place] = left
    # Most lines are none of these, whatever the turn.
    near = (table[place] >= 0).nonzero()[0]
    head, place = head[near], place[near]
    while left.size:
        table[wanted_place[left]] = left
        row = table[place]
        hit = ((row >= 0) & (head == wanted_head[row])).nonzero()[0]
        row, line = row[hit], near[hit]
        same = (lines[line, 8:DIGEST_CHARACTERS] == wanted[row, 8:]).all(axis=1)
        found[line[same]] = row[same]
        placed = table[wanted_place[left]] == left
        table[wanted_place[left]] = -1
        left = left[~placed]
    return found


def write_lines(
    lines: Characters, bucket: Integers, chosen: Integers | None = None
) -> tuple[Integers, list[bytes]]:
    """Buckets as text.

    Args:
        lines: Lines, among others those to be written.
        bucket: The bucket of each line.
        chosen: Which lines to write, None is all of them; those of each bucket in the order of
            their numbers.

    Returns:
        The numbers of the buckets, ascending, and their texts.
    """
    if chosen is not None:
        bucket = bucket[chosen]
    # A stable sort of short integers takes a fraction of the time.
    short = bucket.astype(np.uint16) if bucket.size and int(bucket.max()) < 1 << 16 else bucket
    by_bucket = np.argsort(short, kind="stable")
    ordered = bucket.take(by_bucket)
    border = np.ones(ordered.size, np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=border[1:])
    starts = border.nonzero()[0]
    rows = by_bucket if chosen is None else chosen[by_bucket]
    content = lines.take(rows, axis=0).tobytes()
    ends = [*(starts * LINE_BYTES).tolist(), len(content)]
    texts = [content[low:high] for low, high in pairwise(ends)]
    return ordered[starts], texts


def _heads(texts: Characters) -> NDArray[np.uint64]:
    """The first eight characters of each text as a number."""
    heads: NDArray[np.uint64] = np.ascontiguousarray(texts[:, :8]).view(np.uint64)[:, 0]
    return heads


def _few_bits(heads: NDArray[np.uint64], count: int) -> Integers:
    """So many bits of each number, well mixed."""
    bits: Integers = ((heads * _MIX) >> np.uint64(64 - count)).astype(np.int64)
    return bits
