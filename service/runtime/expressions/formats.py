"""Date formats, and the functions between times, numbers and texts.

Flink hands a format to Java's DateTimeFormatter or, in the older functions, to SimpleDateFormat;
Spark to DateTimeFormatter with changes. They agree on the letters below, which are all that is
taken.

Source: Flink `DateTimeUtils`, `BuiltInMethods` (2.3), checked by running it.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import types as spark
from pyspark.sql.connect import functions as sf

from service.runtime.expressions import instants, parsing
from service.runtime.expressions.casts import convert
from service.runtime.expressions.integers import BIGINT, LONG, multiply
from service.runtime.expressions.site import Column, Site, Value, bind, failing
from state.types import INTEGER_BITS, STRING_ROOTS, TIMESTAMP_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+")
_FORMAT_TOKENS = frozenset(
    {"yyyy", "yy", "MM", "M", "dd", "d", "HH", "H", "hh", "h", "mm", "m", "ss", "s"}
)
_DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"
_MILLIS_MIN, _MILLIS_MAX = -62_167_219_200_000, 253_402_300_799_999
"""What Flink takes for a TIMESTAMP_LTZ: the years 0 to 9999."""
_BLANKS = r"[ \t]*"
_LENIENT = rf"\A{_BLANKS}([0-9]+)-{_BLANKS}([0-9]+)-{_BLANKS}([0-9]+)"
_LENIENT_CLOCK = rf"{_BLANKS} {_BLANKS}([0-9]+):{_BLANKS}([0-9]+):{_BLANKS}([0-9]+)"
_LONG_MIN = -(1 << 63)
_INT = spark.IntegerType()


def _tokens(site: Site, pattern: str) -> list[str]:
    found = [match.group() for match in _TOKEN.finditer(pattern)]
    if "".join(found) != pattern:
        site.refuse(f"the format {pattern!r} is not read")
    return found


def _checked(site: Site, pattern: str, *, fraction: bool) -> str:
    """The format for Spark; refuses letters that the engines may read differently."""
    for token in _tokens(site, pattern):
        if not token[0].isalpha():
            if not token.startswith("'") and re.search(r"[\[\]{}#]", token):
                site.refuse(f"the format {pattern!r} has characters with a meaning of their own")
        elif token not in _FORMAT_TOKENS and not (fraction and re.fullmatch("S{1,6}", token)):
            site.refuse(f"{token!r} in a format is not computed")
    return pattern


def date_format(site: Site) -> Column:
    """DATE_FORMAT(timestamp, format)."""
    pattern = _checked(site, site.text(1, "the format"), fraction=True)
    if site[0].type.root not in (*TIMESTAMP_ROOTS, TypeRoot.DATE):
        site.refuse(f"not computed for {site.types()}", hint="cast the text to a timestamp first")
    return sf.date_format(site[0].column, pattern)


def from_unixtime(site: Site) -> Column:
    """FROM_UNIXTIME(seconds[, format])."""
    pattern = site.text(1, "the format") if len(site) > 1 else _DEFAULT_FORMAT
    _checked(site, pattern, fraction=False)
    if site[0].type.root not in INTEGER_BITS:
        site.refuse(f"not computed for {site.types()}")
    thousand = Value(sf.lit(1000).cast(LONG), BIGINT, literal=1000, is_literal=True)
    return sf.date_format(sf.timestamp_millis(multiply(site[0], thousand, BIGINT).column), pattern)


def unix_timestamp(site: Site) -> Column:
    """UNIX_TIMESTAMP(text[, 'yyyy-MM-dd']): the smallest BIGINT for a text that is no time.

    As SimpleDateFormat reads it: the beginning of the text, with fields over their range carried
    into the next one. Dates before the reform of the calendar in 1582 are refused at each row.
    """
    pattern = site.text(1, "the format") if len(site) > 1 else _DEFAULT_FORMAT
    if pattern not in (_DEFAULT_FORMAT, "yyyy-MM-dd"):
        site.refuse(f"reading texts of the format {pattern!r} is not computed")
    expression = _LENIENT + (_LENIENT_CLOCK if pattern == _DEFAULT_FORMAT else "")
    if site[0].type.root not in STRING_ROOTS:
        site.refuse(f"not computed for {site.types()}")
    return bind(site[0], lambda x: _lenient_seconds(site, x, expression, pattern))


def _lenient_seconds(site: Site, text: Column, expression: str, pattern: str) -> Column:
    def field(index: int) -> Column:
        return parsing.group(text, expression, index).try_cast(_INT)

    months = (field(1) - 1970) * 12 + field(2) - 1
    first = sf.add_months(sf.lit(instants.DAY_EPOCH).cast(instants.DATE), months)
    days = instants.days(first).cast(LONG) + field(3) - 1
    clock = sf.lit(0).cast(LONG)
    if pattern == _DEFAULT_FORMAT:
        clock = field(4).cast(LONG) * 3600 + field(5).cast(LONG) * 60 + field(6)
    seconds = days * 86_400 + clock
    reformed = sf.when(field(1) > 1582, seconds).otherwise(_too_early(site))
    read = parsing.matches(text, expression + r"[\s\S]*\z")
    return sf.when(text.isNotNull(), sf.when(read, reformed).otherwise(sf.lit(_LONG_MIN)))


def _too_early(site: Site) -> Column:
    return failing(f"{site.name} of a date before 1583", BIGINT)


def to_date(site: Site) -> Column:
    """TO_DATE(text): `year[-month[-day]]`, NULL where it is none."""
    if len(site) > 1 and site.text(1, "the format") != "":
        site.refuse("Flink reads a format leniently, and what is no date as a wrong one")
    if site[0].type.root not in STRING_ROOTS:
        site.refuse(f"not computed for {site.types()}")
    return bind(site[0], parsing.to_date)


_FIELDS: Mapping[str, tuple[str, int]] = {
    "yyyy": (r"([0-9]{4})", 0),
    "MM": (r"([0-9]{2})", 1),
    "dd": (r"([0-9]{2})", 2),
    "HH": (r"([0-9]{2})", 3),
    "mm": (r"([0-9]{2})", 4),
    "ss": (r"([0-9]{2})", 5),
}
_DEFAULTS = (1970, 1, 1, 0, 0, 0)
_LOOSE_DATE = r"\A([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
_LOOSE = _LOOSE_DATE + r"(?: ([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?)?\z"


def to_timestamp(site: Site) -> Column:
    """TO_TIMESTAMP(text[, format]): TIMESTAMP(3), NULL where the text is none."""
    if site[0].type.root not in STRING_ROOTS:
        site.refuse(f"not computed for {site.types()}")
    millisecond = replace(site.type, precision=3)
    if len(site) == 1:
        return bind(site[0], lambda x: parsing.to_timestamp(x, millisecond))
    expression, fields = _reader(site, site.text(1, "the format"))
    return bind(site[0], lambda x: _formatted_timestamp(x, expression, fields, millisecond))


def _reader(site: Site, pattern: str) -> tuple[str, dict[int, int]]:
    """The format as a regular expression, and which of its groups holds which field."""
    expression = [r"\A"]
    fields: dict[int, int] = {}
    for token in _tokens(site, pattern):
        if token in _FIELDS:
            part, field = _FIELDS[token]
        elif re.fullmatch("S{1,9}", token):
            part, field = rf"([0-9]{{{len(token)}}})", 6
        elif token[0].isalpha():
            site.refuse(f"reading {token!r} of a format is not computed")
        else:
            literal = token[1:-1].replace("''", "'") or "'" if token[0] == "'" else token
            if token[0] != "'" and re.search(r"[\[\]{}#]", token):
                site.refuse(f"the format {pattern!r} has characters with a meaning of their own")
            expression.append(re.escape(literal))
            continue
        if field in fields:
            site.refuse(f"{token!r} stands twice in the format")
        fields[field] = len(fields) + 1
        expression.append(part)
    return "".join([*expression, r"\z"]), fields


def _formatted_timestamp(
    text: Column, expression: str, fields: dict[int, int], logical: LogicalType
) -> Column:
    def field(index: int) -> Column:
        if index not in fields:
            return sf.lit(_DEFAULTS[index])
        found = parsing.group(text, expression, fields[index]).try_cast(_INT)
        return sf.coalesce(found, sf.lit(-1))

    date, clock = (field(0), field(1), field(2)), (field(3), field(4), field(5))
    digits = parsing.group(text, expression, fields[6]) if 6 in fields else sf.lit("")
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
    """TO_TIMESTAMP_LTZ(number[, 0 | 3]): of seconds or milliseconds; NULL outside years 0..9999."""
    unit = site.whole(1, "the precision") if len(site) > 1 else 3
    if unit not in (0, 3):
        site.refuse("the precision must be 0 or 3")
    value = site[0]
    if value.type.root not in INTEGER_BITS:
        site.refuse(f"not computed for {site.types()}")
    scale = 1000 if unit == 0 else 1
    low, high = -(-_MILLIS_MIN // scale), _MILLIS_MAX // scale
    number = replace(value, column=convert(site, value, BIGINT))
    return bind(
        number,
        lambda x: sf.when(x.between(low, high), instants.from_millis(x * scale, site.type)),
    )
