"""What is done within the windows of window table functions: aggregates, first rows, joins.

Who groups by window_start and window_end of a window table function gets one node that cuts the
time itself; with event time it has a local phase before the exchange.

Source: Flink `PullUpWindowTableFunctionIntoWindowAggregateRule`,
`TwoStageOptimizedWindowAggregateRule`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan.rex import InputRef, Rex
from service.sql.algebra import (
    Aggregate,
    Filter,
    Join,
    Project,
    Rank,
    Relation,
    Row,
    WindowTable,
)
from service.sql.errors import PlanningError
from service.sql.physical.accumulators import is_mergeable, local_columns
from service.sql.physical.calc import calc
from service.sql.physical.nodes import (
    AttachedWindow,
    ExchangeSpec,
    JoinKeys,
    Node,
    WindowAggregateSpec,
    WindowDeduplicateSpec,
    WindowJoinSpec,
    WindowRankSpec,
    rebuilt,
)
from service.sql.rex import conjunction, conjuncts, ref, substitute
from service.sql.types import BIGINT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from service.sql.options import Options

_PROPERTIES = ("window_start", "window_end", "window_time")


def window_aggregate(
    relation: Aggregate, convert: Callable[[Relation], Node], options: Options
) -> Node | None:
    """The nodes of an aggregate over a window; None if it is over none."""
    outputs, parts, window = _window(relation)
    if window is None:
        return None
    width = len(window.input.row)
    edges = {
        position: outputs[position].index - width  # type: ignore[union-attr]
        for position in relation.grouping
        if isinstance(outputs[position], InputRef) and outputs[position].index >= width  # type: ignore[union-attr]
    }
    if not {0, 1} <= set(edges.values()):
        return None
    plain = [position for position in relation.grouping if position not in edges]
    below, places = _input(relation, window, outputs, parts, plain, convert)
    spec = replace(
        window.spec,
        time_column=places[window.spec.time_column],
        partition=tuple(places[column] for column in window.spec.partition),
    )
    grouping = tuple(places[outputs[position].index] for position in plain)  # type: ignore[union-attr]
    calls = tuple(
        replace(
            call,
            name=name,
            arguments=tuple(_place(outputs[each], places) for each in call.arguments),
            filter=None if call.filter is None else _place(outputs[call.filter], places),
        )
        for call, name in zip(
            relation.calls, relation.row.names[len(relation.grouping) :], strict=True
        )
    )
    properties = tuple(_PROPERTIES[edge] for edge in sorted(set(edges.values())))
    kinds = {edge: window.row.types[width + edge] for edge in range(3)}
    made_row = Row(
        (
            *(below.row.names[column] for column in grouping),
            *(call.name or "" for call in calls),
            *properties,
        ),
        (
            *(below.row.types[column] for column in grouping),
            *(call.type for call in calls),
            *(kinds[_PROPERTIES.index(name)] for name in properties),
        ),
    )
    single = WindowAggregateSpec(grouping, calls, spec, "single", False, properties, below.row)
    node = _phases(single, below, made_row, options)
    return _reordered(node, relation, plain, edges, properties)


def _window(
    relation: Aggregate,
) -> tuple[list[Rex], list[Rex], WindowTable | None]:
    """The aggregate's input columns over a window table function, and what filters it."""
    row = relation.input.row
    outputs: list[Rex] = list(map(ref, range(len(row)), row.types))
    parts: list[Rex] = []
    below: Relation = relation.input
    while isinstance(below, (Project, Filter)):
        if isinstance(below, Filter):
            parts = conjuncts(below.condition) + parts
        else:
            outputs = [substitute(rex, below.expressions) for rex in outputs]  # type: ignore[misc]
            parts = [substitute(part, below.expressions) for part in parts]  # type: ignore[misc]
        below = below.input
    return outputs, parts, below if isinstance(below, WindowTable) else None


