"""What a node says of itself in one line: what people read in explain and in error messages.

Most lines are Flink's own, as the recorded plans have them. Aggregates in two phases, windows and
joins of time name their columns only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.durations import format_duration_ms
from service.plan.rex import InputRef
from service.sql.metadata import read_metadata
from service.sql.physical import nodes
from service.sql.physical.correlate import correlate_text
from service.sql.physical.expression_text import infix_text, literal_text, prefix_text, type_text
from service.sql.physical.keys import listed, unfiltered_keys
from service.sql.physical.monotonicity import retractions
from service.sql.physical.ranks import is_deduplicate, is_rowtime, keeps_last
from service.sql.physical.window_specs import (
    AttachedWindow,
    WindowDeduplicateSpec,
    WindowJoinSpec,
    WindowRankSpec,
)
from service.sql.rex import call, conjunction, conjuncts, ref
from state.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from service.plan.rex import Rex
    from service.sql.catalogue import CatalogTable
    from service.sql.physical.nodes import Node
    from service.sql.rex import FrameBound
    from service.sql.terms import AggregateCall, Ordering, Row

    Text = Callable[[Rex, tuple[str, ...]], str]

_JOIN_NAMES = {
    "INNER": "InnerJoin",
    "LEFT": "LeftOuterJoin",
    "RIGHT": "RightOuterJoin",
    "FULL": "FullOuterJoin",
    "SEMI": "LeftSemiJoin",
    "ANTI": "LeftAntiJoin",
}


def describe(node: Node) -> str:
    """The line of a node as a plan has it, as Flink writes the most of it."""
    return _described(node, infix_text)


def describe_physical(node: Node) -> str:
    """The line of a node before it is one of a plan: EXPLAIN's second section.

    Expressions have operators before their operands, and a deduplication is a rank still.
    """
    if isinstance(node.spec, nodes.RankSpec) and node.spec.kind == "rank":
        return _rank(node.spec, node)
    return _described(node, prefix_text)


def _described(node: Node, text: Text) -> str:
    spec, fields = node.spec, ", ".join(node.row.names)
    match spec:
        case nodes.ScanSpec():
            table = ", ".join((*spec.table.names, *read_metadata(spec.table)))
            return f"TableSourceScan(table=[[{table}]], fields=[{fields}]{_hints(spec.table)})"
        case nodes.SinkSpec():
            hints = _hints(spec.table)
            shown = f"Sink(table=[{spec.table.summary}], fields=[{fields}]{hints}"
            if spec.materializes:
                shown += ", upsertMaterialize=[true]"
            if spec.conflict is not None:
                shown += f", conflictStrategy=[{spec.conflict}]"
            return f"{shown})"
        case nodes.ExchangeSpec():
            return f"Exchange(distribution=[{_distribution(spec, node.row)}])"
        case nodes.CalcSpec():
            return _calc(spec, node, text)
        case nodes.WatermarkSpec():
            mark = text(spec.expression, node.row.names)
            column = node.row.names[spec.column]
            return f"WatermarkAssigner(rowtime=[{column}], watermark=[{mark}])"
        case nodes.MiniBatchSpec():
            return f"MiniBatchAssigner(interval=[{spec.interval_ms}ms], mode=[{spec.mode}])"
        case nodes.DropUpdateBeforeSpec():
            return "DropUpdateBefore"
        case nodes.UnionSpec():
            return f"Union(all=[true], union=[{fields}])"
        case nodes.ValuesSpec():
            rows = ", ".join("{ " + ", ".join(map(literal_text, row)) + " }" for row in spec.rows)
            return f"Values(tuples=[[{rows}]])"
        case nodes.ExpandSpec():
            return _expand(spec, node, text)
        case nodes.CorrelateSpec():
            return correlate_text(spec, node)
        case _:
            return _stateful(node, fields, text)


def _hints(table: CatalogTable) -> str:
    return f", hints=[[[{table.hint}]]]" if table.hint else ""


def _stateful(node: Node, fields: str, text: Text) -> str:
    """The lines of nodes that keep rows, or wait for them."""
    spec = node.spec
    match spec:
        case nodes.AggregateSpec():
            row = node.inputs[0].row
            taken = list(spec.grouping)
            names = node.row.names[len(taken) :]
            calls = zip(spec.calls, retractions(node, spec), names, strict=True)
            selected = [row.names[column] for column in taken]
            selected += [
                f"{call_text(call, row, retracts=retracts)} AS {name}"
                for call, retracts, name in calls
            ]
            return f"GroupAggregate({_grouped(spec.grouping, row)}select=[{', '.join(selected)}])"
        case nodes.JoinSpec():
            sides = ", ".join(
                f"{name}InputSpec=[{_side(side, keys)}]"
                for name, side, keys in zip(
                    ("left", "right"), node.inputs, (spec.keys.left, spec.keys.right), strict=True
                )
            )
            kind = _JOIN_NAMES[spec.keys.kind]
            where = _joined(spec.keys, node, text)
            return f"Join(joinType=[{kind}], where=[{where}], select=[{fields}], {sides})"
        case nodes.IntervalJoinSpec() | nodes.TemporalJoinSpec():
            name = type(spec).__name__.removesuffix("Spec")
            kind = _JOIN_NAMES[spec.keys.kind]
            where = _joined(spec.keys, node, text)
            return f"{name}(joinType=[{kind}], where=[{where}], select=[{fields}])"
        case nodes.LookupJoinSpec():
            shown = f"LookupJoin(table=[{spec.table.summary}], joinType=[{_JOIN_NAMES[spec.kind]}]"
            shown += f", lookup=[{_lookup(spec, node.input.row)}], select=[{fields}]"
            if spec.retries is not None:
                retries = f"{spec.retries.delay_ms}ms, {spec.retries.attempts_max}"
                shown += f", retry=[lookup_miss, FIXED_DELAY, {retries}]"
            return f"{shown}, upsertMaterialize=[true])" if spec.materializes else f"{shown})"
        case nodes.RankSpec():
            return _deduplicate(spec, node) if is_deduplicate(node, spec) else _rank(spec, node)
        case WindowRankSpec() | WindowDeduplicateSpec() | WindowJoinSpec():
            return _attached(spec, node, text)
        case nodes.TemporalSortSpec():
            return f"TemporalSort(orderBy=[{_order(spec.order, node.row)}])"
        case nodes.NormalizeSpec():
            shown = f"ChangelogNormalize(key=[{_columns(spec.keys, node.row)}]"
            if spec.condition is not None:
                shown += f", condition=[{text(spec.condition, node.row.names)}]"
            return f"{shown})"
        case nodes.OverSpec():
            return _over(spec, node)
        case nodes.MultiJoinSpec():
            return _multi_join(spec, node, text)
        case _:
            name = type(spec).__name__.removesuffix("Spec")
            return f"{_NAMES.get(name, name)}(select=[{fields}])"


_NAMES = {
    "GlobalAggregate": "GlobalGroupAggregate",
    "GroupWindows": "GroupWindowAggregate",
    "IncrementalAggregate": "IncrementalGroupAggregate",
    "LocalAggregate": "LocalGroupAggregate",
    "WindowTable": "WindowTableFunction",
}
"""Flink's names for nodes that ours are called otherwise than."""


