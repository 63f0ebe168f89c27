"""Time to live of a node's states, and who said so.

A non-empty `state` in the plan counts alone; a missing, null or empty one leaves the default. Zero
keeps state for ever. Source: FLIP-292, Flink `StateMetadata.getStateTtl...` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from service.plan.durations import format_duration_ms

if TYPE_CHECKING:
    from service.plan.nodes import ExecNode

_NAMES = {
    "changelog-normalize": "changelogNormalizeState",
    "deduplicate": "deduplicateState",
    "global-group-aggregate": "globalGroupAggregateState",
    "group-aggregate": "groupAggregateState",
    "incremental-group-aggregate": "incrementalGroupAggregateState",
    "limit": "rankState",
    "lookup-join": "lookupJoinState",
    "rank": "rankState",
    "sink": "sinkMaterializeState",
    "sort-limit": "rankState",
}


@dataclass(frozen=True, slots=True)
class StateTtl:
    """One state of a node: that of one of its inputs."""

    index: int
    name: str
    ttl_ms: int
    """0: the state is kept for ever."""
    ttl_text: str
    origin: Literal["plan", "default"]

    @property
    def is_disabled(self) -> bool:
        """Whether the state never expires."""
        return self.ttl_ms == 0

    @property
    def described(self) -> str:
        """The time to live and where it is from, for people."""
        source = f"{self.ttl_text} in the plan" if self.origin == "plan" else "the default"
        if self.is_disabled:
            return f"kept for ever ({source if self.origin == 'plan' else 'the default is 0'})"
        return f"ttl {format_duration_ms(self.ttl_ms)} (from {source})"


def state_ttls(
    node: ExecNode, inputs_count: int, *, default_ttl_ms: int = 0
) -> tuple[StateTtl, ...]:
    """The states of a node, by input; empty if it keeps none that a plan can set."""
    if not node.has_state:
        return ()
    if node.state:
        return tuple(
            StateTtl(entry.index, entry.name, entry.ttl_ms, entry.ttl_text, "plan")
            for entry in node.state
        )
    text = format_duration_ms(default_ttl_ms)
    return tuple(
        StateTtl(index, _name(node, index), default_ttl_ms, text, "default")
        for index in range(inputs_count)
    )


def _name(node: ExecNode, index: int) -> str:
    kind = node.node_type.short
    if kind == "join":
        return ("leftState", "rightState")[index]
    return _NAMES.get(kind, f"input-state-{index}")
