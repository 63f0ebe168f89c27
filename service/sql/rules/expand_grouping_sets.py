"""GROUPING SETS: repeat each row for each set, with the columns of other sets NULL.

    before   Aggregate[sets (k), (s); MAX(v)](Project[k, s, v](t))
    after    Project[k, s, m](Aggregate[k, s, $e; MAX(v)](Expand[(k), (s)](Project[k, s, v](t))))

What is grouped by and aggregated, too, is aggregated as it was: it comes once more. GROUPING and
GROUPING_ID follow from the number of the repetition; without sets they are 0.

Source: Flink `DecomposeGroupingSetsRule`, `ExpandUtil`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.sql.algebra import (
    Aggregate,
    Expand,
    Project,
    Relation,
    inputs,
    set_number,
    with_inputs,
)
from service.sql.rex import call, literal, ref
from service.sql.terms import GROUPING
from service.sql.types import BIGINT, BOOLEAN

if TYPE_CHECKING:
    from service.plan.rex import Rex
    from service.sql.terms import AggregateCall

_NUMBER = BIGINT.with_nullable(False)


def expand_grouping_sets(relation: Relation) -> Relation:
    """The relation without grouping sets."""
    below = tuple(expand_grouping_sets(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if not isinstance(made, Aggregate):
        return made
    calls = tuple(each for each in made.calls if each.function != GROUPING)
    if not made.sets:
        return made if len(calls) == len(made.calls) else _restored(made, calls, None)
    return _restored(made, calls, made.sets)


def _restored(
    made: Aggregate, calls: tuple[AggregateCall, ...], sets: tuple[frozenset[int], ...] | None
) -> Relation:
    """The aggregate's columns above one that has no sets and no GROUPING."""
    names = made.row.names[len(made.grouping) :]
    named = {id(each): name for each, name in zip(made.calls, names, strict=True)}
    inner = replace(made, calls=tuple(replace(each, name=named[id(each)]) for each in calls))
    width = len(made.grouping)
    number: int | None = None
    if sets is not None:
        inner = _expanded(inner, sets)
        number = width
    row = inner.row
    columns: list[Rex] = [ref(each, row.types[each]) for each in range(width)]
    place = len(inner.grouping)
    for each in made.calls:
        if each.function == GROUPING:
            columns.append(_grouping(each, made.grouping, sets or (), number))
        else:
            columns.append(ref(place, row.types[place]))
            place += 1
    return Project(inner, tuple(columns), made.row.names)


def _expanded(aggregate: Aggregate, sets: tuple[frozenset[int], ...]) -> Aggregate:
    """The aggregate over repeated rows."""
    read = {each for call in aggregate.calls for each in call.arguments}
    read |= {call.filter for call in aggregate.calls if call.filter is not None}
    varying = {each for each in aggregate.grouping if not all(each in chosen for chosen in sets)}
    copies = tuple(sorted(read & varying))
    expanded = Expand(aggregate.input, aggregate.grouping, sets, copies)
    number = len(aggregate.input.row)
    places = {each: number + 1 + at for at, each in enumerate(copies)}
    calls = tuple(each.over(lambda at: places.get(at, at)) for each in aggregate.calls)
    grouping = (*aggregate.grouping, number)
    return replace(aggregate, input=expanded, grouping=grouping, calls=calls, sets=())


def _grouping(
    each: AggregateCall,
    groups: tuple[int, ...],
    sets: tuple[frozenset[int], ...],
    number: int | None,
) -> Rex:
    """Which of the arguments a row of the result does not group by, the first one highest."""
    if number is None:
        return literal(0, _NUMBER)
    values = [literal(set_number(each.arguments, chosen), _NUMBER) for chosen in sets]
    is_set = BOOLEAN.with_nullable(False)
    operands: list[Rex] = []
    for chosen, value in zip(sets[:-1], values[:-1], strict=True):
        own = literal(set_number(groups, chosen), _NUMBER)
        operands += [call("=", [ref(number, _NUMBER), own], is_set), value]
    return call("CASE", [*operands, values[-1]], _NUMBER)
