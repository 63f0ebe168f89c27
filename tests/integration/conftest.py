"""A real Spark Connect server for the whole run, configured as in production, and a session."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from service.runtime.launcher import EmbeddedSpark
from service.runtime.spark_configuration import SESSION_CONFIGURATION
from tests.conftest import free_port
from tests.installed import importing

if TYPE_CHECKING:
    from collections.abc import Iterator

ABOUT_PANDAS = "PySpark does not yet fully support pandas"
with warnings.catch_warnings():
    # pyspark says this whenever it looks at pandas, with pandas 3, which we never hand rows to.
    warnings.filterwarnings("ignore", ABOUT_PANDAS, FutureWarning)
    from pyspark.sql.connect.session import SparkSession

CORES = 2
SESSION_START_S = 240
"""For machines that are busy with other things; an idle one needs 6 s."""
# Machines of Java live a minute or four here: what the second compiler and a collector with threads
# of its own take is never paid back. Both change no result.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


LONGEST_FIRST = (
    *("test_kill", "test_plan_oracles", "test_chain", "test_lifecycle", "test_demo"),
    *("test_pages", "test_expressions", "test_dataflow", "test_quiet_epochs"),
)
"""Files that take 20 to 200 s, in the order in which processes take them up: one of the long ones
that comes last is waited for by a process that has nothing to do any more."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies here as needing a server, and let pyspark say its word about pandas."""
    here = Path(__file__).parent
    ours = [item for item in items if here in item.path.parents]
    for item in ours:
        item.add_marker(pytest.mark.integration)
        # As above.
        item.add_marker(pytest.mark.filterwarnings(f"ignore:{ABOUT_PANDAS}:FutureWarning"))
    items[:] = [item for item in items if here not in item.path.parents] + sorted(ours, key=_turn)


def _turn(item: pytest.Item) -> int:
    name = item.path.stem
    return LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST)


@pytest.fixture(scope="session")
def spark_server(
    tmp_path_factory: pytest.TempPathFactory, custom_window: Path
) -> Iterator[EmbeddedSpark]:
    """The server that all integration tests share; a test that kills one starts its own.

    Its workers find the function that `test_functions` calls.
    """
    folder = tmp_path_factory.mktemp("spark")
    server = EmbeddedSpark(folder, free_port(), CORES, memory_mb=2048)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", importing(custom_window))
            server.start()
        yield server.wait(SESSION_START_S)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def spark(spark_server: EmbeddedSpark) -> Iterator[SparkSession]:
    """A session as the service makes them. Tests stop the queries that they start."""
    session = SparkSession.builder.remote(spark_server.remote).create()
    for name, value in SESSION_CONFIGURATION.items():
        session.conf.set(name, value)
    yield session
    session.stop()
