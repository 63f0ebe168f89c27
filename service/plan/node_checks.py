"""What a node must keep to with regard to its inputs: states, columns, keys.

Flink finds these when it translates a plan; we when we load it.
"""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan.correlate import check_correlate, made_types
from service.plan.deadline import check_time
from service.plan.errors import InvalidExpression, InvalidProperty, InvalidStateMetadata, PlanError
from service.plan.metadata import readable_metadata, writable_metadata
from service.plan.node_shapes import check_columns, same_kind
from service.plan.nodes import Calc, Correlate, Exchange, Sink, TableScan, WatermarkAssigner
from service.plan.rex import FieldAccess, InputRef, walk
from state.types import format_type, row_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.plan.nodes import ExecNode
    from service.plan.rex import Rex
    from service.plan.tables import Column
    from state.types import LogicalType


def check_node(node: ExecNode, inputs: Sequence[ExecNode]) -> Iterator[PlanError]:
    """Everything that does not fit between a node and the nodes before it."""
    check_time()
    if node.has_state and node.state:
        yield from _check_state(node, len(inputs))
    for problem in _check_view(node, inputs):
        yield problem.at_node(node.id)


def _check_state(node: ExecNode, inputs_count: int) -> Iterator[PlanError]:
    path = f"{node.path}/state"
    if len(node.state) != inputs_count:
        yield InvalidStateMetadata(
            f"{len(node.state)} states for an operator with {inputs_count} input(s)",
            hint="one entry for each input, or none at all for the default time to live",
            node_id=node.id,
            path=path,
        )
        return
    indexes = [entry.index for entry in node.state]
    if indexes != list(range(inputs_count)):
        yield InvalidStateMetadata(
            f"the indexes of the states are {indexes}, but must be 0 to {inputs_count - 1}, "
            "each once",
            hint="the index says which input the state is of",
            node_id=node.id,
            path=path,
        )


def _check_view(node: ExecNode, inputs: Sequence[ExecNode]) -> Iterator[PlanError]:
    match node.view:
        case Calc(projection, condition):
            for rex in (*projection, *([condition] if condition is not None else [])):
                yield from _check_rex(rex, inputs[0].output_type)
            yield from _check_types(projection, node, inputs[0].output_type)
        case Correlate() as correlate:
            yield from _check_correlate(node, correlate, inputs[0].output_type)
        case WatermarkAssigner(expression, _):
            yield from _check_rex(expression, inputs[0].output_type)
        case Exchange(_, keys):
            yield from _check_keys(keys, node)
        case TableScan() as scan:
            yield from _check_scan(node, scan)
        case Sink(table=table) as sink:
            yield from _check_connector(table.options, table.identifier, table.path)
            yield from _check_written(node, sink)
        case _:
            yield from check_columns(node, inputs)


def _check_correlate(node: ExecNode, view: Correlate, row: LogicalType) -> Iterator[PlanError]:
    problems = [problem for each in view.call.operands for problem in _check_rex(each, row)]
    problems = problems or list(check_correlate(node, view, row))
    yield from problems
    if problems or view.condition is None or (made := made_types(view.call)) is None:
        return
    names = node.output_type.field_names[-len(made) :]
    yield from _check_rex(view.condition, row_type(names, made))


def _check_types(
    projection: Sequence[Rex], node: ExecNode, row: LogicalType
) -> Iterator[PlanError]:
    """Columns that are passed on as another type; what a call gives is found when it is built."""
    for rex, output in zip(projection, node.output_type.children, strict=True):
        if not isinstance(rex, InputRef) or rex.index >= len(row.children):
            continue
        column = row.children[rex.index]
        if not same_kind(column, output):
            yield InvalidExpression(
                f"the column is {column.root.value}, but the output {output.root.value}",
                path=rex.path,
            )


def _check_rex(rex: Rex, row: LogicalType) -> Iterator[PlanError]:
    for part in walk(rex):
        if isinstance(part, InputRef) and part.index >= len(row.children):
            yield InvalidExpression(
                f"the input has {len(row.children)} columns, so there is none with index "
                f"{part.index}",
                path=f"{part.path}/inputIndex",
            )
        if isinstance(part, FieldAccess) and isinstance(part.expression, InputRef):
            index = part.expression.index
            names = row.children[index].field_names if index < len(row.children) else ()
            if names and part.name not in names:
                yield InvalidExpression(
                    f"the row has no field {part.name!r}", path=f"{part.path}/name"
                )


