"""The one table of what is computed: function, number of operands, builder, note.

A name is the planner's (`$NAME$1` without the marks). Reference pages are made from this table, so
a note says in a user's words what a reader of Flink's manual would not expect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as sf

from service.runtime.expressions import (
    casts,
    collections,
    comparison,
    conditionals,
    formats,
    numbers,
    patterns,
    strings,
    temporal,
)
from service.runtime.expressions.site import Column, Site, Value
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

Builder = Callable[[Site], Column | Value]
"""A column that `lower` casts to the declared type, or a value that has it."""
MANY = 1 << 30


@dataclass(frozen=True, slots=True)
class Function:
    """One row of the table."""

    name: str
    least: int
    """Number of operands."""
    most: int
    build: Builder
    group: str
    """Heading under which reference pages list it."""
    note: str = ""


_LAST_BIT = "the last bit may differ"
_LITERAL_PATTERN = "the pattern must be a literal"
_BATCH_TIME = "the time of the epoch, to the millisecond"
_WHOLE_CHARACTERS = "characters outside the basic plane count as one and stay whole"
_LITERAL_DIGITS = "the number of digits must be a literal"
_EARLY = "before 1970 as in Flink, which rounds the day towards 1970"


def _comparison() -> list[Function]:
    group = "Comparison and logic"
    rows = [
        Function(name, 2, 2, comparison.compare, group, "NaN equals nothing, -0.0 equals 0.0")
        for name in ("=", "<>", "<", "<=", ">", ">=")
    ]
    return [
        *rows,
        Function("IS DISTINCT FROM", 2, 2, comparison.distinct, group),
        Function("IS NOT DISTINCT FROM", 2, 2, comparison.not_distinct, group),
        Function("AND", 2, MANY, comparison.conjunction, group),
        Function("OR", 2, MANY, comparison.disjunction, group),
        Function("NOT", 1, 1, comparison.negation, group),
        Function("IS NULL", 1, 1, comparison.is_null, group),
        Function("IS UNKNOWN", 1, 1, comparison.is_null, group),
        Function("IS NOT NULL", 1, 1, comparison.is_not_null, group),
        Function("IS NOT UNKNOWN", 1, 1, comparison.is_not_null, group),
        Function("IS TRUE", 1, 1, comparison.truth_test(True, negated=False), group),
        Function("IS NOT TRUE", 1, 1, comparison.truth_test(True, negated=True), group),
        Function("IS FALSE", 1, 1, comparison.truth_test(False, negated=False), group),
        Function("IS NOT FALSE", 1, 1, comparison.truth_test(False, negated=True), group),
        Function("BETWEEN", 3, 3, comparison.between, group),
        Function("IN", 2, MANY, comparison.membership, group),
    ]


def _conditionals() -> list[Function]:
    group = "Conditions"
    return [
        Function("CASE", 3, MANY, conditionals.case, group),
        Function("IF", 3, 3, conditionals.if_else, group),
        Function("COALESCE", 1, MANY, conditionals.coalesce, group),
        Function("IFNULL", 2, 2, conditionals.coalesce, group),
        Function("NULLIF", 2, 2, conditionals.null_if, group),
        Function("GREATEST", 1, MANY, conditionals.extreme(greatest=True), group),
        Function("LEAST", 1, MANY, conditionals.extreme(greatest=False), group),
        Function("CAST", 1, 1, casts.cast, group, "a text that cannot be read ends the query"),
        Function("TRY_CAST", 1, 1, casts.try_cast, group),
        Function("REINTERPRET", 1, 1, temporal.reinterpret, group, "written by the planner"),
    ]


def _numbers() -> list[Function]:
    group = "Numbers"
    double = numbers.of_double
    library = {
        "EXP": double(sf.exp), "SIN": double(sf.sin), "COS": double(sf.cos),
        "TAN": double(sf.tan), "ASIN": double(sf.asin), "ACOS": double(sf.acos),
        "ATAN": double(sf.atan), "SINH": double(sf.sinh), "COSH": double(sf.cosh),
        "TANH": double(sf.tanh), "COT": numbers.cotangent, "DEGREES": double(sf.degrees),
        "RADIANS": double(sf.radians), "LN": numbers.logarithm(sf.ln),
        "LOG10": numbers.logarithm(sf.log10), "LOG2": numbers.log2, "SQRT": numbers.sqrt,
    }  # fmt: skip
    return [
        Function("+", 2, 2, temporal.plus, group, "whole numbers wrap, decimals become NULL"),
        Function("-", 1, 2, temporal.minus, group, "whole numbers wrap, decimals become NULL"),
        Function("*", 2, 2, numbers.operator("*"), group),
        Function("/", 2, 2, numbers.operator("/"), group, "by zero: FLOAT and DOUBLE as in Java"),
        Function("/INT", 2, 2, numbers.divide_whole, group, "written by the planner"),
        Function("MOD", 2, 2, numbers.operator("%"), group),
        Function("%", 2, 2, numbers.operator("%"), group),
        Function("ABS", 1, 1, numbers.absolute, group),
        Function("SIGN", 1, 1, numbers.sign, group),
        Function("FLOOR", 1, 2, temporal.floor, group, f"of a time to a unit: {_EARLY}"),
        Function("CEIL", 1, 2, temporal.ceil, group, f"of a time to a unit: {_EARLY}"),
        Function("CEILING", 1, 2, temporal.ceil, group, f"of a time to a unit: {_EARLY}"),
        Function("ROUND", 1, 2, numbers.round_half_up, group, _LITERAL_DIGITS),
        Function("TRUNCATE", 1, 2, numbers.truncate, group, _LITERAL_DIGITS),
        Function("POWER", 2, 2, numbers.power, group, _LAST_BIT),
        Function("LOG", 1, 2, numbers.log, group, _LAST_BIT),
        Function("ATAN2", 2, 2, numbers.atan2, group, _LAST_BIT),
        *(Function(name, 1, 1, build, group, _LAST_BIT) for name, build in library.items()),
        Function("PI", 0, 0, numbers.constant(3.141592653589793), group),
        Function("E", 0, 0, numbers.constant(2.718281828459045), group),
        Function("BIN", 1, 1, numbers.binary_digits, group),
        Function("HEX", 1, 1, strings.hexadecimal, group),
    ]


def _strings() -> list[Function]:
    group = "Strings"
    return [
        Function("||", 2, 2, strings.concat, group),
        Function("CONCAT", 1, MANY, strings.concat, group),
        Function("CONCAT_WS", 2, MANY, strings.concat_ws, group),
        Function("UPPER", 1, 1, strings.of_text(sf.upper), group),
        Function("LOWER", 1, 1, strings.of_text(sf.lower), group),
        Function("INITCAP", 1, 1, strings.initcap, group),
        Function("TRIM", 3, 3, strings.trim, group),
        Function("LTRIM", 1, 2, strings.trimmed(sf.ltrim), group),
        Function("RTRIM", 1, 2, strings.trimmed(sf.rtrim), group),
        Function("BTRIM", 1, 2, strings.trimmed(sf.btrim), group),
        Function("SUBSTRING", 2, 3, strings.substring, group),
        Function("SUBSTR", 2, 3, strings.substring, group),
        Function("LEFT", 2, 2, strings.left, group),
        Function("RIGHT", 2, 2, strings.right, group),
        Function("POSITION", 2, 2, strings.position, group),
        Function("LOCATE", 2, 3, strings.position, group, "the start must be a literal from 1"),
        Function("INSTR", 2, 2, strings.instr, group),
        Function("REPLACE", 3, 3, strings.replace_all, group),
        Function("OVERLAY", 3, 4, strings.overlay, group, _WHOLE_CHARACTERS),
        Function("LPAD", 3, 3, strings.padded(sf.lpad), group, _WHOLE_CHARACTERS),
        Function("RPAD", 3, 3, strings.padded(sf.rpad), group, _WHOLE_CHARACTERS),
        Function("REPEAT", 2, 2, strings.repeat, group),
        Function("REVERSE", 1, 1, strings.of_text(sf.reverse), group),
        Function("CHAR_LENGTH", 1, 1, strings.of_text(sf.char_length), group),
        Function("CHARACTER_LENGTH", 1, 1, strings.of_text(sf.char_length), group),
        Function("TRANSLATE3", 3, 3, strings.translate, group, "TRANSLATE; literals only"),
        Function("SPLIT_INDEX", 3, 3, strings.split_index, group, "the separator is a literal"),
        Function("STARTSWITH", 2, 2, strings.starts_with, group),
        Function("ENDSWITH", 2, 2, strings.ends_with, group),
        Function("LIKE", 2, 3, patterns.like, group, _LITERAL_PATTERN),
        Function("REGEXP", 2, 2, patterns.regexp, group, _LITERAL_PATTERN),
        Function("REGEXP_REPLACE", 3, 3, patterns.regexp_replace, group, _LITERAL_PATTERN),
        Function("REGEXP_EXTRACT", 2, 3, patterns.regexp_extract, group, _LITERAL_PATTERN),
        Function("REGEXP_COUNT", 2, 2, patterns.regexp_count, group, _LITERAL_PATTERN),
        Function("REGEXP_SUBSTR", 2, 2, patterns.regexp_substr, group, _LITERAL_PATTERN),
        Function("ASCII", 1, 1, strings.ascii_code, group, "the first byte of UTF-8, signed"),
        Function("CHR", 1, 1, strings.character, group),
        Function("HASH_CODE", 1, 1, strings.hash_code, group),
        Function("MD5", 1, 1, strings.of_text(sf.md5), group),
        Function("SHA1", 1, 1, strings.of_text(sf.sha1), group),
        *(Function(f"SHA{n}", 1, 1, strings.digest(n), group) for n in (224, 256, 384, 512)),
        Function("SHA2", 2, 2, strings.sha2, group, "the number of bits is a literal"),
        Function("TO_BASE64", 1, 1, strings.to_base64, group),
    ]


def _temporal() -> list[Function]:
    group = "Date and time"
    instant = temporal.current(TypeRoot.TIMESTAMP_LTZ)
    return [
        Function("EXTRACT", 2, 2, temporal.extract, group, _EARLY),
        Function("DATE_FORMAT", 2, 2, formats.date_format, group, "a literal format of numbers"),
        Function("TO_DATE", 1, 1, formats.to_date, group),
        Function("TO_TIMESTAMP", 1, 2, formats.to_timestamp, group, "a literal format of numbers"),
        Function("TO_TIMESTAMP_LTZ", 1, 2, formats.to_timestamp_ltz, group, "of whole numbers"),
        Function("UNIX_TIMESTAMP", 0, 2, _unix_timestamp, group, "from 1583 on"),
        Function("FROM_UNIXTIME", 1, 2, formats.from_unixtime, group),
        Function("CURRENT_DATE", 0, 0, temporal.current(TypeRoot.DATE), group, _BATCH_TIME),
        Function("CURRENT_TIMESTAMP", 0, 0, instant, group, _BATCH_TIME),
        Function("NOW", 0, 0, instant, group, _BATCH_TIME),
        Function("CURRENT_ROW_TIMESTAMP", 0, 0, instant, group, _BATCH_TIME),
        Function("PROCTIME", 0, 0, instant, group, _BATCH_TIME),
        Function("PROCTIME_MATERIALIZE", 1, 1, instant, group, _BATCH_TIME),
        Function("LOCALTIMESTAMP", 0, 0, temporal.current(TypeRoot.TIMESTAMP), group, _BATCH_TIME),
    ]


def _unix_timestamp(site: Site) -> Column:
    if len(site) == 0:
        return temporal.current(TypeRoot.BIGINT)(site)
    return formats.unix_timestamp(site)


def _collections() -> list[Function]:
    group = "Arrays, maps and rows"
    return [
        Function("ARRAY", 0, MANY, collections.array, group),
        Function("MAP", 0, MANY, collections.map_of, group, "the keys must be literals"),
        Function("ROW", 1, MANY, collections.row, group),
        Function("ITEM", 2, 2, collections.item, group),
        Function("CARDINALITY", 1, 1, collections.cardinality, group),
        Function("ARRAY_CONTAINS", 2, 2, collections.array_contains, group),
    ]


FUNCTIONS: Mapping[str, Function] = {
    row.name: row
    for row in (
        *_comparison(),
        *_conditionals(),
        *_numbers(),
        *_strings(),
        *_temporal(),
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
    "CURRENT_TIME": "TIME is only carried through",
    "LOCALTIME": "TIME is only carried through",
}
"""Why some known functions are refused; others are just not known here."""
