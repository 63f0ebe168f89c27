"""Project each side of a UNION ALL, not its rows.

    before   Project[x + 1](Union(a, b))
    after    Union(Project[x + 1](a), Project[x + 1](b))

Source: Calcite `ProjectSetOpTransposeRule`.
"""

from __future__ import annotations

from service.sql.algebra import Project, Relation, Union, inputs, with_inputs
from service.sql.rex import ref, substitute


def push_projections(relation: Relation) -> Relation:
    """The relation without a projection right above a union."""
    made = relation
    if isinstance(made, Project) and isinstance(made.input, Union):
        made = Union(tuple(_projected(made, each) for each in made.input.inputs))
    return with_inputs(made, tuple(push_projections(each) for each in inputs(made)))


def _projected(project: Project, side: Relation) -> Relation:
    """A projection of a union over one side of it, whose types may be narrower."""
    columns = tuple(ref(index, kind) for index, kind in enumerate(side.row.types))
    expressions = tuple(substitute(rex, columns) for rex in project.expressions)
    return Project(side, expressions, project.names)
