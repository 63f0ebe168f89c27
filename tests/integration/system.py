"""A whole Tailrace of real processes, each of which a test may kill."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx
import redis

from service.runtime.gateway import SparkGateway
from service.runtime.launcher import EmbeddedRedis, EmbeddedSpark
from service.runtime.registry import Registry
from service.settings import SparkSettings
from tests.conftest import free_port

if TYPE_CHECKING:
    from collections.abc import Callable


ASK_AGAIN_S = 0.2


async def end_session(server: EmbeddedSpark, client: redis.Redis) -> None:
    """Leave no query behind on a server that other tests use."""
    if server.running:
        gateway = SparkGateway(SparkSettings(remote=server.remote), Registry(client, 10))
        await gateway.call(lambda spark: spark.stop())
        await gateway.close()


class System:
    """Everything on free loopback ports below one folder; ends with the `with` block.

    Args:
        folder: Where.
        spark: The server that other tests use, too, for a test that does it no harm: one of its
            own takes half a minute of processor time until it is warm. None: its own.
        settings: Of the service, as variables of its environment.
    """

    def __init__(self, folder: Path, spark: EmbeddedSpark | None = None, **settings: str) -> None:
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir(parents=True)
        self.settings = settings
        self.redis = EmbeddedRedis(folder / "redis", free_port())
        self._shares_spark = spark is not None
        self.spark = spark or EmbeddedSpark(folder / "spark", free_port(), cores=2, memory_mb=1536)
        self.port = free_port()
        self.service: subprocess.Popen[bytes] | None = None
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=30)

    def __enter__(self) -> Self:
        try:
            self.redis.start()
            if not self._shares_spark:
                self.spark.start()
            self.redis.wait()
            self.spark.wait(90)
            self.start_service()
        except BaseException:  # an interrupt, too, must not leave servers behind
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        self.http.close()
        if self.service is not None and self.service.poll() is None:
            self.service.terminate()
            try:
                self.service.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.service.kill()
                self.service.wait(timeout=10)
        try:
            if self._shares_spark:
                with redis.Redis.from_url(self.redis.url) as client:
                    asyncio.run(end_session(self.spark, client))
            else:
                self.spark.stop()
        finally:
            self.redis.stop()

    def start_service(self) -> None:
        """Start the service's process and wait until it is ready."""
        self.service = self._spawn(self.port)
        self.wait_for("the service to be ready", self._ready, timeout_s=90)

    def hand_over(self) -> None:
        """SIGKILL the service while another one follows it, which is asked from then on."""
        assert self.service is not None
        before, port = self.service, free_port()
        self.service = self._spawn(port)
        self.http.close()
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30)
        self.port = port
        try:
            self.wait_for("the other service to be ready", self._ready, timeout_s=90)
        finally:
            before.kill()
            before.wait(timeout=10)

    def _spawn(self, port: int) -> subprocess.Popen[bytes]:
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("TAILRACE_")},
            "TAILRACE_REDIS__URL": self.redis.url,
            "TAILRACE_SPARK__REMOTE": self.spark.remote,
            "TAILRACE_SPARK__CHECKPOINT_FOLDER": str(self.folder / "checkpoints"),
            "TAILRACE_FILES__ROOT": str(self.files),
            "TAILRACE_SAVEPOINTS__FOLDER": str(self.folder / "savepoints"),
            "TAILRACE_HTTP__PORT": str(port),
            "TAILRACE_EXECUTION__TRIGGER_INTERVAL_MS": "0",
            "TAILRACE_EXECUTION__RESTART_BACKOFF_MIN_MS": "100",
            "TAILRACE_EXECUTION__SUPERVISE_INTERVAL_MS": "200",
            # One that is killed is followed by the next as soon as its lease is over.
            "TAILRACE_EXECUTION__LEASE_MS": "2000",
            **self.settings,
        }
        with (self.folder / "service.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "service", "serve"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill_service(self) -> None:
        """SIGKILL the service, as the kernel would."""
        assert self.service is not None
        self.service.kill()
        self.service.wait(timeout=10)

    def kill_python_workers(self) -> int:
        """SIGKILL every Python worker that Spark has forked at the moment; returns how many."""
        workers = self._python_workers()
        for pid in workers:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return len(workers)

    def _python_workers(self) -> list[int]:
        """Processes whose parent is a preloading daemon of our own Spark Connect server."""
        parents: dict[int, int] = {}
        commands: dict[int, bytes] = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    stat = (entry / "stat").read_text()
                    commands[int(entry.name)] = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
        jvm = int(self.spark.pid_file.read_text())
        daemons = {
            pid
            for pid, command in commands.items()
            if b"service.runtime.daemon" in command and _descends(pid, jvm, parents)
        }
        return [
            pid for pid, parent in parents.items() if parent in daemons and pid not in daemons
        ] or [pid for pid in daemons if parents[pid] in daemons]

    def wait_for(self, what: str, done: Callable[[], Any], timeout_s: float = 240.0) -> Any:
        """Ask until the answer is true; returns the answer.

        Args:
            what: For the message of a failing test.
            done: Asks other processes, which can call no one back.
            timeout_s: At most so long, and no longer than the service lives.
        """
        assert self.service is not None
        deadline = time.monotonic() + timeout_s
        while not (answer := done()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {timeout_s:.0f} s for {what}\n{self.last_words()}")
            try:
                status = self.service.wait(ASK_AGAIN_S)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"the service ended ({status}): no {what}\n{self.last_words()}")
        return answer

    def last_words(self) -> str:
        """The ends of the logs, for the message of a failing test."""
        logs = (self.folder / "service.log", self.spark.log_file)
        return "\n".join(
            f"--- {log.name}\n" + log.read_text(errors="replace")[-3_000:]
            for log in logs
            if log.exists()
        )

    def get(self, path: str, **parameters: Any) -> Any:
        """The JSON of a successful GET."""
        reply = self.http.get(path, params=parameters)
        assert reply.is_success, (reply.status_code, reply.text)
        return reply.json()

    def post(self, path: str, body: Any = None) -> Any:
        """The JSON of a successful POST."""
        reply = self.http.post(path, json=body)
        assert reply.is_success, (reply.status_code, reply.text)
        return reply.json() if reply.content else None

    def table(self, pipeline: str, sink: str) -> list[dict[str, Any]]:
        """All rows of a Redis table of the pipeline."""
        rows: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = self.get(
                f"/v1/pipelines/{pipeline}/tables/{sink}",
                limit=1000,
                **({"cursor": cursor} if cursor else {}),
            )
            rows += [item["row"] for item in page["items"]]
            cursor = page.get("next_cursor")
            if not cursor:
                return rows

    def _ready(self) -> bool:
        assert self.service is not None
        assert self.service.poll() is None, self.last_words()
        try:
            return self.http.get("/readyz").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False


def _descends(pid: int, ancestor: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        if pid == ancestor:
            return True
        pid = parents[pid]
    return False