def _over(spec: nodes.OverSpec, node: Node) -> str:
    names = node.input.row.names
    unit = "ROWS" if spec.frame.is_rows else "RANGE"
    frame = f" {unit} BETWEEN {_bound(spec.frame.lower)} AND {_bound(spec.frame.upper)}"
    calls = [
        f"{each.name}({', '.join(infix_text(operand, names) for operand in each.operands)})"
        f" AS {name}"
        for each, name in zip(spec.calls, node.row.names[len(names) :], strict=True)
    ]
    parts = [f"partitionBy=[{_columns(spec.partition, node.row)}]"] if spec.partition else []
    parts += [f"orderBy=[{_order(spec.order, node.row)}]", f"window=[{frame}]"]
    return f"OverAggregate({', '.join(parts)}, select=[{', '.join((*names, *calls))}])"


def _bound(bound: FrameBound) -> str:
    if bound.kind == "CURRENT_ROW":
        return "CURRENT ROW"
    size = "UNBOUNDED" if bound.offset is None else bound.offset.value
    return f"{size} {'PRECEDING' if bound.is_preceding else 'FOLLOWING'}"


def _multi_join(spec: nodes.MultiJoinSpec, node: Node, text: Text) -> str:
    first = node.inputs[0].row
    keys = []
    for each in node.inputs:
        known = listed(unfiltered_keys(each))
        names = [", ".join(each.row.names[column] for column in key) for key in known]
        keys.append(f"({', '.join(names)})" if names else "noUniqueKey")
    conditions = [text(each, node.row.names) for each in spec.conditions[1:]]
    columns = zip(node.row.types, node.row.names, strict=True)
    row = ", ".join(f"{type_text(kind.with_nullable(True))} {name}" for kind, name in columns)
    return (
        f"MultiJoin(commonJoinKey=[{_columns(spec.common_keys[0], first)}], "
        f"joinTypes=[{', '.join(spec.kinds[1:])}], inputUniqueKeys=[{', '.join(keys)}], "
        f"joinConditions=[{', '.join(conditions)}], select=[{','.join(node.row.names)}], "
        f"rowType=[RecordType({row})])"
    )


