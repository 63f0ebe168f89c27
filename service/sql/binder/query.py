"""Queries: SELECT, UNION, VALUES, WITH, ORDER BY and LIMIT, bound to the algebra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import InputRef
from service.sql import types
from service.sql.algebra import Aggregate, Filter, Join, KeepAll, Project, Relation, Sort, Union
from service.sql.binder.grouping import Grouping, has_aggregates
from service.sql.binder.hints import read_hints
from service.sql.binder.merging import Bound
from service.sql.binder.over import OverBinder
from service.sql.binder.qualify import qualified
from service.sql.binder.scalar_subqueries import (
    ScalarSubqueries,
    conditions,
    subqueries,
    without_repeats,
)
from service.sql.binder.subqueries import SubqueryBinder, is_subquery
from service.sql.binder.tables import TableBinder, table_relation
from service.sql.binder.values import bind_values, one_row
from service.sql.catalogue import COLUMNS_MAX, CatalogTable
from service.sql.dialect import hint_of, parse_query, position_of
from service.sql.errors import SqlTooLarge, UnsupportedSql, ValidationError
from service.sql.expressions import ExpressionBinder
from service.sql.metadata import check_read
from service.sql.options import Options
from service.sql.rex import Expression, call, cast, conjunction, ref
from service.sql.scope import Scope, Source
from service.sql.table_hints import with_hint
from service.sql.terms import JoinKind, Ordering, Row, unique_names

if TYPE_CHECKING:
    from service.sql.catalogue import Catalogue
    from service.sql.errors import Position
    from service.sql.source_text import Fragment
    from state.types import LogicalType

VIEW_DEPTH_MAX = 64
"""Views inside views."""
_SET_OPERATIONS = (exp.Union, exp.Intersect, exp.Except)


class QueryBinder:
    """Binds queries of one piece of text; names are those of a catalogue, and of WITH."""

    def __init__(
        self, catalogue: Catalogue, fragment: Fragment, depth: int = 0, outer: Scope | None = None
    ) -> None:
        self._catalogue = catalogue
        self._fragment = fragment
        self._depth = depth
        self._outer = outer
        self._common: dict[str, Relation] = {}

    def bind(self) -> Relation:
        """The relation that the text describes."""
        return self.query(parse_query(self._fragment))

    def query(self, node: exp.Expression) -> Relation:
        """The relation that a query describes, ORDER BY and LIMIT included."""
        around = self._common
        self._with(node)
        relation = self._body(node)
        self._common = around
        return relation

    def correlated(self, node: exp.Expression, outer: Scope) -> Relation:
        """The relation of a subquery that may name columns of the query around it."""
        inner = QueryBinder(self._catalogue, self._fragment, self._depth, outer)
        inner._common = self._common
        return inner.query(node)

    def named(
        self, parts: tuple[str, ...], position: Position, hint: Fragment | None = None
    ) -> Relation:
        """The relation of a table, view or WITH entry; of a table, with what a hint says of it.

        Raises:
            ValidationError: There is none, or it is no table and has a hint.
            SqlTooLarge: Views are nested too deep.
        """
        if len(parts) == 1 and parts[0] in self._common:
            if hint is not None:
                raise ValidationError(
                    f"{parts[0]} is an entry of WITH: hints can only be applied to tables",
                    hint.position(),
                )
            return self._common[parts[0]]
        found = self._catalogue.find(parts, position)
        if hint is not None:
            found = with_hint(found, hint, Options(self._catalogue.options))
        if isinstance(found, CatalogTable):
            check_read(found, position)
            return table_relation(found)
        if self._depth >= VIEW_DEPTH_MAX:
            raise SqlTooLarge(f"views are nested deeper than {VIEW_DEPTH_MAX}", position)
        relation = QueryBinder(self._catalogue, found.query, self._depth + 1).bind()
        return renamed(relation, found.column_names, position)

    def _with(self, node: exp.Expression) -> None:
        """Take over what WITH names: in this query, and in those inside of it."""
        clause = node.args.get("with_")
        if clause is None:
            return
        if clause.args.get("recursive"):
            raise UnsupportedSql("WITH RECURSIVE is not supported", self._at(clause))
        for entry in clause.expressions:
            relation = self.query(entry.this)
            names = tuple(column.name for column in entry.args["alias"].columns)
            named = renamed(relation, names, self._at(entry))
            self._common = {**self._common, entry.alias: named}

    def _body(self, node: exp.Expression) -> Relation:
        if isinstance(node, exp.Select):
            return self._select(node)
        if isinstance(node, (exp.Subquery, exp.Paren)) and not node.args.get("joins"):
            # ORDER BY and LIMIT may stand behind brackets, too.
            relation = self.query(node.this)
            return self._ordered(relation, node, Scope((Source("", relation.row, 0),)), relation)
        if isinstance(node, exp.Values):
            return bind_values(node, self._fragment)
        if isinstance(node, exp.Table) and not node.args.get("joins"):
            return self.named((node.name,), self._at(node), hint_of(node, self._fragment))
        if isinstance(node, _SET_OPERATIONS):
            relation = self._set_operation(node)
            return self._ordered(relation, node, Scope((Source("", relation.row, 0),)), relation)
        raise UnsupportedSql(f"{node.key.upper()} is not supported as a query", self._at(node))

    def _select(self, node: exp.Select) -> Relation:
        self._refuse(node)
        bound = self._from(node)
        scope = Scope(bound.sources, self._outer, bound.merged)
        relation = self._where(bound.relation, node, scope)
        hints = read_hints(node, self._fragment)
        ttl = hints.ttl.get(bound.alias) if bound.alias is not None else None
        relation, binder = self._grouped(relation, node, scope, ttl)
        expressions, names = self._select_list(node, scope, binder)
        if node.args.get("qualify") is not None:
            relation = qualified(relation, node, expressions, names, binder)
            expressions = [ref(at, relation.row.types[at]) for at in range(len(names))]
        projected = Project(relation, tuple(expressions), unique_names((), names))
        made: Relation = projected
        if node.args.get("distinct"):
            made = Aggregate(projected, tuple(range(len(names))), (), ttl)
        return self._ordered_select(made, projected, node, binder)

    def _from(self, node: exp.Select) -> Bound:
        if node.args.get("from_") is None:
            return Bound(one_row(), (Source("", Row((), ()), 0),))
        hints = read_hints(node, self._fragment)
        return TableBinder(self, self._fragment, hints).bind(node)

    def _where(self, relation: Relation, node: exp.Select, scope: Scope) -> Relation:
        where = node.args.get("where")
        if where is None:
            return relation
        parts = conditions(without_repeats(where.this))
        binder = ExpressionBinder(scope, self._fragment)
        joined = [part for part in parts if is_subquery(part)]
        valued = [part for part in parts if part not in joined and any(subqueries(part))]
        plain = [part for part in parts if part not in joined and part not in valued]
        condition = conjunction([binder.condition(part) for part in plain])
        if condition is not None:
            relation = Filter(relation, condition)
        binds = SubqueryBinder(self, self._fragment, scope)
        for part in joined:
            relation = binds.join(relation, part, binder)
        return self._where_values(relation, valued, scope)

    def _where_values(
        self, relation: Relation, parts: list[exp.Expression], scope: Scope
    ) -> Relation:
        """The rows that meet conditions with subqueries as values."""
        if not parts:
            return relation
        values = ScalarSubqueries(self, self._fragment, scope)
        binder = ExpressionBinder(scope, self._fragment, values.meaning)
        relation = values.join(relation, parts, binder, how="TRUE")
        condition = conjunction([binder.condition(part) for part in parts])
        assert condition is not None, "there is a condition at least"
        return Filter(relation, condition)

    def _grouped(
        self, relation: Relation, node: exp.Select, scope: Scope, ttl: str | None
    ) -> tuple[Relation, ExpressionBinder]:
        """The relation under the select list, and the binder for expressions over it."""
        having = node.args.get("having")
        order = node.args.get("order")
        places = list(node.expressions)
        places += [having.this] if having is not None else []
        places += [key.this for key in order.expressions] if order is not None else []
        qualify = node.args.get("qualify")
        places += [qualify.this] if qualify is not None else []
        places += list(node.args.get("windows") or ())
        over = OverBinder(self._fragment, _named_windows(node))
        if node.args.get("group") is None and having is None and not has_aggregates(places):
            values = ScalarSubqueries(self, self._fragment, scope)
            binder = self._with_over(scope, over, values)
            return values.join(relation, node.expressions, binder, how="VALUE"), binder
        inner = ExpressionBinder(scope, self._fragment)
        grouping = Grouping(relation, inner, self._fragment, _select_names(node))
        grouping.group_by(node.args.get("group"))
        grouping.aggregate(places)
        relation = grouping.relation(ttl)
        values = ScalarSubqueries(self, self._fragment, scope)

        def special(part: exp.Expression) -> Expression | None:
            if isinstance(part, exp.Window):
                return over.bind(part, above)
            if any(subqueries(part)):
                return values.meaning(part)
            return grouping.meaning(part)

        above = ExpressionBinder(scope, self._fragment, special)
        relation = values.join(relation, node.expressions, above, how="VALUE", is_grouped=True)
        if having is not None:
            relation = values.join(relation, [having.this], above, how="TRUE", is_grouped=True)
            relation = Filter(relation, above.condition(having.this))
        return relation, above

    def _with_over(
        self, scope: Scope, over: OverBinder, values: ScalarSubqueries
    ) -> ExpressionBinder:
        def special(part: exp.Expression) -> Expression | None:
            if isinstance(part, exp.Window):
                return over.bind(part, binder)
            return values.meaning(part)

        binder = ExpressionBinder(scope, self._fragment, special)
        return binder

    def _select_list(
        self, node: exp.Select, scope: Scope, binder: ExpressionBinder
    ) -> tuple[list[Expression], list[str]]:
        expressions: list[Expression] = []
        names: list[str] = []
        for item in node.expressions:
            star = _star(item)
            if star is not None:
                for column, name in scope.star(star or None, self._at(item)):
                    expressions.append(column)
                    names.append(name)
                continue
            inner = item.this if isinstance(item, exp.Alias) else item
            names.append(_name(item, len(names)))
            expressions.append(binder.column(inner))
        if len(names) > COLUMNS_MAX:
            raise SqlTooLarge(
                f"a query of {len(names)} columns; {COLUMNS_MAX} are allowed", self._at(node)
            )
        return expressions, names

    def _ordered_select(
        self, made: Relation, projected: Project, node: exp.Select, binder: ExpressionBinder
    ) -> Relation:
        """ORDER BY over select items, their names, or columns below them."""
        order = node.args.get("order")
        if order is None or node.args.get("distinct"):
            scope = Scope((Source("", made.row, 0),))
            return self._ordered(made, node, scope, made)
        width = len(projected.names)
        expressions, names = list(projected.expressions), list(projected.names)
        keys = []
        for key in order.expressions:
            at = self._key_position(key.this, expressions, names, binder)
            keys.append(_ordering(at, key))
        if len(expressions) > width:
            wide = Project(projected.input, tuple(expressions), unique_names((), names))
            sorted_wide = self._limited(wide, tuple(keys), node)
            back = tuple(ref(index, wide.row.types[index]) for index in range(width))
            return Project(sorted_wide, back, projected.names)
        return self._limited(made, tuple(keys), node)

    def _key_position(
        self,
        node: exp.Expression,
        expressions: list[Expression],
        names: list[str],
        binder: ExpressionBinder,
    ) -> int:
        """The position of a sort key in the select list, to which it is appended if need be."""
        if isinstance(node, exp.Literal) and not node.is_string:
            return self._ordinal(node, len(names))
        if isinstance(node, exp.Column) and not node.table and node.name in names:
            return names.index(node.name)
        bound = binder.bind(node)
        if bound in expressions:
            return expressions.index(bound)
        expressions.append(bound)
        names.append(node.name if isinstance(node, exp.Column) else f"EXPR${len(names)}")
        return len(expressions) - 1

    def _ordered(
        self, relation: Relation, node: exp.Expression, scope: Scope, row_of: Relation
    ) -> Relation:
        """ORDER BY over the columns of a whole query."""
        order = node.args.get("order")
        keys = []
        for key in order.expressions if order is not None else ():
            if isinstance(key.this, exp.Literal) and not key.this.is_string:
                at = self._ordinal(key.this, len(row_of.row))
            else:
                column = ExpressionBinder(scope, self._fragment).rex(key.this)
                if not isinstance(column, InputRef):
                    raise UnsupportedSql(
                        "ORDER BY an expression is not supported here", self._at(key)
                    )
                at = column.index
            keys.append(_ordering(at, key))
        return self._limited(relation, tuple(keys), node)

    def _ordinal(self, node: exp.Expression, width: int) -> int:
        at = int(node.name) if node.name.isdigit() else 0
        if not 1 <= at <= width:
            raise ValidationError(f"there is no column {node.name} to order by", self._at(node))
        return at - 1

    def _limited(
        self, relation: Relation, keys: tuple[Ordering, ...], node: exp.Expression
    ) -> Relation:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        fetch = None
        if limit is not None:
            fetch = self._fetched(limit)
        skipped = self._count(offset.expression, "OFFSET") if offset is not None else 0
        if not keys and fetch is None and not skipped:
            return relation
        return Sort(relation, keys, skipped, fetch)

    def _fetched(self, limit: exp.Expression) -> int | None:
        """How many rows LIMIT or FETCH lets through; None: all of them."""
        value = limit.args.get("count") or limit.args.get("expression")
        if value is None:
            raise UnsupportedSql("FETCH needs a number of rows", self._at(limit))
        is_all = isinstance(value, exp.Column) and value.sql().upper() == "ALL"
        return None if is_all else self._count(value, "LIMIT")

    def _count(self, node: exp.Expression, what: str) -> int:
        if not isinstance(node, exp.Literal) or not node.name.isdigit():
            raise UnsupportedSql(f"{what} must be a whole number", self._at(node))
        return int(node.name)

    def _set_operation(self, node: exp.Expression) -> Relation:
        left, right = self.query(node.this), self.query(node.expression)
        if len(left.row) != len(right.row):
            raise ValidationError(
                f"{node.key.upper()} of {len(left.row)} and {len(right.row)} columns",
                self._at(node),
            )
        sides = self._aligned((left, right), node)
        if not isinstance(node, exp.Union):
            return self._kept(node, *sides)
        both = Union(sides)
        if node.args.get("distinct"):
            return Aggregate(both, tuple(range(len(both.row))), ())
        return both

    def _kept(self, node: exp.Expression, left: Relation, right: Relation) -> Relation:
        """INTERSECT and EXCEPT: rows of the left that are, or are not, among those of the right."""
        if not node.args.get("distinct"):
            return KeepAll(left, right, isinstance(node, exp.Except))
        width = len(left.row)
        made = types.BOOLEAN.with_nullable(False)
        parts = []
        for index, pair in enumerate(zip(left.row.types, right.row.types, strict=True)):
            # What is never NULL is compared plainly.
            how = "IS NOT DISTINCT FROM" if types.any_nullable(pair) else "="
            parts.append(call(how, [ref(index, pair[0]), ref(width + index, pair[1])], made))
        kind: JoinKind = "SEMI" if isinstance(node, exp.Intersect) else "ANTI"
        joined = Join(left, right, kind, conjunction(parts))
        return Aggregate(joined, tuple(range(width)), ())

    def _aligned(self, sides: tuple[Relation, ...], node: exp.Expression) -> tuple[Relation, ...]:
        """The sides of a union with the types that they have in common."""
        wanted = []
        for column in zip(*(side.row.types for side in sides), strict=True):
            common = types.common_type(column)
            if common is None:
                raise ValidationError("the columns of UNION have no common type", self._at(node))
            wanted.append(types.regular(common) if len(set(column)) > 1 else common)
        return tuple(_cast_row(side, tuple(wanted)) for side in sides)

    def _refuse(self, node: exp.Select) -> None:
        for clause in ("cluster", "distribute", "sort", "connect", "match", "into"):
            if node.args.get(clause):
                raise UnsupportedSql(f"{clause.upper()} is not supported", self._at(node))

    def _at(self, node: exp.Expression) -> Position:
        return position_of(node, self._fragment)


def renamed(relation: Relation, names: tuple[str, ...], position: Position) -> Relation:
    """The relation with other column names; itself if there are none.

    Raises:
        ValidationError: There are not as many names as columns.
    """
    if not names:
        return relation
    row = relation.row
    if len(names) != len(row):
        raise ValidationError(f"{len(names)} names for {len(row)} columns", position)
    return Project(relation, tuple(map(ref, range(len(row)), row.types)), names)


def _cast_row(side: Relation, wanted: tuple[LogicalType, ...]) -> Relation:
    if side.row.types == wanted:
        return side
    expressions = tuple(
        cast(ref(index, given), target)
        for index, (given, target) in enumerate(zip(side.row.types, wanted, strict=True))
    )
    return Project(side, expressions, side.row.names)


def _star(item: exp.Expression) -> str | None:
    """The alias of `alias.*`, empty for `*`; None for anything else."""
    if isinstance(item, exp.Star):
        return ""
    if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
        return str(item.table)
    return None


def _name(item: exp.Expression, position: int) -> str:
    if isinstance(item, exp.Alias):
        return str(item.alias)
    is_named = isinstance(item, exp.Dot) and not isinstance(item.this, exp.Bracket)
    if is_named or isinstance(item, exp.Column):
        return str(item.name)
    return f"EXPR${position}"


def _select_names(node: exp.Select) -> dict[str, str]:
    """Names of the select items by their text: what Flink calls groups and aggregates."""
    return {
        (item.this if isinstance(item, exp.Alias) else item).sql(): _name(item, position)
        for position, item in enumerate(node.expressions)
    }


def _named_windows(node: exp.Select) -> dict[str, exp.Expression]:
    return {window.name: window for window in node.args.get("windows") or ()}


def _ordering(at: int, key: exp.Expression) -> Ordering:
    return Ordering(at, not key.args.get("desc"), not key.args.get("nulls_first"))
