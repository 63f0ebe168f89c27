"""Two services as processes: one is killed, or stands still, and the other takes over."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

import httpx

from tests.conftest import free_port
from tests.service.app_client import until
from tests.service.plans import INGRESS, flights_plan
from tests.tied import tied

if TYPE_CHECKING:
    from pathlib import Path

    import redis

    from tests.conftest import RedisServer

LEASE_MS = 2_000
PATH = "/v1/pipelines"


class Service:
    """A service as a process of its own."""

    def __init__(self, redis_url: str, folder: Path) -> None:
        port = free_port()
        (folder / "files").mkdir(exist_ok=True)
        settings = {
            "TAILRACE_REDIS__URL": redis_url,
            "TAILRACE_FILES__ROOT": str(folder / "files"),
            "TAILRACE_SPARK__CHECKPOINT_FOLDER": str(folder / "checkpoints"),
            "TAILRACE_SAVEPOINTS__FOLDER": str(folder / "savepoints"),
            "TAILRACE_HTTP__PORT": str(port),
            "TAILRACE_EXECUTION__LEASE_MS": str(LEASE_MS),
        }
        clean = {name: each for name, each in os.environ.items() if "TAILRACE_" not in name}
        with (folder / f"service-{port}.log").open("wb") as log:
            self.process = subprocess.Popen(
                tied([sys.executable, "-m", "tests.service.stand_in_process"]),
                env=clean | settings,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)

    def __enter__(self) -> Self:
        until(lambda: self.lease is not None, timeout_s=60)
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.process.kill()
        self.process.wait(timeout=10)

    @property
    def lease(self) -> dict[str, Any] | None:
        """What it says of the lease; None if it does not answer."""
        try:
            found: dict[str, Any] = self.http.get("/readyz").json()["lease"]
        except httpx.TransportError:
            return None
        return found

    @property
    def supervises(self) -> bool:
        """Whether it says that it has the lease."""
        lease = self.lease
        return lease is not None and bool(lease["held"])

    def run(self) -> int | None:
        """The run of pipeline `p` that is RUNNING, as it says."""
        status = self.http.get(f"{PATH}/p").json()["status"]
        return status["run"] if status["state"] == "RUNNING" else None


def test_one_that_is_killed_is_followed_by_the_other(
    redis_server: RedisServer, redis_client: redis.Redis, tmp_path: Path
) -> None:
    with Service(redis_server.url, tmp_path) as first, Service(redis_server.url, tmp_path) as other:
        plan = flights_plan(source=INGRESS)
        created = other.http.post(PATH, json={"name": "p", "plan": plan, "start": True})
        assert created.status_code == 201, created.text
        until(lambda: other.run() == 1)
        assert first.supervises
        assert not other.supervises

        first.process.kill()
        # Nobody has the lease yet, and orders are taken all the same.
        assert other.http.post(f"{PATH}/p/restart").status_code == 202

        until(lambda: other.supervises)
        until(lambda: (other.run() or 0) >= 2)


def test_one_that_stood_still_does_nothing_more_when_it_goes_on(
    redis_server: RedisServer, redis_client: redis.Redis, tmp_path: Path
) -> None:
    with Service(redis_server.url, tmp_path) as first, Service(redis_server.url, tmp_path) as other:
        plan = flights_plan(source=INGRESS)
        first.http.post(PATH, json={"name": "p", "plan": plan, "start": True})
        until(lambda: first.run() == 1)

        first.process.send_signal(signal.SIGSTOP)
        until(lambda: other.supervises)
        until(lambda: (other.run() or 0) >= 2)
        noted = redis_client.hgetall("tailrace:{p}:pipeline")
        opened = redis_client.get("tailrace:{p}:run")
        first.process.send_signal(signal.SIGCONT)

        until(lambda: first.lease is not None and not first.supervises)
        until(lambda: first.run() == other.run())
        assert redis_client.hgetall("tailrace:{p}:pipeline") == noted
        assert redis_client.get("tailrace:{p}:run") == opened
        assert other.supervises