def _input(
    relation: Aggregate,
    window: WindowTable,
    outputs: list[Rex],
    parts: list[Rex],
    plain: list[int],
    convert: Callable[[Relation], Node],
) -> tuple[Node, dict[object, int]]:
    """What the window's input must give: groups, arguments and time; and where each is."""
    read = set(plain) | {each for call in relation.calls for each in call.arguments}
    read |= {call.filter for call in relation.calls if call.filter is not None}
    row = window.input.row
    projection: list[Rex] = []
    names: list[str] = []
    places: dict[object, int] = {}

    def add(rex: Rex, name: str) -> None:
        key = rex.index if isinstance(rex, InputRef) else rex
        if key not in places:
            places[key] = len(projection)
            projection.append(rex)
            names.append(name)

    for position in sorted(read):
        add(outputs[position], relation.input.row.names[position])
    for index in (*window.spec.partition, window.spec.time_column):
        add(ref(index, row.types[index]), row.names[index])
    below = calc(convert(window.input), projection, names, conjunction(parts))
    return below, places


def _place(rex: Rex, places: dict[object, int]) -> int:
    return places[rex.index] if isinstance(rex, InputRef) else places[rex]


def _phases(single: WindowAggregateSpec, below: Node, row: Row, options: Options) -> Node:
    """One phase, or a local and a global one."""
    time = below.row.types[single.window.time_column]
    is_two = (
        time.time_attribute == "ROWTIME"
        and single.window.kind != "SESSION"
        and options.text("table.optimizer.agg-phase-strategy", "AUTO") != "ONE_PHASE"
        and all(is_mergeable(call, retracts=False) for call in single.calls)
    )
    if not is_two:
        sent = Node(ExchangeSpec(single.grouping), (below,), below.row)
        return Node(single, (sent,), row)
    local_row = local_columns(
        below.row,
        single.grouping,
        single.calls,
        retracts=False,
        counts_rows=single.window.kind == "HOP",
    )
    local_row = Row((*local_row.names, "$slice_end"), (*local_row.types, BIGINT))
    local = Node(replace(single, phase="local"), (below,), local_row)
    keys = tuple(range(len(single.grouping)))
    sent = Node(ExchangeSpec(keys), (local,), local_row)
    spec = replace(single, phase="global", grouping=keys, slice_column=len(local_row) - 1)
    return Node(spec, (sent,), row)


def _reordered(
    node: Node,
    relation: Aggregate,
    plain: list[int],
    edges: dict[int, int],
    properties: tuple[str, ...],
) -> Node:
    """The columns in the aggregate's order."""
    begin = len(plain) + len(relation.calls)
    order = [
        begin + properties.index(_PROPERTIES[edges[position]])
        if position in edges
        else plain.index(position)
        for position in relation.grouping
    ]
    order += range(len(plain), begin)
    row = node.row
    return calc(node, [ref(each, row.types[each]) for each in order], list(relation.row.names))


def with_retractions(node: Node) -> Node:
    """The plan whose window aggregates can take rows back, where rows may be taken back."""
    made = rebuilt(node, tuple(map(with_retractions, node.inputs)))
    spec = made.spec
    if not isinstance(spec, WindowAggregateSpec):
        return made
    if spec.phase == "global":
        local = made.input.input
        assert isinstance(local.spec, WindowAggregateSpec), "the local phase is below the exchange"
        if not local.spec.retracts:
            return made
        sent = replace(made.input, row=local.row, changes=local.changes)
        column = len(local.row) - 1
        return replace(made, inputs=(sent,), spec=replace(spec, retracts=True, slice_column=column))
    if made.input.changes.is_insert_only:
        return made
    made = replace(made, spec=replace(spec, retracts=True))
    if spec.phase == "local":
        row = local_columns(made.input.row, spec.grouping, spec.calls, retracts=True)
        wide = Row((*row.names, "$slice_end"), (*row.types, BIGINT))
        return replace(made, row=wide, changes=made.input.changes)
    return made


