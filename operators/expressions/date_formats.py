"""Formats of dates and times, and what else functions between times and texts read from a plan.

Flink hands a format to Java's DateTimeFormatter or, in the older functions, to SimpleDateFormat.
They agree on the letters below, and so does Spark: they are all that is taken.

Source: Flink `DateTimeUtils`, `BuiltInMethods` (2.3), checked by running it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from operators.time_zones import is_option
from state.types import FLOAT_ROOTS, INTEGER_BITS, STRING_ROOTS, TIMESTAMP_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from operators.expressions.call_site import CallSite, Operand

DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"
DAY_FORMAT = "yyyy-MM-dd"
MILLIS_MIN, MILLIS_MAX = -62_167_219_200_000, 253_402_300_799_999
"""What Flink takes for a TIMESTAMP_LTZ: the years 0 to 9999."""
SECONDS_MIN, SECONDS_MAX = -62_167_219_200, 253_402_300_799
MILLIS, MICROS = 3, 6
COUNTED = (0, MILLIS, MICROS, 9)
"""Digits of a second that are counted: seconds down to nanoseconds."""
FIELD_DEFAULTS = (1970, 1, 1, 0, 0, 0)
"""Of year, month, day, hour, minute and second, where a format lacks them."""
FRACTION = 6
"""Number of the field of the fraction of a second."""
LOOSE_TIMESTAMP = (
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?)?"
)
"""What TO_TIMESTAMP reads where the format does not fit; Java and Python read it alike."""
_BLANKS = r"[ \t]*"
_LENIENT_DATE = rf"{_BLANKS}([0-9]+)-{_BLANKS}([0-9]+)-{_BLANKS}([0-9]+)"
_LENIENT_CLOCK = rf"{_BLANKS} {_BLANKS}([0-9]+):{_BLANKS}([0-9]+):{_BLANKS}([0-9]+)"
LENIENT: Mapping[str, str] = {
    DAY_FORMAT: _LENIENT_DATE,
    DEFAULT_FORMAT: _LENIENT_DATE + _LENIENT_CLOCK,
}
"""What SimpleDateFormat reads at the beginning of a text, for the formats that we know of it."""

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+")
_WRITTEN = frozenset(
    {"yyyy", "yy", "MM", "M", "dd", "d", "HH", "H", "hh", "h", "mm", "m", "ss", "s"}
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
_IN_WORDS = frozenset({"E", "EE", "EEE", "EEEE", "MMM", "MMMM", "a"})
"""Names, in English: Java's are those of the machine's locale."""
_OF_YEAR = frozenset({"D", "DDD"})
"""The day of the year, which SimpleDateFormat counts otherwise where its calendar changes."""
_READ: Mapping[str, tuple[str, int]] = {
    "yyyy": ("([0-9]{4})", 0),
    "MM": ("([0-9]{2})", 1),
    "dd": ("([0-9]{2})", 2),
    "HH": ("([0-9]{2})", 3),
    "mm": ("([0-9]{2})", 4),
    "ss": ("([0-9]{2})", 5),
}
_READ_ALONE: Mapping[str, tuple[str, int]] = {
    letter: ("([0-9]{1,9})", field) for letter, field in zip("MdHms", range(1, 6), strict=True)
}
"""Fields of any width, which Java reads up to what is no digit; not before another field."""


class FormatPart(NamedTuple):
    """One part of a format."""

    text: str
    """The letters of a field, or what stands between fields."""
    is_field: bool


class WrittenFormat(NamedTuple):
    """A format that times are written in."""

    pattern: str
    parts: list[FormatPart]


def _parts(site: CallSite[Operand], pattern: str) -> list[FormatPart]:
    """The format, taken apart; what has a meaning to Java's formats only is refused."""
    tokens = [match.group() for match in _TOKEN.finditer(pattern)]
    if "".join(tokens) != pattern:
        site.refuse(f"the format {pattern!r} is not read")
    return [_part(site, token, pattern) for token in tokens]


def _part(site: CallSite[Operand], token: str, pattern: str) -> FormatPart:
    if token[0].isalpha():
        return FormatPart(token, is_field=True)
    if token.startswith("'"):
        return FormatPart(token[1:-1].replace("''", "'") or "'", is_field=False)
    if re.search(r"[\[\]{}#]", token):
        site.refuse(f"the format {pattern!r} has characters with a meaning of their own")
    return FormatPart(token, is_field=False)


