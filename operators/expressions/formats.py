"""The functions between times, numbers and texts.

Source: Flink `DateTimeUtils`, `BuiltInMethods` (2.3), checked by running it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from operators.expressions import date_formats, parsing
from operators.expressions.casts import convert, saturated
from operators.expressions.errors import EvaluationFailed
from operators.expressions.instants import MICROS_PER_DAY, date_of, day_number, month_length
from operators.expressions.integers import BIGINT, WRAPPERS
from operators.expressions.reform import reformed_date_of, reformed_day_number
from operators.expressions.site import Site, lifted
from operators.expressions.zones import legacy_offset, legacy_offset_of_local
from state.types import FLOAT_ROOTS, NUMBER_ROOTS, STRING_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from operators.expressions.representation import Run

_LENIENT = {pattern: re.compile(expression) for pattern, expression in date_formats.LENIENT.items()}
_LOOSE = re.compile(date_formats.LOOSE_TIMESTAMP)
_LONG_MIN = -(1 << 63)
_FIELD_DIGITS_MAX = 9
_wrap_long = WRAPPERS[TypeRoot.BIGINT]


def _formatter(
    written: date_formats.WrittenFormat, clock_of: Callable[[int], _Clock]
) -> Callable[[int], str]:
    """The function from microseconds to text."""
    parts: list[str | Callable[[_Clock], str]] = [
        _field_writer(text) if is_field else text for text, is_field in written.parts
    ]

    def text(micros: int) -> str:
        clock = clock_of(micros)
        return "".join([part if isinstance(part, str) else part(clock) for part in parts])

    return text


class _Clock:
    """The fields of an instant."""

    __slots__ = ("day", "days", "hour", "micros", "minute", "month", "second", "year")

    def __init__(self, micros: int) -> None:
        self.days, rest = divmod(micros, MICROS_PER_DAY)
        self.year, self.month, self.day = self._date(self.days)
        seconds, self.micros = divmod(rest, 1_000_000)
        minutes, self.second = divmod(seconds, 60)
        self.hour, self.minute = divmod(minutes, 60)

    def _date(self, days: int) -> tuple[int, int, int]:
        return date_of(days)

    def four_digits(self) -> str:
        """The year as `yyyy` writes it."""
        year = _year_of_era(self.year)
        return f"{year:04d}" if year <= 9999 else f"+{year}"


class _OlderClock(_Clock):
    """The same as java.text.SimpleDateFormat sees them: in the calendar of `reform`."""

    __slots__ = ()

    def _date(self, days: int) -> tuple[int, int, int]:
        return reformed_date_of(days) or date_of(days)

    def four_digits(self) -> str:
        """The year as `yyyy` writes it."""
        return f"{_year_of_era(self.year):04d}"


def _year_of_era(year: int) -> int:
    return year if year > 0 else 1 - year


def _hour_of_half(clock: _Clock) -> int:
    return (clock.hour + 11) % 12 + 1


def _weekday(clock: _Clock) -> str:
    # 1970 began on a Thursday.
    return date_formats.WEEKDAYS[(clock.days + 3) % 7]


def _day_of_year(clock: _Clock) -> int:
    return clock.days - day_number(clock.year, 1, 1) + 1


def _field_writer(letters: str) -> Callable[[_Clock], str]:
    known = _WRITERS.get(letters)
    return known or (lambda clock: f"{clock.micros:06d}"[: len(letters)])


_WRITERS: Mapping[str, Callable[[_Clock], str]] = {
    "yyyy": lambda clock: clock.four_digits(),
    "yy": lambda clock: f"{_year_of_era(clock.year) % 100:02d}",
    **dict.fromkeys(("E", "EE", "EEE"), lambda clock: _weekday(clock)[:3]),
    "EEEE": _weekday,
    "MMM": lambda clock: date_formats.MONTHS[clock.month - 1][:3],
    "MMMM": lambda clock: date_formats.MONTHS[clock.month - 1],
    "a": lambda clock: "AM" if clock.hour < 12 else "PM",
    "D": lambda clock: str(_day_of_year(clock)),
    "DDD": lambda clock: f"{_day_of_year(clock):03d}",
    "MM": lambda clock: f"{clock.month:02d}",
    "M": lambda clock: str(clock.month),
    "dd": lambda clock: f"{clock.day:02d}",
    "d": lambda clock: str(clock.day),
    "HH": lambda clock: f"{clock.hour:02d}",
    "H": lambda clock: str(clock.hour),
    "hh": lambda clock: f"{_hour_of_half(clock):02d}",
    "h": lambda clock: str(_hour_of_half(clock)),
    "mm": lambda clock: f"{clock.minute:02d}",
    "m": lambda clock: str(clock.minute),
    "ss": lambda clock: f"{clock.second:02d}",
    "s": lambda clock: str(clock.second),
}


def date_format(site: Site) -> Run:
    """DATE_FORMAT(timestamp, format)."""
    text = _formatter(date_formats.time_format(site), _Clock)
    if site[0].type.root is TypeRoot.DATE:
        return lifted(lambda days: text(days * MICROS_PER_DAY), site[0])
    return lifted(text, site[0])


def from_unixtime(site: Site) -> Run:
    """FROM_UNIXTIME(seconds[, format])."""
    text = _formatter(date_formats.seconds_format(site), _OlderClock)
    return lifted(lambda seconds: text(_wrap_long(seconds * 1000) * 1000), site[0])


def unix_timestamp(site: Site) -> Run:
    """UNIX_TIMESTAMP(text[, 'yyyy-MM-dd']): the smallest BIGINT for a text that is no time.

    As SimpleDateFormat reads it: the beginning of the text, with fields over their range carried
    into the next one, in the calendar of `reform`.
    """
    expression, name = _LENIENT[date_formats.lenient_format(site)], site.name
    return lifted(lambda text: _lenient_seconds(text, expression, name), site[0])


def _lenient_seconds(text: str, expression: re.Pattern[str], name: str) -> int:
    found = expression.match(text)
    if found is None:
        return _LONG_MIN
    if any(len(part.lstrip("0")) > _FIELD_DIGITS_MAX for part in found.groups()):
        raise EvaluationFailed(f"{name} of a text with more than nine digits in a field")
    year, month, day, *clock = map(int, found.groups())
    days = reformed_day_number(year, month, day)
    hour, minute, second = clock or (0, 0, 0)
    return days * 86_400 + hour * 3600 + minute * 60 + second


def convert_tz(site: Site) -> Run:
    """CONVERT_TZ(text, from zone, to zone): NULL of a text that UNIX_TIMESTAMP does not read."""
    source, target = date_formats.converted_zones(site)
    expression, name = _LENIENT[date_formats.DEFAULT_FORMAT], site.name
    written = _formatter(date_formats.default_format(site), _OlderClock)
    of_local, of_instant = legacy_offset_of_local(source), legacy_offset(target)

    def converted(text: str) -> str | None:
        local = _lenient_seconds(text, expression, name)
        if local == _LONG_MIN:
            return None
        instant = local - of_local(local)
        return written((instant + of_instant(instant)) * 1_000_000)

    return lifted(converted, site.of_type(0, STRING_ROOTS))


def to_date(site: Site) -> Run:
    """TO_DATE(text): `year[-month[-day]]`, NULL where it is none."""
    date_formats.check_to_date(site)
    return lifted(parsing.to_date, site[0])


def to_timestamp(site: Site) -> Run:
    """TO_TIMESTAMP(text[, format]): TIMESTAMP(3), NULL where the text is none."""
    value = site.of_type(0, STRING_ROOTS)
    if len(site) == 1:
        return lifted(parsing.to_timestamp(replace(site.type, precision=3)), value)
    expression, fields = date_formats.reader(site, site.text(1, "the format"))
    pattern = re.compile(expression)
    return lifted(lambda text: _formatted_timestamp(text, pattern, fields), value)


def _formatted_timestamp(
    text: str, expression: re.Pattern[str], fields: dict[int, int]
) -> int | None:
    found = expression.fullmatch(text)
    if found is None:
        return _loose_timestamp(text.strip(" "))
    year, month, day, *clock = (
        int(found[fields[at]]) if at in fields else default
        for at, default in enumerate(date_formats.FIELD_DEFAULTS)
    )
    digits = found[fields[date_formats.FRACTION]] if date_formats.FRACTION in fields else ""
    fraction = int(digits[:3].ljust(6, "0"))
    if parsing.is_calendar(year, month, day) and parsing.is_clock(
        tuple(clock), is_whole=fraction == 0
    ):
        return parsing.compose((year, month, day), tuple(clock), fraction)
    return _loose_timestamp(text.strip(" "))


def _loose_timestamp(text: str) -> int | None:
    """What Flink tries when the format does not fit: `y-M-d[ H:m:s[.f]]`, days carried over."""
    found = _LOOSE.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(found[at] or "0") for at in range(1, 7))
    if not parsing.is_calendar(year, month, day):
        return None
    days = reformed_day_number(year, month, day)
    if (date := reformed_date_of(days)) is not None:
        # Its fields are then taken for those of the other calendar.
        if date[2] > month_length(*date[:2]):
            raise EvaluationFailed("TO_TIMESTAMP of the 29 February of a year that lacks it now")
        days = day_number(*date)
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * 1_000_000 + int((found[7] or "")[:3].ljust(6, "0"))


def to_timestamp_ltz(site: Site) -> Run:
    """TO_TIMESTAMP_LTZ(number[, 0 | 3 | 6 | 9]): NULL outside of the years 0 to 9999.

    What is below a microsecond, and below the type's digits, is cut, before 1970 too.
    """
    digits = date_formats.digits_of_count(site)
    number = site.of_type(0, NUMBER_ROOTS)
    if number.type.root in FLOAT_ROOTS:
        return lifted(_instant_of_floating(1000 if digits == 0 else 1), number)
    times, parts = int(10 ** max(6 - digits, 0)), int(10 ** max(digits - 6, 0))
    unit = int(10 ** (6 - (site.type.precision or 0)))

    def instant(count: int) -> int | None:
        micros = count * times // parts
        if not date_formats.MILLIS_MIN <= micros // 1000 <= date_formats.MILLIS_MAX:
            return None
        return micros // unit * unit

    return lifted(instant, convert(site, number, BIGINT))


def _instant_of_floating(scale: int) -> Callable[[float], int | None]:
    """Of a FLOAT or DOUBLE, which Flink counts in nanoseconds: those end in the year 2262."""
    per_second = 1000.0 / scale

    def instant(count: float) -> int | None:
        seconds = count / per_second
        if seconds < date_formats.SECONDS_MIN or seconds > date_formats.SECONDS_MAX:
            return None
        nanos = saturated(64)(count * scale * 1e6)
        return nanos // 1_000_000 * 1000

    return instant
