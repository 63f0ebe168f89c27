"""GROUPING SETS: repeat each row for each set, with the columns of other sets NULL.

    before   Aggregate[sets (k), (s); MAX(v)](Project[k, s, v](t))
    after    Project[k, s, m](Aggregate[k, s, $e; MAX(v)](Expand[(k), (s)](Project[k, s, v](t))))

Source: Flink `DecomposeGroupingSetsRule`, `ExpandUtil`.
"""

from __future__ import annotations

from dataclasses import replace

from service.sql.algebra import Aggregate, Expand, Project, Relation, inputs, with_inputs
from service.sql.rex import ref


def expand_grouping_sets(relation: Relation) -> Relation:
    """The relation without grouping sets."""
    below = tuple(expand_grouping_sets(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if not isinstance(made, Aggregate) or not made.sets:
        return made
    expanded = Expand(made.input, made.grouping, made.sets)
    width = len(made.grouping)
    number = len(made.input.row)
    inner = replace(made, input=expanded, grouping=(*made.grouping, number), sets=())
    row = inner.row
    kept = [*range(width), *range(width + 1, len(row))]
    columns = tuple(ref(each, row.types[each]) for each in kept)
    return Project(inner, columns, made.row.names)
