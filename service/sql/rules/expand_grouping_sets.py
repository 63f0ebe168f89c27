"""GROUPING SETS: repeat each row for each set, with the columns of other sets NULL.

    before   Aggregate[sets (k), (s); MAX(v)](Project[k, s, v](t))
    after    Project[k, s, m](Aggregate[k, s, $e; MAX(v)](Expand[(k), (s)](Project[k, s, v](t))))

GROUPING(k) is no aggregate: the number of the set says whether a row's set has the column.

Source: Flink `DecomposeGroupingSetsRule`, `ExpandUtil`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.sql.algebra import Aggregate, Expand, Project, Relation, inputs, with_inputs
from service.sql.rex import call, literal, ref
from service.sql.types import BIGINT, BOOLEAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.plan.rex import Rex

_NUMBER = BIGINT.with_nullable(False)


def expand_grouping_sets(relation: Relation) -> Relation:
    """The relation without grouping sets."""
    below = tuple(expand_grouping_sets(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if not isinstance(made, Aggregate):
        return made
    asks = any(each.function == "GROUPING" for each in made.calls)
    if not made.sets and not asks:
        return made
    width = len(made.grouping)
    row = made.row
    calls = tuple(
        replace(each, name=row.names[width + at]) if asks else each
        for at, each in enumerate(made.calls)
        if each.function != "GROUPING"
    )
    if made.sets:
        expanded = Expand(made.input, made.grouping, made.sets)
        numbers, number = expanded.numbers(), len(made.input.row)
        grouping = (*made.grouping, number)
        inner = replace(made, input=expanded, grouping=grouping, calls=calls, sets=())
    else:
        inner, numbers = replace(made, calls=calls), []
    shown = inner.row
    columns: list[Rex] = [ref(each, shown.types[each]) for each in range(width)]
    place = len(inner.grouping)
    for each in made.calls:
        if each.function == "GROUPING":
            columns.append(_grouping(each.arguments, made.sets, numbers, width))
        else:
            columns.append(ref(place, shown.types[place]))
            place += 1
    return Project(inner, tuple(columns), row.names)


def _grouping(
    asked: Sequence[int], sets: Sequence[frozenset[int]], numbers: Sequence[int], column: int
) -> Rex:
    """A bit for each column that is asked for, the first one highest: set if a row's set lacks it.

    Args:
        asked: Positions among the grouping columns.
        sets: The sets; none: every row has all columns.
        numbers: What the number of a row's set is, for each set.
        column: Of the aggregate, with that number.
    """
    values = [
        sum(1 << (len(asked) - 1 - at) for at, each in enumerate(asked) if each not in chosen)
        for chosen in sets
    ] or [0]
    parts: list[Rex] = []
    for number, value in zip(numbers[:-1], values, strict=False):
        is_set: list[Rex] = [ref(column, _NUMBER), literal(number, _NUMBER)]
        parts += [call("=", is_set, BOOLEAN.with_nullable(False)), literal(value, _NUMBER)]
    last = literal(values[-1], _NUMBER)
    return call("CASE", [*parts, last], _NUMBER) if parts else last
