"""Aggregate functions: an accumulator each, which takes rows in, takes them back, and has a value.

An accumulator is a plain value in memory, with a JSON form for state. Here is what all functions
are, and those that count or choose one value; those that calculate are in `sums` and `bits`. They
have accumulators of a fixed size. Those that must remember every value, because a row that is taken
back may bring another one to light, are in `remembering`; for groups that may be large,
`stored_functions` keeps their values in states of their own.

    function              accumulator                value of no rows    rows taken back
    COUNT                 count                      0                   yes
    SUM                   sum; with count            null                with count
    $SUM0                 sum                        0                   yes
    AVG                   sum, count                 null                yes
    MIN, MAX              the extreme                null                ignored
    FIRST_VALUE           the value                  null                no
    LAST_VALUE            the value                  null                no
    LISTAGG               separator, text            null                no
    SINGLE_VALUE          value, count               null                yes; fails at a second row
    STDDEV_*, VAR_*       count, sum, sum of squares null                yes
    $WELFORD_M2$1         count, sum, sum of squares null                yes
    BIT_*                 rows, count of each bit    null                yes
    BOOL_*                count of true, of false    null                yes

All but SINGLE_VALUE ignore rows where an argument is null: `Aggregator.takes` says so, and who
drives an aggregator asks it (`operators.aggregate.aggregates` does).

Source: Flink's `AggFunctionFactory` and the functions that it makes. BIT_* and BOOL_* are not in
Flink. Its plans have $WELFORD_M2$1, the sum of squared distances from the mean, and COUNT in place
of STDDEV_* and VAR_*, and so have ours. All of these are exact here; Flink's are of doubles.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from operators.errors import AggregateFailed
from state.values import canonical_decoder, canonical_encoder

if TYPE_CHECKING:
    from operators.aggregate.call import AggregateCall
    from operators.changelog import Row
    from state.types import LogicalType

A = TypeVar("A")
Accumulator: TypeAlias = Any
"""Of a function whose plan, not whose class, says what it adds up: a checker cannot know it."""
StoredJson: TypeAlias = Any
"""What the same function's `to_json` gave, out of Redis: what it is made of, that one says."""


class Aggregator(ABC, Generic[A]):
    """One aggregate function over the arguments of rows.

    An accumulator that is given away must not be used any more: methods may change it or give
    another one.
    """

    def takes(self, arguments: Row) -> bool:
        """Whether a row with these arguments counts at all."""
        return None not in arguments

    @abstractmethod
    def create(self) -> A:
        """The accumulator of no rows."""

    @abstractmethod
    def accumulate(self, accumulator: A, arguments: Row) -> A:
        """With one more row."""

    def retract(self, accumulator: A, arguments: Row) -> A:
        """Without a row that was taken in before.

        Raises:
            AggregateFailed: The function was not made for that.
        """
        raise AggregateFailed(f"{type(self).__name__} takes no row back")

    @abstractmethod
    def merge(self, accumulator: A, other: A) -> A:
        """With the rows of another accumulator, which came later."""

    @abstractmethod
    def value(self, accumulator: A) -> Any:
        """The result."""

    @abstractmethod
    def to_json(self, accumulator: A) -> Any:
        """As it is stored: a JSON value, equal ones for equal accumulators."""

    @abstractmethod
    def from_json(self, stored: StoredJson) -> A:
        """The accumulator that `to_json` wrote."""


class JsonValue:
    """Values of one type as JSON values, null included."""

    __slots__ = ("_decode", "_encode")

    def __init__(self, logical: LogicalType) -> None:
        self._encode = canonical_encoder(logical)
        self._decode = canonical_decoder(logical)

    def to_json(self, value: Any) -> Any:  # of the type that the encoder was made for
        """The canonical JSON value."""
        return None if value is None else self._encode(value)

    def from_json(self, stored: StoredJson) -> Any:
        """The value."""
        return stored if stored is None or self._decode is None else self._decode(stored)


class Count(Aggregator[int]):
    """COUNT: of rows, or of rows without a null in the arguments."""

    def create(self) -> int:
        """Nothing."""
        return 0

    def accumulate(self, accumulator: int, arguments: Row) -> int:
        """One more."""
        return accumulator + 1

    def retract(self, accumulator: int, arguments: Row) -> int:
        """One less."""
        return accumulator - 1

    def merge(self, accumulator: int, other: int) -> int:
        """Both."""
        return accumulator + other

    def value(self, accumulator: int) -> int:
        """The count."""
        return accumulator

    def to_json(self, accumulator: int) -> int:
        """The count."""
        return accumulator

    def from_json(self, stored: StoredJson) -> int:
        """The count."""
        count: int = stored
        return count


class OneValue(Aggregator[Any]):
    """What functions share whose accumulator is one value of a type, null for no rows."""

    def __init__(self, logical: LogicalType) -> None:
        self._json = JsonValue(logical)

    def create(self) -> Any:
        """Null."""
        return None

    def value(self, accumulator: Accumulator) -> Any:
        """The accumulator itself."""
        return accumulator

    def to_json(self, accumulator: Accumulator) -> Any:
        """The canonical JSON value."""
        return self._json.to_json(accumulator)

    def from_json(self, stored: StoredJson) -> Any:
        """The value."""
        return self._json.from_json(stored)


