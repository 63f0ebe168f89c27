"""Types that computing treats alike, and which of them are compared with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.types import (
    BINARY_ROOTS,
    LENGTH_MAX,
    NUMBER_ROOTS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
)

if TYPE_CHECKING:
    from operators.expressions.call_site import CallSite, Operand

STRING = LogicalType(TypeRoot.VARCHAR, length=LENGTH_MAX)
DOUBLE = LogicalType(TypeRoot.DOUBLE)
_COMPARED = (
    NUMBER_ROOTS,
    STRING_ROOTS,
    BINARY_ROOTS,
    TIMESTAMP_ROOTS,
    frozenset({TypeRoot.BOOLEAN}),
    frozenset({TypeRoot.DATE}),
    frozenset({TypeRoot.TIME}),
    frozenset({TypeRoot.INTERVAL_DAY_TIME}),
    frozenset({TypeRoot.INTERVAL_YEAR_MONTH}),
)
"""What is compared with what; NULL with anything."""


def check_comparable(site: CallSite[Operand], left: Operand, right: Operand) -> None:
    """Find out whether values of both types, of which none is NULL's, are compared.

    Raises:
        UnsupportedExpression: They are not.
    """
    roots = {left.type.root, right.type.root}
    if not any(roots <= family for family in _COMPARED):
        site.refuse(f"operands of types {site.types()} are not compared")


def is_instant(operand: Operand) -> bool:
    """Whether it is a timestamp, of either kind."""
    return operand.type.root in TIMESTAMP_ROOTS


def is_date(operand: Operand) -> bool:
    """Whether it is a DATE."""
    return operand.type.root is TypeRoot.DATE


def check_times(site: CallSite[Operand]) -> None:
    """Find out whether all operands are dates or timestamps.

    Raises:
        UnsupportedExpression: They are not.
    """
    if not all(is_date(operand) or is_instant(operand) for operand in site.operands):
        site.refuse_types()


def is_ordered(site: CallSite[Operand]) -> bool:
    """Whether all operands are of the result's kind, apart from NULL and lengths."""
    roots = {operand.type.root for operand in site.operands} - {TypeRoot.NULL}
    if site.type.root in STRING_ROOTS:
        return roots <= STRING_ROOTS
    return not roots & STRING_ROOTS
