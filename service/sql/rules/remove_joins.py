"""Leave out a left join whose right side nobody reads and that cannot repeat a row.

    before   Project[l.id](Join[LEFT, l.id = r.id](l, r))      r.id is a key
    after    Project[id](l)

Source: Calcite `ProjectJoinRemoveRule`.
"""

from __future__ import annotations

from service.sql.algebra import Join, Project, Relation, inputs, with_inputs
from service.sql.join_keys import equal_columns
from service.sql.logical_keys import is_unique
from service.sql.rex import conjuncts, inputs_of_all


def remove_joins(relation: Relation) -> Relation:
    """The relation without joins that change nothing."""
    below = tuple(remove_joins(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if isinstance(made, Project) and isinstance(made.input, Join):
        join = made.input
        width = len(join.left.row)
        used = inputs_of_all(made.expressions)
        if join.kind == "LEFT" and (not used or max(used) < width) and _is_single(join, width):
            return Project(join.left, made.expressions, made.names)
    return made


def _is_single(join: Join, width: int) -> bool:
    """Whether a left row has at most one partner, by equality alone."""
    pairs, rest = equal_columns(conjuncts(join.condition), width)
    return bool(pairs) and not rest and is_unique(join.right, frozenset(pair[1] for pair in pairs))
