"""GROUP BY and aggregate functions.

What is grouped by and what is aggregated is computed by a projection first, whose columns the
aggregate refers to: the groups, then each call's arguments and its FILTER, each once. Names follow
Flink's, because a plan's output types show them.

Source: Calcite `SqlToRelConverter.createAggImpl` and its `AggConverter`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import InputRef, Rex
from service.sql import types
from service.sql.algebra import Aggregate, Filter, Project, Relation
from service.sql.binder.group_windows import (
    GroupWindow,
    auxiliary,
    bind_window,
    has_auxiliary,
    in_table_order,
    window_kind,
)
from service.sql.binder.grouping_sets import grouping_sets
from service.sql.dialect import JsonAggregate, position_of
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.functions import AGGREGATE_FUNCTIONS, OF_NUMBERS, SYNONYMS, aggregate_type
from service.sql.rex import call, cast, inputs_of, literal, ref, type_of
from service.sql.terms import GROUPING, AggregateCall
from service.sql.window_relations import GroupWindows
from state.types import NUMBER_ROOTS, STRING_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.sql.errors import Position
    from service.sql.expressions import ExpressionBinder
    from service.sql.source_text import Fragment
    from service.sql.terms import WindowKind


@dataclass(slots=True)
class _Columns:
    """The columns that an aggregate needs, each once, with Flink's names."""

    expressions: list[Rex] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)

    def add(self, rex: Rex, name: str | None, below: Relation) -> int:
        """The position of an expression."""
        if rex in self.expressions:
            return self.expressions.index(rex)
        if name is None and isinstance(rex, InputRef):
            name = below.row.names[rex.index]
        self.expressions.append(rex)
        self.names.append(name)
        return len(self.expressions) - 1

    def project(self, below: Relation) -> Relation:
        """The projection that computes them."""
        names: list[str] = []
        for position, name in enumerate(self.names):
            made = name or f"$f{position}"
            while made in names:
                made += "_0"
            names.append(made)
        return Project(below, tuple(self.expressions), tuple(names))


