"""Group by what differs from row to row; what is the same in each is written above.

    before   Aggregate[k, c; COUNT(*)](Project[k, 1 AS c](t))
    after    Project[k, 1 AS c, $f1](Aggregate[k; COUNT(*)](Project[k](t)))

One column is kept where all are constant: no columns would be one group that is always there.

Source: Calcite `AggregateProjectPullUpConstantsRule`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from operators.expressions.functions import FUNCTIONS
from service.plan.rex import Call, Literal
from service.sql.algebra import Aggregate, Project, Relation, inputs, with_inputs
from service.sql.rex import ref, type_of, walk
from service.sql.rules.propagate_constants import constants
from service.sql.window_relations import GroupWindows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.plan.rex import Rex
    from service.sql.rex import Expression


def pull_constants(relation: Relation) -> Relation:
    """The relation without constants in its groups."""
    below = tuple(pull_constants(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if isinstance(made, GroupWindows):
        return _without(made, _known(made))
    if not isinstance(made, Aggregate) or made.sets or len(made.grouping) < 2:
        return made
    return _without(made, _known(made))


def _known(aggregate: Aggregate | GroupWindows) -> dict[int, Rex]:
    """The columns of its groups that have one value in each row."""
    below = aggregate.input
    if not isinstance(below, Project):
        return {}
    kinds = below.row.types
    found: dict[int, Rex] = {
        at: value for at, value in constants(below).items() if value.type == kinds[at]
    }
    found |= {at: rex for at, rex in enumerate(below.scalars) if _is_fixed(rex)}
    return {at: found[at] for at in aggregate.grouping if at in found}


def _is_fixed(rex: Expression) -> bool:
    """Whether this is the same for each row, now and later."""
    parts = list(walk(rex))
    calls = [part for part in parts if isinstance(part, Call)]
    # What a condition ties a column to stays in its place where the column may be NULL.
    return (
        (_is_null(rex) or isinstance(rex, Literal) or not type_of(rex).nullable)
        and all(isinstance(part, (Call, Literal)) for part in parts)
        and all(each.name in FUNCTIONS and FUNCTIONS[each.name].is_pure for each in calls)
    )


def _is_null(rex: Expression) -> bool:
    return (
        isinstance(rex, Call)
        and rex.name == "CAST"
        and isinstance(rex.operands[0], Literal)
        and rex.operands[0].value is None
    )


def _without(aggregate: Aggregate | GroupWindows, known: Mapping[int, Rex]) -> Relation:
    if not known:
        return aggregate
    kept = tuple(at for at in aggregate.grouping if at not in known)
    if not kept and isinstance(aggregate, Aggregate):
        kept = (min(known),)
    made = _narrowed(replace(aggregate, grouping=kept), frozenset(known))
    row = made.row
    outputs: list[Rex] = []
    for at in aggregate.grouping:
        value = known.get(at)
        place = 0 if value is not None else kept.index(at)
        outputs.append(ref(place, row.types[place]) if value is None else value)
    outputs += [ref(at, row.types[at]) for at in range(len(kept), len(row))]
    return Project(made, tuple(outputs), aggregate.row.names)


def _narrowed(
    aggregate: Aggregate | GroupWindows, dropped: frozenset[int]
) -> Aggregate | GroupWindows:
    """The aggregate over a projection without the columns that nobody reads any more."""
    below = aggregate.input
    read = set(aggregate.grouping)
    for each in aggregate.calls:
        read |= {*each.arguments, *(() if each.filter is None else (each.filter,))}
    if isinstance(aggregate, GroupWindows):
        read.add(aggregate.spec.time_column)
    assert isinstance(below, Project), "constants are those of a projection"
    kept = [at for at in range(len(below.row)) if at in read or at not in dropped]
    if len(kept) == len(below.row) or not kept:
        return aggregate
    places = {old: new for new, old in enumerate(kept)}
    narrow = Project(
        below.input,
        tuple(below.expressions[at] for at in kept),
        tuple(below.names[at] for at in kept),
    )
    changed = replace(
        aggregate,
        input=narrow,
        grouping=tuple(places[at] for at in aggregate.grouping),
        calls=tuple(each.over(places.__getitem__) for each in aggregate.calls),
    )
    if isinstance(changed, GroupWindows):
        spec = replace(changed.spec, time_column=places[changed.spec.time_column])
        return replace(changed, spec=spec)
    return changed
