"""Databases of tests, and pipelines on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.service.runtime.sinks.database.stand import FILE, PLACES, Database, Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import redis


@pytest.fixture(params=PLACES, ids=lambda place: place.split(":")[1])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Every database that there is to test on."""
    yield from _opened(request.param, tmp_path)


@pytest.fixture
def file_database(tmp_path: Path) -> Iterator[Database]:
    """SQLite, where others would show no more."""
    yield from _opened(FILE, tmp_path)


@pytest.fixture
def pipeline(database: Database, redis_client: redis.Redis) -> Pipeline:
    """A pipeline without sinks yet."""
    return Pipeline(database, redis_client)


def _opened(place: str, root: Path) -> Iterator[Database]:
    database = Database(place, root)
    yield database
    database.close()
