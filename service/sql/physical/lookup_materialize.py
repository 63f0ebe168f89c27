"""Lookups of changes: whether what was looked up must be kept, so that it can be taken back.

A lookup may answer differently when a row is retracted. With
`table.optimizer.non-deterministic-update.strategy` = TRY_RESOLVE the join keeps its answers in
state, unless only upserts enter it and the looked-up key is the table's own.

Source: Flink `StreamNonDeterministicUpdatePlanVisitor` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.sql.physical.nodes import LookupJoinSpec, Node, rebuilt

if TYPE_CHECKING:
    from service.sql.options import Options


def settle_lookups(node: Node, options: Options) -> Node:
    """The plan with lookup joins that keep their answers where they must."""
    if not options.resolves_lookups:
        return node
    made = rebuilt(node, tuple(settle_lookups(each, options) for each in node.inputs))
    spec = made.spec
    if not isinstance(spec, LookupJoinSpec) or made.input.changes.is_insert_only:
        return made
    if made.input.changes.updates == "AFTER" and spec.contains_primary_key:
        return made
    return replace(made, spec=replace(spec, materializes=True))
