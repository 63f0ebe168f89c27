"""Fixtures that every test may use: a real Redis on a free loopback port."""

from __future__ import annotations

import fcntl
import gc
import os
import random
import shutil
import socket
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from hypothesis import HealthCheck, settings

from state.multiset import segments, spread_writing
from tests.installed import CUSTOM_WINDOW, install
from tests.tied import tied

if TYPE_CHECKING:
    from collections.abc import Iterator

# `make test` runs ci, `test-all` deep, `test-short` short; by hand it is dev. No deadline:
# machines are noisy.
for _name, _examples in (("short", 5), ("dev", 50), ("ci", 100), ("deep", 10_000)):
    settings.register_profile(
        _name,
        max_examples=_examples,
        deadline=None,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cases", type=int, help="run at most so many cases of each test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--cases`, each test runs, but not with all of its parameters."""
    most = config.getoption("--cases")
    if most is None:
        return
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left_out = [each for found in cases.values() for each in found[most:]]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [each for found in cases.values() for each in found[:most]]


def pytest_collection_finish() -> None:
    """What was collected stays until the end: no collection of garbage looks at it once more."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def small_segments() -> Iterator[None]:
    """New blocks are a segment, however few they are; and soon there are as many as may be."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spread_writing, "SEGMENT_BYTES_MIN", 1)
        patch.setattr(segments, "SEGMENTS_MAX", 3)
        patch.setattr(segments, "SEGMENTS_MERGED", 2)
        yield


PORTS = range(15_000, 32_000)
"""Below those that the kernel gives to connections, which could take a free one meanwhile."""


def free_port() -> int:
    """A loopback port that nothing listens on, and that no other process of tests is given.

    They run side by side, and a server listens seconds behind the choice of its port: a process
    keeps the ports that it was given, as locked bytes of a file, until it ends.
    """
    while True:
        port = random.SystemRandom().choice(PORTS)
        if port in _given or not lock_port(port):
            continue
        _given.add(port)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port


_given: set[int] = set()
"""Ports; a process is not kept from a lock of its own."""


def lock_port(port: int) -> bool:
    """Keep a port until this process ends; whether no other process does."""
    try:
        fcntl.lockf(_port_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except (BlockingIOError, PermissionError):
        return False
    return True


@cache
def _port_locks() -> int:
    """The descriptor of the file of locks. It stays open: they end with it."""
    file = Path(tempfile.gettempdir()) / f"tailrace-test-ports-{os.getuid()}"
    return os.open(file, os.O_RDWR | os.O_CREAT, 0o600)


class RedisServer:
    """A redis-server process of our own, append-only, that ends with the test.

    Args:
        folder: Where its file is.
        port: Where it listens; None: a free one.
        append_fsync: Redis's setting of that name: "always" as where it holds state, "no" where
            nobody asks the disk what was written.
    """

    def __init__(
        self, folder: Path, port: int | None = None, *, append_fsync: str = "always"
    ) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.append_fsync = append_fsync
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address as our settings take it."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server and return once it answers PING."""
        binary = shutil.which("redis-server")
        if binary is None:
            raise RuntimeError("redis-server is not installed: run make setup")
        self.folder.mkdir(parents=True, exist_ok=True)
        command = (
            binary,
            *("--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)),
            *("--appendonly", "yes", "--appendfsync", self.append_fsync),
            *("--maxmemory-policy", "noeviction", "--save", "", "--loglevel", "warning"),
        )
        self.process = subprocess.Popen(
            tied(command),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with redis.Redis(port=self.port, retry=_PATIENT) as client:
            client.ping()

    def kill(self) -> None:
        """End it as a power cut would (SIGKILL)."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(timeout=10)

    def stop(self) -> None:
        """End it if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=10)


_PATIENT = redis.retry.Retry(
    redis.backoff.ConstantBackoff(0.02), 500, supported_errors=(redis.exceptions.ConnectionError,)
)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One Redis for the whole run; tests get it emptied through `redis_client`.

    Nobody ends it, so it does not wait for its disk at each of millions of writes.
    """
    server = RedisServer(tmp_path_factory.mktemp("redis"), append_fsync="no")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """A client of an empty Redis (replies are bytes)."""
    with redis.Redis(port=redis_server.port) as client:
        client.flushall()
        yield client


@pytest.fixture(scope="session")
def custom_window(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What to import from where `examples/custom_window` is installed."""
    return install(CUSTOM_WINDOW, tmp_path_factory.mktemp("functions"))