def window_columns(relation: Relation) -> tuple[WindowTable, dict[int, int]] | None:
    """The windows that a relation's rows carry, and which column has which edge of them.

    Edges are numbered as a window table function appends them: start, end, time. They may have
    gone through aggregates of the windows, and through ranks.
    """
    match relation:
        case WindowTable():
            width = len(relation.input.row)
            return relation, {width + edge: edge for edge in range(3)}
        case Filter() | Rank():
            return window_columns(relation.input)
        case Project():
            below = window_columns(relation.input)
            places = enumerate(relation.expressions)
            columns = {at: rex.index for at, rex in places if isinstance(rex, InputRef)}
        case Aggregate():
            below = window_columns(relation.input)
            columns = dict(enumerate(relation.grouping))
        case _:
            return None
    if below is None:
        return None
    table, edges = below
    return table, {at: edges[column] for at, column in columns.items() if column in edges}


def groups_windows(relation: Relation, columns: Sequence[int]) -> bool:
    """Whether these columns have both ends of a window table function's windows."""
    found = window_columns(relation)
    return found is not None and {0, 1} <= {found[1].get(each, -1) for each in columns}


def window_rank(rank: Rank, convert: Callable[[Relation], Node]) -> Node | None:
    """The node of the first rows of each window; None if the rank is not of windows.

    Source: Flink `StreamPhysicalWindowRankRule`, `StreamPhysicalWindowDeduplicateRule`.
    """
    found = window_columns(rank.input)
    if found is None or not groups_windows(rank.input, rank.partition):
        return None
    table, edges = found
    partition = tuple(each for each in rank.partition if each not in edges)
    window = _attached(table, edges, rank.partition)
    below = convert(rank.input)
    sent = Node(ExchangeSpec(partition), (below,), below.row)
    first = rank.order[0]
    is_first = rank.range.start == rank.range.end == 1 and rank.number_name is None
    by_time = rank.input.row.types[first.column].time_attribute == "ROWTIME"
    if is_first and by_time and len(rank.order) == 1:
        keeps_last = not first.is_ascending
        return Node(
            WindowDeduplicateSpec(partition, first.column, keeps_last, window), (sent,), below.row
        )
    has_number = rank.number_name is not None
    spec = WindowRankSpec(partition, rank.order, rank.range, has_number, window)
    row = replace(rank, number_name="w0$o0").row if has_number else rank.row
    return Node(spec, (sent,), row)


def window_join(join: Join, keys: JoinKeys, left: Node, right: Node) -> Node | None:
    """The node of a join of rows of the same window; None if it does not compare windows.

    Raises:
        PlanningError: The sides are cut in different ways.

    Source: Flink `WindowJoinUtil`.
    """
    found, other = window_columns(join.left), window_columns(join.right)
    if found is None or other is None:
        return None
    (left_table, left_edges), (right_table, right_edges) = found, other
    pairs = list(zip(keys.left, keys.right, keys.filter_nulls, strict=True))
    same = [
        pair
        for pair in pairs
        if left_edges.get(pair[0], -1) == right_edges.get(pair[1], -2) and left_edges[pair[0]] < 2
    ]
    if {left_edges[pair[0]] for pair in same} != {0, 1}:
        return None
    if _shape(left_table) != _shape(right_table):
        raise PlanningError(
            "window join doesn't support different window table function of left and right inputs"
        )
    windows = (
        _attached(left_table, left_edges, [pair[0] for pair in same]),
        _attached(right_table, right_edges, [pair[1] for pair in same]),
    )
    rest = [pair for pair in pairs if pair not in same]
    own = JoinKeys(
        keys.kind,
        tuple(pair[0] for pair in rest),
        tuple(pair[1] for pair in rest),
        tuple(pair[2] for pair in rest),
        keys.rest,
    )
    sides = (
        Node(ExchangeSpec(own.left), (left,), left.row),
        Node(ExchangeSpec(own.right), (right,), right.row),
    )
    return Node(WindowJoinSpec(own, windows), sides, join.row)


def _shape(table: WindowTable) -> tuple[object, ...]:
    """What makes the windows of two tables the same."""
    spec = table.spec
    return spec.kind, spec.size_ms, spec.step_ms, spec.offset_ms


def _attached(
    table: WindowTable, edges: Mapping[int, int], columns: Sequence[int]
) -> AttachedWindow:
    """The window of rows, by those of the columns that are its edges."""
    places = {edges[each]: each for each in columns if each in edges}
    time = table.input.row.types[table.spec.time_column]
    return AttachedWindow(table.spec, time, places[0], places[1])
