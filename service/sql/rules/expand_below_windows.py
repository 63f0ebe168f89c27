"""Repeat rows for grouping sets before they get their windows, not after.

    before   Aggregate[ws, we, k, $e](Expand[(k), ()](Project[ws, we, k](TUMBLE(t))))
    after    Aggregate[ws, we, k, $e](Project(TUMBLE(Expand[(k), ()](Project[k, ts](t)))))

So the aggregate stands right above its windows, and cuts them itself. The columns of a window that
are grouped by must be in every set. Sessions are of the rows that are there, so they cannot be cut
anew.

Source: Flink `ExpandWindowTableFunctionTransposeRule` (2.3), which does it to sessions too, and
gives wrong plans.
"""

from __future__ import annotations

from dataclasses import replace

from service.plan.rex import InputRef, Rex
from service.sql.algebra import Aggregate, Expand, Filter, Project, Relation, inputs, with_inputs
from service.sql.errors import UnsupportedSql
from service.sql.rex import inputs_of, inputs_of_all, ref
from service.sql.window_columns import window_columns
from service.sql.window_relations import WindowTable


def expand_below_windows(relation: Relation) -> Relation:
    """The relation with the repetitions below windows."""
    made = with_inputs(relation, tuple(expand_below_windows(each) for each in inputs(relation)))
    if isinstance(made, Aggregate) and isinstance(made.input, Expand):
        below = _moved(made, made.input)
        return made if below is None else replace(made, input=below)
    return made


def _moved(aggregate: Aggregate, expand: Expand) -> Relation | None:
    """The same columns as of `expand`, whose windows are above it; None: it stays."""
    windows = window_columns(expand.input)
    if windows is None or not windows.bound(aggregate.grouping):
        return None
    if windows.window.kind == "SESSION":
        raise UnsupportedSql("GROUPING SETS over sessions are not supported")
    project = expand.input
    if not isinstance(project, Project) or expand.copies:
        return None
    below: Relation = project.input
    condition: Rex | None = None
    if isinstance(below, Filter):
        condition = below.condition
        below = below.input
    edges = windows.all.intersection(expand.groups)
    if not isinstance(below, WindowTable) or not all(edges <= each for each in expand.sets):
        return None
    width = len(below.input.row)
    kept = [at for at, rex in enumerate(project.scalars) if not _is_edge(rex, width)]
    expressions = [project.scalars[at] for at in kept]
    read = inputs_of_all(expressions)
    if condition is not None:
        read |= inputs_of(condition)
    if any(each >= width for each in read):
        return None
    source = below.input if condition is None else Filter(below.input, condition)
    return _above(expand, project, below, kept, source)


def _above(
    expand: Expand, project: Project, window: WindowTable, kept: list[int], source: Relation
) -> Relation:
    time = window.spec.time_column
    row = window.input.row
    columns = [project.scalars[at] for at in kept]
    names = [project.names[at] for at in kept]
    time_ref = ref(time, row.types[time])
    if time_ref not in columns:
        columns.append(time_ref)
        names.append(row.names[time])
    groups = tuple(kept.index(each) for each in expand.groups if each in kept)
    sets = tuple(
        frozenset(kept.index(each) for each in chosen if each in kept) for chosen in expand.sets
    )
    number = len(kept)
    repeated = Expand(
        Project(source, tuple(columns), tuple(names)), groups, sets, number_column=number
    )
    at = columns.index(time_ref)
    spec = replace(window.spec, time_column=at if at < number else at + 1, partition=())
    cut = WindowTable(repeated, spec)
    wide = len(repeated.row)
    old = len(window.input.row)

    def place(position: int) -> int:
        if position == expand.number_at:
            return number
        if position in kept:
            return kept.index(position)
        edge = project.scalars[position]
        assert isinstance(edge, InputRef), "what is not kept is an edge of the window"
        return wide + edge.index - old

    places = [place(position) for position in range(len(expand.row))]
    types = cut.row.types
    outputs: list[Rex] = [ref(each, types[each]) for each in places]
    return Project(cut, tuple(outputs), expand.row.names)


def _is_edge(rex: Rex, width: int) -> bool:
    return isinstance(rex, InputRef) and rex.index >= width
