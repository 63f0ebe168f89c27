"""Write what aggregates to JSON take as JSON, in a column of its own.

    before   Aggregate[k; JSON_ARRAYAGG(v)](t)
    after    Aggregate[k; JSON_ARRAYAGG($f2)](Project[k, v, JSON_STRING(v) AS $f2](t))

The columns that were there stay, as in Flink's plans, also those that nobody reads any more.

Source: Flink `WrapJsonAggFunctionArgumentsRule` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.sql import types
from service.sql.algebra import Aggregate, Project, Relation, inputs, with_inputs
from service.sql.functions import AGGREGATE_FUNCTIONS
from service.sql.rex import call, ref
from service.sql.window_relations import GroupWindows

if TYPE_CHECKING:
    from service.sql.terms import AggregateCall
    from state.types import LogicalType


def wrap_json_arguments(relation: Relation) -> Relation:
    """The relation whose aggregates to JSON take JSON."""
    below = tuple(wrap_json_arguments(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if isinstance(made, (Aggregate, GroupWindows)) and any(map(_is_json, made.calls)):
        return _wrapped(made)
    return made


def _is_json(each: AggregateCall) -> bool:
    found = AGGREGATE_FUNCTIONS.get(each.function)
    return found is not None and found.kind == "json"


def _wrapped(aggregate: Aggregate | GroupWindows) -> Relation:
    row = aggregate.input.row
    columns = list(dict.fromkeys(each.arguments[-1] for each in aggregate.calls if _is_json(each)))
    places = {column: len(row) + at for at, column in enumerate(columns)}
    texts = [
        call("JSON_STRING", [ref(each, row.types[each])], _text(each, aggregate))
        for each in columns
    ]
    below = Project(
        aggregate.input,
        (*(ref(at, row.types[at]) for at in range(len(row))), *texts),
        (*row.names, *(f"$f{place}" for place in places.values())),
    )
    calls = tuple(
        replace(each, arguments=(*each.arguments[:-1], places[each.arguments[-1]]))
        if _is_json(each)
        else each
        for each in aggregate.calls
    )
    return replace(aggregate, input=below, calls=calls)


def _text(column: int, aggregate: Aggregate | GroupWindows) -> LogicalType:
    return types.STRING.with_nullable(aggregate.input.row.types[column].nullable)
