"""LATERAL (SELECT ..): a subquery of FROM that reads columns of what stands before it.

It becomes a join by the columns that its WHERE compares: what is counted, sorted or grouped in it
is so for each of their values.

    SELECT a.id, b.y FROM a, LATERAL (SELECT y FROM b WHERE b.k = a.k ORDER BY y LIMIT 3) AS b
        a, joined with the first 3 of each k of b

Source: Flink `FlinkDecorrelateProgram`, `CorrelateSortToRankRule` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import InputRef
from service.sql import types
from service.sql.algebra import Aggregate, Filter, Join, Project, Relation, Sort
from service.sql.binder.correlated import correlated_keys
from service.sql.binder.merging import Bound
from service.sql.binder.subqueries import correlates, has_outer
from service.sql.dialect import position_of
from service.sql.errors import UnsupportedSql
from service.sql.expressions import ExpressionBinder
from service.sql.rex import call, conjunction, conjuncts, inputs_of, literal, ref, remap, type_of
from service.sql.scope import Scope, Source
from service.sql.terms import RankRange, Row, unique_names
from service.sql.window_relations import Rank

if TYPE_CHECKING:
    from service.plan.rex import Rex
    from service.sql.binder.query import QueryBinder
    from service.sql.source_text import Fragment
    from service.sql.terms import JoinKind

_HINT = "compare columns for equality in its WHERE, without outer columns elsewhere"


def lateral_query(node: exp.Expression) -> exp.Expression | None:
    """The query of LATERAL (SELECT ..); None of anything else."""
    is_query = isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery)
    return node.this if is_query else None


@dataclass(frozen=True, slots=True)
class _Lifted:
    """A subquery without what it says of the rows around it, and that."""

    relation: Relation
    columns: tuple[int, ...]
    """Where each column of the subquery is."""
    keys: tuple[int, ...]
    """Where the columns are that are compared."""
    outer: tuple[Rex, ...]
    """For each key the column around it that it is equal to."""
    base: Relation | None = None
    """Whose rows it has: all but those whose key is NULL; None if it leaves others out."""
    counts: frozenset[int] = frozenset()
    """Columns of the subquery that are 0 where there is no row of a key."""
    is_single: bool = False
    """Whether it has one row by itself, also of no rows."""


def join_lateral(
    queries: QueryBinder,
    left: Bound,
    node: exp.Expression,
    join: exp.Expression,
    kind: JoinKind,
    fragment: Fragment,
) -> Bound:
    """Rows joined with what a subquery gives for each.

    Raises:
        SqlError: The subquery means nothing, or depends on the rows in a way that is not planned.
    """
    position = position_of(node, fragment)
    query = lateral_query(node)
    assert query is not None, "the caller has looked"
    if kind not in ("INNER", "LEFT"):
        raise UnsupportedSql(f"Unknown join type {kind}", position)
    given = queries.correlated(query, Scope(left.sources, merged=left.merged))
    lifted = _lifted(given)
    if lifted is None:
        raise UnsupportedSql("this LATERAL subquery is not supported", position, hint=_HINT)
    if lifted.is_single and lifted.outer and (kind == "INNER" or not _is_on_true(join)):
        raise UnsupportedSql(
            "LATERAL of an aggregate without GROUP BY is supported only with LEFT JOIN .. ON TRUE",
            position,
            hint="an inner join would lose the rows for which it has nothing to aggregate",
        )
    width = len(left.relation.row)
    shown = _named(given.row, node)
    made = shown.nullable() if kind == "LEFT" else shown
    sources = (*left.sources, Source(node.alias, made, width))
    parts = [
        _equal(outer, ref(width + at, lifted.relation.row.types[at]))
        for at, outer in zip(lifted.keys, lifted.outer, strict=True)
    ]
    if join.args.get("on") is not None and not _is_on_true(join):
        scope = Scope(sources, merged=left.merged)
        parts += conjuncts(ExpressionBinder(scope, fragment).condition(join.args["on"]))
    if kind == "INNER" and len(parts) == len(lifted.keys) and _is_same(left.relation, lifted):
        return Bound(_ranked(left.relation, lifted, shown), sources, left.merged)
    joined = Join(left.relation, lifted.relation, kind, conjunction(parts))
    kinds = joined.row.types
    chosen = [*range(width), *(width + at for at in lifted.columns)]
    columns: list[Rex] = [ref(at, kinds[at]) for at in chosen]
    for at in lifted.counts:
        columns[width + at] = _or_zero(columns[width + at])
    names = unique_names((), [*left.relation.row.names, *shown.names])
    return Bound(Project(joined, tuple(columns), names), sources, left.merged)


def _lifted(relation: Relation) -> _Lifted | None:
    if not correlates(relation):
        return _Lifted(relation, _all(relation), (), ())
    match relation:
        case Filter():
            return _of_filter(relation)
        case Project():
            below = _lifted(relation.input)
            return None if below is None else _of_project(relation, below)
        case Sort() if relation.fetch and relation.order:
            below = _lifted(relation.input)
            return None if below is None else _of_sort(relation, below)
        case Aggregate() if not relation.sets and isinstance(relation.input, Project):
            below = _lifted(relation.input.input)
            return None if below is None else _of_aggregate(relation, relation.input, below)
        case _:
            return None


def _of_filter(relation: Filter) -> _Lifted | None:
    found = correlated_keys(relation)
    if found is None:
        return None
    own = [part for part in conjuncts(relation.condition) if not has_outer(part)]
    keys = tuple(each.index for each in found.own)
    base = None if own else relation.input
    return _Lifted(found.relation, _all(relation), keys, found.outer, base)


def _all(relation: Relation) -> tuple[int, ...]:
    return tuple(range(len(relation.row)))


def _of_project(project: Project, below: _Lifted) -> _Lifted | None:
    if any(map(has_outer, project.expressions)):
        return None
    counts = set()
    for at, expression in enumerate(project.expressions):
        if isinstance(expression, InputRef):
            counts |= {at} if expression.index in below.counts else set()
        elif below.is_single and (
            inputs_of(expression) & below.counts or not inputs_of(expression)
        ):
            # What is computed of no rows is not what is computed of their NULL.
            return None
    moved = dict(enumerate(below.columns))
    expressions = [remap(each, moved) for each in project.expressions]
    lifted = replace(below, counts=frozenset(counts))
    columns = [each.index for each in expressions if isinstance(each, InputRef)]
    if isinstance(below.relation, Aggregate) and len(columns) == len(expressions):
        return replace(lifted, columns=tuple(columns))
    names, keys = list(project.names), []
    for key in below.keys:
        column = ref(key, below.relation.row.types[key])
        if column not in expressions:
            expressions.append(column)
            names.append(below.relation.row.names[key])
        keys.append(expressions.index(column))
    made = Project(below.relation, tuple(expressions), unique_names((), names))
    places = tuple(range(len(project.names)))
    return replace(lifted, relation=made, columns=places, keys=tuple(keys))


def _of_sort(sort: Sort, below: _Lifted) -> _Lifted | None:
    """The first rows of each key."""
    if below.is_single or sort.fetch is None:
        return None
    bounds = RankRange(sort.offset + 1, sort.offset + sort.fetch)
    order = tuple(replace(key, column=below.columns[key.column]) for key in sort.order)
    return replace(below, relation=Rank(below.relation, below.keys, order, bounds, None))


def _of_aggregate(aggregate: Aggregate, project: Project, below: _Lifted) -> _Lifted | None:
    """A row for each group and key; the groups come first, then keys, then what is aggregated."""
    if below.is_single or any(map(has_outer, project.expressions)):
        return None
    moved = dict(enumerate(below.columns))
    given = [remap(each, moved) for each in project.scalars]
    own_keys = [ref(key, below.relation.row.types[key]) for key in below.keys]
    named = dict(zip(given, project.names, strict=True))
    named |= {key: below.relation.row.names[key.index] for key in own_keys if key not in named}
    groups = [given[each] for each in aggregate.grouping]
    grouped = list(dict.fromkeys([*groups, *own_keys]))
    read = {place for each in aggregate.calls for place in (*each.arguments, each.filter)}
    taken = [each for place, each in enumerate(given) if place in read]
    columns = list(dict.fromkeys([*grouped, *taken]))
    names = unique_names((), [named[each] for each in columns])
    calls = tuple(each.over(lambda place: columns.index(given[place])) for each in aggregate.calls)
    arguments = Project(below.relation, tuple(columns), names)
    made = Aggregate(arguments, tuple(range(len(grouped))), calls, aggregate.ttl)
    places = [*map(grouped.index, groups), *range(len(grouped), len(grouped) + len(calls))]
    counts = frozenset(at for at, each in enumerate(calls) if each.function == "COUNT")
    return _Lifted(
        made,
        tuple(places),
        tuple(map(grouped.index, own_keys)),
        below.outer,
        counts=frozenset() if groups else counts,
        is_single=not groups,
    )


def _is_same(left: Relation, lifted: _Lifted) -> bool:
    """Whether the left has just the keys of the rows that the subquery is of, each once."""
    if isinstance(left, Project) and left.expressions == tuple(
        map(ref, _all(left.input), left.input.row.types)
    ):
        left = left.input
    if lifted.base is None or not isinstance(left, Aggregate) or left.calls or left.sets:
        return False
    below, grouping = left.input, list(left.grouping)
    if isinstance(below, Project):
        columns = [below.expressions[each] for each in grouping]
        if not all(isinstance(each, InputRef) for each in columns):
            return False
        grouping, below = (
            [each.index for each in columns if isinstance(each, InputRef)],
            below.input,
        )
    compared = [outer.index for outer in lifted.outer if isinstance(outer, InputRef)]
    sources = dict(zip(compared, _sources(lifted), strict=True))
    return below == lifted.base and [sources.get(at) for at in range(len(grouping))] == grouping


def _sources(lifted: _Lifted) -> list[int | None]:
    """The columns of the rows that the subquery is of, which the keys are."""
    found: list[int | None] = []
    for key in lifted.keys:
        place: int | None = key
        relation = lifted.relation
        while place is not None and isinstance(relation, (Project, Rank)):
            if isinstance(relation, Project):
                column = relation.expressions[place]
                place = column.index if isinstance(column, InputRef) else None
            relation = relation.input
        found.append(place)
    return found


def _ranked(left: Relation, lifted: _Lifted, shown: Row) -> Relation:
    """The subquery's rows, each beside its key, which is all that the left has."""
    relation = lifted.relation
    compared = [outer.index for outer in lifted.outer if isinstance(outer, InputRef)]
    places = dict(zip(compared, lifted.keys, strict=True))
    chosen = [*(places[at] for at in range(len(left.row))), *lifted.columns]
    if isinstance(relation, Rank) and isinstance(relation.input, Project):
        # A rank of whole rows: columns are left out above it, if at all.
        columns = [each.index for each in relation.input.scalars if isinstance(each, InputRef)]
        if len(columns) == len(relation.input.names):
            order = tuple(replace(key, column=columns[key.column]) for key in relation.order)
            partition = tuple(columns[at] for at in relation.partition)
            below = relation.input.input
            relation = replace(relation, input=below, partition=partition, order=order)
            chosen = [columns[at] for at in chosen]
    kinds = relation.row.types
    names = unique_names((), [*left.row.names, *shown.names])
    return Project(relation, tuple(ref(at, kinds[at]) for at in chosen), names)


def _named(row: Row, node: exp.Expression) -> Row:
    alias = node.args.get("alias")
    names = tuple(column.name for column in alias.columns) if alias is not None else ()
    return Row(names, row.types) if len(names) == len(row) else row


def _is_on_true(join: exp.Expression) -> bool:
    on = join.args.get("on")
    return on is None or (isinstance(on, exp.Boolean) and bool(on.this))


def _equal(outer: Rex, own: Rex) -> Rex:
    nullable = type_of(outer).nullable or type_of(own).nullable
    return call("=", [outer, own], types.BOOLEAN.with_nullable(nullable))


def _or_zero(count: Rex) -> Rex:
    """A count, or 0 where the join found nothing."""
    made = type_of(count).with_nullable(False)
    is_null = call("IS NULL", [count], types.BOOLEAN.with_nullable(False))
    return call("CASE", [is_null, literal(0, made), count], type_of(count))
