"""The typed border to redis-py: its names are redis-py's, and its replies are bytes."""

import inspect

import pytest
import redis
from redis.client import Pipeline as RedisPipeline

from state.backends.byte_client import ByteClient, Commands, Pipeline, byte_client


def methods(protocol: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(each)
        for name, each in vars(protocol).items()
        if inspect.isfunction(each) and not name.startswith("__")
    }


@pytest.mark.parametrize(
    ("protocol", "ours"),
    [
        (Commands, redis.Redis),
        (Commands, RedisPipeline),
        (ByteClient, redis.Redis),
        (Pipeline, RedisPipeline),
    ],
)
def test_redis_py_takes_what_is_declared(protocol: type, ours: type) -> None:
    declared = methods(protocol)
    assert declared
    for name, signature in declared.items():
        theirs = inspect.signature(getattr(ours, name)).parameters
        kinds = {each.kind for each in theirs.values()}
        takes_the_rest = inspect.Parameter.VAR_POSITIONAL in kinds
        for parameter in signature.parameters.values():
            is_known = parameter.name in theirs
            is_known |= takes_the_rest and parameter.kind is inspect.Parameter.VAR_POSITIONAL
            assert is_known, f"{name}({parameter.name})"


def test_a_client_that_decodes_is_refused() -> None:
    with pytest.raises(ValueError, match="decode_responses"):
        byte_client(redis.Redis(decode_responses=True))


def test_replies_are_bytes(redis_client: redis.Redis) -> None:
    client = byte_client(redis_client)
    client.hset("byte-client", mapping={b"f": b"1"})
    client.zadd("byte-client:order", {"m": 1})
    assert client.hgetall("byte-client") == {b"f": b"1"}
    assert client.hmget("byte-client", ["f", b"g"]) == [b"1", None]
    assert client.hscan("byte-client", 0, match=b"f", count=1) == (0, {b"f": b"1"})
    assert client.zrange("byte-client:order", 0, -1) == [b"m"]
    assert client.zscore("byte-client:order", "m") == 1.0
