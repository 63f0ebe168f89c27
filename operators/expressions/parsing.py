"""Strings read as numbers, dates and timestamps the way Flink reads them: None where it refuses.

The grammars are Flink's own, with their leniences: an integer may have a fraction, which is
dropped; the day 30 of February is its last; a short text for a DECIMAL may end in one letter.

Source: Flink `BinaryStringDataUtil` and `DateTimeUtils` (2.3), checked by running it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from operators.expressions import instants
from operators.expressions import text_grammars as grammars
from operators.expressions.decimals import fitted
from operators.expressions.floats import parse_single
from operators.expressions.instants import clamped_day_number, day_number, month_length
from operators.expressions.time_units import MILLIS_PER_DAY
from state.types import INTEGER_BITS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable

_WHOLE = re.compile(grammars.WHOLE)
_FLOATING = re.compile(grammars.FLOATING)
_SHORT_DECIMAL = re.compile(grammars.SHORT_DECIMAL)
_ENDS_IN_SIGN = re.compile(grammars.ENDS_IN_SIGN)
_LONG_DECIMAL = re.compile(grammars.LONG_DECIMAL)
_DATE = re.compile(grammars.DATE)
_TIMESTAMP = re.compile(grammars.TIMESTAMP)
_TIME = re.compile(grammars.TIME)
_SHORT_TIME = re.compile(grammars.SHORT_TIME)
_NO_DIGIT = re.compile("[^0-9]")
_DIGITS_MAX = 19
"""More digits than these are out of the range of every integer, zeros at the left apart."""
_EXPONENT_MAX = 100_000
"""Beyond it, and with texts that are no longer, a number is either 0 or out of every range."""


def to_integer(logical: LogicalType) -> Callable[[str], int | None]:
    """A whole number; blanks around it are dropped, other white space is not."""
    half = 1 << (INTEGER_BITS[logical.root] - 1)

    def parse(text: str) -> int | None:
        trimmed = text.strip(" ")
        found = _WHOLE.fullmatch(trimmed)
        # "." alone is 0, a sign alone is nothing.
        if found is None or trimmed in ("", "+", "-"):
            return None
        digits = found[2].lstrip("0")
        if len(digits) > _DIGITS_MAX:
            return None
        number = int(digits or "0")
        if found[1] == "-":
            number = -number
        return number if -half <= number < half else None

    return parse


def to_floating(logical: LogicalType) -> Callable[[str], float | None]:
    """A FLOAT or DOUBLE as Java parses it; hexadecimal numbers are not read."""
    read = parse_single if logical.root is TypeRoot.FLOAT else float

    def parse(text: str) -> float | None:
        found = _FLOATING.fullmatch(text)
        return None if found is None else read(found[1])

    return parse


def to_decimal(logical: LogicalType) -> Callable[[str], Decimal | None]:
    """A DECIMAL, HALF_UP; NULL where it has too many digits."""
    fit = fitted(logical)
    precision, scale = logical.precision or 0, logical.scale or 0

    def long(text: str) -> Decimal | None:
        found = _LONG_DECIMAL.fullmatch(text)
        return None if found is None else fit(_number(found[1]))

    if precision > grammars.SHORT_DECIMAL_MAX:
        return long

    def short(text: str) -> Decimal | None:
        if len(text.encode()) > grammars.SHORT_DECIMAL_MAX:
            return long(text)
        found = _SHORT_DECIMAL.fullmatch(text)
        if found is None or _ENDS_IN_SIGN.fullmatch(text):
            return None
        sign, whole, fraction, exponent = found.groups()
        power = int(exponent) if exponent and exponent not in "+-" else 0
        # Leading zeros count as digits here: "0012" does not fit into DECIMAL(3, 0).
        if len(whole) + power + scale > precision:
            return None
        return fit(_number(f"{sign}0{whole}.{fraction}0E{power}"))

    return short


def _number(text: str) -> Decimal:
    """The number, or one that is as much out of range, for any exponent."""
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    power = max(-_EXPONENT_MAX, min(_EXPONENT_MAX, int(exponent or "0")))
    return Decimal(f"{mantissa}e{power}")


def to_boolean(text: str) -> bool | None:
    """true, t, yes, y, 1 and false, f, no, n, 0 in any case, without blanks."""
    lower = text.lower()
    if lower in grammars.TRUE_WORDS:
        return True
    return False if lower in grammars.FALSE_WORDS else None


def to_date(text: str) -> int | None:
    """`year[-month[-day]]`; what follows a blank is not looked at."""
    blank = text.find(" ")
    found = _DATE.fullmatch(text[:blank] if blank > 0 else text)
    if found is None:
        return None
    year, month, day = (int(part) if part else 1 for part in found.groups())
    if year > 9999 or not 1 <= month <= 12 or not 1 <= day <= month_length(year, month):
        return None
    return day_number(year, month, day)


def to_timestamp(logical: LogicalType) -> Callable[[str], int | None]:
    """`yyyy-M-d[ H:m:s[.fraction]]` with nothing around it; more digits than asked for are cut."""
    precision = min(6 if logical.precision is None else logical.precision, 6)

    def parse(text: str) -> int | None:
        found = _TIMESTAMP.fullmatch(text)
        if found is None:
            return None
        year, month, day = int(found[1]), int(found[2] or "1"), int(found[3] or "1")
        clock = tuple(int(found[at] or "0") for at in (4, 5, 6))
        fraction = (found[7] or "").ljust(9, "0")
        if not is_clock(clock, is_whole=fraction == "000000000") or not is_calendar(
            year, month, day
        ):
            return None
        return compose((year, month, day), clock, int(fraction[:precision].ljust(6, "0")))

    return parse


def to_time(logical: LogicalType) -> Callable[[str], int | None]:
    """Milliseconds of the day: `H[:m[:s[.fraction]]]`, and a distance that is *added*, as `+01:00`.

    The fourth digit rounds; digits that the type has not are cut. Where rounding or the distance
    leads out of the day, Flink goes on with a TIME that is none, until it leaves the job: None.
    """
    cut = instants.with_clock_precision(logical)

    def parse(text: str) -> int | None:
        found = _TIME.fullmatch(text)
        if found is not None:
            clock, fraction = (
                (int(found[1]), int(found[2]), int(found[3])),
                found[4] or found[5] or "",
            )
            zone = found[6], int(found[7] or "0"), int(found[8] or "0")
        elif (found := _SHORT_TIME.fullmatch(text)) is not None:
            clock, fraction = (int(found[1]), int(found[2] or "0"), 0), ""
            zone = found[3], int(found[4] or "0"), 0
        else:
            return None
        if clock[0] > 23 or clock[1] > 59 or clock[2] > 59:
            return None
        sign = -1 if zone[0] == "-" else 1
        minutes = (clock[0] + sign * zone[1]) * 60 + clock[1] + sign * zone[2]
        millis = (minutes * 60 + clock[2]) * 1000 + _rounded_millis(fraction)
        return cut(millis) if 0 <= millis < MILLIS_PER_DAY else None

    return parse


def _rounded_millis(fraction: str) -> int:
    digits = _NO_DIGIT.sub("0", fraction[:3]).ljust(3, "0")
    return int(digits) + (fraction[3:4] >= "5")


def is_calendar(year: int, month: int, day: int) -> bool:
    """Whether there is such a month, with any day up to 31."""
    return year >= 1 and 1 <= month <= 12 and 1 <= day <= 31


def is_clock(clock: tuple[int, ...], *, is_whole: bool) -> bool:
    """Whether there is such a time of day; 24:00:00 is, without a fraction."""
    hour, minute, second = clock
    if 0 <= hour <= 23 and 0 <= minute <= 59 and 0 <= second <= 59:
        return True
    return is_whole and (hour, minute, second) == (24, 0, 0)


def compose(date: tuple[int, int, int], clock: tuple[int, ...], fraction_micros: int) -> int:
    """The instant of calendar fields; a day that the month lacks is its last."""
    hour, minute, second = clock
    seconds = clamped_day_number(*date) * 86_400 + hour * 3600 + minute * 60 + second
    return seconds * 1_000_000 + fraction_micros
