"""INTERVAL as it is written: of one unit, or from one to another, with their digits.

INTERVAL '10' SECOND    INTERVAL '1 02:03' DAY TO MINUTE    INTERVAL -'1-2' YEAR TO MONTH
INTERVAL '100' DAY(3)   INTERVAL '0.5' SECOND(1, 1)
"""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlglot import exp

from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.literals import interval
from service.sql.rex import literal
from state.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    from service.plan.rex import Literal
    from service.sql.errors import Position

_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_MS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1_000}
_BEFORE = {"HOUR": " ", "MINUTE": ":", "SECOND": ":"}
_DIGITS = 2
_FRACTION = 6


def written_interval(node: exp.Interval, position: Position) -> Literal:
    """The constant that INTERVAL with its text and units stands for.

    Raises:
        ValidationError: The text is no such interval.
        UnsupportedSql: It is no constant.
    """
    amount, unit = node.this, node.args.get("unit")
    is_negative = isinstance(amount, exp.Neg)
    amount = amount.this if is_negative else amount
    if not isinstance(amount, exp.Literal) or unit is None:
        raise UnsupportedSql("an interval needs one amount and unit", position)
    if isinstance(unit, exp.IntervalSpan):
        made = _span(amount.name, _unit(unit.this), _unit(unit.expression), position)
    else:
        name, digits = _unit(unit)
        made = interval(amount.name, name, position)
        made = replace(made, type=_with_digits(made.type, digits))
    return literal(str(-int(str(made.value))), made.type) if is_negative else made


def _unit(node: exp.Expression) -> tuple[str, list[int]]:
    """A unit's name, and the numbers in brackets behind it."""
    digits = [int(each.name) for each in node.expressions if each.name.isdigit()]
    return node.name.upper().removesuffix("S"), digits


def _with_digits(logical: LogicalType, digits: list[int]) -> LogicalType:
    if not digits:
        return logical
    if logical.resolution == "SECOND":
        return replace(logical, scale=digits[1] if len(digits) > 1 else _FRACTION)
    return replace(logical, precision=digits[0])


def _span(
    text: str, first: tuple[str, list[int]], last: tuple[str, list[int]], position: Position
) -> Literal:
    """The interval of a text that has several units."""
    (begin, digits), (end, fraction) = first, last
    precision = digits[0] if digits else _DIGITS
    resolution = f"{begin} TO {end}"
    if (begin, end) == ("YEAR", "MONTH"):
        years, months = _numbers(r"(\d+)-(\d+)", text, resolution, position)
        kind = LogicalType(
            TypeRoot.INTERVAL_YEAR_MONTH, nullable=False, precision=precision, resolution=resolution
        )
        return literal(str(int(years * 12 + months)), kind)
    if begin not in _FIELDS or end not in _FIELDS[_FIELDS.index(begin) + 1 :]:
        raise ValidationError(f"there is no interval {resolution}", position)
    units = _FIELDS[_FIELDS.index(begin) : _FIELDS.index(end) + 1]
    pattern = r"(\d+)" + "".join(rf"{_BEFORE[unit]}(\d+)" for unit in units[1:])
    if end == "SECOND":
        pattern = pattern.removesuffix(r"(\d+)") + r"(\d+(?:\.\d+)?)"
    numbers = _numbers(pattern, text, resolution, position)
    kind = LogicalType(
        TypeRoot.INTERVAL_DAY_TIME,
        nullable=False,
        precision=precision,
        scale=fraction[0] if fraction else _FRACTION,
        resolution=resolution,
    )
    total = sum(number * _MS[unit] for number, unit in zip(numbers, units, strict=True))
    return literal(str(int(total)), kind)


def _numbers(pattern: str, text: str, resolution: str, position: Position) -> list[Decimal]:
    """The numbers of a text, all with its sign."""
    found = re.fullmatch(rf"\s*([+-]?)\s*{pattern}\s*", text, re.ASCII)
    if found is None:
        raise ValidationError(
            f"Illegal interval literal format '{text}' for INTERVAL {resolution}", position
        )
    sign = -1 if found[1] == "-" else 1
    return [sign * Decimal(each) for each in found.groups()[1:]]
