"""Aggregate functions that remember every value, so that rows can be taken back.

Accumulators are in memory, and whole: good for the rows of a window or of one epoch, not for a
group that grows for ever (`operators.aggregate.stored`).

    function                     accumulator                   a change costs
    MIN, MAX                     counts of values, in order    O(log n)
    FIRST_VALUE, LAST_VALUE,     values, oldest first          O(1); O(n) where what is taken back
    LISTAGG, ARRAY_AGG                                         is not the oldest of all
    COLLECT                      counts of values              O(1)

Of equal values the oldest is taken back.

Values are compared by their canonical forms, so NaN is itself and 0.0 is not -0.0; MIN and MAX
order them as Java's `compareTo` does. What is taken back before it came is kept, and cancels it
when it comes by a merge: halves of an aggregate may see an update's rows in either order.

Source: Flink's MinWithRetractAggFunction, MaxWithRetractAggFunction, FirstValueWithRetractAgg-
Function, LastValueWithRetractAggFunction, ListAggWithRetractAggFunction,
ListAggWsWithRetractAggFunction, ArrayAggFunction, CollectAggFunction.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING, Any

import orjson

from operators.aggregate.functions import Aggregator, JsonValue
from state.codec import RowCodec
from state.lexicographic import LexicographicCodec

if TYPE_CHECKING:
    from operators.aggregate.call import AggregateCall
    from operators.aggregate.functions import StoredJson
    from operators.changelog import Row
    from state.types import LogicalType


class Counts:
    """How often each value is there; of those that are, the texts in order."""

    __slots__ = ("counts", "order")

    def __init__(self) -> None:
        self.counts: dict[bytes, int] = {}
        """By the value's ordered text; never 0, below 0 where more was taken back than came."""
        self.order: list[bytes] = []

    def add(self, text: bytes, weight: int) -> None:
        """So many more of a value."""
        before = self.counts.get(text, 0)
        after = before + weight
        if after:
            self.counts[text] = after
        else:
            self.counts.pop(text, None)
        if before <= 0 < after:
            insort(self.order, text)
        elif after <= 0 < before:
            del self.order[bisect_left(self.order, text)]


class RetractableExtreme(Aggregator[Counts]):
    """MIN or MAX of rows that may be taken back."""

    def __init__(self, call: AggregateCall) -> None:
        value = call.argument_types[0].with_nullable(nullable=False)
        self._ordered = LexicographicCodec([value])
        self._json = JsonValue(value)
        self._at = -1 if call.function == "MAX" else 0

    def create(self) -> Counts:
        """No value."""
        return Counts()

    def accumulate(self, accumulator: Counts, arguments: Row) -> Counts:
        """One value more."""
        accumulator.add(self._ordered.encode(arguments), 1)
        return accumulator

    def retract(self, accumulator: Counts, arguments: Row) -> Counts:
        """One value less."""
        accumulator.add(self._ordered.encode(arguments), -1)
        return accumulator

    def merge(self, accumulator: Counts, other: Counts) -> Counts:
        """Both."""
        for text, count in other.counts.items():
            accumulator.add(text, count)
        return accumulator

    def value(self, accumulator: Counts) -> Any:
        """The extreme."""
        order = accumulator.order
        return self.value_of(order[self._at]) if order else None

    def value_of(self, text: bytes) -> Any:
        """The value of an ordered text."""
        return self._ordered.decode(text)[0]

    def to_json(self, accumulator: Counts) -> Any:
        """Values with their counts, in order."""
        to_json, counts = self._json.to_json, sorted(accumulator.counts.items())
        return [[to_json(self.value_of(text)), count] for text, count in counts]

    def from_json(self, stored: StoredJson) -> Counts:
        """Values with their counts."""
        found = Counts()
        for value, count in stored:
            found.add(self._ordered.encode((self._json.from_json(value),)), count)
        return found


class Remembered:
    """Values in the order in which they came."""

    __slots__ = ("missing", "separator", "values")

    def __init__(self) -> None:
        self.values: deque[bytes] = deque()
        """Canonical rows of one value, oldest first."""
        self.missing: list[bytes] = []
        """What was taken back and was not there."""
        self.separator: str | None = ","

    def remove(self, text: bytes) -> None:
        """Take the oldest equal value back."""
        try:
            self.values.remove(text)
        except ValueError:
            self.missing.append(text)


class Sequence(Aggregator[Remembered]):
    """What functions share that depend on the order in which values came."""

    def __init__(self, call: AggregateCall) -> None:
        self._codec = value_codec(call.argument_types[0])
        self._takes_null = call.function == "ARRAY_AGG" and not call.ignores_null

    def takes(self, arguments: Row) -> bool:
        """Whether the value is not null, or null counts."""
        return self._takes_null or arguments[0] is not None

    def create(self) -> Remembered:
        """No value."""
        return Remembered()

    def accumulate(self, accumulator: Remembered, arguments: Row) -> Remembered:
        """One value more."""
        accumulator.values.append(self._codec.encode(arguments[:1]))
        return accumulator

    def retract(self, accumulator: Remembered, arguments: Row) -> Remembered:
        """One value less: the oldest that is equal."""
        accumulator.remove(self._codec.encode(arguments[:1]))
        return accumulator

    def merge(self, accumulator: Remembered, other: Remembered) -> Remembered:
        """The values of both; what one misses is taken from the other."""
        accumulator.values.extend(other.values)
        missing, accumulator.missing = [*accumulator.missing, *other.missing], []
        for text in missing:
            accumulator.remove(text)
        return accumulator

    def value_of(self, text: bytes) -> Any:
        """The value of a canonical row."""
        return self._codec.decode(text)[0]

    def to_json(self, accumulator: Remembered) -> Any:
        """Values, and those that are missing."""
        groups = (accumulator.values, accumulator.missing)
        return [[orjson.loads(text)[0] for text in group] for group in groups]

    def from_json(self, stored: StoredJson) -> Remembered:
        """Values, and those that are missing."""
        found = Remembered()
        found.values = deque(orjson.dumps([each]) for each in stored[0])
        found.missing = [orjson.dumps([each]) for each in stored[1]]
        return found


