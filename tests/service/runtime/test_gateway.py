"""The gateway's ways without a Spark: what callers learn, and how long they wait for it.

With one it is held by `tests/integration`.
"""

from __future__ import annotations

import asyncio
from unittest.mock import Mock

import pytest

from service.runtime.errors import SparkUnavailable
from service.runtime.gateway import SparkGateway, _Session
from service.settings import SparkSettings
from tests.conftest import free_port


class Sessions:
    """Keeps the session's id, and counts the attempts to connect by who asks for it."""

    def __init__(self) -> None:
        self.asked_count = 0
        self.id: str | None = None

    def session_id(self) -> str | None:
        self.asked_count += 1
        return self.id

    def note_session_id(self, session_id: str, *, instead_of: str | None) -> str:
        self.id = session_id
        return session_id


@pytest.mark.parametrize("kept", ["ours", "another's", None])
def test_a_session_that_another_service_has_replaced_is_let_go(kept: str | None) -> None:
    sessions = Sessions()
    sessions.id = kept
    spark = Mock()

    async def held_after_reconnect() -> bool:
        gateway = SparkGateway(SparkSettings(), sessions)
        gateway._session = _Session(spark, "ours")
        await gateway.reconnect()
        is_held = gateway._session is not None
        await gateway.close()
        return is_held

    assert asyncio.run(held_after_reconnect()) is (kept == "ours")
    spark.client.close.assert_called_once()


# The client warns that it has tried as often as it may, which is what is tested.
@pytest.mark.filterwarnings("ignore:.RETRIES_EXCEEDED:UserWarning")
def test_calls_that_stand_in_line_behind_an_attempt_that_fails_fail_with_it() -> None:
    sessions = Sessions()
    remote = f"sc://127.0.0.1:{free_port()}"

    async def calls() -> list[object]:
        gateway = SparkGateway(SparkSettings(remote=remote), sessions)
        together = [gateway.call(str) for _ in range(4)]
        return list(await asyncio.gather(*together, return_exceptions=True))  # the test looks

    found = asyncio.run(calls())

    assert [type(each) for each in found] == [SparkUnavailable] * 4
    assert {str(each) for each in found} == {"Spark Connect does not answer: connection refused"}
    assert sessions.asked_count == 1
