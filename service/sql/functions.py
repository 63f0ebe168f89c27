"""The functions that SQL may call, by name, and the types of what they give.

A function that is not here is refused by its name. Aggregate functions are a table of their own.

Source: Flink `FlinkSqlOperatorTable` and `BuiltInFunctionDefinitions` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from service.sql import collection_functions as of
from service.sql import types
from state.types import LENGTH_MAX, STRING_ROOTS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.sql.collection_functions import Taken
    from service.sql.terms import WindowKind


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of values."""

    name: str
    arguments_min: int
    arguments_max: int
    result: Callable[[Sequence[LogicalType]], LogicalType]
    syntax: str = "FUNCTION"
    taken: Taken | None = None
    """The types that its arguments are brought to; None: they stay as they are."""


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A function of the rows of a group or window."""

    name: str
    arguments: tuple[int, int]
    kind: Literal[
        "count", "argument", "sum", "average", "deviation", "string", "rank", "collection", "json"
    ]
    syntax: str = "FUNCTION"


def _as(logical: LogicalType) -> Callable[[Sequence[LogicalType]], LogicalType]:
    """This type, NULL if an argument is."""
    return lambda arguments: logical.with_nullable(types.any_nullable(arguments))


def _always(logical: LogicalType) -> Callable[[Sequence[LogicalType]], LogicalType]:
    """This type, whatever the arguments are."""
    return lambda _: logical


def _first(arguments: Sequence[LogicalType]) -> LogicalType:
    """The first argument's type, NULL if any argument is."""
    return types.regular(arguments[0]).with_nullable(types.any_nullable(arguments))


def _varying(arguments: Sequence[LogicalType]) -> LogicalType:
    """VARCHAR of the first argument's length."""
    length = arguments[0].length if arguments[0].root in STRING_ROOTS else types.STRING.length
    made = LogicalType(TypeRoot.VARCHAR, length=length)
    return made.with_nullable(types.any_nullable(arguments))


def _chosen(arguments: Sequence[LogicalType]) -> LogicalType:
    """What holds all arguments behind the first, of a varying length; NULL if there is no such."""
    found = types.common_type(list(arguments[1:])) or arguments[1]
    if found.root is TypeRoot.CHAR:
        found = LogicalType(TypeRoot.VARCHAR, length=found.length)
    elif found.root is TypeRoot.BINARY:
        found = LogicalType(TypeRoot.VARBINARY, length=found.length)
    return found.with_nullable(True)


def _split(arguments: Sequence[LogicalType]) -> LogicalType:
    """Texts, none of which is NULL, though the type does not say so."""
    nullable = types.any_nullable(arguments)
    return LogicalType(TypeRoot.ARRAY, nullable=nullable, children=(types.STRING,))


def _is_found(arguments: Sequence[LogicalType]) -> LogicalType:
    """BOOLEAN, NULL only if the first argument is."""
    return types.BOOLEAN.with_nullable(arguments[0].nullable)


def _overlaid(arguments: Sequence[LogicalType]) -> LogicalType:
    """VARCHAR of both texts' lengths."""
    lengths = [each.length or 0 for each in arguments[:2] if each.root in STRING_ROOTS]
    length = min(sum(lengths), LENGTH_MAX)
    made = LogicalType(TypeRoot.VARCHAR, length=length)
    return made.with_nullable(types.any_nullable(arguments))


def _remainder(arguments: Sequence[LogicalType]) -> LogicalType:
    return types.remainder_type(arguments[0], arguments[1])


def _common(arguments: Sequence[LogicalType]) -> LogicalType:
    found = types.common_type(list(arguments)) or arguments[0]
    return found.with_nullable(types.any_nullable(arguments))


def _shared(arguments: Sequence[LogicalType]) -> LogicalType:
    """What holds all arguments, arrays and maps with NULL in one of them, too; else the first."""
    found = types.common_type(list(arguments))
    if found is None:
        alike = of.arrays_alike(arguments) or of.maps_alike(arguments) or arguments
        found = alike[0]
    return found


