"""Where the event time of operators comes from: watermark assigners, and the sources behind them.

An operator's watermark is the least of its inputs', and an input's is the least of the assigners
that it is behind of; behind an interval join, whose rows leave with times far below the watermark,
it is held back by as much. Only assigners that some operator waits for are worth a stage in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from operators.join.interval import IntervalJoinSpec
from operators.keyed import WATERMARK_MIN
from operators.upsert_materializer import MaterializerSpec
from operators.worker import epoch_times
from service.plan.deadline import check_time
from service.plan.nodes import TableScan, WatermarkAssigner
from service.runtime.node_errors import at_node
from state.ttl import TimeCharacteristic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.runtime.operators import OperatorInfo


Assigners = tuple[tuple[tuple[str, int], ...], ...]
"""For each input the assigners that it is behind of, each with how far its watermark is held back,
in ms; none: the input has no event time."""


@dataclass(frozen=True, slots=True)
class EventTimes:
    """The event time of a plan's operators."""

    inputs: Mapping[int, Assigners]
    """By operator's node; nothing where it asks for no event time."""
    assigners: frozenset[str]
    """All of them."""
    sources: Mapping[str, tuple[ExecNode, ...]]
    """By assigner: the nodes that it reads from."""

    @property
    def together(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """The assigners that operators wait for, each group once."""
        groups = (
            tuple(sorted({pair for of_input in each for pair in of_input}))
            for each in self.inputs.values()
            if each and all(each)
        )
        return tuple(sorted(set(groups)))

    def by_operator(self, operators: Iterable[OperatorInfo]) -> dict[str, Assigners]:
        """`inputs` by the operators' ids."""
        return {each.id: self.inputs[each.node_id] for each in operators}


def assigner_name(node: ExecNode) -> str:
    """What a watermark assigner is called in notes and in the marker: its node's id."""
    return str(node.id)


def event_times(plan: CompiledPlan, operators: Iterable[OperatorInfo]) -> EventTimes:
    """Where the event time of these operators comes from."""
    by_node = {each.node_id: each for each in operators}
    reached: dict[int, dict[str, int]] = {}
    roots: dict[int, tuple[ExecNode, ...]] = {}
    sources: dict[str, tuple[ExecNode, ...]] = {}
    for node in plan.nodes:
        inputs = plan.inputs(node.id)
        check_time()
        if len(inputs) == 1:
            roots[node.id] = roots[inputs[0].id]
        else:
            behind = {root.id: root for each in inputs for root in roots[each.id]}
            roots[node.id] = tuple(behind.values()) or (node,)
        if _is_assigner(node):
            reached[node.id] = {assigner_name(node): 0}
            sources[assigner_name(node)] = roots[node.id]
        else:
            delay_ms = _delay_ms(by_node.get(node.id))
            reached[node.id] = _together([reached[each.id] for each in inputs], delay_ms)
    wanted: dict[int, Assigners] = {}
    for node_id, operator in by_node.items():
        of_inputs = [reached[each.id] for each in plan.inputs(node_id)]
        found = tuple(tuple(sorted(each.items())) for each in of_inputs)
        with at_node(plan.node(node_id)):
            wanted[node_id] = found if _uses_event_time(operator) else ()
    used = frozenset(name for each in wanted.values() for pairs in each for name, _ in pairs)
    return EventTimes(wanted, used, {name: sources[name] for name in sorted(used)})


def has_event_time(plan: CompiledPlan, node: ExecNode) -> bool:
    """Whether all inputs of a node are behind watermark assigners."""
    behind: set[int] = set()
    for each in plan.nodes:
        check_time()
        inputs = plan.inputs(each.id)
        if _is_assigner(each) or (inputs and all(before.id in behind for before in inputs)):
            behind.add(each.id)
    return all(each.id in behind for each in plan.inputs(node.id))


def watermark(offsets: str, assigners: Assigners) -> int:
    """The watermark of an operator behind a closed epoch, in ms since 1970.

    Args:
        offsets: The marker's.
        assigners: Where the operator's event time comes from.
    """
    return epoch_times(0, offsets, assigners).watermark_ms


def input_watermarks(offsets: str, assigners: Assigners) -> list[int | None]:
    """That of each input of an operator; None before there is one, and without event time.

    Args:
        offsets: The marker's.
        assigners: Where the operator's event time comes from.
    """
    found = [watermark(offsets, (each,)) for each in assigners]
    return [None if each == WATERMARK_MIN else each for each in found]


def _together(inputs: Sequence[Mapping[str, int]], delay_ms: int) -> dict[str, int]:
    """The assigners that all inputs are behind of, with the longest delay on the way."""
    if not all(inputs):
        # An input without event time holds all others back.
        return {}
    found: dict[str, int] = {}
    for each in inputs:
        for name, held_ms in each.items():
            found[name] = max(found.get(name, 0), held_ms + delay_ms)
    return found


def _delay_ms(operator: OperatorInfo | None) -> int:
    spec = operator.spec if operator else None
    return spec.watermark_delay_ms if isinstance(spec, IntervalJoinSpec) else 0


def _is_assigner(node: ExecNode) -> bool:
    if isinstance(node.view, TableScan):
        return node.view.watermark is not None
    return isinstance(node.view, WatermarkAssigner)


def _uses_event_time(operator: OperatorInfo) -> bool:
    if isinstance(operator.spec, MaterializerSpec):
        return False
    made = operator.spec.operator()
    by_watermark = TimeCharacteristic.EVENT_BY_WATERMARK
    return made.event_timers is not None or any(
        each.ttl.is_enabled and each.ttl.time is by_watermark for each in made.states
    )
