"""Taking OVER functions out of a projection: what they need below, what is computed above.

Below stand the input's columns in their order, then what must be computed; a computed column is
named by its position, as Flink names it.

Source: Calcite `ProjectToWindowRule` and `CalcRelSplitter`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from service.plan.rex import Call, InputRef, Rex
from service.sql.algebra import Filter, Project, Relation, Scan
from service.sql.rex import (
    Expression,
    Frame,
    OverCall,
    column_of,
    has_over,
    is_constant,
    ref,
    substitute,
    type_of,
    walk,
)
from service.sql.terms import Ordering

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@dataclass(frozen=True, slots=True)
class SplitOver:
    """OVER functions of one window, over columns of the input below."""

    calls: tuple[OverCall, ...]
    partition: tuple[int, ...]
    order: tuple[Ordering, ...]
    frame: Frame


@dataclass(frozen=True, slots=True)
class Split:
    """A projection without its OVER functions."""

    below: Relation
    overs: tuple[SplitOver, ...]
    outputs: tuple[Rex, ...]
    """The projection's expressions over the columns below; OVER functions are columns that follow
    those, in the order of `overs`."""


def split_over(project: Project, *, merges: bool) -> Split:
    """What a projection with OVER functions needs below, and its windows.

    Args:
        project: The projection.
        merges: Whether it may take a projection below into itself.
    """
    project = _merged(project) if merges else project
    below, place = _below(project, narrows=not merges and _computes_above(project))

    def moved(rex: Expression) -> Rex:
        assert not isinstance(rex, OverCall), "an OVER function inside of another"
        if rex in place:
            return ref(place[rex], type_of(rex))
        if isinstance(rex, Call):
            return replace(rex, operands=tuple(map(moved, rex.operands)))
        return rex

    calls = list(dict.fromkeys(over for rex in project.expressions for over in _overs(rex)))
    windows: dict[tuple[object, ...], list[OverCall]] = {}
    for each in calls:
        windows.setdefault((each.partition, each.order, each.frame), []).append(each)
    made = tuple(_window(group, moved) for group in windows.values())
    ordered = [each for group in windows.values() for each in group]
    width = len(below.row)
    positions = {each: width + position for position, each in enumerate(ordered)}

    def above(rex: Expression) -> Rex:
        if isinstance(rex, OverCall):
            return ref(positions[rex], rex.type)
        if rex in place:
            return ref(place[rex], type_of(rex))
        if isinstance(rex, Call):
            return replace(rex, operands=tuple(map(above, rex.operands)))
        return rex

    return Split(below, made, tuple(above(rex) for rex in project.expressions))


def _window(group: list[OverCall], moved: Callable[[Expression], Rex]) -> SplitOver:
    first = group[0]
    calls = tuple(replace(each, operands=tuple(map(moved, each.operands))) for each in group)
    order = tuple(
        Ordering(column_of(moved(key.expression)), key.is_ascending, key.nulls_last)
        for key in first.order
    )
    partition = tuple(sorted(column_of(moved(each)) for each in first.partition))
    return SplitOver(calls, partition, order, first.frame)


def _merged(project: Project) -> Project:
    """One projection of two, unless the upper one adds OVER functions to a table's own columns."""
    inner = project.input
    if not isinstance(inner, Project) or has_over(inner.expressions):
        return project
    plain = [rex for rex in project.expressions if not has_over([rex])]
    every = [ref(index, kind) for index, kind in enumerate(inner.row.types)]
    if plain == every and _is_of_table(inner):
        return project
    expressions = tuple(substitute(rex, inner.expressions) for rex in project.expressions)
    return Project(inner.input, expressions, project.names)


def _is_of_table(project: Project) -> bool:
    """Whether a projection only gives a table's columns, computed ones among them."""
    below = project.input
    while isinstance(below, Filter):
        below = below.input
    if not isinstance(below, Scan):
        return False
    return project.names == tuple(column.name for column in below.table.columns)


def _computes_above(project: Project) -> bool:
    """Whether an OVER function is inside of an expression, or has constants."""
    overs = [over for rex in project.expressions for over in _overs(rex)]
    is_bare = all(isinstance(rex, (OverCall, InputRef)) for rex in project.expressions)
    return not is_bare or any(_stays(over, each) for over in overs for each in over.operands)


def _below(project: Project, *, narrows: bool) -> tuple[Relation, dict[Expression, int]]:
    """The input's columns that are used, then what must be computed; and where each is."""
    row = project.input.row
    computed = [rex for rex in _needed(project) if not isinstance(rex, InputRef)]
    computed = list(dict.fromkeys(computed))
    rests = [rex for rex in _needed(project) if isinstance(rex, InputRef)]
    used = sorted({rex.index for rex in rests})
    is_plain = not computed and not narrows
    if is_plain:
        used = list(range(len(row)))
    columns: list[Expression] = [ref(index, row.types[index]) for index in used]
    columns += computed
    place = {rex: position for position, rex in enumerate(columns)}
    if is_plain:
        return project.input, place
    names = [row.names[index] for index in used]
    names += [f"${len(used) + position}" for position in range(len(computed))]
    return Project(project.input, tuple(columns), tuple(names)), place


def _needed(project: Project) -> Iterator[Expression]:
    """Columns and computed expressions that must be there before the OVER functions."""
    for rex in project.expressions:
        if not has_over([rex]):
            if not is_constant(rex):
                yield rex
            continue
        for over in _overs(rex):
            yield from (each for each in over.operands if not _stays(over, each))
            yield from (key.expression for key in over.order)
            yield from over.partition
        yield from _beside(rex)


def _stays(over: OverCall, operand: Expression) -> bool:
    """Whether an operand is a constant of the node: how far LAG or LEAD goes, and its default."""
    return over.name in ("LAG", "LEAD") and is_constant(operand)


def _beside(rex: Expression) -> Iterator[Expression]:
    """The columns that an expression reads outside of its OVER functions."""
    if isinstance(rex, InputRef):
        yield rex
    elif isinstance(rex, Call):
        for operand in rex.operands:
            yield from _beside(operand)


def _overs(rex: Expression) -> list[OverCall]:
    return [part for part in walk(rex) if isinstance(part, OverCall)]
