"""FROM: tables, views, subqueries, window table functions and joins of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import InputRef, Rex
from service.sql.algebra import Join, Project, Relation, Scan, Values, VersionJoin, Watermark
from service.sql.binder.lateral import join_lateral, lateral_query
from service.sql.binder.merging import Bound, merge
from service.sql.binder.unnest import bind_unnest, join_unnest, unnest_of
from service.sql.dialect import hint_of, position_of
from service.sql.errors import UnsupportedSql, ValidationError, nearest
from service.sql.expressions import ExpressionBinder
from service.sql.functions import WINDOW_TABLE_FUNCTIONS
from service.sql.literals import window_interval_ms, window_length_ms
from service.sql.rex import cast, ref, substitute, type_of
from service.sql.scope import Scope, Source
from service.sql.sql_text import to_sql
from service.sql.terms import JoinKind, Row, WindowSpec
from service.sql.types import rowtime_type
from service.sql.window_relations import WindowTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.sql.binder.hints import Hints
    from service.sql.binder.query import QueryBinder
    from service.sql.catalogue import CatalogTable
    from service.sql.errors import Position
    from service.sql.source_text import Fragment
    from service.sql.terms import WindowKind


_STEPS: dict[WindowKind, tuple[str, ...]] = {
    "TUMBLE": ("SIZE",),
    "HOP": ("SLIDE", "SIZE"),
    "CUMULATE": ("STEP", "SIZE"),
    "SESSION": ("GAP",),
}
_OUTER_SIDES: dict[str, JoinKind] = {"LEFT": "LEFT", "RIGHT": "RIGHT", "FULL": "FULL"}


def table_relation(table: CatalogTable) -> Relation:
    """A table's rows: its source, then casts and computed columns, then event time."""
    relation: Relation = Scan(table)
    declared = tuple(column.name for column in table.columns)
    expressions = _column_expressions(table, relation.row)
    if expressions != tuple(ref(at, kind) for at, kind in enumerate(relation.row.types)):
        relation = Project(relation, expressions, declared)
    if table.watermark is not None:
        at = declared.index(table.watermark.column)
        relation = Watermark(relation, at, table.watermark.expression)
    return relation


def _column_expressions(table: CatalogTable, scanned: Row) -> tuple[Rex, ...]:
    """Every column of a table over what its source gives, cast where that is of another type."""
    event_time = table.watermark.column if table.watermark is not None else None
    plain: dict[str, Rex] = {}
    for column in table.columns:
        if column.kind != "COMPUTED":
            at = scanned.names.index(column.name)
            plain[column.name] = cast(ref(at, scanned.types[at]), column.type)
    made: list[Rex] = []
    for column in table.columns:
        if column.expression is not None:
            made.append(substitute(column.expression, [*plain.values()]))
        elif column.kind == "METADATA" and column.name == event_time:
            # As in Flink, which casts to what the schema says: a time attribute.
            at = scanned.names.index(column.name)
            made.append(cast(ref(at, scanned.types[at]), rowtime_type(column.type)))
        else:
            made.append(plain[column.name])
    return tuple(made)


