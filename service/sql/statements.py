"""The statements of a script, parsed as far as that goes without a catalogue.

A script is split at its semicolons, but for those between BEGIN and END. Queries stay text here,
with their place: they are read when they are bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from sqlglot.tokens import TokenType

from service.sql.cursor import Cursor
from service.sql.dialect import tokenize
from service.sql.errors import Position, SqlSyntaxError, SqlTooLarge, UnsupportedSql
from service.sql.source_text import Fragment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlglot.tokens import Token

SCRIPT_CHARACTERS_MAX = 1024 * 1024
ConflictBehavior = Literal["DEDUPLICATE", "ERROR", "NOTHING"]


@dataclass(frozen=True, slots=True)
class SetOption:
    """SET 'key' = 'value'."""

    key: str
    value: str
    position: Position


@dataclass(frozen=True, slots=True)
class ResetOption:
    """RESET ['key']; None: all of them."""

    key: str | None


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


Statement: TypeAlias = (
    SetOption | ResetOption | CreateTable | CreateView | Drop | CompilePlan | ExecuteInserts
)


def parse_script(text: str) -> Iterator[Statement]:
    """The statements of a script, in order; one that is wrong ends the iteration.

    Raises:
        SqlTooLarge: The script has more than `SCRIPT_CHARACTERS_MAX` characters.
        SqlSyntaxError: A statement is none.
        UnsupportedSql: A statement that we do not run.
    """
    if len(text) > SCRIPT_CHARACTERS_MAX:
        raise SqlTooLarge(
            f"the script has {len(text)} characters; {SCRIPT_CHARACTERS_MAX} are allowed"
        )
    fragment = Fragment(text, 0, len(text))
    tokens = tokenize(fragment)
    begin, depth = 0, 0
    for at, token in enumerate(tokens):
        depth = max(depth + _opens(token), 0)
        if token.token_type is TokenType.SEMICOLON and depth == 0:
            if at > begin:
                yield _statement(Cursor(fragment, tokens[begin:at]))
            begin = at + 1
    if begin < len(tokens):
        yield _statement(Cursor(fragment, tokens[begin:]))


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
            hint=f"one of {', '.join(sorted(_READERS))}",
        )
    statement = read(cursor)
    if not isinstance(statement, CreateTable) and not cursor.is_done:
        raise cursor.fail("the end of the statement")
    return statement


def _set(cursor: Cursor) -> Statement:
    position = cursor.position()
    cursor.expect("SET")
    key = cursor.text()
    cursor.expect("=")
    return SetOption(key, cursor.text(), position)


def _reset(cursor: Cursor) -> Statement:
    cursor.expect("RESET")
    return ResetOption(None if cursor.is_done else cursor.text())


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
    if cursor.looking_at("PLAN"):
        raise UnsupportedSql("EXECUTE PLAN is not supported here", position)
    return ExecuteInserts(_inserts(cursor), position)


def _run(cursor: Cursor) -> Statement:
    position = cursor.position()
    return ExecuteInserts(_inserts(cursor), position)


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
    "EXECUTE": _execute,
    "INSERT": _run,
    "BEGIN": _run,
    "STATEMENT": _run,
}
