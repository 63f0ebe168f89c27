"""What a node says of itself in one line: what people read in explain and in error messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.sql.physical import nodes

if TYPE_CHECKING:
    from service.sql.algebra import AggregateCall, Ordering, Row
    from service.sql.physical.nodes import Node

_JOIN_NAMES = {
    "INNER": "InnerJoin",
    "LEFT": "LeftOuterJoin",
    "RIGHT": "RightOuterJoin",
    "FULL": "FullOuterJoin",
    "SEMI": "LeftSemiJoin",
    "ANTI": "LeftAntiJoin",
}


def describe(node: Node) -> str:
    """The line of a node, as Flink writes the most of it."""
    spec, fields = node.spec, ", ".join(node.row.names)
    match spec:
        case nodes.ScanSpec():
            table = ", ".join(spec.table.names)
            return f"TableSourceScan(table=[[{table}]], fields=[{fields}])"
        case nodes.SinkSpec():
            shown = f"Sink(table=[{spec.table.summary}], fields=[{fields}]"
            if spec.materializes:
                shown += ", upsertMaterialize=[true]"
            if spec.conflict is not None:
                shown += f", conflictStrategy=[{spec.conflict}]"
            return f"{shown})"
        case nodes.ExchangeSpec():
            return f"Exchange(distribution=[{_distribution(spec, node.row)}])"
        case nodes.AggregateSpec():
            return f"GroupAggregate({_grouped(spec.grouping, node.inputs[0].row)}select=[{fields}])"
        case nodes.JoinSpec() | nodes.IntervalJoinSpec() | nodes.TemporalJoinSpec():
            name = type(spec).__name__.removesuffix("Spec")
            return f"{name}(joinType=[{_JOIN_NAMES[spec.keys.kind]}], select=[{fields}])"
        case nodes.RankSpec():
            return _rank(spec, node)
        case nodes.NormalizeSpec():
            return f"ChangelogNormalize(key=[{_columns(spec.keys, node.row)}])"
        case _:
            return f"{type(spec).__name__.removesuffix('Spec')}(select=[{fields}])"


def _distribution(spec: nodes.ExchangeSpec, row: Row) -> str:
    return f"hash[{_columns(spec.keys, row)}]" if spec.keys else "single"


def _columns(columns: tuple[int, ...], row: Row) -> str:
    return ", ".join(row.names[column] for column in columns)


def _grouped(columns: tuple[int, ...], row: Row) -> str:
    return f"groupBy=[{_columns(columns, row)}], " if columns else ""


def _rank(spec: nodes.RankSpec, node: Node) -> str:
    name = {"rank": "Rank", "limit": "Limit", "sort-limit": "SortLimit"}[spec.kind]
    order = ", ".join(_key(key, node.row) for key in spec.order)
    parts = f"partitionBy=[{_columns(spec.partition, node.row)}], orderBy=[{order}]"
    return f"{name}(strategy=[{spec.strategy}Strategy], {parts})"


def _key(key: Ordering, row: Row) -> str:
    return f"{row.names[key.column]} {'ASC' if key.is_ascending else 'DESC'}"


def call_text(call: AggregateCall, row: Row) -> str:
    """An aggregate call in SQL."""
    inner = ", ".join(row.names[column] for column in call.arguments) or "*"
    return f"{call.function}({'DISTINCT ' if call.is_distinct else ''}{inner})"