class RetractableFirst(Sequence):
    """FIRST_VALUE of rows that may be taken back."""

    def value(self, accumulator: Remembered) -> Any:
        """The oldest value that is there."""
        return self.value_of(accumulator.values[0]) if accumulator.values else None


class RetractableLast(Sequence):
    """LAST_VALUE of rows that may be taken back."""

    def value(self, accumulator: Remembered) -> Any:
        """The newest value that is there."""
        return self.value_of(accumulator.values[-1]) if accumulator.values else None


class ArrayAgg(Sequence):
    """ARRAY_AGG: null of no value."""

    def value(self, accumulator: Remembered) -> Any:
        """All values, oldest first."""
        return [self.value_of(text) for text in accumulator.values] or None


class RetractableListAgg(Sequence):
    """LISTAGG of rows that may be taken back; the separator is that of the last row."""

    def accumulate(self, accumulator: Remembered, arguments: Row) -> Remembered:
        """One text more."""
        accumulator.separator = separator_of(arguments)
        return super().accumulate(accumulator, arguments)

    def retract(self, accumulator: Remembered, arguments: Row) -> Remembered:
        """One text less."""
        accumulator.separator = separator_of(arguments)
        return super().retract(accumulator, arguments)

    def merge(self, accumulator: Remembered, other: Remembered) -> Remembered:
        """The texts of both, with the separator of the later one."""
        if other.values or other.missing:
            accumulator.separator = other.separator
        return super().merge(accumulator, other)

    def value(self, accumulator: Remembered) -> Any:
        """All texts, oldest first."""
        return joined([self.value_of(text) for text in accumulator.values], accumulator.separator)

    def to_json(self, accumulator: Remembered) -> Any:
        """Texts, those that are missing, separator."""
        return [*super().to_json(accumulator), accumulator.separator]

    def from_json(self, stored: StoredJson) -> Remembered:
        """Texts, those that are missing, separator."""
        found = super().from_json(stored)
        found.separator = stored[2]
        return found


class Collect(Aggregator["dict[bytes, int]"]):
    """COLLECT: the multiset of values; empty, not null, of none."""

    def __init__(self, call: AggregateCall) -> None:
        self._codec = value_codec(call.argument_types[0])

    def create(self) -> dict[bytes, int]:
        """No value."""
        return {}

    def accumulate(self, accumulator: dict[bytes, int], arguments: Row) -> dict[bytes, int]:
        """One value more."""
        return self._added(accumulator, self._codec.encode(arguments), 1)

    def retract(self, accumulator: dict[bytes, int], arguments: Row) -> dict[bytes, int]:
        """One value less."""
        return self._added(accumulator, self._codec.encode(arguments), -1)

    def merge(self, accumulator: dict[bytes, int], other: dict[bytes, int]) -> dict[bytes, int]:
        """Both."""
        for text, count in other.items():
            self._added(accumulator, text, count)
        return accumulator

    def value(self, accumulator: dict[bytes, int]) -> list[tuple[Any, int]]:
        """Values with their counts, by their canonical forms."""
        counts = sorted(accumulator.items())
        return [(self.value_of(text), count) for text, count in counts if count > 0]

    def value_of(self, text: bytes) -> Any:
        """The value of a canonical row."""
        return self._codec.decode(text)[0]

    def to_json(self, accumulator: dict[bytes, int]) -> Any:
        """Values with their counts."""
        return [[orjson.loads(text)[0], count] for text, count in sorted(accumulator.items())]

    def from_json(self, stored: StoredJson) -> dict[bytes, int]:
        """Values with their counts."""
        return {orjson.dumps([value]): count for value, count in stored}

    @staticmethod
    def _added(accumulator: dict[bytes, int], text: bytes, weight: int) -> dict[bytes, int]:
        count = accumulator.get(text, 0) + weight
        if count:
            accumulator[text] = count
        else:
            del accumulator[text]
        return accumulator


def value_codec(logical: LogicalType) -> RowCodec:
    """Of rows that are one value."""
    return RowCodec([logical], ["value"])


def separator_of(arguments: Row) -> str | None:
    """What LISTAGG is to put between texts."""
    given: Any = arguments  # texts, as the plan says of LISTAGG's arguments
    return given[1] if len(given) > 1 else ","


def joined(texts: list[str], separator: str | None) -> str | None:
    """What LISTAGG gives for these texts."""
    return separator.join(texts) if texts and separator is not None else None


REMEMBERING = {
    "MIN": RetractableExtreme,
    "MAX": RetractableExtreme,
    "FIRST_VALUE": RetractableFirst,
    "LAST_VALUE": RetractableLast,
    "LISTAGG": RetractableListAgg,
    "COLLECT": Collect,
    "ARRAY_AGG": ArrayAgg,
}
"""What makes the aggregator of a call whose rows may be taken back."""
