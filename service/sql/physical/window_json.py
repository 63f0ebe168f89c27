"""What a plan writes of windows of time.

Source: the `ExecNode` classes of Flink 2.3, in the order of their constructors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.sql.options import WINDOW_OPTIONS
from service.sql.physical.aggregate_json import call_to_json
from service.sql.to_json import row_to_json, type_to_json

if TYPE_CHECKING:
    from service.sql.options import Options
    from service.sql.physical import nodes
    from service.sql.terms import Row, WindowSpec


def window_aggregate_json(
    spec: nodes.WindowAggregateSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    """A GROUP BY of windows, or its local or global phase."""
    windowing = windowing_json(spec.window, spec.input_row)
    if spec.phase == "global":
        del windowing["timeAttributeIndex"], windowing["isRowtime"]
        windowing |= {"strategy": "SliceAttached", "sliceEnd": spec.slice_column, "isRowtime": True}
    made: dict[str, Any] = {
        "configuration": options.configuration(WINDOW_OPTIONS),
        "grouping": list(spec.grouping),
        "aggCalls": [call_to_json(each) for each in spec.calls],
        "windowing": windowing,
    }
    if spec.phase != "local":
        made["namedWindowProperties"] = [_window_property(name, spec) for name in spec.properties]
    made["needRetraction"] = spec.retracts
    if spec.phase == "global":
        made["localAggInputRowType"] = row_to_json(spec.input_row)
    prefix = "" if spec.phase == "single" else f"{spec.phase}-"
    return f"{prefix}window-aggregate_1", made


def windowing_json(window: WindowSpec, row: Row) -> dict[str, Any]:
    """How a window cuts time, and the column of that time."""
    logical = row.types[window.time_column]
    return {
        "strategy": "TimeAttribute",
        "window": _window(window),
        "timeAttributeType": type_to_json(logical),
        "timeAttributeIndex": window.time_column,
        "isRowtime": logical.time_attribute == "ROWTIME",
    }


def iso_duration(ms: int) -> str:
    """A duration as Java writes it.

    >>> iso_duration(10_000), iso_duration(5_400_000), iso_duration(1_500)
    ('PT10S', 'PT1H30M', 'PT1.5S')
    """
    hours, rest = divmod(ms, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    text = "PT" + (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    if rest or text == "PT":
        seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
        text += f"{seconds}S"
    return text


def _window_property(name: str, spec: nodes.WindowAggregateSpec) -> dict[str, Any]:
    kinds = {
        "window_start": "WindowStart",
        "window_end": "WindowEnd",
        "window_time": "Rowtime",
    }
    logical = spec.input_row.types[spec.window.time_column]
    reference = {"name": "w$", "type": type_to_json(logical)}
    return {"name": name, "property": {"kind": kinds[name], "reference": reference}}


def _window(window: WindowSpec) -> dict[str, Any]:
    offset = {} if window.offset_ms is None else {"offset": iso_duration(window.offset_ms)}
    size = iso_duration(window.size_ms)
    match window.kind:
        case "TUMBLE":
            return {"type": "TumblingWindow", "size": size} | offset
        case "HOP":
            step = iso_duration(window.step_ms or 0)
            return {"type": "HoppingWindow", "size": size, "slide": step} | offset
        case "CUMULATE":
            step = iso_duration(window.step_ms or 0)
            return {"type": "CumulativeWindow", "maxSize": size, "step": step} | offset
        case "SESSION":
            keys = {"partition_key_indices": list(window.partition)} if window.partition else {}
            return {"type": "SessionWindow", "gap": size} | keys
