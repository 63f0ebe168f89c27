"""Window table functions and their aggregates: stream-exec-window-*, and the two phases of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.windows.session_aggregate import SessionAggregateSpec
from operators.windows.shapes import Cumulating, Hopping, Session, Tumbling
from operators.windows.window_aggregate import SlicedAggregateSpec
from operators.windows.window_table_function import WindowTableSpec
from service.plan.durations import parse_duration_ms
from service.plan.errors import DurationError
from service.plan.local_zone import ZONE_OPTION, common_zone, said_zone
from service.plan.type_json import parse_type_json
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs.aggregate_calls import aggregate_calls
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from operators.windows.shapes import Shape
    from operators.windows.spec import Property, WindowAggregateSpec
    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.plan.properties import JsonObject
    from service.runtime.specs import StatefulNode
    from state.types import LogicalType

_LOCAL: Final = "stream-exec-local-window-aggregate"
_GLOBAL: Final = "stream-exec-global-window-aggregate"
_EXCHANGE: Final = "stream-exec-exchange"
_PROPERTIES: Final[dict[str, Property]] = {
    "WindowStart": "start",
    "WindowEnd": "end",
    "Rowtime": "rowtime",
    "Proctime": "proctime",
}
_GROUP_WINDOWS: Final = {
    "TUMBLING": "TumblingWindow",
    "SLIDING": "HoppingWindow",
    "SESSION": "SessionWindow",
}


def identity_nodes(plan: CompiledPlan) -> set[int]:
    """Nodes that hand on the rows of their input, whatever the plan says of their output.

    An epoch is a bundle, so the local phase of a window aggregate has nothing to do: it and the
    exchange behind it pass the rows on, and the global phase aggregates them. Its spec has the
    local node's input as its own, with the key in terms of that: exchange by the spec's key.
    """
    found: set[int] = set()
    for node in plan.nodes:
        if node.type == _GLOBAL:
            below = _input_of(plan, node)
            while below is not None and below.type == _EXCHANGE:
                found.add(below.id)
                below = _input_of(plan, below)
            if below is not None and below.type == _LOCAL:
                found.add(below.id)
    return found


def window_aggregate_spec(at: StatefulNode) -> WindowAggregateSpec:
    """The operator of a window aggregate, or of the global phase of one.

    Raises:
        UnsupportedNode: The window, or a function, is not run.
    """
    first = at.of(_local_of(at)) if at.node.type == _GLOBAL else at
    windowing = first.properties.object("windowing")
    shape = window_shape(first, windowing.object("window"))
    if first is not at:
        own = at.properties.object("windowing").object("window")
        if window_shape(at, own) != shape:
            raise at.refuse("phases of different windows", "windowing", "window")
    return _aggregate(
        at,
        first,
        shape,
        {"zone": _zone(at, windowing), **_time(first, windowing)},
    )


def group_window_aggregate_spec(at: StatefulNode) -> WindowAggregateSpec:
    """The operator of a group window, as GROUP BY TUMBLE(ts, ...) was before table functions.

    Raises:
        UnsupportedNode: It is a window of so many rows, or a function is not run.
    """
    window = at.properties.object("window")
    kind = window.text("kind")
    if kind not in _GROUP_WINDOWS:
        raise at.refuse(f"windows of kind {kind}", "window", "kind")
    # A session is always one of time, and does not say so.
    if kind != "SESSION" and not window.flag("isTimeWindow"):
        raise at.refuse("windows counted in rows", "window", "isTimeWindow")
    field = window.object("timeField")
    if "fieldIndex" not in field.value:
        raise field.fail("fieldIndex", "fieldIndex is missing", "it is required")
    row = at.inputs[0].output_type
    # Flink goes by the name: the index that 1.18 writes may be of another row.
    column = field.named_column("fieldName", row.field_names)
    attribute = row.children[column].time_attribute
    shape = window_shape(at, window, _GROUP_WINDOWS[kind])
    if isinstance(shape, Hopping):
        shape = shape.model_copy(update={"has_panes": True})
    return _aggregate(
        at,
        at,
        shape,
        {
            "zone": _zone(at, field, "fieldType"),
            "time_column": None if attribute == "PROCTIME" else column,
        },
    )


def _aggregate(
    at: StatefulNode,
    first: StatefulNode,
    shape: Shape,
    time: Mapping[str, Any],
) -> WindowAggregateSpec:
    """The aggregates of a node over the input of its first phase."""
    row = first.input(0, first.properties.columns("grouping", first.width()))
    fields: dict[str, Any] = {
        "inputs": (row,),
        "shape": shape,
        "calls": aggregate_calls(
            first, "aggCalls", row.types, first.properties.flag("needRetraction")
        ),
        "properties": _properties(at),
        **time,
        **at.common,
    }
    if not isinstance(shape, Session):
        return SlicedAggregateSpec.build(**fields)
    if fields.get("end_column") is not None:
        raise at.refuse("aggregates of sessions that are attached", "windowing", "strategy")
    return SessionAggregateSpec.build(**fields)


def window_table_function_spec(at: StatefulNode) -> WindowTableSpec:
    """The operator of a window table function.

    Raises:
        UnsupportedNode: The window is not run.
    """
    windowing = at.properties.object("windowing")
    window = windowing.object("window")
    is_session = window.text("type") == "SessionWindow"
    return WindowTableSpec.build(
        # Only sessions are of a partition. The other windows need no key: all rows of one do.
        inputs=(at.partitioned(window, "partition_key_indices", is_optional=not is_session),),
        shape=window_shape(at, window),
        zone=_zone(at, windowing),
        **_time(at, windowing),
        **at.common,
    )


def attached_window(at: StatefulNode, windowing: JsonObject, width: int) -> dict[str, Any]:
    """The fields of a spec for rows of so many columns that come with their windows.

    Raises:
        PlanError: It does not say where their ends are.
        UnsupportedNode: They do not.
    """
    if windowing.text("strategy") != "WindowAttached":
        raise at.refuse("rows without their windows", *_below(at, windowing), "strategy")
    if windowing.has("window"):
        # Whoever needs it reads it again.
        window_shape(at, windowing.object("window"))
    return {
        "zone": _zone(at, windowing),
        "end_column": windowing.column("windowEnd", width),
    }


def _input_of(plan: CompiledPlan, node: ExecNode) -> ExecNode | None:
    inputs = plan.inputs(node.id)
    return inputs[0] if inputs else None


def _local_of(at: StatefulNode) -> ExecNode:
    """The local phase of a global one."""
    below = _input_of(at.plan, at.node)
    while below is not None and below.type == _EXCHANGE:
        below = _input_of(at.plan, below)
    if below is None or below.type != _LOCAL:
        raise at.refuse("the global phase of a window aggregate without its local one")
    return below


def window_shape(at: StatefulNode, window: JsonObject, kind: str | None = None) -> Shape:
    """The window of a plan.

    Args:
        at: The node.
        window: What says it.
        kind: Its type, where another property says that.

    Raises:
        PlanError: It is no window.
        UnsupportedNode: It is not run.

    Source: Flink TumblingWindowSpec and its like.
    """
    match kind or window.text("type"):
        case "TumblingWindow":
            return Tumbling(size_ms=_ms(window, "size"), offset_ms=_offset_ms(window))
        case "HoppingWindow":
            size_ms, slide_ms = _ms(window, "size"), _ms(window, "slide")
            return Hopping(size_ms=size_ms, slide_ms=slide_ms, offset_ms=_offset_ms(window))
        case "CumulativeWindow":
            size_ms, step_ms = _ms(window, "maxSize"), _ms(window, "step")
            if size_ms % step_ms:
                raise at.refuse(
                    "a size that is not a multiple of the step", *_below(at, window), "maxSize"
                )
            return Cumulating(size_ms=size_ms, step_ms=step_ms, offset_ms=_offset_ms(window))
        case "SessionWindow":
            if kind is None:
                window.integers("partition_key_indices")
            return Session(gap_ms=_ms(window, "gap"))
        case other:
            raise at.refuse(f"windows of type {other}", *_below(at, window), "type")


def _ms(window: JsonObject, name: str) -> int:
    """A length of a window."""
    text = window.text(name)
    try:
        found = parse_duration_ms(text)
    except DurationError as error:
        raise window.fail(name, f"the {name} of a window is not a duration: {error}") from error
    if not found:
        raise window.fail(name, f"the {name} of a window must be a millisecond at least")
    return found


def _offset_ms(window: JsonObject) -> int:
    if not window.has("offset"):
        return 0
    text = window.text("offset")
    try:
        # Java writes a minus before each part of a negative duration.
        return parse_duration_ms(text.replace("-", "")) * (-1 if "-" in text else 1)
    except DurationError as error:
        raise window.fail("offset", f"the offset of a window is not a duration: {error}") from error


def _time(at: StatefulNode, windowing: JsonObject) -> dict[str, int | None]:
    """Where a row's window comes from.

    Source: Flink `TimeAttributeWindowingStrategy`, which tells the time by the attribute's type.
    """
    match windowing.text("strategy"):
        case "TimeAttribute":
            column = windowing.column("timeAttributeIndex", at.width())
            attribute = _time_type(windowing, "timeAttributeType").time_attribute
            if attribute is None:
                raise windowing.fail(
                    "timeAttributeType", "the type is not that of a time attribute"
                )
            return {"time_column": column if attribute == "ROWTIME" else None}
        case "WindowAttached":
            return {"end_column": windowing.column("windowEnd", at.width())}
        case other:
            raise at.refuse(f"windowing by {other}", *_below(at, windowing), "strategy")


def _zone(at: StatefulNode, owner: JsonObject, name: str = "timeAttributeType") -> str:
    """Whose local time windows are of: a time that is a TIMESTAMP is local already.

    A node that names no zone takes that of the others, as its expressions do.

    Raises:
        UnsupportedNode: It names none, and the others name several.
    """
    if _time_type(owner, name).root is not TypeRoot.TIMESTAMP_LTZ:
        return "UTC"
    nodes = at.plan.document["nodes"]
    zone = said_zone(at.node.raw) or common_zone(nodes)
    if zone is None and any(map(said_zone, nodes)):
        raise UnsupportedNode(
            "windows depend on the time zone, and the plan's nodes name several",
            hint=f"name one in this node's configuration: {ZONE_OPTION}",
            node_id=at.node.id,
            path=at.node.path,
        )
    return zone or "UTC"


def _time_type(owner: JsonObject, name: str) -> LogicalType:
    return parse_type_json(owner.value.get(name), owner.at(name))


def _below(at: StatefulNode, owner: JsonObject) -> list[str]:
    """The properties that lead from the node to an object of it."""
    return owner.path.removeprefix(f"{at.node.path}/").split("/")


def _properties(at: StatefulNode) -> tuple[Property, ...]:
    """What is told of a window, in order."""
    found: list[Property] = []
    named = at.properties.objects("namedWindowProperties", "a window property")
    for number, each in enumerate(named):
        kind = each.object("property").text("kind")
        if kind not in _PROPERTIES:
            raise at.refuse(f"the window property {kind}", "namedWindowProperties", number)
        found.append(_PROPERTIES[kind])
    return tuple(found)
