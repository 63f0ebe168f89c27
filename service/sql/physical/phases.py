"""Mini-batches and aggregation in two phases.

With mini-batches a node above each source marks their ends, if a statement, as it is written, does
more than to choose rows and columns. An aggregate is then computed before the exchange too; a split
distinct aggregate, which would take four steps, takes three.

Source: Flink `FlinkRexUtil.shouldSkipMiniBatch`, `MiniBatchIntervalInferRule`,
`TwoStageOptimizedAggregateRule`, `IncrementalAggregateRule`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.sql.algebra import (
    Filter,
    Join,
    Project,
    Relation,
    Scan,
    Union,
    Values,
)
from service.sql.deadline import check_time
from service.sql.physical.accumulators import (
    buffer_columns,
    check_phases,
    count_star_at,
    is_mergeable,
    local_columns,
)
from service.sql.physical.monotonicity import retractions
from service.sql.physical.nodes import (
    AggregateSpec,
    Changes,
    ExchangeSpec,
    GlobalAggregateSpec,
    IncrementalAggregateSpec,
    IntervalJoinSpec,
    LocalAggregateSpec,
    MiniBatchSpec,
    Node,
    OverSpec,
    RankSpec,
    ScanSpec,
    TemporalJoinSpec,
    WatermarkSpec,
    rebuilt,
)
from service.sql.physical.ranks import is_first_by_time, is_rowtime
from service.sql.physical.window_specs import GroupWindowsSpec, WindowAggregateSpec
from service.sql.rex import OverCall

if TYPE_CHECKING:
    from service.sql.options import Options
    from service.sql.physical.nodes import BatchMode


def is_batched(relation: Relation) -> bool:
    """Whether a query, before any rule, does more than to choose rows and columns.

    Subqueries in conditions do not count: they are joined by a rule.
    """
    check_time()
    match relation:
        case Scan() | Values():
            return False
        case Project():
            has_function = any(isinstance(each, OverCall) for each in relation.expressions)
            return has_function or is_batched(relation.input)
        case Filter():
            return is_batched(relation.input)
        case Union():
            return any(map(is_batched, relation.inputs))
        case Join() if relation.is_subquery or relation.kind in ("SEMI", "ANTI"):
            return is_batched(relation.left)
        case _:
            return True


def split_phases(sink: Node, options: Options, *, batched: bool) -> Node:
    """The plan with mini-batches and phases, if the options ask for them.

    `batched` says whether any statement of the plan `is_batched`.
    """
    if not options.mini_batch or not batched:
        return sink
    made = _with_batches(sink, options, gathers=True, by_rowtime=False)
    if not options.two_phase:
        return made
    made = _two_phases(made)
    return _incremental(made) if options.incremental else made


def _with_batches(node: Node, options: Options, *, gathers: bool, by_rowtime: bool) -> Node:
    """The node with the ends of mini-batches marked at its sources."""
    spec = node.spec
    gathers = gathers and not isinstance(spec, GroupWindowsSpec)
    by_rowtime = by_rowtime or _waits(node)
    if isinstance(spec, RankSpec):
        by_rowtime = by_rowtime or (is_first_by_time(node, spec) and is_rowtime(node, spec))
    if isinstance(spec, WindowAggregateSpec):
        by_rowtime = by_rowtime or spec.time.time_attribute == "ROWTIME"
    if isinstance(spec, (ScanSpec, WatermarkSpec)):
        if not gathers:
            return node
        mode: BatchMode = "RowTime" if by_rowtime else "ProcTime"
        marks = MiniBatchSpec(options.mini_batch_ms, mode)
        return Node(marks, (node,), node.row, node.changes)
    below = tuple(
        _with_batches(each, options, gathers=gathers, by_rowtime=by_rowtime) for each in node.inputs
    )
    return rebuilt(node, below)


def _waits(node: Node) -> bool:
    spec = node.spec
    if isinstance(spec, IntervalJoinSpec):
        return spec.bounds.is_event_time
    if isinstance(spec, OverSpec):
        return node.row.types[spec.order[0].column].time_attribute == "ROWTIME"
    return isinstance(spec, TemporalJoinSpec)


def _two_phases(node: Node) -> Node:
    made = rebuilt(node, tuple(map(_two_phases, node.inputs)))
    spec = made.spec
    if not isinstance(spec, AggregateSpec):
        return made
    below = made.input.input
    retracts = not below.changes.is_insert_only
    if not all(map(is_mergeable, spec.calls)):
        return made
    check_phases(below.row, spec.calls)
    # Asked of the plan as it was: phases below hide what only grows.
    own = retractions(node, spec)
    row = local_columns(below.row, spec.grouping, spec.calls, retracts=retracts, call_retracts=own)
    local_spec = LocalAggregateSpec(spec.grouping, spec.calls, retracts, own)
    local = Node(local_spec, (below,), row, Changes())
    keys = tuple(range(len(spec.grouping)))
    sent = Node(ExchangeSpec(keys), (local,), row, Changes())
    final = GlobalAggregateSpec(keys, spec.calls, retracts, own, below.row, None, spec.ttl)
    return Node(final, (sent,), made.row, made.changes)


def _incremental(node: Node) -> Node:
    """Global, then local aggregation of a coarser grouping: one step."""
    made = rebuilt(node, tuple(map(_incremental, node.inputs)))
    spec = made.spec
    if not isinstance(spec, GlobalAggregateSpec):
        return made
    local = made.input.input
    partial = local.inputs[0] if local.inputs else local
    if not isinstance(local.spec, LocalAggregateSpec) or not isinstance(
        partial.spec, GlobalAggregateSpec
    ):
        return made
    first = partial.input.input
    first_spec = first.spec
    if not isinstance(first_spec, LocalAggregateSpec) or not _is_split(partial.spec, local.spec):
        return made
    retracts = partial.spec.retracts
    grouping = tuple(local.spec.grouping)
    # The rows of the buffers, counted from the partial aggregate's own input.
    original = tuple(first_spec.grouping[column] for column in grouping)
    row = buffer_columns(partial.spec.local_input, original, first_spec.calls, retracts=retracts)
    middle_spec = IncrementalAggregateSpec(
        partial.spec.grouping,
        grouping,
        first_spec.calls,
        retracts,
        partial.spec.local_input,
        partial.spec.ttl,
    )
    middle = Node(middle_spec, (partial.input,), row, Changes())
    sent = Node(ExchangeSpec(spec.grouping), (middle,), row, Changes())
    count = count_star_at(first_spec.calls) if retracts else None
    final = GlobalAggregateSpec(
        spec.grouping,
        spec.calls,
        retracts,
        tuple(retracts for _ in spec.calls),
        spec.local_input,
        count,
        spec.ttl,
    )
    return Node(final, (sent,), made.row, made.changes)


def _is_split(partial: GlobalAggregateSpec, final: LocalAggregateSpec) -> bool:
    """Whether one aggregate merges the buckets of the other."""
    finer = len(partial.grouping) > len(final.grouping)
    merges = [
        call.arguments == (len(partial.grouping) + at,) for at, call in enumerate(final.calls)
    ]
    same_count = len(partial.calls) == len(final.calls)
    return finer and same_count and all(merges) and _are_buckets(partial)


def _are_buckets(partial: GlobalAggregateSpec) -> bool:
    names = [partial.local_input.names[column] for column in range(len(partial.local_input))]
    return any(name.startswith("$f") for name in names)
