"""The calendar for any year, and instants as Flink's code sees them.

Flink holds a timestamp as milliseconds and nanoseconds, and where it takes a timestamp apart it
divides the milliseconds by the length of a day rounding *towards zero*. Before 1970 that is the day
after, so EXTRACT, CAST to DATE, and FLOOR and CEIL to a month give other results there than one
would expect; ours are the same.

Days are counted from 1970 in the proleptic Gregorian calendar, whose cycle is 400 years.

Source: Flink `DateTimeUtils` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.expressions.integers import truncated
from operators.expressions.time_units import MILLIS_PER_DAY

if TYPE_CHECKING:
    from collections.abc import Callable

    from state.types import LogicalType

MICROS_PER_DAY = 86_400_000_000
_CYCLE_DAYS = 146_097
_CYCLE_YEARS = 400
_FIRST_DAY = 719_468
"""Days from the first of March of the year 0 to 1970."""
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def day_number(year: int, month: int, day: int) -> int:
    """Days from 1970 to a date; the day may be beyond the month's last."""
    # Years that begin in March have their leap day at the end.
    year -= month <= 2
    cycle, within = divmod(year, _CYCLE_YEARS)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    of_cycle = within * 365 + within // 4 - within // 100 + of_year
    return cycle * _CYCLE_DAYS + of_cycle - _FIRST_DAY


def date_of(days: int) -> tuple[int, int, int]:
    """Year, month and day."""
    cycle, of_cycle = divmod(days + _FIRST_DAY, _CYCLE_DAYS)
    leaps = of_cycle // 1460 - of_cycle // 36_524 + of_cycle // 146_096
    within = (of_cycle - leaps) // 365
    of_year = of_cycle - (365 * within + within // 4 - within // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = shifted + 3 if shifted < 10 else shifted - 9
    return cycle * _CYCLE_YEARS + within + (month <= 2), month, day


def is_leap(year: int) -> bool:
    """Whether February has 29 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    """Days of the month."""
    return 29 if month == 2 and is_leap(year) else _MONTH_DAYS[month - 1]


def clamped_day_number(year: int, month: int, day: int) -> int:
    """As `day_number`; a day that the month lacks is its last."""
    return day_number(year, month, min(day, month_length(year, month)))


def add_months(days: int, months: int) -> int:
    """The same day, months later; a day that the month lacks is its last."""
    year, month, day = date_of(days)
    carried, month = divmod(year * 12 + month - 1 + months, 12)
    return clamped_day_number(carried, month + 1, day)


def millis_of(micros: int) -> int:
    """Milliseconds, rounded down."""
    return micros // 1000


def truncated_day(micros: int) -> int:
    """The day of an instant as Flink computes it: before 1970 mostly the day after."""
    return truncated(micros // 1000, MILLIS_PER_DAY)


def with_precision(logical: LogicalType) -> Callable[[int], int] | None:
    """To the type's digits of the second; None where nothing is cut.

    Below milliseconds Flink cuts towards zero, so before 1970 it comes out later.
    """
    precision = 6 if logical.precision is None else logical.precision
    if precision >= 6:
        return None
    if precision >= 3:
        step = 10 ** (6 - precision)
        return lambda micros: micros - micros % step
    step = 10 ** (3 - precision)
    return lambda micros: truncated(micros // 1000, step) * step * 1000


def with_clock_precision(logical: LogicalType) -> Callable[[int], int]:
    """To the type's digits of the second, of a TIME in milliseconds of the day."""
    step = 10 ** (3 - min(logical.precision or 0, 3))
    return lambda millis: millis - millis % step


def date_text(days: int) -> str:
    """`yyyy-MM-dd`."""
    year, month, day = date_of(days)
    return f"{year:04d}-{month:02d}-{day:02d}"


def time_text(digits: int) -> Callable[[int], str]:
    """The function to `HH:mm:ss` with at most so many digits of the second.

    Zeros at the end of the milliseconds are left out, but for the first digit.
    """

    def text(millis: int) -> str:
        seconds, fraction = divmod(millis, 1000)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        found = f"{hour:02d}:{minute:02d}:{second:02d}"
        return f"{found}.{(f'{fraction:03d}'.rstrip('0') or '0')[:digits]}" if digits else found

    return text


def timestamp_text(digits: int) -> Callable[[int], str]:
    """The function to `yyyy-MM-dd HH:mm:ss` with so many digits of the second."""

    def text(micros: int) -> str:
        day, rest = divmod(micros, MICROS_PER_DAY)
        seconds, fraction = divmod(rest, 1_000_000)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        found = f"{date_text(day)} {hour:02d}:{minute:02d}:{second:02d}"
        return f"{found}.{f'{fraction:06d}'[:digits].ljust(digits, '0')}" if digits else found

    return text
