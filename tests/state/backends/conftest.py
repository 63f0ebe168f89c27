"""The conformance suites are modules of the product: show what their assertions compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from state.backends.transport import RedisTransport

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

pytest.register_assert_rewrite(
    "state.testing.conformance",
    "state.testing.ledger_conformance",
    "state.testing.lex_conformance",
)


@pytest.fixture
def transport(redis_client: redis.Redis) -> Iterator[RedisTransport]:
    transport = RedisTransport(redis_client)
    yield transport
    transport.close()
