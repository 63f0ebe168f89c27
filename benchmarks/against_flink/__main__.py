"""Whole jobs, Flink on RocksDB against Tailrace on Redis: `make bench-flink`.

    python -m benchmarks.against_flink --flink PYTHON [--rows 2000000] [--keys 10000] [--turns 2]

Both read the same files with the same SQL, two tasks at a time on the same machine, one after the
other, each in a JVM that ran the query before; the least of the turns behind the first one counts.
Tailrace's time is from the request that creates the pipeline until the epoch that holds the last
row is committed; every epoch is exactly-once, and Redis syncs its file at each write. Flink's has
incremental checkpoints every 2 s, and is given twice: the whole job, from its submission, with the
start of its local cluster and the wait for the last checkpoint; and the net time of Flink's own
account, without both. Tailrace's time always has the start of the query in it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.against_flink.queries import QUERIES, Query, statements, write_files
from tests.integration.system import System

PARALLELISM = 2
ROWS_PER_EPOCH = 100_000


def main() -> None:
    """Print a row for each query."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--flink", required=True, help="a Python that has apache-flink")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=2, help="timed ones, behind one that is not")
    parser.add_argument("--only", choices=[each.name for each in QUERIES], help="one query")
    asked = parser.parse_args()
    chosen = [each for each in QUERIES if asked.only in (None, each.name)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with System(folder / "system") as system:
            write_files(system.files, asked.rows, asked.keys)
            ours = [_ours(system, each, asked.turns, asked) for each in chosen]
        version, theirs = _flink(asked.flink, chosen, asked.turns, folder, system.files)
    print(f"Flink {version}, {asked.rows:,} rows, {asked.keys:,} keys; changes a second\n")
    print("| query | Tailrace on Redis | Flink on RocksDB, whole job | ratio | net | ratio |")
    print("|---|---:|---:|---:|---:|---:|")
    for query, mine, (whole, net) in zip(chosen, ours, theirs, strict=True):
        rows = _rows(query, asked)
        theirs_told = " | ".join(f"{rows / each:,.0f} | {each / mine:.2f}" for each in (whole, net))
        print(f"| {query.name} | {rows / mine:,.0f} | {theirs_told} |")


def _rows(query: Query, asked: argparse.Namespace) -> int:
    return int(asked.rows + (asked.keys if query.with_names else 0))


def _ours(system: System, query: Query, turns: int, asked: argparse.Namespace) -> float:
    """Seconds of the best turn."""
    rows = _rows(query, asked)
    seconds = []
    for turn in range(turns + 1):
        name = f"{query.name.replace(' ', '-')}-{turn}"
        body = {
            "name": name,
            "sql": ";\n".join(statements(query, "events", "names")),
            "options": {"rows_per_epoch_max": ROWS_PER_EPOCH, "trigger_interval_ms": 0},
            "start": True,
        }
        started = time.perf_counter()
        system.post("/v1/pipelines", body)
        system.wait_for("the rows", lambda name=name: _committed(system, name) >= rows, 900)
        seconds.append(time.perf_counter() - started)
        system.http.delete(f"/v1/pipelines/{name}").raise_for_status()
    print(f"{query.name}: {', '.join(f'{each:.1f}' for each in seconds)} s", file=sys.stderr)
    return min(seconds[1:])


def _committed(system: System, pipeline: str) -> int:
    reply = system.http.get(f"/v1/pipelines/{pipeline}/progress", params={"limit": 1})
    return int(reply.json()["totals"]["rows_in"]) if reply.is_success else 0


def _flink(
    python: str, chosen: list[Query], turns: int, folder: Path, files: Path
) -> tuple[str, list[tuple[float, float]]]:
    """Flink's version, and of each query the least seconds of a whole job and of its net time."""
    events, names = ((files / each).as_uri() for each in ("events", "names"))
    jobs = [statements(each, events, names) for each in chosen for _ in range(turns + 1)]
    # -P: else `profile` of this folder stands for that of Flink's Python.
    run = subprocess.run(
        [python, "-P", str(Path(__file__).with_name("flink_job.py"))],
        input=json.dumps({"jobs": jobs, "folder": str(folder), "parallelism": PARALLELISM}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    told = json.loads(run.stdout.splitlines()[-1])
    print(f"Flink: {told['seconds']}", file=sys.stderr)
    least = []
    for at in range(0, len(jobs), turns + 1):
        wholes, nets = zip(*told["seconds"][at + 1 : at + turns + 1], strict=True)
        least.append((min(wholes), min(nets)))
    return str(told["version"]), least


if __name__ == "__main__":
    main()
