"""Warnings about how long a plan keeps state: what grows for ever, what is forgotten too early.

    plan.join-side-unbounded     a side of a join is kept for ever
    plan.group-unbounded         groups are kept for ever
    plan.ttl-misaligned          two nodes, one behind the other, forget at different times, and
                                 changes between them refer to earlier ones

None of them refuses a plan: state for ever is Flink's default, and right where keys are few.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.deadline import check_time
from service.plan.durations import format_duration_ms
from service.plan.state_ttl import state_ttls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from service.plan.changelog_mode import ChangelogMode
    from service.plan.document import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.plan.state_ttl import StateTtl

Warned = tuple["ExecNode", str, str, str, str]
"""A node, the warning's code, its message, where in the document, and a hint."""

_JOINS = frozenset({"join", "multi-join"})
_GROUPS = frozenset({"group-aggregate", "global-group-aggregate", "incremental-group-aggregate"})


def state_warnings(
    plan: CompiledPlan, modes: Mapping[int, ChangelogMode], *, default_ttl_ms: int
) -> Iterator[Warned]:
    """What is doubtful about the times to live of a plan, in topological order of its nodes.

    Args:
        plan: The plan.
        modes: The kinds of change that each node sends, by its id.
        default_ttl_ms: Of states of which the plan says nothing.
    """
    states = {
        node.id: state_ttls(node, len(plan.input_edges(node.id)), default_ttl_ms=default_ttl_ms)
        for node in plan.nodes
    }
    behind: dict[int, frozenset[int]] = {}
    for node in plan.nodes:
        check_time()
        sources = [source.id for source in plan.inputs(node.id)]
        # The nearest nodes with state that changes of each input come from.
        nearest = [frozenset({each}) if states[each] else behind[each] for each in sources]
        # One input's set is kept as it is: a long chain behind many sources shares it.
        behind[node.id] = nearest[0] if len(nearest) == 1 else frozenset().union(*nearest)
        yield from _unbounded(node, states[node.id])
        for state in states[node.id]:
            if state.index < len(sources) and not modes[sources[state.index]].is_insert_only:
                for each in sorted(nearest[state.index]):
                    yield from _misaligned(node, state, each, states[each])


def _unbounded(node: ExecNode, states: tuple[StateTtl, ...]) -> Iterator[Warned]:
    kind = node.node_type.short
    endless = [state for state in states if state.is_disabled]
    if kind in _JOINS:
        for state in endless:
            message = f"input {state.index} of the join is kept for ever ({state.name})"
            hint = "give it a ttl, unless its keys are few"
            yield node, "plan.join-side-unbounded", message, _place(node, state), hint
    elif kind in _GROUPS and endless and _grouping(node):
        message = f"groups are kept for ever ({endless[0].name})"
        hint = "give them a ttl, unless they are few"
        yield node, "plan.group-unbounded", message, _place(node, endless[0]), hint


def _grouping(node: ExecNode) -> bool:
    """Whether there is more than one group."""
    return bool(node.raw.get("grouping") or node.raw.get("finalAggGrouping"))


def _misaligned(
    node: ExecNode, state: StateTtl, producer: int, given: tuple[StateTtl, ...]
) -> Iterator[Warned]:
    own = _life(state)
    longest, shortest = max(map(_life, given)), min(map(_life, given))
    code = "plan.ttl-misaligned"
    if own < longest:
        message = (
            f"{state.name} is kept {_shown(own)}, but node {producer}, which sends the changes, "
            f"keeps its state {_shown(longest)}: what it retracts later is not found here"
        )
        yield node, code, message, _place(node, state), "give it at least the same ttl"
    elif own > shortest:
        message = (
            f"{state.name} is kept {_shown(own)}, but node {producer}, which sends the changes, "
            f"keeps its state {_shown(shortest)}: what it has forgotten is never retracted here"
        )
        yield node, code, message, _place(node, state), "give both the same ttl"


def _life(state: StateTtl) -> float:
    return float("inf") if state.is_disabled else state.ttl_ms


def _shown(ttl_ms: float) -> str:
    return "for ever" if ttl_ms == float("inf") else f"for {format_duration_ms(int(ttl_ms))}"


def _place(node: ExecNode, state: StateTtl) -> str:
    """Where the document says how long: the entry, or the node that has none."""
    entry = next((each for each in node.state if each.index == state.index), None)
    return node.path if entry is None else entry.path
