"""Whether a Redis may hold state: answers, takes writes, keeps them, and has our functions.

Each condition is a fact about the server, with a reason that a person can act on where it does not
hold. Asking sets one short-lived key, and loads our functions where they are missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import redis

from state.backends.transport import kind_of, library

if TYPE_CHECKING:
    from collections.abc import Callable

PROBE_KEY = "tailrace:ready"
PROBE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; `reason` is None where it holds."""

    name: str
    reason: str | None = None


def conditions_of(client: redis.Redis) -> list[Condition]:
    """All conditions; those that cannot be asked for do not hold either. Blocks for some ms."""
    found = [_asked("redis-writable", lambda: _writable(client))]
    if found[0].reason is not None:
        away = "not asked: redis does not take writes"
        names = ("redis-append-only", "redis-noeviction", "redis-functions")
        return found + [Condition(name, away) for name in names]
    information: dict[str, Any] = {}

    def append_only() -> str | None:
        information.update(client.info("persistence"))
        if not information.get("aof_enabled"):
            return "the append-only file is off: set appendonly yes"
        if information.get("aof_last_write_status") != "ok":
            return "the last write of the append-only file failed: see the log of redis"
        return None

    def no_eviction() -> str | None:
        policy = client.info("memory").get("maxmemory_policy")
        if policy != "noeviction":
            return f"maxmemory-policy is {policy}: set noeviction, or state is lost silently"
        return None

    def functions() -> str | None:
        source, version = library()
        if version.encode() not in _flat(client.function_list()):
            # A Redis that was emptied has lost it; whoever misses it loads it, so do we.
            client.function_load(source, replace=True)
        return None

    found.append(_asked("redis-append-only", append_only))
    found.append(_asked("redis-noeviction", no_eviction))
    found.append(_asked("redis-functions", functions))
    return found


def version_of(client: redis.Redis) -> str | None:
    """The server's version; None if it does not answer."""
    try:
        return str(client.info("server").get("redis_version"))
    except redis.exceptions.RedisError:
        return None


def _asked(name: str, ask: Callable[[], str | None]) -> Condition:
    try:
        return Condition(name, ask())
    except redis.exceptions.OutOfMemoryError:
        return Condition(name, "redis is full: raise maxmemory")
    except redis.exceptions.ResponseError as error:
        return Condition(name, f"redis refuses the command: {kind_of(error)}")
    except redis.exceptions.TimeoutError:
        return Condition(name, "redis did not answer in time")
    except redis.exceptions.RedisError:
        return Condition(name, "redis cannot be reached")


def _writable(client: redis.Redis) -> str | None:
    client.set(PROBE_KEY, b"1", px=PROBE_MS)
    return None


def _flat(library: object) -> bytes:
    """The texts of a FUNCTION LIST reply, whose shape differs between protocol versions."""
    if isinstance(library, dict):
        return b" ".join(_flat(each) for pair in library.items() for each in pair)
    if isinstance(library, list | tuple):
        return b" ".join(_flat(each) for each in library)
    return library if isinstance(library, bytes) else str(library).encode()
