"""Compute an average from a sum and a count that are there anyway.

    before   Aggregate[k; COUNT(v), SUM(v), AVG(v)](t)
    after    Project[k, count, CASE.. sum, CASE.. sum / count](Aggregate[k; COUNT(v), $SUM0(v)](t))

An average, MIN or MAX of what is grouped by is the group's value. Done only where it leaves fewer
calls: else a state for the average alone is cheaper.

Source: Calcite `AggregateReduceFunctionsRule`, under Flink's cost model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.sql import types
from service.sql.algebra import Aggregate, Project, Relation, inputs, with_inputs
from service.sql.functions import aggregate_type
from service.sql.rex import call, cast, literal, ref, type_of
from service.sql.terms import AggregateCall

if TYPE_CHECKING:
    from service.plan.rex import Rex
    from service.sql.window_relations import GroupWindows
    from state.types import LogicalType


def reduce_averages(relation: Relation) -> Relation:
    """The relation with averages of sums and counts where that spares a call."""
    below = tuple(reduce_averages(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if isinstance(made, Aggregate) and any(each.function in _REDUCED for each in made.calls):
        return _reduced(made)
    return made


def _reduced(aggregate: Aggregate) -> Relation:
    calls: list[AggregateCall] = []

    def place(wanted: AggregateCall) -> int:
        """The position of a call, which is added if it is new."""
        for position, each in enumerate(calls):
            if each.identity == wanted.identity:
                return position
        calls.append(wanted)
        return len(calls) - 1

    parts: list[tuple[AggregateCall, int, int]] = []
    for each in aggregate.calls:
        if is_grouped(each, aggregate):
            parts.append((each, -1, -1))
            continue
        if each.function not in _REDUCED:
            parts.append((each, place(each), -1))
            continue
        total = place(sum_call(each, aggregate))
        count = (
            -1
            if each.function == "SUM" and not each.type.nullable
            else place(count_call(each, aggregate))
        )
        parts.append((each, total, count))
    if len(calls) >= len(aggregate.calls):
        return aggregate
    inner = replace(aggregate, calls=tuple(calls))
    width, row = len(aggregate.grouping), inner.row
    outputs: list[Rex] = [ref(index, row.types[index]) for index in range(width)]
    for old, first, second in parts:
        if first < 0:
            outputs.append(grouped_value(old, inner))
            continue
        value: Rex = ref(width + first, row.types[width + first])
        if old.function in _REDUCED:
            counted = None if second < 0 else ref(width + second, row.types[width + second])
            value = value_of(old, value, counted)
        outputs.append(value)
    return Project(inner, tuple(outputs), aggregate.row.names)


def is_grouped(each: AggregateCall, aggregate: Aggregate | GroupWindows) -> bool:
    """Whether a call gives the value that it groups by."""
    return (
        each.function in ("AVG", "MIN", "MAX")
        and each.filter is None
        and each.arguments[0] in aggregate.grouping
    )


def grouped_value(each: AggregateCall, aggregate: Aggregate | GroupWindows) -> Rex:
    """The value of a group, as the call that gives it has it."""
    place = aggregate.grouping.index(each.arguments[0])
    return cast(ref(place, aggregate.row.types[place]), each.type)


def sum_call(average: AggregateCall, aggregate: Aggregate | GroupWindows) -> AggregateCall:
    """The sum of what a call adds up, which is 0 for no values."""
    given = [aggregate.input.row.types[each] for each in average.arguments]
    made = aggregate_type("$SUM0", given, may_be_empty=False)
    name = average.name if average.function == "SUM" else None
    return replace(average, function="$SUM0", type=made, name=name)


def count_call(average: AggregateCall, aggregate: Aggregate | GroupWindows) -> AggregateCall:
    """How many values a call adds up."""
    given = [aggregate.input.row.types[each] for each in average.arguments]
    arguments = average.arguments if types.any_nullable(given) or average.is_distinct else ()
    made = types.BIGINT.with_nullable(False)
    return AggregateCall("COUNT", arguments, made, None, average.filter, average.is_distinct)


def value_of(old: AggregateCall, total: Rex, count: Rex | None) -> Rex:
    """NULL for no values, else the sum, or the sum by the count."""
    summed = total
    if count is not None and old.type.nullable:
        none = call("=", [count, literal(0, types.INT.with_nullable(False))], _NOT_NULL)
        made: LogicalType = type_of(total).with_nullable(True)
        summed = call("CASE", [none, literal(None, made), total], made)
    if old.function == "SUM" or count is None:
        return summed
    quotient = types.arithmetic_type("/", type_of(summed), type_of(count))
    assert quotient is not None, "a sum and a count are numbers"
    return call("CAST", [call("/", [summed, count], quotient)], old.type)


_REDUCED = ("AVG", "SUM")
_NOT_NULL = types.BOOLEAN.with_nullable(False)
