"""The one table of what is computed: function, number of operands, and what a user must know.

A name is the planner's (`$NAME$1` without the marks). How a function is computed is in two other
tables, `builders` for Python and `service.runtime.expressions.builders` for Spark columns.
Reference pages are made from this table, so a note says in a user's words what a reader of Flink's
manual would not expect.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from operators.expressions.operand_rules import CHARSETS, DIGEST_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping

MANY = 1 << 30


@dataclass(frozen=True, slots=True)
class Function:
    """One row of the table."""

    name: str
    least: int
    """Number of operands."""
    most: int
    group: str
    """Heading under which reference pages list it."""
    note: str = ""
    is_pure: bool = True
    """Whether equal operands give equal results; the time of the epoch does not."""


_WHOLE_CHARACTERS = "characters outside the basic plane count as one and stay whole"
_ZONED = "written where table.local-time-zone is not UTC"
_SECOND = "the time of the epoch, to the second; where table.local-time-zone is UTC"
_EXACT = "not of FLOAT, DOUBLE, arrays, maps or rows"
_EARLY = "before 1970 as in Flink, which rounds the day towards 1970"


def _rows(
    group: str, least: int, most: int, *names: str, note: str = "", is_pure: bool = True
) -> list[Function]:
    """The rows of functions that take so many operands."""
    return [Function(name, least, most, group, note, is_pure) for name in names]


def _conditions() -> list[Function]:
    logic, choices = "Comparison and logic", "Conditions"
    note = "NaN equals nothing, -0.0 equals 0.0; beside a DECIMAL NaN is above all, -0.0 below 0"
    return [
        *_rows(logic, 2, 2, "=", "<>", "<", "<=", ">", ">=", note=note),
        *_rows(logic, 2, 2, "IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
        *_rows(logic, 2, MANY, "AND", "OR"),
        *_rows(logic, 1, 1, "NOT", "IS NULL", "IS UNKNOWN", "IS NOT NULL", "IS NOT UNKNOWN"),
        *_rows(logic, 1, 1, "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"),
        *_rows(logic, 3, 3, "BETWEEN"),
        *_rows(logic, 2, MANY, "IN"),
        *_rows(choices, 3, MANY, "CASE"),
        *_rows(choices, 3, 3, "IF"),
        *_rows(choices, 2, MANY, "ELT", note="texts or bytes; the number is an INT"),
        *_rows(choices, 1, MANY, "COALESCE", "GREATEST", "LEAST"),
        *_rows(choices, 2, 2, "IFNULL", "NULLIF"),
        *_rows(choices, 1, 1, "CAST", note="a text that cannot be read ends the query"),
        *_rows(choices, 1, 1, "TRY_CAST"),
        *_rows(choices, 1, 1, "REINTERPRET", note="written by the planner"),
    ]


def _numbers() -> list[Function]:
    group, last_bit = "Numbers", "the last bit may differ"
    return [
        *_rows(group, 2, 2, "+", note="whole numbers wrap, decimals become NULL"),
        *_rows(group, 1, 2, "-", note="whole numbers wrap, decimals become NULL"),
        *_rows(group, 2, 2, "*", "MOD", "%"),
        *_rows(group, 2, 2, "/", note="by zero: FLOAT and DOUBLE as in Java"),
        *_rows(group, 2, 2, "/INT", note="written by the planner"),
        *_rows(group, 1, 1, "ABS", "SIGN", "BIN", "HEX"),
        *_rows(group, 1, 2, "FLOOR", "CEIL", "CEILING", note=f"of a time to a unit: {_EARLY}"),
        *_rows(group, 1, 2, "ROUND", "TRUNCATE"),
        *_rows(group, 2, 2, "POWER", "ATAN2", note=last_bit),
        *_rows(group, 1, 2, "LOG", note=last_bit),
        *_rows(group, 1, 1, "EXP", "LN", "LOG10", "LOG2", "SQRT", note=last_bit),
        *_rows(group, 1, 1, "SIN", "COS", "TAN", "COT", "ASIN", "ACOS", "ATAN", note=last_bit),
        *_rows(group, 1, 1, "SINH", "COSH", "TANH", "DEGREES", "RADIANS", note=last_bit),
        *_rows(group, 0, 0, "PI", "E"),
    ]


def _strings() -> list[Function]:
    group = "Strings"
    return [
        *_rows(group, 2, 2, "||"),
        *_rows(group, 1, MANY, "CONCAT"),
        *_rows(group, 2, MANY, "CONCAT_WS"),
        *_rows(group, 1, 1, "UPPER", "LOWER", "INITCAP", "REVERSE"),
        *_rows(group, 1, 1, "CHAR_LENGTH", "CHARACTER_LENGTH", "CHR", "TO_BASE64"),
        *_rows(group, 1, 1, "ASCII", note="the first byte of UTF-8, signed"),
        *_rows(group, 3, 3, "TRIM", "REPLACE"),
        *_rows(group, 1, 2, "LTRIM", "RTRIM", "BTRIM"),
        *_rows(group, 2, 3, "SUBSTRING", "SUBSTR"),
        *_rows(group, 2, 2, "LEFT", "RIGHT", "REPEAT", "STARTSWITH", "ENDSWITH"),
        *_rows(group, 2, 2, "POSITION"),
        *_rows(group, 2, 4, "INSTR"),
        *_rows(group, 2, 3, "LOCATE"),
        *_rows(group, 3, 4, "OVERLAY", note=_WHOLE_CHARACTERS),
        *_rows(group, 3, 3, "LPAD", "RPAD", note=_WHOLE_CHARACTERS),
        *_rows(group, 3, 3, "TRANSLATE3", note="TRANSLATE"),
        *_rows(group, 3, 3, "SPLIT_INDEX"),
        *_rows(group, 2, 3, "LIKE", "SIMILAR TO", "REGEXP_EXTRACT"),
        *_rows(group, 2, 2, "REGEXP", "REGEXP_COUNT", "REGEXP_SUBSTR"),
        *_rows(group, 3, 3, "REGEXP_REPLACE"),
        *_rows(group, 2, 3, "REGEXP_EXTRACT_ALL"),
        *_rows(group, 2, 2, "REGEXP_INSTR", note="counts UTF-16 units"),
        *_rows(group, 1, 3, "STR_TO_MAP", note="delimiters are patterns"),
        *_rows(group, 2, 2, "ENCODE", "DECODE", note=f"charsets: {', '.join(CHARSETS)}"),
        *_rows(group, 1, 1, "UNHEX", note="of an odd number of digits the first counts as 0"),
        *_rows(group, 1, 1, "FROM_BASE64", note="a text that is none ends the query"),
        *_rows(group, 1, 1, "INET_ATON", "INET_NTOA"),
        *_rows(group, 1, 1, "IS_ALPHA", "IS_DIGIT", note="of the basic plane, by Unicode 14"),
        *_rows(group, 1, 1, "IS_DECIMAL", note="a DECIMAL is none"),
        *_rows(group, 1, 2, "TYPEOF"),
        *_rows(group, 1, 1, "HASH_CODE", "MD5", "SHA1", *(f"SHA{bits}" for bits in DIGEST_BITS)),
        *_rows(group, 1, 1, "URL_ENCODE"),
        *_rows(group, 2, 3, "PARSE_URL", note="of file, ftp, http, https and mailto; else NULL"),
        *_rows(group, 1, 1, "URL_DECODE", note="NULL of what is not encoded"),
        *_rows(group, 2, 2, "SHA2", note="224, 256, 384 or 512 bits"),
    ]


def _times() -> list[Function]:
    group = "Date and time"
    literal = "names in a format are English"
    now = partial(_rows, note="the time of the epoch, to the millisecond", is_pure=False)
    return [
        *_rows(group, 2, 2, "EXTRACT", note=_EARLY),
        *_rows(group, 2, 2, "DATE_FORMAT", note=literal),
        *_rows(group, 1, 1, "TO_DATE"),
        *_rows(group, 1, 2, "TO_TIMESTAMP", note=literal),
        *_rows(group, 1, 2, "TO_TIMESTAMP_LTZ", note="of numbers"),
        *_rows(group, 0, 2, "UNIX_TIMESTAMP", note="from 1583 on", is_pure=False),
        *_rows(group, 1, 2, "FROM_UNIXTIME"),
        *_rows(group, 3, 3, "CONVERT_TZ", note="zones: regions, UTC, GMT+08:00"),
        *now(group, 0, 0, "CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP"),
        *now(group, 0, 0, "NOW", "CURRENT_ROW_TIMESTAMP", "PROCTIME"),
        *now(group, 1, 1, "PROCTIME_MATERIALIZE"),
        *_rows(group, 0, 0, "CURRENT_TIME", "LOCALTIME", note=_SECOND, is_pure=False),
        *_rows(group, 2, 2, "LOCAL_OF_INSTANT", "INSTANT_OF_LOCAL", note=_ZONED),
        *_rows(group, 2, 2, "CLOCK_OF_INSTANT", "CLOCK_OF_SECONDS", note=_ZONED),
        *_rows(group, 3, 3, "INSTANT_OF_CLOCK", note=_ZONED),
    ]


def _json() -> list[Function]:
    group = "JSON"
    path = "the path has names, indexes and *, with lax or strict before it"
    kinds = ("VALUE", "OBJECT", "ARRAY", "SCALAR")
    written = "of all types but DATE and TIME"
    return [
        *_rows(group, 2, 8, "JSON_VALUE", note=f"{path}; as a text, INT, DOUBLE or BOOLEAN"),
        *_rows(group, 5, 5, "JSON_QUERY", note=f"{path}; as a text"),
        *_rows(group, 2, 3, "JSON_EXISTS", note=path),
        *_rows(group, 1, 1, *(f"IS JSON {kind}" for kind in kinds)),
        *_rows(group, 1, 1, *(f"IS NOT JSON {kind}" for kind in kinds)),
        *_rows(group, 1, MANY, "JSON_OBJECT", "JSON_ARRAY", note=f"{written}; nested as it is"),
        *_rows(group, 1, 1, "JSON_STRING", note=written),
        *_rows(group, 1, 1, "JSON", note="only as a value in JSON_OBJECT or JSON_ARRAY"),
        *_rows(group, 1, 1, "JSON_QUOTE", "JSON_UNQUOTE"),
    ]


def _collections() -> list[Function]:
    group = "Arrays, maps and rows"
    return [
        *_rows(group, 0, MANY, "ARRAY"),
        *_rows(group, 0, MANY, "MAP", note="a key that is NULL or there twice ends the query"),
        *_rows(group, 1, MANY, "ROW"),
        *_rows(group, 2, 2, "ITEM"),
        *_rows(group, 2, 2, "ARRAY_CONTAINS", note=_EXACT),
        *_rows(group, 1, 1, "CARDINALITY"),
        *_rows(group, 1, 1, "ELEMENT", note="of more than one it ends the query"),
        *_rows(group, 2, 2, "ARRAY_POSITION", "ARRAY_REMOVE", note=_EXACT),
        *_rows(group, 2, 2, "ARRAY_UNION", "ARRAY_INTERSECT", "ARRAY_EXCEPT", note=_EXACT),
        *_rows(group, 1, 1, "ARRAY_DISTINCT", note=_EXACT),
        *_rows(group, 1, 3, "ARRAY_SORT", note=_EXACT),
        *_rows(group, 1, 1, "ARRAY_MAX", "ARRAY_MIN", "ARRAY_REVERSE"),
        *_rows(group, 2, 3, "ARRAY_SLICE"),
        *_rows(group, 2, 2, "ARRAY_APPEND", "ARRAY_PREPEND"),
        *_rows(group, 1, MANY, "ARRAY_CONCAT"),
        *_rows(group, 1, 1, "MAP_KEYS", "MAP_VALUES", "MAP_ENTRIES", note="by the order of keys"),
        *_rows(
            group, 2, 2, "MAP_FROM_ARRAYS", note="a key that is NULL or there twice ends the query"
        ),
        *_rows(group, 1, MANY, "MAP_UNION"),
        *_rows(group, 2, 2, "SPLIT"),
        *_rows(group, 2, 3, "ARRAY_JOIN", note="of texts"),
    ]


FUNCTIONS: Mapping[str, Function] = {
    row.name: row
    for row in (
        *_conditions(),
        *_numbers(),
        *_strings(),
        *_times(),
        *_json(),
        *_collections(),
    )
}
"""What is computed, by the planner's name. SEARCH, field access and literals stand outside it."""

UNSUPPORTED_REASONS: Mapping[str, str] = {
    "CURRENT_WATERMARK": "the watermark is not known inside an expression",
    "RAND": "its value would differ when an epoch is run again",
    "RAND_INTEGER": "its value would differ when an epoch is run again",
    "UUID": "its value would differ when an epoch is run again",
    "SIMILAR TO": "SQL's regular expressions are not translated",
}
"""Why some known functions are refused; others are just not known here."""
