"""Changing the time to live of a node's states in a plan, as one would by hand in its file.

Nothing else of the document changes, so the ids by which state is found stay (FLIP-292): what is
stored keeps its times of access, and its life is counted anew from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.plan.document import load_plan
from service.plan.durations import format_duration_ms, parse_duration_ms
from service.plan.errors import InvalidProperty
from service.plan.state_ttl import state_ttls

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.plan.document import CompiledPlan


def edited_plan(
    plan: CompiledPlan, node_id: int, ttls: Mapping[str, str], *, default_ttl_ms: int
) -> CompiledPlan:
    """The plan of the document that `with_ttls` gives: it loads, or it must not be kept.

    Raises:
        InvalidProperty, DurationError: As `with_ttls`.
        PlanError: The document is no plan any more.
    """
    return load_plan(with_ttls(plan, node_id, ttls, default_ttl_ms=default_ttl_ms))


def with_ttls(
    plan: CompiledPlan, node_id: int, ttls: Mapping[str, str], *, default_ttl_ms: int
) -> dict[str, Any]:
    """The plan's document with other times to live of one node's states.

    A plan says all states of a node or none. So where it said none, the states that are not named
    get the default as their own.

    Args:
        plan: The plan.
        node_id: A node of it.
        ttls: By the state's name, as the plan or `explain` shows it; durations as plans write them.
        default_ttl_ms: For states of which the plan says nothing.

    Raises:
        InvalidProperty: The node keeps no such state.
        DurationError: A text is no duration.
    """
    node = plan.node(node_id)
    states = state_ttls(node, len(plan.input_edges(node_id)), default_ttl_ms=default_ttl_ms)
    known = [state.name for state in states]
    for name in ttls:
        if name not in known:
            raise InvalidProperty(
                f"{node.type_text} has no state of this name",
                hint=f"its states: {', '.join(known) or 'none'}",
                node_id=node_id,
                path=f"{node.path}/state",
            )
    entries = [
        {
            "index": state.index,
            "ttl": format_duration_ms(parse_duration_ms(ttls.get(state.name, f"{state.ttl_ms}"))),
            "name": state.name,
        }
        for state in states
    ]
    nodes = [
        {**raw, "state": entries} if raw.get("id") == node_id else raw
        for raw in plan.document["nodes"]
    ]
    return {**plan.document, "nodes": nodes}
