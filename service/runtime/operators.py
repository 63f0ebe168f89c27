"""The stateful operators of a plan: their ids and what each is to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from operators.upsert_materializer import MaterializerSpec
from service.plan.nodes import Sink
from service.runtime.node_options import HIGH_OPTION, LOW_OPTION, threshold
from state.multiset.strategy import Strategy

if TYPE_CHECKING:
    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.runtime.records import RunOptions

ORPHANS_MAX = 1_000
DUE_KEYS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """A stateful operator of a plan."""

    id: str
    """Its name in state, API and metrics: `<node id>_sink-materializer`, like Flink's uid."""
    node_id: int
    kind: str
    spec: MaterializerSpec


def stateful_nodes(
    plan: CompiledPlan,
    options: RunOptions | None = None,
    *,
    orphans_max: int = ORPHANS_MAX,
    due_keys_max: int = DUE_KEYS_MAX,
) -> list[OperatorInfo]:
    """The stateful operators of a plan, in its order.

    Args:
        plan: The plan.
        options: Those of the pipeline, which may override strategy and thresholds and give the TTL
            of state whose plan names none; without them the plan's own count.
        orphans_max: Orphans listed for each key group.
        due_keys_max: Keys of a key group that an epoch cleans beside those that it touches.
    """
    return [
        OperatorInfo(
            id=f"{node.id}_sink-materializer",
            node_id=node.id,
            kind="sink-materializer",
            spec=replace(
                _materializer(node, node.view, options),
                orphans_max=orphans_max,
                due_keys_max=due_keys_max,
            ),
        )
        for node in plan.nodes
        if isinstance(node.view, Sink) and node.view.require_upsert_materialize
    ]


def _materializer(node: ExecNode, sink: Sink, options: RunOptions | None) -> MaterializerSpec:
    strategy = (options and options.upsert_materialize_strategy) or sink.strategy
    default_ttl_ms = options.default_ttl_ms if options else 0
    high, low = (threshold(node, each) for each in (HIGH_OPTION, LOW_OPTION))
    if options and options.adaptive_threshold_high is not None:
        high = options.adaptive_threshold_high
    if options and options.adaptive_threshold_low is not None:
        low = options.adaptive_threshold_low
    row = node.output_type
    return MaterializerSpec(
        # A time attribute says how a column came about, not what its values are.
        types=tuple(replace(each, time_attribute=None) for each in row.children),
        names=tuple(each.name for each in sink.table.schema.persisted),
        key=sink.primary_key,
        upsert_key=sink.input_upsert_key or None,
        strategy=Strategy(strategy),
        high=high,
        low=low,
        ttl_ms=node.state[0].ttl_ms if node.state else default_ttl_ms,
        ttl_extension_ms=options.ttl_extension_ms if options else 0,
        emit_expired=options.emit_expired if options else False,
    )
