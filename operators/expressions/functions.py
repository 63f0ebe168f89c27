"""The one table of what is computed in Python: function, number of operands, builder.

A name is the planner's (`$NAME$1` without the marks). The table has the names of the one for Spark
columns (`service.runtime.expressions.functions`), which a test compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from operators.expressions import (
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
from operators.expressions.representation import Run
from operators.expressions.site import Site, Value
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

Builder = Callable[[Site], Run | Value]
"""A closure whose result the compiler brings to the declared type, or a value that has it."""
MANY = 1 << 30


@dataclass(frozen=True, slots=True)
class Function:
    """One row of the table."""

    name: str
    least: int
    """Number of operands."""
    most: int
    build: Builder
    is_pure: bool = True
    """Whether equal operands give equal results; the time of the epoch does not."""


def _comparison() -> list[Function]:
    truth = comparison.truth_test
    return [
        *(Function(name, 2, 2, comparison.compare) for name in ("=", "<>", "<", "<=", ">", ">=")),
        Function("IS DISTINCT FROM", 2, 2, comparison.distinct),
        Function("IS NOT DISTINCT FROM", 2, 2, comparison.not_distinct),
        Function("AND", 2, MANY, comparison.conjunction),
        Function("OR", 2, MANY, comparison.disjunction),
        Function("NOT", 1, 1, comparison.negation),
        Function("IS NULL", 1, 1, comparison.is_null),
        Function("IS UNKNOWN", 1, 1, comparison.is_null),
        Function("IS NOT NULL", 1, 1, comparison.is_not_null),
        Function("IS NOT UNKNOWN", 1, 1, comparison.is_not_null),
        Function("IS TRUE", 1, 1, truth(True, negated=False)),
        Function("IS NOT TRUE", 1, 1, truth(True, negated=True)),
        Function("IS FALSE", 1, 1, truth(False, negated=False)),
        Function("IS NOT FALSE", 1, 1, truth(False, negated=True)),
        Function("BETWEEN", 3, 3, comparison.between),
        Function("IN", 2, MANY, comparison.membership),
    ]


def _conditionals() -> list[Function]:
    return [
        Function("CASE", 3, MANY, conditionals.case),
        Function("IF", 3, 3, conditionals.if_else),
        Function("COALESCE", 1, MANY, conditionals.coalesce),
        Function("IFNULL", 2, 2, conditionals.coalesce),
        Function("NULLIF", 2, 2, conditionals.null_if),
        Function("GREATEST", 1, MANY, conditionals.extreme(greatest=True)),
        Function("LEAST", 1, MANY, conditionals.extreme(greatest=False)),
        Function("CAST", 1, 1, casts.cast),
        Function("TRY_CAST", 1, 1, casts.try_cast),
        Function("REINTERPRET", 1, 1, temporal.reinterpret),
    ]


def _numbers() -> list[Function]:
    library = {
        "EXP": numbers.growing(math.exp, is_odd=False),
        "SINH": numbers.growing(math.sinh, is_odd=True),
        "COSH": numbers.growing(math.cosh, is_odd=False),
        "TANH": math.tanh,
        "SIN": numbers.of_library(math.sin),
        "COS": numbers.of_library(math.cos),
        "TAN": numbers.of_library(math.tan),
        "ASIN": numbers.of_library(math.asin),
        "ACOS": numbers.of_library(math.acos),
        "ATAN": math.atan,
        "COT": numbers.cotangent,
        "DEGREES": math.degrees,
        "RADIANS": math.radians,
        "LN": numbers.logarithm(math.log),
        "LOG10": numbers.logarithm(math.log10),
        "LOG2": numbers.log2,
        "SQRT": numbers.of_library(math.sqrt),
    }
    floor, ceil = temporal.rounded(up=False), temporal.rounded(up=True)
    return [
        Function("+", 2, 2, temporal.plus),
        Function("-", 1, 2, temporal.minus),
        Function("*", 2, 2, numbers.operator("*")),
        Function("/", 2, 2, numbers.operator("/")),
        Function("/INT", 2, 2, numbers.divide_whole),
        Function("MOD", 2, 2, numbers.operator("%")),
        Function("%", 2, 2, numbers.operator("%")),
        Function("ABS", 1, 1, numbers.absolute),
        Function("SIGN", 1, 1, numbers.sign),
        Function("FLOOR", 1, 2, floor),
        Function("CEIL", 1, 2, ceil),
        Function("CEILING", 1, 2, ceil),
        Function("ROUND", 1, 2, numbers.round_half_up),
        Function("TRUNCATE", 1, 2, numbers.truncate),
        Function("POWER", 2, 2, numbers.power),
        Function("LOG", 1, 2, numbers.log),
        Function("ATAN2", 2, 2, numbers.atan2),
        *(Function(name, 1, 1, numbers.of_double(build)) for name, build in library.items()),
        Function("PI", 0, 0, numbers.fixed(math.pi)),
        Function("E", 0, 0, numbers.fixed(math.e)),
        Function("BIN", 1, 1, numbers.binary_digits),
        Function("HEX", 1, 1, strings.hexadecimal),
    ]


def _strings() -> list[Function]:
    of_text, of_texts = strings.of_text, strings.of_texts
    return [
        Function("||", 2, 2, strings.concat),
        Function("CONCAT", 1, MANY, strings.concat),
        Function("CONCAT_WS", 2, MANY, strings.concat_ws),
        Function("UPPER", 1, 1, of_text(str.upper)),
        Function("LOWER", 1, 1, of_text(str.lower)),
        Function("INITCAP", 1, 1, of_text(strings.initcap)),
        Function("TRIM", 3, 3, strings.trim),
        Function("LTRIM", 1, 2, strings.trimmed("LEADING")),
        Function("RTRIM", 1, 2, strings.trimmed("TRAILING")),
        Function("BTRIM", 1, 2, strings.trimmed("BOTH")),
        Function("SUBSTRING", 2, 3, strings.substring),
        Function("SUBSTR", 2, 3, strings.substring),
        Function("LEFT", 2, 2, strings.left),
        Function("RIGHT", 2, 2, strings.right),
        Function("POSITION", 2, 2, strings.position),
        Function("LOCATE", 2, 3, strings.position),
        Function("INSTR", 2, 2, strings.instr),
        Function("REPLACE", 3, 3, of_texts(str.replace)),
        Function("OVERLAY", 3, 4, strings.overlay),
        Function("LPAD", 3, 3, strings.padded(is_left=True)),
        Function("RPAD", 3, 3, strings.padded(is_left=False)),
        Function("REPEAT", 2, 2, strings.repeat),
        Function("REVERSE", 1, 1, of_text(lambda text: text[::-1])),
        Function("CHAR_LENGTH", 1, 1, of_text(len)),
        Function("CHARACTER_LENGTH", 1, 1, of_text(len)),
        Function("TRANSLATE3", 3, 3, strings.translate),
        Function("SPLIT_INDEX", 3, 3, strings.split_index),
        Function("STARTSWITH", 2, 2, of_texts(str.startswith)),
        Function("ENDSWITH", 2, 2, of_texts(str.endswith)),
        Function("LIKE", 2, 3, patterns.like),
        Function("REGEXP", 2, 2, patterns.regexp),
        Function("REGEXP_REPLACE", 3, 3, patterns.regexp_replace),
        Function("REGEXP_EXTRACT", 2, 3, patterns.regexp_extract),
        Function("REGEXP_COUNT", 2, 2, patterns.regexp_count),
        Function("REGEXP_SUBSTR", 2, 2, patterns.regexp_substr),
        Function("ASCII", 1, 1, of_text(strings.ascii_code)),
        Function("CHR", 1, 1, strings.character),
        Function("HASH_CODE", 1, 1, strings.hash_code),
        Function("MD5", 1, 1, of_text(strings.digest("md5"))),
        Function("SHA1", 1, 1, of_text(strings.digest("sha1"))),
        *(
            Function(f"SHA{bits}", 1, 1, of_text(strings.digest(f"sha{bits}")))
            for bits in (224, 256, 384, 512)
        ),
        Function("SHA2", 2, 2, strings.sha2),
        Function("TO_BASE64", 1, 1, strings.to_base64),
    ]


def _temporal() -> list[Function]:
    instant = temporal.current(TypeRoot.TIMESTAMP_LTZ)
    times: dict[str, Builder] = {
        "CURRENT_DATE": temporal.current(TypeRoot.DATE),
        "CURRENT_TIMESTAMP": instant,
        "NOW": instant,
        "CURRENT_ROW_TIMESTAMP": instant,
        "PROCTIME": instant,
        "LOCALTIMESTAMP": temporal.current(TypeRoot.TIMESTAMP),
    }
    return [
        Function("EXTRACT", 2, 2, temporal.extract),
        Function("DATE_FORMAT", 2, 2, formats.date_format),
        Function("TO_DATE", 1, 1, formats.to_date),
        Function("TO_TIMESTAMP", 1, 2, formats.to_timestamp),
        Function("TO_TIMESTAMP_LTZ", 1, 2, formats.to_timestamp_ltz),
        Function("UNIX_TIMESTAMP", 0, 2, _unix_timestamp, is_pure=False),
        Function("FROM_UNIXTIME", 1, 2, formats.from_unixtime),
        *(Function(name, 0, 0, build, is_pure=False) for name, build in times.items()),
        Function("PROCTIME_MATERIALIZE", 1, 1, instant, is_pure=False),
    ]


def _unix_timestamp(site: Site) -> Run:
    if len(site) == 0:
        return temporal.current(TypeRoot.BIGINT)(site)
    return formats.unix_timestamp(site)


def _collections() -> list[Function]:
    return [
        Function("ARRAY", 0, MANY, collections.array),
        Function("MAP", 0, MANY, collections.map_of),
        Function("ROW", 1, MANY, collections.row_of),
        Function("ITEM", 2, 2, collections.item),
        Function("CARDINALITY", 1, 1, collections.cardinality),
        Function("ARRAY_CONTAINS", 2, 2, collections.array_contains),
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
