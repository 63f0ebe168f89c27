"""The whole application on a real Redis, called like a server but in this process.

Everything is real but Spark: `StandInSpark` plays the server, so that a pipeline can be RUNNING
while a test runs its epochs by hand (`tests.service.prepared`).
"""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Self

import anyio.from_thread
import httpx

from service.app import create_app
from service.runtime.errors import SparkUnavailable
from service.runtime.gateway import QueryLook, QueryState, StartedQuery
from service.runtime.query_starter import DataflowStarter, keeper_ports
from service.settings import (
    FilesSettings,
    LimitSettings,
    RedisSettings,
    SavepointSettings,
    Settings,
    SparkSettings,
)
from service.wiring import lease_of, redis_client, serving

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from service.api.deps import Services
    from service.runtime.keeper_ports import KeeperPorts, Run
    from service.runtime.records import PipelineRecord, QueryHandle
    from service.telemetry import Telemetry


class StandInSpark:
    """Starts nothing and says that everything started runs until it is stopped."""

    def __init__(self) -> None:
        self.is_away = False
        self._active: set[str] = set()

    async def version(self) -> str:
        """See `SparkGateway`."""
        if self.is_away:
            raise SparkUnavailable("Spark Connect does not answer")
        return "4.3.0"

    async def start(self, starter: Callable[[Any], Any]) -> StartedQuery:
        """See `Queries`."""
        if self.is_away:
            raise SparkUnavailable("Spark Connect does not answer")
        starter(None)
        query = uuid.uuid4().hex
        self._active.add(query)
        return StartedQuery("session", query, uuid.uuid4().hex)

    async def look(self, handle: QueryHandle) -> QueryLook:
        """See `Queries`."""
        active = handle.query_id in self._active
        return QueryLook(QueryState.ACTIVE if active else QueryState.ENDED)

    async def stop(self, handle: QueryHandle, timeout_ms: int) -> None:
        """See `Queries`."""
        if self.is_away:
            raise SparkUnavailable("Spark Connect does not answer")
        self._active.discard(handle.query_id)

    async def stop_named(self, name: str) -> None:
        """See `Queries`."""

    async def reconnect(self) -> None:
        """See `Queries`."""


class CheckingStarter(DataflowStarter):
    """Does all that comes before Spark: reads the plan and makes the job."""

    def start(self, spark: Any, record: PipelineRecord, run: Run) -> Any:
        """See `QueryStarter`."""
        return self.job(record, run)


def settings_for(redis_url: str, folder: Path, **groups: Any) -> Settings:
    """Settings for one test, untouched by a `.env` of the developer."""
    defaults: dict[str, Any] = {
        "redis": RedisSettings(url=redis_url),
        "files": FilesSettings(root=folder / "files"),
        "spark": SparkSettings(checkpoint_folder=folder / "checkpoints", call_timeout_ms=1_000),
        "limits": LimitSettings(),
        "savepoints": SavepointSettings(folder=folder / "savepoints"),
    }
    (folder / "files").mkdir(exist_ok=True)
    return Settings(_env_file=None, **{**defaults, **groups})


def opener_with(spark: StandInSpark) -> Any:
    """`open_services` with a stand-in for Spark."""

    @asynccontextmanager
    async def open_services(settings: Settings, telemetry: Telemetry) -> AsyncIterator[Services]:
        client = redis_client(settings.redis)
        with lease_of(settings) as lease:

            def ports_of(token: str) -> KeeperPorts:
                return replace(
                    keeper_ports(settings, client, spark, token=token),
                    starter=CheckingStarter(settings),
                    look_interval_ms=20,
                )

            try:
                async with serving(settings, telemetry, client, ports_of, lease, spark) as services:
                    yield services
            finally:
                client.connection_pool.disconnect()

    return open_services


class AppClient:
    """Requests to an application that runs in an event loop of its own."""

    def __init__(self, settings: Settings, **headers: str) -> None:
        self.settings = settings
        self.spark = StandInSpark()
        self.app = create_app(settings, opener_with(self.spark))
        self.app.openapi_schema = openapi_document()
        self._headers = headers
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._portal = self._stack.enter_context(anyio.from_thread.start_blocking_portal())
        lifespan = self.app.router.lifespan_context(self.app)
        self._stack.enter_context(self._portal.wrap_async_context_manager(lifespan))
        transport = httpx.ASGITransport(self.app)
        self._http = httpx.AsyncClient(
            transport=transport, base_url="http://tailrace.test", headers=self._headers
        )
        self._stack.enter_context(self._portal.wrap_async_context_manager(self._http))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """The answer to a request."""
        return self._portal.call(lambda: self._http.request(method, path, **more))

    def get(self, path: str, **more: Any) -> httpx.Response:
        """The answer to a GET."""
        return self.request("GET", path, **more)

    def post(self, path: str, json: Any = None, **more: Any) -> httpx.Response:
        """The answer to a POST, of JSON if there is any."""
        if json is not None:
            more["json"] = json
        return self.request("POST", path, **more)

    def json(self, path: str, **more: Any) -> Any:
        """The body of a GET that must succeed."""
        answer = self.get(path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def pages(self, path: str, **parameters: Any) -> Iterator[Any]:
        """Every item of a list, by following `next`."""
        answer = self.json(path, params=parameters)
        while True:
            yield from answer["items"]
            if answer["next"] is None:
                return
            answer = self.json(answer["next"])


@cache
def openapi_document() -> dict[str, Any]:
    """The document of any application, which the first request needs.

    Made for each one it takes a hundred times as long as a request, and there are hundreds.
    """
    return create_app(Settings(_env_file=None), opener_with(StandInSpark())).openapi()


def until(done: Callable[[], Any], timeout_s: float = 20.0) -> None:
    """Ask until the answer is true; what is waited for happens in threads of the application."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not done():
        assert time.monotonic() < deadline, "waited too long"
        pause.wait(0.01)
