"""What one plan has that another has not, and what that means for state and tables.

Nodes are matched by id and type, so a node that only has another id is one node less and one more,
and the difference says that they look the same. What becomes of state and tables does not depend on
ids: `continuation` judges it, for a restore as for this.

    fate        of a node's state
    kept        a node of the plan after keeps it; its time to live may differ
    migrated    kept, and rewritten as it is used: TTL switched on or off, another layout
    dropped     no node would read it as what it is
    new         begins empty
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import orjson

from service.plan.continuation import continuation
from service.plan.deadline import check_time
from service.plan.state_meaning import plan_meaning
from service.plan.state_ttl import state_ttls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.plan.continuation import SourceChange, StateChange, TableChange
    from service.plan.document import CompiledPlan
    from service.plan.nodes import ExecNode
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
    """Of the plan before; of state that is new, of the plan after."""
    type: str
    fate: Fate
    names: tuple[str, ...]
    reason: str
    after_id: int | None
    """The node of the plan after that has it; None: it is dropped."""


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
    tables: tuple[TableChange, ...]
    sources: tuple[SourceChange, ...]

    @property
    def is_empty(self) -> bool:
        """Whether the plans do the same."""
        return not (self.added or self.removed or self.changed)

    @property
    def keeps_state(self) -> bool:
        """Whether no state of the plan before is lost."""
        return all(each.fate != "dropped" for each in self.states)

    @property
    def keeps_tables(self) -> bool:
        """Whether no table has rows that the plan after would write otherwise."""
        return all(each.outcome != "outdated" for each in self.tables)


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
    judged = continuation(plan_meaning(before), plan_meaning(after))
    fates: list[StateFate] = []
    ttls: list[TtlChange] = []
    for each in judged.states:
        check_time()
        first = None if each.before is None else before.node(each.before)
        second = None if each.after is None else after.node(each.after)
        entries = (
            () if first is None else _ttls(first, before, before_ttl_ms),
            () if second is None else _ttls(second, after, after_ttl_ms),
        )
        fates.append(_fate(each, first, second, entries))
        if second is not None:
            ttls += _ttl_changes(second, *entries)
    fates.sort(key=lambda each: (each.node_id, each.fate))
    return PlanDifference(
        added,
        removed,
        tuple(changed),
        _renumbered(removed, added),
        tuple(fates),
        tuple(ttls),
        judged.tables,
        judged.sources,
    )


def _ttls(node: ExecNode, plan: CompiledPlan, default_ms: int) -> Sequence[StateTtl]:
    return state_ttls(node, len(plan.input_edges(node.id)), default_ttl_ms=default_ms)


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


def _fate(
    judged: StateChange,
    first: ExecNode | None,
    second: ExecNode | None,
    entries: tuple[Sequence[StateTtl], Sequence[StateTtl]],
) -> StateFate:
    node = first or second
    assert node is not None, "each state is of one of the plans"
    names = tuple(each.name for each in entries[0]) or tuple(each.name for each in entries[1])
    fate: Fate = judged.outcome
    reason = judged.reason
    if first is not None and second is not None:
        migrated = _why_migrated(first, second, entries)
        fate, reason = ("migrated", migrated) if migrated else (fate, reason)
    return StateFate(node.id, node.type_text, fate, names, reason, judged.after)


def _why_migrated(
    first: ExecNode,
    second: ExecNode,
    entries: tuple[Sequence[StateTtl], Sequence[StateTtl]],
) -> str:
    switched = [
        old.name
        for old, new in zip(*entries, strict=False)
        if (old.ttl_ms == 0) != (new.ttl_ms == 0)
    ]
    if switched:
        return f"TTL is switched on or off for {', '.join(switched)}"
    layouts = [_strategy(node) for node in (first, second)]
    if layouts[0] != layouts[1]:
        return f"histories are kept as {layouts[1]} instead of {layouts[0]}"
    return ""


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
