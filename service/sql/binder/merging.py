"""USING and NATURAL: columns of the same name of both sides of a join become one.

    INNER, LEFT     the left side's
    RIGHT           the right side's
    FULL            the first that is not NULL, as it is where their types differ

Such a column is found by its plain name; those that it is made of, by qualified names. `*` shows
it once, and before all others.

Source: Calcite `JoinScope`, `SqlValidatorImpl.expandExprFromJoin`, and plans that Flink 2.3 wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from service.plan.rex import InputRef, Rex
from service.sql.coercion import as_comparable
from service.sql.errors import UnsupportedSql, ValidationError
from service.sql.rex import call, conjunction, type_of
from service.sql.scope import Merged, Scope, Source
from service.sql.types import BOOLEAN

if TYPE_CHECKING:
    from sqlglot import exp

    from service.sql.algebra import Relation
    from service.sql.errors import Position
    from service.sql.terms import JoinKind


@dataclass(frozen=True, slots=True)
class Bound:
    """What FROM gives: a relation, and the names of its columns."""

    relation: Relation
    sources: tuple[Source, ...]
    merged: tuple[Merged, ...] = ()

    @property
    def alias(self) -> str | None:
        """The one name of it; None for a join."""
        return self.sources[0].alias if len(self.sources) == 1 else None

    @property
    def aliases(self) -> frozenset[str]:
        """All names in it."""
        return frozenset(source.alias for source in self.sources)

    @property
    def scope(self) -> Scope:
        """Its columns by name."""
        return Scope(self.sources, merged=self.merged)


Joined = tuple["Rex | None", tuple[Source, ...], tuple[Merged, ...]]
"""The condition of a join, its sources with what was merged hidden, and what it was merged into."""


def merge(
    left: Bound, right: Bound, join: exp.Expression, kind: JoinKind, position: Position
) -> Joined:
    """What USING or NATURAL makes of the two sides.

    Raises:
        ValidationError: A side has no such column, or several, or they cannot be compared.
        UnsupportedSql: A column was merged by an outer join before.
    """
    parts: list[Rex] = []
    made: list[Merged] = []
    for name in _names(left, right, join, position):
        sides = [side.scope.resolve((name,), position) for side in (left, right)]
        pair = as_comparable(*sides)
        if pair is None:
            kinds = [type_of(side).root.name for side in sides]
            raise ValidationError(
                f"column {name!r} is {kinds[0]} on the left and {kinds[1]} on the right", position
            )
        nullable = any(type_of(side).nullable for side in pair)
        parts.append(call("=", pair, BOOLEAN.with_nullable(nullable)))
        made.append(Merged(name, _places(name, sides, kind, position)))
    names = {each.name for each in made}
    sources = tuple(_hidden(each, names) for each in (*left.sources, *right.sources))
    rest = [each for each in (*left.merged, *right.merged) if each.name not in names]
    return conjunction(parts), sources, (*made, *rest)


def _names(left: Bound, right: Bound, join: exp.Expression, position: Position) -> list[str]:
    """The columns that USING lists, or those that both sides have, in the left one's order."""
    if join.args.get("using"):
        return list(dict.fromkeys(column.name for column in join.args["using"]))
    if join.args.get("on") is not None:
        raise ValidationError("Cannot specify NATURAL keyword with ON or USING clause", position)
    names = {name for _, name in right.scope.star(None, position)}
    shown = [name for _, name in left.scope.star(None, position)]
    return list(dict.fromkeys(name for name in shown if name in names))


def _places(name: str, sides: list[Rex], kind: JoinKind, position: Position) -> tuple[int, ...]:
    found: list[int] = []
    for side in sides:
        if not isinstance(side, InputRef):
            raise UnsupportedSql(
                f"column {name!r} is merged twice, which is not supported after a FULL JOIN "
                "or for different types",
                position,
                hint="write the condition after ON",
            )
        found.append(side.index)
    same = type_of(sides[0]).with_nullable(True) == type_of(sides[1]).with_nullable(True)
    if kind == "FULL" or not same:
        return tuple(reversed(found)) if kind == "RIGHT" else tuple(found)
    return (found[1],) if kind == "RIGHT" else (found[0],)


def _hidden(source: Source, names: set[str]) -> Source:
    found = {index for index, name in enumerate(source.row.names) if name in names}
    return replace(source, hidden=source.hidden | found) if found else source
