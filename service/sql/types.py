"""The types that SQL expressions have.

Source: Flink `FlinkTypeFactory`, `FlinkTypeSystem` and `LogicalTypeMerging` (2.3), Calcite
`ReturnTypes`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from state.types import (
    BINARY_ROOTS,
    DECIMAL_PRECISION_MAX,
    FLOAT_ROOTS,
    INTEGER_BITS,
    LENGTH_MAX,
    NUMBER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = (
    "ARRAY", "BIGINT", "BINARY", "BOOLEAN", "BYTES", "CHAR", "DATE", "DECIMAL", "DOUBLE", "FLOAT",
    "INT", "INTERVAL", "MAP", "MULTISET", "ROW", "SMALLINT", "STRING", "TIME", "TIMESTAMP",
    "TIMESTAMP_LTZ", "TINYINT", "VARBINARY", "VARCHAR",
)  # fmt: skip  # a list of names, several a line
"""For hints about types that are not."""
BOOLEAN = LogicalType(TypeRoot.BOOLEAN)
INT = LogicalType(TypeRoot.INTEGER)
BIGINT = LogicalType(TypeRoot.BIGINT)
DOUBLE = LogicalType(TypeRoot.DOUBLE)
DATE = LogicalType(TypeRoot.DATE)
TIME = LogicalType(TypeRoot.TIME, precision=0)
STRING = LogicalType(TypeRoot.VARCHAR, length=LENGTH_MAX)
PROCTIME = LogicalType(
    TypeRoot.TIMESTAMP_LTZ, nullable=False, precision=3, time_attribute="PROCTIME"
)
_DECIMAL_DIGITS = {
    TypeRoot.TINYINT: 3,
    TypeRoot.SMALLINT: 5,
    TypeRoot.INTEGER: 10,
    TypeRoot.BIGINT: 19,
}
_SCALE_KEPT = 6
"""Digits after the point that a product or quotient keeps when it has too many digits."""


def decimal(precision: int, scale: int) -> LogicalType:
    """DECIMAL within Flink's 38 digits: digits after the point are given up first, down to 6."""
    if precision > DECIMAL_PRECISION_MAX:
        whole = precision - scale
        scale = max(DECIMAL_PRECISION_MAX - whole, min(scale, _SCALE_KEPT))
        precision = DECIMAL_PRECISION_MAX
    return LogicalType(TypeRoot.DECIMAL, precision=precision, scale=scale)


def character(length: int) -> LogicalType:
    """CHAR of a text literal."""
    return LogicalType(TypeRoot.CHAR, nullable=False, length=length)


def regular(logical: LogicalType) -> LogicalType:
    """The type without its time attribute."""
    if logical.time_attribute is None:
        return logical
    return LogicalType(logical.root, logical.nullable, precision=logical.precision)


def rowtime_type(logical: LogicalType) -> LogicalType:
    """The type of a table's event time column, as a schema shows it."""
    return replace(logical, time_attribute="ROWTIME")


def any_nullable(types: Sequence[LogicalType]) -> bool:
    """Whether NULL may be among values of these types."""
    return any(each.nullable for each in types)


def common_type(types: Sequence[LogicalType]) -> LogicalType | None:
    """The narrowest type that holds the values of all; None if there is none."""
    known = [each for each in types if each.root is not TypeRoot.NULL]
    if not known:
        return types[0]
    merged = known[0]
    for each in known[1:]:
        pair = _common_pair(merged, each)
        if pair is None:
            return None
        merged = pair
    return merged.with_nullable(any_nullable(types))


def _common_pair(left: LogicalType, right: LogicalType) -> LogicalType | None:
    if regular(left).with_nullable(True) == regular(right).with_nullable(True):
        return left if left.time_attribute == right.time_attribute else regular(left)
    roots = {left.root, right.root}
    if roots <= NUMBER_ROOTS:
        return _common_number(left, right)
    if roots <= STRING_ROOTS:
        return LogicalType(TypeRoot.VARCHAR, length=max(left.length or 0, right.length or 0))
    if roots <= BINARY_ROOTS:
        return LogicalType(TypeRoot.VARBINARY, length=max(left.length or 0, right.length or 0))
    if roots <= TIMESTAMP_ROOTS:
        root = left.root if left.root is right.root else TypeRoot.TIMESTAMP_LTZ
        return LogicalType(root, precision=max(left.precision or 0, right.precision or 0))
    return None


def _common_number(left: LogicalType, right: LogicalType) -> LogicalType:
    roots = {left.root, right.root}
    if roots & FLOAT_ROOTS:
        # Flink gives FLOAT and DOUBLE one precision, so the first of two stays.
        approximate = left.root if left.root in FLOAT_ROOTS else right.root
        return DOUBLE if TypeRoot.DECIMAL in roots else LogicalType(approximate)
    if TypeRoot.DECIMAL not in roots:
        widest = max(roots, key=lambda root: INTEGER_BITS[root])
        return LogicalType(widest)
    (left_whole, left_scale), (right_whole, right_scale) = _digits(left), _digits(right)
    whole, scale = max(left_whole, right_whole), max(left_scale, right_scale)
    # Where they are not enough, digits after the point are given up, down to none.
    scale = min(scale, DECIMAL_PRECISION_MAX - whole)
    return decimal(whole + scale, scale)


