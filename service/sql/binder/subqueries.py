"""EXISTS and IN: subqueries in WHERE become semi and anti joins.

Only a subquery that stands as a whole condition (or negated) can become a join; everything else is
refused. What a subquery's WHERE says of the query around it becomes part of the join's condition.

Source: Flink `SubQueryDecorrelator` and `FlinkSubQueryRemoveRule` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import Call, CorrelVariable, FieldAccess, InputRef, Rex
from service.sql import types
from service.sql.algebra import Aggregate, Filter, Join, Project, Relation, inputs
from service.sql.dialect import position_of
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.rex import call, conjunction, conjuncts, literal, ref, remap, shift, type_of, walk
from service.sql.terms import AggregateCall

if TYPE_CHECKING:
    from service.sql.binder.query import QueryBinder
    from service.sql.expressions import ExpressionBinder
    from service.sql.rex import Expression
    from service.sql.scope import Scope
    from service.sql.source_text import Fragment


def is_subquery(node: exp.Expression) -> bool:
    """Whether a condition is EXISTS or IN with a query, or the negation of one."""
    inner = _plain(node)
    return isinstance(inner, exp.Exists) or (
        isinstance(inner, exp.In) and inner.args.get("query") is not None
    )


def _plain(node: exp.Expression) -> exp.Expression:
    while isinstance(node, (exp.Paren, exp.Not)):
        node = node.this
    return node


def compared(node: exp.Expression) -> list[exp.Expression]:
    """The values on the left of IN."""
    return list(node.this.expressions) if isinstance(node.this, exp.Tuple) else [node.this]


class SubqueryBinder:
    """Turns the subqueries of one WHERE into joins."""

    def __init__(self, queries: QueryBinder, fragment: Fragment, scope: Scope) -> None:
        self._queries = queries
        self._fragment = fragment
        self._scope = scope

    def join(self, left: Relation, node: exp.Expression, binder: ExpressionBinder) -> Relation:
        """The semi or anti join that a condition stands for."""
        is_negated = False
        while isinstance(node, (exp.Paren, exp.Not)):
            is_negated ^= isinstance(node, exp.Not)
            node = node.this
        query = node.this if isinstance(node, exp.Exists) else node.args["query"]
        right = self._queries.correlated(query, self._scope)
        if isinstance(node, exp.In):
            self._check_width(node, len(right.row))
        right, correlated = self._lift(right, node, keeps_columns=isinstance(node, exp.In))
        width = len(left.row)
        parts = [_joined(part, width) for part in correlated]
        if isinstance(node, exp.In):
            parts = [*self._equalities(node, right, width, binder, is_negated=is_negated), *parts]
        if not parts:
            return _uncorrelated(left, right, is_negated=is_negated)
        return Join(left, right, "ANTI" if is_negated else "SEMI", conjunction(parts))

    def _equalities(
        self,
        node: exp.Expression,
        right: Relation,
        width: int,
        binder: ExpressionBinder,
        *,
        is_negated: bool,
    ) -> list[Rex]:
        """The conditions that IN stands for; NOT IN fails where either side is NULL."""
        values = compared(node)
        parts: list[Rex] = []
        for index, value in enumerate(values):
            own, other = binder.rex(value), ref(width + index, right.row.types[index])
            if types.common_type([type_of(own), type_of(other)]) is None:
                raise ValidationError(
                    "the sides of IN cannot be compared", position_of(node, self._fragment)
                )
            nullable = type_of(own).nullable or type_of(other).nullable
            equal = call("=", [own, other], types.BOOLEAN.with_nullable(nullable))
            if is_negated and nullable:
                tests = [_is_null(side) for side in (own, other) if type_of(side).nullable]
                equal = call("OR", [*tests, equal], types.BOOLEAN)
            parts.append(equal)
        return parts

    def _check_width(self, node: exp.Expression, width: int) -> None:
        """Refuse IN whose query has not as many columns as there are values."""
        if len(compared(node)) != width:
            raise ValidationError(
                f"{len(compared(node))} values cannot be IN rows of {width} columns",
                position_of(node, self._fragment),
            )

    def _lift(
        self, right: Relation, node: exp.Expression, *, keeps_columns: bool
    ) -> tuple[Relation, list[Rex]]:
        """The subquery without what it says of the outer row, and that, over (right columns).

        The columns that the condition reads are appended to a list that must be kept, or replace
        one that does not matter.
        """
        if not isinstance(right, Project) or _correlates_below(right.input):
            if correlates(right):
                raise UnsupportedSql(
                    "this correlated subquery is not supported",
                    position_of(node, self._fragment),
                    hint="correlate in its WHERE, without grouping or limits",
                )
            return right, []
        below, lifted = right.input, []
        if isinstance(below, Filter):
            parts = conjuncts(below.condition)
            lifted = [part for part in parts if has_outer(part)]
            kept = conjunction([part for part in parts if not has_outer(part)])
            below = below.input if kept is None else Filter(below.input, kept)
        if any(has_outer(each) for each in right.expressions):
            raise UnsupportedSql(
                "a subquery that selects columns of the query around it is not supported",
                position_of(node, self._fragment),
            )
        kept_columns = list(right.expressions) if keeps_columns else []
        kept_names = list(right.names) if keeps_columns else []
        read = {column for part in lifted for column in _own(part)}
        for column in sorted(read, key=lambda each: each.index):
            if column not in kept_columns:
                kept_columns.append(column)
                kept_names.append(below.row.names[column.index])
        if not lifted:
            return right, []
        if not kept_columns:
            # The condition is of the row outside alone; any column of the subquery will do.
            return Project(below, right.expressions, right.names), lifted
        positions = {
            column.index: at
            for at, column in enumerate(kept_columns)
            if isinstance(column, InputRef)
        }
        moved = [remap(part, positions) for part in lifted]
        return Project(below, tuple(kept_columns), tuple(kept_names)), moved


def _uncorrelated(left: Relation, right: Relation, *, is_negated: bool) -> Relation:
    """EXISTS of any row at all: the smallest of TRUE is TRUE, or NULL where there is no row."""
    below = right.input if isinstance(right, Project) else right
    is_there = types.BOOLEAN.with_nullable(False)
    marked = Project(below, (literal(True, is_there),), ("i",))
    found = Aggregate(marked, (), (AggregateCall("MIN", (0,), types.BOOLEAN, "m"),))
    has_row = call("IS NOT NULL", [ref(0, types.BOOLEAN)], is_there)
    if not is_negated:
        return Join(left, Filter(found, has_row), "SEMI", None)
    told = Project(found, (has_row,), ("$f0",))
    return Join(left, told, "ANTI", ref(len(left.row), is_there))


def _own(part: Rex) -> set[InputRef]:
    return {each for each in walk(part) if isinstance(each, InputRef)}


def has_outer(rex: Expression) -> bool:
    """Whether an expression reads a column of the query around it."""
    return any(isinstance(part, CorrelVariable) for part in walk(rex))


def _correlates_below(relation: Relation) -> bool:
    """Whether an outer column is used anywhere but in a filter right here."""
    below = inputs(relation) if isinstance(relation, Filter) else (relation,)
    return any(correlates(each) for each in below)


def correlates(relation: Relation) -> bool:
    """Whether a query reads columns of the query around it."""
    own: tuple[Expression, ...] = ()
    match relation:
        case Project():
            own = relation.expressions
        case Filter():
            own = (relation.condition,)
        case Join() if relation.condition is not None:
            own = (relation.condition,)
    return any(has_outer(rex) for rex in own) or any(map(correlates, inputs(relation)))


def _joined(part: Rex, width: int) -> Rex:
    """A lifted condition over left and right columns."""
    moved = shift(part, width)
    return _replace_outer(moved)


def _replace_outer(rex: Rex) -> Rex:
    if isinstance(rex, FieldAccess) and isinstance(rex.expression, CorrelVariable):
        return ref(int(rex.name), type_of(rex))
    if isinstance(rex, Call):
        return replace(rex, operands=tuple(map(_replace_outer, rex.operands)))
    return rex


def _is_null(rex: Rex) -> Rex:
    return call("IS NULL", [rex], types.BOOLEAN.with_nullable(False))
