"""Aggregate one side of a join before the join, so that fewer rows are joined.

    before   Aggregate[c.city; SUM(o.v)](Join[o.c = c.id](o, c))                 c.id is a key
    after    Aggregate[city; SUM(s)](Join[c = id](Aggregate[c; SUM(v) AS s](o), c))

Done where Flink's cost model is known to prefer it: an inner join of two tables with keys by
columns that must be equal, unique on one side, and groups that have a column of that side or what
it is joined by.

What a STATE_TTL hint says of the join is lost, as it is in Flink's plans.

Source: Flink `FlinkAggregateJoinTransposeRule` (2.3); when it pays was observed, not derived.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.plan.rex import InputRef
from service.sql.algebra import (
    Aggregate,
    Filter,
    Join,
    Project,
    Relation,
    Scan,
    Watermark,
    inputs,
    with_inputs,
)
from service.sql.functions import aggregate_type
from service.sql.join_keys import equal_columns
from service.sql.logical_keys import is_unique, unique_keys
from service.sql.rex import conjuncts, ref, remap
from service.sql.terms import AggregateCall

_SPLITTABLE = {"COUNT": "$SUM0", "SUM": "SUM", "$SUM0": "$SUM0", "MIN": "MIN", "MAX": "MAX"}
_EXTREMES = ("MIN", "MAX")


@dataclass(frozen=True, slots=True)
class _Split:
    """An aggregate over a join, with columns counted in the join's row."""

    join: Join
    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    names: tuple[str, ...]
    """Of all columns of the aggregate."""
    side: range
    """The columns of the side to be aggregated."""
    kept: frozenset[int]
    """The columns that groups and the join's condition read."""


