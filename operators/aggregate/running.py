"""Aggregate functions over all changes of an epoch at once: accumulators behind each change.

Changes stand by key, those of a key in order. An accumulator is one or two columns of 64-bit
integers; a *running* one has a value for each change, begun with what the state holds of its key.
Sums wrap around at the width of their type: what numpy's 64 bits wrap first wraps to the same.

    function                 columns of the accumulator     as it is stored
    COUNT                    count                          7
    SUM, nothing taken back  sum, whether there is one      12, or null
    SUM                      sum, count                     [12,3], or [null,0]
    $SUM0                    sum                            12
    AVG                      sum, count                     [12,3]
    MIN, MAX                 extreme, whether there is one  12, or null

What an accumulator is and gives is defined by `operators.aggregate.functions` and `sums`; this is
the same for whole numbers, held to it by tests. Functions that are not here, arguments that are no
integers and DISTINCT have no such form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from operators.aggregate.aggregates import remembers
from state.types import INTEGER_BITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from operators.aggregate.call import AggregateCall

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_LEAST: Final = np.iinfo(np.int64).min
_MOST: Final = np.iinfo(np.int64).max

Parts = tuple["Integers", ...]
"""The columns of an accumulator."""


class Values(NamedTuple):
    """Results."""

    numbers: Integers
    is_null: Flags | None
    """None: no one is."""


class Steps(NamedTuple):
    """What the changes of an epoch do to one accumulator, by place."""

    key_of: Integers
    first: Integers
    """By key: the place of its first change."""
    weights: Integers
    """1 for a row that is taken in, -1 for one that is taken back, 0 where the call ignores it."""
    addends: Integers
    """The argument; anything where the weight is 0."""

    def sums(self, steps: Integers, begin: Integers) -> Integers:
        """Running sums by key, each begun with its own number."""
        whole = np.cumsum(steps)
        before = whole[self.first] - steps[self.first]
        return whole + (begin - before)[self.key_of]

    def ever(self, is_set: Flags, begin: Integers) -> Integers:
        """By place: 1 once the flag was set for the key, or where it began so."""
        return np.minimum(self.sums(is_set.astype(np.int64), begin), 1)


class Running(ABC):
    """A call on columns."""

    def __init__(self, call: AggregateCall) -> None:
        self._bits = INTEGER_BITS.get(call.result_type.root, 64)

    @abstractmethod
    def loaded(self, stored: Sequence[Any]) -> Parts:
        """The accumulators of stored JSON values.

        Raises:
            ValueError, TypeError, IndexError, OverflowError: They are none.
        """

    @abstractmethod
    def nothing(self) -> tuple[int, ...]:
        """The accumulator of no rows."""

    @abstractmethod
    def running(self, steps: Steps, begin: Parts) -> Parts:
        """By place: the accumulators behind each change, begun with those of the keys."""

    @abstractmethod
    def values(self, parts: Parts) -> Values:
        """The results of accumulators."""

    @abstractmethod
    def texts(self, parts: Parts) -> list[bytes]:
        """Accumulators as JSON."""

    def _wrapped(self, numbers: Integers) -> Integers:
        """Numbers as the type of the result has them."""
        if self._bits == 64:
            return numbers
        half = 1 << (self._bits - 1)
        mask = (1 << self._bits) - 1
        wrapped: Integers = ((numbers + half) & mask) - half
        return wrapped


class RunningCount(Running):
    """COUNT."""

    def loaded(self, stored: Sequence[Any]) -> Parts:
        """The counts."""
        return (_integers(stored),)

    def nothing(self) -> tuple[int, ...]:
        """Nothing."""
        return (0,)

    def running(self, steps: Steps, begin: Parts) -> Parts:
        """One more or one less."""
        return (steps.sums(steps.weights, begin[0]),)

    def values(self, parts: Parts) -> Values:
        """The count."""
        return Values(parts[0], None)

    def texts(self, parts: Parts) -> list[bytes]:
        """The counts."""
        return [b"%d" % each for each in parts[0].tolist()]


class RunningSumFromZero(RunningCount):
    """$SUM0."""

    def running(self, steps: Steps, begin: Parts) -> Parts:
        """One addend more or less."""
        return (self._wrapped(steps.sums(steps.weights * steps.addends, begin[0])),)


class _OneOrNull(Running):
    """What functions share whose accumulator is one number, or null for no rows."""

    def loaded(self, stored: Sequence[Any]) -> Parts:
        """Numbers, and whether they are there."""
        return (
            _integers([0 if each is None else each for each in stored]),
            _integers([0 if each is None else 1 for each in stored]),
        )

    def nothing(self) -> tuple[int, ...]:
        """Null."""
        return 0, 0

    def values(self, parts: Parts) -> Values:
        """The number."""
        return Values(parts[0], parts[1] == 0)

    def texts(self, parts: Parts) -> list[bytes]:
        """Numbers, or null."""
        pairs = zip(parts[0].tolist(), parts[1].tolist(), strict=True)
        return [b"%d" % number if is_there else b"null" for number, is_there in pairs]


class RunningSum(_OneOrNull):
    """SUM of rows that are never taken back."""

    def running(self, steps: Steps, begin: Parts) -> Parts:
        """One addend more."""
        total = steps.sums(steps.weights * steps.addends, begin[0])
        return self._wrapped(total), steps.ever(steps.weights != 0, begin[1])


class RunningExtreme(_OneOrNull):
    """MIN or MAX; what is taken back is ignored."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._is_most = call.function == "MAX"

    def running(self, steps: Steps, begin: Parts) -> Parts:
        """The better one."""
        better = np.maximum if self._is_most else np.minimum
        worst = _LEAST if self._is_most else _MOST
        comes = steps.weights > 0
        found = np.where(comes, steps.addends, worst)
        started = np.where(begin[1] != 0, begin[0], worst)
        found[steps.first] = better(found[steps.first], started)
        count = found.size
        # Each pass looks twice as far back, up to where the key begins.
        start_of = steps.first[steps.key_of]
        longest = int(np.diff(np.append(steps.first, count)).max()) if count else 0
        places = np.arange(count)
        reach = 1
        while reach < longest:
            back = places - reach
            sees = np.flatnonzero(back >= start_of)
            found[sees] = better(found[sees], found[back[sees]])
            reach *= 2
        is_there = steps.ever(comes, begin[1])
        return np.where(is_there != 0, found, 0), is_there


