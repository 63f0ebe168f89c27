"""Give OVER functions an operator of their own, between a projection below and one above.

    before   Project[k, MAX(v) OVER (PARTITION BY k ORDER BY t) AS m](s)
    after    Project[k, w0$o0 AS m](Over[MAX(v), partition k, order t](s))

Source: Calcite `ProjectToWindowRule`; Flink `FlinkLogicalOverAggregate`.
"""

from __future__ import annotations

from service.plan.rex import InputRef
from service.sql.algebra import Project, Relation, inputs, with_inputs
from service.sql.errors import UnsupportedSql
from service.sql.rex import has_over
from service.sql.rules.window_input import split_over
from service.sql.window_relations import Over


def extract_over(relation: Relation) -> Relation:
    """The relation without OVER functions in projections.

    Raises:
        UnsupportedSql: Functions of one projection have different windows.
    """
    below = tuple(extract_over(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if not isinstance(made, Project) or not has_over(made.expressions):
        return made
    split = split_over(made, merges=False)
    if len(split.overs) != 1:
        raise UnsupportedSql(
            "OVER functions with different windows in one SELECT are not supported"
        )
    over = split.overs[0]
    window = Over(split.below, over.calls, over.partition, over.order, over.frame)
    names = made.names
    columns = [rex.index for rex in split.outputs if isinstance(rex, InputRef)]
    if len(columns) == len(split.outputs) and columns == sorted(columns):
        names = tuple(
            name if column < len(split.below.row) else f"${position}"
            for position, (column, name) in enumerate(zip(columns, made.names, strict=True))
        )
    return Project(window, split.outputs, names)
