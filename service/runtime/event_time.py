"""Where the event time of operators comes from: watermark assigners, and the sources behind them.

An operator's watermark is the least of its inputs', and an input's is the least of the assigners
that it is behind of. Only assigners that some operator waits for are worth a stage in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from operators.upsert_materializer import MaterializerSpec
from service.plan.nodes import TableScan, WatermarkAssigner

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.runtime.operators import OperatorInfo


@dataclass(frozen=True, slots=True)
class EventTimes:
    """The event time of a plan's operators."""

    inputs: Mapping[int, tuple[tuple[str, ...], ...]]
    """By operator's node: for each input the assigners that it is behind of; none: no event time,
    or none that the operator asks for."""
    assigners: frozenset[str]
    """All of them."""
    sources: Mapping[str, tuple[ExecNode, ...]]
    """By assigner: the nodes that it reads from."""


def assigner_name(node: ExecNode) -> str:
    """What a watermark assigner is called in notes and in the marker: its node's id."""
    return str(node.id)


def event_times(plan: CompiledPlan, operators: Iterable[OperatorInfo]) -> EventTimes:
    """Where the event time of these operators comes from."""
    reached: dict[int, tuple[str, ...]] = {}
    roots: dict[int, tuple[ExecNode, ...]] = {}
    sources: dict[str, tuple[ExecNode, ...]] = {}
    for node in plan.nodes:
        inputs = plan.inputs(node.id)
        behind = {root.id: root for each in inputs for root in roots[each.id]}
        roots[node.id] = tuple(behind.values()) or (node,)
        if _is_assigner(node):
            reached[node.id] = (assigner_name(node),)
            sources[assigner_name(node)] = roots[node.id]
        else:
            found = [reached[each.id] for each in inputs]
            # An input without event time holds all others back.
            reached[node.id] = tuple(sorted(set().union(*found))) if all(found) else ()
    wanted: dict[int, tuple[tuple[str, ...], ...]] = {}
    for operator in operators:
        of_inputs = tuple(reached[each.id] for each in plan.inputs(operator.node_id))
        uses = _uses_event_time(operator)
        wanted[operator.node_id] = of_inputs if uses else ()
    used = frozenset(name for each in wanted.values() for names in each for name in names)
    return EventTimes(wanted, used, {name: sources[name] for name in sorted(used)})


def _is_assigner(node: ExecNode) -> bool:
    if isinstance(node.view, TableScan):
        return node.view.watermark is not None
    return isinstance(node.view, WatermarkAssigner)


def _uses_event_time(operator: OperatorInfo) -> bool:
    if isinstance(operator.spec, MaterializerSpec):
        return False
    return operator.spec.operator().event_timers is not None
