"""The statements of a script, parsed as far as that goes without a catalogue.

A script is split at its semicolons, but for those between BEGIN and END. Queries stay text here,
with their place: they are read when they are bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from sqlglot.tokens import TokenType

from service.sql.cursor import Cursor
from service.sql.deadline import check_time
from service.sql.dialect import tokenize
from service.sql.errors import (
    Position,
    SqlSyntaxError,
    SqlTooLarge,
    UnsupportedSql,
    nearest,
    placed,
)
from service.sql.source_text import Fragment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlglot.tokens import Token

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
_OF_ALL: tuple[ShowKind, ...] = (
    "TABLES", "VIEWS", "CATALOGS", "DATABASES", "CURRENT CATALOG", "CURRENT DATABASE",
)  # fmt: skip
_OF_ONE: tuple[ShowKind, ...] = ("CREATE TABLE", "CREATE VIEW", "COLUMNS")
_WORDS = {word for what in (*_OF_ALL, *_OF_ONE) for word in what.split()}
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "(")
_DETAILS: tuple[ExplainDetail, ...] = ("CHANGELOG_MODE", "ESTIMATED_COST", "PLAN_ADVICE")


@dataclass(frozen=True, slots=True)
class SetOption:
    """SET 'key' = 'value'."""

    key: str
    value: str
    position: Position


@dataclass(frozen=True, slots=True)
class ListOptions:
    """SET without a key: the options that are set."""

    position: Position


@dataclass(frozen=True, slots=True)
class ResetOption:
    """RESET ['key']; None: all of them."""

    key: str | None
    position: Position


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE [TEMPORARY] TABLE; `body` is what follows the name."""

    names: tuple[str, ...]
    body: Cursor
    is_temporary: bool
    if_absent: bool
    position: Position


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [TEMPORARY] VIEW name [(columns)] AS query."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    query: Fragment
    is_temporary: bool
    if_absent: bool
    position: Position


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP [TEMPORARY] TABLE | VIEW."""

    kind: Literal["TABLE", "VIEW"]
    names: tuple[str, ...]
    if_exists: bool
    position: Position


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT INTO t [(columns)] query [ON CONFLICT DO behavior]."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    query: Fragment
    conflict: ConflictBehavior | None
    position: Position


@dataclass(frozen=True, slots=True)
class Query:
    """A SELECT whose rows nobody takes: only to be explained."""

    query: Fragment
    position: Position


@dataclass(frozen=True, slots=True)
class CompilePlan:
    """COMPILE [AND EXECUTE] PLAN 'uri' [IF NOT EXISTS] FOR inserts."""

    uri: str
    if_absent: bool
    inserts: tuple[Insert, ...]
    executes: bool
    position: Position


@dataclass(frozen=True, slots=True)
class ExecuteInserts:
    """An INSERT by itself, or a statement set."""

    inserts: tuple[Insert, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class ExecutePlan:
    """EXECUTE PLAN 'uri'."""

    uri: str
    position: Position


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW ..: what there is, or how one table or view was declared."""

    what: ShowKind
    names: tuple[str, ...]
    """The table or view; empty where the statement is about all of them."""
    pattern: str | None
    """LIKE: `%` is any text, `_` any character."""
    is_negated: bool
    position: Position


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE [EXTENDED] table or view; DESC."""

    names: tuple[str, ...]
    position: Position


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN [details] [PLAN FOR] inserts or query, or EXPLAIN [details] PLAN [FOR] 'uri'."""

    details: frozenset[ExplainDetail]
    subjects: tuple[Insert, ...] | tuple[Query]
    """Empty where a plan is explained."""
    uri: str | None
    position: Position


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


def parse_script(text: str) -> Iterator[Statement]:
    """The statements of a script, in order; one that is wrong ends the iteration.

    Raises:
        SqlError: See `parse_with_text`.
    """
    for statement, _ in parse_with_text(text):
        yield statement