def _calc(spec: nodes.CalcSpec, node: Node, text: Text) -> str:
    names = node.input.row.names
    selected = []
    for name, rex in zip(node.row.names, spec.projection, strict=True):
        shown = text(rex, names)
        is_column = isinstance(rex, InputRef) and shown == name
        selected.append(shown if is_column else f"{shown} AS {name}")
    where = ""
    if spec.condition is not None:
        where = f", where=[{text(spec.condition, names)}]"
    return f"Calc(select=[{', '.join(selected)}]{where})"


def _expand(spec: nodes.ExpandSpec, node: Node, text: Text) -> str:
    made = []
    for project in spec.projects:
        columns = []
        for name, rex in zip(node.row.names, project, strict=True):
            shown = text(rex, node.input.row.names).partition(":")[0]
            columns.append(shown if shown == name else f"{shown} AS {name}")
        made.append("{" + ", ".join(columns) + "}")
    return f"Expand(projects=[{', '.join(made)}])"


def _side(side: Node, join_key: tuple[int, ...]) -> str:
    """What is known of the rows of a join's side."""
    keys = unfiltered_keys(side)
    if not keys:
        return "NoUniqueKey"
    is_inside = any(set(key) <= set(join_key) for key in keys)
    return "JoinKeyContainsUniqueKey" if is_inside else "HasUniqueKey"


def _joined(keys: nodes.JoinKeys, node: Node, text: Text) -> str:
    """The condition of a join; columns of the right side are those behind the left's."""
    left, right = node.inputs[0].row.names, node.inputs[1].row.names
    names = (*left, *(f"{name}0" if name in left else name for name in right))
    if len(node.row) == len(names):
        names = node.row.names
    kind = LogicalType(TypeRoot.BOOLEAN)
    parts: list[Rex] = [
        call("=", [ref(first, kind), ref(len(left) + second, kind)], kind)
        for first, second in zip(keys.left, keys.right, strict=True)
    ]
    condition = conjunction(parts + conjuncts(keys.rest))
    return "true" if condition is None else text(condition, names)


def _lookup(spec: nodes.LookupJoinSpec, row: Row) -> str:
    names = spec.table.scanned
    return ", ".join(
        f"{names[column].name}={row.names[by] if isinstance(by, int) else literal_text(by)}"
        for column, by in spec.lookup_keys
    )


def _distribution(spec: nodes.ExchangeSpec, row: Row) -> str:
    return f"hash[{_columns(spec.keys, row)}]" if spec.keys else "single"


def _columns(columns: tuple[int, ...], row: Row) -> str:
    return ", ".join(row.names[column] for column in columns)


def _grouped(columns: tuple[int, ...], row: Row) -> str:
    return f"groupBy=[{_columns(columns, row)}], " if columns else ""


def _deduplicate(spec: nodes.RankSpec, node: Node) -> str:
    keep = "LastRow" if keeps_last(spec) else "FirstRow"
    order = "ROWTIME" if is_rowtime(node, spec) else "PROCTIME"
    only = str(node.changes.is_insert_only).lower()
    key = _columns(spec.partition, node.input.row)
    return f"Deduplicate(keep=[{keep}], key=[{key}], order=[{order}], outputInsertOnly=[{only}])"


