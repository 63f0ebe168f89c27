"""Loading a compiled plan: from text to a graph of typed nodes, or to what is wrong with it.

What Flink finds when it loads a plan and what it finds only when it explains or runs it, both are
found here. `check_document` gives everything that is wrong at once, `load_plan` raises the first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import orjson

from service.plan.errors import (
    InvalidProperty,
    PlanError,
    PlanSyntaxError,
    PlanTooLarge,
    UnknownFlinkVersion,
)
from service.plan.graph import (
    check_edges,
    check_ids,
    check_sinks,
    inputs_of,
    read_edge,
    sort_nodes,
)
from service.plan.json_names import json_name
from service.plan.local_zone import common_zone, marked
from service.plan.node_checks import check_node
from service.plan.node_reader import read_node
from service.plan.node_types import SINK_NAMES
from service.plan.properties import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from service.plan.nodes import Edge, ExecNode

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")

FLINK_VERSIONS = (*(f"1.{minor}" for minor in range(3, 21)), *(f"2.{minor}" for minor in range(4)))
"""Versions that Flink 2.3 knows by name; plans exist since 1.15."""
_VERSION = re.compile(r"([1-9][0-9]{0,2})\.(0|[1-9][0-9]{0,2})", re.ASCII)
_NODE_PLACE = re.compile(r"/nodes/([0-9]{1,9})(?:/|$)", re.ASCII)
_ROOT_PROPERTIES = ("flinkVersion", "nodes", "edges")


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """What one document may cost; generous for a plan that a planner wrote."""

    size_bytes_max: int = 64 * 1024 * 1024
    depth_max: int = 256
    """Objects and lists inside each other. Expressions are read by recursion, so this bounds it."""
    nodes_max: int = 10_000
    edges_max: int = 40_000


DEFAULT_LIMITS = PlanLimits()
PROBLEMS_MAX = 100
"""Problems of one document that are listed: a document that is wrong everywhere is not echoed."""


@dataclass(frozen=True, slots=True, eq=False)
class CompiledPlan:
    """A plan whose every node is known and whose graph is sound."""

    flink_version: str
    nodes: tuple[ExecNode, ...]
    """Each after its inputs."""
    edges: tuple[Edge, ...]
    document: Mapping[str, Any]
    """The JSON value as it was given."""
    _by_id: Mapping[int, ExecNode]
    _inputs: Mapping[int, tuple[Edge, ...]]

    def node(self, node_id: int) -> ExecNode:
        """The node of an id.

        Raises:
            KeyError: The plan has none.
        """
        return self._by_id[node_id]

    def inputs(self, node_id: int) -> tuple[ExecNode, ...]:
        """The nodes whose changes this node takes, left before right."""
        return tuple(self._by_id[edge.source] for edge in self.input_edges(node_id))

    def input_edges(self, node_id: int) -> tuple[Edge, ...]:
        """The edges into a node, left before right."""
        return self._inputs.get(node_id, ())

    def outputs(self, node_id: int) -> tuple[ExecNode, ...]:
        """The nodes that take this node's changes."""
        return tuple(self._by_id[edge.target] for edge in self.edges if edge.source == node_id)

    @property
    def sinks(self) -> tuple[ExecNode, ...]:
        """The nodes that write tables."""
        return tuple(node for node in self.nodes if node.type in SINK_NAMES)


def load_plan(
    source: str | bytes | Mapping[str, Any],
    *,
    catalog: Mapping[str, Mapping[str, Any]] | None = None,
    limits: PlanLimits = DEFAULT_LIMITS,
) -> CompiledPlan:
    """Load a plan from its text or from its JSON value.

    Args:
        source: The document.
        catalog: Tables by identifier, each as a plan writes a `resolvedTable`: for plans that
            hold only names, and to be compared with those that hold more. None: there is no
            catalogue, and the plan must say all.
        limits: What the document may cost.

    Raises:
        PlanError: The first thing that is wrong; `check_document` has all.
    """
    plan, problems = check_document(source, catalog=catalog, limits=limits)
    if plan is None:
        raise problems[0]
    return plan


def check_document(
    source: str | bytes | Mapping[str, Any],
    *,
    catalog: Mapping[str, Mapping[str, Any]] | None = None,
    limits: PlanLimits = DEFAULT_LIMITS,
) -> tuple[CompiledPlan | None, list[PlanError]]:
    """The plan, or everything that is wrong with it: never both, never neither."""
    try:
        document = _parse(source, limits)
    except PlanError as problem:
        return None, [problem]
    plan, problems = _check(document, catalog, limits)
    for each in problems:
        _name_node(each, document)
    return plan, problems


def _check(
    document: dict[str, Any], catalog: Mapping[str, Mapping[str, Any]] | None, limits: PlanLimits
) -> tuple[CompiledPlan | None, list[PlanError]]:
    problems: list[PlanError] = []
    root = JsonObject(document, "")
    _collect(problems, _check_root, root)
    version = _collect(problems, _read_version, root)
    node_values = list(_read_entries(root, "nodes", limits.nodes_max, problems))
    edge_values = _read_entries(root, "edges", limits.edges_max, problems)
    zone = common_zone(node_values)
    nodes = [
        _collect(problems, read_node, marked(value, zone), f"/nodes/{index}", catalog)
        for index, value in enumerate(node_values)
    ]
    edges = [_collect(problems, read_edge, value, index) for index, value in enumerate(edge_values)]
    sound_nodes = [node for node in nodes if node is not None]
    problems.extend(check_ids(sound_nodes))
    if problems or version is None:
        return None, problems[:PROBLEMS_MAX]
    return _assemble(document, version, sound_nodes, [edge for edge in edges if edge is not None])


