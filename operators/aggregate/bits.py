"""Aggregate functions over bits and booleans; Flink has none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.aggregate.functions import Aggregator
from operators.aggregate.numbers import fitting
from state.types import INTEGER_BITS

if TYPE_CHECKING:
    from operators.aggregate.call import AggregateCall
    from operators.aggregate.functions import StoredJson
    from operators.changelog import Row


class Bits(Aggregator[list[int]]):
    """BIT_AND, BIT_OR and BIT_XOR: the number of rows, then how many have each bit."""

    def __init__(self, call: AggregateCall) -> None:
        self._bits = INTEGER_BITS[call.argument_types[0].root]
        self._fit = fitting(call.argument_types[0])
        self._function = call.function

    def create(self) -> list[int]:
        """No rows."""
        return [0] * (self._bits + 1)

    def accumulate(self, accumulator: list[int], arguments: Row) -> list[int]:
        """One more."""
        return self._changed(accumulator, arguments[0], 1)

    def retract(self, accumulator: list[int], arguments: Row) -> list[int]:
        """One less."""
        return self._changed(accumulator, arguments[0], -1)

    def merge(self, accumulator: list[int], other: list[int]) -> list[int]:
        """Both."""
        return [one + more for one, more in zip(accumulator, other, strict=True)]

    def value(self, accumulator: list[int]) -> int | None:
        """The bits that all rows, one row, or an odd number of rows have."""
        rows, *counts = accumulator
        if not rows:
            return None
        match self._function:
            case "BIT_AND":
                chosen = [count == rows for count in counts]
            case "BIT_OR":
                chosen = [count > 0 for count in counts]
            case _:
                chosen = [count % 2 == 1 for count in counts]
        found: int = self._fit(sum(1 << at for at, is_set in enumerate(chosen) if is_set))
        return found

    def to_json(self, accumulator: list[int]) -> Any:
        """The counts."""
        return accumulator

    def from_json(self, stored: StoredJson) -> list[int]:
        """The counts."""
        counts: list[int] = stored
        return counts

    def _changed(
        self,
        accumulator: list[int],
        value: Any,  # an integer, as the argument's type says
        weight: int,
    ) -> list[int]:
        accumulator[0] += weight
        for at in range(self._bits):
            if value >> at & 1:
                accumulator[at + 1] += weight
        return accumulator


class Booleans(Aggregator[tuple[int, int]]):
    """BOOL_AND and BOOL_OR: how many are true, how many false."""

    def __init__(self, call: AggregateCall) -> None:
        self._is_and = call.function == "BOOL_AND"

    def create(self) -> tuple[int, int]:
        """None."""
        return 0, 0

    def accumulate(self, accumulator: tuple[int, int], arguments: Row) -> tuple[int, int]:
        """One more."""
        return self.merge(accumulator, (1, 0) if arguments[0] else (0, 1))

    def retract(self, accumulator: tuple[int, int], arguments: Row) -> tuple[int, int]:
        """One less."""
        return self.merge(accumulator, (-1, 0) if arguments[0] else (0, -1))

    def merge(self, accumulator: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        """Both."""
        return accumulator[0] + other[0], accumulator[1] + other[1]

    def value(self, accumulator: tuple[int, int]) -> bool | None:
        """Whether all are true, or any is."""
        trues, falses = accumulator
        if not trues and not falses:
            return None
        return not falses if self._is_and else trues > 0

    def to_json(self, accumulator: tuple[int, int]) -> Any:
        """Both counts."""
        return [*accumulator]

    def from_json(self, stored: StoredJson) -> tuple[int, int]:
        """Both counts."""
        return stored[0], stored[1]
