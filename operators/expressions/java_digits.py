"""The decimal digits with which Java up to 18 writes a FLOAT or DOUBLE.

They give the number back, but are not always the fewest that do: the FLOAT `3.0051739E15` comes as
`3.00517385E15`. Our Spark server runs on Java 17; from 19 on Java writes the fewest. Digits are
divided off until what remains is below half of the distance to the next number, as Steele and White
showed; what Java does apart from that is said where it is done.

Source: java.lang.Double.toString, java.lang.Float.toString (Java 17), checked by running them.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from operators.expressions.integers import wrapper

if TYPE_CHECKING:
    from collections.abc import Callable

_DOUBLE_BITS, _SINGLE_BITS = 53, 24
_SMALL_MIN, _SMALL_MAX = -21, 62
"""Binary exponents at which a number may be taken for a whole one."""
_POWER_BITS = (0, *((5**n).bit_length() for n in range(1, 27)))
"""Java's bound of the bits of a power of five, from the zeroth."""
_PLAIN_MIN, _PLAIN_MAX = -3, 8
"""Exponents between which one digit is enough; outside of them Java looks for two."""


def double_digits(value: float) -> tuple[str, int]:
    """The digits of a finite positive DOUBLE, and the exponent of ten of the first."""
    bits = struct.unpack("<Q", struct.pack("<d", value))[0]
    return _digits(bits & ((1 << 52) - 1), bits >> 52, _DOUBLE_BITS, 1023)


def single_digits(value: float) -> tuple[str, int]:
    """The digits of a finite positive FLOAT, and the exponent of ten of the first."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return _digits(bits & ((1 << 23) - 1), bits >> 23, _SINGLE_BITS, 127)


def _digits(fraction: int, exponent: int, width: int, bias: int) -> tuple[str, int]:
    if exponent == 0:
        # Without a leading bit of its own: as many bits count as there are.
        significant = fraction.bit_length()
        fraction <<= width - significant
        exponent = 1 - (width - significant)
    else:
        fraction |= 1 << (width - 1)
        significant = width
    exponent -= bias
    size = width - _trailing_zeros(fraction)
    odd = fraction >> (width - size)
    below = max(0, size - exponent - 1)
    if below == 0 and _SMALL_MIN <= exponent <= _SMALL_MAX and size < 64:
        return _of_whole(odd << (exponent - size + 1), exponent - significant)
    return _divided(odd, size, exponent, significant, below)


def _trailing_zeros(number: int) -> int:
    return (number & -number).bit_length() - 1


def _of_whole(number: int, unused: int) -> tuple[str, int]:
    """A whole number of at most 63 bits, rounded by as many digits as its last bit leaves open."""
    power = unused - 1
    dropped = int(power * math.log10(2)) if unused > 0 and power > 1 else 0
    kept, rest = divmod(number, 10**dropped)
    if dropped and rest >= 10**dropped // 2:
        kept += 1
    text = str(kept)
    return text.rstrip("0"), len(text) + dropped - 1


def _divided(odd: int, size: int, exponent: int, significant: int, below: int) -> tuple[str, int]:
    first = _estimated_exponent(odd, size, exponent)
    five = max(0, -first)
    two = five + below + exponent
    scale_five, scale_two = max(0, first), max(0, first) + below
    half = two - significant
    two -= size - 1
    common = min(two, scale_two)
    two, scale_two, half = two - common, scale_two - common, half - common
    if size == 1:
        # The number before a power of two is half as far away; Java takes that for both sides.
        half -= 1
    if half < 0:
        two, scale_two, half = two - half, scale_two - half, 0
    bits = _machine_bits(
        size + two + _bits_of_five(five), scale_two + 1 + _bits_of_five(scale_five + 1)
    )
    return _picked(
        (odd * 5**five) << two, (5**scale_five) << scale_two, (5**five) << half, first, bits
    )


def _bits_of_five(power: int) -> int:
    return _POWER_BITS[power] if power < len(_POWER_BITS) else power * 3


def _machine_bits(number: int, scale: int) -> int:
    """The width of the whole numbers in which Java computes; 0 for any."""
    if number < 32 and scale < 32:
        return 32
    return 64 if number < 64 and scale < 64 else 0


def _estimated_exponent(odd: int, size: int, exponent: int) -> int:
    """The exponent of ten of the first digit, or one more."""
    leading = odd / (1 << (size - 1))
    return math.floor((leading - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


def _picked(number: int, scale: int, half: int, first: int, bits: int) -> tuple[str, int]:
    wrap: Callable[[int], int] = wrapper(bits) if bits else _same
    is_exact, tens = not bits, scale * 10
    digit, number, half = number // scale, number % scale * 10, wrap(half * 10)
    low, high = _ends(wrap, number, half, tens, is_exact=is_exact)
    digits: list[int] = []
    if digit == 0 and not high:
        first -= 1
    else:
        digits.append(digit)
    if not _PLAIN_MIN <= first < _PLAIN_MAX:
        low = high = False
    while not low and not high:
        digit, number, half = number // scale, number % scale * 10, wrap(half * 10)
        # Half the distance may run over the machine's range: Java stops there.
        low = high = True
        if half > 0:
            low, high = _ends(wrap, number, half, tens, is_exact=is_exact)
        digits.append(digit)
    last = wrap(2 * number - tens)
    if high and (not low or last > 0 or (last == 0 and digits[-1] % 2)):
        first += _round_up(digits)
    return "".join(map(str, digits)), first


def _ends(
    wrap: Callable[[int], int], number: int, half: int, tens: int, *, is_exact: bool
) -> tuple[bool, bool]:
    """Whether the digits so far, or with the last one raised, are near enough."""
    above = wrap(number + half)
    return number < half, above > tens or (is_exact and above == tens)


def _same(number: int) -> int:
    return number


def _round_up(digits: list[int]) -> int:
    """Raise the last digit; 1 if that gives the number one digit more in front."""
    at = len(digits) - 1
    while digits[at] == 9:
        digits[at] = 0
        if at == 0:
            digits[0] = 1
            return 1
        at -= 1
    digits[at] += 1
    return 0
