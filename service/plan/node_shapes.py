"""What Flink reads of nodes that have no view here: aggregate calls, join keys, configuration.

Operators read these properties when a pipeline is made of the plan (`service.runtime.specs`). Flink
refuses a plan that is wrong in them at load or explain, so we do at load. Nulls in a list of
numbers or flags stand for 0 and false, as there.

Source: recorded outcomes of changed plans in Flink 2.3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from service.plan.errors import InvalidExpression, InvalidProperty
from service.plan.properties import JsonObject
from service.plan.rex import SYNTAXES, parse_rex
from service.plan.type_json import parse_type_json
from state.types import TypeRoot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from service.plan.errors import PlanError
    from service.plan.nodes import ExecNode
    from state.types import LogicalType

_AGGREGATES = {
    "group-aggregate": ("aggCalls", "aggCallNeedRetractions"),
    "local-group-aggregate": ("aggCalls", "aggCallNeedRetractions"),
    "global-group-aggregate": ("aggCalls", "aggCallNeedRetractions"),
    "incremental-group-aggregate": ("partialOriginalAggCalls", "partialAggCallNeedRetractions"),
    "group-window-aggregate": ("aggCalls", ""),
    "window-aggregate": ("aggCalls", ""),
    "local-window-aggregate": ("aggCalls", ""),
    "global-window-aggregate": ("aggCalls", ""),
}
"""The calls of a node, and the flags that go with them."""
_CALL_PROPERTIES = ("argList", "filterArg", "distinct", "approximate", "ignoreNulls", "type")
_FUNCTIONS = frozenset(
    f"${name}$1"
    for name in (
        "$SUM0", "$WELFORD_M2$1", "APPROX_COUNT_DISTINCT", "ARRAY_AGG", "AUXILIARY_GROUP", "AVG",
        "BITMAP_AND_AGG",
        "BITMAP_AND_CARDINALITY_AGG", "BITMAP_BUILD_AGG", "BITMAP_BUILD_CARDINALITY_AGG",
        "BITMAP_OR_AGG", "BITMAP_OR_CARDINALITY_AGG", "BITMAP_XOR_AGG",
        "BITMAP_XOR_CARDINALITY_AGG", "COLLECT", "COUNT", "CUME_DIST", "DENSE_RANK", "FIRST_VALUE",
        "GROUPING", "GROUPING_ID", "GROUP_ID", "JSON_ARRAYAGG_ABSENT_ON_NULL",
        "JSON_ARRAYAGG_NULL_ON_NULL", "JSON_OBJECTAGG_ABSENT_ON_NULL",
        "JSON_OBJECTAGG_NULL_ON_NULL", "LAG", "LAST_VALUE", "LEAD", "LISTAGG", "MAX", "MIN",
        "NTILE", "PERCENTILE", "PERCENT_RANK", "RANK", "ROW_NUMBER", "SINGLE_VALUE", "STDDEV",
        "STDDEV_POP", "STDDEV_SAMP", "SUM", "VARIANCE", "VAR_POP", "VAR_SAMP",
        "BIT_AND", "BIT_OR", "BIT_XOR", "BOOL_AND", "BOOL_OR",
    )
)  # fmt: skip  # a list of names, several a line
"""Aggregate functions that Flink 2.3 has, whether we run them or not; the last five are ours."""
_JOIN_SPECS = {
    "join": ("joinSpec",),
    "temporal-join": ("joinSpec",),
    "window-join": ("joinSpec",),
    "interval-join": ("intervalJoinSpec", "joinSpec"),
}
_JOIN_TYPES = ("ANTI", "INNER", "LEFT", "RIGHT", "SEMI", "FULL")
_FLAGS = ("generateUpdateBefore", "needRetraction")
_ENUMS = {
    "table.exec.sink.not-null-enforcer": ("ERROR", "DROP"),
    "table.exec.sink.rowtime-inserter": ("ENABLED", "DISABLED"),
    "table.exec.sink.type-length-enforcer": ("IGNORE", "TRIM_PAD", "ERROR"),
    "table.exec.mini-batch.enabled": ("TRUE", "FALSE"),
}
_INTEGER = re.compile(r"\s*[-+]?[0-9]{1,18}\s*", re.ASCII)
_ALIKE = {TypeRoot.CHAR: TypeRoot.VARCHAR, TypeRoot.BINARY: TypeRoot.VARBINARY}


def check_shape(node: JsonObject, short: str) -> None:
    """Read what a node is made of, as far as it alone says whether it can be.

    Args:
        node: The node.
        short: Its type without version and prefix.

    Raises:
        PlanError: The first property that cannot be.
    """
    if short in _AGGREGATES:
        _check_aggregates(node, *_AGGREGATES[short])
    if short == "over-aggregate":
        for group in node.object("overSpec").objects("groups", "a group of calls"):
            _check_calls(group, "aggCalls")
    if short in _JOIN_SPECS:
        _check_join_spec(node.inner(*_JOIN_SPECS[short]))
    _check_configuration(node)


def check_columns(node: ExecNode, inputs: Sequence[ExecNode]) -> Iterator[PlanError]:
    """Columns of the inputs that a node names and that are not there, or are of another type."""
    short = node.node_type.short
    root = JsonObject(node.raw, node.path, node.id)
    if short in _JOIN_SPECS:
        spec = root.inner(*_JOIN_SPECS[short])
        sides = zip(("leftKeys", "rightKeys"), inputs, strict=False)
        found = [(key, spec.integers(key), side.output_type.children) for key, side in sides]
        for key, keys, columns in found:
            if any(not 0 <= column < len(columns) for column in keys):
                yield spec.fail(key, f"{key} names a column that the input does not have")
                return
        types = [[_root(columns[at]) for at in keys] for _, keys, columns in found]
        if types[0] != types[-1]:
            yield spec.fail("leftKeys", "columns of different types are compared")
    if short in ("group-aggregate", "local-group-aggregate"):
        columns = inputs[0].output_type.children
        if any(not 0 <= column < len(columns) for column in root.integers("grouping")):
            yield root.fail("grouping", "it names a column that the input does not have")
        yield from _check_filters(root, columns)


def same_kind(one: LogicalType, other: LogicalType) -> bool:
    """Whether values of one type can stand where the other is said, as far as Flink looks."""
    return _root(one) is _root(other)


def _root(logical: LogicalType) -> TypeRoot:
    return _ALIKE.get(logical.root, logical.root)


def _check_aggregates(node: JsonObject, calls_key: str, flags_key: str) -> None:
    count = _check_calls(node, calls_key)
    if flags_key:
        flags = node.list(flags_key)
        if len(flags) != count:
            raise node.fail(flags_key, f"{len(flags)} flags for {count} aggregate calls")
        for place, _ in enumerate(flags):
            JsonObject({flags_key: flags[place]}, node.path, node.node_id).flag(flags_key)
    if node.has("grouping"):
        node.integers("grouping")
    for key in _FLAGS:
        node.flag(key)


def _check_calls(owner: JsonObject, key: str) -> int:
    """Check each call of a list; how many there are."""
    calls = owner.objects(key, "an aggregate call")
    for call in calls:
        _check_call(call)
    return len(calls)


def _check_call(call: JsonObject) -> None:
    for key in ("name", *_CALL_PROPERTIES):
        if key not in call.value:
            raise call.fail(key, f"an aggregate call has no {key}")
    if "syntax" in call.value and call.value["syntax"] not in SYNTAXES:
        raise call.fail("syntax", f"unknown syntax {call.value['syntax']!r}")
    if "internalName" in call.value:
        name = call.value["internalName"]
        if not isinstance(name, str) or name.upper() not in _FUNCTIONS:
            raise call.fail("internalName", f"unknown aggregate function {name!r}")
    elif not any(key in call.value for key in ("systemName", "catalogName", "class")):
        raise call.fail("internalName", "an aggregate call names no function")
    parse_type_json(call.value["type"], call.at("type"))


def _check_join_spec(spec: JsonObject) -> None:
    spec.choice("joinType", _JOIN_TYPES)
    counts = {len(spec.integers(key)) for key in ("leftKeys", "rightKeys")}
    flags = spec.list("filterNulls")
    for flag in flags:
        JsonObject({"filterNulls": flag}, spec.path, spec.node_id).flag("filterNulls")
    if counts != {len(flags)}:
        raise spec.fail("filterNulls", "leftKeys, rightKeys and filterNulls differ in length")
    if spec.has("nonEquiCondition"):
        parse_rex(spec.value["nonEquiCondition"], spec.at("nonEquiCondition"))


def _check_configuration(node: JsonObject) -> None:
    given = node.texts("configuration")
    for key, allowed in _ENUMS.items():
        if key in given and given[key].strip().upper() not in allowed:
            raise InvalidProperty(
                f"{key} cannot be {given[key]!r}",
                hint=f"one of {', '.join(allowed)}",
                path=f"{node.at('configuration')}/{key}",
            )
    is_bundled = given.get("table.exec.mini-batch.enabled", "").strip().upper() == "TRUE"
    size = given.get("table.exec.mini-batch.size", "1")
    if is_bundled and _INTEGER.fullmatch(size) and int(size) <= 0:
        raise InvalidProperty(
            "the size of a mini-batch must be above 0",
            path=f"{node.at('configuration')}/table.exec.mini-batch.size",
        )


def _check_filters(node: JsonObject, columns: Sequence[LogicalType]) -> Iterator[PlanError]:
    for value, path in node.items("aggCalls"):
        index = JsonObject(value, path, node.node_id).value["filterArg"]
        # What is no number names the first column, as in Flink.
        index = int(index) if isinstance(index, (int, float)) else 0
        if index < 0:
            continue
        if index >= len(columns) or columns[index].root is not TypeRoot.BOOLEAN:
            yield InvalidExpression("the filter is no BOOLEAN column", path=f"{path}/filterArg")
