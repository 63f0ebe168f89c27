"""What aggregation means: of the ordered changes of a group, recomputed from the beginning.

Integers, booleans and texts only, so that nothing depends on rounding. It shares nothing with the
operators but the call that is computed.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.aggregate.call import AggregateCall
    from operators.changelog import Change, Row


def grouped(
    calls: Sequence[AggregateCall], key: Sequence[int], changes: Sequence[Change]
) -> dict[Row, Row]:
    """The row of aggregates of each group that has rows; without a key of all rows, if any or none.

    Args:
        calls: What is computed.
        key: The columns that rows are grouped by.
        changes: In order; what they take back is there.
    """
    groups: dict[Row, list[Change]] = {} if key else {(): []}
    for change in changes:
        groups.setdefault(tuple(change.row[at] for at in key), []).append(change)
    return {
        group: tuple(aggregate(call, mine) for call in calls)
        for group, mine in groups.items()
        if not key or sum(each.kind.weight for each in mine) > 0
    }


def aggregate(call: AggregateCall, changes: Sequence[Change]) -> Any:
    """The value of a call over the changes of one group."""
    live: list[Row] = []
    counts: Counter[Row] = Counter()
    separator = ","
    for change in changes:
        arguments = tuple(change.row[at] for at in call.arguments)
        if call.filter is not None and change.row[call.filter] is not True:
            continue
        if None in arguments[:1] and (call.ignores_null or call.function != "ARRAY_AGG"):
            continue
        if len(arguments) > 1:
            separator = str(arguments[1])
        counts[arguments] += change.kind.weight
        is_seen = counts[arguments] > (1 if change.kind.weight > 0 else 0)
        if call.is_distinct and is_seen:
            continue
        if change.kind.weight > 0:
            live.append(arguments)
        else:
            live.remove(arguments)
    if call.function == "COUNT":
        return len(live)
    values: list[Any] = [each[0] for each in live]
    if call.function == "LISTAGG":
        return separator.join(values) if values else None
    if call.function == "COLLECT":
        return sorted(Counter(values).items())
    if call.function == "$SUM0":
        return sum(values)
    return _DEFINITIONS[call.function](values) if values else None


def _mean(values: list[int]) -> int:
    return math.trunc(Fraction(sum(values), len(values)))


def _variance(values: list[int], less: int) -> Fraction | None:
    if len(values) <= less:
        return None
    mean = Fraction(sum(values), len(values))
    return Fraction(sum((each - mean) ** 2 for each in values)) / (len(values) - less)


def _bits(values: list[int], joins: Callable[[int, int], int]) -> int:
    first, *others = values
    for each in others:
        first = joins(first, each)
    return first


_DEFINITIONS: dict[str, Callable[[list[Any]], Any]] = {
    "SUM": sum,
    "AVG": _mean,
    "MIN": min,
    "MAX": max,
    "FIRST_VALUE": lambda values: values[0],
    "LAST_VALUE": lambda values: values[-1],
    "ARRAY_AGG": list,
    "VAR_POP": lambda values: _whole(_variance(values, 0)),
    "VAR_SAMP": lambda values: _whole(_variance(values, 1)),
    "BIT_AND": lambda values: _bits(values, int.__and__),
    "BIT_OR": lambda values: _bits(values, int.__or__),
    "BIT_XOR": lambda values: _bits(values, int.__xor__),
    "BOOL_AND": all,
    "BOOL_OR": any,
}


def _whole(value: Fraction | None) -> int | None:
    return None if value is None else math.trunc(value)
