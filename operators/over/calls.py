"""All calls of an OVER node: aggregate functions and positions, over rows and constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from pydantic import BaseModel, ConfigDict

from operators.aggregate import AccumulatorCodec, AggregateCall, Aggregates
from operators.aggregate.beside import shown_accumulators
from operators.over.positions import POSITIONS, PositionCall
from operators.spec import Logical, RowSpec
from state.descriptors import JSON
from state.errors import StateCorrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.aggregate import Accumulators
    from operators.changelog import Row
    from state.descriptors import Codec


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


class CallOrder:
    """The calls of an OVER node by what computes them: aggregate functions, and positions.

    Args:
        calls: In the order of the output.
        constants: Behind the columns of a row.
    """

    def __init__(
        self, calls: Sequence[AggregateCall | PositionCall], constants: Sequence[Constant]
    ) -> None:
        self.aggregates = [each for each in calls if isinstance(each, AggregateCall)]
        self.position_calls = [each for each in calls if isinstance(each, PositionCall)]
        self._positions = [POSITIONS[each.function](each) for each in self.position_calls]
        places: dict[bool, int] = {True: 0, False: len(self.aggregates)}
        self._order = []
        for each in calls:
            is_aggregate = isinstance(each, AggregateCall)
            self._order.append(places[is_aggregate])
            places[is_aggregate] += 1
        self.constants: Row = tuple([each.value() for each in constants])

    def create(self) -> list[Any]:
        """The positions' accumulators of no rows."""
        return [each.create() for each in self._positions]

    def accumulate(self, held: list[Any], whole: Row, at: int | str) -> None:
        """Let positions know of a row with its constants; `at` is its time or sort key."""
        pairs = zip(self.position_calls, self._positions, strict=True)
        for place, (call, position) in enumerate(pairs):
            if call.filter is None or whole[call.filter] is True:
                held[place] = position.accumulate(held[place], whole, at)

    def values(self, of_aggregates: Row, held: Sequence[Any]) -> Row:
        """The value of each call."""
        pairs = zip(self._positions, held, strict=True)
        found = [*of_aggregates, *(position.value(each) for position, each in pairs)]
        return tuple([found[at] for at in self._order])


class OverCalls:
    """The calls of an OVER node, with accumulators in memory, over rows that stay.

    Args:
        calls: What to compute.
        constants: Behind the columns of a row.
    """

    def __init__(
        self, calls: Sequence[AggregateCall | PositionCall], constants: Sequence[Constant]
    ) -> None:
        self._order = CallOrder(calls, constants)
        self._aggregates = Aggregates(self._order.aggregates, counts_rows=False)
        memory = self._aggregates
        codec = AccumulatorCodec(memory.calls, memory.functions, len(memory.distinct))
        self.codec = OverCodec(codec, self._order)
        """Of the accumulators, in state."""

    def create(self) -> OverAccumulators:
        """Of no rows."""
        return OverAccumulators(self._aggregates.create(), self._order.create())

    def accumulate(self, accumulators: OverAccumulators, row: Row, at: int | str) -> None:
        """Take a row in; `at` is its time or sort key, equal for equal ones only."""
        whole = row + self._order.constants
        self._aggregates.accumulate(accumulators.aggregates, whole)
        self._order.accumulate(accumulators.positions, whole, at)

    def values(self, accumulators: OverAccumulators) -> Row:
        """The value of each call."""
        values = self._aggregates.values(accumulators.aggregates)
        return self._order.values(values, accumulators.positions)


class OverCodec:
    """Accumulators as JSON: those of the functions, then those of the positions."""

    __slots__ = ("_aggregates", "name")

    def __init__(self, aggregates: Codec[Accumulators], order: CallOrder) -> None:
        self._aggregates = aggregates
        described = ", ".join(each.function for each in order.position_calls)
        self.name = f"over/1 {aggregates.name}; {described}"

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

    def shown(self, data: bytes) -> Any:
        """The object, with the functions' accumulators as people see them."""
        stored = JSON.decode(data)
        return stored | {"functions": shown_accumulators(stored["functions"])}