def _coalesce(arguments: Sequence[LogicalType]) -> LogicalType:
    """NULL only if every argument may be."""
    found = _shared(arguments)
    return found.with_nullable(all(each.nullable for each in arguments))


def _if(arguments: Sequence[LogicalType]) -> LogicalType:
    found = types.common_type(list(arguments[1:])) or arguments[1]
    return found.with_nullable(types.any_nullable(arguments))


def _nullable_first(arguments: Sequence[LogicalType]) -> LogicalType:
    return types.regular(arguments[0]).with_nullable(True)


def _floor(arguments: Sequence[LogicalType]) -> LogicalType:
    given = arguments[0]
    if given.root is TypeRoot.DECIMAL:
        return types.decimal(given.precision or 0, 0).with_nullable(given.nullable)
    return _first(arguments)


def _timestamp(precision: int, root: TypeRoot) -> LogicalType:
    return LogicalType(root, precision=precision)


def _of_arrays() -> list[ScalarFunction]:
    same, one, two = of.arrays_alike, of.array_and(), of.array_and_element
    bounds, orders = of.array_and(_INT, _INT), of.array_and(types.BOOLEAN, types.BOOLEAN)
    return [
        ScalarFunction("ELEMENT", 1, 1, of.element, taken=one),
        ScalarFunction("ARRAY_CONTAINS", 2, 2, _is_found, taken=two),
        ScalarFunction("ARRAY_POSITION", 2, 2, _as(_INT), taken=two),
        ScalarFunction("ARRAY_REMOVE", 2, 2, of.itself, taken=two),
        ScalarFunction("ARRAY_APPEND", 2, 2, of.with_element, taken=two),
        ScalarFunction("ARRAY_PREPEND", 2, 2, of.with_element, taken=two),
        ScalarFunction("ARRAY_DISTINCT", 1, 1, _first, taken=one),
        ScalarFunction("ARRAY_REVERSE", 1, 1, _first, taken=one),
        ScalarFunction("ARRAY_SLICE", 2, 3, _first, taken=bounds),
        ScalarFunction("ARRAY_SORT", 1, 3, _first, taken=orders),
        ScalarFunction("ARRAY_MAX", 1, 1, of.element, taken=one),
        ScalarFunction("ARRAY_MIN", 1, 1, of.element, taken=one),
        ScalarFunction("ARRAY_CONCAT", 1, _MANY, of.alike, taken=same),
        ScalarFunction("ARRAY_UNION", 2, 2, of.alike, taken=same),
        ScalarFunction("ARRAY_INTERSECT", 2, 2, of.alike, taken=same),
        ScalarFunction("ARRAY_EXCEPT", 2, 2, of.alike, taken=same),
    ]


def _of_maps() -> list[ScalarFunction]:
    return [
        ScalarFunction("MAP_KEYS", 1, 1, of.of_keys, taken=of.one_map),
        ScalarFunction("MAP_VALUES", 1, 1, of.of_values, taken=of.one_map),
        ScalarFunction("MAP_ENTRIES", 1, 1, of.of_entries, taken=of.one_map),
        ScalarFunction("MAP_FROM_ARRAYS", 2, 2, of.map_of_arrays, taken=of.arrays),
        ScalarFunction("MAP_UNION", 1, _MANY, of.alike, taken=of.maps_alike),
    ]


