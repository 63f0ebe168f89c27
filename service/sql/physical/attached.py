"""Ranks, joins and aggregates of rows that come with their windows.

Both edges of a window among the columns that are compared stand for the window itself; they are no
keys of the node, which emits a window's rows once the watermark has passed it.

Source: Flink `StreamPhysicalWindowRankRule`, `StreamPhysicalWindowDeduplicateRule`,
`StreamPhysicalWindowJoinRule`, `StreamPhysicalWindowAggregateRule` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.sql.errors import PlanningError, UnsupportedSql
from service.sql.physical.nodes import ExchangeSpec, Node
from service.sql.physical.window_specs import (
    AttachedWindow,
    WindowAggregateSpec,
    WindowDeduplicateSpec,
    WindowJoinSpec,
    WindowRankSpec,
)
from service.sql.physical.windows import phases, reordered
from service.sql.terms import Row
from service.sql.window_columns import joined_windows, window_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from service.sql.algebra import Aggregate, Join, Relation
    from service.sql.options import Options
    from service.sql.physical.nodes import JoinKeys
    from service.sql.window_columns import WindowColumns
    from service.sql.window_relations import Rank

    Convert = Callable[[Relation], Node]

_NAMES = ("window_start", "window_end", "window_time")


def window_rank(relation: Rank, convert: Convert) -> Node | None:
    """The nodes of a rank by window; None if it is by none.

    Raises:
        PlanningError: Flink has no node for such ranks of windows.
    """
    windows = window_columns(relation.input)
    if windows is None or not windows.bound(relation.partition):
        return None
    partition = tuple(each for each in relation.partition if each not in windows.all)
    attached = _attached(windows, relation.partition, relation.input)
    types = relation.input.row.types
    first, has_number = relation.order[0], relation.number_name is not None
    is_one = relation.range.start == relation.range.end == 1 and not has_number
    by_time = len(relation.order) == 1 and types[first.column].time_attribute is not None
    if windows.time.time_attribute != "ROWTIME":
        what = "Deduplication" if is_one and by_time else "TopN"
        raise PlanningError(f"Processing time Window {what} is not supported yet.")
    if relation.range.end_column is not None:
        name = relation.input.row.names[relation.range.end_column]
        raise PlanningError(
            f"Rank strategy rankEnd={name} is not supported on window rank currently."
        )
    below = convert(relation.input)
    sent = Node(ExchangeSpec(partition), (below,), below.row)
    if is_one and by_time:
        keeps_last = not first.is_ascending
        spec = WindowDeduplicateSpec(partition, first.column, keeps_last, attached)
        return Node(spec, (sent,), relation.row)
    rank = WindowRankSpec(partition, relation.order, relation.range, has_number, attached)
    return Node(rank, (sent,), relation.planned_row)


def window_join(relation: Join, keys: JoinKeys, convert: Convert) -> Node | None:
    """The nodes of a join by window; None if it is by none.

    Args:
        relation: The join.
        keys: What it compares, the edges of windows among it.
        convert: Gives the nodes of a side.

    Raises:
        PlanningError: The windows are of processing time.
    """
    windows = joined_windows(relation)
    if windows is None:
        return None
    left, right = windows
    if left.time.time_attribute != "ROWTIME":
        raise PlanningError("Processing time Window Join is not supported yet.")
    kept = [
        at
        for at, (first, second) in enumerate(zip(keys.left, keys.right, strict=True))
        if not (first in left.starts and second in right.starts)
        and not (first in left.ends and second in right.ends)
    ]
    own, other = (tuple(each[at] for at in kept) for each in (keys.left, keys.right))
    nulls = tuple(keys.filter_nulls[at] for at in kept)
    compared = replace(keys, left=own, right=other, filter_nulls=nulls)
    sides = []
    for side, columns in ((relation.left, own), (relation.right, other)):
        below = convert(side)
        sides.append(Node(ExchangeSpec(columns), (below,), below.row))
    spec = WindowJoinSpec(
        compared,
        _attached(left, keys.left, relation.left),
        _attached(right, keys.right, relation.right),
    )
    return Node(spec, tuple(sides), relation.row)


def attached_aggregate(relation: Aggregate, convert: Convert, options: Options) -> Node | None:
    """The nodes of an aggregate of rows with their windows; None if it groups by no window."""
    windows = window_columns(relation.input)
    if windows is None or not windows.bound(relation.grouping):
        return None
    plain = [each for each in relation.grouping if each not in windows.all]
    if windows.window.kind == "SESSION" and not windows.are_of(plain):
        return None
    attached = _attached(windows, relation.grouping, relation.input)
    edges = {each: _edge(windows, each) for each in relation.grouping if each not in plain}
    below = convert(relation.input)
    types = below.row.types
    names = relation.row.names[len(relation.grouping) :]
    calls = tuple(
        replace(call, name=name) for call, name in zip(relation.calls, names, strict=True)
    )
    kinds = {edge: types[column] for column, edge in edges.items()}
    shown = sorted(kinds)
    row = Row(
        (*(below.row.names[each] for each in plain), *names, *(_NAMES[edge] for edge in shown)),
        (
            *(types[each] for each in plain),
            *(call.type for call in calls),
            *(kinds[edge] for edge in shown),
        ),
    )
    properties = tuple(_NAMES[edge] for edge in shown)
    spec = WindowAggregateSpec(
        tuple(plain), calls, attached.window, "single", False, properties, below.row, -1, attached
    )
    node = phases(spec, below, row, options)
    return reordered(node, relation, plain, edges, properties)


def _edge(windows: WindowColumns, column: int) -> int:
    """The place of a window's column in `_NAMES`."""
    kinds = (windows.starts, windows.ends, windows.times)
    return next(at for at, columns in enumerate(kinds) if column in columns)


def _attached(windows: WindowColumns, columns: Iterable[int], relation: Relation) -> AttachedWindow:
    """The first edges among the columns that are compared.

    Raises:
        UnsupportedSql: One of the columns of a window may be NULL, where it tells of none.
    """
    given = sorted(columns)
    if any(relation.row.types[each].nullable for each in windows.all.intersection(given)):
        raise UnsupportedSql(
            "windows that may be missing are not supported",
            hint="group by all of their columns in every set, and by none of an outer join's side",
        )
    start, end = (
        next(each for each in given if each in edges) for edges in (windows.starts, windows.ends)
    )
    window = replace(windows.window, partition=tuple(sorted(windows.partition)))
    return AttachedWindow(window, windows.time, start, end)
