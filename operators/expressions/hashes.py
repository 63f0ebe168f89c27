"""HASH_CODE, by which a split DISTINCT spreads values.

It is Java's `hashCode` of a value, of a string its absolute value. Of an integer it is the absolute
value, too, which in Flink it is not: state of split aggregates is kept by it.

Source: Flink `HashCodeCallGen` (2.3), checked by running it.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

from operators.expressions.decimals import COMPACT_PRECISION_MAX, EXACT
from operators.expressions.integers import wrapper
from operators.expressions.site import Site, lifted
from state.types import INTEGER_BITS, STRING_ROOTS, TypeRoot

if TYPE_CHECKING:
    from decimal import Decimal

    from operators.expressions.representation import Run

_NAN_BITS = 0x7FF8 << 48
_NAN_BITS_32 = 0x7FC0 << 16
_LOW_32 = 0xFFFFFFFF
_wrap_int = wrapper(32)


def hash_code(site: Site) -> Run:
    """HASH_CODE of a string, number, BOOLEAN, DATE, TIME or TIMESTAMP."""
    kind = site[0].type
    match kind.root:
        case TypeRoot.BIGINT:
            return lifted(lambda number: _absolute(_of_long(number)), site[0])
        case root if root in INTEGER_BITS:
            return lifted(_absolute, site[0])
        case TypeRoot.DATE | TypeRoot.TIME:
            return lifted(int, site[0])
        case root if root in STRING_ROOTS:
            return lifted(lambda text: _absolute(code_of_text(text)), site[0])
        case TypeRoot.BOOLEAN:
            return lifted(lambda found: 1231 if found else 1237, site[0])
        case TypeRoot.FLOAT:
            return lifted(_of_float, site[0])
        case TypeRoot.DOUBLE:
            return lifted(_of_double, site[0])
        case TypeRoot.DECIMAL if (kind.precision or 0) <= COMPACT_PRECISION_MAX:
            scale = kind.scale or 0
            return lifted(lambda number: _of_decimal(number, scale), site[0])
        case TypeRoot.TIMESTAMP:
            return lifted(_of_instant, site[0])
        case _:
            return site.refuse_types()


def _of_long(number: int) -> int:
    return _wrap_int((number ^ (number >> 32)) & _LOW_32)


def code_of_text(text: str) -> int:
    """Java's `String.hashCode`: over UTF-16 units, an INT."""
    units = memoryview(text.encode("utf-16-le")).cast("H")
    total = 0
    for unit in units:
        total = (total * 31 + unit) & _LOW_32
    return _wrap_int(total)


def _absolute(number: int) -> int:
    """The absolute value of an INT; that of the smallest is itself, as in Java."""
    return _wrap_int(abs(number))


def _of_float(number: float) -> int:
    if math.isnan(number):
        return _NAN_BITS_32
    return int(struct.unpack("<i", struct.pack("<f", number))[0])


def _of_double(number: float) -> int:
    bits = _NAN_BITS if math.isnan(number) else struct.unpack("<q", struct.pack("<d", number))[0]
    return _of_long(bits)


def _of_decimal(number: Decimal, scale: int) -> int:
    """That of a `BigDecimal` of up to 18 digits."""
    digits = int(EXACT.scaleb(number, scale))
    size = abs(digits)
    total = ((size >> 32) * 31 + (size & _LOW_32)) & _LOW_32
    return _wrap_int((total if digits >= 0 else -total) * 31 + scale)


def _of_instant(micros: int) -> int:
    millis, rest = divmod(micros, 1000)
    return _wrap_int(_of_long(millis) * 31 + rest * 1000)
