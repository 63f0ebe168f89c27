"""The properties of each kind of node, as a plan writes them.

Source: the `ExecNode` classes of Flink 2.3, in the order of their constructors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.plan.durations import format_duration_ms, parse_duration_ms
from service.sql.options import (
    DEDUPLICATE_OPTIONS,
    MINI_BATCH_OPTIONS,
    RANK_OPTIONS,
    SINK_OPTIONS,
    WINDOW_OPTIONS,
)
from service.sql.physical import nodes
from service.sql.physical.keys import listed, smallest, unfiltered_keys, upsert_keys
from service.sql.physical.monotonicity import retractions
from service.sql.physical.ranks import is_deduplicate, is_rowtime, keeps_last
from service.sql.physical.schema_json import table_to_json
from service.sql.rex import TRUE, conjunction, conjuncts
from service.sql.to_json import rex_list, rex_to_json, row_to_json, type_to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.sql.algebra import AggregateCall, Ordering, Row, WindowSpec
    from service.sql.options import Options
    from service.sql.physical.nodes import Node
    from service.sql.rex import FrameBound, OverCall
    from state.types import LogicalType

STAR_FUNCTIONS = ("COUNT",)


def properties(node: Node, options: Options) -> tuple[str, dict[str, Any]]:
    """The type of a node, and the properties of that type."""
    spec = node.spec
    match spec:
        case nodes.ScanSpec():
            table = table_to_json(spec.table, _catalog_objects(options))
            return "table-source-scan_2", {"scanTableSource": {"table": table}}
        case nodes.ValuesSpec():
            return "values_1", {"tuples": [rex_list(row) for row in spec.rows]}
        case nodes.CalcSpec():
            condition = None if spec.condition is None else rex_to_json(spec.condition)
            return "calc_1", {"projection": rex_list(spec.projection), "condition": condition}
        case nodes.ExchangeSpec():
            return "exchange_1", {}
        case nodes.UnionSpec():
            return "union_1", {}
        case nodes.DropUpdateBeforeSpec():
            return "drop-update-before_1", {}
        case nodes.ExpandSpec():
            return "expand_1", {"projects": [rex_list(row) for row in spec.projects]}
        case nodes.WatermarkSpec():
            expression = rex_to_json(spec.expression)
            return "watermark-assigner_1", {
                "watermarkExpr": expression,
                "rowtimeFieldIndex": spec.column,
            }
        case nodes.MiniBatchSpec():
            interval = {"interval": spec.interval_ms, "mode": spec.mode}
            return "mini-batch-assigner_1", {"miniBatchInterval": interval}
        case _:
            return _stateful(node, options)


def _stateful(node: Node, options: Options) -> tuple[str, dict[str, Any]]:
    spec = node.spec
    match spec:
        case nodes.NormalizeSpec():
            return _normalize(node, spec, options)
        case nodes.AggregateSpec() | nodes.LocalAggregateSpec() | nodes.GlobalAggregateSpec():
            return _aggregate(node, options)
        case nodes.IncrementalAggregateSpec():
            return _incremental(spec, options)
        case nodes.RankSpec():
            return _rank(node, spec, options)
        case nodes.JoinSpec():
            return _join(node, spec, options)
        case nodes.IntervalJoinSpec():
            return _interval_join(spec)
        case nodes.TemporalJoinSpec():
            return _temporal_join(spec)
        case nodes.LookupJoinSpec():
            return _lookup_join(node, spec, options)
        case nodes.MultiJoinSpec():
            return _multi_join(node, spec, options)
        case nodes.OverSpec():
            return _over(node, spec)
        case nodes.WindowTableSpec():
            windowing = _windowing(spec.window, node.inputs[0].row)
            configuration = options.configuration(WINDOW_OPTIONS)
            return "window-table-function_1", {
                "configuration": configuration,
                "windowing": windowing,
            }
        case nodes.WindowRankSpec() | nodes.WindowDeduplicateSpec() | nodes.WindowJoinSpec():
            return _attached(spec, options)
        case nodes.WindowAggregateSpec():
            return _window_aggregate(spec, options)
        case nodes.TemporalSortSpec():
            return "temporal-sort_1", {"orderBy": _order(spec.order)}
        case nodes.SinkSpec():
            return _sink(node, spec, options)
        case _:
            raise AssertionError(f"no type of node for {type(spec).__name__}")


def states(
    names: Sequence[str], ttls: Iterable[str | None], options: Options
) -> list[dict[str, Any]]:
    """State entries: the hint's time to live, or the session's."""
    made = []
    for index, (name, ttl) in enumerate(zip(names, ttls, strict=True)):
        shown = options.state_ttl if ttl is None else format_duration_ms(parse_duration_ms(ttl))
        made.append({"index": index, "ttl": shown, "name": name})
    return made


def _normalize(
    node: Node, spec: nodes.NormalizeSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    made = {
        "configuration": options.configuration(MINI_BATCH_OPTIONS),
        "uniqueKeys": list(spec.keys),
        "generateUpdateBefore": node.changes.updates == "BOTH",
        "state": states(["changelogNormalizeState"], [None], options),
    }
    if spec.condition is not None:
        made["filterCondition"] = rex_to_json(spec.condition)
    return "changelog-normalize_1", made


def _aggregate(node: Node, options: Options) -> tuple[str, dict[str, Any]]:
    spec = node.spec
    made: dict[str, Any] = {"configuration": options.configuration(MINI_BATCH_OPTIONS)}
    if isinstance(spec, nodes.AggregateSpec):
        retracts = not node.input.changes.is_insert_only
        made |= _calls(spec.grouping, spec.calls, retractions(node, spec))
        made |= {
            "generateUpdateBefore": node.changes.updates == "BOTH",
            "needRetraction": retracts,
            "state": states(["groupAggregateState"], [spec.ttl], options),
        }
        return "group-aggregate_1", made
    if isinstance(spec, nodes.LocalAggregateSpec):
        made |= _calls(spec.grouping, spec.calls, spec.call_retracts)
        return "local-group-aggregate_1", made | {"needRetraction": spec.retracts}
    assert isinstance(spec, nodes.GlobalAggregateSpec), "the caller lets nothing else through"
    made |= _calls(spec.grouping, spec.calls, spec.call_retracts)
    made |= {
        "localAggInputRowType": row_to_json(spec.local_input),
        "generateUpdateBefore": node.changes.updates == "BOTH",
        "needRetraction": spec.retracts,
    }
    if spec.count_star is not None:
        made["indexOfCountStar"] = spec.count_star
    made["state"] = states(["globalGroupAggregateState"], [spec.ttl], options)
    return "global-group-aggregate_1", made


def _calls(
    grouping: tuple[int, ...], calls: Sequence[AggregateCall], retracts: tuple[bool, ...]
) -> dict[str, Any]:
    return {
        "grouping": list(grouping),
        "aggCalls": [_call(each) for each in calls],
        "aggCallNeedRetractions": list(retracts),
    }


def _call(call: AggregateCall) -> dict[str, Any]:
    return _function(call.name, call.function, call.arguments, call.type) | {
        "filterArg": -1 if call.filter is None else call.filter,
        "distinct": call.is_distinct,
        "approximate": False,
        "ignoreNulls": False,
        "type": type_to_json(call.type),
    }


def _function(
    name: str | None, function: str, arguments: Sequence[int], logical: LogicalType
) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name}
    if function in STAR_FUNCTIONS:
        made["syntax"] = "FUNCTION_STAR"
    del logical
    return made | {"internalName": f"${function}$1", "argList": list(arguments)}


def _incremental(
    spec: nodes.IncrementalAggregateSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    return "incremental-group-aggregate_1", {
        "configuration": options.configuration(MINI_BATCH_OPTIONS),
        "partialAggGrouping": list(spec.partial_grouping),
        "finalAggGrouping": list(spec.final_grouping),
        "partialOriginalAggCalls": [_call(each) for each in spec.calls],
        "partialAggCallNeedRetractions": [spec.retracts for _ in spec.calls],
        "partialLocalAggInputRowType": row_to_json(spec.local_input),
        "partialAggNeedRetraction": spec.retracts,
        "state": states(["incrementalGroupAggregateState"], [spec.ttl], options),
    }


def _rank(node: Node, spec: nodes.RankSpec, options: Options) -> tuple[str, dict[str, Any]]:
    if is_deduplicate(node, spec):
        return "deduplicate_1", {
            "configuration": options.configuration(DEDUPLICATE_OPTIONS),
            "uniqueKeys": list(spec.partition),
            "isRowtime": is_rowtime(node, spec),
            "keepLastRow": keeps_last(spec),
            "outputInsertOnly": node.changes.is_insert_only,
            "generateUpdateBefore": node.changes.updates == "BOTH",
            "state": states(["deduplicateState"], [None], options),
        }
    made = {
        "configuration": options.configuration(RANK_OPTIONS),
        "rankType": "ROW_NUMBER",
        "partition": {"fields": list(spec.partition)},
        "orderBy": _order(spec.order),
        "rankRange": _range(spec),
        "rankStrategy": _strategy(spec),
        "outputRowNumber": spec.has_number,
        "generateUpdateBefore": node.changes.updates == "BOTH",
        "state": states(["rankState"], [None], options),
    }
    return f"{spec.kind}_1", made


def _range(spec: nodes.RankSpec) -> dict[str, Any]:
    if spec.range.end_column is not None:
        return {"type": "Variable", "endIndex": spec.range.end_column}
    return {"type": "Constant", "start": spec.range.start, "end": spec.range.end}


def _strategy(spec: nodes.RankSpec) -> dict[str, Any]:
    made: dict[str, Any] = {"type": spec.strategy}
    return made | {"primaryKeys": list(spec.strategy_keys)} if spec.strategy_keys else made


def _order(order: Sequence[Ordering]) -> dict[str, Any]:
    return {
        "fields": [
            {"index": key.column, "isAscending": key.is_ascending, "nullIsLast": key.nulls_last}
            for key in order
        ]
    }


def _join(node: Node, spec: nodes.JoinSpec, options: Options) -> tuple[str, dict[str, Any]]:
    made: dict[str, Any] = {"joinSpec": _join_spec(spec.keys)}
    for name, side in zip(("leftUpsertKeys", "rightUpsertKeys"), node.inputs, strict=True):
        keys = listed(unfiltered_keys(side))
        if keys:
            made[name] = keys
    made["state"] = states(["leftState", "rightState"], spec.ttl, options)
    return "join_1", made


def _join_spec(keys: nodes.JoinKeys) -> dict[str, Any]:
    return {
        "joinType": keys.kind,
        "leftKeys": list(keys.left),
        "rightKeys": list(keys.right),
        "filterNulls": list(keys.filter_nulls),
        "nonEquiCondition": None if keys.rest is None else rex_to_json(keys.rest),
    }


def _interval_join(spec: nodes.IntervalJoinSpec) -> tuple[str, dict[str, Any]]:
    bounds = spec.bounds
    window = {
        "isEventTime": bounds.is_event_time,
        "leftLowerBound": bounds.lower_ms,
        "leftUpperBound": bounds.upper_ms,
        "leftTimeIndex": bounds.left_column,
        "rightTimeIndex": bounds.right_column,
    }
    made = {"joinSpec": _join_spec(spec.keys), "windowBounds": window}
    return "interval-join_1", {"intervalJoinSpec": made}


def _temporal_join(spec: nodes.TemporalJoinSpec) -> tuple[str, dict[str, Any]]:
    return "temporal-join_1", {
        "joinSpec": _join_spec(spec.keys),
        "isTemporalFunctionJoin": False,
        "leftTimeAttributeIndex": spec.left_time,
        "rightTimeAttributeIndex": spec.right_time,
    }


def _lookup_join(
    node: Node, spec: nodes.LookupJoinSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    source = {"table": table_to_json(spec.table, _catalog_objects(options))}
    projection = None if spec.projection is None else rex_list(spec.projection)
    pre_filter = {}
    if spec.pre_filter is not None:
        pre_filter["preFilterCondition"] = rex_to_json(spec.pre_filter)
    made: dict[str, Any] = {
        "joinType": spec.kind,
        **pre_filter,
        "joinCondition": None if spec.condition is None else rex_to_json(spec.condition),
        "temporalTable": {
            "lookupTableSource": source,
            "outputType": row_to_json(spec.table_row, nullable=False),
        },
        "lookupKeys": {str(column): _lookup_key(by) for column, by in spec.lookup_keys},
        "projectionOnTemporalTable": projection,
        "filterOnTemporalTable": None if spec.filter is None else rex_to_json(spec.filter),
        "lookupKeyContainsPrimaryKey": spec.contains_primary_key,
    }
    if spec.materializes:
        made["requireUpsertMaterialize"] = True
    made["inputChangelogMode"] = node.input.changes.names
    key = smallest(upsert_keys(node.input))
    if key is not None and not node.input.changes.is_insert_only:
        made["inputUpsertKey"] = list(key)
    if spec.materializes:
        made["state"] = states(["lookupJoinState"], [None], options)
    return "lookup-join_1", made | {"preferCustomShuffle": False}


def _lookup_key(by: Any) -> dict[str, Any]:
    if isinstance(by, int):
        return {"type": "FieldRef", "index": by}
    literal = rex_to_json(by)
    nullable = by.type.with_nullable(True)
    return {"type": "Constant", "sourceType": type_to_json(nullable), "literal": literal}


def _multi_join(
    node: Node, spec: nodes.MultiJoinSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    whole = conjunction([part for each in spec.conditions for part in conjuncts(each)])
    attributes = {
        str(index): [
            {
                "leftInputId": pair[0],
                "leftFieldIndex": pair[1],
                "rightInputId": pair[2],
                "rightFieldIndex": pair[3],
            }
            for pair in pairs
        ]
        for index, pairs in enumerate(spec.attributes)
    }
    names = [f"input-state-{index}" for index in range(len(spec.kinds))]
    return "multi-join_1", {
        "joinTypes": list(spec.kinds),
        "joinConditions": rex_list(spec.conditions),
        "multiJoinCondition": rex_to_json(whole or TRUE),
        "joinAttributeMap": attributes,
        "inputUniqueKeys": [listed(unfiltered_keys(each)) for each in node.inputs],
        "state": states(names, spec.ttl, options),
    }


def _over(node: Node, spec: nodes.OverSpec) -> tuple[str, dict[str, Any]]:
    width = len(node.inputs[0].row)
    constants = list(
        dict.fromkeys(
            bound.offset
            for bound in (spec.frame.lower, spec.frame.upper)
            if bound.offset is not None
        )
    )
    group = {
        "orderBy": _order(spec.order),
        "isRows": spec.frame.is_rows,
        "lowerBound": _bound(spec.frame.lower, constants, width),
        "upperBound": _bound(spec.frame.upper, constants, width),
        "aggCalls": [
            _over_call(f"w0$o{position}", call) for position, call in enumerate(spec.calls)
        ],
    }
    return "over-aggregate_1", {
        "overSpec": {
            "partition": {"fields": list(spec.partition)},
            "groups": [group],
            "constants": rex_list(constants),
            "originalInputFields": width,
        },
        "unboundedOverVersion": 2,
    }


def _bound(bound: FrameBound, constants: Sequence[Any], width: int) -> dict[str, Any]:
    if bound.kind == "CURRENT_ROW":
        return {"kind": "CURRENT_ROW"}
    if bound.kind == "UNBOUNDED":
        return {"kind": "UNBOUNDED_PRECEDING" if bound.is_preceding else "UNBOUNDED_FOLLOWING"}
    assert bound.offset is not None, "a bound of rows or time has an offset"
    offset = {
        "kind": "INPUT_REF",
        "inputIndex": width + constants.index(bound.offset),
        "type": type_to_json(bound.offset.type),
    }
    return {"kind": "BOUNDED_WINDOW", "isPreceding": bound.is_preceding, "offset": offset}


def _over_call(name: str, call: OverCall) -> dict[str, Any]:
    arguments = [operand.index for operand in call.operands]  # type: ignore[union-attr]
    return _function(name, call.name, arguments, call.type) | {
        "filterArg": -1,
        "distinct": call.is_distinct,
        "approximate": False,
        "ignoreNulls": False,
        "type": type_to_json(call.type),
    }


def _window_aggregate(
    spec: nodes.WindowAggregateSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    windowing = _windowing(spec.window, spec.input_row)
    if spec.phase == "global":
        del windowing["timeAttributeIndex"], windowing["isRowtime"]
        windowing |= {"strategy": "SliceAttached", "sliceEnd": spec.slice_column, "isRowtime": True}
    made: dict[str, Any] = {
        "configuration": options.configuration(WINDOW_OPTIONS),
        "grouping": list(spec.grouping),
        "aggCalls": [_call(each) for each in spec.calls],
        "windowing": windowing,
    }
    if spec.phase != "local":
        made["namedWindowProperties"] = [_window_property(name, spec) for name in spec.properties]
    made["needRetraction"] = spec.retracts
    if spec.phase == "global":
        made["localAggInputRowType"] = row_to_json(spec.input_row)
    prefix = "" if spec.phase == "single" else f"{spec.phase}-"
    return f"{prefix}window-aggregate_1", made


def _window_property(name: str, spec: nodes.WindowAggregateSpec) -> dict[str, Any]:
    kinds = {
        "window_start": "WindowStart",
        "window_end": "WindowEnd",
        "window_time": "Rowtime",
    }
    logical = spec.input_row.types[spec.window.time_column]
    reference = {"name": "w$", "type": type_to_json(logical)}
    return {"name": name, "property": {"kind": kinds[name], "reference": reference}}


def _attached(
    spec: nodes.WindowRankSpec | nodes.WindowDeduplicateSpec | nodes.WindowJoinSpec,
    options: Options,
) -> tuple[str, dict[str, Any]]:
    """Nodes whose rows carry their window."""
    made: dict[str, Any] = {"configuration": options.configuration(WINDOW_OPTIONS)}
    match spec:
        case nodes.WindowRankSpec():
            return "window-rank_1", made | {
                "rankType": "ROW_NUMBER",
                "partitionSpec": {"fields": list(spec.partition)},
                "sortSpec": _order(spec.order),
                "rankRange": {
                    "type": "Constant",
                    "start": spec.range.start,
                    "end": spec.range.end,
                },
                "outputRowNumber": spec.has_number,
                "windowing": _edges(spec.window),
            }
        case nodes.WindowDeduplicateSpec():
            return "window-deduplicate_1", made | {
                "partitionKeys": list(spec.partition),
                "orderKey": spec.order_column,
                "keepLastRow": spec.keeps_last,
                "windowing": _edges(spec.window),
            }
        case nodes.WindowJoinSpec():
            left, right = spec.windows
            return "window-join_1", made | {
                "joinSpec": _join_spec(spec.keys),
                "leftWindowing": _edges(left),
                "rightWindowing": _edges(right),
            }


def _edges(window: nodes.AttachedWindow) -> dict[str, Any]:
    return {
        "strategy": "WindowAttached",
        "window": _window(window.window),
        "timeAttributeType": type_to_json(window.time),
        "windowStart": window.start,
        "windowEnd": window.end,
        "isRowtime": window.time.time_attribute == "ROWTIME",
    }


def _windowing(window: WindowSpec, row: Row) -> dict[str, Any]:
    logical = row.types[window.time_column]
    return {
        "strategy": "TimeAttribute",
        "window": _window(window),
        "timeAttributeType": type_to_json(logical),
        "timeAttributeIndex": window.time_column,
        "isRowtime": logical.time_attribute == "ROWTIME",
    }


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


def _sink(node: Node, spec: nodes.SinkSpec, options: Options) -> tuple[str, dict[str, Any]]:
    sink: dict[str, Any] = {"table": table_to_json(spec.table, _catalog_objects(options))}
    if spec.target_columns is not None:
        sink["targetColumns"] = [[column] for column in spec.target_columns]
    made: dict[str, Any] = {
        "configuration": options.configuration(SINK_OPTIONS),
        "dynamicTableSink": sink,
        "inputChangelogMode": node.input.changes.names,
    }
    if spec.materializes:
        made["requireUpsertMaterialize"] = True
        strategy = options.text("table.exec.sink.upsert-materialize-strategy.type", "LEGACY")
        if strategy != "LEGACY":
            made["upsertMaterializeStrategy"] = strategy
        made["state"] = states(["sinkMaterializeState"], [None], options)
    key = smallest(upsert_keys(node.input))
    if key:
        made["inputUpsertKey"] = list(key)
    if spec.conflict is not None:
        made["conflictStrategy"] = {"behavior": spec.conflict}
    return "sink_2", made


def _catalog_objects(options: Options) -> str:
    return options.text("table.plan.compile.catalog-objects", "ALL")
