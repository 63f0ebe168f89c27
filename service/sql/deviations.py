"""Deviations and variances, computed of how far values are spread and how many there are.

Source: Calcite `AggregateReduceFunctionsRule`, `StandardConvertletTable.AvgVarianceConvertlet`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.sql import types
from service.sql.rex import call, cast, literal, type_of

if TYPE_CHECKING:
    from service.plan.rex import Rex
    from service.sql.rex import Expression
    from state.types import LogicalType

_ONE = literal(1, types.INT.with_nullable(False))
_HALF = literal("0.5", types.decimal(2, 1).with_nullable(False))


def deviation_of(function: str, squares: Expression, count: Expression, made: LogicalType) -> Rex:
    """STDDEV_POP and its like.

    Args:
        function: Its name.
        squares: The sum of the squared distances of values from their mean.
        count: How many values there are.
        made: The type of the result.
    """
    divisor = count
    if function.endswith("_SAMP"):
        is_one = call("=", [count, _ONE], types.BOOLEAN.with_nullable(False))
        less = call("-", [count, _ONE], types.BIGINT.with_nullable(False))
        divisor = call("CASE", [is_one, literal(None, types.BIGINT), less], types.BIGINT)
    found = computed("/", squares, divisor)
    if function.startswith("STDDEV"):
        found = call("POWER", [found, _HALF], types.DOUBLE)
    return cast(found, made)


def computed(operator: str, left: Expression, right: Expression) -> Rex:
    """What an operator makes of two numbers."""
    made = types.arithmetic_type(operator, type_of(left), type_of(right))
    assert made is not None, "both are numbers"
    return call(operator, [left, right], made)