class TableBinder:
    """Binds the FROM of one query block."""

    def __init__(self, queries: QueryBinder, fragment: Fragment, hints: Hints) -> None:
        self._queries = queries
        self._fragment = fragment
        self._hints = hints

    def bind(self, select: exp.Expression) -> Bound:
        """The relation that FROM and the joins after it describe.

        Raises:
            SqlError: A table or condition means nothing, or is none that we plan.
        """
        first, *others = _entries(select.args.get("joins") or [])
        bound = self._joined(self._item(select.args["from_"].this, 0), first)
        for comma, *behind in others:
            bound = self._join(bound, comma, behind)
        if select.args.get("laterals"):
            raise UnsupportedSql("LATERAL is not supported", position_of(select, self._fragment))
        return bound

    def _item(self, node: exp.Expression, offset: int, *, is_joined: bool = False) -> Bound:
        """One entry of FROM, whose columns begin at `offset`."""
        version = node.args.get("version")
        if version is not None and not is_joined:
            raise UnsupportedSql(
                "FOR SYSTEM_TIME AS OF is supported for the right side of a join only",
                position_of(version, self._fragment),
            )
        bound = self._joined(self._single(node), node.args.get("joins") or ())
        return _moved(bound, offset)

    def _joined(self, bound: Bound, joins: Sequence[exp.Expression]) -> Bound:
        for join in joins:
            bound = self._join(bound, join)
        return bound

    def _single(self, node: exp.Expression) -> Bound:
        position = position_of(node, self._fragment)
        self._refuse(node, position)
        match node:
            case exp.Table() if isinstance(node.this, exp.Anonymous):
                relation = self._function(node.this, position)
            case exp.Table():
                relation = self._queries.named(
                    _parts(node), position, hint_of(node, self._fragment)
                )
            case exp.Subquery() if isinstance(node.this, exp.Table):
                inner = self._item(node.this, 0)
                return self._renamed(inner, node) if node.alias else inner
            case exp.Subquery():
                relation = self._queries.query(node.this)
            case exp.Values():
                relation = self._queries.query(node)
            case exp.Unnest():
                return bind_unnest(node, self._fragment)
            case _:
                raise UnsupportedSql(f"{node.key.upper()} in FROM is not supported", position)
        row = _aliased_row(relation.row, node, position)
        if isinstance(relation, Values):
            relation = replace(relation, row=row)
        return Bound(relation, (Source(node.alias_or_name, row, 0),))

    def _renamed(self, inner: Bound, node: exp.Expression) -> Bound:
        if inner.merged:
            raise UnsupportedSql(
                "an alias of a join with USING or NATURAL is not supported",
                position_of(node, self._fragment),
                hint="select from the join in a subquery, and give that one the alias",
            )
        row = inner.relation.row
        return Bound(inner.relation, (Source(node.alias, row, inner.sources[0].offset),))

    def _refuse(self, node: exp.Expression, position: Position) -> None:
        for clause in ("pivots", "sample", "laterals", "match_recognize", "hints"):
            if node.args.get(clause):
                raise UnsupportedSql(f"{clause.upper()} is not supported", position)

    def _join(
        self, left: Bound, join: exp.Expression, behind: Sequence[exp.Expression] = ()
    ) -> Bound:
        """A join; what it joins is first joined with what stands behind it."""
        position = position_of(join, self._fragment)
        if behind and _reads_before(join):
            raise UnsupportedSql(
                "RIGHT, FULL or NATURAL JOIN, or USING, behind a comma and something that reads "
                "columns before it is not supported",
                position,
                hint="put CROSS JOIN in the place of the comma, if all before it is to be joined",
            )
        width = len(left.relation.row)
        method = str(join.args.get("method") or "").upper()
        unnest = unnest_of(join.this)
        if unnest is not None and not method and not join.args.get("using"):
            kind = _join_kind(join, position)
            return join_unnest(left, unnest, join, kind, self._fragment)
        if lateral_query(join.this) is not None and not method and not join.args.get("using"):
            kind = _join_kind(join, position)
            return join_lateral(self._queries, left, join.this, join, kind, self._fragment)
        if isinstance(join.this, exp.Lateral):
            raise UnsupportedSql(
                "LATERAL of a table function is not supported",
                position,
                hint="UNNEST makes a row of each element of an array",
            )
        if isinstance(join.this, exp.Unnest) or method not in ("", "NATURAL"):
            raise UnsupportedSql(
                f"{method or join.this.key.upper()} JOIN is not supported", position
            )
        right = self._joined(self._item(join.this, 0, is_joined=True), behind)
        right = _moved(right, width)
        sources, merged = left.sources + right.sources, left.merged + right.merged
        kind = _join_kind(join, position)
        condition = None
        if method or join.args.get("using"):
            condition, sources, merged = merge(left, right, join, kind, position)
        elif join.args.get("on") is not None:
            binder = ExpressionBinder(Scope(sources, merged=merged), self._fragment)
            condition = binder.condition(join.args["on"])
        version = join.this.args.get("version")
        if version is not None:
            relation = self._version_join(left, right, kind, condition, version)
            tables = [each for each in (right.sources[0].alias, join.this.name) if each]
            found = next((each for each in tables if each in self._hints.lookup), None)
            if found is not None:
                relation = replace(relation, retries=self._hints.lookup[found])
            return Bound(relation, _adjusted(sources, relation.row), merged)
        ttl = tuple(
            self._hints.ttl.get(side.alias) if side.alias else None for side in (left, right)
        )
        named = left.aliases | right.aliases
        made = Join(
            left.relation,
            right.relation,
            kind,
            condition,
            (ttl[0], ttl[1]),
            bool(self._hints.multi_join) and named <= self._hints.multi_join,
        )
        return Bound(made, _adjusted(sources, made.row), merged)

    def _version_join(
        self,
        left: Bound,
        right: Bound,
        kind: JoinKind,
        condition: Rex | None,
        version: exp.Expression,
    ) -> VersionJoin:
        position = position_of(version, self._fragment)
        if version.text("kind").upper() != "AS OF" or version.name != "TIMESTAMP":
            raise UnsupportedSql(
                "a join FOR anything but SYSTEM_TIME AS OF is not supported", position
            )
        if kind not in ("INNER", "LEFT"):
            raise ValidationError(f"a {kind} join cannot be FOR SYSTEM_TIME AS OF", position)
        time = ExpressionBinder(Scope(left.sources, merged=left.merged), self._fragment).rex(
            version.expression
        )
        if not isinstance(time, InputRef):
            raise ValidationError(
                f"Unsupported time travel expression: {to_sql(version.expression)} for the "
                "expression can not be reduced to a constant by Flink.",
                position,
            )
        if type_of(time).time_attribute is None:
            raise ValidationError(
                "FOR SYSTEM_TIME AS OF needs a time attribute of the left table", position
            )
        return VersionJoin(left.relation, right.relation, kind, condition, time)

    def _function(self, node: exp.Anonymous, position: Position) -> Relation:
        """TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), ..))."""
        inner = node.expressions[0] if node.name.upper() == "TABLE" and node.expressions else node
        name = inner.name.upper()
        kind = next((each for each in WINDOW_TABLE_FUNCTIONS if each == name), None)
        if kind is None:
            raise UnsupportedSql(
                f"table function {name} is not supported",
                position,
                hint=nearest(name, WINDOW_TABLE_FUNCTIONS),
            )
        arguments = _in_order(kind, inner.expressions, position)
        if len(arguments) < 3 or not isinstance(arguments[0], exp.Tuple):
            raise ValidationError(f"{name} needs TABLE t, DESCRIPTOR(time) and intervals", position)
        table, *partition = arguments[0].expressions
        relation = self._queries.named(_parts(table), position)
        scope = Scope((Source(table.name, relation.row, 0),))
        spec = self._window(kind, arguments[1:], partition, scope, position)
        return WindowTable(relation, spec)

    def _window(
        self,
        name: WindowKind,
        arguments: list[exp.Expression],
        partition: list[exp.Expression],
        scope: Scope,
        position: Position,
    ) -> WindowSpec:
        binder = ExpressionBinder(scope, self._fragment)
        time = binder.rex(arguments[0].expressions[0])
        if not isinstance(time, InputRef) or time.type.time_attribute is None:
            raise ValidationError(f"{name} needs a time attribute in DESCRIPTOR", position)
        by = [binder.rex(each) for each in partition]
        columns = tuple(each.index for each in by if isinstance(each, InputRef))
        if len(columns) != len(by):
            raise ValidationError(f"{name} needs columns in PARTITION BY", position)
        intervals = [binder.rex(each) for each in arguments[1:]]
        steps = 2 if name in ("HOP", "CUMULATE") else 1
        if not steps <= len(intervals) <= steps + 1:
            raise ValidationError(f"{name} does not take {len(intervals)} intervals", position)
        lengths = [window_length_ms(each, position) for each in intervals[:steps]]
        offset = None
        if len(intervals) > steps:
            offset = window_interval_ms(intervals[steps], position)
        return WindowSpec(
            name,
            time.index,
            lengths[steps - 1],
            lengths[0] if steps == 2 else None,
            offset,
            columns,
        )


