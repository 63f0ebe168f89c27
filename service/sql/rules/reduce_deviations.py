"""Compute deviations and variances of squared distances and a count.

    before   Aggregate[k; STDDEV_POP(v)](t)
    after    Project[k, POWER($f1 / $f2, 0.5)](Aggregate[k; $WELFORD_M2$1(v), COUNT(v)](t))

No operator computes a deviation itself, so that this is always done, and with it averages and sums
of the same aggregate: as SUM, or as $SUM0 where that leaves fewer calls.

Source: Flink `FlinkAggregateReduceFunctionsRule` (2.3) and its cost model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from service.sql import types
from service.sql.algebra import Aggregate, Project, Relation, inputs, with_inputs
from service.sql.deviations import computed, deviation_of
from service.sql.functions import AGGREGATE_FUNCTIONS, SQUARES, aggregate_type
from service.sql.rex import cast, ref
from service.sql.rules.reduce_averages import (
    count_call,
    grouped_value,
    is_grouped,
    sum_call,
    value_of,
)
from service.sql.window_relations import GroupWindows

if TYPE_CHECKING:
    from service.plan.rex import Rex
    from service.sql.terms import AggregateCall

Sums = Literal["SUM", "$SUM0"]


def reduce_deviations(relation: Relation) -> Relation:
    """The relation without aggregates that are deviations or variances."""
    below = tuple(reduce_deviations(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if isinstance(made, (Aggregate, GroupWindows)) and any(map(_is_deviation, made.calls)):
        # The first where both have as many calls.
        return min((_Reduction(made, sums) for sums in _SUMS), key=_Reduction.width).relation()
    return made


_SUMS: tuple[Sums, ...] = ("SUM", "$SUM0")


def _is_deviation(each: AggregateCall) -> bool:
    found = AGGREGATE_FUNCTIONS.get(each.function)
    return found is not None and found.kind == "deviation"


class _Reduction:
    """An aggregate in other calls, and what each of the old ones is computed from."""

    def __init__(self, aggregate: Aggregate | GroupWindows, sums: Sums) -> None:
        self._aggregate = aggregate
        self._sums = sums
        self._calls: list[AggregateCall] = []
        self._parts = [(each, *self._places(each)) for each in aggregate.calls]

    def width(self) -> int:
        """How many calls it has."""
        return len(self._calls)

    def relation(self) -> Relation:
        """The projection over the aggregate."""
        old = self._aggregate
        inner = replace(old, calls=tuple(self._calls))
        width, row = len(old.grouping), inner.row
        outputs: list[Rex] = [ref(index, row.types[index]) for index in range(width)]
        for each, first, second in self._parts:
            if first < 0:
                outputs.append(grouped_value(each, inner))
                continue
            value = ref(width + first, row.types[width + first])
            count = None if second is None else ref(width + second, row.types[width + second])
            outputs.append(self._value(each, value, count))
        # What a window tells of itself stands behind the calls.
        outputs += [ref(at, row.types[at]) for at in range(width + len(self._calls), len(row))]
        return Project(inner, tuple(outputs), old.row.names)

    def _places(self, each: AggregateCall) -> tuple[int, int | None]:
        """Where what a call is computed from is: a sum or itself, and a count; -1: the group."""
        if is_grouped(each, self._aggregate):
            return -1, None
        count = count_call(each, self._aggregate)
        if _is_deviation(each):
            squares = replace(each, function=SQUARES, type=types.DOUBLE, name=None)
            return self._place(squares), self._place(count)
        if each.function == "AVG":
            total = sum_call(each, self._aggregate)
            if self._sums == "SUM":
                given = [self._aggregate.input.row.types[at] for at in each.arguments]
                made = aggregate_type("SUM", given, may_be_empty=each.type.nullable)
                total = replace(total, function="SUM", type=made)
            return self._place(total), self._place(count)
        if each.function == "SUM":
            summed = self._place(sum_call(each, self._aggregate))
            return summed, self._place(count) if each.type.nullable else None
        return self._place(each), None

    def _place(self, wanted: AggregateCall) -> int:
        """The position of a call, which is added if it is new."""
        identities = [each.identity for each in self._calls]
        if wanted.identity not in identities:
            self._calls.append(wanted)
            return len(identities)
        return identities.index(wanted.identity)

    def _value(self, old: AggregateCall, value: Rex, count: Rex | None) -> Rex:
        if _is_deviation(old):
            assert count is not None, "a deviation has a count"
            return deviation_of(old.function, value, count, old.type)
        if old.function == "AVG" and self._sums == "SUM":
            assert count is not None, "an average has a count"
            return cast(computed("/", value, count), old.type)
        return value_of(old, value, count) if old.function in ("AVG", "SUM") else value
