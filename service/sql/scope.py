"""The names that an expression may use: the columns of what stands in FROM."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from service.plan.rex import CorrelVariable, FieldAccess, InputRef, Rex
from service.sql.coercion import as_branch
from service.sql.errors import UnsupportedSql, ValidationError, nearest
from service.sql.rex import call, ref, type_of
from service.sql.types import common_type
from state.types import row_type

if TYPE_CHECKING:
    from service.sql.errors import Position
    from service.sql.terms import Row

OUTER = "outer"
"""Name of the row of the query around a subquery, until the subquery has become a join."""


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of FROM."""

    alias: str
    row: Row
    offset: int
    """Position of its first column in the row of the whole FROM."""
    hidden: frozenset[int] = frozenset()
    """Columns that USING or NATURAL merged: only a qualified name finds them here."""


@dataclass(frozen=True, slots=True)
class Merged:
    """One column made of those of the same name of both sides of a join."""

    name: str
    places: tuple[int, ...]
    """Positions in the row of the whole FROM: the first of them that is not NULL counts."""


@dataclass(frozen=True)
class Scope:
    """The sources of a query, and of the query around it."""

    sources: tuple[Source, ...]
    outer: Scope | None = None
    merged: tuple[Merged, ...] = ()
    """In the order in which `*` shows them, before all other columns."""

    @cached_property
    def _columns(self) -> dict[str, list[tuple[Source, int]]]:
        """The columns of each name, with their sources: tables may have thousands."""
        found: dict[str, list[tuple[Source, int]]] = {}
        for source in self.sources:
            for index, name in enumerate(source.row.names):
                found.setdefault(name, []).append((source, index))
        return found

    def resolve(self, parts: tuple[str, ...], position: Position) -> Rex:
        """The column, or field of a column, that a dotted name means.

        Raises:
            ValidationError: There is none, or more than one.
        """
        found = self._find(parts, position)
        if found is not None:
            return found
        if self.outer is not None:
            around = self.outer._find(parts, position)
            if around is not None:
                return self._correlated(around, self.outer, position)
        raise self._unknown(parts, position)

    def star(self, alias: str | None, position: Position) -> list[tuple[Rex, str]]:
        """What `*` or `alias.*` stands for: columns and names.

        Raises:
            ValidationError: There is no source of this alias.
        """
        chosen = [each for each in self.sources if alias is None or each.alias == alias]
        if not chosen:
            raise self._unknown((alias or "*", "*"), position)
        merged = () if alias is not None else self.merged
        return [(self._merged(each), each.name) for each in merged] + [
            (ref(source.offset + index, source.row.types[index]), name)
            for source in chosen
            for index, name in enumerate(source.row.names)
            if alias is not None or index not in source.hidden
        ]

    def _merged(self, merged: Merged) -> Rex:
        """A merged column, of the type that its parts have by now: joins above may add NULL."""
        row = [each for source in self.sources for each in source.row.types]
        begin = self.sources[0].offset
        parts: list[Rex] = [ref(place, row[place - begin]) for place in merged.places]
        if len(parts) == 1:
            return parts[0]
        made = common_type([type_of(each) for each in parts])
        assert made is not None, "columns that are merged were compared"
        kept = made.with_nullable(all(type_of(each).nullable for each in parts))
        return call("COALESCE", [as_branch(each, made) for each in parts], kept)

    def _find(self, parts: tuple[str, ...], position: Position) -> Rex | None:
        """The column by its own name, by `alias.name`, or a field of one of these."""
        for qualified in (True, False):
            if qualified and len(parts) == 1:
                continue
            alias = parts[0] if qualified else None
            path = parts[1:] if qualified else parts
            matches = [
                (source, index)
                for source, index in self._columns.get(path[0], ())
                if (alias is None or source.alias == alias)
                and (qualified or index not in source.hidden)
            ]
            merged = [each for each in self.merged if not qualified and each.name == path[0]]
            if len(matches) + len(merged) > 1:
                raise ValidationError(f"column {'.'.join(parts)!r} is ambiguous", position)
            if merged:
                column = self._merged(merged[0])
                return fields(column, path[1:], position)
            if matches:
                source, index = matches[0]
                column = ref(source.offset + index, source.row.types[index])
                return fields(column, path[1:], position)
        return None

    def _correlated(self, around: Rex, outer: Scope, position: Position) -> Rex:
        if not isinstance(around, InputRef):
            raise UnsupportedSql(
                "a subquery may name whole columns of the query around it, no field of a row and "
                "no column that USING or NATURAL made of two",
                position,
            )
        names = [str(place) for place in range(sum(len(each.row) for each in outer.sources))]
        types = [each for source in outer.sources for each in source.row.types]
        variable = CorrelVariable(OUTER, row_type(tuple(names), tuple(types)), "")
        return FieldAccess(str(around.index), variable, "")

    def _unknown(self, parts: tuple[str, ...], position: Position) -> ValidationError:
        known = [name for source in self.sources for name in source.row.names]
        known += [source.alias for source in self.sources]
        return ValidationError(
            f"Column '{'.'.join(parts)}' not found in any table",
            position,
            hint=nearest(parts[-1], known),
        )


def fields(column: Rex, path: tuple[str, ...], position: Position) -> Rex:
    """A field inside a value of type ROW; the value itself if the path is empty.

    Raises:
        ValidationError: There is none.
    """
    logical = type_of(column)
    for name in path:
        if name not in logical.field_names:
            raise ValidationError(
                f"no field {name!r}", position, hint=nearest(name, logical.field_names)
            )
        column = FieldAccess(name, column, "")
        logical = logical.children[logical.field_names.index(name)]
    return column