def _check_keys(keys: Sequence[int], node: ExecNode) -> Iterator[PlanError]:
    columns = len(node.output_type.children)
    if keys and max(keys) >= columns:
        yield InvalidProperty(
            f"a key is column {max(keys)}, but the input has {columns}",
            path=f"{node.path}/inputProperties/0/requiredDistribution/keys",
        )


def _check_scan(node: ExecNode, scan: TableScan) -> Iterator[PlanError]:
    yield from _check_connector(scan.table.options, scan.table.identifier, scan.table.path)
    physical = scan.table.schema.physical
    for fields in scan.projected_fields or ():
        if not fields or fields[0] >= len(physical):
            yield InvalidProperty(
                f"the table has {len(physical)} physical columns, so none can be projected from "
                f"{list(fields)}",
                path=scan.table.path,
            )
    if scan.watermark is not None:
        yield from _check_rex(scan.watermark, node.output_type)
    yield from _check_metadata(node, scan)


def _check_metadata(node: ExecNode, scan: TableScan) -> Iterator[PlanError]:
    """Metadata is of columns of the table, and the last columns of the scan, as they are read."""
    ability = next((each for each in scan.abilities if each.type == "ReadingMetadata"), None)
    if ability is None:
        return
    path = f"{ability.path}/metadataKeys"
    yield from _check_metadata_keys(scan.metadata_keys, scan.table.schema.columns, path)
    fields = scan.projected_fields
    physical = len(scan.table.schema.physical if fields is None else fields)
    given = node.output_type.children
    if len(given) != physical + len(scan.metadata_keys):
        yield InvalidProperty(
            f"the scan gives {len(given)} columns, and reads {physical} physical columns and "
            f"{len(scan.metadata_keys)} metadata keys",
            path=path,
        )
        return
    known = readable_metadata(scan.table.options.get("connector", ""))
    for key, wanted, found in _misfits(scan.metadata_keys, given[physical:], known):
        yield InvalidProperty(
            f"metadata {key!r} is {wanted}, and the scan gives {found}: a cast has to stand above "
            "the scan",
            path=f"{node.path}/outputType",
        )


def _check_written(node: ExecNode, sink: Sink) -> Iterator[PlanError]:
    """Metadata is of columns of the table, and the last columns of the input, as it is written."""
    ability = next((each for each in sink.abilities if each.type == "WritingMetadata"), None)
    if ability is None:
        return
    path = f"{ability.path}/metadataKeys"
    refused = [*_check_metadata_keys(sink.metadata_keys, sink.table.schema.persisted, path)]
    yield from refused
    if refused:
        # Which column is of which key is not known.
        return
    known = writable_metadata(sink.table.options.get("connector", ""))
    given = node.output_type.children[len(sink.table.schema.physical) :]
    for key, wanted, found in _misfits(sink.metadata_keys, given, known):
        yield InvalidProperty(
            f"metadata {key!r} is {wanted}, and the sink is given {found}: a cast has to stand "
            "below the sink",
            path=f"{node.path}/outputType",
        )


def _check_metadata_keys(
    keys: Sequence[str], columns: Sequence[Column], path: str
) -> Iterator[PlanError]:
    declared = {each.metadata_key for each in columns if each.kind == "METADATA"}
    seen: set[str] = set()
    for at, key in enumerate(keys):
        if key not in declared:
            reason = f"no column of the table has the metadata key {key!r}"
            yield InvalidProperty(reason, path=f"{path}/{at}")
        elif key in seen:
            reason = f"the metadata key {key!r} is there twice"
            yield InvalidProperty(reason, path=f"{path}/{at}")
        seen.add(key)


def _misfits(
    keys: Sequence[str], given: Sequence[LogicalType], known: Mapping[str, LogicalType]
) -> Iterator[tuple[str, str, str]]:
    """Keys whose columns have another type than the connector has for them, with both types."""
    for key, kind in zip(keys, given, strict=True):
        wanted = known.get(key)
        if wanted is not None and _plain(kind) != _plain(wanted):
            yield key, format_type(wanted), format_type(kind)


def _plain(kind: LogicalType) -> LogicalType:
    """The type, whether or not it is a time attribute or may be NULL."""
    return replace(kind, time_attribute=None, nullable=True)


def _check_connector(options: object, identifier: str, path: str) -> Iterator[PlanError]:
    if isinstance(options, dict) and not options.get("connector"):
        near = difflib.get_close_matches("connector", options, 1, cutoff=0.75)
        yield InvalidProperty(
            f"table {identifier} has no connector",
            hint=f"did you mean 'connector' by '{near[0]}'?"
            if near
            else "its option 'connector' is in the plan if it was compiled with catalogue "
            "objects ALL, else in the catalogue",
            path=f"{path}/resolvedTable/options",
        )
