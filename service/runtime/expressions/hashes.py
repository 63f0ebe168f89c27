"""HASH_CODE, by which a split DISTINCT spreads values: `operators/expressions/hashes` as columns.

Spark does not tell the bits of a FLOAT or DOUBLE: they are computed from its exponent, by steps
that are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions.decimals import COMPACT_PRECISION_MAX
from service.runtime.expressions import instants
from service.runtime.expressions.integers import LONG, truncating_div
from service.runtime.expressions.site import Column, Site, bind
from state.types import INTEGER_BITS, STRING_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

_DOUBLE = spark.DoubleType()
_INT = spark.IntegerType()
_LOW_32 = 0xFFFFFFFF


def hash_code(site: Site) -> Column:
    """HASH_CODE of a string, number, BOOLEAN, DATE, TIME or TIMESTAMP."""
    value, kind = site[0], site[0].type
    match kind.root:
        case TypeRoot.BIGINT:
            return bind(value, lambda number: _absolute(_of_long(number)))
        case root if root in INTEGER_BITS:
            return bind(value, _absolute)
        case TypeRoot.TIME:
            return value.column
        case TypeRoot.DATE:
            return instants.days(value.column)
        case root if root in STRING_ROOTS:
            return bind(value, _of_text)
        case TypeRoot.BOOLEAN:
            return sf.when(value.column, 1231).when(~value.column, 1237).cast(_INT)
        case TypeRoot.FLOAT:
            return bind(value, lambda number: _wrapped(_bits(number, exponent=8, fraction=23)))
        case TypeRoot.DOUBLE:
            bits = _bits(value.column, exponent=11, fraction=52)
            return _bound(bits, lambda number: _wrapped(_of_long(number)))
        case TypeRoot.DECIMAL if (kind.precision or 0) <= COMPACT_PRECISION_MAX:
            scale = kind.scale or 0
            digits = (value.column * sf.lit(10**scale)).cast(LONG)
            return _bound(digits, lambda number: _of_digits(number, scale))
        case TypeRoot.TIMESTAMP:
            return _bound(instants.micros(value.column), _of_micros)
        case _:
            return site.refuse_types()


def _bound(column: Column, body: Callable[[Column], Column]) -> Column:
    """`body` of a column that it uses more than once."""
    return sf.get(sf.transform(sf.array(column), body), sf.lit(0))


def _wrapped(long: Column) -> Column:
    """The last 32 bits as INT."""
    return sf.shiftright(sf.shiftleft(long.cast(LONG), 32), 32).cast(_INT)


def _of_long(number: Column) -> Column:
    return number.bitwiseXOR(sf.shiftright(number, 32))


def _of_text(text: Column) -> Column:
    characters = sf.when(text == "", sf.array().cast("array<string>")).otherwise(
        sf.split(text, "", -1)
    )
    total = sf.aggregate(characters, sf.lit(0).cast(LONG), _hash_step)
    return sf.when(text.isNotNull(), _bound(total, _absolute))


def _absolute(number: Column) -> Column:
    """The absolute value of the last 32 bits; that of the smallest INT is itself, as in Java."""
    signed = _wrapped(number).cast(LONG)
    return sf.when(signed == -(1 << 31), signed).otherwise(sf.abs(signed)).cast(_INT)


def _hash_step(total: Column, letter: Column) -> Column:
    mask = sf.lit(_LOW_32).cast(LONG)
    code = sf.ascii(letter).cast(LONG)

    def step(before: Column, unit: Column) -> Column:
        return (before * 31 + unit).bitwiseAND(mask)

    offset = code - 0x10000
    high, low = sf.shiftright(offset, 10) + 0xD800, offset.bitwiseAND(sf.lit(0x3FF)) + 0xDC00
    return sf.when(code < 0x10000, step(total, code)).otherwise(step(step(total, high), low))


def _of_digits(digits: Column, scale: int) -> Column:
    """That of a `BigDecimal` of up to 18 digits."""
    size = sf.abs(digits)
    mask = sf.lit(_LOW_32).cast(LONG)
    total = (sf.shiftright(size, 32) * 31 + size.bitwiseAND(mask)).bitwiseAND(mask)
    return _wrapped(sf.when(digits < 0, -total).otherwise(total) * 31 + scale)


def _of_micros(micros: Column) -> Column:
    rest = sf.pmod(micros, sf.lit(1000).cast(LONG))
    millis = truncating_div(micros - rest, 1000)
    return _bound(
        millis, lambda each: _wrapped(_wrapped(_of_long(each)).cast(LONG) * 31 + rest * 1000)
    )


def _bits(number: Column, *, exponent: int, fraction: int) -> Column:
    """The bits of a FLOAT or DOUBLE column, as BIGINT; there is one NaN."""
    bias = (1 << (exponent - 1)) - 1
    sign = sf.when(number.cast("string").startswith("-"), _long(-1 << (exponent + fraction)))

    def of_size(size: Column, power: Column) -> Column:
        # By two steps, as 2 to the power of 1074 is none of them.
        half = sf.shiftright(power, 1)
        scaled = size * _power_of_two(-half) * _power_of_two(half - power)
        digits = (scaled * float(1 << fraction)).cast(LONG)
        return digits + (power + (bias - 1)) * (1 << fraction)

    def of(size: Column) -> Column:
        found = _bound(_exponent(size, 1 - bias), lambda power: of_size(size, power))
        infinite = _long(((1 << exponent) - 1) << fraction)
        bits = sf.when(size == 0, _long(0)).when(size == float("inf"), infinite).otherwise(found)
        return bits.bitwiseOR(sf.coalesce(sign, _long(0)))

    nan = _long(((1 << (exponent + 1)) - 1) << (fraction - 1))
    return sf.when(sf.isnan(number), nan).when(
        number.isNotNull(), _bound(sf.abs(number.cast(_DOUBLE)), of)
    )


def _exponent(size: Column, least: int) -> Column:
    """The power of two that a number begins with: where the logarithm is off by one, mended."""

    def mended(guess: Column) -> Column:
        below = sf.when(size < _power_of_two(guess), guess - 1)
        above = sf.when(size >= _power_of_two(guess + 1), guess + 1)
        return sf.greatest(sf.coalesce(below, above, guess), _long(least))

    return _bound(sf.floor(sf.log2(size)).cast(LONG), mended)


def _power_of_two(power: Column) -> Column:
    return sf.pow(sf.lit(2.0), power.cast(_DOUBLE))


def _long(number: int) -> Column:
    return sf.lit(number).cast(LONG)