def is_held(left: LogicalType, right: LogicalType) -> bool:
    """Whether a DECIMAL holds all values of both types, whole or decimal numbers."""
    (left_whole, left_scale), (right_whole, right_scale) = _digits(left), _digits(right)
    return max(left_whole, right_whole) + max(left_scale, right_scale) <= DECIMAL_PRECISION_MAX


def _digits(number: LogicalType) -> tuple[int, int]:
    """Digits before and after the point."""
    if number.root is TypeRoot.DECIMAL:
        precision, scale = number.precision or 0, number.scale or 0
        return precision - scale, scale
    return _DECIMAL_DIGITS[number.root], 0


def arithmetic_type(operator: str, left: LogicalType, right: LogicalType) -> LogicalType | None:
    """The type of `left operator right` for numbers; None if one is no number."""
    roots = {left.root, right.root}
    if not roots <= NUMBER_ROOTS:
        return None
    nullable = left.nullable or right.nullable
    if TypeRoot.DECIMAL not in roots or roots & FLOAT_ROOTS:
        return _common_number(left, right).with_nullable(nullable)
    (left_whole, left_scale), (right_whole, right_scale) = _digits(left), _digits(right)
    match operator:
        case "*":
            scale = left_scale + right_scale
            precision = left_whole + left_scale + right_whole + right_scale + 1
        case "/":
            scale = max(_SCALE_KEPT, left_scale + right_whole + right_scale + 1)
            precision = left_whole + right_scale + scale
        case "%":
            scale = max(left_scale, right_scale)
            precision = min(left_whole, right_whole) + scale
        case _:
            scale = max(left_scale, right_scale)
            precision = max(left_whole, right_whole) + scale + 1
    return decimal(precision, scale).with_nullable(nullable)


def remainder_type(left: LogicalType, right: LogicalType) -> LogicalType:
    """The type of `left % right` for numbers: of whole numbers, that of the divisor."""
    nullable = left.nullable or right.nullable
    made = arithmetic_type("%", left, right)
    if made is not None and made.root is TypeRoot.DECIMAL:
        return made
    return right.with_nullable(nullable)


def counted_instant(given: LogicalType, digits: int | None) -> LogicalType:
    """The type of an instant that is counted in units of so many digits of a second.

    Flink counts seconds and milliseconds, and has three digits for both; columns here hold six.
    """
    return given if digits is None or digits <= 3 else replace(given, precision=6)


def rounded_decimal(given: LogicalType, digits: int | None) -> LogicalType:
    """The type of a DECIMAL that is rounded to so many digits; None: not known before a row is.

    Source: Flink `LogicalTypeMerging.findRoundDecimalType`.
    """
    precision, scale = given.precision or 0, given.scale or 0
    if digits is None or digits >= scale:
        return given
    kept = max(digits, 0)
    whole = precision - scale + 1
    return decimal(min(whole + kept, DECIMAL_PRECISION_MAX), kept).with_nullable(given.nullable)


def can_store(source: LogicalType, target: LogicalType) -> bool:
    """Whether a value of a query's column is written into a sink's column as it is.

    Source: Flink `LogicalTypeCasts.supportsAvoidingCast`.
    """
    source, target = regular(source), regular(target)
    if source.root is TypeRoot.NULL or source.with_nullable(True) == target.with_nullable(True):
        return True
    for family in (STRING_ROOTS, BINARY_ROOTS):
        if {source.root, target.root} <= family:
            fits = (source.length or 0) <= (target.length or 0)
            return fits and (source.root is target.root or target.root not in _FIXED)
    if source.root is target.root and source.children:
        pairs = zip(source.children, target.children, strict=False)
        same_width = len(source.children) == len(target.children)
        return same_width and all(can_store(*pair) for pair in pairs)
    return False


_FIXED = (TypeRoot.CHAR, TypeRoot.BINARY)


def can_cast_implicitly(source: LogicalType, target: LogicalType) -> bool:
    """Whether a sink's column takes a query's column after a cast that nobody wrote.

    Source: Flink `LogicalTypeCasts.supportsImplicitCast`.
    """
    if can_store(source, target) or source.root is TypeRoot.NULL:
        return True
    if source.root in STRING_ROOTS and target.root in STRING_ROOTS:
        return True
    if source.root in BINARY_ROOTS and target.root in BINARY_ROOTS:
        return True
    if source.root in NUMBER_ROOTS and target.root in NUMBER_ROOTS:
        return _RANK.index(source.root) <= _RANK.index(target.root)
    if source.root in _TIMES and target.root in _TIMES:
        return source.root is not TypeRoot.DATE or target.root is not TypeRoot.TIME
    return source.root is target.root and not source.children


_TIMES = frozenset(
    {TypeRoot.DATE, TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ, TypeRoot.TIMESTAMP_TZ}
)
_RANK = [
    TypeRoot.TINYINT,
    TypeRoot.SMALLINT,
    TypeRoot.INTEGER,
    TypeRoot.BIGINT,
    TypeRoot.DECIMAL,
    TypeRoot.FLOAT,
    TypeRoot.DOUBLE,
]


def is_known(logical: LogicalType) -> bool:
    """Whether a type, and all in it, is one of Flink's."""
    return logical.root is not TypeRoot.UNRESOLVED and all(map(is_known, logical.children))
