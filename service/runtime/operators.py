"""The stateful operators of a plan: their ids and what each is to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from operators.spec import RowSpec
from operators.upsert_materializer import MaterializerSpec
from service.plan.deadline import check_time
from service.plan.nodes import Sink
from service.runtime.node_errors import at_node
from service.runtime.node_options import HIGH_OPTION, LOW_OPTION, threshold
from service.runtime.specs import BUILDERS, StatefulNode
from service.runtime.specs.compacting import compacting_spec
from state.multiset.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.spec import OperatorSpec
    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.runtime.records import RunOptions
    from state.descriptors import StateDescriptor

ORPHANS_MAX = 1_000
DUE_KEYS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class OperatorInfo:
    """A stateful operator of a plan."""

    id: str
    """Its name in state, API and metrics: `<node id>_<kind>`, like Flink's uid."""
    node_id: int
    kind: str
    spec: MaterializerSpec | OperatorSpec

    @property
    def states(self) -> Sequence[StateDescriptor]:
        """What it keeps, as the pipeline remembers it."""
        if isinstance(self.spec, MaterializerSpec):
            return (self.spec.descriptor,)
        return self.spec.operator().states

    @property
    def key(self) -> RowSpec:
        """The columns that its state is kept by; of several inputs those of the first."""
        if isinstance(self.spec, MaterializerSpec):
            return RowSpec(types=self.spec.types, names=self.spec.names).part(self.spec.key)
        return self.spec.inputs[0].key_row

    def with_past(self, states: Sequence[StateDescriptor]) -> OperatorInfo:
        """The operator, told what is known of its states' past (`state.registry`)."""
        if isinstance(self.spec, MaterializerSpec):
            spec = self.spec
            for each in states:
                spec = replace(
                    spec,
                    ttl_enabled_ms=each.enabled_ms,
                    is_stamped=each.is_stamped,
                    is_silent=each.is_silent,
                )
            return replace(self, spec=spec)
        return replace(self, spec=self.spec.with_past(states))


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

    Raises:
        PlanError: A node's properties are none of such a node.
        UnsupportedNode: Something of a node is not run.
        InvalidSpec: An operator cannot be as asked.
    """
    found: list[OperatorInfo] = []
    for node in plan.nodes:
        check_time()
        with at_node(node):
            at = StatefulNode(node, plan, options)
            operator = _operator_of(at, orphans_max=orphans_max, due_keys_max=due_keys_max)
        if operator is not None:
            found.append(operator)
    return found


def _operator_of(at: StatefulNode, *, orphans_max: int, due_keys_max: int) -> OperatorInfo | None:
    """The operator of a node; None: it keeps no state."""
    node = at.node
    builder = BUILDERS.get(node.node_type.short)
    if isinstance(node.view, Sink) and node.view.settles_conflicts:
        kind = "watermark-compacting-sink-materializer"
        return _info(node, kind, _with_limit(compacting_spec(at), orphans_max))
    if isinstance(node.view, Sink) and node.view.require_upsert_materialize:
        materializer = replace(
            _materializer(node, node.view, at.options),
            orphans_max=orphans_max,
            due_keys_max=due_keys_max,
        )
        return _info(node, "sink-materializer", materializer)
    if builder is not None:
        return _info(node, node.node_type.short, _with_limit(builder(at), orphans_max))
    return None


def _with_limit(spec: OperatorSpec, orphans_max: int) -> OperatorSpec:
    return spec.model_copy(update={"orphans_max": orphans_max})


def _info(node: ExecNode, kind: str, spec: MaterializerSpec | OperatorSpec) -> OperatorInfo:
    return OperatorInfo(f"{node.id}_{kind}", node.id, kind, spec)


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
        names=tuple(each.name for each in sink.columns),
        key=sink.primary_key,
        upsert_key=sink.input_upsert_key or None,
        strategy=Strategy(strategy),
        high=high,
        low=low,
        ttl_ms=node.state[0].ttl_ms if node.state else default_ttl_ms,
        ttl_extension_ms=options.ttl_extension_ms if options else 0,
        emit_expired=options.emit_expired if options else False,
        net_changes=options.net_changes if options else False,
    )
