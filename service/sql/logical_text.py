"""A statement's meaning before any rule, as a tree of relations: EXPLAIN's first section.

Written as Calcite writes its plans, since that is what readers of EXPLAIN know. Subqueries are
joins already when we bind them, so such statements read otherwise than in Flink.

Source: Calcite `RelTreeWriterImpl` and `RexNode.toString`; Flink's recorded explanations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef, Literal, SargLiteral, SymbolLiteral
from service.sql import algebra
from service.sql.metadata import read_metadata
from service.sql.physical.expression_text import character_text, literal_text, type_text
from service.sql.rex import OverCall
from service.sql.window_relations import WindowTable
from state.types import INTERVAL_ROOTS, STRING_ROOTS, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.sql.algebra import Relation
    from service.sql.rex import Expression, Frame, FrameBound
    from service.sql.terms import Row, WindowSpec


def logical_tree(sink: algebra.Sink, *, has_sink: bool = True) -> str:
    """The tree of one INSERT, or of its query alone."""
    if has_sink:
        fields = ", ".join(sink.input.row.names)
        hints = f", hints=[[[{sink.table.hint}]]]" if sink.table.hint else ""
        first = f"LogicalSink(table=[{sink.table.summary}], fields=[{fields}]{hints})"
        below = _Branches((sink.input,))
    else:
        first, below = _line(_without_renaming(sink.input))
    lines = [first]
    _draw(below, "", lines)
    return "\n".join(lines)


class _Branches:
    """What is drawn below a line: relations, or lines that stand for no relation of ours."""

    def __init__(self, relations: Sequence[Relation], lead: Sequence[str] = ()) -> None:
        self.relations = tuple(relations)
        self.lead = tuple(lead)
        """Lines of the last branch, one below the other, above its relation."""


def _draw(branches: _Branches, stem: str, lines: list[str]) -> None:
    """Draw what is below a line; a statement is bound by recursion, so it is not too deep here."""
    last = len(branches.relations) - 1
    for at, drawn in enumerate(branches.relations):
        relation = _without_renaming(drawn)
        arm, below = ("+- ", stem + "   ") if at == last else (":- ", stem + ":  ")
        if at == last:
            for line in branches.lead:
                lines.append(f"{stem}{arm}{line}")
                stem, arm, below = below, "+- ", below + "   "
        line, following = _line(relation)
        lines.append(f"{stem}{arm}{line}")
        _draw(following, below, lines)


def _without_renaming(relation: Relation) -> Relation:
    """What is below a projection that changes nothing of an aggregate: Calcite makes none there."""
    if not isinstance(relation, algebra.Project):
        return relation
    below = relation.input
    is_same = isinstance(below, algebra.Aggregate) and relation.names == below.row.names
    columns = [each.index if isinstance(each, InputRef) else None for each in relation.expressions]
    return below if is_same and columns == list(range(len(relation.names))) else relation


def _line(relation: Relation) -> tuple[str, _Branches]:
    inputs = _Branches(algebra.inputs(relation))
    match relation:
        case algebra.Scan(table):
            hints = ""
            if table.hint:
                word, _, given = table.hint.partition(" ")
                hints = f", hints=[[[{word} inheritPath:[] {given}]]]"
            named = ", ".join((*table.names, *read_metadata(table)))
            return f"LogicalTableScan(table=[[{named}]]{hints})", inputs
        case algebra.Project(_, expressions, names):
            made = ", ".join(
                f"{name}=[{expression_text(each)}]"
                for name, each in zip(names, expressions, strict=True)
            )
            return f"LogicalProject({made})", inputs
        case algebra.Filter(_, condition):
            return f"LogicalFilter(condition=[{expression_text(condition)}])", inputs
        case algebra.Watermark(below, column, expression):
            name = below.row.names[column]
            text = expression_text(expression)
            return f"LogicalWatermarkAssigner(rowtime=[{name}], watermark=[{text}])", inputs
        case algebra.Join():
            met = "true" if relation.condition is None else expression_text(relation.condition)
            kind = relation.kind.lower()
            return f"LogicalJoin(condition=[{met}], joinType=[{kind}])", inputs
        case algebra.VersionJoin():
            return _version_join(relation)
        case algebra.Aggregate():
            return _aggregate(relation), inputs
        case algebra.Sort():
            return _sort(relation), inputs
        case algebra.Union():
            return "LogicalUnion(all=[true])", inputs
        case algebra.KeepAll():
            kind = "Minus" if relation.is_except else "Intersect"
            return f"Logical{kind}(all=[true])", inputs
        case algebra.Values(rows, _):
            tuples = ", ".join("{ " + ", ".join(map(expression_text, row)) + " }" for row in rows)
            return f"LogicalValues(tuples=[[{tuples}]])", inputs
        case WindowTable(below, spec):
            return f"LogicalTableFunctionScan(invocation=[{_window(spec, below.row)}])", inputs
        case _:
            return (
                f"Logical{type(relation).__name__}(select=[{', '.join(relation.row.names)}])",
                inputs,
            )


def _version_join(join: algebra.VersionJoin) -> tuple[str, _Branches]:
    width, names = len(join.left.row), join.left.row.names
    used: set[int] = set()

    def column(index: int) -> str:
        if index < width:
            used.add(index)
            return f"$cor1.{names[index]}"
        return f"${index - width}"

    condition = "true" if join.condition is None else expression_text(join.condition, column)
    period = expression_text(join.time, column)
    required = ", ".join(map(str, sorted(used)))
    line = (
        f"LogicalCorrelate(correlation=[$cor1], joinType=[{join.kind.lower()}], "
        f"requiredColumns=[{{{required}}}])"
    )
    lead = (f"LogicalFilter(condition=[{condition}])", f"LogicalSnapshot(period=[{period}])")
    return line, _Branches((join.left, join.right), lead)


def _aggregate(relation: algebra.Aggregate) -> str:
    group = ", ".join(map(str, relation.grouping))
    parts = [f"group=[{{{group}}}]"]
    if relation.sets:
        sets = ", ".join("{" + ", ".join(map(str, sorted(each))) + "}" for each in relation.sets)
        parts.append(f"groups=[[{sets}]]")
    names = relation.row.names[len(relation.grouping) :]
    for name, call in zip(names, relation.calls, strict=True):
        arguments = ", ".join(f"${each}" for each in call.arguments)
        distinct = "DISTINCT " if call.is_distinct else ""
        condition = "" if call.filter is None else f" FILTER ${call.filter}"
        parts.append(f"{name}=[{call.function}({distinct}{arguments}){condition}]")
    return f"LogicalAggregate({', '.join(parts)})"


def _sort(relation: algebra.Sort) -> str:
    parts = [f"sort{at}=[${key.column}]" for at, key in enumerate(relation.order)]
    for at, key in enumerate(relation.order):
        direction = "ASC" if key.is_ascending else "DESC"
        parts.append(f"dir{at}=[{direction}-nulls-{'last' if key.nulls_last else 'first'}]")
    if relation.offset:
        parts.append(f"offset=[{relation.offset}]")
    if relation.fetch is not None:
        parts.append(f"fetch=[{relation.fetch}]")
    return f"LogicalSort({', '.join(parts)})"


def _window(spec: WindowSpec, row: Row) -> str:
    sizes = [spec.step_ms, spec.size_ms, spec.offset_ms]
    shown = [f"{size}:INTERVAL SECOND" for size in sizes if size is not None]
    column = f"DESCRIPTOR(_UTF-16LE'{row.names[spec.time_column]}')"
    return f"{spec.kind}(TABLE(#0), {', '.join([column, *shown])})"


def _input(index: int) -> str:
    return f"${index}"


def expression_text(expression: Expression, column: Callable[[int], str] = _input) -> str:
    """An expression, with `column` for its columns.

    >>> from service.sql.rex import call, literal, ref
    >>> from state.types import parse_type
    >>> kind = parse_type("INT")
    >>> expression_text(call(">", [ref(0, kind), literal(5, kind)], kind))
    '>($0, 5)'
    """
    match expression:
        case InputRef(index):
            return column(index)
        case Literal():
            return _literal(expression)
        case SymbolLiteral():
            return f"FLAG({expression.value})"
        case SargLiteral():
            return f"Sarg[{'; '.join(map(str, expression.ranges))}]"
        case Call():
            inner = ", ".join(expression_text(each, column) for each in expression.operands)
            if expression.name in ("CAST", "TRY_CAST") and expression.type is not None:
                return f"{expression.name}({inner}):{type_text(expression.type)}"
            return f"{expression.name}({inner})"
        case OverCall():
            return _over(expression, column)
        case _:
            return str(getattr(expression, "name", type(expression).__name__))


def _over(over: OverCall, column: Callable[[int], str]) -> str:
    distinct = "DISTINCT " if over.is_distinct else ""
    arguments = ", ".join(expression_text(each, column) for each in over.operands)
    parts = []
    if over.partition:
        keys = ", ".join(expression_text(each, column) for each in over.partition)
        parts.append(f"PARTITION BY {keys}")
    if over.order:
        keys = ", ".join(
            expression_text(key.expression, column)
            + ("" if key.is_ascending else " DESC")
            + (" NULLS LAST" if key.nulls_last else " NULLS FIRST")
            for key in over.order
        )
        parts.append(f"ORDER BY {keys}")
    frame = "" if over.name in _RANKS else _frame(over.frame)
    parts += [frame] if frame else []
    return f"{over.name}({distinct}{arguments}) OVER ({' '.join(parts)})"


_RANKS = ("ROW_NUMBER", "RANK", "DENSE_RANK")


def _frame(frame: Frame) -> str:
    if frame.upper.kind != "CURRENT_ROW":
        both = f"BETWEEN {_bound(frame.lower)} AND {_bound(frame.upper)}"
        return f"{'ROWS' if frame.is_rows else 'RANGE'} {both}"
    if frame.lower.kind == "UNBOUNDED" and not frame.is_rows:
        return ""
    return f"{'ROWS' if frame.is_rows else 'RANGE'} {_bound(frame.lower)}"


def _bound(bound: FrameBound) -> str:
    if bound.kind == "CURRENT_ROW":
        return "CURRENT ROW"
    size = "UNBOUNDED" if bound.offset is None else _literal(bound.offset)
    return f"{size} {'PRECEDING' if bound.is_preceding else 'FOLLOWING'}"


def _literal(literal: Literal) -> str:
    value, kind = literal.value, literal.type
    if isinstance(value, str) and kind.root in STRING_ROOTS:
        return character_text(value)
    shown = literal_text(literal)
    if value is None or isinstance(value, bool) or kind.root in {TypeRoot.INTEGER, *INTERVAL_ROOTS}:
        return shown
    return f"{shown}:{type_text(kind.with_nullable(True))}"
