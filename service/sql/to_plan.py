"""From nodes to the document of a compiled plan: ids, edges, what all nodes have.

Nodes are numbered as they are met, inputs first and from the left; equal nodes are one. So the same
query always gives the same document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.sql.deadline import check_time
from service.sql.errors import SqlTooLarge
from service.sql.physical.descriptions import describe
from service.sql.physical.node_json import properties
from service.sql.physical.nodes import ExchangeSpec, MultiJoinSpec, SinkSpec
from service.sql.to_json import row_to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.sql.options import Options
    from service.sql.physical.nodes import Node

FLINK_VERSION = "2.3"
NESTING_MAX = 180
"""Arrays and objects inside each other: what is compiled must fit into the body of a request."""


@dataclass(frozen=True, slots=True)
class PlannedNodes:
    """A plan's document, and what its nodes send."""

    document: dict[str, Any]
    modes: dict[int, tuple[str, ...]]
    """The kinds of change that each node sends, by its id; of a sink: none."""
    nodes: Mapping[int, Node]
    """What the document was made of, by the nodes' ids."""


def to_plan(sinks: Sequence[Node], options: Options) -> PlannedNodes:
    """The document of a plan with these sinks."""
    writer = _Writer(options)
    for sink in sinks:
        writer.add(sink)
    document = {"flinkVersion": FLINK_VERSION, "nodes": writer.nodes, "edges": writer.edges}
    return PlannedNodes(document, writer.modes, writer.by_id)


class _Writer:
    def __init__(self, options: Options) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self.modes: dict[int, tuple[str, ...]] = {}
        self.by_id: dict[int, Node] = {}
        self._options = options
        self._ids: dict[tuple[object, ...], int] = {}

    def add(self, node: Node) -> int:
        """The id of a node, which is written if it is new."""
        check_time()
        inputs = [self.add(each) for each in node.inputs]
        identity = (node.spec, tuple(inputs), node.row, node.changes)
        known = self._ids.get(identity) if self._options.reuses_plans else None
        if known is not None:
            return known
        made = len(self.nodes) + 1
        self._ids[identity] = made
        self.by_id[made] = node
        is_sink = isinstance(node.spec, SinkSpec)
        self.modes[made] = () if is_sink else tuple(node.changes.names)
        kind, own = properties(node, self._options)
        value: dict[str, Any] = {"id": made, "type": f"stream-exec-{kind}", **own}
        if node.inputs:
            value["inputProperties"] = _input_properties(node)
        value["outputType"] = row_to_json(node.row)
        value["description"] = describe(node)
        _check_nesting(value)
        self.nodes.append(value)
        self.edges += [_edge(source, made) for source in inputs]
        return made


def _check_nesting(value: dict[str, Any]) -> None:
    """Refuse a node that nobody could read again.

    Raises:
        SqlTooLarge: It is nested deeper than `NESTING_MAX`.
    """
    level: list[Any] = [value]
    for _ in range(NESTING_MAX):
        children = [each.values() if isinstance(each, dict) else each for each in level]
        level = [part for each in children for part in each if isinstance(part, (dict, list))]
        if not level:
            return
    raise SqlTooLarge(
        "an expression is nested deeper than a plan can hold",
        hint="put brackets around the halves of a long chain of operators",
    )


def _input_properties(node: Node) -> list[dict[str, Any]]:
    spec = node.spec
    return [
        {
            "requiredDistribution": _distribution(node, index),
            "damBehavior": "PIPELINED",
            "priority": index if isinstance(spec, MultiJoinSpec) else 0,
        }
        for index in range(len(node.inputs))
    ]


def _distribution(node: Node, index: int) -> dict[str, Any]:
    spec = node.spec
    if isinstance(spec, ExchangeSpec):
        return _hash(spec.keys)
    if isinstance(spec, MultiJoinSpec):
        return _hash(spec.common_keys[index])
    return {"type": "UNKNOWN"}


def _hash(keys: tuple[int, ...]) -> dict[str, Any]:
    return {"type": "HASH", "keys": list(keys)} if keys else {"type": "SINGLETON"}


def _edge(source: int, target: int) -> dict[str, Any]:
    shuffle = {"type": "FORWARD"}
    return {"source": source, "target": target, "shuffle": shuffle, "shuffleMode": "PIPELINED"}
