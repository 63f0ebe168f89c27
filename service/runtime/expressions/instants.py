"""Instants as Flink's code sees them: milliseconds since 1970, divided as Java divides.

Flink holds a timestamp as milliseconds and nanoseconds, and where it takes a timestamp apart it
divides the milliseconds by the length of a day rounding *towards zero*. Before 1970 that is the day
after, so EXTRACT, CAST to DATE, and FLOOR and CEIL to a month give other results there than one
would expect; ours are the same. Spark's session time zone is UTC, as pipelines set it.

Source: Flink `DateTimeUtils` (2.3), checked by running it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions.time_units import MILLIS_PER_DAY
from service.runtime.expressions.integers import LONG, truncating_div
from state.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    from service.runtime.expressions.site import Column

DATE = spark.DateType()
NTZ = spark.TimestampNTZType()
LTZ = spark.TimestampType()
INT = spark.IntegerType()
DAY_EPOCH = "1970-01-01"


def millis(instant: Column) -> Column:
    """Milliseconds since 1970 of a TIMESTAMP or TIMESTAMP_LTZ column, rounded down."""
    return sf.unix_millis(instant.cast(LTZ))


def micros(instant: Column) -> Column:
    """Microseconds since 1970 of a TIMESTAMP or TIMESTAMP_LTZ column."""
    return sf.unix_micros(instant.cast(LTZ))


def days(date: Column) -> Column:
    """Days since 1970 of a DATE column, as INT."""
    return sf.unix_date(date)


def from_micros(long: Column, logical: LogicalType) -> Column:
    """The instant of so many microseconds, as a TIMESTAMP or TIMESTAMP_LTZ column."""
    found = sf.timestamp_micros(long)
    return found if logical.root is TypeRoot.TIMESTAMP_LTZ else found.cast(NTZ)


def from_millis(long: Column, logical: LogicalType) -> Column:
    """The instant of so many milliseconds, as a TIMESTAMP or TIMESTAMP_LTZ column."""
    found = sf.timestamp_millis(long)
    return found if logical.root is TypeRoot.TIMESTAMP_LTZ else found.cast(NTZ)


def from_days(number: Column) -> Column:
    """The DATE of so many days."""
    return sf.date_from_unix_date(number.cast(INT))


def truncated_date(instant: Column) -> Column:
    """The day of an instant as Flink computes it: before 1970 mostly the day after."""
    return from_days(truncating_div(millis(instant), MILLIS_PER_DAY))


def floored(long: Column, step: int) -> Column:
    """The greatest multiple of `step` that is not above a BIGINT column."""
    return long - sf.pmod(long, sf.lit(step).cast(LONG))


def with_precision(instant: Column, logical: LogicalType) -> Column:
    """The instant with the type's digits of the second.

    Below milliseconds Flink cuts towards zero, so before 1970 it comes out later.
    """
    precision = 6 if logical.precision is None else logical.precision
    if precision >= 6:
        return instant
    if precision > 3:
        return from_micros(floored(micros(instant), 10 ** (6 - precision)), logical)
    step = 10 ** (3 - precision)
    if step == 1:
        return from_millis(millis(instant), logical)
    return from_millis(truncating_div(millis(instant), step) * sf.lit(step).cast(LONG), logical)


def formatted(instant: Column, digits: int) -> Column:
    """`yyyy-MM-dd HH:mm:ss` with so many digits of the second."""
    pattern = "yyyy-MM-dd HH:mm:ss" + ("." + "S" * digits if digits else "")
    return sf.date_format(instant, pattern)


def with_clock_precision(clock: Column, logical: LogicalType) -> Column:
    """A TIME, in milliseconds of the day, with the type's digits of the second."""
    step = 10 ** (3 - min(logical.precision or 0, 3))
    return clock if step == 1 else clock - sf.pmod(clock, sf.lit(step))


def formatted_clock(clock: Column, digits: int) -> Column:
    """`HH:mm:ss` of a TIME with at most so many digits of the second.

    Zeros at the end of the milliseconds are left out, but for the first digit.
    """
    seconds = sf.floor(clock / 1000)
    parts = (sf.floor(seconds / 3600), sf.floor(seconds / 60) % 60, seconds % 60)
    hour, minute, second = (_padded(part, 2) for part in parts)
    text = sf.concat(hour, sf.lit(":"), minute, sf.lit(":"), second)
    if not digits:
        return text
    millis = sf.regexp_replace(_padded(clock % 1000, 3), "(?<=.)0+$", "")
    return sf.concat(text, sf.lit("."), sf.substring(millis, 1, digits))


def _padded(number: Column, width: int) -> Column:
    return sf.lpad(number.cast("string"), width, "0")
