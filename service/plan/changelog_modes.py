"""The kinds of change on each edge of a plan.

A plan does not say them but at its sinks; they follow from what the sources carry and from what
each node does. For a node of which we cannot tell, the mode is all kinds.

Source: Flink `FlinkChangelogModeInferenceProgram` (2.3), which plans the other way round: here the
properties that it left in the plan (`generateUpdateBefore` and the like) are read back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.changelog import RowKind
from service.plan.changelog_mode import ALL, INSERT_ONLY, UPSERT, ChangelogMode
from service.plan.nodes import TableScan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.plan.document import CompiledPlan
    from service.plan.nodes import Edge, ExecNode
    from service.plan.tables import Table

_ALL_KINDS_FORMATS = ("changelog-json", "debezium-", "canal-", "maxwell-", "ogg-")
_UPSERT_CONNECTORS = ("upsert-kafka",)
_PASS_ON = frozenset(
    {
        "async-calc", "async-correlate", "calc", "correlate", "exchange", "expand",
        "mini-batch-assigner", "python-async-calc", "python-calc", "python-correlate",
        "local-group-aggregate", "incremental-group-aggregate", "union", "watermark-assigner",
    }
)  # fmt: skip  # a list of names, several a line
"""Nodes that emit for a change the same kind of change."""
_SAYS_BEFORE = frozenset(
    {
        "changelog-normalize", "deduplicate", "global-group-aggregate", "group-aggregate", "limit",
        "rank", "sort-limit",
    }
)  # fmt: skip  # a list of names, several a line
"""Nodes that say with `generateUpdateBefore` whether they emit the row before."""
_INSERT_ONLY = frozenset(
    {
        "global-window-aggregate", "interval-join", "local-window-aggregate", "match",
        "python-over-aggregate", "temporal-sort", "values", "window-aggregate",
        "window-deduplicate", "window-join", "window-rank",
    }
)  # fmt: skip  # a list of names, several a line
"""Nodes that emit what is final."""


def changelog_modes(plan: CompiledPlan) -> dict[Edge, ChangelogMode]:
    """What each edge may carry."""
    modes = node_modes(plan)
    return {edge: modes[edge.source] for edge in plan.edges}


def node_modes(plan: CompiledPlan) -> dict[int, ChangelogMode]:
    """What each node may emit, by node id; of a sink, what reaches it."""
    modes: dict[int, ChangelogMode] = {}
    for node in plan.nodes:
        inputs = [modes[source.id] for source in plan.inputs(node.id)]
        if node.node_type.short == "temporal-join":
            # The right side is a table of versions: its changes make no output.
            inputs = inputs[:1]
        merged = inputs[0] if inputs else INSERT_ONLY
        for mode in inputs[1:]:
            merged = merged.union(mode)
        modes[node.id] = _mode(node, merged)
    return modes


def source_mode(table: Table) -> ChangelogMode:
    """What a table's connector and format carry: option `changelog-mode`, else what is usual."""
    return options_mode(table.options)


def options_mode(options: Mapping[str, str]) -> ChangelogMode:
    """What a source with these options carries."""
    if options.get("connector") in _UPSERT_CONNECTORS:
        return UPSERT
    declared = options.get("changelog-mode", "")
    if declared:
        try:
            return ChangelogMode.of(declared)
        except ValueError:
            # Whoever reads the table says what is wrong with its options.
            return ALL
    name = options.get("format", options.get("value.format", ""))
    is_changelog = options.get("connector") == "ingress" or name.startswith(_ALL_KINDS_FORMATS)
    return ALL if is_changelog else INSERT_ONLY


def _mode(node: ExecNode, merged: ChangelogMode) -> ChangelogMode:
    kind = node.node_type.short
    if isinstance(node.view, TableScan):
        return source_mode(node.view.table)
    if kind in _PASS_ON or kind == "sink":
        return merged
    if kind in _INSERT_ONLY:
        return INSERT_ONLY
    if kind == "over-aggregate":
        return ALL if over_updates(node, merged) else INSERT_ONLY
    if kind == "drop-update-before":
        return merged.without(RowKind.UPDATE_BEFORE)
    if kind in ("join", "multi-join", "lookup-join", "temporal-join"):
        return _join_mode(node, merged)
    return _generating_mode(node, merged)


def over_updates(node: ExecNode, merged: ChangelogMode) -> bool:
    """Whether an OVER aggregation's rows change when others come or go.

    Not so in the order of time over inserts: rows come out when nothing comes before them any more.
    LEAD tells of rows that come later in any order.

    Args:
        node: An over-aggregate node.
        merged: What reaches it.
    """
    if not merged.is_insert_only:
        return True
    types = node.output_type.children
    for group in _objects(_object(node.raw.get("overSpec")).get("groups")):
        fields = _objects(_object(group.get("orderBy")).get("fields"))
        first = fields[0].get("index") if fields else None
        if not isinstance(first, int) or not 0 <= first < len(types):
            return True
        if types[first].time_attribute is None:
            return True
        if any(each.get("internalName") == "$LEAD$1" for each in _objects(group.get("aggCalls"))):
            return True
    return False


def _object(value: object) -> dict[str, Any]:
    """A property that should be an object: nobody has looked at it yet."""
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> list[dict[str, Any]]:
    """A property that should be a list of objects."""
    return [_object(each) for each in value] if isinstance(value, list) else []


def _join_mode(node: ExecNode, merged: ChangelogMode) -> ChangelogMode:
    """Inner joins and joins with a version pass on; an outer side takes its padding back."""
    spec = node.raw.get("joinSpec")
    declared = spec.get("joinType") if isinstance(spec, dict) else node.raw.get("joinTypes")
    types = declared if isinstance(declared, list) else [declared]
    is_regular = node.node_type.short in ("join", "multi-join")
    padded = is_regular and any(each in ("LEFT", "RIGHT", "FULL", "ANTI") for each in types)
    if padded or (is_regular and "SEMI" in types and not merged.is_insert_only):
        return merged.union(INSERT_ONLY).union(_DELETES)
    return merged


_DELETES = ChangelogMode(frozenset({RowKind.DELETE}))


def _generating_mode(node: ExecNode, merged: ChangelogMode) -> ChangelogMode:
    """Nodes that turn changes into updates, and say whether they emit the row before."""
    kind = node.node_type.short
    takes_back = node.raw.get("needRetraction") is True or not merged.is_insert_only
    if kind == "deduplicate" and node.raw.get("outputInsertOnly") is True:
        return INSERT_ONLY
    if kind == "limit" and not takes_back:
        return INSERT_ONLY
    mode = ALL
    # Missing or null it is false, as in Flink; what is none of these may be anything.
    if kind in _SAYS_BEFORE and node.raw.get("generateUpdateBefore") in (None, False):
        mode = mode.without(RowKind.UPDATE_BEFORE)
    if kind in ("group-aggregate", "global-group-aggregate") and not takes_back:
        mode = mode.without(RowKind.DELETE)
    return mode
