"""The properties of each kind of node, as a plan writes them.

Source: the `ExecNode` classes of Flink 2.3, in the order of their constructors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.sql.options import (
    DEDUPLICATE_OPTIONS,
    MINI_BATCH_OPTIONS,
    RANK_OPTIONS,
    SINK_OPTIONS,
    WINDOW_OPTIONS,
)
from service.sql.physical import nodes
from service.sql.physical.aggregate_json import aggregate_json, incremental_json, over_json
from service.sql.physical.correlate import correlate_json
from service.sql.physical.join_json import (
    interval_join_json,
    join_json,
    lookup_join_json,
    multi_join_json,
    temporal_join_json,
)
from service.sql.physical.keys import smallest, upsert_keys
from service.sql.physical.ranks import is_deduplicate, is_rowtime, keeps_last
from service.sql.physical.schema_json import (
    abilities_to_json,
    sink_abilities_to_json,
    table_to_json,
)
from service.sql.physical.window_json import (
    group_windows_json,
    window_aggregate_json,
    window_deduplicate_json,
    window_join_json,
    window_rank_json,
    windowing_json,
)
from service.sql.physical.window_specs import (
    GroupWindowsSpec,
    WindowAggregateSpec,
    WindowDeduplicateSpec,
    WindowJoinSpec,
    WindowRankSpec,
    WindowTableSpec,
)
from service.sql.to_json import order_to_json, rex_list, rex_to_json

if TYPE_CHECKING:
    from service.sql.options import Options
    from service.sql.physical.nodes import Node


def properties(node: Node, options: Options) -> tuple[str, dict[str, Any]]:
    """The type of a node, and the properties of that type."""
    spec = node.spec
    match spec:
        case nodes.ScanSpec():
            table = table_to_json(spec.table, options.catalog_objects)
            abilities = abilities_to_json(spec.table, node.row)
            return "table-source-scan_2", {"scanTableSource": {"table": table, **abilities}}
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
        case nodes.CorrelateSpec():
            return "correlate_1", correlate_json(spec)
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
            return aggregate_json(node, options)
        case nodes.IncrementalAggregateSpec():
            return incremental_json(spec, options)
        case nodes.RankSpec():
            return _rank(node, spec, options)
        case nodes.JoinSpec():
            return join_json(node, spec, options)
        case nodes.IntervalJoinSpec():
            return interval_join_json(spec)
        case nodes.TemporalJoinSpec():
            return temporal_join_json(spec)
        case nodes.LookupJoinSpec():
            return lookup_join_json(node, spec, options)
        case nodes.MultiJoinSpec():
            return multi_join_json(node, spec, options)
        case nodes.OverSpec():
            return over_json(node, spec)
        case WindowTableSpec():
            windowing = windowing_json(spec.window, node.inputs[0].row)
            configuration = options.configuration(WINDOW_OPTIONS)
            return "window-table-function_1", {
                "configuration": configuration,
                "windowing": windowing,
            }
        case WindowAggregateSpec():
            return window_aggregate_json(spec, options)
        case GroupWindowsSpec():
            return group_windows_json(node, spec, options)
        case WindowRankSpec():
            return window_rank_json(spec, options)
        case WindowDeduplicateSpec():
            return window_deduplicate_json(spec, options)
        case WindowJoinSpec():
            return window_join_json(spec, options)
        case nodes.TemporalSortSpec():
            return "temporal-sort_1", {"orderBy": order_to_json(spec.order)}
        case nodes.SinkSpec():
            return _sink(node, spec, options)
        case _:
            raise AssertionError(f"no type of node for {type(spec).__name__}")


def _normalize(
    node: Node, spec: nodes.NormalizeSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    made = {
        "configuration": options.configuration(MINI_BATCH_OPTIONS),
        "uniqueKeys": list(spec.keys),
        "generateUpdateBefore": node.changes.updates == "BOTH",
        "state": options.states(["changelogNormalizeState"], [None]),
    }
    if spec.condition is not None:
        made["filterCondition"] = rex_to_json(spec.condition)
    return "changelog-normalize_1", made


def _rank(node: Node, spec: nodes.RankSpec, options: Options) -> tuple[str, dict[str, Any]]:
    if is_deduplicate(node, spec):
        return "deduplicate_1", {
            "configuration": options.configuration(DEDUPLICATE_OPTIONS),
            "uniqueKeys": list(spec.partition),
            "isRowtime": is_rowtime(node, spec),
            "keepLastRow": keeps_last(spec),
            "outputInsertOnly": node.changes.is_insert_only,
            "generateUpdateBefore": node.changes.updates == "BOTH",
            "state": options.states(["deduplicateState"], [None]),
        }
    made = {
        "configuration": options.configuration(RANK_OPTIONS),
        "rankType": "ROW_NUMBER",
        "partition": {"fields": list(spec.partition)},
        "orderBy": order_to_json(spec.order),
        "rankRange": _range(spec),
        "rankStrategy": _strategy(spec),
        "outputRowNumber": spec.has_number,
        "generateUpdateBefore": node.changes.updates == "BOTH",
        "state": options.states(["rankState"], [None]),
    }
    return f"{spec.kind}_1", made


def _range(spec: nodes.RankSpec) -> dict[str, Any]:
    if spec.range.end_column is not None:
        return {"type": "Variable", "endIndex": spec.range.end_column}
    return {"type": "Constant", "start": spec.range.start, "end": spec.range.end}


def _strategy(spec: nodes.RankSpec) -> dict[str, Any]:
    made: dict[str, Any] = {"type": spec.strategy}
    if spec.strategy != "UpdateFast":
        return made
    return made | {"primaryKeys": list(spec.strategy_keys)}


def _sink(node: Node, spec: nodes.SinkSpec, options: Options) -> tuple[str, dict[str, Any]]:
    sink: dict[str, Any] = {
        "table": table_to_json(spec.table, options.catalog_objects),
        **sink_abilities_to_json(spec.table),
    }
    if spec.target_columns is not None:
        sink["targetColumns"] = [[column] for column in spec.target_columns]
    made: dict[str, Any] = {
        "configuration": options.configuration(SINK_OPTIONS),
        "dynamicTableSink": sink,
        "inputChangelogMode": node.input.changes.names,
    }
    strategy = options.text("table.exec.sink.upsert-materialize-strategy.type", "LEGACY")
    if strategy != "LEGACY":
        made["upsertMaterializeStrategy"] = strategy
    if spec.materializes:
        made["requireUpsertMaterialize"] = True
        made["state"] = options.states(["sinkMaterializeState"], [None])
    key = spec.first_key or smallest(upsert_keys(node.input))
    if key:
        made["inputUpsertKey"] = list(key)
    if spec.conflict is not None:
        made["conflictStrategy"] = {"behavior": spec.conflict}
    return "sink_2", made
