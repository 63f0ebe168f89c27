"""All calls of an OVER node: aggregate functions and positions, over rows and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from pydantic import BaseModel, ConfigDict

from operators.aggregate import AccumulatorCodec, Accumulators, AggregateCall, Aggregates
from operators.over.positions import POSITIONS, PositionCall
from operators.spec import Logical, RowSpec
from state.errors import StateCorrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row


class Constant(BaseModel):
    """A constant that stands behind the columns of every row."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    type: Logical
    text: str
    """Its value as a canonical row of one column."""

    def value(self) -> Any:
        """The value itself."""
        codec = RowSpec(types=(self.type,), names=("value",)).codec()
        return codec.decode(self.text.encode())[0]


class OverAccumulators:
    """The accumulators of all calls of a key."""

    __slots__ = ("aggregates", "positions")

    def __init__(self, aggregates: Accumulators, positions: list[Any]) -> None:
        self.aggregates = aggregates
        self.positions = positions


class OverCalls:
    """The calls of an OVER node, in the order of its output.

    Args:
        calls: What to compute.
        constants: Behind the columns of a row.
        takes_back: Whether rows leave the window.
    """

    def __init__(
        self,
        calls: Sequence[AggregateCall | PositionCall],
        constants: Sequence[Constant],
        *,
        takes_back: bool,
    ) -> None:
        aggregates = [each for each in calls if isinstance(each, AggregateCall)]
        self._position_calls = [each for each in calls if isinstance(each, PositionCall)]
        self._positions = [POSITIONS[each.function](each) for each in self._position_calls]
        self._aggregates = Aggregates(aggregates, counts_rows=takes_back)
        places: dict[bool, int] = {True: 0, False: len(aggregates)}
        self._order = []
        for each in calls:
            is_aggregate = isinstance(each, AggregateCall)
            self._order.append(places[is_aggregate])
            places[is_aggregate] += 1
        self._constants = tuple(each.value() for each in constants)
        self.codec = _Codec(self._aggregates, self._position_calls)
        """Of the accumulators, in state."""

    def create(self) -> OverAccumulators:
        """Of no rows."""
        positions = [each.create() for each in self._positions]
        return OverAccumulators(self._aggregates.create(), positions)

    def accumulate(self, accumulators: OverAccumulators, row: Row, at: int | str) -> None:
        """Take a row in; `at` is its time or sort key, equal for equal ones only."""
        whole = row + self._constants
        self._aggregates.accumulate(accumulators.aggregates, whole)
        pairs = zip(self._position_calls, self._positions, strict=True)
        for place, (call, position) in enumerate(pairs):
            if call.filter is None or whole[call.filter] is True:
                held = accumulators.positions[place]
                accumulators.positions[place] = position.accumulate(held, whole, at)

    def retract(self, accumulators: OverAccumulators, row: Row) -> None:
        """Take a row back."""
        self._aggregates.retract(accumulators.aggregates, row + self._constants)

    def values(self, accumulators: OverAccumulators) -> Row:
        """The value of each call."""
        pairs = zip(self._positions, accumulators.positions, strict=True)
        found = [
            *self._aggregates.values(accumulators.aggregates),
            *(position.value(held) for position, held in pairs),
        ]
        return tuple([found[at] for at in self._order])


class _Codec:
    """Accumulators as JSON: those of the functions, then those of the positions."""

    __slots__ = ("_aggregates", "name")

    def __init__(self, aggregates: Aggregates, positions: Sequence[PositionCall]) -> None:
        self._aggregates = AccumulatorCodec(
            aggregates.calls, aggregates.functions, len(aggregates.distinct)
        )
        described = ", ".join(each.function for each in positions)
        self.name = f"over/1 {self._aggregates.name}; {described}"

    def encode(self, value: OverAccumulators) -> bytes:
        """The JSON object."""
        own = orjson.Fragment(self._aggregates.encode(value.aggregates))
        # A copy: the result of `dumps` keeps its buffer of 4 KiB for as long as it lives.
        return b"%b" % orjson.dumps({"functions": own, "positions": value.positions})

    def decode(self, data: bytes) -> OverAccumulators:
        """The accumulators of such bytes.

        Raises:
            StateCorrupt: They are none.
        """
        try:
            stored = orjson.loads(data)
            own = self._aggregates.decode(orjson.dumps(stored["functions"]))
            return OverAccumulators(own, stored["positions"])
        except (ValueError, TypeError, KeyError) as error:
            raise StateCorrupt("stored accumulators are not what the plan needs") from error
