"""Relations as text, one operator a line, for fixtures that a person can read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef, Literal, SargLiteral
from service.sql.algebra import (
    Aggregate,
    Correlate,
    Expand,
    Filter,
    Join,
    KeepAll,
    MultiJoin,
    Project,
    Relation,
    Scan,
    Sort,
    VersionJoin,
    Watermark,
    inputs,
)
from service.sql.rex import OverCall
from service.sql.window_relations import GroupWindows, Over, Rank, WindowTable

if TYPE_CHECKING:
    from service.sql.rex import Expression
    from service.sql.terms import AggregateCall, Ordering


def show(relation: Relation, depth: int = 0) -> str:
    """The tree, indented; each operator with its details and the columns that it gives."""
    line = f"{'  ' * depth}{type(relation).__name__}[{_details(relation)}]"
    lines = [f"{line} -> {', '.join(relation.row.names)}"]
    return "\n".join(lines + [show(each, depth + 1) for each in inputs(relation)])


def _details(relation: Relation) -> str:
    match relation:
        case Scan(table):
            return table.names[-1]
        case Watermark():
            return relation.input.row.names[relation.column]
        case Project():
            return ", ".join(map(rex, relation.expressions))
        case Filter():
            return rex(relation.condition)
        case Join() | VersionJoin():
            condition = "" if relation.condition is None else " " + rex(relation.condition)
            return f"{relation.kind}{condition}"
        case MultiJoin():
            return ", ".join(map(rex, relation.conditions[1:]))
        case Aggregate():
            sets = [f"sets {list(map(sorted, relation.sets))}"] if relation.sets else []
            return ", ".join([f"by {list(relation.grouping)}", *sets, *map(_call, relation.calls)])
        case Sort():
            return f"{_order(relation.order)}, {relation.offset}..{relation.fetch}"
        case Over():
            calls = ", ".join(map(rex, relation.calls))
            return f"{calls}, by {list(relation.partition)}, {_order(relation.order)}"
        case Rank():
            end = relation.range.end_column
            last = f"${end}" if end is not None else str(relation.range.end)
            kept = f"{relation.range.start}..{last}"
            return f"by {list(relation.partition)}, {_order(relation.order)}, {kept}"
        case GroupWindows():
            cut = f"{relation.spec.kind} ${relation.spec.time_column} {relation.spec.size_ms}"
            return ", ".join([f"by {list(relation.grouping)}", cut, *map(_call, relation.calls)])
        case WindowTable(_, spec):
            return f"{spec.kind} ${spec.time_column} {spec.size_ms}"
        case Correlate():
            condition = "" if relation.condition is None else f", {rex(relation.condition)}"
            return f"{relation.kind} {rex(relation.call)}{condition}"
        case KeepAll():
            return "EXCEPT" if relation.is_except else "INTERSECT"
        case Expand():
            return f"{list(map(sorted, relation.sets))}"
        case _:
            return ""


def rex(expression: Expression) -> str:
    """An expression: columns as `$0`, calls as `f(..)`."""
    match expression:
        case InputRef():
            return f"${expression.index}"
        case Literal():
            return repr(expression.value)
        case SargLiteral():
            return "SARG"
        case Call():
            return f"{expression.name}({', '.join(map(rex, expression.operands))})"
        case OverCall():
            return f"{expression.name}({', '.join(map(rex, expression.operands))}) OVER"
        case _:
            return type(expression).__name__


def _call(call: AggregateCall) -> str:
    distinct = "DISTINCT " if call.is_distinct else ""
    kept = "" if call.filter is None else f" IF ${call.filter}"
    return f"{call.function}({distinct}{', '.join(f'${each}' for each in call.arguments)}){kept}"


def _order(order: tuple[Ordering, ...]) -> str:
    columns = [f"{each.column}{'' if each.is_ascending else ' desc'}" for each in order]
    return f"order {columns}"
