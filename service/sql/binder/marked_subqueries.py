"""IN and EXISTS inside of other expressions: `x > 3 OR k IN (SELECT k FROM b)`; `v > ANY (..)`.

Where such a condition stands alone, it is a semi or anti join (`subqueries`). Else the rows of the
query are joined, each once, with a column that says that there is one:

    EXISTS (.. b.k = a.k)    left join of the groups of b.k, marked; true where the mark is not NULL
    k IN (SELECT k FROM b)   left join of the groups of b.k, marked, and, where NULL may take part,
                             a cross join of the counts of all rows and of those that are not NULL
    v > ANY (SELECT w FROM b) cross join of the smallest w and these counts: above any is above it

What IN or ANY is where a NULL takes part depends on who asks: as a value it may be UNKNOWN; a
condition asks only whether it is true, and behind NOT whether it is false.

Source: Calcite `SubQueryRemoveRule.rewriteIn`, `rewriteExists`, `rewriteSome`, `LogicVisitor`
(Flink 2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from service.plan.rex import Literal as Constant
from service.plan.rex import Rex
from service.sql import types
from service.sql.algebra import Aggregate, Filter, Join, Project, Relation
from service.sql.binder.correlated import Keys, correlated_keys, correlated_values
from service.sql.binder.quantified import QUANTIFIED, AnyOf, ends_and_counts
from service.sql.binder.subqueries import compared, correlates, has_outer
from service.sql.dialect import position_of
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.logical_keys import is_unique
from service.sql.quantifiers import is_quantified
from service.sql.rex import call, conjunction, literal, ref, type_of
from service.sql.terms import AggregateCall, unique_names

if TYPE_CHECKING:
    from service.sql.binder.query import QueryBinder
    from service.sql.errors import Position
    from service.sql.expressions import ExpressionBinder
    from service.sql.scope import Scope
    from service.sql.source_text import Fragment

Asked = Literal["TRUE", "FALSE", "VALUE"]
"""Whether a condition is asked for being true, for being false, or for its value."""
_NOT_NULL = types.BOOLEAN.with_nullable(False)
_COUNT = types.BIGINT.with_nullable(False)
_OPPOSITE: dict[Asked, Asked] = {"TRUE": "FALSE", "FALSE": "TRUE", "VALUE": "VALUE"}


def is_marked(node: exp.Expression) -> bool:
    """Whether a node is EXISTS, or IN or ANY with a query."""
    return (
        isinstance(node, exp.Exists)
        or (isinstance(node, exp.In) and node.args.get("query") is not None)
        or is_quantified(node)
    )


def asked(node: exp.Expression, root: exp.Expression, of_root: Asked) -> Asked:
    """What an expression asks of a condition in it, if this is asked of the expression."""
    if node is root:
        return of_root
    above = node.parent
    assert above is not None, "the node is in the expression"
    if isinstance(above, exp.Is) and isinstance(above.expression, exp.Boolean):
        return "TRUE" if above.expression.this else "VALUE"
    if isinstance(above, (exp.And, exp.Or, exp.Paren)):
        return asked(above, root, of_root)
    if isinstance(above, exp.Not):
        return _OPPOSITE[asked(above, root, of_root)]
    return "VALUE"


class MarkedSubqueries:
    """Joins the rows of IN, EXISTS and ANY to a relation, and says what the condition is then."""

    def __init__(self, queries: QueryBinder, fragment: Fragment, scope: Scope) -> None:
        self._queries = queries
        self._fragment = fragment
        self._scope = scope

    def join(
        self,
        left: Relation,
        node: exp.Expression,
        binder: ExpressionBinder,
        how: Asked,
        *,
        is_grouped: bool,
    ) -> tuple[Relation, Rex]:
        """The relation with marks, and the condition over it.

        Args:
            left: What the condition is asked of.
            node: IN or ANY with a query, or EXISTS.
            binder: Binds the values on the left of IN and ANY, over `left`.
            how: What is asked.
            is_grouped: Whether the relation no longer has the columns around the subquery.

        Raises:
            UnsupportedSql: The query depends on the row around it in a way that is not planned.
        """
        query = _query_of(node)
        right = self._queries.correlated(query, self._scope)
        if is_grouped and correlates(right):
            raise UnsupportedSql(
                "a correlated subquery above GROUP BY is not supported", self._at(node)
            )
        if isinstance(node, exp.Exists):
            return self._exists(left, right, node)
        if is_quantified(node):
            if correlates(right):
                raise self._correlated("ANY, SOME or ALL", node)
            return self._any(left, right, node, binder, how)
        values = [binder.rex(each) for each in compared(node)]
        self._check(right, node, values)
        join = self._correlated_in if correlates(right) else self._in
        return join(left, right, node, values, how)

    def _exists(
        self, left: Relation, right: Relation, node: exp.Expression
    ) -> tuple[Relation, Rex]:
        if not correlates(right):
            marked: Relation = Aggregate(Project(right, (_TRUE,), ("i",)), (0,), ())
            joined = Join(left, marked, "LEFT", None, is_subquery=True)
        else:
            found = _keys(left, right)
            if found is None:
                raise UnsupportedSql(
                    "this correlated subquery inside of an expression is not supported",
                    self._at(node),
                    hint="compare columns in its WHERE, without grouping or limits",
                )
            below, keys, outer = found
            names = tuple(below.row.names[key.index] for key in keys)
            marked = _marked(Project(below, keys, names), f"$f{len(keys)}")
            joined = _joined(left, marked, list(outer))
        at = len(joined.row) - 1
        return joined, call("IS NOT NULL", [ref(at, joined.row.types[at])], _NOT_NULL)

    def _in(
        self,
        left: Relation,
        right: Relation,
        node: exp.Expression,
        values: list[Rex],
        how: Asked,
    ) -> tuple[Relation, Rex]:
        if not types.any_nullable([*map(type_of, values), *right.row.types]):
            joined = _joined(left, _marked(right, "i"), values)
            return joined, call("IS NOT NULL", [_last(joined)], _NOT_NULL)
        if how != "TRUE" and len(values) > 1:
            raise UnsupportedSql(
                "NOT IN, or IN as a value, of several columns that may be NULL is not supported",
                self._at(node),
                hint="write NOT EXISTS, and compare the columns in its WHERE",
            )
        calls = [AggregateCall("COUNT", (), _COUNT, "c")]
        if how != "TRUE":
            known = (0,) if right.row.types[0].nullable else ()
            calls.append(AggregateCall("COUNT", known, _COUNT, "ck"))
        counts: Relation = Aggregate(right, (), tuple(calls))
        counted = Join(left, counts, "INNER", None, is_subquery=True)
        places: list[Rex] = [ref(len(left.row) + at, _COUNT) for at in range(len(calls))]
        joined = _joined(counted, _marked(right, "i"), values)
        return joined, _IN[how](places, _last(joined), values)

    def _correlated_in(
        self,
        left: Relation,
        right: Relation,
        node: exp.Expression,
        values: list[Rex],
        how: Asked,
    ) -> tuple[Relation, Rex]:
        """IN of the rows that the query has for the row around it."""
        kind = right.row.types[0]
        is_known = not (kind.nullable or type_of(values[0]).nullable)
        found = _keys(left, right) if is_known else _keys(None, right)
        is_planned = len(values) == 1 and (is_known or (how == "TRUE" and kind.nullable))
        if found is None or not isinstance(right, Project) or not is_planned:
            raise self._correlated("IN inside of an expression", node)
        below, keys, outer = found
        given = [below.row.names[key.index] for key in keys]
        names = (*right.names, *unique_names(right.names, given))
        rows = Project(below, (*right.expressions, *keys), names)
        tests: list[Rex] = []
        if not is_known:
            places = tuple(range(1, len(rows.row)))
            counts = Aggregate(rows, places, (AggregateCall("COUNT", (), _COUNT, "c"),))
            left = _joined(left, counts, list(outer))
            nulls: list[Rex] = [call("=", [_last(left), _ZERO], types.BOOLEAN)]
            nulls += [_is_null(each) for each in values if type_of(each).nullable]
            is_out = call("OR", nulls, types.BOOLEAN) if len(nulls) > 1 else nulls[0]
            tests.append(call("IS NOT TRUE", [is_out], _NOT_NULL))
        there = Filter(rows, _not_null(ref(0, kind))) if kind.nullable else rows
        joined = _joined(left, _marked(there, f"$f{len(rows.row)}"), [*values, *outer], first=1)
        tests.append(_not_null(_last(joined)))
        return joined, call("AND", tests, _NOT_NULL) if len(tests) > 1 else tests[0]

    def _correlated(self, what: str, node: exp.Expression) -> UnsupportedSql:
        return UnsupportedSql(
            f"a correlated subquery of {what} is not supported",
            self._at(node),
            hint="write EXISTS, and compare the columns in its WHERE",
        )

    def _any(
        self,
        left: Relation,
        right: Relation,
        node: exp.Expression,
        binder: ExpressionBinder,
        how: Asked,
    ) -> tuple[Relation, Rex]:
        if isinstance(node.this, exp.Tuple) or len(right.row) != 1:
            raise UnsupportedSql(
                "ANY, SOME and ALL of rows of several columns are not supported", self._at(node)
            )
        value, operator = binder.rex(node.this), QUANTIFIED[type(node)]
        self._check(right, node, [value])
        counts = ends_and_counts(_distinct(right) if operator == "<>" else right, operator)
        joined = Join(left, counts, "INNER", None, is_subquery=True)
        own = zip(counts.row.names, joined.row.types[len(left.row) :], strict=True)
        places = {name: ref(len(left.row) + at, kind) for at, (name, kind) in enumerate(own)}
        nullable = types.any_nullable([type_of(value), *right.row.types])
        return joined, AnyOf(value, operator, places, nullable).condition(how)

    def _check(self, right: Relation, node: exp.Expression, values: list[Rex]) -> None:
        """Refuse values that the query's columns cannot be compared with."""
        if len(values) != len(right.row):
            raise ValidationError(
                f"{len(values)} values cannot be IN rows of {len(right.row)} columns",
                self._at(node),
            )
        for value, kind in zip(values, right.row.types, strict=True):
            if types.common_type([type_of(value), kind]) is None:
                raise ValidationError(
                    f"the sides of {'ANY' if is_quantified(node) else 'IN'} cannot be compared",
                    self._at(node),
                )

    def _at(self, node: exp.Expression) -> Position:
        return position_of(node, self._fragment)


