"""Transactions of the registry: read under WATCH, write in MULTI, begin again when it moved."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, TypeVar

import redis

from service.runtime.errors import RegistryCorrupt, RegistryUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from state.backends.byte_client import ByteClient, Pipeline

_TRIES_MAX = 100
"""A transaction is tried again when another one changed what it read; far above any real rate."""

T = TypeVar("T")


def transact(client: ByteClient, change: Callable[[Pipeline], T], *watched: str) -> T:
    """What `change` gives, whose writes take effect as one, over what it read of these keys.

    Raises:
        RegistryCorrupt: a key holds another type of value.
        RegistryUnavailable: Redis does not answer, or others change the keys all the time.
    """
    with translated(), client.pipeline(transaction=True) as transaction:
        for _ in range(_TRIES_MAX):
            try:
                transaction.watch(*watched)
                result = change(transaction)
                transaction.execute()
            except redis.WatchError:
                continue
            return result
    raise RegistryUnavailable("the registry is too busy: its records change all the time")


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn Redis' errors into ours.

    Raises:
        RegistryCorrupt: a key holds another type of value.
        RegistryUnavailable: Redis does not answer, or refuses.
    """
    try:
        yield
    except redis.ResponseError as error:
        if str(error).startswith("WRONGTYPE"):
            raise RegistryCorrupt("a key of the registry has a value of another type") from error
        raise RegistryUnavailable("Redis refuses to keep the registry") from error
    except redis.RedisError as error:
        raise RegistryUnavailable("Redis does not answer") from error
