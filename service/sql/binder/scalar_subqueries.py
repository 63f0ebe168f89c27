"""Subqueries as values: `x > (SELECT MAX(y) FROM b)`, in WHERE, HAVING and select lists.

Each becomes an outer join below the expression, whose right side has one row at most: an aggregate
of everything has one, else SINGLE_VALUE sees to it. A subquery whose WHERE compares columns of its
own with columns around it is grouped by its own, and joined on them; such a subquery must be an
aggregate. A COUNT of no rows is 0, where the join finds nothing.

Source: Calcite `SubQueryRemoveRule`, `RelDecorrelator`; Flink `FlinkSubQueryRemoveRule` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import is_
from typing import TYPE_CHECKING

from sqlglot import exp

from service.sql import types
from service.sql.algebra import Aggregate, Join, Project, Relation
from service.sql.binder.correlated import correlated_keys
from service.sql.binder.marked_subqueries import MarkedSubqueries, asked, is_marked
from service.sql.binder.subqueries import correlates, has_outer
from service.sql.deadline import check_time
from service.sql.dialect import position_of
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.functions import aggregate_type
from service.sql.quantifiers import is_quantified
from service.sql.rex import call, cast, conjunction, has_over, literal, ref, rewrite, type_of
from service.sql.terms import AggregateCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.plan.rex import InputRef, Rex
    from service.sql.binder.marked_subqueries import Asked
    from service.sql.binder.query import QueryBinder
    from service.sql.errors import Position
    from service.sql.expressions import ExpressionBinder
    from service.sql.rex import Expression
    from service.sql.scope import Scope
    from service.sql.source_text import Fragment


@dataclass(frozen=True, slots=True)
class _Value:
    """What a subquery gives: a row for each key, or one row without keys."""

    relation: Relation
    outer: tuple[Rex, ...]
    """What each of the first columns must be equal to."""
    shown: Rex
    """Over the columns of the relation."""
    counts: frozenset[int] = frozenset()
    """The columns that are 0, not NULL, where there is no row."""


class ScalarSubqueries:
    """The subqueries that stand as values in one query block; each is joined where it is used."""

    def __init__(self, queries: QueryBinder, fragment: Fragment, scope: Scope) -> None:
        self._queries = queries
        self._fragment = fragment
        self._scope = scope
        self._marks = MarkedSubqueries(queries, fragment, scope)
        self._values: dict[int, Rex] = {}
        self._marked_before: dict[tuple[str, Asked], Rex] = {}

    def join(
        self,
        relation: Relation,
        nodes: list[exp.Expression],
        binder: ExpressionBinder,
        *,
        how: Asked,
        is_grouped: bool = False,
    ) -> Relation:
        """The relation with columns more for each subquery in these expressions.

        Args:
            relation: What the expressions are over.
            nodes: The expressions.
            binder: Binds what is compared with the rows of a subquery.
            how: What is asked of the expressions.
            is_grouped: Whether the relation no longer has the columns around the subqueries.
        """
        for node in nodes:
            for found in subqueries(node):
                if is_marked(found):
                    is_part = is_quantified(found) and found is not _condition(node)
                    own = "VALUE" if is_part else asked(found, node, how)
                    same = repr(found), own
                    if same not in self._marked_before:
                        relation = self._marked(relation, found, binder, own, is_grouped=is_grouped)
                        self._marked_before[same] = self._values[id(found)]
                    self._values[id(found)] = self._marked_before[same]
                else:
                    relation = self._joined(relation, found, is_grouped=is_grouped)
        return relation

    def _marked(
        self,
        left: Relation,
        node: exp.Expression,
        binder: ExpressionBinder,
        how: Asked,
        *,
        is_grouped: bool,
    ) -> Relation:
        joined, value = self._marks.join(left, node, binder, how, is_grouped=is_grouped)
        self._values[id(node)] = value
        return joined

    def meaning(self, node: exp.Expression) -> Expression | None:
        """The column of a subquery that was joined; None for anything else."""
        return self._values.get(id(node))

    def _joined(self, left: Relation, node: exp.Expression, *, is_grouped: bool) -> Relation:
        right = self._queries.correlated(node, self._scope)
        if len(right.row) != 1:
            raise ValidationError(
                f"a subquery as a value has one column, not {len(right.row)}", self._at(node)
            )
        value = _single(right) if not correlates(right) else self._by_key(right, node)
        if value.outer and is_grouped:
            raise UnsupportedSql(
                "a correlated subquery above GROUP BY is not supported", self._at(node)
            )
        width = len(left.row)
        types_of_keys = value.relation.row.types
        parts = [
            _equal(outer, ref(width + at, types_of_keys[at]))
            for at, outer in enumerate(value.outer)
        ]
        joined = Join(left, value.relation, "LEFT", conjunction(parts), is_subquery=True)

        def column(each: InputRef) -> Rex:
            made = ref(width + each.index, joined.row.types[width + each.index])
            return _or_zero(made) if each.index in value.counts else made

        shown = rewrite(value.shown, column)
        self._values[id(node)] = cast(shown, type_of(shown).with_nullable(True))
        return joined

    def _by_key(self, right: Relation, node: exp.Expression) -> _Value:
        """An aggregate of the rows that belong to each outer row: one for each key."""
        refusal = UnsupportedSql(
            "this correlated subquery as a value is not supported",
            self._at(node),
            hint="select aggregates only, and compare columns for equality in its WHERE",
        )
        if not isinstance(right, Project) or not isinstance(right.input, Aggregate):
            raise refusal
        aggregate = right.input
        arguments = aggregate.input
        if aggregate.grouping or has_over(right.expressions) or has_outer(right.expressions[0]):
            raise refusal
        if not isinstance(arguments, Project) or any(map(has_outer, arguments.expressions)):
            raise refusal
        found = correlated_keys(arguments.input)
        if found is None:
            raise refusal
        keys = list(found.own)
        return _grouped(aggregate, arguments, found.relation, keys, found.outer, right.scalars[0])

    def _at(self, node: exp.Expression) -> Position:
        return position_of(node, self._fragment)


def subqueries(node: exp.Expression) -> Iterator[exp.Expression]:
    """The subqueries in an expression: as values, and IN, EXISTS and ANY with what they ask."""
    if isinstance(node, (exp.Subquery, exp.Exists)):
        yield node
        return
    if isinstance(node, exp.Select):
        return
    for name, part in node.args.items():
        if isinstance(node, exp.In) and name == "query":
            continue
        if name == "expression" and is_quantified(node):
            continue
        for each in part if isinstance(part, list) else [part]:
            if isinstance(each, exp.Expression):
                yield from subqueries(each)
    if is_marked(node):
        yield node


def without_repeats(node: exp.Expression) -> exp.Expression:
    """A condition without what AND or OR repeats, if there are subqueries in it."""
    if isinstance(node, (exp.Paren, exp.Not)):
        inner = without_repeats(node.this)
        return node if inner is node.this else type(node)(this=inner)
    if not isinstance(node, (exp.And, exp.Or)) or not any(subqueries(node)):
        return node
    check_time()
    before, seen = _operands(node), set[str]()
    after = [without_repeats(each) for each in before]
    unique: list[exp.Expression] = []
    for each in after:
        if (text := repr(_without_brackets(each))) not in seen:
            seen.add(text)
            unique.append(each)
    if len(unique) == len(before) and all(map(is_, unique, before)):
        return node
    made = unique[0]
    for each in unique[1:]:
        made = type(node)(this=made, expression=each)
    return made


def _operands(node: exp.Expression) -> list[exp.Expression]:
    """What a chain of AND, or of OR, has, in its order."""
    found, pending = [], [node]
    while pending:
        part = _without_brackets(pending.pop())
        if isinstance(part, type(node)):
            pending += [part.expression, part.this]
        else:
            found.append(part)
    return found


def conditions(node: exp.Expression) -> list[exp.Expression]:
    """What AND joins, also behind NOT, where a subquery would then stand alone."""
    found, pending = [], [node]
    while pending:
        part = pending.pop()
        inner = part.this if isinstance(part, exp.Paren) else part
        negated = _without_brackets(inner.this) if isinstance(inner, exp.Not) else None
        if isinstance(inner, exp.And):
            pending += [inner.expression, inner.this]
        elif isinstance(negated, exp.Or) and any(subqueries(negated)):
            pending += [exp.Not(this=each) for each in (negated.expression, negated.this)]
        else:
            found.append(part)
    return found


def _without_brackets(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _condition(node: exp.Expression) -> exp.Expression:
    """What a whole condition says or denies."""
    while isinstance(node, (exp.Paren, exp.Not)):
        node = node.this
    return node


def _single(right: Relation) -> _Value:
    """A query that has one row, or fails."""
    below = right
    while isinstance(below, Project):
        below = below.input
    if isinstance(below, Aggregate) and not below.grouping and not below.sets:
        return _Value(right, (), _first(right))
    kind = types.regular(right.row.types[0]).with_nullable(True)
    checked = Aggregate(right, (), (AggregateCall("SINGLE_VALUE", (0,), kind),))
    return _Value(checked, (), _first(checked))


def _first(relation: Relation) -> Rex:
    return ref(0, relation.row.types[0])


def _grouped(
    aggregate: Aggregate,
    arguments: Project,
    below: Relation,
    keys: list[InputRef],
    outer: tuple[Rex, ...],
    shown: Rex,
) -> _Value:
    """The aggregate with a row for each key."""
    read = {each for call in aggregate.calls for each in call.arguments}
    read |= {call.filter for call in aggregate.calls if call.filter is not None}
    columns: list[Rex] = list(keys)
    names = [below.row.names[key.index] for key in keys]
    places: dict[int, int] = {}
    for at in sorted(read):
        if arguments.scalars[at] not in columns:
            columns.append(arguments.scalars[at])
            names.append(arguments.names[at])
        places[at] = columns.index(arguments.scalars[at])
    calls = tuple(_of_group(each, arguments).over(places.__getitem__) for each in aggregate.calls)
    count = len(keys)
    made = Aggregate(
        Project(below, tuple(columns), tuple(names)),
        tuple(range(count)),
        calls,
        aggregate.ttl,
    )
    counts = frozenset(count + at for at, each in enumerate(calls) if each.function == "COUNT")
    shifted = rewrite(shown, lambda each: ref(count + each.index, each.type))
    return _Value(made, outer, shifted, counts)


def _of_group(each: AggregateCall, arguments: Project) -> AggregateCall:
    """A call over all rows as one over a group, which has a row."""
    given = [arguments.row.types[column] for column in each.arguments]
    made = aggregate_type(each.function, given, may_be_empty=each.filter is not None)
    return replace(each, type=made)


def _equal(first: Rex, second: Rex) -> Rex:
    nullable = type_of(first).nullable or type_of(second).nullable
    return call("=", [first, second], types.BOOLEAN.with_nullable(nullable))


def _or_zero(count: Rex) -> Rex:
    """A count, or 0 where the join found nothing."""
    made = type_of(count).with_nullable(False)
    is_null = call("IS NULL", [count], types.BOOLEAN.with_nullable(False))
    return call("CASE", [is_null, literal(0, made), count], type_of(count))
