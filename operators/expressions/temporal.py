"""Date and time: EXTRACT, FLOOR and CEIL to a unit, arithmetic with intervals, differences.

An interval of days and below is a number of milliseconds, one of years and months a number of
months, as in Flink's own code. What looks odd before 1970 is explained in `instants`.

Source: Flink `DateTimeUtils`, `ScalarOperatorGens`, `ExtractCallGen`, `FloorCeilCallGen` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.expressions import numbers
from operators.expressions.families import check_times, is_date, is_instant
from operators.expressions.instants import (
    MICROS_PER_DAY,
    add_months,
    date_of,
    day_number,
    millis_of,
    truncated_day,
)
from operators.expressions.integers import WRAPPERS, rest, truncated
from operators.expressions.reform import reformed_date_of
from operators.expressions.site import Site, Value, lifted
from operators.expressions.time_units import MILLIS_PER_DAY, UNIT_MILLIS, WITHIN_MILLIS
from state.types import INTERVAL_ROOTS, TypeRoot, format_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from operators.expressions.representation import Run

_wrap_long = WRAPPERS[TypeRoot.BIGINT]
_wrap_int = WRAPPERS[TypeRoot.INTEGER]


# Parts


def extract(site: Site) -> Run:
    """EXTRACT(unit FROM x) of a date or timestamp, as BIGINT."""
    unit, value = site.text(0, "the unit"), site[1]
    found = _part_of_date(unit) if is_date(value) else None
    if is_instant(value):
        found = _part_of_instant(unit)
    if found is None:
        site.refuse(f"{unit} of {format_type(value.type)} is not computed")
    return lifted(found, value)


def _part_of_date(unit: str) -> Callable[[int], int] | None:
    if unit == "EPOCH":
        return lambda days: days * 86_400
    return _DATE_PARTS.get(unit)


def _part_of_instant(unit: str) -> Callable[[int], int] | None:
    part = _DATE_PARTS.get(unit)
    if part is not None:
        return lambda micros: part(truncated_day(micros))
    if unit == "EPOCH":
        return lambda micros: truncated(micros // 1000, 1000)
    if unit in WITHIN_MILLIS:
        within, step = WITHIN_MILLIS[unit], UNIT_MILLIS[unit]
        return lambda micros: truncated(rest(micros // 1000, within), step)
    # Flink adds the microseconds, which are never negative, to milliseconds that may be.
    if unit == "MICROSECOND":
        return lambda micros: rest(micros // 1000, 1000) * 1000 + micros % 1000
    return None


def _year(days: int) -> int:
    return date_of(days)[0]


def _month(days: int) -> int:
    return date_of(days)[1]


def _quarter(days: int) -> int:
    return (date_of(days)[1] + 2) // 3


def _day_of_week(days: int) -> int:
    """1 for Sunday to 7; 1970 began on a Thursday."""
    return (days + 4) % 7 + 1


def _iso_day_of_week(days: int) -> int:
    """1 for Monday to 7."""
    return (days + 3) % 7 + 1


def _iso_year(days: int) -> int:
    """The year of the week's Thursday."""
    return _year(days + 4 - _iso_day_of_week(days))


def _week(days: int) -> int:
    thursday = days + 4 - _iso_day_of_week(days)
    return (thursday - day_number(_year(thursday), 1, 1)) // 7 + 1


_DATE_PARTS: Mapping[str, Callable[[int], int]] = {
    "YEAR": _year,
    "QUARTER": _quarter,
    "MONTH": _month,
    "DAY": lambda days: date_of(days)[2],
    "WEEK": _week,
    "DOW": _day_of_week,
    "ISODOW": _iso_day_of_week,
    "DOY": lambda days: days - day_number(_year(days), 1, 1) + 1,
    "ISOYEAR": _iso_year,
    "DECADE": lambda days: truncated(_year(days), 10),
    "CENTURY": lambda days: truncated(_year(days) + 99, 100),
    "MILLENNIUM": lambda days: truncated(_year(days) + 999, 1000),
}


# Rounding to a unit


