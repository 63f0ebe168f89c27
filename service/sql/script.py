"""Reading a script: its statements, one after the other, as far as that goes without a catalogue.

A script is split at its semicolons, but for those between BEGIN and END.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot.tokens import TokenType

from service.sql.cursor import Cursor
from service.sql.deadline import check_time
from service.sql.dialect import tokenize
from service.sql.errors import SqlSyntaxError, SqlTooLarge, UnsupportedSql, nearest, placed
from service.sql.source_text import Fragment
from service.sql.statements import (
    CompilePlan,
    CreateTable,
    CreateView,
    Describe,
    Drop,
    ExecuteInserts,
    ExecutePlan,
    Explain,
    Insert,
    ListOptions,
    Query,
    ResetOption,
    SetOption,
    Show,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlglot.tokens import Token

    from service.sql.errors import Position
    from service.sql.statements import ConflictBehavior, ExplainDetail, ShowKind, Statement

_OF_ALL: tuple[ShowKind, ...] = (
    "TABLES", "VIEWS", "CATALOGS", "DATABASES", "CURRENT CATALOG", "CURRENT DATABASE",
)  # fmt: skip  # a list of names, several a line
_OF_ONE: tuple[ShowKind, ...] = ("CREATE TABLE", "CREATE VIEW", "COLUMNS")
_WORDS = {word for what in (*_OF_ALL, *_OF_ONE) for word in what.split()}
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "(")
_DETAILS: tuple[ExplainDetail, ...] = ("CHANGELOG_MODE", "ESTIMATED_COST", "PLAN_ADVICE")


def parse_script(text: str) -> Iterator[Statement]:
    """The statements of a script, in order; one that is wrong ends the iteration.

    Raises:
        SqlError: See `parse_with_text`.
    """
    for statement, _ in parse_with_text(text):
        yield statement


def parse_with_text(
    text: str, *, characters_max: int | None = None, statements_max: int | None = None
) -> Iterator[tuple[Statement, Fragment]]:
    """The statements of a script with their text; one that is wrong ends the iteration.

    Raises:
        SqlTooLarge: The script has more than `characters_max` characters, or more than
            `statements_max` statements.
        SqlSyntaxError: A statement is none.
        UnsupportedSql: A statement that we do not run.
    """
    fragment = Fragment(text, 0, len(text))
    if characters_max is not None and len(text) > characters_max:
        raise SqlTooLarge(
            f"the script has {len(text)} characters; {characters_max} are allowed",
            fragment.position(),
        )
    for number, cursor in enumerate(_split(fragment), start=1):
        if statements_max is not None and number > statements_max:
            raise SqlTooLarge(
                f"the script has more than {statements_max} statements", cursor.position()
            )
        yield _with_text(cursor)


def _split(fragment: Fragment) -> Iterator[Cursor]:
    """The tokens of each statement."""
    tokens = tokenize(fragment)
    begin, depth = 0, 0
    for at, token in enumerate(tokens):
        depth = max(depth + _opens(token), 0)
        if token.token_type is TokenType.SEMICOLON and depth == 0:
            if at > begin:
                yield Cursor(fragment, tokens[begin:at])
            begin = at + 1
    if begin < len(tokens):
        yield Cursor(fragment, tokens[begin:])


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
    word, position = cursor.word, cursor.position()
    read = _READERS.get(word)
    if read is None:
        raise UnsupportedSql(
            f"statements that begin with {word or 'a text'} are not supported",
            position,
            hint=_INSTEAD.get(word)
            or ("" if word in _OTHERS else nearest(word, (*_READERS, *_INSTEAD)))
            or f"one of {', '.join(sorted(_READERS))}",
        )
    if read is not _run:
        cursor.expect(word)
    statement = read(cursor, position)
    if not _has_body(statement) and not cursor.is_done:
        raise cursor.fail("the end of the statement")
    return statement


def _has_body(statement: Statement) -> bool:
    """Whether the end of a statement is read only when it is run."""
    if isinstance(statement, Explain):
        return any(isinstance(each, CreateTable) for each in statement.subjects)
    return isinstance(statement, CreateTable)


def _set(cursor: Cursor, position: Position) -> Statement:
    if cursor.is_done:
        return ListOptions(position=position)
    key = cursor.text()
    cursor.expect("=")
    return SetOption(key, cursor.text(), position=position)


def _reset(cursor: Cursor, position: Position) -> Statement:
    return ResetOption(None if cursor.is_done else cursor.text(), position=position)


def _create(cursor: Cursor, position: Position) -> CreateTable | CreateView:
    if cursor.looking_at("OR", "REPLACE"):
        raise UnsupportedSql("CREATE OR REPLACE is not supported", position, hint=_REPLACED)
    is_temporary = cursor.take("TEMPORARY")
    if cursor.take("TABLE"):
        if_absent = cursor.take("IF", "NOT", "EXISTS")
        return CreateTable(cursor.names(), cursor, is_temporary, if_absent, position=position)
    if cursor.take("VIEW"):
        if_absent = cursor.take("IF", "NOT", "EXISTS")
        names = cursor.names()
        columns = cursor.name_list() if cursor.looking_at("(") else ()
        if cursor.take("COMMENT"):
            cursor.text()
        cursor.expect("AS")
        return CreateView(names, columns, cursor.rest(), is_temporary, if_absent, position=position)
    raise UnsupportedSql(f"CREATE {cursor.word} is not supported", position, hint="TABLE or VIEW")


def _drop(cursor: Cursor, position: Position) -> Statement:
    cursor.take("TEMPORARY")
    for kind in ("TABLE", "VIEW"):
        if cursor.take(kind):
            if_exists = cursor.take("IF", "EXISTS")
            return Drop(kind, cursor.names(), if_exists, position=position)
    raise UnsupportedSql(f"DROP {cursor.word} is not supported", position, hint="TABLE or VIEW")


def _compile(cursor: Cursor, position: Position) -> Statement:
    executes = cursor.take("AND", "EXECUTE")
    cursor.expect("PLAN")
    uri = cursor.text()
    if_absent = cursor.take("IF", "NOT", "EXISTS")
    cursor.expect("FOR")
    return CompilePlan(uri, if_absent, _inserts(cursor), executes, position=position)


def _execute(cursor: Cursor, position: Position) -> Statement:
    if cursor.take("PLAN"):
        return ExecutePlan(cursor.text(), position=position)
    return ExecuteInserts(_inserts(cursor), position=position)


def _run(cursor: Cursor, position: Position) -> Statement:
    """What begins with INSERT, or is a statement set: its first word is still to be read."""
    return ExecuteInserts(_inserts(cursor), position=position)


def _show(cursor: Cursor, position: Position) -> Statement:
    for what in _OF_ONE:
        if cursor.take(*what.split()):
            if what == "COLUMNS" and not cursor.take("FROM"):
                cursor.expect("IN")
            return Show(what, cursor.names(), *_like(cursor, what == "COLUMNS"), position=position)
    for kind in _OF_ALL:
        if cursor.take(*kind.split()):
            return Show(kind, (), *_like(cursor, kind in ("TABLES", "VIEWS")), position=position)
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


def _describe(cursor: Cursor, position: Position) -> Statement:
    cursor.take("EXTENDED")
    return Describe(cursor.names(), position=position)


def _explain(cursor: Cursor, position: Position) -> Statement:
    details: set[ExplainDetail] = set()
    while found := next((each for each in _DETAILS if cursor.take(each)), None):
        details.add(found)
        if not cursor.take(","):
            break
    chosen = frozenset(details)
    if cursor.take("PLAN"):
        is_for = cursor.take("FOR")
        if not is_for or not cursor.word:
            return Explain(chosen, (), cursor.text(), position=position)
    if any(cursor.looking_at(word) for word in _QUERY_WORDS):
        found_at = cursor.position()
        return Explain(chosen, (Query(cursor.rest(), position=found_at),), None, position=position)
    found_at = cursor.position()
    if cursor.take("CREATE"):
        created = _create(cursor, found_at)
        if not isinstance(created, CreateTable):
            raise UnsupportedSql("EXPLAIN of CREATE VIEW is not supported", found_at)
        return Explain(chosen, (created,), None, position=position)
    cursor.take("EXECUTE")
    return Explain(chosen, _inserts(cursor), None, position=position)


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
    hint = cursor.hint()
    if cursor.looking_at("PARTITION"):
        raise UnsupportedSql("INSERT INTO .. PARTITION is not supported", cursor.position())
    is_query = cursor.looking_at("(", "SELECT") or cursor.looking_at("(", "WITH")
    columns = cursor.name_list() if cursor.looking_at("(") and not is_query else ()
    query = cursor.until((";",), ("ON", "CONFLICT"))
    return Insert(names, hint, columns, query, _conflict(cursor), position=position)


def _conflict(cursor: Cursor) -> ConflictBehavior | None:
    if not cursor.take("ON", "CONFLICT"):
        return None
    cursor.expect("DO")
    for behavior in ("DEDUPLICATE", "ERROR", "NOTHING"):
        if cursor.take(behavior):
            return behavior
    raise cursor.fail("DEDUPLICATE, ERROR or NOTHING")


_REPLACED = "DROP TABLE IF EXISTS and CREATE TABLE: rows that are there are not replaced"
_INSTEAD = {
    **dict.fromkeys(
        ("SELECT", "WITH", "VALUES"),
        "write INSERT INTO and a table before it: a query needs a sink",
    ),
    "REPLACE": _REPLACED,
}
"""What to write instead of what is no statement here."""
_OTHERS = frozenset(
    ("ALTER", "ANALYZE", "CALL", "DELETE", "LOAD", "MERGE", "TRUNCATE", "UNLOAD", "UPDATE", "USE")
)
"""Of Flink's SQL, or of others', and none here: they are like words of ours, and not misspelt."""
_READERS: dict[str, Callable[[Cursor, Position], Statement]] = {
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
