r"""CAST and TRY_CAST: from which type to which there is a conversion, and what it does.

    from \\ to     integer     FLOAT DOUBLE   DECIMAL       BOOLEAN     string     date and time
    integer       wraps       Java           NULL if over  <> 0        digits     -
    FLOAT DOUBLE  saturates*  Java           NULL if over  <> 0        Java       -
    DECIMAL       wraps       nearest        HALF_UP       <> 0        plain      -
    BOOLEAN       1, 0        1, 0           1, 0          same        TRUE       -
    string        parsed      parsed         parsed        parsed      length     parsed
    DATE          -           -              -             -           ISO        midnight
    TIMESTAMP     -           -              -             -           all digits digits cut
    TIME          -           -              -             -           digits**   TIME: cut

    * to TINYINT and SMALLINT through INT, whose low bits remain.
    ** those of the type, without zeros at the end but for the first: 12:00:00.0, 12:00:00.25.
A text that cannot be parsed ends the query for CAST and gives NULL for TRY_CAST; what is NULL
above is NULL for both. CHAR(n) is cut and padded with blanks, VARCHAR(n) cut.
Of arrays, maps and rows each part is cast, and TRY_CAST gives none of them where it cannot parse
one. They become texts such as [1, NULL], {a=1, b=NULL} and (1, a); keys of maps in their order.

Source: Flink's `casting` rules (2.3), checked by running it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.expressions.operand_rules import EXACT_ROOTS
from state.types import (
    BINARY_ROOTS,
    LENGTH_MAX,
    MAP_ROOTS,
    NUMBER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    format_type,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from operators.expressions.call_site import CallSite, Operand

_TO_NUMBER = STRING_ROOTS | NUMBER_ROOTS | {TypeRoot.BOOLEAN}
_TO_TEXT = _TO_NUMBER | BINARY_ROOTS | TIMESTAMP_ROOTS | {TypeRoot.DATE, TypeRoot.TIME}
_SOURCES: Mapping[TypeRoot, frozenset[TypeRoot]] = {
    **dict.fromkeys(STRING_ROOTS, _TO_TEXT),
    **dict.fromkeys(NUMBER_ROOTS, _TO_NUMBER),
    TypeRoot.BOOLEAN: STRING_ROOTS | NUMBER_ROOTS,
    TypeRoot.DATE: STRING_ROOTS | TIMESTAMP_ROOTS,
    TypeRoot.TIME: STRING_ROOTS | {TypeRoot.TIME},
    **dict.fromkeys(TIMESTAMP_ROOTS, STRING_ROOTS | TIMESTAMP_ROOTS | {TypeRoot.DATE}),
    **dict.fromkeys(BINARY_ROOTS, STRING_ROOTS | BINARY_ROOTS),
}
"""To each type, from which others (a type to itself, where nothing changes, needs no entry)."""
_TAKES_ANY_TEXT = STRING_ROOTS | BINARY_ROOTS


def check_conversion(site: CallSite[Operand], source: LogicalType, target: LogicalType) -> None:
    """Find out whether there is a conversion between types whose values differ.

    Raises:
        UnsupportedExpression: There is none.
    """
    if not _is_converted(source, target):
        site.refuse(f"no conversion from {format_type(source)} to {format_type(target)}")


def _is_converted(source: LogicalType, target: LogicalType) -> bool:
    if source.root is target.root and source.children:
        pairs = list(zip(source.children, target.children, strict=False))
        # A key that is cut or rounded may be equal to another one then.
        keeps_keys = source.root not in MAP_ROOTS or pairs[0][0].root in EXACT_ROOTS
        return (
            len(source.children) == len(target.children)
            and keeps_keys
            and all(_is_child_converted(*pair) for pair in pairs)
        )
    if target.root in STRING_ROOTS and source.children:
        is_in_order = source.root not in MAP_ROOTS or source.children[0].root in EXACT_ROOTS
        return is_in_order and all(_is_shown(child, target) for child in source.children)
    return source.root in _SOURCES.get(target.root, ())


def _is_child_converted(source: LogicalType, target: LogicalType) -> bool:
    # Flink fails at a NULL that becomes an element which is NOT NULL.
    fits = target.nullable or not source.nullable
    return fits and (
        source.with_nullable(True) == target.with_nullable(True) or _is_converted(source, target)
    )


def _is_shown(inner: LogicalType, target: LogicalType) -> bool:
    """Whether it can stand in the text of an array, a map or a row."""
    return inner.root not in BINARY_ROOTS and _is_converted(inner, target)


def failure_of(source: LogicalType, target: LogicalType, *, trying: bool) -> str | None:
    """What CAST says of a text that is none of the type; None where NULL is the answer."""
    if trying or source.root not in STRING_ROOTS or target.root in _TAKES_ANY_TEXT:
        return None
    return f"a text is no {format_type(target.with_nullable(True))}"


def keeps_form(source: LogicalType, target: LogicalType) -> bool:
    """Whether both are texts, or both bytes: functions take them whatever their length."""
    return any({source.root, target.root} <= roots for roots in (STRING_ROOTS, BINARY_ROOTS))


def fits_length(source: LogicalType, target: LogicalType) -> bool:
    """Whether a text needs no cut for VARCHAR: nothing longer can come, or all of it is kept."""
    known = source.length if source.root in STRING_ROOTS else None
    length = target.length or 0
    return length >= LENGTH_MAX or (known is not None and known <= length)
