"""GROUP BY and aggregate functions.

What is grouped by and what is aggregated is computed by a projection first, whose columns the
aggregate refers to: the groups, then each call's arguments and its FILTER, each once. Names follow
Flink's, because a plan's output types show them.

Source: Calcite `SqlToRelConverter.createAggImpl` and its `AggConverter`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.rex import InputRef, Rex
from service.sql import types
from service.sql.algebra import Aggregate, AggregateCall, Filter, Project, Relation
from service.sql.dialect import position_of
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.functions import AGGREGATE_FUNCTIONS, aggregate_type
from service.sql.rex import call, inputs_of, literal, ref, type_of
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.sql.expressions import ExpressionBinder
    from service.sql.source_text import Fragment


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
        self._calls: list[AggregateCall] = []
        self._sets: tuple[frozenset[int], ...] = ()
        self._made: Relation | None = None

    def group_by(self, group: exp.Expression | None) -> None:
        """Take over GROUP BY."""
        if group is None:
            return
        nodes = list(group.expressions)
        for kind in ("rollup", "cube", "grouping_sets"):
            nodes += group.args.get(kind) or []
        plain = [node for node in nodes if not isinstance(node, _SETS)]
        sets = [node for node in nodes if isinstance(node, _SETS)]
        common = frozenset(self._group(node) for node in plain)
        if len(sets) > 1:
            raise UnsupportedSql("several GROUPING SETS are not supported", self._at(group))
        if sets:
            self._sets = tuple(common | chosen for chosen in self._chosen(sets[0]))

    def aggregate(self, nodes: list[exp.Expression]) -> None:
        """Take over every aggregate call in these expressions."""
        for node in nodes:
            for found in _aggregates(node):
                self._call(found)

    def relation(self, ttl: str | None) -> Relation:
        """The aggregate."""
        if not self._columns.expressions:
            below = self._without_columns()
        else:
            below = self._columns.project(self._below)
        self._made = Aggregate(
            below, tuple(range(len(self._groups))), tuple(self._calls), ttl, self._sets
        )
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
        if any(True for _ in _aggregates(node)) or isinstance(node, exp.Window):
            return None
        if isinstance(node, (exp.Literal, exp.Null, exp.Boolean, exp.Interval)):
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
        if isinstance(node, exp.Literal):
            raise UnsupportedSql("GROUP BY a number is not supported", self._at(node))
        if isinstance(node, exp.Anonymous) and node.name.upper() in ("TUMBLE", "HOP", "SESSION"):
            raise UnsupportedSql(
                f"GROUP BY {node.name.upper()}(..) is not supported",
                self._at(node),
                hint="use the window table function",
            )
        bound = self._binder.rex(node)
        position = self._columns.add(bound, self._names.get(node.sql()), self._below)
        if bound not in self._groups:
            self._groups.append(bound)
        return position

    def _chosen(self, node: exp.Expression) -> list[frozenset[int]]:
        parts = [
            frozenset(self._group(each) for each in _members(entry)) for entry in node.expressions
        ]
        if isinstance(node, exp.GroupingSets):
            return parts
        if isinstance(node, exp.Rollup):
            counts = range(len(parts), -1, -1)
            return [frozenset().union(*parts[:count]) for count in counts]
        if len(parts) > _CUBE_MAX:
            raise UnsupportedSql(f"CUBE of more than {_CUBE_MAX} columns", self._at(node))
        last = len(parts) - 1
        return [
            frozenset().union(*(part for at, part in enumerate(parts) if not left >> last - at & 1))
            for left in range(1 << len(parts))
        ]

    def _call(self, node: exp.Expression) -> int:
        """The position among the calls of an aggregate, which is added if it is new."""
        function, condition = node, None
        if isinstance(node, exp.Filter):
            function, condition = node.this, node.expression.this
        if not isinstance(function, exp.Anonymous):
            raise UnsupportedSql(f"{function.key.upper()} is not supported", self._at(node))
        name = function.name.upper()
        arguments, is_distinct = self._arguments(function)
        made = self._aggregate_call(name, arguments, condition, node, is_distinct=is_distinct)
        identities = [each.identity for each in self._calls]
        if made.identity in identities:
            return identities.index(made.identity)
        assert self._made is None, "every aggregate is known before the aggregate is made"
        self._calls.append(made)
        return len(self._calls) - 1

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
        if name in _GROUPING_FUNCTIONS:
            return self._grouping_call(arguments, node)
        least, most = AGGREGATE_FUNCTIONS[name].arguments
        if not least <= len(arguments) <= most:
            raise ValidationError(
                f"{name} does not take {len(arguments)} arguments", self._at(node)
            )
        if name in ("SUM", "AVG") and given[0].root not in types.NUMERIC:
            raise ValidationError(f"{name} needs a number", self._at(node))
        if name == "COUNT" and not is_distinct and not types.any_nullable(given):
            arguments = []
        columns = tuple(self._columns.add(each, None, self._below) for each in arguments)
        filtered = None
        if condition is not None:
            bound = self._binder.condition(condition)
            test = call("IS TRUE", [bound], types.BOOLEAN.with_nullable(False))
            filtered = self._columns.add(test, None, self._below)
        may_be_empty = not self._groups or filtered is not None or bool(self._sets)
        result = aggregate_type(name, given, may_be_empty=may_be_empty)
        is_distinct = is_distinct and name not in ("MIN", "MAX")
        shown = self._names.get(node.sql())
        return AggregateCall(name, columns, result, shown, filtered, is_distinct)

    def _grouping_call(self, arguments: list[Rex], node: exp.Expression) -> AggregateCall:
        """GROUPING(a, b): a rule computes it from the set that a row is of."""
        if not arguments or any(each not in self._groups for each in arguments):
            raise ValidationError("GROUPING takes columns that the query groups by", self._at(node))
        columns = tuple(self._groups.index(each) for each in arguments)
        made = types.BIGINT.with_nullable(False)
        return AggregateCall("GROUPING", columns, made, self._names.get(node.sql()))

    def _arguments(self, function: exp.Expression) -> tuple[list[Rex], bool]:
        nodes = list(function.expressions)
        is_distinct = bool(nodes) and isinstance(nodes[0], exp.Distinct)
        if is_distinct:
            nodes = list(nodes[0].expressions)
        return [
            self._binder.rex(each) for each in nodes if not isinstance(each, exp.Star)
        ], is_distinct

    def _at(self, node: exp.Expression):  # type: ignore[no-untyped-def]
        return position_of(node, self._fragment)


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
_GROUPING_FUNCTIONS = frozenset({"GROUPING", "GROUPING_ID"})
_CUBE_MAX = 12
"""Each column more doubles the sets, and so what every row becomes."""
_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)


def is_aggregate(node: exp.Expression) -> bool:
    """Whether a node is a call of an aggregate function, or one with FILTER."""
    if isinstance(node, exp.Filter):
        return True
    known = AGGREGATE_FUNCTIONS.keys() | _GROUPING_FUNCTIONS
    return isinstance(node, exp.Anonymous) and node.name.upper() in known


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
            pending[:0] = list(inner.iter_expressions())
            pending[:0] = list(part.args.get("partition_by") or ())
        elif not isinstance(part, (exp.Subquery, exp.Select, exp.Exists)):
            pending[:0] = list(part.iter_expressions())


def _members(entry: exp.Expression) -> list[exp.Expression]:
    if isinstance(entry, exp.Tuple):
        return list(entry.expressions)
    return [entry.this if isinstance(entry, exp.Paren) else entry]
