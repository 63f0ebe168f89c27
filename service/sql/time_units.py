"""TIMESTAMPDIFF and TIMESTAMPADD, written as Flink's planner writes them.

    TIMESTAMPDIFF(HOUR, a, b)    CAST(REINTERPRET(b - a) /INT 3600000 AS INT)
    TIMESTAMPDIFF(MONTH, a, b)   CAST(REINTERPRET(b - a) AS INT)
    TIMESTAMPADD(HOUR, 2, a)     a + INTERVAL '2' HOUR

A week is 604,800 seconds, a quarter three months, and milliseconds are whole seconds, as in Flink.

Source: Calcite `StandardConvertletTable.TimestampDiffConvertlet`, and plans that Flink 2.3 wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import Literal, Rex
from service.sql import literals, types
from service.sql.coercion import TIMES
from service.sql.errors import UnsupportedSql, ValidationError, nearest
from service.sql.rex import call, cast, literal, type_of
from state.types import INTEGER_BITS, LogicalType, TypeRoot

if TYPE_CHECKING:
    from service.sql.errors import Position

_MILLIS = {"SECOND": 1_000, "MINUTE": 60_000, "HOUR": 3_600_000, "DAY": 86_400_000}
_MONTHS = {"MONTH": 1, "YEAR": 12}
_DIVIDED = {"WEEK": ("SECOND", 604_800), "QUARTER": ("MONTH", 3)}
UNITS = (*_MILLIS, *_MONTHS, *_DIVIDED, "MILLISECOND")
_OF_DATES = ("DAY", "WEEK", *_MONTHS, "QUARTER")


def timestamp_difference(unit: str, first: Rex, second: Rex, position: Position) -> Rex:
    """TIMESTAMPDIFF: how many whole units lie between two times.

    Raises:
        ValidationError: There is no such unit, or the operands are no times that can be compared.
    """
    name = _unit(unit, position)
    kinds = [types.regular(type_of(each)) for each in (first, second)]
    if any(each.root not in TIMES for each in kinds):
        found = " and ".join(each.root.name for each in kinds)
        raise ValidationError(f"TIMESTAMPDIFF needs two times, not {found}", position)
    zoned = [each.root is TypeRoot.TIMESTAMP_LTZ for each in kinds]
    if zoned[0] != zoned[1]:
        raise ValidationError("TIMESTAMP_LTZ only supports diff between the same type.", position)
    if (TypeRoot.TIME in {each.root for each in kinds}) and kinds[0].root is not kinds[1].root:
        raise ValidationError("TIMESTAMPDIFF of a TIME needs another TIME", position)
    if name == "MILLISECOND":
        seconds = timestamp_difference("SECOND", first, second, position)
        return call("*", [seconds, _whole(1_000)], type_of(seconds))
    if name in _DIVIDED:
        smaller, divisor = _DIVIDED[name]
        counted = timestamp_difference(smaller, first, second, position)
        return call("/INT", [counted, _whole(divisor)], type_of(counted), syntax="BINARY")
    nullable = types.any_nullable(kinds)
    interval = literals.interval("1", name, position).type.with_nullable(nullable)
    between = call("-", [second, first], interval, syntax="SPECIAL")
    number = types.BIGINT.with_nullable(nullable)
    made = call("REINTERPRET", [between], number, syntax="SPECIAL")
    divisor = _MILLIS.get(name) or _MONTHS[name]
    if divisor > 1:
        made = call("/INT", [made, _whole(divisor)], number, syntax="BINARY")
    return cast(made, types.INT.with_nullable(nullable))


def timestamp_sum(unit: str, amount: Rex, time: Rex, position: Position) -> Rex:
    """TIMESTAMPADD: a time so many units later.

    Raises:
        ValidationError: There is no such unit, or the last operand is no time.
        UnsupportedSql: The amount is no whole number, or of milliseconds.
    """
    name = _unit(unit, position)
    given = types.regular(type_of(time))
    if given.root not in TIMES - {TypeRoot.TIME}:
        raise ValidationError(f"TIMESTAMPADD needs a time, not {given.root.name}", position)
    counted = type_of(amount)
    if counted.root not in INTEGER_BITS:
        raise UnsupportedSql("TIMESTAMPADD of anything but whole units", position)
    if name == "MILLISECOND":
        raise UnsupportedSql(f"TIMESTAMPADD of {name} to {given.root.name}", position)
    if given.root is TypeRoot.DATE and name not in _OF_DATES:
        given = LogicalType(TypeRoot.TIMESTAMP, nullable=given.nullable, precision=6)
    if isinstance(amount, Literal) and amount.value is not None:
        added: Rex = literals.interval(str(amount.value), name, position)
        return call("+", [time, added], given, syntax="SPECIAL")
    one = literals.interval("1", name, position)
    added = call("*", [one, amount], one.type.with_nullable(counted.nullable))
    made = given.with_nullable(given.nullable or counted.nullable)
    return call("+", [time, added], made, syntax="SPECIAL")


def _unit(unit: str, position: Position) -> str:
    name = unit.upper().removeprefix("SQL_TSI_")
    if name not in UNITS:
        raise ValidationError(f"unknown unit of time {unit}", position, hint=nearest(name, UNITS))
    return name


def _whole(value: int) -> Literal:
    return literal(value, types.INT.with_nullable(False))
