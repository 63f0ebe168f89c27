"""When a rank is a deduplication: the first or last row of each key by time.

Source: Flink `RankUtil.canConvertToDeduplicate` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.sql.physical.nodes import RankSpec

if TYPE_CHECKING:
    from service.sql.options import Options
    from service.sql.physical.nodes import Node


def keeps_one(spec: RankSpec) -> bool:
    """Whether one row of each partition is kept, without its number."""
    is_plain = spec.kind == "rank" and not spec.has_number and bool(spec.order)
    return is_plain and spec.range.start == spec.range.end == 1


def is_first_by_time(node: Node, spec: RankSpec) -> bool:
    """Whether one row of each partition is kept, and time is what orders them first."""
    return keeps_one(spec) and node.row.types[spec.order[0].column].time_attribute is not None


def is_deduplicate(node: Node, spec: RankSpec) -> bool:
    """Whether the node is a Deduplicate: ordered by time alone, of inserts only."""
    is_insert_only = node.input.changes.is_insert_only
    return is_first_by_time(node, spec) and len(spec.order) == 1 and is_insert_only


def keeps_last(spec: RankSpec) -> bool:
    """Whether the last row is kept, not the first: Flink asks for one descending column."""
    return len(spec.order) == 1 and not spec.order[0].is_ascending


def first_rows_only(node: Node, spec: RankSpec, options: Options) -> bool:
    """Whether a row that was sent is never taken back: none that comes later stands before it.

    That holds where time alone orders the rows. Flink 2.3 takes it to hold for any ascending order,
    and any order by several columns, and what reads such a plan keeps rows that were replaced,
    unless it is a sink that keeps one row of each partition.
    """
    return is_deduplicate(node, spec) and not keeps_last(spec) and not options.mini_batch


def stays_in_flink(node: Node, options: Options) -> bool:
    """Whether Flink 2.3 takes the node's rows for first rows that are never taken back."""
    spec = node.spec
    if not isinstance(spec, RankSpec) or options.mini_batch:
        return False
    return keeps_one(spec) and not keeps_last(spec) and node.input.changes.is_insert_only


def is_rowtime(node: Node, spec: RankSpec) -> bool:
    """Whether event time orders the rows."""
    return node.row.types[spec.order[0].column].time_attribute == "ROWTIME"