def _entries(joins: list[exp.Expression]) -> list[list[exp.Expression]]:
    """The entries of FROM: what is joined to the first one, then each with its comma before it.

    JOIN binds tighter than a comma: `a, b RIGHT JOIN c` is each row of a with those of b and c.
    What reads columns before it may read them beyond the comma, where that makes no difference.
    """
    found: list[list[exp.Expression]] = [[]]
    for join in joins:
        if any(join.args.get(part) for part in ("side", "kind", "method", "on", "using")):
            found[-1].append(join)
        else:
            found.append([join])
    made = found[:1]
    for entry in found[1:]:
        is_flat = any(map(_reads_before, entry)) and not any(map(_binds, entry))
        made += [[join] for join in entry] if is_flat else [entry]
    return made


def _reads_before(join: exp.Expression) -> bool:
    return isinstance(join.this, (exp.Lateral, exp.Unnest)) or bool(join.this.args.get("version"))


def _binds(join: exp.Expression) -> bool:
    """Whether it matters what stands on the left of a join, beyond its condition."""
    is_outer = str(join.args.get("side") or "").upper() in ("RIGHT", "FULL")
    return is_outer or bool(join.args.get("method") or join.args.get("using"))


def _in_order(
    name: WindowKind, given: list[exp.Expression], position: Position
) -> list[exp.Expression]:
    """The arguments of a window function in their order, by name where they have names."""
    if not any(isinstance(each, exp.Kwarg) for each in given):
        return given
    order = ("DATA", "TIMECOL", *_STEPS[name], "OFFSET")
    places: dict[int, exp.Expression] = {}
    for each in given:
        called = each.this.name.upper() if isinstance(each, exp.Kwarg) else ""
        if called not in order or order.index(called) in places:
            raise ValidationError(
                f"{name} takes each of {', '.join(order)} once, by name", position
            )
        places[order.index(called)] = each.expression
    if sorted(places) != [*range(len(places))]:
        raise ValidationError(f"{name} is missing one of {', '.join(order[:-1])}", position)
    return [places[at] for at in range(len(places))]


