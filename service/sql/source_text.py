"""Pieces of a script that know where they stand in it."""

from __future__ import annotations

from dataclasses import dataclass

from service.sql.errors import Position


@dataclass(frozen=True, slots=True)
class Fragment:
    """A run of a script's text."""

    script: str
    start: int
    end: int

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.script[self.start : self.end]

    def position(self, offset: int = 0) -> Position:
        """The place in the script of a character of this fragment."""
        before = self.script[: self.start + offset]
        return Position(before.count("\n") + 1, len(before) - before.rfind("\n"))