def rounded(*, up: bool) -> Callable[[Site], Run | Value]:
    """The builder of FLOOR and CEIL, of a number or as FLOOR(x TO unit)."""
    of_number = numbers.rounded_whole(up=up)
    by_date = _CEIL_DATE if up else _FLOOR_DATE

    def build(site: Site) -> Run | Value:
        if len(site) == 1:
            return of_number(site)
        value, unit = site[0], site.text(1, "the unit")
        found = None
        if is_date(value):
            found = by_date.get(unit) or _date_to_unit(unit, up=up)
        elif is_instant(value):
            found = _instant_to_unit(value.type.root, unit, by_date.get(unit), up=up)
        if found is None:
            site.refuse(f"{unit} of {format_type(value.type)} is not computed")
        return lifted(found, value)

    return build


def _date_to_unit(unit: str, *, up: bool) -> Callable[[int], int] | None:
    if unit not in UNIT_MILLIS:
        return None
    if unit != "DAY":
        return lambda days: days
    return (lambda days: _retold(days) + 1) if up else _retold


def _instant_to_unit(
    root: TypeRoot, unit: str, by_date: Callable[[int], int] | None, *, up: bool
) -> Callable[[int], int] | None:
    if by_date is not None:
        return lambda micros: by_date(truncated_day(micros)) * MICROS_PER_DAY
    if unit == "MILLISECOND" and up and root is TypeRoot.TIMESTAMP:
        # The one unit, and type, at which Flink looks at what is below a millisecond.
        return lambda micros: -(-micros // 1000) * 1000
    if unit not in UNIT_MILLIS:
        return None
    step = UNIT_MILLIS[unit]
    if up:
        return lambda micros: -(-millis_of(micros) // step) * step * 1000
    return lambda micros: millis_of(micros) // step * step * 1000


def _told(days: int) -> tuple[int, int, int]:
    """Year, month and day, before the reform of 1582 those of the Julian calendar.

    Flink takes a date apart so where it rounds it, and reads what comes of it as proleptic.
    """
    return reformed_date_of(days) or date_of(days)


def _retold(days: int) -> int:
    """The day that has the same year, month and day in the proleptic calendar."""
    return day_number(*_told(days))


def _floor_quarter(days: int) -> int:
    year, month, _ = _told(days)
    return day_number(year, (month + 2) // 3 * 3 - 2, 1)


def _ceil_quarter(days: int) -> int:
    year, month, day = _told(days)
    # Any day but the first of January leads to the next quarter, the first of April too.
    number = (month + 2) // 3 + (0 if (month, day) == (1, 1) else 1)
    return add_months(day_number(year, 1, 1), (number - 1) * 3)


def _floor_month(days: int) -> int:
    year, month, _ = _told(days)
    return day_number(year, month, 1)


def _ceil_month(days: int) -> int:
    year, month, day = _told(days)
    first = day_number(year, month, 1)
    return first if day == 1 else add_months(first, 1)


def _ceil_year(days: int) -> int:
    year, month, day = _told(days)
    return day_number(year + (0 if (month, day) == (1, 1) else 1), 1, 1)


def _sunday(days: int) -> int:
    return _retold(days) - _day_of_week(days) + 1


def _ceil_week(days: int) -> int:
    return _retold(days) if _day_of_week(days) == 1 else _sunday(days) + 7


def _years(length: int, *, first: int, up: bool) -> Callable[[int], int]:
    """The function to the first day of the decade, century or millennium, or of the next one."""

    def found(days: int) -> int:
        year = _told(days)[0]
        if first:
            number = truncated(year + length - 1, length)
            return day_number(number * length + (1 if up else 1 - length), 1, 1)
        return day_number((truncated(year, length) + (1 if up else 0)) * length, 1, 1)

    return found


_FLOOR_DATE: Mapping[str, Callable[[int], int]] = {
    "YEAR": lambda days: day_number(_told(days)[0], 1, 1),
    "QUARTER": _floor_quarter,
    "MONTH": _floor_month,
    "WEEK": _sunday,
    "DECADE": _years(10, first=0, up=False),
    "CENTURY": _years(100, first=1, up=False),
    "MILLENNIUM": _years(1000, first=1, up=False),
}
_CEIL_DATE: Mapping[str, Callable[[int], int]] = {
    "YEAR": _ceil_year,
    "QUARTER": _ceil_quarter,
    "MONTH": _ceil_month,
    "WEEK": _ceil_week,
    "DECADE": _years(10, first=0, up=True),
    "CENTURY": _years(100, first=1, up=True),
    "MILLENNIUM": _years(1000, first=1, up=True),
}


# Arithmetic


def plus(site: Site) -> Run | Value:
    """`+` of numbers, or of a date or timestamp and an interval in either order."""
    left, right = site.operands
    if left.type.root in INTERVAL_ROOTS and right.type.root not in INTERVAL_ROOTS:
        left, right = right, left
    if right.type.root in INTERVAL_ROOTS:
        return _shifted(site, left, right, sign=1)
    return numbers.operator("+")(site)


def minus(site: Site) -> Run | Value:
    """`-` of numbers, of two instants, or of an instant and an interval."""
    if len(site) == 1:
        return numbers.minus(site)
    left, right = site.operands
    if right.type.root in INTERVAL_ROOTS:
        return _shifted(site, left, right, sign=-1)
    if site.type.root in INTERVAL_ROOTS:
        return _difference(site, left, right)
    return numbers.operator("-")(site)


def _shifted(site: Site, value: Value, interval: Value, *, sign: int) -> Run:
    """`value` moved by the interval."""
    monthly = interval.type.root is TypeRoot.INTERVAL_YEAR_MONTH
    if value.type.root is interval.type.root:
        wrap = _wrap_int if monthly else _wrap_long
        return lifted(lambda x, amount: wrap(x + sign * amount), value, interval)
    if is_date(value):
        if monthly:
            return lifted(lambda days, n: add_months(days, sign * n), value, interval)
        if site.type.root is TypeRoot.TIMESTAMP:
            # From the first hour of the day.
            return lifted(lambda d, n: d * MICROS_PER_DAY + sign * n * 1000, value, interval)
        if site.type.root is not TypeRoot.DATE:
            site.refuse_types()
        # Parts of a day are dropped.
        return lifted(lambda days, n: days + truncated(sign * n, MILLIS_PER_DAY), value, interval)
    if not is_instant(value):
        site.refuse_types()
    if monthly:
        return lifted(lambda micros, n: _months_later(micros, sign * n), value, interval)
    return lifted(lambda micros, n: micros + sign * n * 1000, value, interval)


def _months_later(micros: int, months: int) -> int:
    """The same time of the day, months later; a day that the month lacks is its last."""
    day, time = divmod(micros, MICROS_PER_DAY)
    return add_months(day, months) * MICROS_PER_DAY + time


def _difference(site: Site, left: Value, right: Value) -> Run:
    """Left - right as an interval; both are dates or instants."""
    check_times(site)
    first, second = _millis_reader(left), _millis_reader(right)
    if site.type.root is TypeRoot.INTERVAL_DAY_TIME:
        return lifted(lambda a, b: first(a) - second(b), left, right)
    return lifted(lambda a, b: _months_between(first(a), second(b)), left, right)


def _millis_reader(value: Value) -> Callable[[int], int]:
    if is_instant(value):
        return millis_of
    return lambda days: days * MILLIS_PER_DAY


def _months_between(left: int, right: int) -> int:
    """Whole months from one instant to another, by adding months to the date of the earlier one."""
    later, later_time = divmod(left, MILLIS_PER_DAY)
    earlier, earlier_time = divmod(right, MILLIS_PER_DAY)
    is_back = later < earlier
    months = -_whole_months(earlier, later) if is_back else _whole_months(later, earlier)
    is_short = add_months(earlier, months) == later and later_time < earlier_time
    return months - is_short


def _whole_months(later: int, earlier: int) -> int:
    (y1, m1, _), (y2, m2, _) = date_of(later), date_of(earlier)
    count = (y1 - y2) * 12 + m1 - m2
    return count - 1 if add_months(earlier, count) > later else count


def reinterpret(site: Site) -> Run:
    """REINTERPRET: the number that an interval is; a time that becomes a row time is the same."""
    root = site.type.root
    is_time = root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
    return site.of_type(0, (root,) if is_time else INTERVAL_ROOTS).run


def current(logical_root: TypeRoot) -> Callable[[Site], Run]:
    """The builder of NOW, PROCTIME and the like: the time of the epoch, to the millisecond."""

    def build(site: Site) -> Run:
        now_ms = site.now_ms
        if now_ms is None:
            site.refuse("the time of the epoch is not known here")
        if logical_root is TypeRoot.DATE:
            return lambda _: now_ms() // MILLIS_PER_DAY
        if logical_root is TypeRoot.BIGINT:
            return lambda _: truncated(now_ms(), 1000)
        if logical_root is TypeRoot.TIME:
            return lambda _: now_ms() // 1000 * 1000 % MILLIS_PER_DAY
        return lambda _: now_ms() * 1000

    return build
