"""Functions that tell where a row stands among those before it: only OVER has them.

    ROW_NUMBER    1, 2, 3, ...
    RANK          rows of one time share the number of the first of them: 1, 1, 3
    DENSE_RANK    the same without gaps: 1, 1, 2
    LAG           the argument's value `offset` rows before; else the default

None takes a row back: Flink has them over all rows before the current one only, and has no LEAD,
NTILE, CUME_DIST or PERCENT_RANK over streams, since these would need rows that are still to come.

Two things are not as in Flink 2.3, which counts each of the rows of one time, so that RANK and
DENSE_RANK are 3, 3, 3 for three of them, and writes a NULL `offset` rows before as -1 or `''` where
LAG has a default.

Source: Flink RowNumberAggFunction, RankAggFunction, DenseRankAggFunction, LagAggFunction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt

from operators.aggregate.functions import JsonValue
from operators.errors import AggregateFailed
from operators.spec import Logical

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.aggregate.functions import Accumulator
    from operators.changelog import Row

PositionFunction = Literal["ROW_NUMBER", "RANK", "DENSE_RANK", "LAG"]


class PositionCall(BaseModel):
    """A call of one of these functions."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    function: PositionFunction
    name: str
    """Of its accumulator, as people see it in state."""
    arguments: tuple[NonNegativeInt, ...] = ()
    """Of LAG: columns of the value, the offset and the default."""
    result_type: Logical
    filter: NonNegativeInt | None = None
    """A BOOLEAN column; only rows with TRUE are counted."""
    rows_max: PositiveInt = 1_000_000
    """Of LAG: the greatest offset that is taken."""


class Position(Protocol):
    """One function; its accumulator is a JSON value."""

    def create(self) -> Any:
        """Of no rows."""

    def accumulate(self, accumulator: Accumulator, row: Row, at: int | str) -> Any:
        """With one more row of this time, or sort key."""

    def value(self, accumulator: Accumulator) -> Any:
        """The result."""


class RowNumber:
    """ROW_NUMBER: the number itself."""

    def create(self) -> int:
        """None."""
        return 0

    def accumulate(self, accumulator: int, row: Row, at: int | str) -> int:
        """One more."""
        return accumulator + 1

    def value(self, accumulator: int) -> int:
        """The number."""
        return accumulator


class Rank:
    """RANK and DENSE_RANK: rows so far, the rank, and the time or sort key that has it."""

    def __init__(self, *, is_dense: bool) -> None:
        self._is_dense = is_dense

    def create(self) -> list[Any]:
        """None."""
        return [0, 0, None]

    def accumulate(self, accumulator: list[Any], row: Row, at: int | str) -> list[Any]:
        """One more."""
        rows, rank, last = accumulator
        if at != last:
            rank = rank + 1 if self._is_dense else rows + 1
        return [rows + 1, rank, at]

    def value(self, accumulator: list[Any]) -> int:
        """The rank."""
        rank: int = accumulator[1]
        return rank


class Lag:
    """LAG: the values of the last rows, oldest first; then the offset and the default."""

    def __init__(self, call: PositionCall) -> None:
        self._call = call
        self._json = JsonValue(call.result_type)

    def create(self) -> list[Any]:
        """None."""
        return [[], 1, None]

    def accumulate(self, accumulator: list[Any], row: Row, at: int | str) -> list[Any]:
        """One more.

        Raises:
            AggregateFailed: The offset is negative, null or too great.
        """
        values, _, default = accumulator
        arguments = [row[at] for at in self._call.arguments]
        given: Any = 1  # an integer, or null, as the plan says of LAG's offset
        if len(arguments) > 1:
            given = arguments[1]
        if given is None or not 0 <= given <= self._call.rows_max:
            raise AggregateFailed(f"LAG takes an offset from 0 to {self._call.rows_max}")
        if len(arguments) > 2:
            default = self._json.to_json(arguments[2])
        values = [*values, self._json.to_json(arguments[0])][-given - 1 :]
        return [values, given, default]

    def value(self, accumulator: list[Any]) -> Any:
        """The value of that row."""
        values, offset, default = accumulator
        return self._json.from_json(values[0] if len(values) > offset else default)


POSITIONS: Final[dict[str, Callable[[PositionCall], Position]]] = {
    "ROW_NUMBER": lambda _: RowNumber(),
    "RANK": lambda _: Rank(is_dense=False),
    "DENSE_RANK": lambda _: Rank(is_dense=True),
    "LAG": Lag,
}
