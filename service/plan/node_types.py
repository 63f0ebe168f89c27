"""Every node that Flink 1.15 to 2.3 can write into a plan: name, versions, inputs, state.

All of them load. What we run is a subset: see `service.plan.unsupported`.

Source: `ExecNodeMetadataUtil` and the `ExecNodeMetadata` of each node class (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

StateRule = Literal["none", "always", "materializer"]
"""When a node reads `state`: never, always, or only with `requireUpsertMaterialize`."""


@dataclass(frozen=True, slots=True)
class NodeType:
    """What is known of a node by its type alone."""

    name: str
    """Without the version: `stream-exec-calc`."""
    versions: tuple[int, ...] = (1,)
    inputs_min: int = 1
    inputs_max: int | None = 1
    """None: any number."""
    state: StateRule = "none"
    required: tuple[str, ...] = ()
    """Properties without which Flink does not load the node, besides those of all nodes."""
    checks_input_properties: bool = False
    """Whether Flink wants one entry of `inputProperties` for each input."""

    @property
    def short(self) -> str:
        """The name without what all have in common: `calc`."""
        return self.name.removeprefix("stream-exec-")


_REQUIRED = {
    "calc": ("projection",),
    "changelog-normalize": ("uniqueKeys",),
    "correlate": ("joinType", "functionCall"),
    "deduplicate": ("uniqueKeys",),
    "drop-update-before": (),
    "exchange": ("inputProperties",),
    "expand": ("projects",),
    "global-group-aggregate": (
        "grouping", "aggCalls", "aggCallNeedRetractions", "localAggInputRowType",
    ),
    "global-window-aggregate": ("grouping", "aggCalls", "windowing", "namedWindowProperties"),
    "group-aggregate": ("grouping", "aggCalls", "aggCallNeedRetractions"),
    "incremental-group-aggregate": (
        "partialAggGrouping", "finalAggGrouping", "partialOriginalAggCalls",
        "partialAggCallNeedRetractions", "partialLocalAggInputRowType",
    ),
    "join": ("joinSpec",),
    "limit": ("rankRange", "rankStrategy"),
    "local-group-aggregate": ("grouping", "aggCalls", "aggCallNeedRetractions"),
    "local-window-aggregate": ("grouping", "aggCalls", "windowing"),
    "lookup-join": ("joinType", "temporalTable", "lookupKeys"),
    "mini-batch-assigner": ("miniBatchInterval",),
    "multi-join": ("joinTypes", "joinConditions", "inputUniqueKeys"),
    "over-aggregate": ("overSpec",),
    "rank": ("rankType", "partition", "orderBy", "rankRange", "rankStrategy"),
    "sink": ("dynamicTableSink", "inputChangelogMode"),
    "sort-limit": ("orderBy", "rankRange", "rankStrategy"),
    "table-source-scan": ("scanTableSource",),
    "temporal-join": ("joinSpec",),
    "temporal-sort": ("orderBy",),
    "union": (),
    "values": ("tuples",),
    "watermark-assigner": ("watermarkExpr",),
}  # fmt: skip  # a list of names, several a line
"""Found by leaving out one property after the other of plans that Flink 2.3 loads."""
_FREE_INPUT_PROPERTIES = frozenset(
    {"changelog-normalize", "drop-update-before", "mini-batch-assigner", "sink", "union"}
)
_SOURCES = ("values",)
_ONE_INPUT = (
    "async-calc", "async-correlate", "calc", "correlate", "drop-update-before", "exchange",
    "expand", "global-window-aggregate", "group-window-aggregate", "local-group-aggregate",
    "local-window-aggregate", "match", "mini-batch-assigner", "ml-predict-table-function",
    "over-aggregate", "python-async-calc", "python-calc", "python-correlate",
    "python-group-aggregate", "python-group-window-aggregate", "python-over-aggregate", "sort",
    "temporal-sort", "vector-search-table-function", "watermark-assigner", "window-aggregate",
    "window-deduplicate", "window-rank", "window-table-function",
)  # fmt: skip  # a list of names, several a line
_STATEFUL = (
    "changelog-normalize", "deduplicate", "global-group-aggregate", "group-aggregate",
    "incremental-group-aggregate", "limit", "rank", "sort-limit",
)  # fmt: skip  # a list of names, several a line
_TWO_INPUTS = ("interval-join", "temporal-join", "window-join")
_BATCH_SOURCES = ("table-source-scan", "values")
_BATCH_ONE_INPUT = (
    "calc", "correlate", "exchange", "expand", "hash-aggregate", "limit", "lookup-join", "match",
    "ml-predict-table-function", "over-aggregate", "rank", "sink", "sort", "sort-aggregate",
    "sort-limit", "vector-search-table-function", "window-table-function",
)  # fmt: skip  # a list of names, several a line
_BATCH_TWO_INPUTS = ("join", "nested-loop-join")


def _all() -> list[NodeType]:
    stream, batch = "stream-exec-", "batch-exec-"
    return [
        NodeType(f"{stream}table-source-scan", (1, 2), 0, 0),
        *(NodeType(stream + name, inputs_min=0, inputs_max=0) for name in _SOURCES),
        *(NodeType(stream + name) for name in _ONE_INPUT),
        *(NodeType(stream + name, state="always") for name in _STATEFUL),
        *(NodeType(stream + name, inputs_min=2, inputs_max=2) for name in _TWO_INPUTS),
        NodeType(f"{stream}join", inputs_min=2, inputs_max=2, state="always"),
        NodeType(f"{stream}multi-join", inputs_min=1, inputs_max=None, state="always"),
        NodeType(f"{stream}delta-join", (1, 2), 2, 2),
        NodeType(f"{stream}lookup-join", state="materializer"),
        NodeType(f"{stream}process-table-function", inputs_min=0, inputs_max=None),
        NodeType(f"{stream}union", inputs_max=None),
        NodeType(f"{stream}sink", (1, 2), state="materializer"),
        *(NodeType(batch + name, inputs_min=0, inputs_max=0) for name in _BATCH_SOURCES),
        *(NodeType(batch + name) for name in _BATCH_ONE_INPUT),
        *(NodeType(batch + name, inputs_min=2, inputs_max=2) for name in _BATCH_TWO_INPUTS),
        NodeType(f"{batch}union", inputs_max=None),
    ]


def _described(node_type: NodeType) -> NodeType:
    known = node_type.short in _REQUIRED
    return replace(
        node_type,
        required=_REQUIRED.get(node_type.short, ()),
        checks_input_properties=known and node_type.short not in _FREE_INPUT_PROPERTIES,
    )


NODE_TYPES = {node_type.name: _described(node_type) for node_type in _all()}
SINK_NAMES = frozenset({"stream-exec-sink", "batch-exec-sink"})
