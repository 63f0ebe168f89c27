"""What a plan computes anew when a row is taken back: kept where it can be, else refused.

A lookup may answer differently when a row is retracted. With
`table.optimizer.non-deterministic-update.strategy` = TRY_RESOLVE the join keeps its answers in
state, unless it is a LEFT JOIN that only upserts enter and the looked-up key is the table's own;
Flink leaves an INNER JOIN out, too, which loses deletes of rows that are not found any more.
Whatever else is not the same each time, and would have to be, is refused then.

Source: Flink `StreamNonDeterministicUpdatePlanVisitor` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan import load_plan
from service.plan.determinism import undetermined
from service.sql.errors import PlanningError
from service.sql.physical.nodes import LookupJoinSpec, Node, rebuilt

if TYPE_CHECKING:
    from service.sql.options import Options
    from service.sql.to_plan import PlannedNodes


def settle_lookups(node: Node, options: Options) -> Node:
    """The plan with lookup joins that keep their answers where they must."""
    if not options.resolves_updates:
        return node
    made = rebuilt(node, tuple(settle_lookups(each, options) for each in node.inputs))
    spec = made.spec
    if not isinstance(spec, LookupJoinSpec) or made.input.changes.is_insert_only:
        return made
    is_padded = spec.kind == "LEFT"
    if made.input.changes.updates == "AFTER" and spec.contains_primary_key and is_padded:
        # Which rows there are does not depend on what is looked up, and the key tells them apart.
        return made
    return replace(made, spec=replace(spec, materializes=True))


def check_determined(planned: PlannedNodes) -> None:
    """See that what is taken back is what it was.

    Raises:
        PlanningError: Something of the plan is another one then.
    """
    for found in undetermined(load_plan(planned.document)):
        raise PlanningError(
            found.reason,
            hint="select the key of the rows as well, or leave out what depends on the time; with "
            "IGNORE the statement runs, and rows may stay that should go",
        )
