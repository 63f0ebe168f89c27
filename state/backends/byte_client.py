"""redis-py's client with its replies typed as what ours give: bytes.

redis-py types a reply as the union of what any setting of a client could make of it: bytes or text,
now or to be awaited. Ours never decode and never await. `byte_client` is the one place that says
so, and checks it; behind it replies need no casts.
"""
# ruff: noqa: D102 - a command is documented by redis-py and by Redis, not here once more

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import redis

Text = str | bytes
"""A key, a field or a member; text goes as UTF-8."""
Argument = str | bytes | int | float
Fields = dict[bytes, bytes]
Entry = tuple[bytes, Fields]
"""An entry of a stream: its id and its fields."""


class Commands(Protocol):
    """The commands that we call by name; redis-py's documentation says what each does.

    Inside a pipeline that does not watch, a command only waits for `execute`, which has its reply.
    """

    def get(self, name: Text) -> bytes | None: ...
    def mget(self, keys: Iterable[Text]) -> list[bytes | None]: ...
    def set(self, name: Text, value: Argument) -> bool | None: ...
    def exists(self, *names: Text) -> int: ...
    def delete(self, *names: Text) -> int: ...
    def rename(self, src: Text, dst: Text) -> bool: ...
    def pexpireat(self, name: Text, when: int) -> bool: ...
    def eval(self, script: str, numkeys: int, *keys_and_args: Argument) -> Any: ...

    def hget(self, name: Text, key: Text) -> bytes | None: ...
    def hmget(self, name: Text, keys: Sequence[Text]) -> list[bytes | None]: ...
    def hgetall(self, name: Text) -> Fields: ...
    def hset(
        self,
        name: Text,
        key: Text | None = None,
        value: Argument | None = None,
        mapping: Mapping[str, bytes] | Mapping[bytes, bytes] | None = None,
    ) -> int: ...
    def hdel(self, name: Text, *keys: Text) -> int: ...
    def hlen(self, name: Text) -> int: ...
    def hincrby(self, name: Text, key: Text, amount: int = 1) -> int: ...
    def hscan(
        self, name: Text, cursor: int = 0, match: Text | None = None, count: int | None = None
    ) -> tuple[int, Fields]: ...

    def lrange(self, name: Text, start: int, end: int) -> list[bytes]: ...
    def llen(self, name: Text) -> int: ...
    def rpush(self, name: Text, *values: Argument) -> int: ...

    def sadd(self, name: Text, *values: Argument) -> int: ...

    def zadd(self, name: Text, mapping: Mapping[str, float]) -> int: ...
    def zrem(self, name: Text, *values: Text) -> int: ...
    def zcard(self, name: Text) -> int: ...
    def zscore(self, name: Text, value: Text) -> float | None: ...
    def zrange(self, name: Text, start: int, end: int) -> list[bytes]: ...
    def zrangebylex(
        self, name: Text, min: Text, max: Text, start: int | None = None, num: int | None = None
    ) -> list[bytes]: ...
    def zremrangebyscore(self, name: Text, min: Argument, max: Argument) -> int: ...

    def xrange(
        self, name: Text, min: Text = "-", max: Text = "+", count: int | None = None
    ) -> list[Entry]: ...
    def xrevrange(
        self, name: Text, max: Text = "+", min: Text = "-", count: int | None = None
    ) -> list[Entry]: ...
    def xlen(self, name: Text) -> int: ...
    def xtrim(self, name: Text, *, minid: Text | None = None, approximate: bool = True) -> int: ...


class Pipeline(Commands, Protocol):
    """Commands that go together: in one round trip, and as one where it is a transaction."""

    def watch(self, *names: Text) -> bool:
        """From here to `multi` commands are carried out at once, over what must not move."""

    def multi(self) -> None:
        """From here on commands wait for `execute`."""

    def execute(self) -> list[Any]:
        """Their replies.

        Raises:
            redis.WatchError: What was watched has moved; nothing was carried out.
        """

    def __enter__(self) -> Self: ...
    def __exit__(self, *raised: object) -> None: ...


class ByteClient(Commands, Protocol):
    """A client of one Redis."""

    def pipeline(self, transaction: bool = True) -> Pipeline: ...


def byte_client(client: redis.Redis) -> ByteClient:
    """The same client, typed.

    Raises:
        ValueError: It decodes replies to text.
    """
    if client.get_encoder().decode_responses:
        raise ValueError("the client decodes replies; make it without decode_responses")
    return cast("ByteClient", client)  # redis-py's types cannot say what was checked above