def _name_node(problem: PlanError, document: Mapping[str, Any]) -> None:
    """Say which node a problem is about, as far as its place or the node's id tell."""
    nodes = document.get("nodes")
    entries = [each for each in nodes if isinstance(each, dict)] if isinstance(nodes, list) else []
    found: list[dict[str, Any]] = []
    if problem.node_id is not None:
        found = [each for each in entries if each.get("id") == problem.node_id]
    place = _NODE_PLACE.match(problem.path)
    if place is not None and isinstance(nodes, list) and int(place[1]) < len(nodes):
        found = [each for each in (nodes[int(place[1])],) if isinstance(each, dict)]
    for node in found[:1]:
        node_id, node_type = node.get("id"), node.get("type")
        is_of_id = place is not None and problem.path == f"/nodes/{place[1]}/id"
        if problem.node_id is None and type(node_id) is int and not is_of_id:
            problem.node_id = node_id
        if isinstance(node_type, str):
            problem.node_type = node_type


def _assemble(
    document: Mapping[str, Any], version: str, nodes: list[ExecNode], edges: list[Edge]
) -> tuple[CompiledPlan | None, list[PlanError]]:
    """The plan of nodes and edges that are each sound by themselves."""
    problems: list[PlanError] = list(check_edges(nodes, edges))
    if problems:
        return None, problems[:PROBLEMS_MAX]
    problems.extend(check_sinks(nodes, edges))
    ordered = _collect(problems, sort_nodes, nodes, edges)
    by_id = {node.id: node for node in nodes}
    inputs = inputs_of(edges)
    for node in nodes:
        sources = [by_id[edge.source] for edge in inputs.get(node.id, ())]
        problems.extend(check_node(node, sources))
    if problems or ordered is None:
        return None, problems[:PROBLEMS_MAX]
    return CompiledPlan(version, ordered, tuple(edges), document, by_id, inputs), []


def _collect(
    problems: list[PlanError],
    read: Callable[_Arguments, _Value],
    *args: _Arguments.args,
    **kwargs: _Arguments.kwargs,
) -> _Value | None:
    """What `read` gives, or None and one problem more."""
    try:
        return read(*args, **kwargs)
    except PlanError as problem:
        problems.append(problem)
        return None


def _parse(source: str | bytes | Mapping[str, Any], limits: PlanLimits) -> dict[str, Any]:
    document = _parse_text(source, limits) if isinstance(source, (str, bytes)) else dict(source)
    _check_depth(document, limits.depth_max)
    if not isinstance(document, dict):
        raise PlanSyntaxError(
            f"a plan must be a JSON object, not {json_name(document)}",
            hint="with flinkVersion, nodes and edges, as COMPILE PLAN writes it",
        )
    return document


def _parse_text(source: str | bytes, limits: PlanLimits) -> Any:
    if len(source) > limits.size_bytes_max:
        raise PlanTooLarge(
            f"the plan has {len(source)} bytes; {limits.size_bytes_max} are allowed",
            hint="compile it without catalogue objects, or raise the limit",
        )
    if not source.strip():
        raise PlanSyntaxError("the plan is empty", hint="it must be a JSON object")
    try:
        return orjson.loads(source)
    except orjson.JSONDecodeError as problem:
        if "depth limit" in problem.msg:
            raise _too_deep(limits.depth_max) from problem
        raise PlanSyntaxError(
            f"the plan is not JSON: {problem.msg}: line {problem.lineno} column {problem.colno}",
            hint="it must be the file that COMPILE PLAN wrote",
        ) from problem


def _check_depth(document: object, depth_max: int) -> None:
    """Refuse what readers that call themselves could not read."""
    level: list[Any] = [document]
    for _ in range(depth_max):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        if not inner:
            return
        level = inner
    raise _too_deep(depth_max)


def _too_deep(depth_max: int) -> PlanTooLarge:
    return PlanTooLarge(
        f"the plan is nested deeper than {depth_max}",
        hint="long chains of operators in one expression nest; split it over views",
    )


def _check_root(root: JsonObject) -> None:
    for name in root.value:
        if name not in _ROOT_PROPERTIES:
            raise root.fail(
                name, f"unknown property {name!r} of a plan", f"only {', '.join(_ROOT_PROPERTIES)}"
            )


def _read_version(root: JsonObject) -> str:
    if not root.has("flinkVersion"):
        raise UnknownFlinkVersion(
            "flinkVersion is missing or null",
            hint=f"one of {FLINK_VERSIONS[0]} to {FLINK_VERSIONS[-1]}",
            path="/flinkVersion",
        )
    version = root.text("flinkVersion")
    if version not in FLINK_VERSIONS and not _is_later(version):
        raise UnknownFlinkVersion(
            f"unknown Flink version {version!r}",
            hint=f"one of {FLINK_VERSIONS[0]} to {FLINK_VERSIONS[-1]} or later, as major.minor",
            path="/flinkVersion",
        )
    return version


def _is_later(version: str) -> bool:
    """Whether a version may have come after those that are known.

    Its nodes say their own versions, so each is known, or is refused by its name.
    """
    found = _VERSION.fullmatch(version)
    last = tuple(map(int, FLINK_VERSIONS[-1].split(".")))
    return found is not None and (int(found[1]), int(found[2])) > last


def _read_entries(
    root: JsonObject, key: str, most: int, problems: list[PlanError]
) -> Iterable[Any]:
    entries = _collect(problems, root.list, key)
    if entries is None:
        return []
    if len(entries) > most:
        problems.append(PlanTooLarge(f"the plan has {len(entries)} {key}; {most} are allowed"))
        return []
    if not entries and key == "nodes":
        problems.append(InvalidProperty("the plan has no nodes", path="/nodes"))
    return entries
