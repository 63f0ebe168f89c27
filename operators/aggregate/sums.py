"""Aggregate functions that add up: SUM, $SUM0, AVG, and the spreads STDDEV_* and VAR_*."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from operators.aggregate.functions import Aggregator, JsonValue, OneValue
from operators.aggregate.numbers import (
    BIGINT,
    DOUBLE,
    adding,
    divided,
    fitting,
    rounded,
    subtracting,
    truncated,
    zero,
)
from state.types import FLOAT_ROOTS, INTEGER_BITS, LogicalType, TypeRoot
from state.values import EXACT

if TYPE_CHECKING:
    from operators.aggregate.call import AggregateCall
    from operators.aggregate.functions import Accumulator, StoredJson
    from operators.changelog import Row


class Sum(OneValue):
    """SUM of rows that are never taken back."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call.result_type)
        self._add = adding(call.result_type)

    def accumulate(self, accumulator: Accumulator, arguments: Row) -> Any:
        """One addend more. A DECIMAL that overflows is null, and begins anew, as in Flink."""
        return self.merge(accumulator, arguments[0])

    def merge(self, accumulator: Accumulator, other: Accumulator) -> Any:
        """Both sums."""
        if other is None:
            return accumulator
        return other if accumulator is None else self._add(accumulator, other)