class Grouping:
    """The groups and aggregates of one query block; also says what its expressions mean above."""

    def __init__(
        self,
        relation: Relation,
        binder: ExpressionBinder,
        fragment: Fragment,
        names: Mapping[str, str],
    ) -> None:
        self._below = relation
        self._binder = binder
        self._fragment = fragment
        self._names = names
        self._columns = _Columns()
        self._groups: list[Rex] = []
        self._places: list[int] = []
        self._window: GroupWindow | None = None
        self._cuts_windows = False
        self._tells = False
        self._calls: list[AggregateCall] = []
        self._sets: tuple[frozenset[int], ...] = ()
        self._made: Relation | None = None

    def group_by(self, group: exp.Expression | None) -> None:
        """Take over GROUP BY.

        Raises:
            SqlError: A group means nothing, or is none that we plan.
        """
        if group is None:
            return
        nodes = list(group.expressions)
        for kind in ("rollup", "cube", "grouping_sets"):
            nodes += group.args.get(kind) or []
        # The parser keeps the kinds apart; their order is that of the groups.
        nodes.sort(key=lambda node: (self._at(node).line, self._at(node).column))
        self._cuts_windows = any(window_kind(node) is not None for node in nodes)
        self._sets = grouping_sets(nodes, self._group, self._at(group))
        if self._sets and self._window is not None:
            raise UnsupportedSql(
                f"GROUPING SETS with {self._window.kind}(..) are not supported",
                self._at(group),
                hint="use the window table function",
            )

    def aggregate(self, nodes: list[exp.Expression]) -> None:
        """Take over every aggregate call in these expressions."""
        self._tells = has_auxiliary(nodes)
        for node in nodes:
            for found in _aggregates(node):
                self._call(found)

    def relation(self, ttl: str | None) -> Relation:
        """The aggregate."""
        if not self._columns.expressions:
            below = self._without_columns()
        else:
            below = self._columns.project(self._below)
        if self._window is not None:
            return self._windows(below, self._window)
        self._made = Aggregate(below, tuple(self._places), tuple(self._calls), ttl, self._sets)
        return self._made

    def _windows(self, below: Relation, window: GroupWindow) -> Relation:
        """The aggregate of windows; columns that need no projection are left where they are."""
        time = self._columns.expressions.index(window.time)
        made = GroupWindows(
            below, tuple(self._places), tuple(self._calls), window.spec(time), self._tells
        )
        self._made = in_table_order(made)
        return self._made

    def meaning(self, node: exp.Expression) -> Rex | None:
        """What an expression above the aggregate stands for; None: look at its parts.

        Raises:
            ValidationError: A column that is neither grouped by nor aggregated.
        """
        assert self._made is not None, "the aggregate is made before expressions above it"
        row = self._made.row
        if is_aggregate(node):
            index = len(self._groups) + self._call(node)
            return ref(index, row.types[index])
        if _is_group_id(node):
            return self._group_id(node)
        told = auxiliary(node)
        if told is not None:
            return self._told(node, *told)
        if has_aggregates([node]) or has_auxiliary([node]) or isinstance(node, exp.Window):
            return None
        if any(map(_is_group_id, node.find_all(exp.Anonymous))):
            return None
        if isinstance(node, (exp.Null, exp.Interval)):
            return None
        bound = self._binder.rex(node)
        if bound in self._groups:
            index = self._groups.index(bound)
            return ref(index, row.types[index])
        if isinstance(node, exp.Column) and inputs_of(bound):
            raise ValidationError(
                f"{node.name!r} is not being grouped",
                self._at(node),
                hint="group by it, or aggregate it",
            )
        return None

    def _group_id(self, node: exp.Expression) -> Rex:
        """Which of equal grouping sets a row is of: the first, since none may come twice."""
        if node.expressions:
            raise ValidationError("GROUP_ID takes no arguments", self._at(node))
        return literal(0, types.BIGINT.with_nullable(False))

    def _told(self, node: exp.Expression, kind: WindowKind, what: str) -> Rex:
        """What TUMBLE_START and its like say of the window."""
        given = tuple(self._binder.rex(each) for each in node.expressions)
        window = self._window
        if window is None or (window.kind, window.arguments) != (kind, given):
            raise ValidationError(
                f"Call to auxiliary group function '{kind}_{what}' must have matching call to "
                f"group function '${kind}' in GROUP BY clause",
                self._at(node),
            )
        assert self._made is not None, "the caller has checked it"
        row = self._made.row
        name = f"w${what.lower()}"
        if name not in row.names:
            raise ValidationError(
                "A proctime window cannot provide a rowtime attribute.", self._at(node)
            )
        index = row.names.index(name)
        column = ref(index, row.types[index])
        if what != "PROCTIME":
            return column
        return cast(column, row.types[index].with_nullable(False))

    def _without_columns(self) -> Relation:
        """COUNT(*) over everything needs rows, not columns."""
        if isinstance(self._below, Filter):
            used = sorted(inputs_of(self._below.condition))
            row = self._below.row
            # Else the constant is the cheaper one to send.
            if used and {row.types[each].root for each in used} <= _FOUR_BYTES and len(used) == 1:
                expressions = tuple(ref(index, row.types[index]) for index in used)
                return Project(self._below, expressions, tuple(row.names[index] for index in used))
        zero = literal(0, types.INT.with_nullable(False))
        return Project(self._below, (zero,), ("$f0",))

    def _group(self, node: exp.Expression) -> int:
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Null):
            raise ValidationError("Illegal use of 'NULL'", self._at(node))
        kind = window_kind(node)
        if kind is not None:
            return self._window_group(kind, node)
        bound = self._binder.rex(node)
        # Flink names what it computes beside windows by its place alone.
        name = None if self._cuts_windows else self._names.get(node.sql())
        position = self._columns.add(bound, name, self._below)
        if bound not in self._groups:
            self._groups.append(bound)
            self._places.append(position)
        return position

    def _window_group(self, kind: WindowKind, node: exp.Expression) -> int:
        if self._window is not None:
            raise ValidationError(
                "Only a single window group function may be used in GROUP BY", self._at(node)
            )
        self._window = bind_window(kind, node, self._binder, self._at(node))
        return self._columns.add(self._window.time, None, self._below)

    def _call(self, node: exp.Expression) -> int:
        """The position among the calls of an aggregate, which is added if it is new."""
        function, condition = node, None
        if isinstance(node, exp.Filter):
            function, condition = node.this, node.expression.this
        if not isinstance(function, exp.Anonymous):
            raise UnsupportedSql(f"{function.key.upper()} is not supported", self._at(node))
        name = SYNONYMS.get(function.name.upper(), function.name.upper())
        if condition is not None and name not in AGGREGATE_FUNCTIONS:
            raise ValidationError(f"{name} is not an aggregate with FILTER", self._at(node))
        if name in GROUPING_FUNCTIONS:
            return self._added(self._grouping_call(name, function))
        arguments, is_distinct = self._arguments(function)
        made = self._aggregate_call(name, arguments, condition, node, is_distinct=is_distinct)
        made = replace(made, ignores_nulls=self._ignores_nulls(name, function))
        return self._added(made)

    def _added(self, made: AggregateCall) -> int:
        identities = [each.identity for each in self._calls]
        if made.identity in identities:
            return identities.index(made.identity)
        assert self._made is None, "every aggregate is known before the aggregate is made"
        self._calls.append(made)
        return len(self._calls) - 1

    def _grouping_call(self, name: str, function: exp.Expression) -> AggregateCall:
        """GROUPING and GROUPING_ID of groups."""
        bound = [self._binder.rex(each) for each in function.expressions]
        if not bound or any(each not in self._groups for each in bound):
            raise ValidationError(
                f"Argument to {name} operator must be a grouped expression", self._at(function)
            )
        columns = tuple(self._groups.index(each) for each in bound)
        shown = self._names.get(function.sql())
        return AggregateCall(GROUPING, columns, types.BIGINT.with_nullable(False), shown)

    def _aggregate_call(
        self,
        name: str,
        arguments: list[Rex],
        condition: exp.Expression | None,
        node: exp.Expression,
        *,
        is_distinct: bool,
    ) -> AggregateCall:
        given = [type_of(each) for each in arguments]
        least, most = AGGREGATE_FUNCTIONS[name].arguments
        if not least <= len(arguments) <= most:
            raise ValidationError(
                f"{name} does not take {len(arguments)} arguments", self._at(node)
            )
        kind = AGGREGATE_FUNCTIONS[name].kind
        if kind in OF_NUMBERS and given[0].root not in NUMBER_ROOTS:
            raise ValidationError(f"{name} needs a number", self._at(node))
        if kind == "json" and condition is not None:
            raise UnsupportedSql("FILTER of an aggregate to JSON is not supported", self._at(node))
        if len(given) == 2 and kind == "json" and given[0].root not in STRING_ROOTS:
            raise ValidationError("a key of JSON must be a string", self._at(node))
        if name == "COUNT" and not is_distinct and not types.any_nullable(given):
            arguments = []
        columns = tuple(self._columns.add(each, None, self._below) for each in arguments)
        filtered = None
        if condition is not None:
            bound = self._binder.condition(condition)
            test = call("IS TRUE", [bound], types.BOOLEAN.with_nullable(False))
            filtered = self._columns.add(test, None, self._below)
        may_be_empty = filtered is not None or not (self._groups or self._sets)
        result = aggregate_type(name, given, may_be_empty=may_be_empty)
        is_distinct = is_distinct and name not in ("MIN", "MAX")
        shown = self._names.get(node.sql())
        return AggregateCall(name, columns, result, shown, filtered, is_distinct)

    def _arguments(self, function: exp.Expression) -> tuple[list[Rex], bool]:
        nodes = [each.this if isinstance(each, _NULLS) else each for each in function.expressions]
        is_distinct = bool(nodes) and isinstance(nodes[0], exp.Distinct)
        if is_distinct:
            nodes = list(nodes[0].expressions)
        return [
            self._binder.rex(each) for each in nodes if not isinstance(each, exp.Star)
        ], is_distinct

    def _ignores_nulls(self, name: str, function: exp.Expression) -> bool:
        """Whether the call says IGNORE NULLS; only ARRAY_AGG may say of NULL at all."""
        said = next(function.find_all(*_NULLS), None)
        if said is not None and name != "ARRAY_AGG":
            words = "IGNORE NULLS" if isinstance(said, exp.IgnoreNulls) else "RESPECT NULLS"
            raise UnsupportedSql(f"{name} with {words} is not supported", self._at(function))
        return isinstance(said, exp.IgnoreNulls)

    def _at(self, node: exp.Expression) -> Position:
        return position_of(node, self._fragment)


