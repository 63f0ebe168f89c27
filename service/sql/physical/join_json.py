"""What a plan writes of joins.

Source: the `ExecNode` classes of Flink 2.3, in the order of their constructors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.sql.physical.keys import listed, smallest, unfiltered_keys, upsert_keys
from service.sql.physical.schema_json import table_to_json
from service.sql.rex import TRUE, conjunction, conjuncts
from service.sql.to_json import rex_list, rex_to_json, row_to_json, type_to_json

if TYPE_CHECKING:
    from service.plan.rex import Literal
    from service.sql.options import Options
    from service.sql.physical import nodes
    from service.sql.physical.nodes import Node


def join_json(node: Node, spec: nodes.JoinSpec, options: Options) -> tuple[str, dict[str, Any]]:
    """A regular, semi or anti join."""
    made: dict[str, Any] = {"joinSpec": join_spec_json(spec.keys)}
    for name, side in zip(("leftUpsertKeys", "rightUpsertKeys"), node.inputs, strict=True):
        keys = listed(unfiltered_keys(side))
        if keys:
            made[name] = keys
    made["state"] = options.states(["leftState", "rightState"], spec.ttl)
    return "join_1", made


def interval_join_json(spec: nodes.IntervalJoinSpec) -> tuple[str, dict[str, Any]]:
    """A join of rows whose times are near."""
    bounds = spec.bounds
    window = {
        "isEventTime": bounds.is_event_time,
        "leftLowerBound": bounds.lower_ms,
        "leftUpperBound": bounds.upper_ms,
        "leftTimeIndex": bounds.left_column,
        "rightTimeIndex": bounds.right_column,
    }
    made = {"joinSpec": join_spec_json(spec.keys), "windowBounds": window}
    return "interval-join_1", {"intervalJoinSpec": made}


def temporal_join_json(spec: nodes.TemporalJoinSpec) -> tuple[str, dict[str, Any]]:
    """A join with the version of a table at an event time."""
    return "temporal-join_1", {
        "joinSpec": join_spec_json(spec.keys),
        "isTemporalFunctionJoin": False,
        "leftTimeAttributeIndex": spec.left_time,
        "rightTimeAttributeIndex": spec.right_time,
    }


def lookup_join_json(
    node: Node, spec: nodes.LookupJoinSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    """A join with what a table holds when it is asked."""
    source = {"table": table_to_json(spec.table, options.catalog_objects)}
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
    if spec.retries is not None:
        made["retryOptions"] = {
            "retry-predicate": "lookup_miss",
            "retry-strategy": "FIXED_DELAY",
            "fixed-delay": spec.retries.delay_ms,
            "max-attempts": spec.retries.attempts_max,
        }
    if spec.materializes:
        made["requireUpsertMaterialize"] = True
    made["inputChangelogMode"] = node.input.changes.names
    key = smallest(upsert_keys(node.input))
    if key is not None and not node.input.changes.is_insert_only:
        made["inputUpsertKey"] = list(key)
    if spec.materializes:
        made["state"] = options.states(["lookupJoinState"], [None])
    return "lookup-join_1", made | {"preferCustomShuffle": False}


def _lookup_key(by: int | Literal) -> dict[str, Any]:
    if isinstance(by, int):
        return {"type": "FieldRef", "index": by}
    literal = rex_to_json(by)
    nullable = by.type.with_nullable(True)
    return {"type": "Constant", "sourceType": type_to_json(nullable), "literal": literal}


def multi_join_json(
    node: Node, spec: nodes.MultiJoinSpec, options: Options
) -> tuple[str, dict[str, Any]]:
    """A chain of joins on one key."""
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
        "state": options.states(names, spec.ttl),
    }


def join_spec_json(keys: nodes.JoinKeys) -> dict[str, Any]:
    """What a join compares."""
    return {
        "joinType": keys.kind,
        "leftKeys": list(keys.left),
        "rightKeys": list(keys.right),
        "filterNulls": list(keys.filter_nulls),
        "nonEquiCondition": None if keys.rest is None else rex_to_json(keys.rest),
    }