class SumFromZero(Sum):
    """$SUM0: 0 for no rows; a DECIMAL that overflowed stays null."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._subtract = subtracting(call.result_type)
        self._zero = zero(call.result_type)

    def create(self) -> Any:
        """0."""
        return self._zero

    def retract(self, accumulator: Accumulator, arguments: Row) -> Any:
        """One addend less."""
        return None if accumulator is None else self._subtract(accumulator, arguments[0])

    def merge(self, accumulator: Accumulator, other: Accumulator) -> Any:
        """Both sums."""
        if accumulator is None or other is None:
            return None
        return self._add(accumulator, other)


class SumAndCount(Aggregator[tuple[Any, int]]):
    """What sums share that count their addends: sum, count."""

    def __init__(self, sum_type: LogicalType, first: object) -> None:
        self._add = adding(sum_type)
        self._subtract = subtracting(sum_type)
        self._json = JsonValue(sum_type)
        self._first = first
        self._zero = zero(sum_type)

    def create(self) -> tuple[Any, int]:
        """No addend."""
        return self._first, 0

    def to_json(self, accumulator: tuple[Any, int]) -> Any:
        """Sum and count."""
        return [self._json.to_json(accumulator[0]), accumulator[1]]

    def from_json(self, stored: StoredJson) -> tuple[Any, int]:
        """Sum and count."""
        return self._json.from_json(stored[0]), stored[1]


class RetractableSum(SumAndCount):
    """SUM of rows that may be taken back: it is null when no addend is left."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call.result_type, None)

    def accumulate(self, accumulator: tuple[Any, int], arguments: Row) -> tuple[Any, int]:
        """One addend more."""
        total, count = accumulator
        addend = arguments[0]
        return addend if total is None else self._add(total, addend), count + 1

    def retract(self, accumulator: tuple[Any, int], arguments: Row) -> tuple[Any, int]:
        """One addend less."""
        total, count = accumulator
        left = self._zero if total is None else total
        return self._subtract(left, arguments[0]), count - 1

    def merge(self, accumulator: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        """Both sums."""
        total, more = accumulator[0], other[0]
        if total is None or more is None:
            total = more if total is None else total
        else:
            total = self._add(total, more)
        return total, accumulator[1] + other[1]

    def value(self, accumulator: tuple[Any, int]) -> Any:
        """The sum."""
        return accumulator[0] if accumulator[1] else None


class Average(SumAndCount):
    """AVG: integers are divided without a fraction; decimals have at least six digits of one."""

    def __init__(self, call: AggregateCall) -> None:
        self._result = call.result_type
        sum_type = _sum_type(call.argument_types[0])
        super().__init__(sum_type, zero(sum_type))
        self._fit_result = fitting(call.result_type)

    def accumulate(self, accumulator: tuple[Any, int], arguments: Row) -> tuple[Any, int]:
        """One addend more; a DECIMAL that overflowed stays null."""
        return self.merge(accumulator, (arguments[0], 1))

    def retract(self, accumulator: tuple[Any, int], arguments: Row) -> tuple[Any, int]:
        """One addend less."""
        total, count = accumulator
        total = None if total is None else self._subtract(total, arguments[0])
        return total, count - 1

    def merge(self, accumulator: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        """Both."""
        total, more = accumulator[0], other[0]
        total = None if total is None or more is None else self._add(total, more)
        return total, accumulator[1] + other[1]

    def value(self, accumulator: tuple[Any, int]) -> Any:
        """The mean, in the type of the result."""
        total, count = accumulator
        if not count or total is None:
            return None
        if isinstance(total, Decimal):
            return divided(total, count, self._result)
        if isinstance(total, int):
            return self._fit_result(truncated(total, count))
        return self._fit_result(total / count)


Moments = tuple[int, Decimal, Decimal, int]


class Spread(Aggregator[Moments]):
    """STDDEV_POP, STDDEV_SAMP, VAR_POP, VAR_SAMP, and $WELFORD_M2$1, of which Flink computes them.

    All are computed of the count, the sum and the sum of squares, with a hundred digits: so rows
    may come, be taken back and be merged in any order. Beside them is how many of the rows are
    infinite or no number: while there is one, the result is no number.
    """

    def __init__(self, call: AggregateCall) -> None:
        self._result = call.result_type
        self._is_root = call.function.startswith("STDDEV")
        self._less = int(call.function.endswith("_SAMP"))
        self._is_mean = call.function != "$WELFORD_M2$1"
        self._is_float = call.argument_types[0].root in FLOAT_ROOTS

    def create(self) -> Moments:
        """No rows."""
        return 0, Decimal(0), Decimal(0), 0

    def accumulate(self, accumulator: Moments, arguments: Row) -> Moments:
        """One more."""
        return self.merge(accumulator, self._of(arguments[0]))

    def retract(self, accumulator: Moments, arguments: Row) -> Moments:
        """One less."""
        count, total, squares, others = self._of(arguments[0])
        return self.merge(accumulator, (-count, EXACT.minus(total), EXACT.minus(squares), -others))

    def merge(self, accumulator: Moments, other: Moments) -> Moments:
        """Both."""
        return (
            accumulator[0] + other[0],
            EXACT.add(accumulator[1], other[1]),
            EXACT.add(accumulator[2], other[2]),
            accumulator[3] + other[3],
        )

    def value(self, accumulator: Moments) -> Any:
        """The spread, in the type of the result."""
        count, total, squares, others = accumulator
        if count <= self._less:
            return None
        if others:
            return fitting(self._result)(math.nan)
        over = EXACT.subtract(EXACT.multiply(squares, Decimal(count)), EXACT.multiply(total, total))
        parts = count * (count - self._less) if self._is_mean else count
        # Digits beyond the hundredth may leave less than nothing.
        exact = max(EXACT.divide(over, Decimal(parts)), Decimal(0))
        if self._is_root:
            exact = EXACT.sqrt(exact)
        if self._result.root is TypeRoot.DECIMAL:
            return rounded(exact, self._result)
        return fitting(self._result)(
            float(exact) if self._result.root in FLOAT_ROOTS else int(exact)
        )

    def to_json(self, accumulator: Moments) -> Any:
        """Count, sum and sum of squares as texts, for they may be long; what is no number last."""
        count, total, squares, others = accumulator
        return [count, f"{total:f}", f"{squares:f}", *([others] if others else ())]

    def from_json(self, stored: StoredJson) -> Moments:
        """Count, sum, sum of squares, and how many are no numbers."""
        return stored[0], Decimal(stored[1]), Decimal(stored[2]), sum(stored[3:])

    def _of(self, value: Any) -> Moments:  # a number, as the argument's type says
        if self._is_float and not math.isfinite(value):
            return 1, Decimal(0), Decimal(0), 1
        exact = Decimal(value)
        return 1, exact, EXACT.multiply(exact, exact), 0


def _sum_type(argument: LogicalType) -> LogicalType:
    """The type in which an average's sum is kept."""
    if argument.root in INTEGER_BITS:
        return BIGINT
    if argument.root is TypeRoot.DECIMAL:
        return LogicalType(TypeRoot.DECIMAL, precision=38, scale=argument.scale)
    return DOUBLE
