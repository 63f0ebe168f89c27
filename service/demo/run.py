"""`make run`: everything on one machine, from nothing to the history of a key.

Starts Redis and a Spark Connect server of its own, the service as a process of its own, writes the
flights of 2013 as a changelog, submits the pipeline over HTTP as any client would, and proves that
its final table is the one that a batch job computes. Stays until Ctrl-C, or until one of the three
ends, and leaves nothing running, however it ends. A second run finds the pipeline and its state,
and goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import httpx
import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from service.demo.client import Client, DemoError
from service.demo.flights import Changelog, write_changelog
from service.runtime.errors import LaunchError
from service.runtime.launcher import EmbeddedRedis, EmbeddedServer, EmbeddedSpark

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

START_WITHIN_S = 180.0
READY_WITHIN_S = 120.0
ROWS_PER_EPOCH = 50_000
"""January is a few epochs, whose progress can be seen; a smaller number only costs time."""
CHECKED_EVERY_S = 1.0
"""How soon the end of one of the three is seen."""
IDLE_WITHIN_S = 120.0
"""The demo gives up when no epoch closes for this long while changes are still to come."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What the command line says."""

    folder: Path
    """Everything that is written lies below it."""
    port: int
    redis_port: int
    spark_port: int
    year: bool
    """All of 2013 instead of January."""
    stay: bool
    """Keep serving until Ctrl-C; without, end after the last line."""

    @property
    def pipeline(self) -> str:
        """January and the whole year are two pipelines with a table each."""
        return "latest-flight-2013" if self.year else "latest-flight"


def run(options: DemoOptions) -> int:
    """Run the demo; returns the exit status of the process."""
    console = Console(highlight=False)
    # SIGINT, too: what a shell starts in the background begins with it ignored.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # Not under nohup.
        signal.signal(signal.SIGHUP, _interrupt)
    started = time.monotonic()
    try:
        with _servers(options, console) as (servers, changelog):
            with contextlib.closing(Client(f"http://127.0.0.1:{options.port}")) as client:
                try:
                    _demonstrate(client, options, servers, changelog, console, started)
                except httpx.TransportError as error:
                    servers.check()
                    raise DemoError(f"the service does not answer: {error}") from error
            if options.stay:
                console.print("\nServing until Ctrl-C.", style="bold")
                while True:
                    servers.check()
                    time.sleep(CHECKED_EVERY_S)
    except KeyboardInterrupt:
        console.print("\nStopped; nothing is left running. `make run` continues from here.")
    except (DemoError, LaunchError) as problem:
        console.print(f"tailrace: {problem}", style="red", soft_wrap=True, markup=False)
        return 1
    return 0


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


class EmbeddedService(EmbeddedServer):
    """The service as a process of its own, over the demo's Redis and Spark Connect.

    Settings of the environment hold, but for those that the demo makes; its own requests have no
    key, so there are none. A `.env` where the demo was started is not read: the process runs in the
    demo's folder.
    """

    title = "The service"
    log_name = "service.log"
    stop_grace_s = 20.0

    def __init__(self, options: DemoOptions, redis_url: str, remote: str) -> None:
        super().__init__(options.folder, options.port)
        self.settings = {
            "TAILRACE_REDIS__URL": redis_url,
            "TAILRACE_SPARK__REMOTE": remote,
            "TAILRACE_SPARK__CHECKPOINT_FOLDER": str(self.folder / "checkpoints"),
            "TAILRACE_FILES__ROOT": str(self.folder / "files"),
            "TAILRACE_SAVEPOINTS__FOLDER": str(self.folder / "savepoints"),
            "TAILRACE_HTTP__HOST": self.address,
            "TAILRACE_HTTP__PORT": str(options.port),
            "TAILRACE_AUTH__KEYS": "[]",
        }

    @property
    def url(self) -> str:
        """Where it is served."""
        return f"http://{self.address}:{self.port}"

    def not_taken(self, environment: Mapping[str, str]) -> list[str]:
        """The settings of an environment that the demo makes itself."""
        return sorted(environment.keys() & self.settings.keys())

    def _command(self) -> tuple[list[str], dict[str, str]]:
        return [sys.executable, "-m", "service", "serve"], {**os.environ, **self.settings}

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=10).is_success
        except httpx.TransportError:
            return False


