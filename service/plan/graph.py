"""The graph that a plan's edges make of its nodes: inputs in order, topological order, sinks.

Unlike Flink, which looks at the first edges only, a node with more inputs than it can have, a cycle
and a node that no sink uses are refused: a part of a plan must not be passed over in silence.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING

from service.plan.errors import InvalidGraph
from service.plan.node_types import SINK_NAMES
from service.plan.nodes import Edge
from service.plan.properties import JsonObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from service.plan.nodes import ExecNode

_SHUFFLES = ("ANY", "SINGLETON", "BROADCAST", "FORWARD", "HASH")
_SHUFFLE_MODES = ("PIPELINED", "BATCH", "HYBRID_FULL", "HYBRID_SELECTIVE", "UNDEFINED")


def read_edge(value: object, index: int) -> Edge:
    """Read the edge at a position of the document.

    Raises:
        InvalidProperty: A property is missing or has a value that does not exist.
    """
    edge = JsonObject.of(value, f"/edges/{index}", "an edge")
    # Must be one of Flink's, and makes no difference here.
    edge.choice("shuffleMode", _SHUFFLE_MODES)
    return Edge(
        source=edge.integer("source"),
        target=edge.integer("target"),
        shuffle=edge.object("shuffle").choice("type", _SHUFFLES, any_case=True),
        index=index,
    )


def check_ids(nodes: Sequence[ExecNode]) -> Iterator[InvalidGraph]:
    """Ids that stand twice."""
    seen: dict[int, ExecNode] = {}
    for node in nodes:
        other = seen.setdefault(node.id, node)
        if other is not node:
            yield InvalidGraph(
                f"node id {node.id} is not unique: {other.path} has it too",
                hint="each node needs an id of its own",
                node_id=node.id,
                path=f"{node.path}/id",
            )


def check_edges(nodes: Sequence[ExecNode], edges: Sequence[Edge]) -> Iterator[InvalidGraph]:
    """Ends of edges that are no nodes, and nodes with too few or too many inputs."""
    ids = {node.id for node in nodes}
    counts: dict[int, int] = defaultdict(int)
    for edge in edges:
        counts[edge.target] += 1
        for end, node_id in (("source", edge.source), ("target", edge.target)):
            if node_id not in ids:
                yield InvalidGraph(
                    f"{end} node {node_id} of an edge is not in nodes",
                    node_id=node_id,
                    path=f"/edges/{edge.index}/{end}",
                )
    for node in nodes:
        yield from _check_inputs(node, counts[node.id])


def _check_inputs(node: ExecNode, count: int) -> Iterator[InvalidGraph]:
    least, most = node.node_type.inputs_min, node.node_type.inputs_max
    if least <= count and (most is None or count <= most):
        return
    expected = f"{least}" if most == least else f"at least {least}"
    yield InvalidGraph(
        f"{node.type_text} has {count} inputs, but needs {expected}",
        hint="each input is an edge whose target is the node",
        node_id=node.id,
        path=node.path,
    )


def sort_nodes(nodes: Sequence[ExecNode], edges: Sequence[Edge]) -> tuple[ExecNode, ...]:
    """The nodes, each after its inputs; otherwise in the order of the document.

    Raises:
        InvalidGraph: The edges go in a circle; names a node of it.
    """
    waiting = {node.id: 0 for node in nodes}
    targets: dict[int, list[int]] = defaultdict(list)
    for edge in edges:
        waiting[edge.target] += 1
        targets[edge.source].append(edge.target)
    by_id = {node.id: node for node in nodes}
    ready = deque(node.id for node in nodes if not waiting[node.id])
    ordered: list[ExecNode] = []
    while ready:
        node_id = ready.popleft()
        ordered.append(by_id[node_id])
        for target in targets[node_id]:
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    if len(ordered) < len(nodes):
        stuck = next(node for node in nodes if waiting[node.id])
        raise InvalidGraph(
            "the edges form a cycle",
            node_id=stuck.id,
            path=stuck.path,
            hint="a plan must be acyclic",
        )
    return tuple(ordered)


def check_sinks(nodes: Sequence[ExecNode], edges: Sequence[Edge]) -> Iterator[InvalidGraph]:
    """A plan without a sink, and nodes that no sink uses."""
    if not any(node.type in SINK_NAMES for node in nodes):
        yield InvalidGraph("the plan has no sink", hint="it would do nothing", path="/nodes")
        return
    used = {edge.source for edge in edges}
    for node in nodes:
        if node.type not in SINK_NAMES and node.id not in used:
            yield InvalidGraph(
                f"{node.type_text} leads to no sink",
                hint="add an edge from it, or leave the node out",
                node_id=node.id,
                path=node.path,
            )
        if node.type in SINK_NAMES and node.id in used:
            yield InvalidGraph("a sink has no output", node_id=node.id, path=node.path)


def inputs_of(edges: Sequence[Edge]) -> Mapping[int, tuple[Edge, ...]]:
    """The edges into each node, in the order of the document: left before right."""
    inputs: dict[int, list[Edge]] = defaultdict(list)
    for edge in edges:
        inputs[edge.target].append(edge)
    return {target: tuple(found) for target, found in inputs.items()}