_STRING, _INT, _BIGINT = types.STRING, types.INT, types.BIGINT
_NOW = LogicalType(TypeRoot.TIMESTAMP_LTZ, nullable=False, precision=3)
_BYTES = LogicalType(TypeRoot.VARBINARY, length=LENGTH_MAX)
_STRINGS = LogicalType(TypeRoot.ARRAY, children=(_STRING,))
_TEXT_MAP = LogicalType(TypeRoot.MAP, children=(_STRING, _STRING))
_CERTAIN = types.BOOLEAN.with_nullable(False)
_MANY = 255
_SCALARS = [
    *(
        ScalarFunction(name, 1, 1, _varying)
        for name in (
            "UPPER", "LOWER", "INITCAP",
        )
    ),
    *(
        ScalarFunction(name, 1, 1, _as(_STRING))
        for name in (
            "REVERSE", "TO_BASE64", "FROM_BASE64",
            "HEX", "CHR", "BIN", "JSON", "JSON_STRING", "JSON_QUOTE",
            "JSON_UNQUOTE",
        )
    ),
    *(
        ScalarFunction(name, 1, 1, _as(_INT))
        for name in (
            "CHAR_LENGTH", "CHARACTER_LENGTH", "ASCII",
        )
    ),
    *(
        ScalarFunction(name, 1, 1, _as(types.DOUBLE))
        for name in (
            "SQRT", "EXP", "LN", "LOG10", "LOG2", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN",
            "DEGREES", "RADIANS", "SINH", "COSH", "TANH", "COT",
        )
    ),
    *(
        ScalarFunction(name, 1, _MANY, _common)
        for name in (
            "GREATEST", "LEAST",
        )
    ),
    *(
        ScalarFunction(name, 2, 2, _as(types.BOOLEAN))
        for name in (
            "REGEXP", "STARTSWITH", "ENDSWITH",
        )
    ),
    *(
        ScalarFunction(name, 1, 1, _as(LogicalType(TypeRoot.CHAR, length=length)))
        for name, length in (
            ("MD5", 32), ("SHA1", 40), ("SHA224", 56), ("SHA256", 64), ("SHA384", 96),
            ("SHA512", 128),
        )
    ),
    *(
        ScalarFunction(name, 0, 0, _always(_NOW))
        for name in (
            "NOW", "CURRENT_ROW_TIMESTAMP",
        )
    ),
    *(
        ScalarFunction(name, 0, 0, _always(types.DOUBLE.with_nullable(False)))
        for name in (
            "PI", "E",
        )
    ),
    ScalarFunction("SHA2", 2, 2, _as(LogicalType(TypeRoot.VARCHAR, length=128))),
    ScalarFunction("TRANSLATE3", 3, 3, _as(_STRING)),
    ScalarFunction("OVERLAY", 3, 4, _overlaid),
    ScalarFunction("SPLIT", 2, 2, _split),
    ScalarFunction("ARRAY_JOIN", 2, 3, _as(_STRING)),
    ScalarFunction("ELT", 2, _MANY, _chosen),
    ScalarFunction("REGEXP_COUNT", 2, 2, _always(_INT)),
    ScalarFunction("REGEXP_SUBSTR", 2, 2, _always(_STRING)),
    ScalarFunction("REGEXP_INSTR", 2, 2, _always(_INT)),
    ScalarFunction("REGEXP_EXTRACT_ALL", 2, 3, _always(_STRINGS)),
    ScalarFunction("STR_TO_MAP", 1, 3, _always(_TEXT_MAP)),
    ScalarFunction("ENCODE", 2, 2, _as(_BYTES)),
    ScalarFunction("DECODE", 2, 2, _as(_STRING)),
    ScalarFunction("UNHEX", 1, 1, _always(_BYTES)),
    ScalarFunction("INET_ATON", 1, 1, _always(_BIGINT)),
    ScalarFunction("INET_NTOA", 1, 1, _always(_STRING)),
    *(
        ScalarFunction(name, 1, 1, _always(_CERTAIN))
        for name in (
            "IS_ALPHA", "IS_DIGIT", "IS_DECIMAL",
        )
    ),
    ScalarFunction("TYPEOF", 1, 2, _always(_STRING)),
    ScalarFunction("LTRIM", 1, 2, _varying),
    ScalarFunction("RTRIM", 1, 2, _varying),
    ScalarFunction("BTRIM", 1, 2, _varying),
    ScalarFunction("PARSE_URL", 2, 3, _always(_STRING)),
    ScalarFunction("URL_ENCODE", 1, 1, _always(_STRING)),
    ScalarFunction("URL_DECODE", 1, 1, _always(_STRING)),
    ScalarFunction("POSITION", 2, 2, _as(_INT)),
    ScalarFunction("ATAN2", 2, 2, _as(types.DOUBLE)),
    ScalarFunction("LOG", 1, 2, _as(types.DOUBLE)),
    ScalarFunction("CONCAT", 1, _MANY, _as(_STRING)),
    ScalarFunction("CONCAT_WS", 2, _MANY, _as(_STRING)),
    ScalarFunction("SUBSTRING", 2, 3, _as(_STRING)),
    ScalarFunction("SUBSTR", 2, 3, _as(_STRING)),
    ScalarFunction("REPLACE", 3, 3, _as(_STRING)),
    ScalarFunction("LPAD", 3, 3, _as(_STRING)),
    ScalarFunction("RPAD", 3, 3, _as(_STRING)),
    ScalarFunction("LEFT", 2, 2, _as(_STRING)),
    ScalarFunction("RIGHT", 2, 2, _as(_STRING)),
    ScalarFunction("REPEAT", 2, 2, _as(_STRING)),
    ScalarFunction("REGEXP_REPLACE", 3, 3, _always(_STRING)),
    ScalarFunction("REGEXP_EXTRACT", 2, 3, _always(_STRING)),
    ScalarFunction("SPLIT_INDEX", 3, 3, _always(_STRING)),
    ScalarFunction("DATE_FORMAT", 2, 2, _as(_STRING)),
    ScalarFunction("FROM_UNIXTIME", 1, 2, _as(_STRING)),
    ScalarFunction("CONVERT_TZ", 3, 3, _always(_STRING)),
    ScalarFunction("UNIX_TIMESTAMP", 0, 2, _as(_BIGINT)),
    ScalarFunction("TO_TIMESTAMP", 1, 3, _always(_timestamp(3, TypeRoot.TIMESTAMP))),
    ScalarFunction("TO_TIMESTAMP_LTZ", 1, 3, _always(_timestamp(3, TypeRoot.TIMESTAMP_LTZ))),
    ScalarFunction("TO_DATE", 1, 2, _always(types.DATE)),
    ScalarFunction("INSTR", 2, 4, _as(_INT)),
    ScalarFunction("LOCATE", 2, 3, _as(_INT)),
    ScalarFunction("ABS", 1, 1, _first),
    ScalarFunction("SIGN", 1, 1, _first),
    ScalarFunction("FLOOR", 1, 1, _floor),
    ScalarFunction("CEIL", 1, 1, _floor),
    ScalarFunction("ROUND", 1, 2, _first),
    ScalarFunction("TRUNCATE", 1, 2, _first),
    ScalarFunction("MOD", 2, 2, _remainder),
    ScalarFunction("POWER", 2, 2, _as(types.DOUBLE)),
    ScalarFunction("HASH_CODE", 1, 1, _as(_INT)),
    ScalarFunction("COALESCE", 1, _MANY, _coalesce),
    ScalarFunction("IFNULL", 2, 2, _coalesce),
    ScalarFunction("NULLIF", 2, 2, _nullable_first),
    ScalarFunction("IF", 3, 3, _if),
    ScalarFunction("PROCTIME", 0, 0, _always(types.PROCTIME)),
    ScalarFunction("CARDINALITY", 1, 1, _as(_INT)),
    ScalarFunction("CURRENT_WATERMARK", 1, 1, _nullable_first),
    *_of_arrays(),
    *_of_maps(),
]  # fmt: skip  # a list of names, several a line
EXTRACTED = {
    **{name: name for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "HOUR", "MINUTE", "SECOND")},
    "DAYOFYEAR": "DOY",
    "DAYOFMONTH": "DAY",
    "DAYOFWEEK": "DOW",
}
"""Functions that are EXTRACT of a unit of time."""
SCALAR_FUNCTIONS = {function.name: function for function in _SCALARS}
_AGGREGATES = [
    AggregateFunction("COUNT", (0, 1), "count", "FUNCTION_STAR"),
    AggregateFunction("SUM", (1, 1), "sum"),
    AggregateFunction("$SUM0", (1, 1), "sum"),
    AggregateFunction("AVG", (1, 1), "average"),
    AggregateFunction("MIN", (1, 1), "argument"),
    AggregateFunction("MAX", (1, 1), "argument"),
    AggregateFunction("FIRST_VALUE", (1, 1), "argument"),
    AggregateFunction("LAST_VALUE", (1, 1), "argument"),
    AggregateFunction("SINGLE_VALUE", (1, 1), "argument"),
    AggregateFunction("LISTAGG", (1, 2), "string"),
    AggregateFunction("ARRAY_AGG", (1, 1), "collection"),
    AggregateFunction("COLLECT", (1, 1), "collection"),
    # Beyond Flink.
    *(AggregateFunction(name, (1, 1), "argument") for name in ("BIT_AND", "BIT_OR", "BIT_XOR")),
    *(AggregateFunction(name, (1, 1), "argument") for name in ("BOOL_AND", "BOOL_OR")),
    *(
        AggregateFunction(name, (1, 1), "deviation")
        for name in ("STDDEV_POP", "STDDEV_SAMP", "STDDEV", "VAR_POP", "VAR_SAMP", "VARIANCE")
    ),
    *(
        AggregateFunction(f"{name}_{nulls}_ON_NULL", (count, count), "json")
        for name, count in (("JSON_OBJECTAGG", 2), ("JSON_ARRAYAGG", 1))
        for nulls in ("NULL", "ABSENT")
    ),
]
AGGREGATE_FUNCTIONS = {function.name: function for function in _AGGREGATES}
OF_NUMBERS = frozenset({"sum", "average", "deviation"})
"""Kinds of aggregate functions that take numbers only."""
SYNONYMS = {"STDDEV": "STDDEV_SAMP", "VARIANCE": "VAR_SAMP"}
SQUARES = "$WELFORD_M2$1"
"""The sum of squared distances from the mean, of which deviations and variances are computed."""
RANK_FUNCTIONS = ("ROW_NUMBER", "RANK", "DENSE_RANK")
WINDOW_TABLE_FUNCTIONS: tuple[WindowKind, ...] = ("TUMBLE", "HOP", "CUMULATE", "SESSION")


