"""Date and time: EXTRACT, FLOOR and CEIL to a unit, arithmetic with intervals, differences.

An interval of days and below is a BIGINT of milliseconds, one of years and months an INT of months,
as in Flink's own code. What looks odd before 1970 is explained in `instants`.

Source: Flink `DateTimeUtils`, `ScalarOperatorGens`, `ExtractCallGen`, `FloorCeilCallGen` (2.3),
checked by running it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as sf

from operators.expressions.families import check_times, is_date, is_instant
from operators.expressions.time_units import MILLIS_PER_DAY, UNIT_MILLIS, WITHIN_MILLIS
from operators.wire import TIME
from service.runtime.expressions import instants, numbers
from service.runtime.expressions.instants import floored, millis
from service.runtime.expressions.integers import LONG, truncating_div
from service.runtime.expressions.site import Column, Site, Value, bind, bind_all, failing
from state.types import INTERVAL_ROOTS, LogicalType, TypeRoot, format_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DATE = LogicalType(TypeRoot.DATE)
_REFORM = "1582-10-15"

# Parts


def extract(site: Site) -> Column:
    """EXTRACT(unit FROM x) of a date or timestamp, as BIGINT."""
    unit = site.text(0, "the unit")
    value = site[1]
    if unit in _DATE_PARTS:
        if is_date(value):
            return bind(value, _DATE_PARTS[unit])
        if is_instant(value):
            date = replace(value, column=instants.truncated_date(value.column), weight=8)
            return bind(date, _DATE_PARTS[unit])
    elif unit == "EPOCH":
        if is_date(value):
            return instants.days(value.column).cast(LONG) * 86_400
        if is_instant(value):
            return truncating_div(millis(value.column), 1000)
    elif unit in WITHIN_MILLIS and is_instant(value):
        rest = millis(value.column) % sf.lit(WITHIN_MILLIS[unit]).cast(LONG)
        return truncating_div(rest, UNIT_MILLIS[unit])
    elif unit == "MICROSECOND" and is_instant(value):
        return bind(value, _micros_of_second)
    return site.refuse(f"{unit} of {format_type(value.type)} is not computed")


def _micros_of_second(x: Column) -> Column:
    # Flink adds the microseconds, which are never negative, to milliseconds that may be.
    rest = millis(x) % sf.lit(1000).cast(LONG)
    return rest * 1000 + sf.pmod(instants.micros(x), sf.lit(1000).cast(LONG))


def _century(year: Column) -> Column:
    return truncating_div((year + 99).cast(LONG), 100)


_DATE_PARTS: Mapping[str, Callable[[Column], Column]] = {
    "YEAR": sf.year,
    "QUARTER": sf.quarter,
    "MONTH": sf.month,
    "DAY": sf.dayofmonth,
    "WEEK": sf.weekofyear,
    "DOW": sf.dayofweek,
    "ISODOW": lambda date: sf.weekday(date) + 1,
    "DOY": sf.dayofyear,
    "ISOYEAR": lambda date: sf.extract(sf.lit("YEAROFWEEK"), date),
    "DECADE": lambda date: truncating_div(sf.year(date).cast(LONG), 10),
    "CENTURY": lambda date: _century(sf.year(date)),
    "MILLENNIUM": lambda date: truncating_div((sf.year(date) + 999).cast(LONG), 1000),
}


# Rounding to a unit


def floor(site: Site) -> Column:
    """FLOOR of a number, or FLOOR(x TO unit)."""
    return numbers.floor(site) if len(site) == 1 else _to_unit(site, up=False)


def ceil(site: Site) -> Column:
    """CEIL of a number, or CEIL(x TO unit)."""
    return numbers.ceil(site) if len(site) == 1 else _to_unit(site, up=True)


def _to_unit(site: Site, *, up: bool) -> Column:
    value, unit = site[0], site.text(1, "the unit")
    by_date = _CEIL_DATE.get(unit) if up else _FLOOR_DATE.get(unit)
    if is_date(value):
        if by_date is not None:
            return bind(value, _since_the_reform(site, by_date))
        if unit == "DAY":
            moved = 1 if up else 0
            return bind(value, _since_the_reform(site, lambda date: sf.date_add(date, moved)))
        if unit in UNIT_MILLIS:
            return value.column
    elif is_instant(value):
        if by_date is not None:
            date = replace(value, column=instants.truncated_date(value.column), weight=8)
            return bind(date, _since_the_reform(site, by_date)).cast(instants.LTZ)
        if unit == "MILLISECOND" and up and value.type.root is TypeRoot.TIMESTAMP:
            # The one unit, and type, at which Flink looks at what is below a millisecond.
            return instants.from_micros(-floored(-instants.micros(value.column), 1000), value.type)
        if unit in UNIT_MILLIS:
            step = UNIT_MILLIS[unit]
            long = millis(value.column)
            found = -floored(-long, step) if up else floored(long, step)
            return instants.from_millis(found, value.type)
    return site.refuse(f"{unit} of {format_type(value.type)} is not computed")


def _since_the_reform(
    site: Site, by_date: Callable[[Column], Column]
) -> Callable[[Column], Column]:
    """The same; a date before the reform of the calendar ends the query.

    Flink takes it apart as a Julian one.
    """

    def found(date: Column) -> Column:
        early = failing(f"{site.name} of a date before 15 October 1582", _DATE)
        return sf.when(date < sf.lit(_REFORM).cast(instants.DATE), early).otherwise(by_date(date))

    return found


def _day_of(year: Column, month: int | Column = 1) -> Column:
    return sf.make_date(year, sf.lit(month) if isinstance(month, int) else month, sf.lit(1))


def _not_first(date: Column) -> Column:
    return (sf.month(date) > 1) | (sf.dayofmonth(date) > 1)


def _ceil_quarter(date: Column) -> Column:
    # Any day but the first of January leads to the next quarter, the first of April too.
    number = sf.quarter(date) + sf.when(_not_first(date), sf.lit(1)).otherwise(sf.lit(0))
    return sf.add_months(_day_of(sf.year(date)), (number - 1) * 3)


def _sunday(date: Column) -> Column:
    return sf.date_sub(date, sf.dayofweek(date) - 1)


def _ceil_month(date: Column) -> Column:
    first = sf.trunc(date, "MM")
    return sf.when(sf.dayofmonth(date) > 1, sf.add_months(first, 1)).otherwise(first)


def _ceil_year(date: Column) -> Column:
    return _day_of(sf.when(_not_first(date), sf.year(date) + 1).otherwise(sf.year(date)))


def _ceil_week(date: Column) -> Column:
    before = _sunday(date)
    return sf.when(sf.dayofweek(date) > 1, sf.date_add(before, 7)).otherwise(before)


def _years(date: Column, length: int, *, first: int, up: bool) -> Column:
    """The first day of the decade, century or millennium, or of the next one."""
    if first:
        number = truncating_div((sf.year(date) + (length - 1)).cast(LONG), length)
        year = number * length + (1 if up else 1 - length)
    else:
        number = truncating_div(sf.year(date).cast(LONG), length)
        year = (number + (1 if up else 0)) * length
    return _day_of(year.cast(instants.INT))


_FLOOR_DATE: Mapping[str, Callable[[Column], Column]] = {
    "YEAR": lambda date: sf.trunc(date, "YEAR"),
    "QUARTER": lambda date: sf.trunc(date, "QUARTER"),
    "MONTH": lambda date: sf.trunc(date, "MM"),
    "WEEK": _sunday,
    "DECADE": lambda date: _years(date, 10, first=0, up=False),
    "CENTURY": lambda date: _years(date, 100, first=1, up=False),
    "MILLENNIUM": lambda date: _years(date, 1000, first=1, up=False),
}
_CEIL_DATE: Mapping[str, Callable[[Column], Column]] = {
    "YEAR": _ceil_year,
    "QUARTER": _ceil_quarter,
    "MONTH": _ceil_month,
    "WEEK": _ceil_week,
    "DECADE": lambda date: _years(date, 10, first=0, up=True),
    "CENTURY": lambda date: _years(date, 100, first=1, up=True),
    "MILLENNIUM": lambda date: _years(date, 1000, first=1, up=True),
}


# Arithmetic


def plus(site: Site) -> Column | Value:
    """`+` of numbers, or of a date or timestamp and an interval in either order."""
    left, right = site.operands
    if left.type.root in INTERVAL_ROOTS and right.type.root not in INTERVAL_ROOTS:
        left, right = right, left
    if right.type.root in INTERVAL_ROOTS:
        return _shifted(site, left, right, forward=True)
    return numbers.operator("+")(site)


def minus(site: Site) -> Column | Value:
    """`-` of numbers, of two instants, or of an instant and an interval."""
    if len(site) == 1:
        return numbers.minus(site)
    left, right = site.operands
    if right.type.root in INTERVAL_ROOTS:
        return _shifted(site, left, right, forward=False)
    if site.type.root in INTERVAL_ROOTS:
        return _difference(site, left, right)
    return numbers.operator("-")(site)


def _shifted(site: Site, value: Value, interval: Value, *, forward: bool) -> Column:
    """`value` moved by the interval."""
    amount = interval.column if forward else -interval.column
    monthly = interval.type.root is TypeRoot.INTERVAL_YEAR_MONTH
    if value.type.root is interval.type.root:
        return value.column + amount
    if is_date(value):
        if monthly:
            return sf.add_months(value.column, amount)
        day = instants.days(value.column).cast(LONG)
        if site.type.root is TypeRoot.TIMESTAMP:
            # From the first hour of the day.
            return instants.from_micros((day * MILLIS_PER_DAY + amount) * 1000, site.type)
        if site.type.root is not TypeRoot.DATE:
            site.refuse_types()
        # Parts of a day are dropped.
        days = day + truncating_div(amount, MILLIS_PER_DAY)
        return instants.from_days(days)
    if not is_instant(value):
        site.refuse_types()
    if monthly:
        return bind_all(
            (value, replace(interval, column=amount)),
            lambda x, months: _shifted_months(x, months, value.type),
        )
    return instants.from_micros(instants.micros(value.column) + amount * 1000, value.type)


def _shifted_months(instant: Column, months: Column, logical: LogicalType) -> Column:
    """The same time of the day, months later; a day that the month lacks is its last."""
    whole = sf.unix_micros(instant.cast(instants.LTZ))
    time = sf.pmod(whole, sf.lit(MILLIS_PER_DAY * 1000).cast(LONG))
    date = sf.add_months(instant.cast(instants.NTZ).cast(instants.DATE), months)
    day = instants.days(date).cast(LONG) * (MILLIS_PER_DAY * 1000)
    return instants.from_micros(day + time, logical)


def _difference(site: Site, left: Value, right: Value) -> Column:
    """Left - right as an interval; both are dates or instants."""
    check_times(site)
    if site.type.root is TypeRoot.INTERVAL_DAY_TIME:
        return _as_millis(left) - _as_millis(right)
    if is_date(left) and is_date(right):
        return bind_all((left, right), _months_between)
    return bind_all(
        (left, right),
        lambda a, b: _months_between_instants(_date_and_time(left, a), _date_and_time(right, b)),
    )


def _date_and_time(value: Value, column: Column) -> tuple[Column, Column]:
    """The date and the milliseconds of the day, rounded down before 1970 too."""
    if is_date(value):
        return column, sf.lit(0).cast(LONG)
    time = sf.pmod(millis(column), sf.lit(MILLIS_PER_DAY).cast(LONG))
    return column.cast(instants.DATE), time


def _as_millis(value: Value) -> Column:
    if is_instant(value):
        return millis(value.column)
    return instants.days(value.column).cast(LONG) * MILLIS_PER_DAY


def _months_between(later: Column, earlier: Column) -> Column:
    """Whole months from one date to another, by adding months to the earlier one."""
    forward = _whole_months(later, earlier)
    return sf.when(later >= earlier, forward).otherwise(-_whole_months(earlier, later))


def _whole_months(later: Column, earlier: Column) -> Column:
    count = (sf.year(later) - sf.year(earlier)) * 12 + sf.month(later) - sf.month(earlier)
    return sf.when(sf.add_months(earlier, count) > later, count - 1).otherwise(count)


def _months_between_instants(left: tuple[Column, Column], right: tuple[Column, Column]) -> Column:
    months = _months_between(left[0], right[0])
    short = (sf.add_months(right[0], months) == left[0]) & (left[1] < right[1])
    return months - sf.when(short, sf.lit(1)).otherwise(sf.lit(0))


def reinterpret(site: Site) -> Column:
    """REINTERPRET: the number that an interval is; a time that becomes a row time is the same."""
    root = site.type.root
    is_time = root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
    return site.of_type(0, (root,) if is_time else INTERVAL_ROOTS).column


# The current time


def current(logical_root: TypeRoot) -> Callable[[Site], Column]:
    """The builder of NOW, PROCTIME and the like: the time of the row's epoch, to the millisecond.

    It is a column and not Spark's function, which is compiled anew in every micro-batch.
    """

    def build(_: Site) -> Column:
        now_ms = sf.col(TIME)
        if logical_root is TypeRoot.DATE:
            return sf.timestamp_millis(now_ms).cast(instants.DATE)
        if logical_root is TypeRoot.BIGINT:
            return truncating_div(now_ms, 1000)
        if logical_root is TypeRoot.TIME:
            return sf.pmod(truncating_div(now_ms, 1000) * 1000, sf.lit(MILLIS_PER_DAY).cast(LONG))
        return instants.from_millis(now_ms, LogicalType(logical_root, precision=3))

    return build
