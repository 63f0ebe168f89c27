"""The time zone of a plan, `table.local-time-zone`, and the expressions that read it.

A TIMESTAMP_LTZ is an instant; what tells its fields or its text, or takes a local time for one,
depends on the zone. A plan says the zone in the configuration of its nodes. Flink writes it at
windows only, and it is that of all other nodes then; we write it, and the option
`local_time_zone` of a pipeline does, at each node with an expression that reads it. Flink honours
it there as well. What becomes of such an expression is in `zoned`.

Source: Flink `TableConfigOptions.LOCAL_TIME_ZONE`, `ExecNodeConfig` (2.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.expressions.rex import Call, Literal, SargLiteral, walk
from operators.time_zones import UnknownZone, time_zone
from service.plan.errors import InvalidProperty
from service.plan.properties import pointer_token
from service.plan.rex import ZONE_MARK, parse_rex
from service.plan.zoned import is_refused, reads_zone
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from operators.expressions.rex import Rex

ZONE_OPTION = "table.local-time-zone"
UNSAID = "default"
"""The zone of the machine that compiled the plan, which the plan does not name."""
_KINDS = ("CALL", "LITERAL", "FIELD_ACCESS")
_WINDOW = "window"
"""In the type of every node of windows, which are of a zone if their time is a TIMESTAMP_LTZ."""
_COMPUTED = "COMPUTED"
"""A column of a table's schema: what it says is evaluated by other nodes, if at all."""


def is_utc(zone: str) -> bool:
    """Whether a zone is UTC, by one of its names; what is no zone is not."""
    try:
        return time_zone(zone.strip()) is None
    except UnknownZone:
        return False


def said_zone(node: object) -> str | None:
    """The zone in the configuration of a node as JSON; None where it says none."""
    configuration = node.get("configuration") if isinstance(node, dict) else None
    zone = configuration.get(ZONE_OPTION) if isinstance(configuration, dict) else None
    return zone if isinstance(zone, str) and zone != UNSAID else None


def common_zone(nodes: Sequence[Any]) -> str | None:
    """The one zone that nodes name; None where they name none, or several."""
    zones = {"UTC" if is_utc(zone) else zone for node in nodes if (zone := said_zone(node))}
    return zones.pop() if len(zones) == 1 else None


def marked(node: object, common: str | None) -> Any:
    """A node whose expressions know their zone, for `parse_rex`; the node itself if it is UTC."""
    zone = said_zone(node) or common
    return node if zone is None or is_utc(zone) else _marked(node, zone)


def _marked(value: object, zone: str) -> Any:
    if isinstance(value, list):
        return [_marked(each, zone) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") in ("CALL", "FIELD_ACCESS"):
        return {**value, ZONE_MARK: zone}
    return {key: _marked(each, zone) for key, each in value.items()}


def with_zone(document: Mapping[str, Any], zone: str) -> dict[str, Any]:
    """A sound plan whose expressions are those of a zone.

    Raises:
        InvalidProperty: A node of the plan names another one.
    """
    nodes = []
    for index, node in enumerate(document["nodes"]):
        said = said_zone(node)
        if said is not None and said != zone and not (is_utc(said) and is_utc(zone)):
            raise InvalidProperty(
                f"the plan is for the time zone {said}, and the option asks for {zone}",
                hint="leave out the option local_time_zone, or compile the plan in that zone",
                path=f"/nodes/{index}/configuration/{pointer_token(ZONE_OPTION)}",
            )
        nodes.append(with_node_zone(node, f"/nodes/{index}", zone))
    return {**document, "nodes": nodes}


def with_node_zone(node: Mapping[str, Any], path: str, zone: str) -> dict[str, Any]:
    """A node that names the zone if it depends on it."""
    configuration = node.get("configuration") or {}
    is_window = _WINDOW in str(node.get("type"))
    if not (ZONE_OPTION in configuration or is_window or any(_zone_readers(node, path))):
        return dict(node)
    return {**node, "configuration": {**configuration, ZONE_OPTION: zone}}


def refused_readers(
    properties: object, path: str, *, literals: bool = False
) -> Iterator[tuple[str, str]]:
    """What reads the zone in a node's properties and is not computed but in UTC, with its place.

    Args:
        properties: JSON that is not marked; expressions are found wherever they stand in it, but
            for those of computed columns.
        path: Its place in the document.
        literals: Whether a literal of TIMESTAMP_LTZ is one, too: it was a text in SQL.
    """
    for part in _expressions(properties, path):
        if isinstance(part, Call) and is_refused(part):
            yield part.name, part.path
        elif literals and _is_instant(part):
            yield "a TIMESTAMP_LTZ of a text", part.path


def _is_instant(part: Rex) -> bool:
    return isinstance(part, Literal | SargLiteral) and part.type.root is TypeRoot.TIMESTAMP_LTZ


def zone_readers(properties: object, path: str) -> Iterator[tuple[str, str]]:
    """The functions in a node's properties that read the zone, each with its place."""
    for part in _zone_readers(properties, path):
        yield part.name, part.path


def _zone_readers(properties: object, path: str) -> Iterator[Call]:
    for part in _expressions(properties, path):
        if isinstance(part, Call) and reads_zone(part):
            yield part


def _expressions(properties: object, path: str) -> Iterator[Rex]:
    if isinstance(properties, dict):
        if properties.get("kind") in _KINDS:
            yield from walk(parse_rex(properties, path))
            return
        if properties.get("kind") == _COMPUTED:
            return
        for key, value in properties.items():
            yield from _expressions(value, f"{path}/{pointer_token(key)}")
    elif isinstance(properties, list):
        for index, value in enumerate(properties):
            yield from _expressions(value, f"{path}/{index}")