class _SumAndCount(Running):
    """What sums share that count their addends."""

    def loaded(self, stored: Sequence[Any]) -> Parts:
        """Sums and counts, and whether there is a sum."""
        return (
            _integers([0 if each[0] is None else each[0] for each in stored]),
            _integers([each[1] for each in stored]),
            _integers([0 if each[0] is None else 1 for each in stored]),
        )

    def running(self, steps: Steps, begin: Parts) -> Parts:
        """One addend more or less."""
        total, count, is_there = begin
        return (
            self._wrapped(steps.sums(steps.weights * steps.addends, total)),
            steps.sums(steps.weights, count),
            steps.ever(steps.weights != 0, is_there),
        )

    def texts(self, parts: Parts) -> list[bytes]:
        """Sums and counts."""
        triples = zip(*(each.tolist() for each in parts), strict=True)
        return [
            b"[%d,%d]" % (total, count) if is_there else b"[null,%d]" % count
            for total, count, is_there in triples
        ]


class RunningRetractableSum(_SumAndCount):
    """SUM of rows that may be taken back."""

    def nothing(self) -> tuple[int, ...]:
        """No addend, and no sum."""
        return 0, 0, 0

    def values(self, parts: Parts) -> Values:
        """The sum."""
        return Values(parts[0], parts[1] == 0)


class RunningAverage(_SumAndCount):
    """AVG, whose sum is a BIGINT and there from the beginning."""

    def __init__(self, call: AggregateCall) -> None:
        super().__init__(call)
        self._result_bits, self._bits = self._bits, 64

    def nothing(self) -> tuple[int, ...]:
        """No addend, and a sum of 0."""
        return 0, 0, 1

    def values(self, parts: Parts) -> Values:
        """The mean without its fraction."""
        total, count, is_there = parts
        is_null = (count == 0) | (is_there == 0)
        divisor = np.where(count == 0, 1, count)
        # The least number by -1 wraps around, as in Java; numpy does so, too, and warns.
        with np.errstate(over="ignore"):
            quotient = total // divisor
            # What is rounded down below zero is one too low, unless nothing was left over.
            quotient += (quotient < 0) & (quotient * divisor != total)
        half, mask = 1 << (self._result_bits - 1), (1 << self._result_bits) - 1
        if self._result_bits < 64:
            quotient = ((quotient + half) & mask) - half
        return Values(quotient, is_null)


_RUNNING: Final[dict[str, type[Running]]] = {
    "COUNT": RunningCount,
    "$SUM0": RunningSumFromZero,
    "AVG": RunningAverage,
    "MIN": RunningExtreme,
    "MAX": RunningExtreme,
}


def running(call: AggregateCall) -> Running | None:
    """A call on columns; None: it has no such form."""
    if call.is_distinct or remembers(call):
        return None
    if call.function == "COUNT":
        return RunningCount(call)
    integers = [*call.argument_types[:1], call.result_type]
    if any(each.root not in INTEGER_BITS for each in integers):
        return None
    if call.function == "SUM":
        return RunningRetractableSum(call) if call.needs_retraction else RunningSum(call)
    found = _RUNNING.get(call.function)
    return None if found is None else found(call)


def _integers(values: Sequence[Any]) -> Integers:
    """Whole numbers of 64 bits; others are refused, not cut."""
    if not all(type(each) is int for each in values):
        raise ValueError("a stored accumulator holds something else than whole numbers")
    return np.array(values, np.int64)