_NULLS = (exp.IgnoreNulls, exp.RespectNulls)
GROUPING_FUNCTIONS = ("GROUPING", "GROUPING_ID")
_FOUR_BYTES = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INTEGER,
        TypeRoot.FLOAT,
        TypeRoot.DATE,
        TypeRoot.TIME,
    }
)
"""What takes no more room than an INT.

Source: Flink `FlinkRelMdSize.averageTypeValueSize`."""


def is_aggregate(node: exp.Expression) -> bool:
    """Whether a node is a call of an aggregate function, or one with FILTER."""
    if isinstance(node, exp.Filter):
        return True
    if not isinstance(node, exp.Anonymous):
        return False
    function = AGGREGATE_FUNCTIONS.get(node.name.upper())
    if function is None:
        return node.name.upper() in GROUPING_FUNCTIONS
    return function.kind != "json" or isinstance(node, JsonAggregate)


def _is_group_id(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.upper() == "GROUP_ID"


def has_aggregates(nodes: list[exp.Expression]) -> bool:
    """Whether an aggregate is among or inside the expressions."""
    return any(True for node in nodes for _ in _aggregates(node))


def _aggregates(node: exp.Expression) -> Iterator[exp.Expression]:
    """The aggregate calls of an expression, not those of OVER nor of subqueries."""
    pending = [node]
    while pending:
        part = pending.pop(0)
        if is_aggregate(part):
            yield part
        elif isinstance(part, exp.Window):
            inner = part.this
            order = part.args.get("order")
            pending[:0] = [] if order is None else list(order.expressions)
            pending[:0] = list(inner.iter_expressions())
            pending[:0] = list(part.args.get("partition_by") or ())
        elif not isinstance(part, (exp.Subquery, exp.Select, exp.Exists)):
            pending[:0] = list(part.iter_expressions())