def push_aggregates(relation: Relation) -> Relation:
    """The relation with aggregates below joins too, where that is worth it."""
    below = tuple(push_aggregates(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if not isinstance(made, Aggregate):
        return made
    found = _split(made)
    return made if found is None else _pushed(found)


def _split(aggregate: Aggregate) -> _Split | None:
    """What is to be pushed; None if nothing is."""
    places, below = _columns(aggregate.input)
    if places is None or not isinstance(below, Join) or not _is_plain(below):
        return None
    if aggregate.sets or aggregate.ttl or not aggregate.grouping:
        return None
    width = len(below.left.row)
    assert below.condition is not None, "it is plain"
    pairs, rest = equal_columns(list(conjuncts(below.condition)), width)
    if rest or not pairs:
        return None
    grouping = tuple(places[each] for each in aggregate.grouping)
    calls = tuple(
        replace(each, arguments=tuple(places[column] for column in each.arguments))
        for each in aggregate.calls
    )
    joined = {left for left, _ in pairs} | {width + right for _, right in pairs}
    kept = frozenset(grouping) | joined
    left, right = range(width), range(width, len(below.row))
    is_left_unique = is_unique(below.left, frozenset(kept & set(left)))
    is_right_unique = is_unique(below.right, frozenset(each - width for each in kept & set(right)))
    if is_left_unique == is_right_unique:
        return None
    side, other = (right, left) if is_left_unique else (left, right)
    has_other = bool(set(grouping) & set(other)) or joined & set(side) <= set(grouping)
    if not has_other or not all(_can_split(each, side) for each in calls):
        return None
    return _Split(below, grouping, calls, aggregate.row.names, side, kept)


def _columns(relation: Relation) -> tuple[tuple[int, ...] | None, Relation]:
    """Where the columns come from, through a projection that only chooses."""
    if not isinstance(relation, Project):
        return tuple(range(len(relation.row))), relation
    chosen = [rex.index for rex in relation.expressions if isinstance(rex, InputRef)]
    is_choice = len(chosen) == len(relation.expressions)
    return (tuple(chosen) if is_choice else None), relation.input


def _is_plain(join: Join) -> bool:
    """Whether it is an inner join of two tables with keys."""
    return (
        join.kind == "INNER"
        and join.condition is not None
        and not join.is_multi
        and all(_is_table(side) and unique_keys(side) for side in (join.left, join.right))
    )


def _is_table(relation: Relation) -> bool:
    while isinstance(relation, (Project, Filter, Watermark)):
        relation = relation.input
    return isinstance(relation, Scan)


def _can_split(each: AggregateCall, side: range) -> bool:
    if each.filter is not None or each.is_distinct or each.function not in _SPLITTABLE:
        return False
    return each.function in _EXTREMES or all(column in side for column in each.arguments)


def _pushed(split: _Split) -> Relation:
    join, side = split.join, split.side
    is_left = side.start == 0
    grouped = tuple(sorted(each - side.start for each in split.kept if each in side))
    position = len(split.grouping)
    inner = [
        (at, each)
        for at, each in enumerate(split.calls)
        if all(column in side for column in each.arguments)
    ]
    partial = tuple(
        replace(
            each,
            name=split.names[position + at],
            arguments=tuple(column - side.start for column in each.arguments),
        )
        for at, each in inner
    )
    aggregated = _narrowed(Aggregate(join.left if is_left else join.right, grouped, partial))
    other, other_columns = _other(split)
    sides = (aggregated, other) if is_left else (other, aggregated)
    begin = 0 if is_left else len(other.row)
    places = {column + side.start: begin + at for at, column in enumerate(grouped)}
    other_begin = len(aggregated.row) if is_left else 0
    places |= {column: other_begin + at for at, column in enumerate(other_columns)}
    assert join.condition is not None, "it is plain"
    condition = remap(join.condition, places)
    joined = Join(sides[0], sides[1], "INNER", condition)
    totals = {at: begin + len(grouped) + number for number, (at, _) in enumerate(inner)}
    return _above(split, joined, places, totals)


def _narrowed(aggregate: Aggregate) -> Aggregate:
    """The aggregate over a projection to the columns that it reads, in their order."""
    used = set(aggregate.grouping).union(*(each.arguments for each in aggregate.calls))
    below, chosen = aggregate.input, sorted(used)
    if len(chosen) == len(below.row):
        return aggregate
    types, names = below.row.types, below.row.names
    project = Project(
        below,
        tuple(ref(each, types[each]) for each in chosen),
        tuple(names[each] for each in chosen),
    )
    calls = tuple(
        replace(each, arguments=tuple(map(chosen.index, each.arguments)))
        for each in aggregate.calls
    )
    grouping = tuple(map(chosen.index, aggregate.grouping))
    return replace(aggregate, input=project, grouping=grouping, calls=calls)


def _other(split: _Split) -> tuple[Relation, tuple[int, ...]]:
    """The side that stays, with what is read of it: keys and groups, then arguments."""
    below = split.join.right if split.side.start == 0 else split.join.left
    offset = len(split.join.left.row) if split.side.start == 0 else 0
    columns = sorted(each for each in split.kept if each not in split.side)
    for each in split.calls:
        columns += [
            column
            for column in each.arguments
            if column not in split.side and column not in columns
        ]
    row = below.row
    chosen = [column - offset for column in columns]
    if chosen == list(range(len(row))):
        return below, tuple(columns)
    made = Project(
        below,
        tuple(ref(each, row.types[each]) for each in chosen),
        tuple(row.names[each] for each in chosen),
    )
    return made, tuple(columns)


def _above(split: _Split, joined: Join, places: dict[int, int], totals: dict[int, int]) -> Relation:
    """What makes the groups of the joined sub-totals: nothing more, if they are groups already."""
    row = joined.row
    grouping = tuple(places[each] for each in split.grouping)
    position = len(grouping)
    sources = [
        totals[at] if at in totals else places[each.arguments[0]]
        for at, each in enumerate(split.calls)
    ]
    if is_unique(joined, frozenset(grouping)):
        outputs = tuple(ref(each, row.types[each]) for each in (*grouping, *sources))
        return Project(joined, outputs, split.names)
    calls = tuple(
        AggregateCall(
            _SPLITTABLE[each.function],
            (source,),
            aggregate_type(_SPLITTABLE[each.function], [row.types[source]], may_be_empty=False),
            split.names[position + at],
        )
        for at, (each, source) in enumerate(zip(split.calls, sources, strict=True))
    )
    if tuple(sorted(grouping)) == grouping:
        return Aggregate(joined, grouping, calls)
    ordered = tuple(sorted(grouping))
    made = Aggregate(joined, ordered, calls)
    order = [*(ordered.index(each) for each in grouping), *range(position, len(made.row))]
    outputs = tuple(ref(each, made.row.types[each]) for each in order)
    return Project(made, outputs, split.names)
