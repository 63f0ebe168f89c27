"""Nodes of a plan that would need the row before an update, and are not given it.

A plan says at each node what it does with changes, and who sends -U is settled. Where that is
wrong, by a defect of Flink's planner or because a plan was edited, the node cannot take back what
an update replaces, and a table keeps rows that are gone. Nothing here can mend it: it is said.

    aggregates, ranks, LIMIT, OVER    over updates without -U
    a filter                          that reads more than the key of such updates (FLINK-38579)
    a join                            of such updates by columns that are not of their key, or
                                      with a condition over other columns (FLINK-38579)
    a sink                            with a materializer, by another key than the rows'
    MIN, MAX                          over deletes, where they are told of inserts alone
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.changelog import RowKind
from service.plan.changelog_modes import node_modes
from service.plan.deadline import check_time
from service.plan.keys import key_sets
from service.plan.nodes import Calc, Sink
from service.plan.properties import objects_in
from service.plan.rex import InputRef, walk

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.plan.changelog_mode import ChangelogMode
    from service.plan.document import CompiledPlan
    from service.plan.keys import KeySet
    from service.plan.nodes import ExecNode

Lacking = tuple["ExecNode", str]
"""A node, and what it cannot do."""
_ALL_CHANGES = frozenset(
    {
        "global-group-aggregate", "group-aggregate", "incremental-group-aggregate", "limit",
        "local-group-aggregate", "over-aggregate", "rank", "sort-limit",
    }
)  # fmt: skip  # a list of names, several a line
"""Nodes that count, or keep, rows as a whole."""
_AGGREGATES = ("global-group-aggregate", "group-aggregate", "local-group-aggregate")
_EXTREMES = ("$MAX$1", "$MIN$1")


def missing_retractions(plan: CompiledPlan) -> Iterator[Lacking]:
    """What of a plan keeps rows that are gone, in topological order, once a node."""
    modes, keys = node_modes(plan), key_sets(plan)
    for node in plan.nodes:
        check_time()
        inputs = plan.inputs(node.id)
        reason = next(_reasons(node, inputs, modes, keys), None)
        if reason is not None:
            yield node, reason


def _reasons(
    node: ExecNode,
    inputs: Sequence[ExecNode],
    modes: Mapping[int, ChangelogMode],
    keys: Mapping[int, KeySet],
) -> Iterator[str]:
    short, view = node.node_type.short, node.view
    # Flink knows of extremes that updates only raise; a row that goes may lower any.
    has_deletes = any(RowKind.DELETE in modes[each.id].kinds for each in inputs)
    if has_deletes and short in _AGGREGATES and _forgets_extremes(node.raw):
        yield "MIN or MAX does not take back rows that are deleted"
    lacking = [_lacks_before(modes[each.id]) for each in inputs]
    if not any(lacking):
        return
    if short in _ALL_CHANGES and not _is_update_fast(node.raw):
        yield "an update comes without the row that it replaces, which still counts"
    match view:
        case Calc(condition=condition) if condition is not None:
            read = {part.index for part in walk(condition) if isinstance(part, InputRef)}
            if not any(read <= key for key in keys[inputs[0].id]):
                yield "a row that does not pass any more stays, as the row before is not sent"
        case Sink(primary_key=primary_key, require_upsert_materialize=True):
            if not any(key <= frozenset(primary_key) for key in keys[inputs[0].id]):
                yield "a row that moves to another key stays at the old one"
        case _:
            pass
    if short in ("join", "multi-join"):
        yield from _of_join(node, inputs, lacking)


def _of_join(node: ExecNode, inputs: Sequence[ExecNode], lacking: Sequence[bool]) -> Iterator[str]:
    raw = node.raw
    if node.node_type.short == "multi-join":
        # Which columns each condition compares is not told apart there.
        return
    spec = raw["joinSpec"]
    joined, width = set[int](), 0
    for side, name, is_lacking in zip(inputs, ("left", "right"), lacking, strict=True):
        on = frozenset(spec[f"{name}Keys"])
        unique = raw.get(f"{name}UpsertKeys") or []
        if is_lacking and not any(on <= frozenset(each) for each in unique):
            yield "an update that moves a row to another join key leaves the old one joined"
        joined |= {width + each for each in on}
        width += len(side.output_type.children)
    condition = spec.get("nonEquiCondition")
    if condition is not None and not _columns_in(condition) <= joined:
        yield "a joined row whose update does not meet the condition any more stays"


def _lacks_before(mode: ChangelogMode) -> bool:
    return RowKind.UPDATE_AFTER in mode.kinds and RowKind.UPDATE_BEFORE not in mode.kinds


def _is_update_fast(raw: Mapping[str, Any]) -> bool:
    strategy = raw.get("rankStrategy")
    return isinstance(strategy, dict) and strategy.get("type") == "UpdateFast"


def _forgets_extremes(raw: Mapping[str, Any]) -> bool:
    calls, flags = raw.get("aggCalls"), raw.get("aggCallNeedRetractions")
    if not isinstance(calls, list) or not isinstance(flags, list):
        return False
    pairs = zip(calls, flags, strict=False)
    return any(call.get("internalName") in _EXTREMES and flag is not True for call, flag in pairs)


def _columns_in(value: object) -> set[int]:
    parts = objects_in(value)
    return {each["inputIndex"] for each in parts if each.get("kind") == "INPUT_REF"}
