"""Named SQL sessions in Redis: what is kept, what two requests at a time make of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.runtime.errors import RegistryCorrupt, SqlSessionFull, TooManySqlSessions
from service.runtime.sql_sessions import SqlSessions, session_key
from service.settings import LimitSettings
from service.sql.named_session import NamedSession, SavedSession
from service.sql.script import parse_with_text

if TYPE_CHECKING:
    import redis

EMPTY = SavedSession()


class Clock:
    """Time that a test moves; in the future, so that Redis does not expire anything."""

    def __init__(self) -> None:
        self.now_ms = 4_000_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(redis_client: redis.Redis, clock: Clock) -> SqlSessions:
    limits = LimitSettings(sessions_max=2, session_size_max_bytes=1_024, session_ttl_ms=60_000)
    return SqlSessions(redis_client, limits, clock)


def after(saved: SavedSession, script: str) -> SavedSession:
    """What is to be kept after a script."""
    session = NamedSession(saved)
    for statement, text in parse_with_text(script):
        session.run(statement, text)
    return session.saved()


def test_what_is_declared_is_read_back_in_order(sessions: SqlSessions) -> None:
    script = """SET 'ä' = '1'; CREATE TABLE z (a INT) WITH ('connector' = 'x');
    CREATE VIEW y AS SELECT a FROM z; CREATE VIEW x AS SELECT a FROM y"""
    made = after(EMPTY, script)

    sessions.save("s", EMPTY, made)

    assert sessions.load("s") == made
    assert [names[-1] for names, _ in made.declarations] == ["z", "y", "x"]
    assert sessions.load("other") is None


def test_only_what_changed_is_written(sessions: SqlSessions, clock: Clock) -> None:
    """Two requests at a time: each adds, one drops, and nothing of the other is lost."""
    tables = "CREATE TABLE a (i INT) WITH ('connector' = 'x'); SET 'k' = '1'; SET 'l' = '1'"
    begun = after(EMPTY, tables)
    sessions.save("s", EMPTY, begun)
    clock.now_ms += 1

    first = after(begun, "CREATE TABLE b (i INT) WITH ('connector' = 'x'); SET 'k' = '2'")
    second = after(
        begun, "CREATE TABLE c (i INT) WITH ('connector' = 'x'); DROP TABLE a; RESET 'l'"
    )
    sessions.save("s", begun, first)
    sessions.save("s", begun, second)

    kept = sessions.load("s")
    assert kept is not None
    assert sorted(names[-1] for names, _ in kept.declarations) == ["b", "c"]
    assert kept.options == {"k": "2"}


def test_a_table_that_is_made_anew_comes_last(sessions: SqlSessions, clock: Clock) -> None:
    table = "CREATE TABLE {} (i INT) WITH ('connector' = 'x');"
    begun = after(EMPTY, table.format("a") + table.format("b"))
    sessions.save("s", EMPTY, begun)
    clock.now_ms += 1

    changed = after(begun, "DROP TABLE a;" + table.replace("INT", "STRING").format("a"))
    sessions.save("s", begun, changed)

    kept = sessions.load("s")
    assert kept is not None
    assert [names[-1] for names, _ in kept.declarations] == ["b", "a"]


def test_a_session_of_nothing_is_not_kept(sessions: SqlSessions, redis_client: redis.Redis) -> None:
    begun = after(EMPTY, "SET 'a' = 'b'")
    sessions.save("s", EMPTY, begun)
    sessions.save("s", begun, after(begun, "RESET"))
    sessions.save("t", EMPTY, EMPTY)

    assert redis_client.keys() == []


def test_there_is_room_again_when_sessions_have_gone(
    sessions: SqlSessions, clock: Clock, redis_client: redis.Redis
) -> None:
    begun = after(EMPTY, "SET 'a' = 'b'")
    for name in ("s", "t"):
        sessions.check_room()
        sessions.save(name, EMPTY, begun)

    with pytest.raises(TooManySqlSessions):
        sessions.check_room()
    seen = sessions.seen("s")
    assert seen is not None
    assert seen.expires_ms == clock.now_ms + 60_000
    assert redis_client.pexpiretime(session_key("s")) == clock.now_ms + 60_000
    assert sessions.close("s")
    assert not sessions.close("s")
    sessions.check_room()
    sessions.save("u", EMPTY, begun)
    clock.now_ms += 60_000
    sessions.check_room()


def test_what_is_not_ours_is_told(sessions: SqlSessions, redis_client: redis.Redis) -> None:
    for field, value in ((b"object:x", b"{}"), (b'object:["a"]', b"{}"), (b"object:", b"")):
        redis_client.delete(session_key("s"))
        redis_client.hset(session_key("s"), field, value)
        with pytest.raises(RegistryCorrupt):
            sessions.load("s")


def test_a_session_does_not_grow_for_ever(sessions: SqlSessions) -> None:
    sessions.check_size(EMPTY, "x" * 1_024)
    with pytest.raises(SqlSessionFull):
        sessions.check_size(EMPTY, "x" * 1_025)
    with pytest.raises(SqlSessionFull):
        sessions.check_size(after(EMPTY, "SET 'a' = 'b'"), "ü" * 512)
