"""Subqueries that compare columns of their own with columns around them.

For equality alone, the subquery's columns say for which rows around it there are some of its own.
Otherwise it is joined with the distinct values that the rows around it have.

Source: Calcite `RelDecorrelator`, with its value generator (Flink 2.3). There a NULL around the
query meets nothing even if the condition is true of it; such conditions are refused here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from service.plan.rex import Call, CorrelVariable, FieldAccess, InputRef, Literal, Rex
from service.sql import types
from service.sql.algebra import Aggregate, Filter, Join, Project, Relation
from service.sql.binder.subqueries import correlates, has_outer
from service.sql.rex import OPPOSITES, call, conjunction, conjuncts, ref, type_of, walk

if TYPE_CHECKING:
    from collections.abc import Mapping

_STRICT = ("+", "-", "*", "/", "MOD", "CAST")
"""NULL of NULL."""


class Keys(NamedTuple):
    """A query without what it says of the row around it, and that."""

    relation: Relation
    own: tuple[InputRef, ...]
    """Columns of it."""
    outer: tuple[Rex, ...]
    """What each of them must be equal to."""


def correlated_keys(relation: Relation) -> Keys | None:
    """The keys by which a filter chooses rows for a row around it; None if it chooses otherwise."""
    if not isinstance(relation, Filter) or correlates(relation.input):
        return None
    pairs: dict[InputRef, Rex] = {}
    kept: list[Rex] = []
    for part in conjuncts(relation.condition):
        pair = _pair(part)
        if pair is not None and pairs.setdefault(*pair) == pair[1]:
            continue
        if has_outer(part):
            return None
        kept.append(part)
    keys = sorted(pairs, key=lambda each: each.index)
    made = types.BOOLEAN.with_nullable(False)
    kept += [call("IS NOT NULL", [each], made) for each in keys if each.type.nullable]
    condition = conjunction(kept)
    below = relation.input if condition is None else Filter(relation.input, condition)
    return Keys(below, tuple(keys), tuple(pairs[each] for each in keys))


def correlated_values(left: Relation, relation: Relation) -> Keys | None:
    """The values around a query for which its filter finds rows; None if NULL may be one."""
    if not isinstance(relation, Filter) or correlates(relation.input):
        return None
    parts = [part for part in conjuncts(relation.condition) if has_outer(part)]
    if not parts or not all(map(_is_null_of_null, parts)):
        return None
    read = {int(each.name): type_of(each) for part in parts for each in _outer_columns(part)}
    outer = tuple(ref(at, read[at]) for at in sorted(read))
    names = tuple(left.row.names[each.index] for each in outer)
    every = tuple(range(len(outer)))
    values = Aggregate(Project(left, outer, names), every, ())
    width = len(relation.input.row)
    places = {each.index: ref(width + at, each.type) for at, each in enumerate(outer)}
    joined = Join(relation.input, values, "INNER", None)
    found = Filter(joined, _placed(relation.condition, places))
    return Keys(found, tuple(places.values()), outer)


def _is_null_of_null(part: Rex) -> bool:
    """Whether a condition compares computed values, so that it is not true where one is NULL."""
    return (
        isinstance(part, Call)
        and part.name in OPPOSITES
        and all(
            isinstance(each, (InputRef, CorrelVariable, Literal))
            or (isinstance(each, FieldAccess) and isinstance(each.expression, CorrelVariable))
            or (isinstance(each, Call) and each.name in _STRICT)
            for operand in part.operands
            for each in walk(operand)
        )
    )


def _outer_columns(part: Rex) -> list[FieldAccess]:
    return [each for each in walk(part) if isinstance(each, FieldAccess)]


def _placed(rex: Rex, places: Mapping[int, Rex]) -> Rex:
    """A condition with the outer columns where they are now."""
    if isinstance(rex, FieldAccess) and isinstance(rex.expression, CorrelVariable):
        return places[int(rex.name)]
    if isinstance(rex, Call):
        return replace(rex, operands=tuple(_placed(each, places) for each in rex.operands))
    return rex


def _pair(part: Rex) -> tuple[InputRef, Rex] | None:
    """A column of the subquery, and the one around it that it is equal to."""
    if not isinstance(part, Call) or part.name != "=":
        return None
    for own, other in (part.operands, part.operands[::-1]):
        is_outer = isinstance(other, FieldAccess) and isinstance(other.expression, CorrelVariable)
        if isinstance(own, InputRef) and is_outer and isinstance(other, FieldAccess):
            return own, ref(int(other.name), type_of(other))
    return None