def parse_with_text(
    text: str, *, characters_max: int | None = None
) -> Iterator[tuple[Statement, Fragment]]:
    """The statements of a script with their text; one that is wrong ends the iteration.

    Raises:
        SqlTooLarge: The script has more than `characters_max` characters.
        SqlSyntaxError: A statement is none.
        UnsupportedSql: A statement that we do not run.
    """
    fragment = Fragment(text, 0, len(text))
    if characters_max is not None and len(text) > characters_max:
        raise SqlTooLarge(
            f"the script has {len(text)} characters; {characters_max} are allowed",
            fragment.position(),
        )
    tokens = tokenize(fragment)
    begin, depth = 0, 0
    for at, token in enumerate(tokens):
        depth = max(depth + _opens(token), 0)
        if token.token_type is TokenType.SEMICOLON and depth == 0:
            if at > begin:
                yield _with_text(Cursor(fragment, tokens[begin:at]))
            begin = at + 1
    if begin < len(tokens):
        yield _with_text(Cursor(fragment, tokens[begin:]))


def _with_text(cursor: Cursor) -> tuple[Statement, Fragment]:
    text = cursor.slice(0, len(cursor.tokens))
    with placed(cursor.position()):
        check_time()
        return _statement(cursor), text


def _opens(token: Token) -> int:
    """1 for what ends with END, -1 for END: a statement set, and CASE inside of it."""
    if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
        return 0
    return {"BEGIN": 1, "CASE": 1, "END": -1}.get(str(token.text).upper(), 0)


def _statement(cursor: Cursor) -> Statement:
    read = _READERS.get(cursor.word)
    if read is None:
        raise UnsupportedSql(
            f"statements that begin with {cursor.word or 'a text'} are not supported",
            cursor.position(),
            hint=nearest(cursor.word, _READERS) or f"one of {', '.join(sorted(_READERS))}",
        )
    statement = read(cursor)
    if not isinstance(statement, CreateTable) and not cursor.is_done:
        raise cursor.fail("the end of the statement")
    return statement


def _set(cursor: Cursor) -> Statement:
    position = cursor.position()
    cursor.expect("SET")
    if cursor.is_done:
        return ListOptions(position)
    key = cursor.text()
    cursor.expect("=")
    return SetOption(key, cursor.text(), position)


def _reset(cursor: Cursor) -> Statement:
    position = cursor.position()
    cursor.expect("RESET")
    return ResetOption(None if cursor.is_done else cursor.text(), position)


def _create(cursor: Cursor) -> Statement:
    position = cursor.position()
    cursor.expect("CREATE")
    is_temporary = cursor.take("TEMPORARY")
    if cursor.take("TABLE"):
        if_absent = cursor.take("IF", "NOT", "EXISTS")
        return CreateTable(cursor.names(), cursor, is_temporary, if_absent, position)
    if cursor.take("VIEW"):
        if_absent = cursor.take("IF", "NOT", "EXISTS")
        names = cursor.names()
        columns = cursor.name_list() if cursor.looking_at("(") else ()
        if cursor.take("COMMENT"):
            cursor.text()
        cursor.expect("AS")
        return CreateView(names, columns, cursor.rest(), is_temporary, if_absent, position)
    raise UnsupportedSql(f"CREATE {cursor.word} is not supported", position, hint="TABLE or VIEW")


def _drop(cursor: Cursor) -> Statement:
    position = cursor.position()
    cursor.expect("DROP")
    cursor.take("TEMPORARY")
    for kind in ("TABLE", "VIEW"):
        if cursor.take(kind):
            if_exists = cursor.take("IF", "EXISTS")
            return Drop(kind, cursor.names(), if_exists, position)
    raise UnsupportedSql(f"DROP {cursor.word} is not supported", position, hint="TABLE or VIEW")


def _compile(cursor: Cursor) -> Statement:
    position = cursor.position()
    cursor.expect("COMPILE")
    executes = cursor.take("AND", "EXECUTE")
    cursor.expect("PLAN")
    uri = cursor.text()
    if_absent = cursor.take("IF", "NOT", "EXISTS")
    cursor.expect("FOR")
    return CompilePlan(uri, if_absent, _inserts(cursor), executes, position)


def _execute(cursor: Cursor) -> Statement:
    position = cursor.position()
    cursor.expect("EXECUTE")
    if cursor.take("PLAN"):
        return ExecutePlan(cursor.text(), position)
    return ExecuteInserts(_inserts(cursor), position)


def _run(cursor: Cursor) -> Statement:
    position = cursor.position()
    return ExecuteInserts(_inserts(cursor), position)


