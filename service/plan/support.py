"""What of a valid plan we cannot run: named, with node, type and place, never passed over.

Expressions, connectors and formats are not looked at here but by `service.runtime`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.plan.correlate import not_run
from service.plan.metadata import why_not_read, why_not_written
from service.plan.nodes import Correlate, Sink, TableScan
from service.plan.pushed import refused_abilities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.plan.document import CompiledPlan
    from service.plan.nodes import ExecNode

SOURCE_ABILITIES = frozenset(
    {"FilterPushDown", "LimitPushDown", "ProjectPushDown", "ReadingMetadata", "WatermarkPushDown"}
)
"""What a plan may hand to a source; of filters and limits `pushed` says what becomes of them."""
RUN_WITHOUT_VIEW: frozenset[str] = frozenset(
    {
        "changelog-normalize", "deduplicate", "global-group-aggregate", "global-window-aggregate",
        "group-aggregate", "group-window-aggregate", "incremental-group-aggregate",
        "interval-join", "join", "limit", "local-group-aggregate", "local-window-aggregate",
        "lookup-join", "mini-batch-assigner", "multi-join", "over-aggregate",
        "process-table-function", "rank", "sort-limit", "temporal-join", "temporal-sort",
        "window-aggregate", "window-deduplicate", "window-join", "window-rank",
        "window-table-function",
    }
)  # fmt: skip  # a list of names, several a line
"""Nodes without a typed view that are run: by operators that `service.runtime.specs` builds, or
because they ask for nothing here."""
SINK_ABILITIES = frozenset({"TargetColumnWriting", "WritingMetadata"})
"""The first names the columns that the statement named; all are written."""

LOGS = frozenset({"blackhole", "filesystem", "print"})
"""Connectors of sinks that keep changes, or nothing, and no row by its key."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """One thing of a plan that is right but not run."""

    node_id: int
    type: str
    """As the plan writes it: `stream-exec-join_1`."""
    path: str
    """JSON pointer of what is meant: the node, or a property of it."""
    reason: str


def unsupported(plan: CompiledPlan) -> list[Unsupported]:
    """Everything in a plan that we cannot run, in topological order; empty: all can."""
    found = [finding for node in plan.nodes for finding in _of_node(plan, node)]
    return [*found, *_partial_writes(plan)]


def _partial_writes(plan: CompiledPlan) -> Iterator[Unsupported]:
    """Sinks that write different columns of one table by its key: each sets the others' to NULL."""
    seen: dict[str, set[int]] = {}
    for node in plan.nodes:
        view = node.view
        if not isinstance(view, Sink) or not view.primary_key:
            continue
        if view.table.options.get("connector") in LOGS:
            continue
        written = _written(node, view)
        if seen.setdefault(view.table.identifier, written) != written:
            reason = (
                f"another sink writes other columns of table {view.table.name} by its key, and "
                "each would set those of the other to NULL; write it with one INSERT over a FULL "
                "JOIN of both queries"
            )
            yield Unsupported(node.id, node.type_text, node.path, reason)


def _written(node: ExecNode, sink: Sink) -> set[int]:
    """The columns that a statement named; all, where it named none."""
    raw = node.raw.get("dynamicTableSink")
    named = raw.get("targetColumns") if isinstance(raw, dict) else None
    for ability in sink.abilities:
        if ability.type == "TargetColumnWriting":
            named = ability.value.get("targetColumns", named)
    paths = named if isinstance(named, list) else [[at] for at in range(len(sink.columns))]
    return {each[0] for each in paths if isinstance(each, list) and each}


def _of_node(plan: CompiledPlan, node: ExecNode) -> Iterator[Unsupported]:
    match node.view:
        case None if node.node_type.short in RUN_WITHOUT_VIEW:
            pass
        case None:
            reason = f"nodes of type {node.type} are not run yet"
            yield Unsupported(node.id, node.type_text, node.path, reason)
        case TableScan() as scan:
            yield from _of_scan(node, scan)
            for each in refused_abilities(plan, node):
                yield Unsupported(node.id, node.type_text, each.ability.path, each.reason)
        case Correlate() as correlate:
            yield from _of_correlate(node, correlate)
        case Sink() as sink:
            yield from _of_sink(node, sink)
        case _:
            pass


def _of_correlate(node: ExecNode, correlate: Correlate) -> Iterator[Unsupported]:
    if (refused := not_run(correlate)) is not None:
        key, reason = refused
        yield Unsupported(node.id, node.type_text, f"{node.path}/{key}", reason)


def _of_scan(node: ExecNode, scan: TableScan) -> Iterator[Unsupported]:
    for ability in scan.abilities:
        reason = ""
        if ability.type not in SOURCE_ABILITIES:
            reason = f"the ability {ability.type} of a source is not supported"
        elif ability.type == "ReadingMetadata":
            reason = next(_not_read(scan), "")
        elif ability.type == "ProjectPushDown" and any(
            len(fields) > 1 for fields in scan.projected_fields or ()
        ):
            reason = "a source cannot choose fields inside of a column"
        if reason:
            yield Unsupported(node.id, node.type_text, ability.path, reason)
    # Plans of Flink always say which keys are read, if only that none is; those that were made of
    # SQL here, before metadata was read, took such a column for one of the record's value.
    if not any(ability.type == "ReadingMetadata" for ability in scan.abilities):
        for column in scan.table.schema.columns:
            if column.kind == "METADATA":
                reason = (
                    f"it has metadata column {column.name!r} and does not read any metadata; "
                    "compile the plan again"
                )
                yield Unsupported(node.id, node.type_text, column.path, reason)


def _not_read(scan: TableScan) -> Iterator[str]:
    connector = scan.table.options.get("connector", "")
    for key in scan.metadata_keys:
        if why := why_not_read(connector, key):
            yield f"metadata {key!r} of table {scan.table.name} is not read: {why}"


def _of_sink(node: ExecNode, sink: Sink) -> Iterator[Unsupported]:
    for ability in sink.abilities:
        reason = ""
        if ability.type not in SINK_ABILITIES:
            reason = f"the ability {ability.type} of a sink is not supported"
        elif ability.type == "WritingMetadata":
            reason = next(_not_written(sink), "")
        if reason:
            yield Unsupported(node.id, node.type_text, ability.path, reason)


def _not_written(sink: Sink) -> Iterator[str]:
    connector = sink.table.options.get("connector", "")
    for key in sink.metadata_keys:
        if why := why_not_written(connector, key):
            yield f"metadata {key!r} of table {sink.table.name} is not written: {why}"
