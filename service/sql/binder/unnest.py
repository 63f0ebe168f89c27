"""UNNEST in FROM: each row with the elements of a collection of its own.

    FROM s CROSS JOIN UNNEST(s.tags) AS t (tag)
    FROM s LEFT JOIN UNNEST(s.lines) WITH ORDINALITY AS t (sku, quantity, line) ON TRUE

A collection that names no column is a table of its own, and is joined like one.

Source: Flink `LogicalUnnestRule`, Calcite `SqlUnnestOperator`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from service.plan.correlate import ORDINALITY, element_types
from service.sql.algebra import Correlate, Filter, Join, Relation, Values
from service.sql.binder.merging import Bound
from service.sql.dialect import position_of
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.expressions import ExpressionBinder
from service.sql.rex import call, conjunction, conjuncts, inputs_of, is_true, shift, type_of
from service.sql.scope import Scope, Source
from service.sql.terms import Row
from service.sql.types import INT
from state.types import MAP_ROOTS, LogicalType, TypeRoot, row_type

if TYPE_CHECKING:
    from service.plan.rex import Call, Rex
    from service.sql.errors import Position
    from service.sql.source_text import Fragment
    from service.sql.terms import JoinKind

_PLAIN = "UNNEST_ROWS"


def unnest_of(node: exp.Expression) -> exp.Expression | None:
    """The UNNEST that an entry of FROM is, with its alias; None if it is none."""
    if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Unnest):
        found = node.this.copy()
        found.set("alias", node.args.get("alias"))
        return found
    return node if isinstance(node, exp.Unnest) else None


def bind_unnest(node: exp.Expression, fragment: Fragment) -> Bound:
    """An UNNEST of constants, that is a table by itself.

    Raises:
        SqlError: It is no collection, or names columns of which there are none.
    """
    unnest = _read(node, ExpressionBinder(Scope(()), fragment), position_of(node, fragment))
    return Bound(_alone(unnest), (Source(node.alias, unnest.row, 0),))


def join_unnest(
    left: Bound, node: exp.Expression, join: exp.Expression, kind: JoinKind, fragment: Fragment
) -> Bound:
    """Rows joined with what UNNEST makes of each.

    Raises:
        SqlError: It is no collection, or the rows cannot be joined so.
    """
    position = position_of(node, fragment)
    binder = ExpressionBinder(Scope(left.sources, merged=left.merged), fragment)
    unnest = _read(node, binder, position)
    if kind not in ("INNER", "LEFT"):
        raise UnsupportedSql(f"Unknown join type {kind}", position)
    width = len(left.relation.row)
    made = unnest.row.nullable() if kind == "LEFT" else unnest.row
    sources = (*left.sources, Source(node.alias, made, width))
    condition: Rex | None = None
    if join.args.get("on") is not None:
        scope = Scope(sources, merged=left.merged)
        condition = ExpressionBinder(scope, fragment).condition(join.args["on"])
    parts = [part for part in conjuncts(condition) if not is_true(part)]
    relation: Relation
    if not inputs_of(unnest.call):
        relation = Join(left.relation, _alone(unnest), kind, conjunction(parts))
        return Bound(relation, sources, left.merged)
    own = conjunction(parts) if kind == "LEFT" else None
    if own is not None and min(inputs_of(own), default=0) < width:
        raise UnsupportedSql(
            "LEFT JOIN UNNEST ON a condition that reads other columns than those of the elements "
            "is not supported",
            position,
        )
    relation = Correlate(
        left.relation,
        kind,
        unnest.call,
        unnest.row,
        unnest.names_in_plan(pads=kind == "LEFT"),
        None if own is None else shift(own, -width),
    )
    if kind == "INNER" and (kept := conjunction(parts)) is not None:
        relation = Filter(relation, kept)
    return Bound(relation, sources, left.merged)


@dataclass(frozen=True, slots=True)
class _Unnest:
    """What an UNNEST says."""

    call: Call
    row: Row
    """The columns that it makes, as the query names them."""
    plain_names: tuple[str, ...]
    """By what they are: `f0`, or the names of fields."""

    def names_in_plan(self, *, pads: bool) -> tuple[str, ...]:
        """As a plan names them: as the query does where padding changes their types."""
        is_changed = pads and not all(each.nullable for each in self.row.types)
        return self.row.names if is_changed else self.plain_names


def _alone(unnest: _Unnest) -> Relation:
    """A collection of constants, unnested once."""
    once = Values(((),), Row((), ()))
    made = Row(unnest.plain_names, unnest.row.types)
    return Correlate(once, "INNER", unnest.call, made, made.names)


def _read(node: exp.Expression, binder: ExpressionBinder, position: Position) -> _Unnest:
    if len(node.expressions) != 1:
        raise UnsupportedSql("UNNEST of more than one collection is not supported", position)
    operand = binder.rex(node.expressions[0])
    collection = type_of(operand)
    if collection.root is not TypeRoot.ARRAY and collection.root not in MAP_ROOTS:
        raise ValidationError(
            f"Cannot apply 'UNNEST' to arguments of type 'UNNEST(<{collection.root.value}>)'.",
            position,
            hint="it takes an ARRAY, a MAP or a MULTISET",
        )
    offset = node.args.get("offset")
    names, plain = _names(collection, node.alias, has_number=bool(offset))
    kinds = element_types(collection)
    if offset:
        kinds = (*kinds, INT.with_nullable(False))
    given = _alias_names(node, offset)
    if given and len(given) != len(kinds):
        raise ValidationError(
            "List of column aliases must have same degree as table; table has "
            f"{len(kinds)} columns ({', '.join(map(repr, names))}), "
            f"whereas alias list has {len(given)} columns",
            position,
        )
    made = call(ORDINALITY if offset else _PLAIN, [operand], _made(collection, plain, kinds))
    return _Unnest(made, Row(given or names, kinds), plain)


def _names(
    collection: LogicalType, alias: str, *, has_number: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the columns are called without an alias list, and in a plan."""
    number = ("ORDINALITY",) if has_number else ()
    if collection.root is TypeRoot.MAP:
        return ("KEY", "VALUE", *number), ("f0", "f1", *number)
    (element,) = collection.children
    if element.root is TypeRoot.ROW:
        return (*element.field_names, *number), (*element.field_names, *number)
    return (alias or "EXPR$0", *number), ("EXPR$0" if has_number else "f0", *number)


def _alias_names(node: exp.Expression, offset: object) -> tuple[str, ...]:
    alias = node.args.get("alias")
    columns = [] if alias is None else [column.name for column in alias.columns]
    if isinstance(offset, exp.Identifier):
        # The parser takes the last name of the list for the number's.
        columns.append(offset.name)
    return tuple(columns)


def _made(
    collection: LogicalType, names: tuple[str, ...], kinds: tuple[LogicalType, ...]
) -> LogicalType:
    """The type of a row that is made: nullable as an element is, where it is just that."""
    is_element = collection.root is not TypeRoot.MAP and names[-1] != "ORDINALITY"
    element = collection.children[0]
    nullable = is_element and (element.nullable or element.root is not TypeRoot.ROW)
    return row_type(names, kinds, nullable=nullable)
