"""Sort and limit first, project what is left.

    before   Sort[p, first 3](Project[id, p](t))
    after    Project[id, p](Sort[p, first 3](t))

A projection that also filters stays below, and so does one that computes a sort key. An aggregate
takes the place of a projection below it that only reorders its input's columns.

Source: Flink's cost model, which prefers one Calc over few rows; `FlinkAggregateProjectMergeRule`.
"""

from __future__ import annotations

from dataclasses import replace

from service.plan.rex import InputRef
from service.sql.algebra import (
    Aggregate,
    Filter,
    Project,
    Relation,
    Sort,
    Values,
    inputs,
    with_inputs,
)
from service.sql.logical_keys import is_unique
from service.sql.rex import ref


def lift_projections(relation: Relation) -> Relation:
    """The relation with projections above sorts and aggregates where Flink has them."""
    below = tuple(lift_projections(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if isinstance(made, Sort) and isinstance(made.input, Project):
        # Without a limit only for the sake of a projection that is above anyway.
        return _above_sort(made, made.input) if made.fetch or made.offset else made
    if isinstance(made, Project) and isinstance(made.input, Sort):
        sort = made.input
        if isinstance(sort.input, Project):
            return with_inputs(made, (_above_sort(sort, sort.input),))
    if isinstance(made, Aggregate) and isinstance(made.input, Project):
        return _above_aggregate(made, made.input)
    return made


def _above_sort(sort: Sort, project: Project) -> Relation:
    if isinstance(project.input, (Filter, Values)):
        return sort
    keys = []
    for key in sort.order:
        source = project.expressions[key.column]
        if not isinstance(source, InputRef):
            return sort
        keys.append(replace(key, column=source.index))
    below = lift_projections(replace(sort, input=project.input, order=tuple(keys)))
    return Project(below, project.expressions, project.names)


def _above_aggregate(aggregate: Aggregate, project: Project) -> Relation:
    """All columns of the input, in another order: the aggregate refers to the input itself."""
    columns = [rex.index for rex in project.expressions if isinstance(rex, InputRef)]
    whole = range(len(project.input.row))
    is_shuffle = len(columns) == len(project.expressions) and sorted(columns) == list(whole)
    if not is_shuffle or aggregate.sets or project.names != _names(project, columns):
        return aggregate
    if isinstance(project.input, Filter):
        return aggregate
    if is_unique(project.input, frozenset(columns[each] for each in aggregate.grouping)):
        return aggregate  # no fewer rows above it than below
    grouping = tuple(sorted(columns[each] for each in aggregate.grouping))
    calls = tuple(
        replace(call.over(columns.__getitem__), name=name)
        for call, name in zip(
            aggregate.calls, aggregate.row.names[len(aggregate.grouping) :], strict=True
        )
    )
    merged = replace(aggregate, input=project.input, grouping=grouping, calls=calls)
    places = [grouping.index(columns[each]) for each in aggregate.grouping]
    if places == list(range(len(places))):
        return merged
    row = merged.row
    order = [*places, *range(len(places), len(row))]
    back = tuple(ref(each, row.types[each]) for each in order)
    return Project(merged, back, tuple(row.names[each] for each in order))


def _names(project: Project, columns: list[int]) -> tuple[str, ...]:
    return tuple(project.input.row.names[each] for each in columns)
