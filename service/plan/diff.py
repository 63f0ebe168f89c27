"""What one plan has that another has not, and what that means for state.

State is found by a node's id and type, as Flink's operator uid `<id>_<transformation>` is made of
them, so nodes are matched by these two: a node that only has another id is one node less and one
more, and the difference says that they look the same.

    fate        of a node's state
    kept        the same node keeps it; its time to live may differ
    migrated    kept, and rewritten as it is used: TTL switched on or off, another layout
    dropped     no node finds it, or the one that does reads something else (`state_meaning`)
    new         begins empty
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import orjson

from service.plan.deadline import check_time
from service.plan.state_meaning import differences, keeps_state, state_meanings
from service.plan.state_ttl import state_ttls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.plan.document import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.plan.state_meaning import Meaning
    from service.plan.state_ttl import StateTtl

Fate = Literal["kept", "migrated", "dropped", "new"]

_IGNORED = frozenset({"id", "type", "description", "inputProperties"})
"""What makes no difference: the rest of it follows from these, or they from the rest."""


@dataclass(frozen=True, slots=True)
class NodeDifference:
    """A node of both plans that is not the same in both."""

    node_id: int
    type: str
    properties: tuple[str, ...]
    """Those that differ; `inputs` where it takes its changes from other nodes."""


@dataclass(frozen=True, slots=True)
class TtlChange:
    """A state that both plans have, with another time to live."""

    node_id: int
    type: str
    name: str
    index: int
    before_ms: int
    """0: kept for ever."""
    after_ms: int


@dataclass(frozen=True, slots=True)
class StateFate:
    """What becomes of a node's state."""

    node_id: int
    type: str
    fate: Fate
    names: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """How a plan differs from the one before it."""

    added: tuple[ExecNode, ...]
    removed: tuple[ExecNode, ...]
    changed: tuple[NodeDifference, ...]
    renumbered: tuple[tuple[int, int], ...]
    """Pairs of a removed and an added node that look the same but for their ids."""
    states: tuple[StateFate, ...]
    ttls: tuple[TtlChange, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the plans do the same."""
        return not (self.added or self.removed or self.changed)

    @property
    def keeps_state(self) -> bool:
        """Whether no state of the plan before is lost."""
        return all(each.fate != "dropped" for each in self.states)


def diff(
    before: CompiledPlan,
    after: CompiledPlan,
    *,
    before_ttl_ms: int = 0,
    after_ttl_ms: int = 0,
) -> PlanDifference:
    """How `after` differs from `before`.

    Args:
        before: The plan that state was made with.
        after: The plan that would take its place.
        before_ttl_ms: Time to live of states of which the plan before says none.
        after_ttl_ms: The same of the plan after.
    """
    old = {_identity(node): node for node in before.nodes}
    new = {_identity(node): node for node in after.nodes}
    removed = tuple(node for key, node in old.items() if key not in new)
    added = tuple(node for key, node in new.items() if key not in old)
    both = [(node, new[key]) for key, node in old.items() if key in new]
    changed = [
        NodeDifference(first.id, first.type_text, properties)
        for first, second in both
        if (properties := _properties(first, second, before, after))
    ]
    meant = state_meanings(before), state_meanings(after)
    fates: list[StateFate] = []
    ttls: list[TtlChange] = []
    for first, second in both:
        check_time()
        entries = (
            state_ttls(first, len(before.input_edges(first.id)), default_ttl_ms=before_ttl_ms),
            state_ttls(second, len(after.input_edges(second.id)), default_ttl_ms=after_ttl_ms),
        )
        meanings = meant[0].get(first.id, {}), meant[1].get(second.id, {})
        fates += _fates(first, second, meanings, entries)
        ttls += _ttl_changes(first, *entries)
    renumbered = _renumbered(removed, added)
    fates += _lost(removed, renumbered, before)
    fates += [
        StateFate(node.id, node.type_text, "new", _names(node, after), "it begins empty")
        for node in added
        if keeps_state(node)
    ]
    fates.sort(key=lambda each: (each.node_id, each.fate))
    return PlanDifference(added, removed, tuple(changed), renumbered, tuple(fates), tuple(ttls))


def _identity(node: ExecNode) -> tuple[int, str]:
    return node.id, node.type


def _properties(
    first: ExecNode, second: ExecNode, before: CompiledPlan, after: CompiledPlan
) -> tuple[str, ...]:
    names = sorted((first.raw.keys() | second.raw.keys()) - _IGNORED)
    found = [name for name in names if first.raw.get(name) != second.raw.get(name)]
    if first.version != second.version:
        found.append("type")
    inputs = [
        [edge.source for edge in plan.input_edges(node.id)]
        for plan, node in ((before, first), (after, second))
    ]
    return tuple([*found, "inputs"] if inputs[0] != inputs[1] else found)


def _fates(
    first: ExecNode,
    second: ExecNode,
    meanings: tuple[Meaning, Meaning],
    entries: tuple[Sequence[StateTtl], Sequence[StateTtl]],
) -> Iterable[StateFate]:
    names = tuple(each.name for each in entries[0]) or tuple(each.name for each in entries[1])
    if not keeps_state(first):
        if keeps_state(second):
            yield StateFate(second.id, second.type_text, "new", names, "it begins empty")
        return
    fate, reason = _fate(first, second, meanings, entries)
    yield StateFate(first.id, first.type_text, fate, names, reason)


def _fate(
    first: ExecNode,
    second: ExecNode,
    meanings: tuple[Meaning, Meaning],
    entries: tuple[Sequence[StateTtl], Sequence[StateTtl]],
) -> tuple[Fate, str]:
    if not keeps_state(second):
        return "dropped", "the node keeps no state any more"
    different = differences(*meanings)
    if different:
        return "dropped", f"what is stored cannot be read as the new state: {different[0]} differs"
    switched = [
        old.name
        for old, new in zip(*entries, strict=False)
        if (old.ttl_ms == 0) != (new.ttl_ms == 0)
    ]
    if switched:
        return "migrated", f"TTL is switched on or off for {', '.join(switched)}"
    layouts = [_strategy(node) for node in (first, second)]
    if layouts[0] != layouts[1]:
        return "migrated", f"histories are kept as {layouts[1]} instead of {layouts[0]}"
    return "kept", "the same node reads it"


def _strategy(node: ExecNode) -> str:
    return str(node.raw.get("upsertMaterializeStrategy") or "LEGACY")


def _ttl_changes(
    node: ExecNode, before: Sequence[StateTtl], after: Sequence[StateTtl]
) -> Iterable[TtlChange]:
    for old, new in zip(before, after, strict=False):
        if old.ttl_ms != new.ttl_ms:
            yield TtlChange(node.id, node.type_text, new.name, new.index, old.ttl_ms, new.ttl_ms)


def _renumbered(
    removed: Sequence[ExecNode], added: Sequence[ExecNode]
) -> tuple[tuple[int, int], ...]:
    """Removed and added nodes that are equal but for their ids, in order; each is used once."""
    waiting: dict[bytes, deque[int]] = {}
    for node in added:
        waiting.setdefault(_look(node), deque()).append(node.id)
    return tuple(
        (node.id, found.popleft()) for node in removed if (found := waiting.get(_look(node)))
    )


def _look(node: ExecNode) -> bytes:
    check_time()
    look = {name: value for name, value in node.raw.items() if name not in ("id", "description")}
    return orjson.dumps(look, option=orjson.OPT_SORT_KEYS)


def _lost(
    removed: Sequence[ExecNode], renumbered: Sequence[tuple[int, int]], before: CompiledPlan
) -> Iterable[StateFate]:
    moved = dict(renumbered)
    for node in removed:
        if keeps_state(node):
            reason = "no node has its id and type"
            if node.id in moved:
                reason += f"; node {moved[node.id]} looks the same, but state is found by the id"
            yield StateFate(node.id, node.type_text, "dropped", _names(node, before), reason)


def _names(node: ExecNode, plan: CompiledPlan) -> tuple[str, ...]:
    return tuple(each.name for each in state_ttls(node, len(plan.input_edges(node.id))))