class Extreme(OneValue):
    """MIN or MAX of rows that are not taken back, or where that makes no difference.

    Floating-point numbers are compared as numbers: what NaN stands first is kept, what NaN comes
    later is passed over, and of 0.0 and -0.0 the first is kept.
    """

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call.result_type)
        self._better = max if call.function == "MAX" else min

    def accumulate(self, accumulator: Accumulator, arguments: Row) -> Any:
        """The better one."""
        return self.merge(accumulator, arguments[0])

    def retract(self, accumulator: Accumulator, arguments: Row) -> Any:
        """Nothing: plans call it only where the extreme cannot go back."""
        return accumulator

    def merge(self, accumulator: Accumulator, other: Accumulator) -> Any:
        """The better one; of equal ones the first."""
        if accumulator is None or other is None:
            return other if accumulator is None else accumulator
        # Of values that do not compare, both give the first.
        return self._better(accumulator, other)


class First(OneValue):
    """FIRST_VALUE of rows that are never taken back: the first that is not null."""

    def accumulate(self, accumulator: Accumulator, arguments: Row) -> Any:
        """The first one."""
        return arguments[0] if accumulator is None else accumulator

    def merge(self, accumulator: Accumulator, other: Accumulator) -> Any:
        """The earlier one."""
        return other if accumulator is None else accumulator


class Last(OneValue):
    """LAST_VALUE of rows that are never taken back: the last that is not null."""

    def accumulate(self, accumulator: Accumulator, arguments: Row) -> Any:
        """The new one."""
        return arguments[0]

    def merge(self, accumulator: Accumulator, other: Accumulator) -> Any:
        """The later one."""
        return accumulator if other is None else other


class ListAgg(Aggregator["tuple[str | None, str | None]"]):
    """LISTAGG of rows that are never taken back: separator, text."""

    def takes(self, arguments: Row) -> bool:
        """Whether there is a text."""
        return arguments[0] is not None

    def create(self) -> tuple[str | None, str | None]:
        """No text."""
        return ",", None

    def accumulate(
        self, accumulator: tuple[str | None, str | None], arguments: Row
    ) -> tuple[str | None, str | None]:
        """One text more."""
        given: Any = arguments  # texts, as the plan says of LISTAGG's arguments
        separator = given[1] if len(given) > 1 else ","
        return self.merge(accumulator, (separator, given[0]))

    def merge(
        self, accumulator: tuple[str | None, str | None], other: tuple[str | None, str | None]
    ) -> tuple[str | None, str | None]:
        """Both texts."""
        text, (separator, more) = accumulator[1], other
        if more is None:
            return accumulator
        if text is None:
            return other
        return separator, None if separator is None else f"{text}{separator}{more}"

    def value(self, accumulator: tuple[str | None, str | None]) -> str | None:
        """The text."""
        return accumulator[1]

    def to_json(self, accumulator: tuple[str | None, str | None]) -> Any:
        """Separator and text."""
        return [*accumulator]

    def from_json(self, stored: StoredJson) -> tuple[str | None, str | None]:
        """Separator and text."""
        return stored[0], stored[1]


class SingleValue(Aggregator[tuple[Any, int]]):
    """SINGLE_VALUE: of a scalar subquery, which may have one row at most."""

    def __init__(self, logical: LogicalType) -> None:
        self._json = JsonValue(logical)

    def takes(self, arguments: Row) -> bool:
        """Null is a value."""
        return True

    def create(self) -> tuple[Any, int]:
        """No row."""
        return None, 0

    def accumulate(self, accumulator: tuple[Any, int], arguments: Row) -> tuple[Any, int]:
        """The only row.

        Raises:
            AggregateFailed: There is one already.
        """
        if accumulator[1] > 0:
            raise AggregateFailed("SINGLE_VALUE received more than one row")
        return arguments[0], accumulator[1] + 1

    def retract(self, accumulator: tuple[Any, int], arguments: Row) -> tuple[Any, int]:
        """No row.

        Raises:
            AggregateFailed: There was more than one.
        """
        if accumulator[1] not in (0, 1):
            raise AggregateFailed("SINGLE_VALUE received more than one row")
        return None, accumulator[1] - 1

    def merge(self, accumulator: tuple[Any, int], other: tuple[Any, int]) -> tuple[Any, int]:
        """The row of either.

        Raises:
            AggregateFailed: Both have one.
        """
        count = accumulator[1] + other[1]
        if count > 1:
            raise AggregateFailed("SINGLE_VALUE received more than one row")
        keeps = count == 0 and accumulator[1] != 0 and other[1] <= 0
        return None if keeps else other[0], count

    def value(self, accumulator: tuple[Any, int]) -> Any:
        """The row's value."""
        return accumulator[0]

    def to_json(self, accumulator: tuple[Any, int]) -> Any:
        """Value and count."""
        return [self._json.to_json(accumulator[0]), accumulator[1]]

    def from_json(self, stored: StoredJson) -> tuple[Any, int]:
        """Value and count."""
        return self._json.from_json(stored[0]), stored[1]