def time_format(site: CallSite[Operand]) -> WrittenFormat:
    """The format of DATE_FORMAT, whose first operand must be a date or timestamp."""
    found = _written(site, site.text(1, "the format"), fraction=True)
    if site[0].type.root not in (*TIMESTAMP_ROOTS, TypeRoot.DATE):
        site.refuse_types(hint="cast the text to a timestamp first")
    return found


def seconds_format(site: CallSite[Operand]) -> WrittenFormat:
    """The format of FROM_UNIXTIME, whose first operand must be a whole number."""
    found = _written(site, _format_or_default(site), fraction=False)
    site.of_type(0, INTEGER_BITS)
    return found


def default_format(site: CallSite[Operand]) -> WrittenFormat:
    """The format of CONVERT_TZ."""
    return _written(site, DEFAULT_FORMAT, fraction=False)


def converted_zones(site: CallSite[Operand]) -> list[str]:
    """The zones from which and to which CONVERT_TZ converts; Java takes unknown ones for GMT."""
    names = [site.text(at, "a time zone") for at in (1, 2)]
    for name in names:
        if not is_option(name):
            site.refuse("there is no time zone of this name")
    return names


def _written(site: CallSite[Operand], pattern: str, *, fraction: bool) -> WrittenFormat:
    """Refuses letters that are not known; six S at the most are one, for a fraction of a second."""
    parts = _parts(site, pattern)
    for text, is_field in parts:
        is_known = text in _WRITTEN | _IN_WORDS or (
            fraction and (text in _OF_YEAR or re.fullmatch("S{1,6}", text))
        )
        if is_field and not is_known:
            site.refuse(f"{text!r} in a format is not computed")
    return WrittenFormat(pattern, parts)


def reader(site: CallSite[Operand], pattern: str) -> tuple[str, dict[int, int]]:
    """A format that texts are read by: as a regular expression of Java and of Python.

    Returns:
        The expression, and which of its groups holds which field (`FIELD_DEFAULTS`, `FRACTION`).

    Raises:
        UnsupportedExpression: A letter is not known, or stands there twice, or a character has a
            meaning to Java's formats only.
    """
    expression: list[str] = []
    fields: dict[int, int] = {}
    parts = _parts(site, pattern)
    for at, (text, is_field) in enumerate(parts):
        if not is_field:
            expression.append(re.escape(text))
            continue
        is_alone = at + 1 == len(parts) or not parts[at + 1].is_field
        if text in _READ:
            part, field = _READ[text]
        elif text in _READ_ALONE and is_alone:
            part, field = _READ_ALONE[text]
        elif re.fullmatch("S{1,9}", text):
            part, field = f"([0-9]{{{len(text)}}})", FRACTION
        else:
            site.refuse(f"reading {text!r} of a format is not computed")
        if field in fields:
            site.refuse(f"{text!r} stands twice in the format")
        fields[field] = len(fields) + 1
        expression.append(part)
    return "".join(expression), fields


def _format_or_default(site: CallSite[Operand]) -> str:
    return site.text(1, "the format") if len(site) > 1 else DEFAULT_FORMAT


def lenient_format(site: CallSite[Operand]) -> str:
    """The format of UNIX_TIMESTAMP, a key of `LENIENT`, whose first operand must be a string."""
    pattern = _format_or_default(site)
    if pattern not in LENIENT:
        site.refuse(f"reading texts of the format {pattern!r} is not computed")
    site.of_type(0, STRING_ROOTS)
    return pattern


def check_to_date(site: CallSite[Operand]) -> None:
    """Refuse TO_DATE of what is no string, or with a format."""
    if len(site) > 1 and site.text(1, "the format") != "":
        site.refuse(
            "Flink reads formats leniently, and takes texts that are not dates for wrong dates"
        )
    site.of_type(0, STRING_ROOTS)


def digits_of_count(site: CallSite[Operand]) -> int:
    """What TO_TIMESTAMP_LTZ counts: units of so many digits of a second; 3 as without a precision.

    Flink takes 0 and 3 alone.
    """
    found = site.whole(1, "the precision") if len(site) > 1 else 3
    if found not in COUNTED:
        site.refuse("the precision must be 0, 3, 6 or 9")
    if found > MILLIS and site[0].type.root in FLOAT_ROOTS:
        site.refuse_types(hint="CAST it to BIGINT: a DOUBLE has no digits for it")
    return found
