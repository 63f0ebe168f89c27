"""Strings read as numbers, dates and timestamps the way Flink reads them: NULL where it refuses.

Each function takes a column that it may use more than once. The grammars are Flink's own, with
their leniences: an integer may have a fraction, which is dropped; the day 30 of February is its
last; a short text for a DECIMAL may end in one letter.

Source: Flink `BinaryStringDataUtil` and `DateTimeUtils` (2.3), checked by running it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions import text_grammars as grammars
from operators.expressions.time_units import MILLIS_PER_DAY
from service.runtime.expressions.instants import NTZ, with_clock_precision
from service.runtime.expressions.spark_types import spark_type
from state.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.runtime.expressions.site import Column

_INT = spark.IntegerType()
(
    _WHOLE,
    _FLOATING,
    _SHORT_DECIMAL,
    _ENDS_IN_SIGN,
    _LONG_DECIMAL,
    _DATE,
    _TIMESTAMP,
    _TIME,
    _SHORT_TIME,
) = (
    rf"\A{grammar}\z"
    for grammar in (
        grammars.WHOLE,
        grammars.FLOATING,
        grammars.SHORT_DECIMAL,
        grammars.ENDS_IN_SIGN,
        grammars.LONG_DECIMAL,
        grammars.DATE,
        grammars.TIMESTAMP,
        grammars.TIME,
        grammars.SHORT_TIME,
    )
)


def group(text: Column, pattern: str, index: int) -> Column:
    """What a group of the pattern matched, "" where it took no part or nothing matched."""
    return sf.regexp_extract(text, pattern, index)


def matches(text: Column, pattern: str) -> Column:
    """Whether the pattern, which says where it begins and ends, matches."""
    return sf.rlike(text, sf.lit(pattern))


def to_integer(text: Column, logical: LogicalType) -> Column:
    """A whole number; blanks around it are dropped, other white space is not."""
    trimmed = sf.trim(text)
    sign, digits = group(trimmed, _WHOLE, 1), group(trimmed, _WHOLE, 2)
    # "." alone is 0, a sign alone is nothing.
    valid = matches(trimmed, _WHOLE) & ~trimmed.isin("", "+", "-")
    number = sf.concat(sign, sf.lit("0"), digits).try_cast(spark_type(logical))
    return sf.when(valid, number)


def to_floating(text: Column, logical: LogicalType) -> Column:
    """A FLOAT or DOUBLE as Java parses it; hexadecimal numbers are not read."""
    number = group(text, _FLOATING, 1).try_cast(spark_type(logical))
    return sf.when(matches(text, _FLOATING), number)


def to_decimal(text: Column, logical: LogicalType) -> Column:
    """A DECIMAL, HALF_UP; NULL where it has too many digits."""
    target = spark_type(logical)
    long = sf.when(matches(text, _LONG_DECIMAL), group(text, _LONG_DECIMAL, 1).try_cast(target))
    precision, scale = logical.precision or 0, logical.scale or 0
    if precision > grammars.SHORT_DECIMAL_MAX:
        return long
    sign, whole, fraction, exponent = (group(text, _SHORT_DECIMAL, n) for n in (1, 2, 3, 4))
    power = sf.coalesce(exponent.try_cast(_INT), sf.lit(0))
    # Leading zeros count as digits here: "0012" does not fit into DECIMAL(3, 0).
    fits = sf.length(whole) + power + sf.lit(scale) <= sf.lit(precision)
    plain = sf.concat(sign, sf.lit("0"), whole, sf.lit("."), fraction, sf.lit("0"))
    number = sf.concat(plain, sf.lit("E"), power.cast("string")).try_cast(target)
    # A sign with nothing after it is no number, nor is an exponent's sign.
    valid = matches(text, _SHORT_DECIMAL) & ~matches(text, _ENDS_IN_SIGN)
    short = sf.when(valid & fits, number)
    return sf.when(sf.octet_length(text) <= grammars.SHORT_DECIMAL_MAX, short).otherwise(long)


def to_boolean(text: Column) -> Column:
    """true, t, yes, y, 1 and false, f, no, n, 0 in any case, without blanks."""
    lower = sf.lower(text)
    return sf.when(lower.isin(*grammars.TRUE_WORDS), sf.lit(True)).when(
        lower.isin(*grammars.FALSE_WORDS), sf.lit(False)
    )


def to_date(text: Column) -> Column:
    """`year[-month[-day]]`; what follows a blank is not looked at."""
    head = sf.when(sf.locate(" ", text) > 1, sf.substring_index(text, " ", 1)).otherwise(text)
    year, month, day = (_number(head, _DATE, n, 0) for n in (1, 2, 3))
    month = sf.when(group(head, _DATE, 2) == "", sf.lit(1)).otherwise(month)
    day = sf.when(group(head, _DATE, 3) == "", sf.lit(1)).otherwise(day)
    in_range = (year <= 9999) & month.between(1, 12) & day.between(1, 31)
    first = sf.make_date(year, month, sf.lit(1))
    valid = matches(head, _DATE) & in_range
    # `make_date` may not be reached with numbers that are none: CASE keeps it from them.
    return sf.when(valid, sf.when(day <= sf.dayofmonth(sf.last_day(first)), first + (day - 1)))


def to_timestamp(text: Column, logical: LogicalType) -> Column:
    """`yyyy-M-d[ H:m:s[.fraction]]` with nothing around it; more digits than asked for are cut."""
    year, month, day = (_number(text, _TIMESTAMP, 1, 0), *_month_and_day(text))
    hour, minute, second = (_number(text, _TIMESTAMP, n, 0) for n in (4, 5, 6))
    fraction = sf.rpad(group(text, _TIMESTAMP, 7), 9, "0")
    precision = min(6 if logical.precision is None else logical.precision, 6)
    kept = sf.rpad(sf.substring(fraction, 1, precision), 6, "0").cast(_INT)
    midnight = (hour == 24) & (minute == 0) & (second == 0) & (fraction == "000000000")
    clock = (hour <= 23) & (minute <= 59) & (second <= 59)
    calendar = (year >= 1) & month.between(1, 12) & day.between(1, 31)
    valid = matches(text, _TIMESTAMP) & calendar & (clock | midnight)
    return sf.when(valid, compose((year, month, day), (hour, minute, second), kept, logical))


def to_time(text: Column, logical: LogicalType) -> Column:
    """Milliseconds of the day: `H[:m[:s[.fraction]]]`, and a distance that is *added*, as `+01:00`.

    The fourth digit rounds; digits that the type has not are cut. Where rounding or the distance
    leads out of the day, Flink goes on with a TIME that is none, until it leaves the job: NULL.
    """
    fraction = sf.concat(group(text, _TIME, 4), group(text, _TIME, 5))
    long = _clock(text, _TIME, (1, 2, 3), (6, 7, 8)) + _rounded_millis(fraction)
    short = _clock(text, _SHORT_TIME, (1, 2), (3, 4))
    millis = sf.when(matches(text, _TIME), long).when(matches(text, _SHORT_TIME), short)
    in_day = sf.when(millis.between(0, MILLIS_PER_DAY - 1), millis).cast(_INT)
    return with_clock_precision(in_day, logical)


def _clock(text: Column, pattern: str, clock: Sequence[int], zone: Sequence[int]) -> Column:
    """Milliseconds of the groups of a time, as BIGINT: hour, minute, second; sign, hour, minute."""
    parts = [_number(text, pattern, index, 0) for index in clock]
    fits = parts[0] <= 23
    for part in parts[1:]:
        fits = fits & (part <= 59)
    sign = sf.when(group(text, pattern, zone[0]) == "-", sf.lit(-1)).otherwise(sf.lit(1))
    away = [sign * _number(text, pattern, index, 0) for index in zone[1:]]
    units = (3_600_000, 60_000, 1_000)
    found = sf.lit(0).cast("bigint")
    for numbers in (parts, away):
        for number, unit in zip(numbers, units, strict=False):
            found = found + number.cast("bigint") * unit
    return sf.when(fits, found)


def _rounded_millis(fraction: Column) -> Column:
    digits = sf.regexp_replace(sf.substring(fraction, 1, 3), "[^0-9]", "0")
    return sf.rpad(digits, 3, "0").cast(_INT) + (sf.substring(fraction, 4, 1) >= "5").cast(_INT)


def compose(
    date: tuple[Column, Column, Column],
    clock: tuple[Column, Column, Column],
    fraction_micros: Column,
    logical: LogicalType,
) -> Column:
    """The instant of calendar fields; a day that the month lacks is its last."""
    year, month, day = date
    first = sf.make_date(year, month, sf.lit(1))
    last = sf.dayofmonth(sf.last_day(first))
    number = sf.unix_date(first) + sf.least(day, last) - 1
    hour, minute, second = (part.cast("bigint") for part in clock)
    seconds = number.cast("bigint") * 86_400 + hour * 3600 + minute * 60 + second
    found = sf.timestamp_micros(seconds * 1_000_000 + fraction_micros.cast("bigint"))
    return found if logical.root is TypeRoot.TIMESTAMP_LTZ else found.cast(NTZ)


def _month_and_day(text: Column) -> tuple[Column, Column]:
    return _number(text, _TIMESTAMP, 2, 1), _number(text, _TIMESTAMP, 3, 1)


def _number(text: Column, pattern: str, index: int, default: int) -> Column:
    """The number that a group matched; the default where it matched nothing."""
    return sf.coalesce(group(text, pattern, index).try_cast(_INT), sf.lit(default))
