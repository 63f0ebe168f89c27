"""What tasks leave for the close of their epoch."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from state.backends.names import slot_prefix
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger

if TYPE_CHECKING:
    import redis


def test_what_is_staged_again_is_there_once(redis_client: redis.Redis) -> None:
    """As where a reply is lost and the commands are sent again."""
    items = [b"a", b"b"]
    with closing(RedisTransport(redis_client)) as transport:
        for _ in range(2):
            EpochLedger(transport, "orders").stage_items("stage:1", items)

    assert redis_client.lrange(slot_prefix("orders") + b"stage:1", 0, -1) == items
