"""The statements that a script may have, as far as they are known without a catalogue.

Queries stay text here, with their place: they are read when they are bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from service.sql.cursor import Cursor
    from service.sql.errors import Position
    from service.sql.source_text import Fragment

ConflictBehavior = Literal["DEDUPLICATE", "ERROR", "NOTHING"]
ExplainDetail = Literal["CHANGELOG_MODE", "ESTIMATED_COST", "PLAN_ADVICE"]
ShowKind = Literal[
    "TABLES",
    "VIEWS",
    "CATALOGS",
    "DATABASES",
    "CURRENT CATALOG",
    "CURRENT DATABASE",
    "CREATE TABLE",
    "CREATE VIEW",
    "COLUMNS",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What stands in a script."""

    position: Position
    """Of its first word."""


@dataclass(frozen=True, slots=True)
class SetOption(Placed):
    """SET 'key' = 'value'."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class ListOptions(Placed):
    """SET without a key: the options that are set."""


@dataclass(frozen=True, slots=True)
class ResetOption(Placed):
    """RESET ['key']; None: all of them."""

    key: str | None


@dataclass(frozen=True, slots=True)
class CreateTable(Placed):
    """CREATE [TEMPORARY] TABLE; `body` is what follows the name."""

    names: tuple[str, ...]
    body: Cursor
    is_temporary: bool
    if_absent: bool

    @property
    def may_copy(self) -> bool:
        """Whether it may say LIKE, so that it means what it does beside other tables only."""
        return any(str(token.text).upper() == "LIKE" for token in self.body.tokens)


@dataclass(frozen=True, slots=True)
class CreateView(Placed):
    """CREATE [TEMPORARY] VIEW name [(columns)] AS query."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    query: Fragment
    is_temporary: bool
    if_absent: bool


@dataclass(frozen=True, slots=True)
class Drop(Placed):
    """DROP [TEMPORARY] TABLE | VIEW."""

    kind: Literal["TABLE", "VIEW"]
    names: tuple[str, ...]
    if_exists: bool


@dataclass(frozen=True, slots=True)
class Insert(Placed):
    """INSERT INTO t [hint] [(columns)] query [ON CONFLICT DO behavior]."""

    names: tuple[str, ...]
    hint: Fragment | None
    """OPTIONS of the table, for this statement."""
    columns: tuple[str, ...]
    query: Fragment
    conflict: ConflictBehavior | None


@dataclass(frozen=True, slots=True)
class Query(Placed):
    """A SELECT whose rows nobody takes: only to be explained."""

    query: Fragment


@dataclass(frozen=True, slots=True)
class CompilePlan(Placed):
    """COMPILE [AND EXECUTE] PLAN 'uri' [IF NOT EXISTS] FOR inserts."""

    uri: str
    if_absent: bool
    inserts: tuple[Insert, ...]
    executes: bool


@dataclass(frozen=True, slots=True)
class ExecuteInserts(Placed):
    """An INSERT by itself, or a statement set."""

    inserts: tuple[Insert, ...]


@dataclass(frozen=True, slots=True)
class ExecutePlan(Placed):
    """EXECUTE PLAN 'uri'."""

    uri: str


@dataclass(frozen=True, slots=True)
class Show(Placed):
    """SHOW ..: what there is, or how one table or view was declared."""

    what: ShowKind
    names: tuple[str, ...]
    """The table or view; empty where the statement is about all of them."""
    pattern: str | None
    """LIKE: `%` is any text, `_` any character."""
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Describe(Placed):
    """DESCRIBE [EXTENDED] table or view; DESC."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explain(Placed):
    """EXPLAIN [details] [PLAN FOR] inserts, query or CREATE TABLE .. AS; or of a plan's 'uri'."""

    details: frozenset[ExplainDetail]
    subjects: tuple[Insert, ...] | tuple[Query] | tuple[CreateTable]
    """Empty where a plan is explained."""
    uri: str | None


Statement: TypeAlias = (
    SetOption
    | ListOptions
    | ResetOption
    | CreateTable
    | CreateView
    | Drop
    | CompilePlan
    | ExecuteInserts
    | ExecutePlan
    | Show
    | Describe
    | Explain
)