_TRUE = Constant(True, _NOT_NULL, "")


def _keys(left: Relation | None, right: Relation) -> Keys | None:
    """What a query says of the row around it in its WHERE alone; None: more, or elsewhere.

    With the rows around it, it may compare otherwise than for equality.
    """
    if not isinstance(right, Project) or any(map(has_outer, right.expressions)):
        return None
    found = correlated_keys(right.input)
    if found is None and left is not None:
        found = correlated_values(left, right.input)
    return found


def _marked(right: Relation, name: str) -> Relation:
    """The rows of a relation, each once, with a column that is true."""
    columns = tuple(ref(at, kind) for at, kind in enumerate(right.row.types))
    return Project(_distinct(right), (*columns, _TRUE), (*right.row.names, name))


def _distinct(right: Relation) -> Relation:
    places = tuple(range(len(right.row)))
    return right if is_unique(right, frozenset(places)) else Aggregate(right, places, ())


def _query_of(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.Exists):
        return node.this
    return node.expression.this if is_quantified(node) else node.args["query"]


def _joined(left: Relation, marked: Relation, values: list[Rex], *, first: int = 0) -> Join:
    """A join by the marked columns, which are equal to the values: compared from `first` on."""
    width, kinds = len(left.row), marked.row.types
    parts = []
    for at, value in enumerate(values):
        made = types.BOOLEAN.with_nullable(type_of(value).nullable or kinds[at].nullable)
        parts.append(call("=", [value, ref(width + at, kinds[at])], made))
    condition = conjunction([*parts[first:], *parts[:first]])
    return Join(left, marked, "LEFT", condition, is_subquery=True)


