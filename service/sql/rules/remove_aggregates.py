"""Leave out aggregates of groups that are one row each, and DISTINCT below DISTINCT.

    before   Aggregate[id; MAX(y)](d)                          id is a key of d
    after    Project[id, y](d)

    before   Aggregate[k](Union(Aggregate[k](a), b))
    after    Aggregate[k](Union(a, b))

A STATE_TTL hint goes with the aggregate that it was for, as in Flink.

Source: Flink `FlinkAggregateRemoveRule` (2.3), Calcite `AggregateUnionAggregateRule`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.sql.algebra import Aggregate, Project, Relation, Union, inputs, with_inputs
from service.sql.logical_keys import is_unique
from service.sql.rex import cast, ref
from service.sql.rules.merge_projections import is_identity

if TYPE_CHECKING:
    from service.plan.rex import Rex

_OF_ONE_ROW = frozenset({"MAX", "MIN", "SUM"})
"""What gives its argument where there is one row; of other functions Flink keeps the aggregate."""


def remove_aggregates(relation: Relation) -> Relation:
    """The relation without aggregates that change nothing."""
    below = tuple(remove_aggregates(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if not isinstance(made, Aggregate) or made.sets:
        return made
    if isinstance(made.input, Union) and not made.calls:
        made = replace(made, input=_without_distinct(made.input))
    return _of_rows(made) if _is_of_rows(made) else made


def _without_distinct(union: Union) -> Union:
    return replace(union, inputs=tuple(map(_repeating, union.inputs)))


def _repeating(relation: Relation) -> Relation:
    """The input of a DISTINCT over all its columns; any other relation itself."""
    if not isinstance(relation, Aggregate) or relation.calls or relation.sets:
        return relation
    is_whole = relation.grouping == tuple(range(len(relation.input.row)))
    return relation.input if is_whole else relation


def _is_of_rows(aggregate: Aggregate) -> bool:
    """Whether each group is one row, and each call gives a column of it."""
    is_plain = all(
        each.function in _OF_ONE_ROW and each.filter is None and len(each.arguments) == 1
        for each in aggregate.calls
    )
    groups = frozenset(aggregate.grouping)
    return is_plain and bool(groups) and is_unique(aggregate.input, groups)


def _of_rows(aggregate: Aggregate) -> Relation:
    row = aggregate.input.row
    outputs: list[Rex] = [ref(each, row.types[each]) for each in aggregate.grouping]
    for call in aggregate.calls:
        column = ref(call.arguments[0], row.types[call.arguments[0]])
        outputs.append(column if column.type == call.type else cast(column, call.type))
    made = Project(aggregate.input, tuple(outputs), aggregate.row.names)
    return made.input if is_identity(made) else made
