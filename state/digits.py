"""Whole numbers read where they lie in a text, eight bytes of all of them at a time.

A word of eight bytes is one number of 64 bits, its first byte the lowest. So few steps over a
column of words do what would take as many for each byte: three multiplications make a number of
eight digits, since each puts neighbours together, and a subtraction tells where a byte is zero.

Source: Daniel Lemire, "Quickly parsing eight digits"; Sean Eron Anderson, "Bit Twiddling Hacks"
(a zero byte in a word).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from state.types import INTEGER_BITS, TIMESTAMP_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from state.types import LogicalType

    Integers = NDArray[np.int64]
    Bytes = NDArray[np.uint8]
    Words = NDArray[np.uint64]

WITHOUT_COMMA = {
    *INTEGER_BITS,
    TypeRoot.BOOLEAN,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
    TypeRoot.DECIMAL,
    TypeRoot.DATE,
    TypeRoot.TIME,
    *TIMESTAMP_ROOTS,
}
"""Types of which no canonical text holds a comma."""
_WORD_BYTES = 8
_POWERS = 10 ** np.arange(_WORD_BYTES + 1)
_INTEGER_CHARACTERS = 20
"""Of a whole number of 64 bits, at most, with its sign."""


def _repeated(byte: int) -> np.uint64:
    return np.uint64(int.from_bytes([byte] * _WORD_BYTES))


_ONES, _HIGHS = _repeated(0x01), _repeated(0x80)
_COMMAS, _ZEROS = _repeated(ord(",")), _repeated(ord("0"))
_LOW_HALVES, _HIGH_HALVES = _repeated(0x0F), _repeated(0xF0)
_SIXES = _repeated(0x06)
"""Of half a byte, what makes more than 9 of it spill over."""
_MERGES = [
    # What puts neighbours together, how far to the left that stands, and where it is found then.
    (np.uint64(10 << 8 | 1), np.uint64(8), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(100 << 16 | 1), np.uint64(16), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(10_000 << 32 | 1), np.uint64(32), np.uint64(0x00000000FFFFFFFF)),
]


def decimals_in(content: Bytes, low: Integers, high: Integers) -> Integers:
    """Decimal numbers in [low, high) of a text, some of them with a sign."""
    numbers, _ = _decimals(content, low, high)
    return numbers


def leading_integers(
    types: Sequence[LogicalType], content: Bytes, start: Integers, end: Integers, column: int
) -> Integers | None:
    """A column of whole numbers of canonical rows, read where they lie in a text.

    Args:
        types: Of the rows' columns.
        content: The text.
        start: Where each row begins.
        end: Where each ends.
        column: Which column.

    Returns:
        None where that is not to be had so: for a null among them, for text before the column, in
        which a comma may stand, and for what is no canonical row.
    """
    if types[column].root not in INTEGER_BITS or not all(
        each.root in WITHOUT_COMMA for each in types[:column]
    ):
        return None
    if not start.size:
        return None
    words = _words(content, int(end.max()))
    low = start + 1
    for _ in range(column):
        ends = _field_ends(words, low, end)
        if ends is None:
            return None
        low = ends + 1
    is_last = column == len(types) - 1
    high = end - 1 if is_last else _field_ends(words, low, end)
    if high is None or (is_last and (content[high] != ord("]")).any()):
        return None
    length = high - low
    if int(length.min()) < 1 or int(length.max()) > _INTEGER_CHARACTERS:
        return None
    numbers, are_digits = _decimals(content, low, high)
    return numbers if are_digits else None


def _decimals(content: Bytes, low: Integers, high: Integers) -> tuple[Integers, bool]:
    """The numbers, and whether there is nothing but digits in them, behind a sign if any."""
    if not low.size:
        return np.zeros(0, np.int64), True
    negative = content[low] == ord("-")
    place = low + negative
    left = high - place
    are_digits = int(left.min()) > 0
    words = _words(content, int(high.max()))
    numbers = np.zeros(low.size, np.int64)
    for done in range(0, max(int(left.max()), 1), _WORD_BYTES):
        here = np.minimum(left, _WORD_BYTES)
        word = words[place]
        # The digits go to the end of the word, and zeros before them.
        word ^= _ZEROS
        word <<= ((_WORD_BYTES - here) << 3).astype(np.uint64)
        are_digits = are_digits and not ((word | (word + _SIXES)) & _HIGH_HALVES).any()
        word &= _LOW_HALVES
        for factor, shift, mask in _MERGES:
            word *= factor
            word >>= shift
            word &= mask
        if done:
            numbers *= _POWERS[here]
            numbers += word.view(np.int64)
        else:
            numbers = word.view(np.int64)
        place += here
        left -= here
    if negative.any():
        numbers = np.where(negative, -numbers, numbers)
    return numbers, are_digits


def _field_ends(words: Words, low: Integers, end: Integers) -> Integers | None:
    """The first comma from each place on, before an end; None if one has none."""
    place = low.copy()
    while (place < end).all():
        word = words[place]
        word ^= _COMMAS
        # The highest bit of each byte that is zero; beyond the first one, perhaps of others.
        found = (word - _ONES) & ~word
        found &= _HIGHS
        # The bits below the first such one: of a word without any these are all.
        step = np.bitwise_count(~found & (found - np.uint64(1))) >> 3
        place += step
        if int(step.max()) < _WORD_BYTES:
            return place if (place < end).all() else None
    return None


def _words(content: Bytes, end: int) -> Words:
    """The eight bytes from each place on, up to an end; a copy of the text where it ends there."""
    if end + _WORD_BYTES > content.size:
        content = np.append(content, np.zeros(_WORD_BYTES, np.uint8))
    return np.ndarray((content.size - _WORD_BYTES + 1,), "<u8", content, strides=(1,))
