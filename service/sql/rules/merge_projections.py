"""Make one projection of two that follow each other.

    before   Project[a + 1 AS b](Project[k AS a](t))
    after    Project[k + 1 AS b](t)

A projection that only renames its input's columns is left out: the names are gone, as in Flink.

Source: Calcite `ProjectMergeRule`, `ProjectRemoveRule`, `RelBuilder.project`.
"""

from __future__ import annotations

from service.plan.rex import InputRef
from service.sql.algebra import Project, Relation, inputs, with_inputs
from service.sql.rex import has_over, substitute


def merge_projections(relation: Relation) -> Relation:
    """The relation without a projection right above another; those with OVER stay."""
    below = tuple(merge_projections(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    while (
        isinstance(made, Project)
        and isinstance(made.input, Project)
        and not has_over(made.expressions)
        and not has_over(made.input.expressions)
    ):
        inner = made.input
        expressions = tuple(substitute(rex, inner.expressions) for rex in made.expressions)
        made = Project(inner.input, expressions, made.names)
    return made.input if isinstance(made, Project) and is_identity(made) else made


def is_identity(project: Project) -> bool:
    """Whether a projection gives its input's columns as they are; names do not count."""
    row = project.input.row
    return len(project.expressions) == len(row) and all(
        isinstance(rex, InputRef) and rex.index == index and rex.type == row.types[index]
        for index, rex in enumerate(project.expressions)
    )