def _rank(spec: nodes.RankSpec, node: Node) -> str:
    row = node.input.row
    order = _order(spec.order, row)
    keys = f"[{','.join(map(str, spec.strategy_keys))}]" if spec.strategy_keys else ""
    strategy = f"strategy=[{spec.strategy}Strategy{keys}]"
    if spec.kind != "rank":
        first = spec.range.start - 1
        count = "unlimited" if spec.range.end is None else spec.range.end - first
        limits = f"offset=[{first}], fetch=[{count}]"
        if spec.kind == "limit":
            return f"Limit({limits})"
        return f"SortLimit(orderBy=[{order}], {limits}, {strategy})"
    if spec.range.end_column is not None:
        ranks = f"rankEnd={row.names[spec.range.end_column]}"
    else:
        ranks = f"rankStart={spec.range.start}, rankEnd={spec.range.end}"
    parts = [strategy, "rankType=[ROW_NUMBER]", f"rankRange=[{ranks}]"]
    if spec.partition:
        parts.append(f"partitionBy=[{_columns(spec.partition, row)}]")
    names = list(node.row.names)
    if spec.has_number:
        names[-1] = f"ROW_NUMBER() AS {names[-1]}"
    return f"Rank({', '.join(parts)}, orderBy=[{order}], select=[{', '.join(names)}])"


def _attached(
    spec: WindowRankSpec | WindowDeduplicateSpec | WindowJoinSpec,
    node: Node,
    text: Text,
) -> str:
    """Nodes whose rows carry their window."""
    row = node.inputs[0].row
    fields = ", ".join(node.row.names)
    if isinstance(spec, WindowJoinSpec):
        sides = ", ".join(
            f"{name}Window=[{_edges(window, side.row)}]"
            for name, window, side in zip(
                ("left", "right"), (spec.left, spec.right), node.inputs, strict=True
            )
        )
        kind, where = _JOIN_NAMES[spec.keys.kind], _joined(spec.keys, node, text)
        return f"WindowJoin({sides}, joinType=[{kind}], where=[{where}], select=[{fields}])"
    window = f"window=[{_edges(spec.attached, row)}]"
    keys = _columns(spec.partition, row)
    if isinstance(spec, WindowDeduplicateSpec):
        keep = "LastRow" if spec.keeps_last else "FirstRow"
        order = f"orderKey=[{row.names[spec.time_column]}], order=[ROWTIME]"
        return f"WindowDeduplicate({window}, keep=[{keep}], partitionKeys=[{keys}], {order})"
    ranks = f"rankRange=[rankStart={spec.range.start}, rankEnd={spec.range.end}]"
    order = f"partitionBy=[{keys}], orderBy=[{_order(spec.order, row)}]"
    return f"WindowRank({window}, rankType=[ROW_NUMBER], {ranks}, {order}, select=[{fields}])"


def _edges(attached: AttachedWindow, row: Row) -> str:
    window = attached.window
    parts = [f"win_start=[{row.names[attached.start]}]", f"win_end=[{row.names[attached.end]}]"]
    sizes = {
        "TUMBLE": {"size": window.size_ms},
        "HOP": {"size": window.size_ms, "slide": window.step_ms or 0},
        "CUMULATE": {"max_size": window.size_ms, "step": window.step_ms or 0},
        "SESSION": {"gap": window.size_ms},
    }[window.kind]
    parts += [f"{name}=[{format_duration_ms(ms)}]" for name, ms in sizes.items()]
    return f"{window.kind}({', '.join(parts)})"


def _order(order: Sequence[Ordering], row: Row) -> str:
    return ", ".join(
        f"{row.names[key.column]} {'ASC' if key.is_ascending else 'DESC'}" for key in order
    )


def call_text(call: AggregateCall, row: Row, *, retracts: bool = False) -> str:
    """An aggregate call in SQL; one that must take rows back is marked as in Flink."""
    inner = ", ".join(row.names[column] for column in call.arguments) or "*"
    name = f"{call.function}_RETRACT" if retracts else call.function
    text = f"{name}({'DISTINCT ' if call.is_distinct else ''}{inner})"
    return text if call.filter is None else f"{text} FILTER {row.names[call.filter]}"
