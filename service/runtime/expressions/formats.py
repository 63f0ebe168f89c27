"""The functions between times, numbers and texts.

Source: Flink `DateTimeUtils`, `BuiltInMethods` (2.3), checked by running it.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from operators.expressions import date_formats
from operators.expressions.families import STRING
from operators.expressions.integers import BIGINT
from service.runtime.expressions import instants, parsing
from service.runtime.expressions.casts import convert, saturated
from service.runtime.expressions.integers import LONG, multiply, truncating_div
from service.runtime.expressions.site import INLINE_WEIGHT_MAX, Column, Site, Value, bind, failing
from state.types import FLOAT_ROOTS, NUMBER_ROOTS, STRING_ROOTS, LogicalType

_LOOSE = rf"\A{date_formats.LOOSE_TIMESTAMP}\z"
_LONG_MIN = -(1 << 63)
_REFORM_MILLIS = -12_219_292_800_000
"""15 October 1582, the first day of the Gregorian calendar."""
_INT = spark.IntegerType()


def date_format(site: Site) -> Column:
    """DATE_FORMAT(timestamp, format)."""
    return sf.date_format(site[0].column, date_formats.time_format(site).pattern)


def from_unixtime(site: Site) -> Column:
    """FROM_UNIXTIME(seconds[, format])."""
    pattern = date_formats.seconds_format(site).pattern
    thousand = Value(sf.lit(1000).cast(LONG), BIGINT, literal=1000, is_literal=True)
    return bind(multiply(site[0], thousand, BIGINT), lambda x: _of_millis(site, x, pattern))


def _of_millis(site: Site, millis: Column, pattern: str) -> Column:
    """The text of an instant of which Spark's calendar and Flink's, that of java.text, agree."""
    text = sf.date_format(sf.timestamp_millis(millis), pattern)
    outside = failing(f"{site.name} of a time outside of 15 October 1582 to 9999", STRING)
    # NULL stays NULL: it is neither inside nor outside.
    inside = millis.between(_REFORM_MILLIS, date_formats.MILLIS_MAX)
    return sf.when(inside, text).when(~inside, outside)


def unix_timestamp(site: Site) -> Column:
    """UNIX_TIMESTAMP(text[, 'yyyy-MM-dd']): the smallest BIGINT for a text that is no time.

    As SimpleDateFormat reads it: the beginning of the text, with fields over their range carried
    into the next one. Dates before the reform of the calendar in 1582 are refused at each row.
    """
    pattern = date_formats.lenient_format(site)
    expression = rf"\A{date_formats.LENIENT[pattern]}"
    return bind(site[0], lambda x: _lenient_seconds(site, x, expression, pattern))


def _lenient_seconds(site: Site, text: Column, expression: str, pattern: str) -> Column:
    def field(index: int) -> Column:
        return parsing.group(text, expression, index).try_cast(_INT)

    months = (field(1) - 1970) * 12 + field(2) - 1
    first = sf.add_months(sf.lit(instants.DAY_EPOCH).cast(instants.DATE), months)
    days = instants.days(first).cast(LONG) + field(3) - 1
    clock = sf.lit(0).cast(LONG)
    if pattern == date_formats.DEFAULT_FORMAT:
        clock = field(4).cast(LONG) * 3600 + field(5).cast(LONG) * 60 + field(6)
    seconds = days * 86_400 + clock
    reformed = sf.when(field(1) > 1582, seconds).otherwise(_too_early(site))
    read = parsing.matches(text, expression + r"[\s\S]*\z")
    return sf.when(text.isNotNull(), sf.when(read, reformed).otherwise(sf.lit(_LONG_MIN)))


def _too_early(site: Site) -> Column:
    return failing(f"{site.name} of a date before 1583", BIGINT)


def to_date(site: Site) -> Column:
    """TO_DATE(text): `year[-month[-day]]`, NULL where it is none."""
    date_formats.check_to_date(site)
    return bind(site[0], parsing.to_date)


def to_timestamp(site: Site) -> Column:
    """TO_TIMESTAMP(text[, format]): TIMESTAMP(3), NULL where the text is none."""
    value, millisecond = site.of_type(0, STRING_ROOTS), replace(site.type, precision=3)
    if len(site) == 1:
        return bind(value, lambda x: parsing.to_timestamp(x, millisecond))
    expression, fields = date_formats.reader(site, site.text(1, "the format"))
    pattern = rf"\A{expression}\z"
    return bind(value, lambda x: _formatted_timestamp(x, pattern, fields, millisecond))


def _formatted_timestamp(
    text: Column, expression: str, fields: dict[int, int], logical: LogicalType
) -> Column:
    def field(index: int) -> Column:
        if index not in fields:
            return sf.lit(date_formats.FIELD_DEFAULTS[index])
        found = parsing.group(text, expression, fields[index]).try_cast(_INT)
        return sf.coalesce(found, sf.lit(-1))

    date, clock = (field(0), field(1), field(2)), (field(3), field(4), field(5))
    digits = sf.lit("")
    if date_formats.FRACTION in fields:
        digits = parsing.group(text, expression, fields[date_formats.FRACTION])
    fraction = sf.rpad(sf.substring(digits, 1, 3), 6, "0").cast(_INT)
    calendar = (date[0] >= 1) & date[1].between(1, 12) & date[2].between(1, 31)
    hours = clock[0].between(0, 23) & clock[1].between(0, 59) & clock[2].between(0, 59)
    midnight = (clock[0] == 24) & (clock[1] == 0) & (clock[2] == 0) & (fraction == 0)
    strict = parsing.matches(text, expression) & calendar & (hours | midnight)
    found = parsing.compose(date, clock, fraction, logical)
    return sf.when(strict, found).otherwise(_loose_timestamp(sf.trim(text), logical))


def _loose_timestamp(text: Column, logical: LogicalType) -> Column:
    """What Flink tries when the format does not fit: `y-M-d[ H:m:s[.f]]`, days carried over."""

    def field(index: int) -> Column:
        found = parsing.group(text, _LOOSE, index).try_cast(_INT)
        return sf.coalesce(found, sf.lit(0))

    year, month, day = field(1), field(2), field(3)
    digits = sf.rpad(sf.substring(parsing.group(text, _LOOSE, 7), 1, 3), 6, "0").cast(_INT)
    first = instants.days(sf.make_date(year, month, sf.lit(1))).cast(LONG) + day - 1
    seconds = first * 86_400 + field(4).cast(LONG) * 3600 + field(5).cast(LONG) * 60 + field(6)
    valid = parsing.matches(text, _LOOSE) & month.between(1, 12) & day.between(1, 31)
    found = instants.from_micros(seconds * 1_000_000 + digits.cast(LONG), logical)
    early = failing("TO_TIMESTAMP of a date before 1583 that is not of the format", logical)
    return sf.when(valid & (year >= 1), sf.when(year > 1582, found).otherwise(early))


def to_timestamp_ltz(site: Site) -> Column:
    """TO_TIMESTAMP_LTZ(number[, 0 | 3 | 6 | 9]): NULL outside of the years 0 to 9999."""
    digits = date_formats.digits_of_count(site)
    value = site.of_type(0, NUMBER_ROOTS)
    if value.type.root in FLOAT_ROOTS:
        wide = replace(value, column=value.column.cast(spark.DoubleType()))
        return bind(wide, lambda x: _instant_of_floating(site, x, 1000 if digits == 0 else 1))
    number = replace(value, column=convert(site, value, BIGINT))
    if digits <= date_formats.MILLIS:
        scale = 10 ** (date_formats.MILLIS - digits)
        low, high = -(-date_formats.MILLIS_MIN // scale), date_formats.MILLIS_MAX // scale
        return bind(
            number,
            lambda x: sf.when(x.between(low, high), instants.from_millis(x * scale, site.type)),
        )
    parts = 10 ** (digits - date_formats.MICROS)
    low, high = date_formats.MILLIS_MIN * 1000, date_formats.MILLIS_MAX * 1000 + 999
    if parts > 1:
        # All nanoseconds of 64 bits are within these years.
        low, high = -(1 << 63), (1 << 63) - 1

    def instant(x: Column) -> Column:
        micros = truncating_div(instants.floored(x, parts), parts) if parts > 1 else x
        return sf.when(x.between(low, high), instants.from_micros(micros, site.type))

    return bind(number, instant)


def _instant_of_floating(site: Site, count: Column, scale: int) -> Column:
    """Of a FLOAT or DOUBLE, which Flink counts in nanoseconds: those end in the year 2262."""
    seconds = count / sf.lit(1000.0 / scale)
    is_known = seconds.between(date_formats.SECONDS_MIN, date_formats.SECONDS_MAX)

    def instant(nanos: Column) -> Column:
        is_part = (nanos < 0) & (sf.pmod(nanos, sf.lit(1_000_000).cast(LONG)) != 0)
        millis = truncating_div(nanos, 1_000_000) - is_part.cast(LONG)
        return instants.from_millis(millis, site.type)

    nanos = Value(saturated(count * scale * 1e6, BIGINT), BIGINT, INLINE_WEIGHT_MAX + 1)
    return sf.when(is_known | sf.isnan(count), bind(nanos, instant))
