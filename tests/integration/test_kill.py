"""kill -9 of each real process in the middle of epochs; the final table is exact every time."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from tests.integration.plans import materializer_plan
from tests.integration.system import System

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

# Each test kills, waits for the recovery, and runs its input to the end.
pytestmark = pytest.mark.timeout(900)

FILES = 30
CHANGES_PER_FILE = 250
KILLS = 2
"""Kills for each kind of process but the server, which is killed once, spread over the input."""


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("system")) as running:
        yield running


def test_killed_python_workers(system: System) -> None:
    def kill() -> None:
        system.wait_for("a Python worker to kill", system.kill_python_workers, 30)

    _run_with_kills(system, "workers", kill)


def test_killed_service(system: System) -> None:
    def kill() -> None:
        system.kill_service()
        system.start_service()

    _run_with_kills(system, "service", kill)


def test_killed_service_is_followed_by_the_other_one(system: System) -> None:
    """Without a new run: the query is adopted."""

    def see() -> None:
        system.wait_for("the take-over", lambda: system.get("/readyz")["lease"]["held"])
        system.wait_for("the pipeline to run", lambda: status()["state"] == "RUNNING")
        assert status()["run"] == 1

    def status() -> dict[str, Any]:
        return dict(system.get("/v1/pipelines/holder")["status"])

    _run_with_kills(system, "holder", system.hand_over, kills=1, see=see)


def test_killed_connect_server(system: System) -> None:
    """The service says that it waits for Spark, and goes on with the same query in a later run."""
    before: dict[str, Any] = {}

    def status() -> dict[str, Any]:
        return dict(system.get("/v1/pipelines/server")["status"])

    def kill() -> None:
        before.update(status())
        system.spark.kill()
        system.wait_for("the wait for Spark", lambda: status()["waits_for"] == "spark")
        told = status()
        assert (told["state"], told["error"]["code"]) == ("RESTARTING", "spark.unavailable")
        assert system.http.get("/readyz").status_code == 503
        system.spark.start()
        system.spark.wait(90)

    def see() -> None:
        system.wait_for("the pipeline to run", lambda: status()["state"] == "RUNNING")
        after = status()
        assert (after["waits_for"], after["error"]) == (None, None)
        assert after["run"] > before["run"]
        assert after["query_id"] == before["query_id"]

    _run_with_kills(system, "server", kill, kills=1, see=see)


def test_killed_redis(system: System) -> None:
    def kill() -> None:
        system.redis.kill()
        system.redis.start()
        system.redis.wait()

    _run_with_kills(system, "redis", kill)


def _run_with_kills(
    system: System,
    name: str,
    kill: Callable[[], None],
    kills: int = KILLS,
    see: Callable[[], None] = lambda: None,
) -> None:
    """Run a pipeline over files in small epochs and kill something a few times on the way.

    Args:
        system: Where.
        name: Of the pipeline.
        kill: Kills something, and brings it back where nobody else does.
        kills: How often.
        see: What is to be seen of the pipeline behind its input, before it is stopped.
    """
    files, expected = _write_changes(system.files / name, seed=name)
    system.post(
        "/v1/pipelines",
        {
            "name": name,
            "plan": materializer_plan(path=name),
            "options": {"rows_per_epoch_max": CHANGES_PER_FILE},
            "start": True,
        },
    )
    total = FILES * CHANGES_PER_FILE

    def rows_in() -> int:
        reply = system.http.get(f"/v1/pipelines/{name}/progress", params={"limit": 1})
        return int(reply.json()["totals"]["rows_in"]) if reply.is_success else 0

    shown = 0
    for number in range(kills):
        # A query goes on while its service is away, so the rest of the input is held back.
        before = shown * CHANGES_PER_FILE
        system.wait_for(f"{before} changes", lambda before=before: rows_in() >= before)
        shown = FILES * (number + 1) // (kills + 1)
        _show(files[:shown])
        system.wait_for("an epoch more", lambda before=before: rows_in() > before)
        assert rows_in() < shown * CHANGES_PER_FILE, "it ended before the kill: it proves nothing"
        kill()
    _show(files)
    system.wait_for("all changes", lambda: rows_in() >= total, timeout_s=300)

    assert rows_in() == total
    table = {row["k"]: (row["id"], row["v"]) for row in system.table(name, "latest")}
    assert table == expected
    see()
    system.post(f"/v1/pipelines/{name}/stop")


def _write_changes(folder: Path, seed: str) -> tuple[list[Path], dict[int, tuple[int, str]]]:
    """Write the changelog, hidden, and the table that it means, from a plain list for each key."""
    chance = random.Random(seed)
    alive: dict[int, dict[str, Any]] = {}
    histories: dict[int, list[tuple[int, str]]] = {}
    files: list[Path] = []
    folder.mkdir()
    for number in range(FILES):
        lines: list[bytes] = []
        while len(lines) < CHANGES_PER_FILE:
            identity = chance.randrange(400)
            known = alive.pop(identity, None)
            if known is not None:
                histories[known["k"]].remove((identity, known["v"]))
                lines.append(_line("-D", known))
            else:
                row = {"id": identity, "k": identity % 40, "v": f"v{chance.randrange(1000)}"}
                alive[identity] = row
                histories.setdefault(row["k"], []).append((identity, row["v"]))
                lines.append(_line("+I", row))
        files.append(folder / f"{number:04}.jsonl")
        _hidden(files[-1]).write_bytes(b"".join(lines))
    return files, {key: history[-1] for key, history in histories.items() if history}


def _show(files: Iterable[Path]) -> None:
    """Let the source find these files, in their order."""
    for each in files:
        if _hidden(each).exists():
            _hidden(each).rename(each)


def _hidden(file: Path) -> Path:
    return file.with_name(f".{file.name}")


def _line(op: str, row: dict[str, Any]) -> bytes:
    return orjson.dumps({"op": op, "data": row}) + b"\n"
