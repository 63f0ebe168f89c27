"""Aggregates over window table functions.

Who groups by window_start and window_end of a window table function gets one node that cuts the
time itself; with event time it has a local phase before the exchange.

Source: Flink `PullUpWindowTableFunctionIntoWindowAggregateRule`,
`TwoStageOptimizedWindowAggregateRule`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan.rex import InputRef, Rex
from service.sql.algebra import Aggregate, Filter, Project, Relation
from service.sql.physical.accumulators import check_phases, is_mergeable, local_columns
from service.sql.physical.calc import calc
from service.sql.physical.nodes import ExchangeSpec, Node, rebuilt
from service.sql.physical.window_specs import WindowAggregateSpec
from service.sql.rex import column_of, conjunction, conjuncts, inputs_of_all, ref, substitute
from service.sql.terms import Row, unique_names
from service.sql.types import BIGINT
from service.sql.window_relations import WindowTable

if TYPE_CHECKING:
    from collections.abc import Callable

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
    grouped = [(position, outputs[position]) for position in relation.grouping]
    edges = {position: column_of(rex) - width for position, rex in grouped if _is_edge(rex, width)}
    if not {0, 1} <= set(edges.values()) or _reads_windows(relation, outputs, parts, width):
        return None
    plain = [position for position in relation.grouping if position not in edges]
    if window.spec.kind == "SESSION" and not _are_of_groups(window, [outputs[at] for at in plain]):
        return None
    below, places = _input(relation, window, outputs, parts, convert)
    spec = replace(
        window.spec,
        time_column=places[window.spec.time_column],
        partition=tuple(sorted(places[column] for column in window.spec.partition)),
    )
    grouping = tuple(_place(outputs[position], places) for position in plain)
    calls = tuple(
        replace(
            call.over(lambda each: _place(outputs[each], places)),
            name=None if call.name is None else name,
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
            *(call.name or f"$f{len(grouping) + at}" for at, call in enumerate(calls)),
            *properties,
        ),
        (
            *(below.row.types[column] for column in grouping),
            *(call.type for call in calls),
            *(kinds[_PROPERTIES.index(name)] for name in properties),
        ),
    )
    single = WindowAggregateSpec(grouping, calls, spec, "single", False, properties, below.row)
    node = phases(single, below, made_row, options)
    return reordered(node, relation, plain, edges, properties)


def _are_of_groups(window: WindowTable, groups: list[Rex]) -> bool:
    """Whether sessions are of what is grouped by; others are there before anything is grouped."""
    columns = {rex.index for rex in groups if isinstance(rex, InputRef)}
    return len(columns) == len(groups) and columns == set(window.spec.partition)


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
            outputs = [substitute(rex, below.scalars) for rex in outputs]
            parts = [substitute(part, below.scalars) for part in parts]
        below = below.input
    return outputs, parts, below if isinstance(below, WindowTable) else None


def _reads_windows(relation: Aggregate, outputs: list[Rex], parts: list[Rex], width: int) -> bool:
    """Whether anything but the grouping itself reads columns of the windows."""
    read = {each for call in relation.calls for each in call.arguments}
    read |= {call.filter for call in relation.calls if call.filter is not None}
    computed = [outputs[each] for each in relation.grouping]
    computed = [rex for rex in computed if not isinstance(rex, InputRef)]
    used = inputs_of_all([*parts, *computed, *(outputs[each] for each in read)])
    return any(each >= width for each in used)


def _input(
    relation: Aggregate,
    window: WindowTable,
    outputs: list[Rex],
    parts: list[Rex],
    convert: Callable[[Relation], Node],
) -> tuple[Node, dict[object, int]]:
    """What the window's input must give: groups, arguments and time; and where each is."""
    row = window.input.row
    kept = [at for at, rex in enumerate(outputs) if not _is_edge(rex, len(row))]
    projection: list[Rex] = []
    names: list[str] = []
    places: dict[object, int] = {}

    def add(rex: Rex, name: str) -> None:
        key = rex.index if isinstance(rex, InputRef) else rex
        if key not in places:
            places[key] = len(projection)
            projection.append(rex)
            names.append(name)

    for position in kept:
        add(outputs[position], relation.input.row.names[position])
    for index in (*window.spec.partition, window.spec.time_column):
        add(ref(index, row.types[index]), row.names[index])
    named = [*unique_names((), names, "_")]
    below = calc(convert(window.input), projection, named, conjunction(parts))
    return below, places


def _is_edge(rex: Rex, width: int) -> bool:
    """Whether an expression over a window's columns is one that the window adds."""
    return isinstance(rex, InputRef) and rex.index >= width


def _place(rex: Rex, places: dict[object, int]) -> int:
    return places[rex.index] if isinstance(rex, InputRef) else places[rex]


def phases(single: WindowAggregateSpec, below: Node, row: Row, options: Options) -> Node:
    """One phase, or a local and a global one."""
    is_two = (
        single.time.time_attribute == "ROWTIME"
        and single.window.kind != "SESSION"
        and options.text("table.optimizer.agg-phase-strategy", "AUTO") != "ONE_PHASE"
    )
    if not is_two or not all(map(is_mergeable, single.calls)):
        sent = Node(ExchangeSpec(single.grouping), (below,), below.row)
        return Node(single, (sent,), row)
    check_phases(below.row, single.calls)
    local_row = _local_row(below.row, single)
    local = Node(replace(single, phase="local"), (below,), local_row)
    keys = tuple(range(len(single.grouping)))
    sent = Node(ExchangeSpec(keys), (local,), local_row)
    spec = replace(single, phase="global", grouping=keys)
    return Node(_of_slices(spec, len(local_row) - 1), (sent,), row)


def _local_row(row: Row, spec: WindowAggregateSpec) -> Row:
    """What the first phase sends; of windows that share slices, it tells how many rows a slice has.

    Source: Flink `AggregateUtil.deriveWindowAggregateInfoList`.
    """
    counts = spec.window.kind == "HOP"
    made = local_columns(row, spec.grouping, spec.calls, retracts=spec.retracts, counts_rows=counts)
    end = "$slice_end" if spec.attached is None else "$window_end"
    return Row((*made.names, end), (*made.types, BIGINT))


def _of_slices(spec: WindowAggregateSpec, column: int) -> WindowAggregateSpec:
    """The second phase, to which this column tells where a slice or window ends."""
    attached = None if spec.attached is None else replace(spec.attached, start=-1, end=column)
    return replace(spec, slice_column=column, attached=attached)


def reordered(
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
        final = _of_slices(replace(spec, retracts=True), len(local.row) - 1)
        return replace(made, inputs=(sent,), spec=final)
    if made.input.changes.is_insert_only:
        return made
    made = replace(made, spec=replace(spec, retracts=True))
    if spec.phase == "local":
        wide = _local_row(made.input.row, replace(spec, retracts=True))
        return replace(made, row=wide, changes=made.input.changes)
    return made
