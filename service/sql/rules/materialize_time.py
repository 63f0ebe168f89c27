"""Make plain times of time attributes where they are values.

    before   Aggregate[k; MAX(ts)](Project[k, ts](s))               ts is event time
    after    Aggregate[k; MAX(ts)](Project[k, CAST(ts) AS ts](s))

A time attribute passes projections and joins by intervals as it is; what computes with it, groups
by it or aggregates it takes its value. So does what reads the version that a temporal join found:
the time of a joined row is that of the left.

Source: Flink `RelTimeIndicatorConverter` (2.3).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef, Rex
from service.sql.algebra import (
    Aggregate,
    Filter,
    Join,
    Project,
    Relation,
    VersionJoin,
    inputs,
    with_inputs,
)
from service.sql.intervals import window_bounds
from service.sql.rex import call, cast, ref, rewrite, type_of
from service.sql.types import regular
from service.sql.window_columns import joined_windows, window_columns
from service.sql.window_relations import GroupWindows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.types import LogicalType


def materialize_time(relation: Relation) -> Relation:
    """The relation with times as values where values are needed."""
    below = tuple(materialize_time(each) for each in inputs(relation))
    made = with_inputs(relation, below)
    if isinstance(made, Join) and made.condition is not None:
        # What has become a value below bounds no time here.
        types = made.left.row.types + made.right.row.types
        made = replace(made, condition=_typed(made.condition, types))
    match made:
        case Project():
            types = made.input.row.types
            expressions = [_inside(_typed(rex, types)) for rex in made.scalars]
            return replace(made, expressions=tuple(expressions))
        case Filter():
            condition = _inside(_typed(made.condition, made.input.row.types))
            return replace(made, condition=condition)
        case Join() if window_bounds(made) is None and joined_windows(made) is None:
            left, right = (_columns(side, range(len(side.row))) for side in below)
            types = left.row.types + right.row.types
            on = None if made.condition is None else _typed(made.condition, types)
            return replace(made, left=left, right=right, condition=on)
        case VersionJoin():
            width = len(made.left.row)
            return _columns(made, range(width, len(made.row)))
        case GroupWindows():
            used = {each for part in made.calls for each in part.arguments} | set(made.grouping)
            used.discard(made.spec.time_column)
            return with_inputs(made, (_columns(made.input, used),))
        case Aggregate():
            used = {each for part in made.calls for each in part.arguments}
            if not groups_windows(made):
                used |= set(made.grouping)
            return with_inputs(made, (_columns(made.input, used),))
        case _:
            return made


def groups_windows(aggregate: Aggregate) -> bool:
    """Whether there is a row for each window: times among the groups are those of windows."""
    windows = window_columns(aggregate.input)
    return windows is not None and windows.bound(aggregate.grouping)


def value_of(rex: Rex) -> Rex:
    """A time as a value; anything else as it is."""
    kind = type_of(rex)
    if kind.time_attribute is None:
        return rex
    if kind.time_attribute == "PROCTIME":
        return call("PROCTIME_MATERIALIZE", [rex], regular(kind))
    return cast(rex, regular(kind))


def _inside(rex: Rex) -> Rex:
    """An expression whose operands are values; a bare column stays."""
    if not isinstance(rex, Call) or type_of(rex).time_attribute is not None:
        return rex
    if rex.name == "PROCTIME_MATERIALIZE" or (rex.name == "CAST" and _is_time(rex)):
        return rex
    return rewrite(rex, lambda column: value_of(column))


def _typed(rex: Rex, types: Sequence[LogicalType]) -> Rex:
    """The expression over times that have become values below."""

    def typed(column: Rex) -> Rex:
        if not isinstance(column, InputRef) or column.type.time_attribute is None:
            return column
        given = types[column.index]
        return column if given.time_attribute is not None else replace(column, type=given)

    return rewrite(rex, typed) if isinstance(rex, (Call, InputRef)) else rex


def _is_time(rex: Call) -> bool:
    operand = rex.operands[0]
    return isinstance(operand, InputRef) and operand.type.time_attribute is not None


def _columns(relation: Relation, used: set[int] | range) -> Relation:
    """The relation with these columns as values."""
    row = relation.row
    times = [index for index in used if row.types[index].time_attribute is not None]
    if not times:
        return relation
    if isinstance(relation, Project):
        columns = tuple(
            value_of(rex) if index in times else rex for index, rex in enumerate(relation.scalars)
        )
        return replace(relation, expressions=columns)
    made = tuple(
        value_of(ref(index, kind)) if index in times else ref(index, kind)
        for index, kind in enumerate(row.types)
    )
    return Project(relation, made, row.names)
