"""Several aggregate calls over rows: filters, arguments, DISTINCT, and one accumulator for all.

    aggregates = Aggregates(calls)
    accumulators = aggregates.create()
    aggregates.accumulate(accumulators, row)
    aggregates.retract(accumulators, row)
    aggregates.values(accumulators)          # one value for each call

`AccumulatorCodec` writes accumulators as a JSON object that people can read, for a value state:
`{"rows":3,"buy_uv":2,"quantity_cnt":12,"distinct":[[["u1"],1],[["u2"],2]]}`.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from operators.aggregate.bits import Bits, Booleans
from operators.aggregate.functions import (
    Aggregator,
    Count,
    Extreme,
    First,
    Last,
    ListAgg,
    SingleValue,
)
from operators.aggregate.remembering import REMEMBERING
from operators.aggregate.sums import Average, RetractableSum, Spread, Sum, SumFromZero
from operators.spec import unique
from state.codec import RowCodec
from state.errors import StateCorrupt
from state.types import format_type

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.aggregate.call import AggregateCall
    from operators.changelog import Row

FIXED: Final[dict[str, Callable[[AggregateCall], Aggregator[Any]]]] = {
    "COUNT": lambda _: Count(),
    "SUM": lambda call: RetractableSum(call) if call.needs_retraction else Sum(call),
    "$SUM0": SumFromZero,
    "AVG": Average,
    "MIN": Extreme,
    "MAX": Extreme,
    "FIRST_VALUE": lambda call: First(call.result_type),
    "LAST_VALUE": lambda call: Last(call.result_type),
    "LISTAGG": lambda _: ListAgg(),
    "SINGLE_VALUE": lambda call: SingleValue(call.result_type),
    "STDDEV_POP": Spread,
    "STDDEV_SAMP": Spread,
    "VAR_POP": Spread,
    "VAR_SAMP": Spread,
    "$WELFORD_M2$1": Spread,
    "BIT_AND": Bits,
    "BIT_OR": Bits,
    "BIT_XOR": Bits,
    "BOOL_AND": Booleans,
    "BOOL_OR": Booleans,
}
"""What makes the aggregator of a call whose accumulator is of a fixed size."""
_ALWAYS_REMEMBERING: Final = ("COLLECT", "ARRAY_AGG")


def remembers(call: AggregateCall) -> bool:
    """Whether the accumulator of a call holds every value."""
    if call.function in _ALWAYS_REMEMBERING:
        return True
    return call.needs_retraction and call.function in REMEMBERING


def aggregator(call: AggregateCall) -> Aggregator[Any]:
    """What computes a call over arguments, its accumulator in memory; knows no DISTINCT."""
    makers: Any = REMEMBERING if remembers(call) else FIXED  # makers of different types
    made: Aggregator[Any] = makers[call.function](call)
    return made


class Accumulators:
    """The accumulators of all calls."""

    __slots__ = ("distinct", "own", "rows")

    def __init__(self, own: list[Any], distinct: list[dict[bytes, list[int]]]) -> None:
        self.rows = 0
        """Rows taken in less those taken back; where they are not counted, 1 after the first."""
        self.own = own
        """One for each call."""
        self.distinct = distinct
        """For each `DistinctColumns`: by canonical arguments, how often each call's filter let
        them pass."""


class Call(NamedTuple):
    """A call, ready to be computed."""

    at: int
    """Which one it is."""
    function: Aggregator[Any]
    filter: int | None
    arguments: Callable[[Row], Row]
    takes: Callable[[Row], bool] | None
    """Which arguments the function takes; None: those without a null."""

    def passes(self, row: Row) -> bool:
        """Whether a row passes the filter and is one that the function takes."""
        if self.filter is not None and row[self.filter] is not True:
            return False
        return self.function.takes(self.arguments(row))


class DistinctColumns(NamedTuple):
    """Calls that share a set of distinct arguments."""

    calls: tuple[Call, ...]
    arguments: Callable[[Row], Row]
    codec: RowCodec
    counts: bool
    """Whether rows are counted, since they may be taken back; else 1 says that they came."""

    def weights(self, row: Row, weight: int) -> list[int] | None:
        """What a row adds to the counts of its arguments; None: nothing, for no call takes it."""
        weights = [weight if call.passes(row) else 0 for call in self.calls]
        return weights if any(weights) else None

    def merged(self, held: list[int] | None, more: list[int]) -> DistinctChange:
        """What other counts do to those held, which are None where there are none."""
        before = held or [0] * len(more)
        after = [one + other for one, other in zip(before, more, strict=True)]
        if not self.counts:
            after = [min(each, 1) for each in after]
        if after == before:
            return DistinctChange(after, has_changed=False, calls=[])
        changes = [
            (call, new > 0)
            for call, old, new in zip(self.calls, before, after, strict=True)
            if (old > 0) != (new > 0)
        ]
        return DistinctChange(after, has_changed=True, calls=changes)


class DistinctChange(NamedTuple):
    """What becomes of distinct arguments."""

    counts: list[int]
    has_changed: bool
    calls: list[tuple[Call, bool]]
    """Calls for which the arguments come (True) or go."""


def arguments_of(columns: tuple[int, ...]) -> Callable[[Row], Row]:
    """What takes these columns out of a row."""
    if not columns:
        return lambda _: ()
    if len(columns) == 1:
        column = columns[0]
        return lambda row: (row[column],)
    return itemgetter(*columns)


def ready(at: int, call: AggregateCall, function: Aggregator[Any]) -> Call:
    """A call, ready to be computed by this function."""
    takes = None if type(function).takes is Aggregator.takes else function.takes
    return Call(at, function, call.filter, arguments_of(call.arguments), takes)


def apply_all(calls: Sequence[Call], own: list[Any], row: Row, *, is_retraction: bool) -> None:
    """Take a row into the accumulators of calls, or back.

    This is done for every change and call: the arguments are taken out of the row once.
    """
    for at, function, passes, arguments_in, takes in calls:
        if passes is not None and row[passes] is not True:
            continue
        arguments = arguments_in(row)
        if (None in arguments) if takes is None else not takes(arguments):
            continue
        if is_retraction:
            own[at] = function.retract(own[at], arguments)
        else:
            own[at] = function.accumulate(own[at], arguments)


def distinct_columns(
    calls: Sequence[AggregateCall], functions: Sequence[Aggregator[Any]]
) -> list[DistinctColumns]:
    """The sets of distinct arguments that calls need; calls of the same arguments share one."""
    groups: dict[tuple[tuple[int, ...], bool], list[int]] = {}
    for at, call in enumerate(calls):
        if call.is_distinct:
            groups.setdefault((call.arguments, call.needs_retraction), []).append(at)
    return [
        DistinctColumns(
            tuple(ready(at, calls[at], functions[at]) for at in members),
            arguments_of(columns),
            RowCodec(
                calls[members[0]].argument_types, [f"a{number}" for number in range(len(columns))]
            ),
            counts,
        )
        for (columns, counts), members in groups.items()
    ]


class Aggregates:
    """Calls over rows, with accumulators in memory.

    Args:
        calls: What to compute.
        counts_rows: Whether rows may be taken back, so that it must be known when none is left.
    """

    def __init__(self, calls: Sequence[AggregateCall], *, counts_rows: bool = True) -> None:
        self.calls = tuple(calls)
        self.functions = [aggregator(call) for call in calls]
        self.distinct = distinct_columns(self.calls, self.functions)
        self._plain = [
            ready(at, call, function)
            for at, (call, function) in enumerate(zip(self.calls, self.functions, strict=True))
            if not call.is_distinct
        ]
        self._counts_rows = counts_rows

    def create(self) -> Accumulators:
        """Of no rows."""
        own = [each.create() for each in self.functions]
        return Accumulators(own, [{} for _ in self.distinct])

    def accumulate(self, accumulators: Accumulators, row: Row) -> None:
        """Take a row in."""
        accumulators.rows = accumulators.rows + 1 if self._counts_rows else 1
        apply_all(self._plain, accumulators.own, row, is_retraction=False)
        if self.distinct:
            self._distinct(accumulators, row, 1)

    def retract(self, accumulators: Accumulators, row: Row) -> None:
        """Take a row back."""
        accumulators.rows -= 1
        apply_all(self._plain, accumulators.own, row, is_retraction=True)
        if self.distinct:
            self._distinct(accumulators, row, -1)

    def merge(self, accumulators: Accumulators, other: Accumulators) -> None:
        """Take in all rows of others, which came later; the others must not be used any more."""
        if self._counts_rows:
            accumulators.rows += other.rows
        else:
            accumulators.rows = max(accumulators.rows, other.rows)
        own = accumulators.own
        for call in self._plain:
            own[call.at] = call.function.merge(own[call.at], other.own[call.at])
        groups = zip(self.distinct, accumulators.distinct, other.distinct, strict=True)
        for columns, held, others in groups:
            for text, counts in others.items():
                self._apply(accumulators, columns, held, text, counts)

    def values(self, accumulators: Accumulators) -> Row:
        """The value of each call."""
        pairs = zip(self.functions, accumulators.own, strict=True)
        return tuple([function.value(accumulator) for function, accumulator in pairs])

    def _distinct(self, accumulators: Accumulators, row: Row, weight: int) -> None:
        for columns, held in zip(self.distinct, accumulators.distinct, strict=True):
            weights = columns.weights(row, weight)
            if weights is not None:
                text = columns.codec.encode(columns.arguments(row))
                self._apply(accumulators, columns, held, text, weights)

    def _apply(
        self,
        accumulators: Accumulators,
        columns: DistinctColumns,
        held: dict[bytes, list[int]],
        text: bytes,
        weights: list[int],
    ) -> None:
        change = columns.merged(held.get(text), weights)
        if any(change.counts):
            held[text] = change.counts
        else:
            held.pop(text, None)
        own = accumulators.own
        for call, comes in change.calls:
            arguments = columns.codec.decode(text)
            do = call.function.accumulate if comes else call.function.retract
            own[call.at] = do(own[call.at], arguments)


class AccumulatorCodec:
    """Accumulators to and from a JSON object: rows, then each call by name, then distinct sets.

    Reading goes by place, so that a call may have another name in a later plan.

    Args:
        calls: The calls.
        functions: For each call what writes its own part of the accumulators.
        sets: How many distinct sets are written.
    """

    __slots__ = ("_keys", "_readers", "_sets", "_writers", "name")

    def __init__(
        self, calls: Sequence[AggregateCall], functions: Sequence[Aggregator[Any]], sets: int
    ) -> None:
        self._writers = [function.to_json for function in functions]
        self._readers = [function.from_json for function in functions]
        self._keys = unique(("rows", *(call.name for call in calls), *(["distinct"] * sets)))
        self._sets = sets
        described = (
            f"{call.function}({', '.join(map(format_type, call.argument_types))})"
            f"{' DISTINCT' * call.is_distinct}{' RETRACT' * call.needs_retraction}"
            for call in calls
        )
        self.name = f"accumulators/1 {', '.join(described)}"
        """What the bytes depend on: functions and types of arguments, in order."""

    def encode(self, value: Accumulators) -> bytes:
        """The JSON object."""
        pairs = zip(self._writers, value.own, strict=True)
        parts: list[Any] = [value.rows]
        parts += [write(own) for write, own in pairs]
        if self._sets:
            parts += [
                [[orjson.loads(text), held[text]] for text in sorted(held)]
                for held in value.distinct[: self._sets]
            ]
        # A copy: the result of `dumps` keeps its buffer of 4 KiB for as long as it lives.
        return b"%b" % orjson.dumps(dict(zip(self._keys, parts, strict=True)))

    def decode(self, data: bytes) -> Accumulators:
        """The accumulators of such bytes.

        Raises:
            StateCorrupt: They are none.
        """
        try:
            rows, *parts = orjson.loads(data).values()
            count = len(self._readers)
            pairs = zip(self._readers, parts[:count], strict=True)
            own = [read(part) for read, part in pairs]
            found = Accumulators(
                own, [{orjson.dumps(key): held for key, held in part} for part in parts[count:]]
            )
        except (ValueError, TypeError, AttributeError, IndexError, ArithmeticError) as error:
            raise StateCorrupt("stored accumulators are not what the plan's calls need") from error
        found.rows = rows
        return found
