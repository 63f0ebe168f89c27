"""Subqueries that compare columns of their own with columns around them, for equality only."""

from __future__ import annotations

from typing import NamedTuple

from service.plan.rex import Call, CorrelVariable, FieldAccess, InputRef, Rex
from service.sql import types
from service.sql.algebra import Filter, Relation
from service.sql.binder.subqueries import correlates, has_outer
from service.sql.rex import call, conjunction, conjuncts, ref, type_of


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


def _pair(part: Rex) -> tuple[InputRef, Rex] | None:
    """A column of the subquery, and the one around it that it is equal to."""
    if not isinstance(part, Call) or part.name != "=":
        return None
    for own, other in (part.operands, part.operands[::-1]):
        is_outer = isinstance(other, FieldAccess) and isinstance(other.expression, CorrelVariable)
        if isinstance(own, InputRef) and is_outer and isinstance(other, FieldAccess):
            return own, ref(int(other.name), type_of(other))
    return None