@dataclass(frozen=True, slots=True)
class _Servers:
    redis: EmbeddedRedis
    spark: EmbeddedSpark
    service: EmbeddedService

    def check(self) -> None:
        """Raises LaunchFailed when one of them has ended."""
        for each in (self.redis, self.spark, self.service):
            each.check()


@contextlib.contextmanager
def _servers(options: DemoOptions, console: Console) -> Iterator[tuple[_Servers, Changelog]]:
    """Redis, Spark Connect and the service, in this order; ended in the other one."""
    _refuse_busy_port(options.port, "--port")
    _refuse_busy_port(options.redis_port, "--redis-port")
    _refuse_busy_port(options.spark_port, "--spark-port")
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    redis = EmbeddedRedis(folder / "redis", port=options.redis_port)
    spark = EmbeddedSpark(folder / "spark", port=options.spark_port)
    service = EmbeddedService(options, redis.url, spark.remote)
    for name in service.not_taken(os.environ):
        console.print(f"{name} is not taken: the demo has its own", soft_wrap=True, markup=False)
    with contextlib.ExitStack() as stack:
        for server in (redis, spark, service):
            stack.callback(server.stop)
        with console.status("Starting Redis and Spark Connect, writing the flights"):
            redis.start()
            spark.start()
            changelog = _write(options)
            redis.wait()
            spark.wait(START_WITHIN_S)
        console.print(f"[green]✓[/] Redis on port {redis.port}, its files in {folder / 'redis'}")
        console.print(f"[green]✓[/] Spark Connect on port {spark.port}, log in {folder / 'spark'}")
        with console.status("Starting the service"):
            service.start()
            service.wait(READY_WITHIN_S)
        console.print(f"[green]✓[/] Service on {service.url}, described at {service.url}/docs")
        yield _Servers(redis, spark, service), changelog


