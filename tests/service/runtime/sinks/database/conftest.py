"""Databases of tests, and pipelines on them.

A test that takes `database` or `pipeline` runs on every kind of database; one that is `on` some
kinds is about these, and runs on no other.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.service.runtime.sinks.database.servers import SERVERS, running
from tests.service.runtime.sinks.database.stand import FILE, MORE, Database, Pipeline, dialect_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import redis


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests their databases: a dialect is that of our own file or server."""
    if "database" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("on")
        wanted = mark.args if mark else ("sqlite", *SERVERS)
        places = [*wanted, *(each for each in MORE if dialect_of(each) in wanted)]
        metafunc.parametrize(
            "database", places, indirect=True, ids=lambda each: each.split("@")[-1]
        )


@pytest.fixture(scope="session")
def address_of_server() -> Iterator[Callable[[str], str]]:
    """Starts the server of a dialect when it is asked for first; all end with the run."""
    with ExitStack() as stack:
        started: dict[str, str] = {}

        def address(dialect: str) -> str:
            if dialect not in started:
                started[dialect] = stack.enter_context(running(dialect)).address
            return started[dialect]

        yield address


@pytest.fixture
def database(
    request: pytest.FixtureRequest, tmp_path: Path, address_of_server: Callable[[str], str]
) -> Iterator[Database]:
    """The database that the test is given."""
    place = request.param
    if place in SERVERS:
        place = address_of_server(place)
    yield from _opened(FILE if place == "sqlite" else place, tmp_path)


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
