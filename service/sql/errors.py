"""What can be wrong with SQL, always with its place.

SqlError
├── SqlSyntaxError     the text is no statement
├── SqlTooLarge        the text is longer, or nested deeper, than allowed
├── SqlTimeout         planning takes longer than it may
├── UnsupportedSql     a statement, clause or function that we do not plan, by its name
├── ValidationError    a statement that means nothing: an unknown name, types that do not fit
└── PlanningError      a statement that has a meaning but no streaming plan
"""

from __future__ import annotations

import difflib
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the text of a script; both count from 1."""

    line: int
    column: int


class SqlError(ValueError):
    """Something is wrong with SQL text."""

    code = "sql"

    def __init__(self, message: str, position: Position | None = None, *, hint: str = "") -> None:
        self.reason = message
        self.position = position
        self.hint = hint
        super().__init__(self._text())

    def _text(self) -> str:
        text = self.reason
        if self.position is not None:
            text = f"line {self.position.line}, column {self.position.column}: {text}"
        return f"{text} ({self.hint})" if self.hint else text

    def __str__(self) -> str:
        return self._text()


class SqlSyntaxError(SqlError):
    """The text is no statement."""

    code = "sql.syntax"


class SqlTooLarge(SqlError):
    """The text is longer, or nested deeper, than allowed."""

    code = "sql.too-large"


class SqlTimeout(SqlError):
    """Planning takes longer than it may."""

    code = "sql.timeout"


class UnsupportedSql(SqlError):
    """A statement, clause or function that we do not plan."""

    code = "sql.unsupported"


class ValidationError(SqlError):
    """A statement that means nothing: an unknown name, types that do not fit, ..."""

    code = "sql.invalid"


class PlanningError(SqlError):
    """A statement that has a meaning but no streaming plan."""

    code = "sql.planning"


@contextmanager
def placed(position: Position) -> Iterator[None]:
    """Give an error that knows no place this one; too deep a recursion is one, too.

    Raises:
        SqlError: As from inside, with a place; `SqlTooLarge` for too deep a recursion.
    """
    try:
        yield
    except SqlError as problem:
        if problem.position is None:
            problem.position = position
        raise
    except RecursionError as problem:
        raise SqlTooLarge(
            "the statement is nested too deeply",
            position,
            hint="split it over views and statements",
        ) from problem


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint with the known name that is most like this one; empty if none is.

    >>> nearest("oder_id", ["order_id", "num"])
    'did you mean order_id?'
    """
    names = list(known)
    found = [each for each in names if each.lower() == name.lower()]
    found = found or difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {found[0]}?" if found else ""
