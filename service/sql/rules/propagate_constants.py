"""Write a constant where a condition below leaves a column no other value.

    before   Project[k, v](Filter[k = 'a'](t))
    after    Project['a' AS k, v](Filter[k = 'a'](t))

The column need not be carried any further. Its type stays as it was.

Source: Calcite `ReduceExpressionsRule` with `RelMdPredicates`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef, Literal
from service.sql.algebra import (
    Aggregate,
    Filter,
    Join,
    Project,
    Relation,
    Sort,
    VersionJoin,
    inputs,
    with_inputs,
)
from service.sql.rex import Expression, cast, conjuncts, has_over, literal, ref, rewrite
from service.sql.rules.push_filters import constant_of
from service.sql.window_relations import Rank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.plan.rex import Rex


def propagate_constants(relation: Relation) -> Relation:
    """The relation with constants in its projections; a filter alone gets one."""
    if isinstance(relation, Filter):
        row = relation.row
        every = tuple(map(ref, range(len(row)), row.types))
        return _propagated(Project(relation, every, row.names))
    return _propagated(relation)


def _propagated(relation: Relation) -> Relation:
    below = tuple(_propagated(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if not isinstance(made, Project) or has_over(made.expressions):
        return made
    known = constants(made.input)
    if not known:
        return made
    expressions = tuple(_replaced(rex, known) for rex in made.expressions)
    return made if expressions == made.expressions else replace(made, expressions=expressions)


def _replaced(rex: Expression, known: Mapping[int, Literal]) -> Expression:
    def change(column: InputRef) -> Rex:
        value = known.get(column.index)
        return column if value is None else cast(value, column.type)

    return rewrite(rex, change)


def constants(relation: Relation) -> dict[int, Literal]:
    """The columns that have one value in every row."""
    match relation:
        case Filter():
            own = (_tied(part) for part in conjuncts(relation.condition))
            return constants(relation.input) | dict(pair for pair in own if pair is not None)
        case Project():
            return _projected(relation)
        case Aggregate() if not relation.sets:
            below = constants(relation.input)
            grouping = enumerate(relation.grouping)
            return {position: below[column] for position, column in grouping if column in below}
        case Join() if relation.kind == "INNER":
            width = len(relation.left.row)
            right = constants(relation.right).items()
            return constants(relation.left) | {width + at: value for at, value in right}
        case Join() if relation.kind in ("LEFT", "SEMI", "ANTI"):
            return constants(relation.left)
        case VersionJoin() if relation.kind == "INNER":
            own = (constant_of(part) for part in conjuncts(relation.condition))
            return constants(relation.left) | dict(pair for pair in own if pair is not None)
        case Sort() | Rank():
            return constants(relation.input)
        case _:
            return {}


def _tied(part: Rex) -> tuple[int, Literal] | None:
    """The column that a condition ties to one value, which may be NULL, and the value."""
    if isinstance(part, Call) and part.name == "IS NULL" and isinstance(part.operands[0], InputRef):
        column = part.operands[0]
        return column.index, literal(None, column.type)
    return constant_of(part)


def _projected(relation: Project) -> dict[int, Literal]:
    below = constants(relation.input)
    known = {}
    for position, rex in enumerate(relation.expressions):
        value = rex.operands[0] if isinstance(rex, Call) and rex.name == "CAST" else rex
        if isinstance(value, InputRef) and value.index in below and value is rex:
            known[position] = below[value.index]
        elif isinstance(value, Literal) and value.value is not None:
            known[position] = value
    return known