def _refuse_busy_port(port: int, option: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise DemoError(
                f"port {port} is busy: stop what listens there, or choose another with {option} "
                f'(make run ARGS="{option} {port + 1}")'
            ) from None


def _write(options: DemoOptions) -> Changelog:
    months = range(1, 13) if options.year else range(1, 2)
    return write_changelog(_input_folder(options), months=months)


def _input_folder(options: DemoOptions) -> Path:
    return options.folder / "files" / ("flights-2013" if options.year else "flights")


def _demonstrate(
    client: Client,
    options: DemoOptions,
    servers: _Servers,
    changelog: Changelog,
    console: Console,
    started: float,
) -> None:
    console.print(
        f"[green]✓[/] {changelog.flight_count:,} flights as {changelog.change_count:,} changes in "
        f"{changelog.file_count} files"
    )
    _submit(client, options, console)
    _follow(client, options, servers, changelog, console)
    operator = client.get(f"/v1/pipelines/{options.pipeline}/operators")["items"][0]["id"]
    key = f"/v1/pipelines/{options.pipeline}/operators/{operator}/keys/{changelog.fallback_key}"
    history = client.get(f"{key}/history", limit=1_000)
    took = time.monotonic() - started
    _show_history(history, client.get(f"{key}/explain"), changelog.fallback_key, console)
    _compare(client, options, changelog, console)
    console.print(f"[green]✓[/] first history {took:.1f} s after the start")
    _show_requests(client, options, operator, changelog.fallback_key, console)


def _submit(client: Client, options: DemoOptions, console: Console) -> None:
    path = f"/v1/pipelines/{options.pipeline}"
    if client.find(path) is not None:
        client.post(f"{path}/start")
        console.print(f"[green]✓[/] pipeline {options.pipeline} exists already, and continues")
        return
    plan = orjson.loads(files("service.demo").joinpath("latest_flight.plan.json").read_bytes())
    source = plan["nodes"][0]["scanTableSource"]["table"]["resolvedTable"]["options"]
    source["path"] = _input_folder(options).name
    body = {
        "name": options.pipeline,
        "plan": plan,
        "options": {"rows_per_epoch_max": ROWS_PER_EPOCH},
        "labels": {"demo": "flights"},
        "start": True,
    }
    digest = hashlib.sha256(orjson.dumps(body)).hexdigest()[:16]
    client.post("/v1/pipelines", body, idempotency_key=f"demo-{digest}-{time.time_ns()}")
    console.print(f"[green]✓[/] POST /v1/pipelines: {options.pipeline} accepted")


def _follow(
    client: Client,
    options: DemoOptions,
    servers: _Servers,
    changelog: Changelog,
    console: Console,
) -> None:
    """Show epochs as they close until every change of the files is in the sink."""
    path = f"/v1/pipelines/{options.pipeline}"
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    last, moved = -1, time.monotonic()
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("changes in the sink", total=changelog.change_count)
        while True:
            servers.check()
            totals = client.get(f"{path}/progress", limit=1)["totals"]
            done = int(totals["rows_in"])
            progress.update(task, completed=done)
            if done >= changelog.change_count:
                break
            if done != last:
                last, moved = done, time.monotonic()
            status = client.get(path)["status"]
            if status["state"] == "FAILED":
                raise DemoError(f"the pipeline failed: {status['error']['message']}")
            if time.monotonic() - moved > IDLE_WITHIN_S:
                raise DemoError(
                    f"no epoch closed for {IDLE_WITHIN_S:.0f} s; see {options.folder}/service.log"
                )
            time.sleep(0.25)
    console.print(
        f"[green]✓[/] {totals['rows_in']:,} changes in, {totals['rows_out']:,} out, "
        f"{totals['epochs']:,} epochs"
    )


def _show_history(
    history: Mapping[str, Any], why: Mapping[str, Any], key: str, console: Console
) -> None:
    table = Table(title=f"history of {key} (epoch {history['epoch']})", title_justify="left")
    for name in ("sequence", "flight", "status", "changed at", "current"):
        table.add_column(name)
    entries = history["items"]
    for entry in entries[-8:]:
        row = entry["row"]
        mark = "◀ current" if entry["current"] else ""
        table.add_row(
            str(entry["sequence_number"]), row["flight_id"], row["status"], row["changed_at"], mark
        )
    if len(entries) > 8:
        table.caption = f"the newest 8 of {len(entries)}"
    console.print(table)
    console.print(why["text"], soft_wrap=True, markup=False)


def _compare(client: Client, options: DemoOptions, changelog: Changelog, console: Console) -> None:
    path = f"/v1/pipelines/{options.pipeline}/tables/latest_flight"
    table = {item["row"]["tailnum"]: item["row"] for item in client.pages(path, limit=1_000)}
    if table != changelog.expected:
        wrong = {
            tailnum
            for tailnum in table.keys() | changelog.expected.keys()
            if table.get(tailnum) != changelog.expected.get(tailnum)
        }
        raise DemoError(
            f"the final table differs from the batch recomputation for {len(wrong)} aircraft"
        )
    console.print(
        f"[green]✓[/] final table: {len(table):,} aircraft, equal to the batch recomputation"
    )


def _show_requests(
    client: Client, options: DemoOptions, operator: str, key: str, console: Console
) -> None:
    base = f"{client.base_url}/v1/pipelines/{options.pipeline}"
    console.print("\nTry next", style="bold")
    for path in (
        f"/operators/{operator}/keys/{key}/history",
        f"/operators/{operator}/keys/{key}/explain",
        f"/operators/{operator}/keys?prefix=N1&limit=5",
        f"/operators/{operator}/orphans",
        f"/tables/latest_flight/{key}",
        "/progress",
    ):
        console.print(f"  curl -s '{base}{path}'", soft_wrap=True, markup=False)