def _parts(node: exp.Expression) -> tuple[str, ...]:
    names = (node.args.get("catalog"), node.args.get("db"), node.this)
    return tuple(part.name for part in names if part is not None and part.name)


def _aliased_row(row: Row, node: exp.Expression, position: Position) -> Row:
    """The row with the column names of `AS t(a, b)`."""
    alias = node.args.get("alias")
    names = tuple(column.name for column in alias.columns) if alias is not None else ()
    if not names:
        return row
    if len(names) != len(row):
        raise ValidationError(f"{len(names)} names for {len(row)} columns", position)
    return Row(names, row.types)


def _moved(bound: Bound, offset: int) -> Bound:
    """The same relation, whose columns begin further right."""
    sources = tuple(replace(each, offset=each.offset + offset) for each in bound.sources)
    merged = tuple(
        replace(each, places=tuple(place + offset for place in each.places))
        for each in bound.merged
    )
    return Bound(bound.relation, sources, merged)


def _adjusted(sources: tuple[Source, ...], row: Row) -> tuple[Source, ...]:
    """The sources with the types that a join made of them: outer sides may be NULL."""
    begin = sources[0].offset
    return tuple(
        replace(
            source,
            row=Row(
                source.row.names,
                row.types[source.offset - begin : source.offset - begin + len(source.row)],
            ),
        )
        for source in sources
    )


def _join_kind(join: exp.Expression, position: Position) -> JoinKind:
    side = str(join.args.get("side") or "").upper()
    kind = str(join.args.get("kind") or "").upper()
    outer = _OUTER_SIDES.get(side)
    if outer is not None and kind in ("", "OUTER"):
        return outer
    if not side and kind in ("", "INNER", "CROSS"):
        return "INNER"
    raise UnsupportedSql(f"{side} {kind} JOIN is not supported".strip(), position)
