"""What gives the state of a node its meaning: by it one tells whether another plan may read it.

The form of what is stored does not tell a sum of one column from that of another. So each node
that keeps state has a fingerprint: its own properties, but for those that only say what it emits,
and what the columns of its inputs are. What a column is follows from the table that it comes from
and all that is computed on the way, whatever it is called and wherever it stands; a condition on
the way says which rows come, not what they mean. But that of an outer join says what is counted.

    SELECT k, SUM(x) ..    `x` of table `t`
    SELECT k, SUM(y) ..    `y` of table `t`: the node's own properties are the same

Nodes are told by id, and ids are no part of a fingerprint: nodes may be numbered anew above it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

import orjson

from service.plan.deadline import check_time
from service.plan.local_zone import common_zone, is_utc, said_zone, zone_readers
from service.plan.nodes import Sink, TableScan
from service.plan.rex import ZONE_MARK
from service.plan.type_json import parse_type_json
from state.types import format_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.plan.document import CompiledPlan
    from service.plan.nodes import ExecNode
    from state.types import LogicalType

Meaning = dict[str, str]
"""By property: a digest of its value."""
VERSION: Final = 1
"""Of the way to take fingerprints: those of two versions are not compared."""
_UNNAMED: Final = frozenset(
    {
        "global-window-aggregate", "group-window-aggregate", "interval-join", "over-aggregate",
        "process-table-function", "temporal-join", "temporal-sort", "window-aggregate",
        "window-deduplicate", "window-join", "window-rank",
    }
)  # fmt: skip  # a list of names, several a line
"""Types of nodes whose state a plan has no name and no time to live for."""
_EMITTED: Final = frozenset(
    {
        "asyncOptions", "condition", "configuration", "description", "filterCondition",
        "filterOnTemporalTable", "generateUpdateBefore", "id", "inputChangelogMode",
        "inputChangelogModes", "inputProperties", "joinCondition", "joinConditions",
        "multiJoinCondition", "namedWindowProperties", "nonEquiCondition", "outputChangelogMode",
        "outputRowNumber", "outputType", "retryOptions", "state", "type",
        "upsertMaterializeStrategy",
    }
)  # fmt: skip  # a list of names, several a line
"""Properties that say what a node emits, for how long or in which layout it keeps what it does, or
that follow from others."""
_COUNTING: Final = ("join", "interval-join")
"""Joins that keep of their rows, unless they are inner, what they have met."""
_ROW_TYPES: Final = frozenset({"localAggInputRowType", "partialLocalAggInputRowType"})
"""Properties that are types of rows, whose columns may have any names."""
_OF_SINKS: Final = ("inputUpsertKey", "requireUpsertMaterialize", "conflictStrategy")


def keeps_state(node: ExecNode) -> bool:
    """Whether a node keeps state, named in the plan or not."""
    if node.node_type.short == "window-table-function":
        window = node.raw.get("windowing", {}).get("window", {})
        return isinstance(window, dict) and window.get("type") == "SessionWindow"
    return node.has_state or node.node_type.short in _UNNAMED


def state_meanings(plan: CompiledPlan) -> dict[int, Meaning]:
    """By id of each node that keeps state: what gives it its meaning."""
    columns: dict[int, list[str]] = {}
    found: dict[int, Meaning] = {}
    common = common_zone(plan.document["nodes"])
    for node in plan.nodes:
        check_time()
        inputs = plan.inputs(node.id)
        given = [columns[each.id] for each in inputs]
        zone = said_zone(node.raw) or common
        columns[node.id] = _columns(node, inputs, given, zone)
        if keeps_state(node):
            found[node.id] = {
                **_own(node, inputs),
                **_matches(node, given, zone),
                "input types": _digest([_types(each.output_type) for each in inputs]),
                "input columns": _digest(given),
            }
    return found


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """The properties in which two fingerprints differ."""
    names = dict.fromkeys((*before, *after))
    return [name for name in names if before.get(name) != after.get(name)]


def _own(node: ExecNode, inputs: Sequence[ExecNode]) -> Meaning:
    """Of the properties of a node itself."""
    if isinstance(node.view, Sink):
        named = {name: node.raw[name] for name in _OF_SINKS if node.raw.get(name) is not None}
        named["primary key"] = list(node.view.primary_key)
    else:
        named = {name: value for name, value in node.raw.items() if name not in _EMITTED}
        for name in _ROW_TYPES & named.keys():
            named[name] = _types(parse_type_json(named[name], f"{node.path}/{name}"))
        if node.node_type.short == "group-window-aggregate":
            named["window"] = _with_time_column(named.get("window"), inputs[0])
    found = {name: _digest(_plain(value)) for name, value in named.items() if value is not None}
    zone = said_zone(node.raw)
    if zone is not None and not is_utc(zone):
        found["time zone"] = _digest(zone)
    return found


def _with_time_column(window: object, given: ExecNode) -> object:
    """A group window with the index of the column that its time has by name, as Flink reads it.

    A plan may be compared that no pipeline is made of: what is no window stays as it is.
    """
    field = window.get("timeField") if isinstance(window, dict) else None
    names = given.output_type.field_names
    if not isinstance(window, dict) or not isinstance(field, dict):
        return window
    if field.get("fieldName") not in names:
        return window
    return {**window, "timeField": {**field, "fieldIndex": names.index(field["fieldName"])}}


def _matches(node: ExecNode, given: Sequence[Sequence[str]], zone: str | None) -> Meaning:
    """Of a join that keeps how many rows each row has met, or whether any: by what they meet."""
    if node.node_type.short not in _COUNTING:
        return {}
    spec = node.raw.get("intervalJoinSpec", node.raw)["joinSpec"]
    condition = spec.get("nonEquiCondition")
    if spec["joinType"] == "INNER" or condition is None:
        return {}
    return {"nonEquiCondition": _expression(condition, [*given[0], *given[1]], zone)}


def _types(row: LogicalType) -> list[str]:
    return [format_type(each) for each in row.children]


def _plain(value: object) -> Any:
    """A property without names of calls and columns, options of tables, and what is emitted."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("identifier"), str):
        return value["identifier"]
    hidden = (_EMITTED - {"type", "description"}) | {"fieldName"}
    named = {"name"} if "argList" in value else set()
    return {name: _plain(each) for name, each in value.items() if name not in hidden | named}


