"""The calendar of java.util: Julian up to 4 October 1582, Gregorian from the day after, the 15th.

Flink's older functions read texts by it, with days and months over their range carried on.

Source: java.util.GregorianCalendar (Java 17).
"""

from __future__ import annotations

from operators.expressions.instants import day_number

_YEAR = 1582
_FIRST_GREGORIAN = day_number(_YEAR, 10, 15)
_JULIAN_CYCLE_DAYS = 1461
_JULIAN_FIRST_DAY = 719_470
"""Days from the first of March of the year 0, Julian, to 1970."""


def reformed_day_number(year: int, month: int, day: int) -> int:
    """Days since 1970; the month and the day may be over their range."""
    carried, month = divmod(year * 12 + month - 1, 12)
    gregorian = day_number(carried, month + 1, 1) + day - 1
    if year > _YEAR and gregorian >= _FIRST_GREGORIAN:
        return gregorian
    julian = _julian_day_number(carried, month + 1) + day - 1
    if year < _YEAR and julian < _FIRST_GREGORIAN:
        return julian
    return gregorian if gregorian >= _FIRST_GREGORIAN else julian


def _julian_day_number(year: int, month: int) -> int:
    year -= month <= 2
    of_year = (153 * ((month + 9) % 12) + 2) // 5
    return year * 365 + year // 4 + of_year - _JULIAN_FIRST_DAY


def reformed_date_of(days: int) -> tuple[int, int, int] | None:
    """Year, month and day in that calendar; None where it is a Gregorian date as any other."""
    if days >= _FIRST_GREGORIAN:
        return None
    cycle, of_cycle = divmod(days + _JULIAN_FIRST_DAY, _JULIAN_CYCLE_DAYS)
    within = min(of_cycle // 365, 3)
    of_year = of_cycle - within * 365
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return cycle * 4 + within + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1
