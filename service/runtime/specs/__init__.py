"""From a plan's stateful nodes to the specs of their operators, one kind of node a module.

A module offers one function that takes a `StatefulNode` and gives an `OperatorSpec`; `BUILDERS`
lists them. A builder reads the node's own `properties`, which refuse with `PlanError` what is not
what Flink would read, refuses what is not run with `UnsupportedNode`, and never guesses. Both name
the property's path. What Flink takes as left out has Flink's default: 0 for a number, false for a
flag.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from operators.spec import InputSpec, RowSpec
from service.plan.properties import JsonObject, pointer_token
from service.runtime.dataflow_errors import UnsupportedNode
from service.runtime.specs import two_phase, windows
from service.runtime.specs.changelog_normalize import changelog_normalize_spec
from service.runtime.specs.deduplicate import deduplicate_spec
from service.runtime.specs.group_aggregate import group_aggregate_spec
from service.runtime.specs.interval_join import interval_join_spec
from service.runtime.specs.join import join_spec
from service.runtime.specs.limit import limit_spec
from service.runtime.specs.lookup_join import lookup_join_spec
from service.runtime.specs.multi_join import multi_join_spec
from service.runtime.specs.over import over_spec
from service.runtime.specs.process_function import process_function_spec
from service.runtime.specs.rank import rank_spec
from service.runtime.specs.temporal_join import temporal_join_spec
from service.runtime.specs.temporal_sort import temporal_sort_spec
from service.runtime.specs.two_phase import global_aggregate_spec, incremental_aggregate_spec
from service.runtime.specs.window_join import window_join_spec
from service.runtime.specs.window_rank import window_deduplicate_spec, window_rank_spec
from service.runtime.specs.windows import (
    group_window_aggregate_spec,
    window_aggregate_spec,
    window_table_function_spec,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.spec import OperatorSpec
    from service.plan import CompiledPlan
    from service.plan.nodes import ExecNode
    from service.runtime.records import RunOptions


@dataclass(frozen=True, slots=True)
class StatefulNode:
    """A node whose operator is to be built, and what it stands in."""

    node: ExecNode
    plan: CompiledPlan
    options: RunOptions | None = None
    """Of the pipeline; None: the plan's own count."""

    @property
    def inputs(self) -> tuple[ExecNode, ...]:
        """The nodes that it reads, in order: exchanges and the like count as nodes."""
        return tuple(self.plan.inputs(self.node.id))

    @property
    def properties(self) -> JsonObject:
        """The node's own properties, to be read with their places."""
        return JsonObject(self.node.raw, self.node.path, self.node.id)

    def width(self, index: int = 0) -> int:
        """How many columns an input has."""
        return len(self.inputs[index].output_type.children)

    def input(self, index: int, key: Sequence[int]) -> InputSpec:
        """The rows of an input, keyed by these columns."""
        row = RowSpec.of(self.inputs[index].output_type)
        return InputSpec(types=row.types, names=row.names, key=tuple(key))

    def partitioned(self, owner: JsonObject, name: str, *, is_optional: bool = False) -> InputSpec:
        """The rows of the only input, partitioned by the columns that a property lists.

        A column that stands there twice (PARTITION BY k, k) is one column.
        """
        key = owner.columns(name, self.width(), is_optional=is_optional)
        return self.input(0, tuple(dict.fromkeys(key)))

    @property
    def output(self) -> RowSpec:
        """The rows that the node emits."""
        return RowSpec.of(self.node.output_type)

    @property
    def ttl_ms(self) -> tuple[int, ...]:
        """Time to live by the index of the plan's state entries, 0: for ever.

        Where the plan names none, the pipeline's `table.exec.state.ttl` counts for all.
        """
        default_ms = self.options.default_ttl_ms if self.options else 0
        if not self.node.state:
            return (default_ms,) * max(1, len(self.inputs))
        by_index = {each.index: each.ttl_ms for each in self.node.state}
        return tuple(by_index.get(at, 0) for at in range(max(by_index) + 1))

    @property
    def common(self) -> dict[str, Any]:
        """The fields of a spec that are the same for all kinds, but `inputs`."""
        return {
            "output": self.output,
            "ttl_ms": self.ttl_ms,
            "ttl_extension_ms": self.options.ttl_extension_ms if self.options else 0,
            "limits": self.options.controller_limits if self.options else {},
            **self._set_aside,
        }

    @property
    def _set_aside(self) -> dict[str, bool]:
        """Which rows an operator sets aside, by fields of its spec."""
        if self.options is None:
            return {}
        return {
            "sets_aside_missing_times": self.options.on_malformed == "dead-letter",
            "sets_aside_late": self.options.on_late == "dead-letter",
        }

    def option(self, name: str) -> str | None:
        """An option that was in force when the plan was compiled."""
        return self.node.configuration.get(name)

    def of(self, node: ExecNode) -> StatefulNode:
        """Another node of the plan, as one whose operator is to be built."""
        return replace(self, node=node)

    def refuse(self, reason: str, *properties: str | int) -> UnsupportedNode:
        """The error for what is not run, at a property of the node."""
        path = "/".join([self.node.path, *(pointer_token(str(each)) for each in properties)])
        return UnsupportedNode(
            f"{self.node.type_text} is not supported: {reason}", node_id=self.node.id, path=path
        )


Builder = Callable[[StatefulNode], "OperatorSpec"]

BUILDERS: Final[dict[str, Builder]] = {
    "changelog-normalize": changelog_normalize_spec,
    "deduplicate": deduplicate_spec,
    "global-group-aggregate": global_aggregate_spec,
    "global-window-aggregate": window_aggregate_spec,
    "group-aggregate": group_aggregate_spec,
    "group-window-aggregate": group_window_aggregate_spec,
    "incremental-group-aggregate": incremental_aggregate_spec,
    "interval-join": interval_join_spec,
    "join": join_spec,
    "limit": limit_spec,
    "lookup-join": lookup_join_spec,
    "multi-join": multi_join_spec,
    "over-aggregate": over_spec,
    "process-table-function": process_function_spec,
    "rank": rank_spec,
    "sort-limit": limit_spec,
    "temporal-join": temporal_join_spec,
    "temporal-sort": temporal_sort_spec,
    "window-aggregate": window_aggregate_spec,
    "window-deduplicate": window_deduplicate_spec,
    "window-join": window_join_spec,
    "window-rank": window_rank_spec,
    "window-table-function": window_table_function_spec,
}
"""By the node's type without `stream-exec-`: `group-aggregate`, `join`, ..."""

IdentityNodes = Callable[["CompiledPlan"], "Set[int]"]

IDENTITIES: Final[tuple[IdentityNodes, ...]] = (
    two_phase.identity_nodes,
    windows.identity_nodes,
)
"""Each tells nodes that pass on what they get, since a later node does their work: an epoch is a
bundle, so what a local aggregation would save is saved by the global one."""


def identity_nodes(plan: CompiledPlan) -> frozenset[int]:
    """Ids of the nodes of a plan that pass on what they get, by `IDENTITIES`."""
    return frozenset().union(*(each(plan) for each in IDENTITIES))


def is_run(node: ExecNode) -> bool:
    """Whether a node is run by an operator that a builder makes."""
    return node.node_type.short in BUILDERS
