"""Spread DISTINCT aggregates over buckets, so that one hot group is the work of many.

    before   Aggregate[k; COUNT(DISTINCT s), COUNT(*)](t)
    after    Aggregate[k; $SUM0($f2_0), $SUM0($f3)](
               Aggregate[k, $f2; COUNT(DISTINCT s), COUNT(*)](
                 Project[k, s, MOD(HASH_CODE(s), 1024) AS $f2](t)))

With several distinct columns each row is first repeated for each of them (grouping sets), and calls
look only at the repetition that is theirs. Only with `table.optimizer.distinct-agg.split.enabled`.

Beside a call that goes by the order of rows nothing is split: buckets have their rows in order, and
nobody knows the order of all of them any more.

Source: Flink `SplitAggregateRule` (2.3), which also splits FIRST_VALUE, LAST_VALUE and LISTAGG.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.sql import types
from service.sql.algebra import Aggregate, Expand, Project, Relation, inputs, with_inputs
from service.sql.functions import aggregate_type
from service.sql.rex import call, cast, literal, ref, type_of
from service.sql.terms import AggregateCall

if TYPE_CHECKING:
    from service.plan.rex import Rex
    from service.sql.options import Options
    from state.types import LogicalType

_SPLITTABLE = frozenset({"COUNT", "SUM", "$SUM0", "AVG", "MIN", "MAX"})

_NEVER_NULL = frozenset({"COUNT", "$SUM0"})


def split_distinct(relation: Relation, options: Options) -> Relation:
    """The relation with distinct aggregates in two steps, if the options ask for it."""
    if not options.splits_distinct:
        return relation
    below = tuple(split_distinct(each, options) for each in inputs(relation))
    made = with_inputs(relation, below)
    if isinstance(made, Aggregate) and _can_split(made):
        return _split(made, options.distinct_buckets)
    return made


def _can_split(aggregate: Aggregate) -> bool:
    has_distinct = any(each.is_distinct for each in aggregate.calls)
    merges = all(
        each.function in _SPLITTABLE and len(each.arguments) < 2 for each in aggregate.calls
    )
    return has_distinct and merges and not aggregate.sets


def _split(aggregate: Aggregate, buckets: int) -> Relation:
    distinct = sorted({each.arguments[0] for each in aggregate.calls if _needs_bucket(each)})
    bucketed = _with_buckets(aggregate.input, distinct, buckets)
    width = len(aggregate.input.row)
    hashes = {column: width + position for position, column in enumerate(distinct)}
    calls = [part for each in aggregate.calls for part in _partial(each, aggregate)]
    grouping = (*aggregate.grouping, *hashes.values())
    below: Relation = bucketed
    if len(distinct) > 1:
        below, calls = _repeated(bucketed, calls, hashes)
    inner = Aggregate(below, grouping, tuple(calls), aggregate.ttl)
    return _final(aggregate, inner, len(hashes))


def _needs_bucket(each: AggregateCall) -> bool:
    """Distinct aggregates, and extremes, are kept apart by value."""
    return each.is_distinct or each.function in ("MIN", "MAX")


def _with_buckets(below: Relation, distinct: list[int], buckets: int) -> Relation:
    row = below.row
    columns: list[Rex] = list(map(ref, range(len(row)), row.types))
    names = list(row.names)
    for position, column in enumerate(distinct):
        nullable = row.types[column].nullable
        kind = types.INT.with_nullable(nullable)
        hashed = call("HASH_CODE", [ref(column, row.types[column])], kind)
        count = literal(buckets, types.INT.with_nullable(False))
        columns.append(call("MOD", [hashed, count], kind))
        names.append(f"$f{len(row) + position}")
    return Project(below, tuple(columns), tuple(names))


def _partial(each: AggregateCall, aggregate: Aggregate) -> list[AggregateCall]:
    """What the first step computes of a call: an average is a sum and a count."""
    if each.function != "AVG":
        return [replace(each, name=None)]
    given = [aggregate.input.row.types[column] for column in each.arguments]
    total = replace(
        each, function="$SUM0", name=None, type=aggregate_type("$SUM0", given, may_be_empty=False)
    )
    count = replace(each, function="COUNT", name=None, type=types.BIGINT.with_nullable(False))
    return [total, count]


def _repeated(
    below: Relation, calls: list[AggregateCall], hashes: dict[int, int]
) -> tuple[Relation, list[AggregateCall]]:
    """Rows repeated for each distinct column, and the calls' filters on their repetition."""
    has_others = any(not _needs_bucket(each) for each in calls)
    row = below.row
    groups = list(hashes.values())
    sets: list[frozenset[int]] = [frozenset({column}) for column in groups]
    if has_others:
        sets.append(frozenset())
    expanded = Expand(below, tuple(groups), tuple(sets))
    width = len(row)
    kinds = expanded.row.types
    columns: list[Rex] = [ref(index, kinds[index]) for index in range(width)]
    names = list(row.names)
    places: dict[tuple[int, int | None], int] = {}
    filtered = []
    for each in calls:
        own = list(hashes).index(each.arguments[0]) if _needs_bucket(each) else -1
        number = expanded.numbers()[own]
        own_filter = each.filter
        if (number, own_filter) not in places:
            places[number, own_filter] = len(columns)
            test = _is_repetition(width, number)
            if own_filter is not None:
                both = [test, ref(own_filter, row.types[own_filter])]
                test = call("AND", both, _NOT_NULL)
            columns.append(test)
            base = f"$g_{number}"
            names.append(base if base not in names else f"{base}_{len(names)}")
        # A group may have rows in other repetitions only.
        kind = each.type if each.function in _NEVER_NULL else each.type.with_nullable(True)
        filtered.append(replace(each, filter=places[number, own_filter], type=kind))
    return Project(expanded, tuple(columns), tuple(names)), filtered


