"""Stable orders of numbers below a bound, by counting where the bound allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_DIGIT_BITS = 16
_DIGITS = 1 << _DIGIT_BITS


def stable_order(values: Integers, bound: int) -> Integers:
    """A stable argsort of values in [0, bound).

    By digits of 16 bits, the last one first, while there are at most two: numpy orders such numbers
    by counting. Of 100,000 it takes a digit 1.0 ms. One integer for value and position, which numpy
    sorts by vectors, takes 1.2 to 1.7 ms, and 4 to 5 on AMD's Zen 4, which is slow to store some
    lanes of a vector of AVX-512 (github.com/numpy/x86-simd-sort, issue 6).
    """
    if bound <= _DIGITS:
        return _by_digit(values)
    if bound <= _DIGITS * _DIGITS:
        by_last = _by_digit(values & (_DIGITS - 1))
        return by_last[_by_digit((values >> _DIGIT_BITS)[by_last])]
    bits = max(values.size - 1, 1).bit_length()
    if bound < 1 << (62 - bits):
        packed = (values << bits) | np.arange(values.size)
        packed.sort()
        return packed & ((1 << bits) - 1)
    return np.argsort(values, kind="stable")


def _by_digit(digits: Integers) -> Integers:
    return np.argsort(digits.astype(np.uint16), kind="stable")
