"""What a plan writes of windows of time.

Source: the `ExecNode` classes of Flink 2.3, in the order of their constructors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.sql.options import MINI_BATCH_OPTIONS, WINDOW_OPTIONS
from service.sql.physical.aggregate_json import call_to_json
from service.sql.physical.join_json import join_spec_json
from service.sql.to_json import order_to_json, row_to_json, type_to_json

if TYPE_CHECKING:
    from service.sql.options import Options
    from service.sql.physical.nodes import Node
    from service.sql.physical.window_specs import (
        AttachedWindow,
        GroupWindowsSpec,
        WindowAggregateSpec,
        WindowDeduplicateSpec,
        WindowJoinSpec,
        WindowRankSpec,
    )
    from service.sql.terms import Row, WindowSpec


_GROUP_WINDOWS = {"TUMBLE": "TUMBLING", "HOP": "SLIDING", "SESSION": "SESSION"}
_PROPERTY_KINDS = {
    "window_start": "WindowStart",
    "window_end": "WindowEnd",
    "window_time": "Rowtime",
    "w$start": "WindowStart",
    "w$end": "WindowEnd",
    "w$rowtime": "Rowtime",
    "w$proctime": "Proctime",
}


def window_aggregate_json(
    spec: WindowAggregateSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    """A GROUP BY of windows, or its local or global phase."""
    if spec.attached is not None:
        windowing = attached_json(spec.attached)
    else:
        windowing = windowing_json(spec.window, spec.input_row)
    if spec.phase == "global" and spec.attached is None:
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


def attached_json(attached: AttachedWindow) -> dict[str, Any]:
    """Windows that rows come with."""
    return {
        "strategy": "WindowAttached",
        "window": _window(attached.window),
        "timeAttributeType": type_to_json(attached.time),
        "windowStart": attached.start,
        "windowEnd": attached.end,
        "isRowtime": attached.time.time_attribute == "ROWTIME",
    }


def window_rank_json(spec: WindowRankSpec, options: Options) -> tuple[str, dict[str, Any]]:
    """The first rows of each window."""
    return "window-rank_1", {
        "configuration": options.configuration(WINDOW_OPTIONS),
        "rankType": "ROW_NUMBER",
        "partitionSpec": {"fields": list(spec.partition)},
        "sortSpec": order_to_json(spec.order),
        "rankRange": {"type": "Constant", "start": spec.range.start, "end": spec.range.end},
        "outputRowNumber": spec.has_number,
        "windowing": attached_json(spec.attached),
    }


def window_deduplicate_json(
    spec: WindowDeduplicateSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    """The first or last row of each window."""
    return "window-deduplicate_1", {
        "configuration": options.configuration(WINDOW_OPTIONS),
        "partitionKeys": list(spec.partition),
        "orderKey": spec.time_column,
        "keepLastRow": spec.keeps_last,
        "windowing": attached_json(spec.attached),
    }


def window_join_json(spec: WindowJoinSpec, options: Options) -> tuple[str, dict[str, Any]]:
    """A join of rows of the same window."""
    return "window-join_1", {
        "configuration": options.configuration(WINDOW_OPTIONS),
        "joinSpec": join_spec_json(spec.keys),
        "leftWindowing": attached_json(spec.left),
        "rightWindowing": attached_json(spec.right),
    }


def group_windows_json(
    node: Node, spec: GroupWindowsSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    """A GROUP BY TUMBLE(ts, ..) and its like."""
    time = type_to_json(spec.time)
    cut = _window(spec.window)
    del cut["type"]
    cut.pop("partition_key_indices", None)
    window: dict[str, Any] = {
        "kind": _GROUP_WINDOWS[spec.window.kind],
        "alias": {"name": "w$", "type": time},
        "timeField": {
            "fieldName": spec.time_name,
            "fieldIndex": spec.window.time_column,
            "inputIndex": 0,
            "fieldType": time,
        },
    }
    if spec.window.kind != "SESSION":
        window["isTimeWindow"] = True
    return "group-window-aggregate_1", {
        "configuration": options.configuration(MINI_BATCH_OPTIONS | WINDOW_OPTIONS),
        "grouping": list(spec.grouping),
        "aggCalls": [call_to_json(each) for each in spec.calls],
        "window": window | cut,
        "namedWindowProperties": [
            {
                "name": name,
                "property": {
                    "kind": _PROPERTY_KINDS[name],
                    "reference": {"name": "w$", "type": time},
                },
            }
            for name in spec.properties
        ],
        "needRetraction": not node.input.changes.is_insert_only,
    }


def iso_duration(ms: int) -> str:
    """A duration as Java writes it.

    >>> iso_duration(10_000), iso_duration(5_400_000), iso_duration(1_500), iso_duration(-3_000)
    ('PT10S', 'PT1H30M', 'PT1.5S', 'PT-3S')
    """
    sign = "-" if ms < 0 else ""
    hours, rest = divmod(abs(ms), 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    text = "PT" + (f"{sign}{hours}H" if hours else "") + (f"{sign}{minutes}M" if minutes else "")
    if rest or text == "PT":
        seconds = f"{rest / 1000:.3f}".rstrip("0").rstrip(".")
        text += f"{sign}{seconds}S"
    return text


def _window_property(name: str, spec: WindowAggregateSpec) -> dict[str, Any]:
    reference = {"name": "w$", "type": type_to_json(spec.time)}
    return {"name": name, "property": {"kind": _PROPERTY_KINDS[name], "reference": reference}}


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
            keys = list(window.partition)
            return {"type": "SessionWindow", "gap": size, "partition_key_indices": keys}
