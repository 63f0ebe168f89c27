"""How each function of `operators.expressions.functions` becomes a Spark column."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.connect import functions as sf

from operators.expressions.operand_rules import DIGEST_BITS, described_type
from service.runtime.expressions import (
    arrays,
    casts,
    collections,
    comparison,
    conditionals,
    formats,
    hashes,
    in_python,
    maps,
    numbers,
    patterns,
    strings,
    temporal,
    zones,
)
from service.runtime.expressions.site import Column, Site, Value
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

Builder = Callable[[Site], Column | Value]
"""A column that `lower` casts to the declared type, or a value that has it."""


def _unix_timestamp(site: Site) -> Column:
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
    "FLOOR": temporal.floor,
    "CEIL": temporal.ceil,
    "CEILING": temporal.ceil,
    "ROUND": numbers.round_half_up,
    "TRUNCATE": numbers.truncate,
    "POWER": numbers.power,
    "LOG": numbers.log,
    "ATAN2": numbers.atan2,
    "EXP": numbers.of_double(sf.exp),
    "SINH": numbers.of_double(sf.sinh),
    "COSH": numbers.of_double(sf.cosh),
    "TANH": numbers.of_double(sf.tanh),
    "SIN": numbers.of_double(sf.sin),
    "COS": numbers.of_double(sf.cos),
    "TAN": numbers.of_double(sf.tan),
    "ASIN": numbers.of_double(sf.asin),
    "ACOS": numbers.of_double(sf.acos),
    "ATAN": numbers.of_double(sf.atan),
    "COT": numbers.cotangent,
    "DEGREES": numbers.of_double(sf.degrees),
    "RADIANS": numbers.of_double(sf.radians),
    "LN": numbers.logarithm(sf.ln),
    "LOG10": numbers.logarithm(sf.log10),
    "LOG2": numbers.log2,
    "SQRT": numbers.of_double(sf.sqrt),
    "PI": numbers.constant(math.pi),
    "E": numbers.constant(math.e),
    "BIN": numbers.binary_digits,
    "HEX": strings.hexadecimal,
}
_STRINGS: Mapping[str, Builder] = {
    "||": strings.concat,
    "CONCAT": strings.concat,
    "CONCAT_WS": strings.concat_ws,
    "UPPER": strings.in_case(sf.upper),
    "LOWER": strings.in_case(sf.lower),
    "INITCAP": strings.initcap,
    "TRIM": strings.trim,
    "LTRIM": strings.trimmed(sf.ltrim),
    "RTRIM": strings.trimmed(sf.rtrim),
    "BTRIM": strings.trimmed(sf.btrim),
    "SUBSTRING": strings.substring,
    "SUBSTR": strings.substring,
    "LEFT": strings.left,
    "RIGHT": strings.right,
    "POSITION": strings.position,
    "LOCATE": strings.position,
    "INSTR": strings.instr,
    "REPLACE": strings.replace_all,
    "OVERLAY": strings.overlay,
    "LPAD": strings.padded(sf.lpad),
    "RPAD": strings.padded(sf.rpad),
    "REPEAT": strings.repeat,
    "REVERSE": strings.of_text(sf.reverse),
    "CHAR_LENGTH": strings.of_text(sf.char_length),
    "CHARACTER_LENGTH": strings.of_text(sf.char_length),
    "TRANSLATE3": strings.translate,
    "SPLIT_INDEX": strings.split_index,
    "STARTSWITH": strings.starts_with,
    "ENDSWITH": strings.ends_with,
    "LIKE": patterns.like,
    "SIMILAR TO": patterns.similar,
    "REGEXP": patterns.regexp,
    "REGEXP_REPLACE": patterns.regexp_replace,
    "REGEXP_EXTRACT": patterns.regexp_extract,
    "REGEXP_COUNT": patterns.regexp_count,
    "REGEXP_EXTRACT_ALL": patterns.regexp_extract_all,
    "REGEXP_INSTR": patterns.regexp_instr,
    "TYPEOF": lambda site: sf.lit(described_type(site)),
    "REGEXP_SUBSTR": patterns.regexp_substr,
    "ASCII": strings.ascii_code,
    "CHR": strings.character,
    "HASH_CODE": hashes.hash_code,
    "MD5": strings.digest(sf.md5),
    "SHA1": strings.digest(sf.sha1),
    **{f"SHA{bits}": strings.digest(partial(sf.sha2, numBits=bits)) for bits in DIGEST_BITS},
    "SHA2": strings.sha2,
    "URL_ENCODE": strings.of_text(sf.url_encode),
    "URL_DECODE": strings.of_text(sf.try_url_decode),
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
    "CURRENT_TIME": temporal.current(TypeRoot.TIME),
    "LOCALTIME": temporal.current(TypeRoot.TIME),
    "LOCAL_OF_INSTANT": zones.local_of_instant,
    "INSTANT_OF_LOCAL": zones.instant_of_local,
    "CLOCK_OF_INSTANT": zones.clock_of_instant,
    "CLOCK_OF_SECONDS": zones.clock_of_seconds,
    "INSTANT_OF_CLOCK": zones.instant_of_clock,
}
_COLLECTIONS: Mapping[str, Builder] = {
    "ARRAY": collections.array,
    "MAP": maps.map_of,
    "ROW": collections.row_of,
    "ITEM": collections.item,
    "CARDINALITY": collections.cardinality,
    "ELEMENT": arrays.element,
    "ARRAY_CONTAINS": arrays.array_contains,
    "ARRAY_POSITION": arrays.position,
    "ARRAY_REMOVE": arrays.remove,
    "ARRAY_DISTINCT": arrays.distinct,
    "ARRAY_REVERSE": arrays.reverse,
    "ARRAY_SLICE": arrays.slice_of,
    "ARRAY_APPEND": arrays.added(is_first=False),
    "ARRAY_PREPEND": arrays.added(is_first=True),
    "ARRAY_CONCAT": arrays.concat,
    "ARRAY_UNION": arrays.union,
    "ARRAY_INTERSECT": arrays.intersect,
    "ARRAY_EXCEPT": arrays.except_of,
    "ARRAY_MAX": arrays.extreme(is_greatest=True),
    "ARRAY_MIN": arrays.extreme(is_greatest=False),
    "ARRAY_SORT": arrays.sort,
    "MAP_KEYS": maps.keys,
    "MAP_VALUES": maps.values,
    "MAP_ENTRIES": maps.entries,
    "MAP_FROM_ARRAYS": maps.from_arrays,
    "MAP_UNION": maps.union,
    "SPLIT": collections.split,
    "ARRAY_JOIN": collections.array_join,
}
_IN_PYTHON: Mapping[str, Builder] = dict.fromkeys(in_python.NAMES, in_python.not_alone)
BUILDERS: Mapping[str, Builder] = {
    **_CONDITIONS,
    **_NUMBERS,
    **_STRINGS,
    **_TIMES,
    **_IN_PYTHON,
    **_COLLECTIONS,
}
"""By the planner's name, as in `FUNCTIONS`."""
