"""Unique keys of relations: column sets of which no two rows have the same values.

Source: Flink `FlinkRelMdUniqueKeys` (2.3), for what rules ask before nodes are chosen.
"""

from __future__ import annotations

from service.plan.rex import InputRef
from service.sql.algebra import Aggregate, Filter, Join, Project, Relation, Scan, Sort, Watermark
from service.sql.join_keys import equal_columns
from service.sql.rex import conjuncts
from service.sql.window_relations import GroupWindows, Rank

Keys = frozenset[frozenset[int]]


def unique_keys(relation: Relation) -> Keys:
    """The unique keys that are known."""
    match relation:
        case Scan():
            names = relation.row.names
            key = relation.table.primary_key
            return frozenset({frozenset(names.index(each) for each in key)} if key else ())
        case Filter() | Watermark() | Sort():
            return unique_keys(relation.input)
        case Rank():
            keys = unique_keys(relation.input)
            is_one = relation.range.start == relation.range.end == 1
            return keys | {frozenset(relation.partition)} if is_one else keys
        case Project():
            return _projected(relation)
        case Join():
            return _joined(relation)
        case Aggregate() if not relation.sets:
            return frozenset({frozenset(range(len(relation.grouping)))})
        case GroupWindows():
            return _windowed(relation)
        case _:
            return frozenset()


def _windowed(relation: GroupWindows) -> Keys:
    """A group, with anything that tells of its window."""
    groups = range(len(relation.grouping))
    told = range(len(relation.grouping) + len(relation.calls), len(relation.row))
    return frozenset(frozenset((*groups, each)) for each in told)


def _joined(join: Join) -> Keys:
    """The keys of a side, if each of its rows meets one row of the other at most."""
    if join.condition is None or join.kind not in ("INNER", "LEFT"):
        return unique_keys(join.left) if join.kind in ("SEMI", "ANTI") else frozenset()
    width = len(join.left.row)
    pairs, _ = equal_columns(list(conjuncts(join.condition)), width)
    keys: Keys = frozenset()
    if is_unique(join.right, frozenset(right for _, right in pairs)):
        keys |= unique_keys(join.left)
    if join.kind == "INNER" and is_unique(join.left, frozenset(left for left, _ in pairs)):
        keys |= {frozenset(width + each for each in key) for key in unique_keys(join.right)}
    return keys


def is_unique(relation: Relation, columns: frozenset[int]) -> bool:
    """Whether no two rows have the same values in these columns."""
    return any(key <= columns for key in unique_keys(relation))


def _projected(relation: Project) -> Keys:
    places: dict[int, int] = {}
    for position, rex in enumerate(relation.expressions):
        if isinstance(rex, InputRef):
            places.setdefault(rex.index, position)
    return frozenset(
        frozenset(places[each] for each in key)
        for key in unique_keys(relation.input)
        if all(each in places for each in key)
    )