def _columns(
    node: ExecNode, inputs: Sequence[ExecNode], given: Sequence[Sequence[str]], zone: str | None
) -> list[str]:
    """What each column of a node's output is, where expressions that read a zone read this one."""
    width = len(node.output_type.children)
    raw = node.raw
    kind = node.node_type.short
    if kind == "table-source-scan":
        table = _plain(raw["scanTableSource"]["table"])
        keys = node.view.metadata_keys if isinstance(node.view, TableScan) else ()
        names = node.output_type.field_names[: width - len(keys)]
        # Metadata comes last, and is the same under another name.
        physical = [_digest([table, name]) for name in names]
        return [*physical, *(_digest([table, "METADATA", key]) for key in keys)]
    if kind == "calc":
        return [_expression(each, given[0], zone) for each in raw["projection"]]
    if kind == "expand":
        rows = [[_expression(each, given[0], zone) for each in row] for row in raw["projects"]]
        return [_one_of(column) for column in zip(*rows, strict=False)]
    if kind == "correlate":
        call = _expression(raw["functionCall"], given[0], zone)
        made = range(width - len(given[0]))
        return [*given[0], *(_digest([kind, call, at]) for at in made)]
    if kind == "union":
        return [_one_of(column) for column in zip(*given, strict=False)]
    groups = raw.get("finalAggGrouping", raw.get("grouping"))
    if isinstance(groups, list):
        passed = [_at(given[0], each) for each in groups]
    else:
        passed = [column for side in given for column in side][:width]
    read: Sequence[object] | str = given
    if kind == "window-table-function":
        # Windows are of a time, whatever else stands beside it.
        read = _at(given[0], raw.get("windowing", {}).get("timeAttributeIndex", 0))
    own = _digest([kind, _own(node, inputs), read])
    return [*passed, *(_digest([own, at]) for at in range(width - len(passed)))]


def _one_of(column: tuple[str, ...]) -> str:
    return column[0] if len(set(column)) == 1 else _digest(sorted(column))


def _at(given: Sequence[str], index: object) -> str:
    """A column; of a plan that names one that is not there, something of its own."""
    if isinstance(index, int) and 0 <= index < len(given):
        return given[index]
    return _digest(index)


def _expression(value: object, given: Sequence[str], zone: str | None) -> str:
    """What an expression gives: of a column alone what the column is."""
    if isinstance(value, dict) and value.get("kind") == "INPUT_REF":
        return _at(given, value.get("inputIndex"))
    is_zoned = zone is not None and not is_utc(zone) and any(zone_readers(value, ""))
    return _digest([zone if is_zoned else None, _over(value, given)])


def _over(value: object, given: Sequence[str]) -> Any:
    """An expression with what its columns are in their place."""
    if isinstance(value, list):
        return [_over(each, given) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "INPUT_REF":
        return {"column": _at(given, value.get("inputIndex"))}
    if value.get("kind") == "FIELD_ACCESS" and value["expr"].get("kind") == "CORREL_VARIABLE":
        fields = parse_type_json(value["expr"]["type"], "").field_names
        return {"column": _at(given, fields.index(value["name"]))}
    return {name: _over(each, given) for name, each in value.items() if name != ZONE_MARK}


def _digest(value: object) -> str:
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(text, digest_size=8).hexdigest()
