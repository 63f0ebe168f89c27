"""Pieces of a script that know where they stand in it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

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

    def part(self, start: int, end: int) -> Fragment:
        """The characters from one offset up to another."""
        return Fragment(self.script, self.start + start, self.start + end)

    def position(self, offset: int = 0) -> Position:
        """The place in the script of a character of this fragment."""
        at = self.start + offset
        starts = _line_starts(self.script)
        line = bisect_right(starts, at)
        return Position(line, at - starts[line - 1] + 1)


@lru_cache(maxsize=4)
def _line_starts(script: str) -> list[int]:
    """Where each line begins. Every name that is bound asks for its place, so it is kept."""
    starts = [0]
    while (found := script.find("\n", starts[-1])) >= 0:
        starts.append(found + 1)
    return starts
