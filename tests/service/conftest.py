"""An application on an empty Redis, and plans to give it."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
import structlog

with warnings.catch_warnings():
    # pyspark has an opinion about pandas, which we hand no rows.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
    from tests.service.app_client import AppClient, settings_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis

    from tests.conftest import RedisServer


@pytest.fixture(scope="session", autouse=True)
def _quiet_logs() -> Iterator[None]:
    """Log lines are made and thrown away; the default renders local variables, for seconds."""
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.JSONRenderer()],
        logger_factory=structlog.ReturnLoggerFactory(),
    )
    yield
    structlog.reset_defaults()


@pytest.fixture
def make_app(redis_server: RedisServer, redis_client: redis.Redis, tmp_path: Path) -> Iterator[Any]:
    """Makes applications with settings of the test's own."""
    started: list[AppClient] = []

    def make(*, headers: dict[str, str] | None = None, **groups: Any) -> AppClient:
        settings = settings_for(redis_server.url, tmp_path, **groups)
        started.append(AppClient(settings, **(headers or {})).__enter__())
        return started[-1]

    yield make
    for each in started:
        each.__exit__()


@pytest.fixture
def app(make_app: Any) -> AppClient:
    """An application with default limits and without API keys."""
    return make_app()
