"""The columns that tell the rows of a stream apart: the upsert key of what each node emits.

Two changes with the same upsert key are about the same row. The key decides where a sink needs a
materializer, and how an operator above finds the row that a change takes back.

Source: Flink `FlinkRelMdUpsertKeys` (2.3), for the nodes that a plan says enough about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.plan.nodes import Calc, DropUpdateBefore, Exchange, Sink, TableScan, WatermarkAssigner
from service.plan.rex import InputRef

if TYPE_CHECKING:
    from service.plan.document import CompiledPlan
    from service.plan.nodes import ExecNode

Key = tuple[int, ...]
_GROUPINGS = {
    "changelog-normalize": "uniqueKeys",
    "deduplicate": "uniqueKeys",
}


def upsert_keys(plan: CompiledPlan) -> dict[int, Key | None]:
    """The upsert key of each node's output, by node id; None where there is none, or unknown.

    An empty key means that there is at most one row. For a sink: that of its input.
    """
    keys: dict[int, Key | None] = {}
    for node in plan.nodes:
        inputs = [keys[source.id] for source in plan.inputs(node.id)]
        keys[node.id] = _key(node, inputs[0] if len(inputs) == 1 else None)
    return keys


def _key(node: ExecNode, inherited: Key | None) -> Key | None:
    match node.view:
        case TableScan() as scan:
            return _scan_key(scan)
        case Calc(projection, _):
            positions = {
                rex.index: position
                for position, rex in reversed(list(enumerate(projection)))
                if isinstance(rex, InputRef)
            }
            return _mapped(inherited, positions)
        case Exchange() | WatermarkAssigner() | DropUpdateBefore():
            return inherited
        case Sink() as sink:
            return inherited if sink.input_upsert_key is None else sink.input_upsert_key
        case _:
            return _other_key(node)


def _scan_key(scan: TableScan) -> Key | None:
    """The primary key, if the scan gives all of it."""
    names = [column.name for column in scan.table.schema.physical]
    if scan.projected_fields is not None:
        names = [names[fields[0]] if len(fields) == 1 else "" for fields in scan.projected_fields]
    key = scan.table.schema.primary_key
    if not key or not set(key) <= set(names):
        return None
    return tuple(names.index(name) for name in key)


def _mapped(key: Key | None, positions: dict[int, int]) -> Key | None:
    if key is None or not all(index in positions for index in key):
        return None
    return tuple(positions[index] for index in key)


def _other_key(node: ExecNode) -> Key | None:
    """Nodes that are keyed by what the plan names."""
    kind = node.node_type.short
    if kind in ("group-aggregate", "global-group-aggregate"):
        # The grouping columns come first in the output, in this order.
        grouping = node.raw.get("grouping")
        return tuple(range(len(grouping))) if isinstance(grouping, list) else None
    keys = node.raw.get(_GROUPINGS.get(kind, ""))
    if isinstance(keys, list) and all(isinstance(key, int) and key >= 0 for key in keys):
        return tuple(keys)
    return None
