"""FLOAT and DOUBLE as Java has them: 32 bits, division by zero, texts.

A FLOAT is a Python float that is exactly one of 32 bits. One operation of `+ - * /` in 64 bits,
rounded to 32, is the operation in 32 bits: 53 bits are more than twice 24 and two.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from operators.expressions.java_digits import double_digits, single_digits

if TYPE_CHECKING:
    from collections.abc import Callable

_SINGLE = struct.Struct("<f")
_SINGLE_END = 2.0**128
"""The power of two after the last FLOAT."""
_PLAIN_MIN, _PLAIN_MAX = -3, 6
"""Exponents of ten of the first digit, from which and up to which Java writes no exponent."""


def float32(value: float) -> float:
    """The nearest number of 32 bits, infinite where it is over their range."""
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def single(number: int) -> float:
    """The nearest FLOAT of a whole number, rounded once."""
    # By a number of 50 bits that is odd where bits were dropped: it lies on the same side of
    # every FLOAT, and of every middle between two, as the number itself.
    size = abs(number)
    shift = max(0, size.bit_length() - 50)
    kept = size >> shift
    if kept << shift != size:
        kept |= 1
    return float32(math.copysign(float(kept << shift), number))


def double(value: float | Decimal) -> float:
    """The nearest DOUBLE of a number of any type."""
    return float(value)


def quotient(a: float, b: float) -> float:
    """A / b with an infinite result or NaN where b is 0."""
    if b != 0.0:
        return a / b
    if a == 0.0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def parse_single(text: str) -> float:
    """The FLOAT nearest to a number's text, which is rounded once and not by way of a DOUBLE."""
    wide = float(text)
    found = float32(wide)
    if not math.isfinite(wide) or found == wide:
        return found
    towards = -math.inf if found > wide else math.inf
    with np.errstate(over="ignore"):
        other = float(np.nextafter(np.float32(found), np.float32(towards)))
    middle = (_bounded(found) + _bounded(other)) / 2
    if middle != wide:
        return found
    # The DOUBLE lies between two FLOATs: the digits themselves tell which one is nearer.
    exact, between = Decimal(text), Decimal(middle)
    if exact == between:
        return found
    return max(found, other) if exact > between else min(found, other)


def _bounded(value: float) -> float:
    """The number; for an infinite one that from which a FLOAT is infinite, but for rounding."""
    return value if math.isfinite(value) else math.copysign(_SINGLE_END, value)


def double_text(value: float) -> str:
    """A DOUBLE as Java writes it."""
    return _java_text(value, double_digits)


def float_text(value: float) -> str:
    """A FLOAT as Java writes it."""
    return _java_text(value, single_digits)


def _java_text(value: float, digits_of: Callable[[float], tuple[str, int]]) -> str:
    if value != value:
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return sign + "Infinity"
    if value == 0.0:
        return sign + "0.0"
    digits, first = digits_of(abs(value))
    text = digits.rstrip("0") or "0"
    if not _PLAIN_MIN <= first <= _PLAIN_MAX:
        return f"{sign}{text[0]}.{text[1:] or '0'}E{first}"
    if first < 0:
        return f"{sign}0.{'0' * (-first - 1)}{text}"
    whole = text[: first + 1].ljust(first + 1, "0")
    return f"{sign}{whole}.{text[first + 1 :] or '0'}"


def double_decimal(value: float) -> Decimal:
    """A finite DOUBLE as the decimal number that Java makes of it: that of its text."""
    return Decimal(double_text(value))
