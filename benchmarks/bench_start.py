"""Seconds from the start of the README's first command to the first history over HTTP.

The environment is installed; Redis, Spark Connect and the service are started by the command
itself, in a folder of its own, and ended by it. What is measured is what the command prints: from
its first line of code until one key's history was answered. The whole is the process's time, with
the proof of the table at the end.

    python -m benchmarks.bench_start [--repeat 3]
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time

from tests.conftest import free_port


def main() -> None:
    """Print a row for each run, and the median."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    print("| run | first history, s | whole demo, s |\n|---:|---:|---:|")
    firsts = []
    for number in range(1, arguments.repeat + 1):
        with tempfile.TemporaryDirectory() as folder:
            first, whole = _run(folder)
        firsts.append(first)
        print(f"| {number} | {first:.1f} | {whole:.1f} |", flush=True)
    print(f"| median | {statistics.median(firsts):.1f} | |")


def _run(folder: str) -> tuple[float, float]:
    ports = ["--port", free_port(), "--redis-port", free_port(), "--spark-port", free_port()]
    command = [sys.executable, "-m", "service", "demo", "--no-stay", "--folder", folder]
    started = time.perf_counter()
    run = subprocess.run(
        [*command, *map(str, ports)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    told = re.search(r"first history ([\d.]+) s after the start", run.stdout)
    if run.returncode or told is None:
        raise SystemExit(run.stdout)
    return float(told[1]), time.perf_counter() - started


if __name__ == "__main__":
    main()