def _last(relation: Relation) -> Rex:
    at = len(relation.row) - 1
    return ref(at, relation.row.types[at])


def _is_true(counts: list[Rex], mark: Rex, values: list[Rex]) -> Rex:
    tests = [call("<>", [counts[0], _ZERO], _NOT_NULL), _not_null(mark)]
    tests += [_not_null(each) for each in values if type_of(each).nullable]
    return call("AND", tests, _NOT_NULL)


def _may_be_true(counts: list[Rex], mark: Rex, values: list[Rex]) -> Rex:
    """Not false: there are rows, and the value is among them, or NULL takes part."""
    is_out = [_is_null(mark), call(">=", [counts[1], counts[0]], _NOT_NULL)]
    is_out += [_not_null(each) for each in values if type_of(each).nullable]
    is_false = [call("=", [counts[0], _ZERO], _NOT_NULL), call("AND", is_out, _NOT_NULL)]
    return call("NOT", [call("OR", is_false, _NOT_NULL)], _NOT_NULL)


def _value(counts: list[Rex], mark: Rex, values: list[Rex]) -> Rex:
    true, false, unknown = _TRUE, Constant(False, _NOT_NULL, ""), literal(None, types.BOOLEAN)
    cases: list[Rex] = [call("=", [counts[0], _ZERO], _NOT_NULL), false]
    for each in values:
        if type_of(each).nullable:
            cases += [_is_null(each), unknown]
    cases += [_not_null(mark), true, call("<", [counts[1], counts[0]], _NOT_NULL), unknown, false]
    return call("CASE", cases, types.BOOLEAN)


_IN = {"TRUE": _is_true, "FALSE": _may_be_true, "VALUE": _value}
_ZERO = literal(0, types.INT.with_nullable(False))


def _is_null(rex: Rex) -> Rex:
    return call("IS NULL", [rex], _NOT_NULL)


def _not_null(rex: Rex) -> Rex:
    return call("IS NOT NULL", [rex], _NOT_NULL)
