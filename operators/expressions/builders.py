"""How each function of `functions` is computed in Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from operators.expressions import (
    casts,
    collections,
    comparison,
    conditionals,
    formats,
    hashes,
    json_functions,
    json_texts,
    numbers,
    patterns,
    strings,
    temporal,
    urls,
    zones,
)
from operators.expressions.operand_rules import DIGEST_BITS
from operators.expressions.representation import Run
from operators.expressions.site import Site, Value
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

Builder = Callable[[Site], Run | Value]
"""A closure whose result the compiler brings to the declared type, or a value that has it."""


def _unix_timestamp(site: Site) -> Run:
    if len(site) == 0:
        return temporal.current(TypeRoot.BIGINT)(site)
    return formats.unix_timestamp(site)


_CONDITIONS: Mapping[str, Builder] = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), comparison.compare),
    "IS DISTINCT FROM": comparison.distinct,
    "IS NOT DISTINCT FROM": comparison.not_distinct,
    "AND": comparison.conjunction,
    "OR": comparison.disjunction,
    "NOT": comparison.negation,
    "IS NULL": comparison.is_null,
    "IS UNKNOWN": comparison.is_null,
    "IS NOT NULL": comparison.is_not_null,
    "IS NOT UNKNOWN": comparison.is_not_null,
    "IS TRUE": comparison.truth_test(True, negated=False),
    "IS NOT TRUE": comparison.truth_test(True, negated=True),
    "IS FALSE": comparison.truth_test(False, negated=False),
    "IS NOT FALSE": comparison.truth_test(False, negated=True),
    "BETWEEN": comparison.between,
    "IN": comparison.membership,
    "CASE": conditionals.case,
    "IF": conditionals.if_else,
    "COALESCE": conditionals.coalesce,
    "IFNULL": conditionals.coalesce,
    "NULLIF": conditionals.null_if,
    "ELT": conditionals.element,
    "GREATEST": conditionals.extreme(greatest=True),
    "LEAST": conditionals.extreme(greatest=False),
    "CAST": casts.cast,
    "TRY_CAST": casts.try_cast,
    "REINTERPRET": temporal.reinterpret,
}
_CEIL = temporal.rounded(up=True)
_NUMBERS: Mapping[str, Builder] = {
    "+": temporal.plus,
    "-": temporal.minus,
    "*": numbers.operator("*"),
    "/": numbers.operator("/"),
    "/INT": numbers.divide_whole,
    "MOD": numbers.operator("%"),
    "%": numbers.operator("%"),
    "ABS": numbers.absolute,
    "SIGN": numbers.sign,
    "FLOOR": temporal.rounded(up=False),
    "CEIL": _CEIL,
    "CEILING": _CEIL,
    "ROUND": numbers.round_half_up,
    "TRUNCATE": numbers.truncate,
    "POWER": numbers.power,
    "LOG": numbers.log,
    "ATAN2": numbers.atan2,
    "EXP": numbers.of_double(numbers.growing(math.exp, is_odd=False)),
    "SINH": numbers.of_double(numbers.growing(math.sinh, is_odd=True)),
    "COSH": numbers.of_double(numbers.growing(math.cosh, is_odd=False)),
    "TANH": numbers.of_double(math.tanh),
    "SIN": numbers.of_double(numbers.of_library(math.sin)),
    "COS": numbers.of_double(numbers.of_library(math.cos)),
    "TAN": numbers.of_double(numbers.of_library(math.tan)),
    "ASIN": numbers.of_double(numbers.of_library(math.asin)),
    "ACOS": numbers.of_double(numbers.of_library(math.acos)),
    "ATAN": numbers.of_double(math.atan),
    "COT": numbers.of_double(numbers.cotangent),
    "DEGREES": numbers.of_double(math.degrees),
    "RADIANS": numbers.of_double(math.radians),
    "LN": numbers.of_double(numbers.logarithm(math.log)),
    "LOG10": numbers.of_double(numbers.logarithm(math.log10)),
    "LOG2": numbers.of_double(numbers.log2),
    "SQRT": numbers.of_double(numbers.of_library(math.sqrt)),
    "PI": numbers.fixed(math.pi),
    "E": numbers.fixed(math.e),
    "BIN": numbers.binary_digits,
    "HEX": strings.hexadecimal,
}
_STRINGS: Mapping[str, Builder] = {
    "||": strings.concat,
    "CONCAT": strings.concat,
    "CONCAT_WS": strings.concat_ws,
    "UPPER": strings.of_text(str.upper),
    "LOWER": strings.of_text(str.lower),
    "INITCAP": strings.of_text(strings.initcap),
    "TRIM": strings.trim,
    "LTRIM": strings.trimmed("LEADING"),
    "RTRIM": strings.trimmed("TRAILING"),
    "BTRIM": strings.trimmed("BOTH"),
    "SUBSTRING": strings.substring,
    "SUBSTR": strings.substring,
    "LEFT": strings.left,
    "RIGHT": strings.right,
    "POSITION": strings.position,
    "LOCATE": strings.position,
    "INSTR": strings.instr,
    "REPLACE": strings.of_texts(str.replace),
    "OVERLAY": strings.overlay,
    "LPAD": strings.padded(is_left=True),
    "RPAD": strings.padded(is_left=False),
    "REPEAT": strings.repeat,
    "REVERSE": strings.of_text(lambda text: text[::-1]),
    "CHAR_LENGTH": strings.of_text(len),
    "CHARACTER_LENGTH": strings.of_text(len),
    "TRANSLATE3": strings.translate,
    "SPLIT_INDEX": strings.split_index,
    "STARTSWITH": strings.of_texts(str.startswith),
    "ENDSWITH": strings.of_texts(str.endswith),
    "LIKE": patterns.like,
    "SIMILAR TO": patterns.similar,
    "REGEXP": patterns.regexp,
    "REGEXP_REPLACE": patterns.regexp_replace,
    "REGEXP_EXTRACT": patterns.regexp_extract,
    "REGEXP_COUNT": patterns.regexp_count,
    "REGEXP_SUBSTR": patterns.regexp_substr,
    "ASCII": strings.of_text(strings.ascii_code),
    "CHR": strings.character,
    "HASH_CODE": hashes.hash_code,
    "MD5": strings.of_text(strings.digest("md5")),
    "SHA1": strings.of_text(strings.digest("sha1")),
    **{f"SHA{bits}": strings.of_text(strings.digest(f"sha{bits}")) for bits in DIGEST_BITS},
    "SHA2": strings.sha2,
    "URL_ENCODE": strings.of_text(urls.encoded),
    "URL_DECODE": strings.of_text(urls.decoded),
    "TO_BASE64": strings.to_base64,
}
_INSTANT = temporal.current(TypeRoot.TIMESTAMP_LTZ)
_TIMES: Mapping[str, Builder] = {
    "EXTRACT": temporal.extract,
    "DATE_FORMAT": formats.date_format,
    "TO_DATE": formats.to_date,
    "TO_TIMESTAMP": formats.to_timestamp,
    "TO_TIMESTAMP_LTZ": formats.to_timestamp_ltz,
    "UNIX_TIMESTAMP": _unix_timestamp,
    "FROM_UNIXTIME": formats.from_unixtime,
    "CURRENT_DATE": temporal.current(TypeRoot.DATE),
    "CURRENT_TIMESTAMP": _INSTANT,
    "NOW": _INSTANT,
    "CURRENT_ROW_TIMESTAMP": _INSTANT,
    "PROCTIME": _INSTANT,
    "PROCTIME_MATERIALIZE": _INSTANT,
    "LOCALTIMESTAMP": temporal.current(TypeRoot.TIMESTAMP),
    "LOCAL_OF_INSTANT": zones.local_of_instant,
    "INSTANT_OF_LOCAL": zones.instant_of_local,
    "CLOCK_OF_INSTANT": zones.clock_of_instant,
    "CLOCK_OF_SECONDS": zones.clock_of_seconds,
    "INSTANT_OF_CLOCK": zones.instant_of_clock,
}
_COLLECTIONS: Mapping[str, Builder] = {
    "ARRAY": collections.array,
    "MAP": collections.map_of,
    "ROW": collections.row_of,
    "ITEM": collections.item,
    "CARDINALITY": collections.cardinality,
    "ARRAY_CONTAINS": collections.array_contains,
    "SPLIT": collections.split,
    "ARRAY_JOIN": collections.array_join,
}
_JSON: Mapping[str, Builder] = {
    "JSON_VALUE": json_functions.json_value,
    "JSON_QUERY": json_functions.json_query,
    "JSON_EXISTS": json_functions.json_exists,
    **dict.fromkeys(json_functions.IS_JSON, json_functions.is_json),
    "JSON_OBJECT": json_texts.json_object,
    "JSON_ARRAY": json_texts.json_array,
    "JSON_STRING": json_texts.json_string,
    "JSON": json_texts.json_of_text,
    "JSON_QUOTE": json_texts.json_quote,
    "JSON_UNQUOTE": json_texts.json_unquote,
}
BUILDERS: Mapping[str, Builder] = {
    **_CONDITIONS,
    **_NUMBERS,
    **_STRINGS,
    **_TIMES,
    **_JSON,
    **_COLLECTIONS,
}
"""By the planner's name, as in `FUNCTIONS`."""
