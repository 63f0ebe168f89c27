"""Where the processor time of a whole job goes: by process, and in the JVM by kind of thread.

    python -m benchmarks.against_flink.profile [--only aggregate] [--rows 400000] [--turns 2]

The jobs are those of `benchmarks.against_flink`, without Flink. Processes are looked at twice a
second while a job runs, so that those which end meanwhile are counted, up to half a second each.
What is printed are the seconds of each turn behind the first one, which loads and compiles most of
Spark. Seconds of processor time depend far less than those of a clock on what else runs here.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.against_flink.queries import QUERIES, Query, statements, write_files
from tests.integration.system import System

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS_PER_EPOCH = 100_000
LOOK_AGAIN_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")
_PARTS = (
    "workers",
    "helpers",
    "JVM tasks",
    "JVM compilers",
    "JVM planning",
    "JVM rest",
    "Redis",
    "service",
)


class Watch:
    """Adds up the processor time of everything below this process."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], tuple[str, float]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def seconds(self) -> dict[str, float]:
        """Since the beginning, by part."""
        self._look()
        found = dict.fromkeys(_PARTS, 0.0)
        for part, spent in list(self._known.values()):
            found[part] += spent
        return found

    def close(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(LOOK_AGAIN_S):
            self._look()

    def _look(self) -> None:
        for process, command in _below(os.getpid()):
            is_jvm = command.startswith(b"java") or b"/java" in command.split(b"\0")[0]
            for thread in _entries(Path(f"/proc/{process}/task")):
                try:
                    stat = (thread / "stat").read_text()
                except OSError:
                    continue
                name, fields = _fields(stat)
                spent = (int(fields[11]) + int(fields[12])) / _TICKS
                part = _of_jvm(name) if is_jvm else _of_process(command)
                self._known[process, int(thread.name)] = part, spent


def _below(root: int) -> Iterator[tuple[int, bytes]]:
    """The processes below one, with their command lines."""
    parents, commands = {}, {}
    for entry in _entries(Path("/proc")):
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(_fields((entry / "stat").read_text())[1][1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
    for process, command in commands.items():
        above = parents[process]
        while above in parents and above != root:
            above = parents[above]
        if above == root:
            yield process, command


def _entries(folder: Path) -> list[Path]:
    try:
        return [*folder.iterdir()]
    except OSError:
        return []


def _fields(stat: str) -> tuple[str, list[str]]:
    """The name of a process or thread, and the fields behind it."""
    name, _, rest = stat.partition("(")[2].rpartition(")")
    return name, rest.split()


def _of_process(command: bytes) -> str:
    if b"service.runtime.daemon" in command:
        return "workers"
    if b"redis-server" in command:
        return "Redis"
    return "service" if b"service\0serve" in command else "helpers"


def _of_jvm(thread: str) -> str:
    if re.match(r"C[12] Com", thread):
        return "JVM compilers"
    if thread.startswith("Executor task"):
        return "JVM tasks"
    return "JVM planning" if thread.startswith("stream executio") else "JVM rest"


def main() -> None:
    """Print a row for each turn of each query."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=2, help="shown ones, behind one that is not")
    parser.add_argument("--only", choices=[each.name for each in QUERIES], help="one query")
    asked = parser.parse_args()
    chosen = [each for each in QUERIES if asked.only in (None, each.name)]
    print(f"{asked.rows:,} rows, seconds of processor time\n")
    print(f"| query | {' | '.join(_PARTS)} | all |")
    print(f"|---|{'---:|' * (len(_PARTS) + 1)}")
    with tempfile.TemporaryDirectory() as name, System(Path(name) / "system") as system:
        write_files(system.files, asked.rows, asked.keys)
        watch = Watch()
        for query in chosen:
            for turn in range(asked.turns + 1):
                rows = asked.rows + (asked.keys if query.with_names else 0)
                before = watch.seconds()
                _run(system, query, turn, rows)
                after = watch.seconds()
                spent = [after[each] - before[each] for each in _PARTS]
                if turn:
                    figures = " | ".join(f"{each:.1f}" for each in (*spent, sum(spent)))
                    print(f"| {query.name} | {figures} |", flush=True)
        watch.close()


def _run(system: System, query: Query, turn: int, rows: int) -> None:
    name = f"{query.name.replace(' ', '-')}-{turn}"
    body = {
        "name": name,
        "sql": ";\n".join(statements(query, "events", "names")),
        "options": {"rows_per_epoch_max": ROWS_PER_EPOCH, "trigger_interval_ms": 0},
        "start": True,
    }
    system.post("/v1/pipelines", body)

    def is_done() -> bool:
        time.sleep(LOOK_AGAIN_S)
        reply = system.http.get(f"/v1/pipelines/{name}/progress", params={"limit": 1})
        return reply.is_success and int(reply.json()["totals"]["rows_in"]) >= rows

    system.wait_for("the rows", is_done, 1_800)
    system.http.delete(f"/v1/pipelines/{name}").raise_for_status()


if __name__ == "__main__":
    main()
