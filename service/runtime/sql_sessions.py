"""Named SQL sessions in Redis: declarations and options, never rows.

    tailrace:sql-session:{name}    hash, gone when it was not used for `limits.session_ttl_ms`
        option:<key>               the option's value
        object:<names>             {"order": n, "sql": "CREATE ..."}; names as a JSON array
    tailrace:sql-sessions          zset   names, scored by the ms at which they expire

A request writes only what it changed, field by field, so that two requests at a time lose nothing
of each other but where both set the same thing. Calls block: the service makes them in threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from service.runtime.errors import RegistryCorrupt, SqlSessionFull, TooManySqlSessions
from service.runtime.registry import now_ms
from service.sql.named_session import SavedSession, text_size_bytes
from state.backends.byte_client import byte_client

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import redis

    from service.settings import LimitSettings

SESSIONS = "tailrace:sql-sessions"
_OPTION, _OBJECT = b"option:", b"object:"


def session_key(name: str) -> str:
    """The hash of a session."""
    return f"tailrace:sql-session:{{{name}}}"


_FORGET_IF_EMPTY = """
if redis.call('EXISTS', KEYS[1]) == 0 then redis.call('ZREM', KEYS[2], ARGV[1]) end
"""


class SqlSessions:
    """Typed access to the sessions; thread-safe, as the client is.

    Args:
        client: Redis, with replies as bytes.
        limits: How many, how large, and for how long.
        clock: Gives the time in ms.
    """

    def __init__(
        self, client: redis.Redis, limits: LimitSettings, clock: Callable[[], int] = now_ms
    ) -> None:
        self._redis = byte_client(client)
        self._limits = limits
        self._clock = clock

    def load(self, name: str) -> SavedSession | None:
        """What a session holds; None if there is none of this name.

        Raises:
            RegistryCorrupt: What is stored is none of ours.
        """
        stored = self._redis.hgetall(session_key(name))
        if not stored:
            return None
        try:
            return _read(stored)
        except (KeyError, TypeError, ValueError) as error:
            raise RegistryCorrupt(
                "the SQL session is not one that this version writes",
                hint="close it with DELETE /v1/sessions/{session}",
            ) from error

    def check_room(self) -> None:
        """Check that there may be one session more.

        Raises:
            TooManySqlSessions: There are as many as may be.
        """
        most = self._limits.sessions_max
        self._redis.zremrangebyscore(SESSIONS, "-inf", self._clock())
        if self._redis.zcard(SESSIONS) >= most:
            raise TooManySqlSessions(f"there are {most} sessions, and no more are allowed")

    def check_size(self, saved: SavedSession, added: str) -> None:
        """Check that a session may hold a statement more.

        Raises:
            SqlSessionFull: It would be larger than it may.
        """
        limit = self._limits.session_size_max_bytes
        if saved.size_bytes + text_size_bytes(added) > limit:
            raise SqlSessionFull(f"the session would be larger than {limit} bytes")

    def save(self, name: str, before: SavedSession, after: SavedSession) -> None:
        """Write what changed of a session, and let it live on.

        Whether there is room is asked before a statement runs, not here: what a script did is
        never lost.
        """
        now = self._clock()
        puts, gone = _changes(before, after, now)
        key, expires_ms = session_key(name), now + self._limits.session_ttl_ms
        with self._redis.pipeline(transaction=True) as batch:
            if gone:
                batch.hdel(key, *gone)
            if puts:
                batch.hset(key, mapping=puts)
            if after.declarations or after.options:
                batch.pexpireat(key, expires_ms)
                batch.zadd(SESSIONS, {name: expires_ms})
            else:
                # Another request may have put something meanwhile: then it is still a session.
                batch.eval(_FORGET_IF_EMPTY, 2, key, SESSIONS, name)
            batch.execute()

    def expires_ms(self, name: str) -> int | None:
        """When a session is forgotten if nobody uses it; None if there is none."""
        found = self._redis.zscore(SESSIONS, name)
        return None if found is None else int(found)

    def close(self, name: str) -> bool:
        """Forget a session; whether there was one."""
        with self._redis.pipeline(transaction=True) as batch:
            batch.delete(session_key(name))
            batch.zrem(SESSIONS, name)
            removed, _ = batch.execute()
        return bool(removed)


def _read(stored: Mapping[bytes, bytes]) -> SavedSession:
    options = {}
    objects: list[tuple[int, tuple[str, str, str], str]] = []
    for field, value in stored.items():
        if field.startswith(_OPTION):
            options[_text(field[len(_OPTION) :])] = _text(value)
        else:
            entry: dict[str, Any] = orjson.loads(value)
            catalogue, database, table = orjson.loads(field[len(_OBJECT) :])
            objects.append((entry["order"], (catalogue, database, table), entry["sql"]))
    objects.sort()
    return SavedSession(tuple((names, sql) for _, names, sql in objects), options)


def _changes(
    before: SavedSession, after: SavedSession, now: int
) -> tuple[dict[bytes, bytes], list[bytes]]:
    """Fields to write and fields to delete."""
    old, new = dict(before.declarations), dict(after.declarations)
    puts = {
        _OPTION + _bytes(key): _bytes(value)
        for key, value in after.options.items()
        if before.options.get(key) != value
    }
    for place, (names, sql) in enumerate(after.declarations):
        if old.get(names) != sql:
            # The time comes first, so that the declarations of a later request come later.
            order = now * 1_000_000 + place
            puts[_OBJECT + orjson.dumps(names)] = orjson.dumps({"order": order, "sql": sql})
    gone = [_OPTION + _bytes(key) for key in before.options if key not in after.options]
    gone += [_OBJECT + orjson.dumps(names) for names in old if names not in new]
    return puts, gone


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")