def _is_repetition(column: int, number: int) -> Rex:
    kind = types.BIGINT.with_nullable(False)
    return call(
        "=", [ref(column, kind), literal(number, types.INT.with_nullable(False))], _NOT_NULL
    )


def _final(aggregate: Aggregate, inner: Aggregate, buckets: int) -> Relation:
    """The second step: merges the buckets of each group."""
    width = len(aggregate.grouping)
    row = inner.row
    at = width + buckets
    calls: list[AggregateCall] = []
    for each in aggregate.calls:
        for part in _partial(each, aggregate):
            function = "$SUM0" if part.function in ("COUNT", "$SUM0") else part.function
            calls.append(
                AggregateCall(function, (at,), _merged_type(function, row.types[at], part))
            )
            at += 1
    final = Aggregate(inner, tuple(range(width)), tuple(calls), aggregate.ttl)
    if len(calls) == len(aggregate.calls):
        return _named(final, aggregate)
    return _with_averages(final, aggregate)


def _merged_type(function: str, given: LogicalType, part: AggregateCall) -> LogicalType:
    if function == "$SUM0":
        return given.with_nullable(False)
    return part.type.with_nullable(part.type.nullable or given.nullable)


def _named(final: Aggregate, aggregate: Aggregate) -> Relation:
    """The merged calls under the names that they had, of the types that they had."""
    row = final.row
    columns = tuple(
        cast(ref(at, kind), made)
        for at, (kind, made) in enumerate(zip(row.types, aggregate.row.types, strict=True))
    )
    return Project(final, columns, aggregate.row.names)


def _with_averages(final: Aggregate, aggregate: Aggregate) -> Relation:
    width = len(aggregate.grouping)
    row = final.row
    outputs: list[Rex] = [ref(index, row.types[index]) for index in range(width)]
    names = list(row.names[:width])
    at = width
    for each in aggregate.calls:
        value: Rex = ref(at, row.types[at])
        names.append(f"$f{len(outputs)}")
        if each.function == "AVG":
            count = ref(at + 1, row.types[at + 1])
            value = _average(value, count)
            at += 1
        outputs.append(cast(value, each.type))
        at += 1
    return Project(final, tuple(outputs), tuple(names))


def _average(total: Rex, count: Rex) -> Rex:
    quotient = types.arithmetic_type("/", type_of(total), type_of(count))
    assert quotient is not None, "a sum and a count are numbers"
    none = call("=", [count, literal(0, types.BIGINT.with_nullable(False))], _NOT_NULL)
    made = quotient.with_nullable(True)
    null = literal(None, made)
    return call("IF", [none, null, call("/", [total, count], quotient)], made)


_NOT_NULL = types.BOOLEAN.with_nullable(False)
