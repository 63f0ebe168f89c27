"""Window table functions and their aggregates: stream-exec-window-*, and the two phases of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.spec import InputSpec, RowSpec
from operators.windows.session_aggregate import SessionAggregateSpec
from operators.windows.shapes import Cumulating, Hopping, Session, Tumbling
from operators.windows.window_aggregate import SlicedAggregateSpec
from operators.windows.window_table_function import WindowTableSpec
from service.plan.durations import parse_duration_ms
from service.plan.errors import DurationError
from service.plan.type_json import parse_type_json
from service.runtime.specs.aggregate_calls import aggregate_calls
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from operators.windows.spec import Property, WindowAggregateSpec
    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.runtime.specs import StatefulNode

_LOCAL: Final = "stream-exec-local-window-aggregate"
_GLOBAL: Final = "stream-exec-global-window-aggregate"
_EXCHANGE: Final = "stream-exec-exchange"
_PROPERTIES: Final[dict[str, Property]] = {
    "WindowStart": "start",
    "WindowEnd": "end",
    "Rowtime": "rowtime",
    "Proctime": "proctime",
}
_ZONE: Final = "table.local-time-zone"
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
    first = _local_of(at) if at.node.type == _GLOBAL else at.node
    windowing = first.raw["windowing"]
    return _aggregate(
        at,
        first,
        _shape(at, windowing["window"]),
        {"zone": _zone(at, windowing), **_time(at, windowing)},
    )


def group_window_aggregate_spec(at: StatefulNode) -> WindowAggregateSpec:
    """The operator of a group window, as GROUP BY TUMBLE(ts, ...) was before table functions.

    Raises:
        UnsupportedNode: It is a window of so many rows, or a function is not run.
    """
    window = at.node.raw["window"]
    kind = str(window.get("kind"))
    if kind not in _GROUP_WINDOWS:
        raise at.refuse(f"windows of kind {kind}", "window", "kind")
    # A session is always one of time, and does not say so.
    if kind != "SESSION" and not window.get("isTimeWindow"):
        raise at.refuse("windows of so many rows", "window", "isTimeWindow")
    field = window["timeField"]
    column = int(field["fieldIndex"])
    attribute = at.inputs[0].output_type.children[column].time_attribute
    shape = _shape(at, {**window, "type": _GROUP_WINDOWS[kind]})
    if isinstance(shape, Hopping):
        shape = shape.model_copy(update={"has_panes": True})
    return _aggregate(
        at,
        at.node,
        shape,
        {
            "zone": _zone(at, {"timeAttributeType": field["fieldType"]}),
            "time_column": None if attribute == "PROCTIME" else column,
        },
    )


def _aggregate(
    at: StatefulNode,
    first: ExecNode,
    shape: Tumbling | Hopping | Cumulating | Session,
    time: Mapping[str, Any],
) -> WindowAggregateSpec:
    """The aggregates of a node over the input of its first phase."""
    [source] = at.plan.inputs(first.id)
    row = RowSpec.of(source.output_type)
    fields: dict[str, Any] = {
        "inputs": (InputSpec(types=row.types, names=row.names, key=tuple(first.raw["grouping"])),),
        "shape": shape,
        "calls": aggregate_calls(
            at.of(first), "aggCalls", row.types, bool(first.raw.get("needRetraction"))
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
    windowing = at.node.raw["windowing"]
    window = windowing["window"]
    return WindowTableSpec.build(
        inputs=(at.input(0, _partition(at, window)),),
        shape=_shape(at, window),
        zone=_zone(at, windowing),
        **_time(at, windowing),
        **at.common,
    )


def attached_window(at: StatefulNode, windowing: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a spec for rows that come with their windows.

    Raises:
        UnsupportedNode: They do not, or the window is not run.
    """
    fields: dict[str, Any] = {
        "shape": _shape(at, windowing["window"]),
        "zone": _zone(at, windowing),
        **_time(at, windowing),
    }
    if "end_column" not in fields:
        raise at.refuse("rows without their windows", "windowing", "strategy")
    return fields


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


def _partition(at: StatefulNode, window: Mapping[str, Any]) -> Sequence[int]:
    """What sessions are of. The other windows need no key: all rows of one do."""
    found: Sequence[int] = window.get("partition_key_indices") or ()
    return found


def _shape(
    at: StatefulNode, window: Mapping[str, Any]
) -> Tumbling | Hopping | Cumulating | Session:
    """The window of a plan.

    Source: Flink TumblingWindowSpec and its like.
    """

    def ms(name: str) -> int:
        try:
            return parse_duration_ms(str(window[name]))
        except (KeyError, DurationError) as error:
            raise at.refuse(f"a window without its {name}", "windowing", "window") from error

    offset = str(window.get("offset") or "0 ms")
    # Java writes a minus before each part of a negative duration.
    offset_ms = parse_duration_ms(offset.replace("-", "")) * (-1 if "-" in offset else 1)
    match window.get("type"):
        case "TumblingWindow":
            return Tumbling(size_ms=ms("size"), offset_ms=offset_ms)
        case "HoppingWindow":
            return Hopping(size_ms=ms("size"), slide_ms=ms("slide"), offset_ms=offset_ms)
        case "CumulativeWindow":
            size_ms, step_ms = ms("maxSize"), ms("step")
            if size_ms % step_ms:
                raise at.refuse("a size that is no multiple of the step", "windowing", "window")
            return Cumulating(size_ms=size_ms, step_ms=step_ms, offset_ms=offset_ms)
        case "SessionWindow":
            return Session(gap_ms=ms("gap"))
        case other:
            raise at.refuse(f"windows of type {other}", "windowing", "window", "type")


def _time(at: StatefulNode, windowing: Mapping[str, Any]) -> dict[str, int | None]:
    """Where a row's window comes from."""
    match windowing.get("strategy"):
        case "TimeAttribute":
            column = int(windowing["timeAttributeIndex"])
            return {"time_column": column if windowing["isRowtime"] else None}
        case "WindowAttached":
            return {"end_column": int(windowing["windowEnd"])}
        case other:
            raise at.refuse(f"windowing by {other}", "windowing", "strategy")


def _zone(at: StatefulNode, windowing: Mapping[str, Any]) -> str:
    """Whose local time windows are of: a time that is a TIMESTAMP is local already."""
    path = f"{at.node.path}/windowing/timeAttributeType"
    is_point = parse_type_json(windowing["timeAttributeType"], path).root is TypeRoot.TIMESTAMP_LTZ
    return at.option(_ZONE) or "UTC" if is_point else "UTC"


def _properties(at: StatefulNode) -> tuple[Property, ...]:
    """What is told of a window, in order."""
    found: list[Property] = []
    for number, each in enumerate(at.node.raw.get("namedWindowProperties") or ()):
        kind = str(each["property"]["kind"])
        if kind not in _PROPERTIES:
            raise at.refuse(f"the window property {kind}", "namedWindowProperties", number)
        found.append(_PROPERTIES[kind])
    return tuple(found)
