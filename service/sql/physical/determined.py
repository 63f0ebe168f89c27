"""What a plan computes anew when a row is taken back: kept where it can be, else refused.

A lookup may answer differently when a row is retracted. With
`table.optimizer.non-deterministic-update.strategy` = TRY_RESOLVE the join keeps its answers in
state, unless it is a LEFT JOIN that only upserts enter and the looked-up key is the table's own;
Flink leaves an INNER JOIN out, too, which loses deletes of rows that are not found any more.
Projections that read the clock, which Flink refuses, are kept behind a key; the rest is refused.

Source: Flink `StreamNonDeterministicUpdatePlanVisitor` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan import load_plan
from service.plan.determinism import changing_function, undetermined
from service.plan.rex import InputRef
from service.sql.errors import PlanningError
from service.sql.physical.calc import calc
from service.sql.physical.change_kinds import with_kinds
from service.sql.physical.convert import exchange
from service.sql.physical.keys import smallest, upsert_keys
from service.sql.physical.nodes import CalcSpec, LookupJoinSpec, Node, NormalizeSpec, rebuilt
from service.sql.rex import ref, type_of
from service.sql.terms import unique_names

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


def keep_values(node: Node, options: Options) -> Node:
    """The plan with what is not the same each time kept beside the row that it was computed for.

    Behind a projection of changes whose rows have a key, a ChangelogNormalize by that key keeps
    each row as it was sent, and takes that one back.
    """
    made = rebuilt(node, tuple(keep_values(each, options) for each in node.inputs))
    spec = made.spec
    if not isinstance(spec, CalcSpec) or changing_function(spec.projection) is None:
        return made
    key = smallest(upsert_keys(made.input))
    if not key or with_kinds(made.input, options).changes.is_insert_only:
        return made
    columns, names = list(spec.projection), list(made.row.names)
    for column in key:
        if not any(isinstance(each, InputRef) and each.index == column for each in columns):
            columns.append(ref(column, made.input.row.types[column]))
            names.append(made.input.row.names[column])
    places = tuple(
        next(
            at
            for at, each in enumerate(columns)
            if isinstance(each, InputRef) and each.index == column
        )
        for column in key
    )
    types = (*made.row.types, *(type_of(each) for each in columns[len(made.row) :]))
    wide = replace(made.row, names=unique_names((), names), types=types)
    computed = Node(replace(spec, projection=tuple(columns)), made.inputs, wide)
    kept = Node(NormalizeSpec(places), (exchange(computed, places),), wide)
    if len(columns) == len(made.row):
        return kept
    return calc(kept, [ref(at, kind) for at, kind in enumerate(made.row.types)], made.row.names)


def is_determined(planned: PlannedNodes) -> bool:
    """Whether what is taken back is what it was, wherever it has to be."""
    return not undetermined(load_plan(planned.document))


def refuse_undetermined(planned: PlannedNodes) -> None:
    """Refuse a plan of which something is another when it is taken back.

    Raises:
        PlanningError: Something is.
    """
    for found in undetermined(load_plan(planned.document)):
        raise PlanningError(
            found.reason,
            hint="select the key of the rows as well, or leave out what depends on the time; with "
            "IGNORE the statement runs, and rows may stay that should go",
        )