def _show(cursor: Cursor) -> Statement:
    position = cursor.position()
    cursor.expect("SHOW")
    for what in _OF_ONE:
        if cursor.take(*what.split()):
            if what == "COLUMNS" and not cursor.take("FROM"):
                cursor.expect("IN")
            return Show(what, cursor.names(), *_like(cursor, what == "COLUMNS"), position)
    for kind in _OF_ALL:
        if cursor.take(*kind.split()):
            return Show(kind, (), *_like(cursor, kind in ("TABLES", "VIEWS")), position)
    raise UnsupportedSql(
        f"SHOW {cursor.word} is not supported",
        position,
        hint=nearest(cursor.word, _WORDS) or f"one of {', '.join((*_OF_ALL, *_OF_ONE))}",
    )


def _like(cursor: Cursor, is_allowed: bool) -> tuple[str | None, bool]:
    """The pattern of a LIKE, and whether NOT stands before it."""
    if not is_allowed or cursor.is_done:
        return None, False
    is_negated = cursor.take("NOT")
    cursor.expect("LIKE")
    return cursor.text(), is_negated


def _describe(cursor: Cursor) -> Statement:
    position = cursor.position()
    if not cursor.take("DESC"):
        cursor.expect("DESCRIBE")
    cursor.take("EXTENDED")
    return Describe(cursor.names(), position)


def _explain(cursor: Cursor) -> Statement:
    position = cursor.position()
    cursor.expect("EXPLAIN")
    details: set[ExplainDetail] = set()
    while found := next((each for each in _DETAILS if cursor.take(each)), None):
        details.add(found)
        if not cursor.take(","):
            break
    chosen = frozenset(details)
    if cursor.take("PLAN"):
        is_for = cursor.take("FOR")
        if not is_for or not cursor.word:
            return Explain(chosen, (), cursor.text(), position)
    if any(cursor.looking_at(word) for word in _QUERY_WORDS):
        found_at = cursor.position()
        return Explain(chosen, (Query(cursor.rest(), found_at),), None, position)
    cursor.take("EXECUTE")
    return Explain(chosen, _inserts(cursor), None, position)


def _inserts(cursor: Cursor) -> tuple[Insert, ...]:
    """One INSERT, or a statement set's."""
    if cursor.take("BEGIN", "STATEMENT", "SET"):
        cursor.expect(";")
    elif cursor.take("STATEMENT", "SET"):
        cursor.expect("BEGIN")
    else:
        return (_insert(cursor),)
    found: list[Insert] = []
    while not cursor.take("END"):
        found.append(_insert(cursor))
        cursor.expect(";")
    if not found:
        raise SqlSyntaxError("a statement set needs an INSERT", cursor.position())
    return tuple(found)


def _insert(cursor: Cursor) -> Insert:
    position = cursor.position()
    cursor.expect("INSERT")
    if cursor.looking_at("OVERWRITE"):
        raise UnsupportedSql("INSERT OVERWRITE has no streaming plan", position)
    cursor.expect("INTO")
    names = cursor.names()
    if cursor.looking_at("PARTITION"):
        raise UnsupportedSql("INSERT INTO .. PARTITION is not supported", cursor.position())
    is_query = cursor.looking_at("(", "SELECT") or cursor.looking_at("(", "WITH")
    columns = cursor.name_list() if cursor.looking_at("(") and not is_query else ()
    query = cursor.until((";",), ("ON", "CONFLICT"))
    return Insert(names, columns, query, _conflict(cursor), position)


def _conflict(cursor: Cursor) -> ConflictBehavior | None:
    if not cursor.take("ON", "CONFLICT"):
        return None
    cursor.expect("DO")
    for behavior in ("DEDUPLICATE", "ERROR", "NOTHING"):
        if cursor.take(behavior):
            return behavior
    raise cursor.fail("DEDUPLICATE, ERROR or NOTHING")


_READERS: dict[str, Callable[[Cursor], Statement]] = {
    "SET": _set,
    "RESET": _reset,
    "CREATE": _create,
    "DROP": _drop,
    "COMPILE": _compile,
    "DESC": _describe,
    "DESCRIBE": _describe,
    "EXECUTE": _execute,
    "EXPLAIN": _explain,
    "INSERT": _run,
    "SHOW": _show,
    "BEGIN": _run,
    "STATEMENT": _run,
}