def aggregate_type(
    name: str, arguments: Sequence[LogicalType], *, may_be_empty: bool
) -> LogicalType:
    """The type of an aggregate; NULL where a group or window may have no row to take."""
    function = AGGREGATE_FUNCTIONS[name]
    if function.kind == "count":
        return types.BIGINT.with_nullable(False)
    given = types.regular(arguments[0])
    if function.kind == "string":
        return given
    if function.kind == "json":
        return LogicalType(TypeRoot.VARCHAR, nullable=False, length=2_000)
    if name == "ARRAY_AGG":
        nullable = given.nullable or may_be_empty
        return LogicalType(TypeRoot.ARRAY, nullable=nullable, children=(given,))
    if name == "COLLECT":
        return LogicalType(TypeRoot.MULTISET, nullable=False, children=(given,))
    if name == "$SUM0":
        return _sum_type(given).with_nullable(False)
    if name in ("FIRST_VALUE", "LAST_VALUE", "SINGLE_VALUE"):
        return given.with_nullable(True)
    nullable = given.nullable or may_be_empty
    made = given
    if function.kind == "sum":
        made = _sum_type(given)
    elif function.kind in ("average", "deviation") and given.root is TypeRoot.DECIMAL:
        made = types.decimal(38, max(6, given.scale or 0))
    return made.with_nullable(nullable)


def _sum_type(given: LogicalType) -> LogicalType:
    return types.decimal(38, given.scale or 0) if given.root is TypeRoot.DECIMAL else given
