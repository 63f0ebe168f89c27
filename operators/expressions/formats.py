"""Date formats, and the functions between times, numbers and texts.

Flink hands a format to Java's DateTimeFormatter or, in the older functions, to SimpleDateFormat.
They agree on the letters below, which are all that is taken.

Source: Flink `DateTimeUtils`, `BuiltInMethods` (2.3), checked by running it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from operators.expressions import parsing
from operators.expressions.casts import convert
from operators.expressions.errors import EvaluationFailed
from operators.expressions.instants import MICROS_PER_DAY, date_of, day_number, month_length
from operators.expressions.integers import BIGINT, WRAPPERS
from operators.expressions.reform import reformed_date_of, reformed_day_number
from operators.expressions.site import Site, Value, lifted
from state.types import INTEGER_BITS, STRING_ROOTS, TIMESTAMP_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from operators.expressions.representation import Run

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+")
_FORMAT_TOKENS = frozenset(
    {"yyyy", "yy", "MM", "M", "dd", "d", "HH", "H", "hh", "h", "mm", "m", "ss", "s"}
)
_DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"
_MILLIS_MIN, _MILLIS_MAX = -62_167_219_200_000, 253_402_300_799_999
"""What Flink takes for a TIMESTAMP_LTZ: the years 0 to 9999."""
_BLANKS = r"[ \t]*"
_LENIENT_DATE = rf"{_BLANKS}([0-9]+)-{_BLANKS}([0-9]+)-{_BLANKS}([0-9]+)"
_LENIENT_CLOCK = rf"{_BLANKS} {_BLANKS}([0-9]+):{_BLANKS}([0-9]+):{_BLANKS}([0-9]+)"
_LENIENT: Mapping[str, re.Pattern[str]] = {
    "yyyy-MM-dd": re.compile(_LENIENT_DATE),
    _DEFAULT_FORMAT: re.compile(_LENIENT_DATE + _LENIENT_CLOCK),
}
_LONG_MIN = -(1 << 63)
_FIELD_DIGITS_MAX = 9
_wrap_long = WRAPPERS[TypeRoot.BIGINT]


def _tokens(site: Site, pattern: str) -> list[str]:
    found = [match.group() for match in _TOKEN.finditer(pattern)]
    if "".join(found) != pattern:
        site.refuse(f"the format {pattern!r} is not read")
    return found


def _literal(site: Site, token: str, pattern: str) -> str:
    """The text that a token between fields stands for."""
    if token.startswith("'"):
        return token[1:-1].replace("''", "'") or "'"
    if re.search(r"[\[\]{}#]", token):
        site.refuse(f"the format {pattern!r} has characters with a meaning of their own")
    return token


def _formatter(site: Site, pattern: str, *, fraction: bool) -> Callable[[int], str]:
    """The function from microseconds to text; refuses letters other than those above."""
    parts: list[str | Callable[[_Clock], str]] = []
    for token in _tokens(site, pattern):
        if not token[0].isalpha():
            parts.append(_literal(site, token, pattern))
        elif token in _FORMAT_TOKENS:
            parts.append(_WRITERS[token])
        elif fraction and re.fullmatch("S{1,6}", token):
            parts.append(_fraction_writer(len(token)))
        else:
            site.refuse(f"{token!r} in a format is not computed")

    def text(micros: int) -> str:
        clock = _Clock(micros)
        return "".join([part if isinstance(part, str) else part(clock) for part in parts])

    return text


class _Clock:
    """The fields of an instant."""

    __slots__ = ("day", "hour", "micros", "minute", "month", "second", "year")

    def __init__(self, micros: int) -> None:
        days, rest = divmod(micros, MICROS_PER_DAY)
        self.year, self.month, self.day = date_of(days)
        seconds, self.micros = divmod(rest, 1_000_000)
        minutes, self.second = divmod(seconds, 60)
        self.hour, self.minute = divmod(minutes, 60)


def _year_of_era(year: int) -> int:
    return year if year > 0 else 1 - year


def _four_digits(clock: _Clock) -> str:
    year = _year_of_era(clock.year)
    return f"{year:04d}" if year <= 9999 else f"+{year}"


def _hour_of_half(clock: _Clock) -> int:
    return (clock.hour + 11) % 12 + 1


def _fraction_writer(digits: int) -> Callable[[_Clock], str]:
    return lambda clock: f"{clock.micros:06d}"[:digits]


_WRITERS: Mapping[str, Callable[[_Clock], str]] = {
    "yyyy": _four_digits,
    "yy": lambda clock: f"{_year_of_era(clock.year) % 100:02d}",
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
    text = _formatter(site, site.text(1, "the format"), fraction=True)
    if site[0].type.root is TypeRoot.DATE:
        return lifted(lambda days: text(days * MICROS_PER_DAY), site[0])
    if site[0].type.root not in TIMESTAMP_ROOTS:
        site.refuse(f"not computed for {site.types()}", hint="cast the text to a timestamp first")
    return lifted(text, site[0])


def from_unixtime(site: Site) -> Run:
    """FROM_UNIXTIME(seconds[, format])."""
    pattern = site.text(1, "the format") if len(site) > 1 else _DEFAULT_FORMAT
    text = _formatter(site, pattern, fraction=False)
    if site[0].type.root not in INTEGER_BITS:
        site.refuse_types()
    return lifted(lambda seconds: text(_wrap_long(seconds * 1000) * 1000), site[0])


def unix_timestamp(site: Site) -> Run:
    """UNIX_TIMESTAMP(text[, 'yyyy-MM-dd']): the smallest BIGINT for a text that is no time.

    As SimpleDateFormat reads it: the beginning of the text, with fields over their range carried
    into the next one, in the calendar of `reform`.
    """
    pattern = site.text(1, "the format") if len(site) > 1 else _DEFAULT_FORMAT
    if pattern not in _LENIENT:
        site.refuse(f"reading texts of the format {pattern!r} is not computed")
    if site[0].type.root not in STRING_ROOTS:
        site.refuse_types()
    expression, name = _LENIENT[pattern], site.name
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


def to_date(site: Site) -> Run:
    """TO_DATE(text): `year[-month[-day]]`, NULL where it is none."""
    if len(site) > 1 and site.text(1, "the format") != "":
        site.refuse("Flink reads a format leniently, and what is no date as a wrong one")
    if site[0].type.root not in STRING_ROOTS:
        site.refuse_types()
    return lifted(parsing.to_date, site[0])


_FIELDS: Mapping[str, tuple[str, int]] = {
    "yyyy": (r"([0-9]{4})", 0),
    "MM": (r"([0-9]{2})", 1),
    "dd": (r"([0-9]{2})", 2),
    "HH": (r"([0-9]{2})", 3),
    "mm": (r"([0-9]{2})", 4),
    "ss": (r"([0-9]{2})", 5),
}
_DEFAULTS = (1970, 1, 1, 0, 0, 0)
_FRACTION = 6
"""Number of the field of the fraction of a second."""
_LOOSE = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
)


def to_timestamp(site: Site) -> Run:
    """TO_TIMESTAMP(text[, format]): TIMESTAMP(3), NULL where the text is none."""
    if site[0].type.root not in STRING_ROOTS:
        site.refuse_types()
    if len(site) == 1:
        return lifted(parsing.to_timestamp(replace(site.type, precision=3)), site[0])
    expression, fields = _reader(site, site.text(1, "the format"))
    return lifted(lambda text: _formatted_timestamp(text, expression, fields), site[0])


def _reader(site: Site, pattern: str) -> tuple[re.Pattern[str], dict[int, int]]:
    """The format as a regular expression, and which of its groups holds which field."""
    expression: list[str] = []
    fields: dict[int, int] = {}
    for token in _tokens(site, pattern):
        if token in _FIELDS:
            part, field = _FIELDS[token]
        elif re.fullmatch("S{1,9}", token):
            part, field = rf"([0-9]{{{len(token)}}})", _FRACTION
        elif token[0].isalpha():
            site.refuse(f"reading {token!r} of a format is not computed")
        else:
            expression.append(re.escape(_literal(site, token, pattern)))
            continue
        if field in fields:
            site.refuse(f"{token!r} stands twice in the format")
        fields[field] = len(fields) + 1
        expression.append(part)
    return re.compile("".join(expression)), fields


def _formatted_timestamp(
    text: str, expression: re.Pattern[str], fields: dict[int, int]
) -> int | None:
    found = expression.fullmatch(text)
    if found is None:
        return _loose_timestamp(text.strip(" "))
    year, month, day, *clock = (
        int(found[fields[at]]) if at in fields else default for at, default in enumerate(_DEFAULTS)
    )
    digits = found[fields[_FRACTION]] if _FRACTION in fields else ""
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
    """TO_TIMESTAMP_LTZ(number[, 0 | 3]): of seconds or milliseconds; NULL outside years 0..9999."""
    unit = site.whole(1, "the precision") if len(site) > 1 else 3
    if unit not in (0, 3):
        site.refuse("the precision must be 0 or 3")
    if site[0].type.root not in INTEGER_BITS:
        site.refuse_types()
    scale = 1000 if unit == 0 else 1

    def instant(number: int) -> int | None:
        millis = number * scale
        return millis * 1000 if _MILLIS_MIN <= millis <= _MILLIS_MAX else None

    value: Value = convert(site, site[0], BIGINT)
    return lifted(instant, value)
