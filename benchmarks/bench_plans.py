"""Plans: how long compiling SQL takes, and loading and explaining what was compiled.

Every recorded query of the oracles that Flink compiled is compiled by our planner, each `ROUNDS`
times in a warm process, and some of them once in a process of their own ("cold": the first
compilation after the imports). Then Flink's own plans are loaded, explained and compared. The last
row is a statement of a size that nobody writes by hand.

    python -m benchmarks.bench_plans [--rounds N] [--cold N]
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from service.plan import diff, explain, load_plan
from service.plan.errors import PlanError
from service.sql import SqlError, compile_script
from tests.oracles import RECORDED

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.plan import CompiledPlan

T = TypeVar("T")
COLUMNS, JOINS = 200, 20
GOAL_MS = 2_000.0
COLD = """
import sys, time
from pathlib import Path
from service.sql import compile_script
script = Path(sys.argv[1]).read_text()
begun = time.perf_counter()
compile_script(script)
print(time.perf_counter() - begun)
"""


def main(rounds: int, cold: int) -> None:
    """Measure and print the tables."""
    scripts = _scripts()
    plans = _plans()
    print(f"{len(scripts)} queries, {len(plans)} plans, {rounds} rounds\n")
    print("| what | median ms | p99 ms | slowest ms |")
    print("|---|---:|---:|---:|")
    _row("compile, warm", [each for _ in range(rounds) for each in _times(scripts, compile_script)])
    if cold:
        _row("compile, cold", [_cold(number) for number in range(min(cold, len(scripts)))])
    texts = [plan.document for plan in plans]
    _row("load", [each for _ in range(rounds) for each in _times(texts, load_plan)])
    _row("explain", [each for _ in range(rounds) for each in _times(plans, explain)])
    pairs = list(itertools.pairwise(plans))
    _row("diff of two plans", [each for _ in range(rounds) for each in _times(pairs, _compared)])
    wide = wide_script()
    times = _times([wide] * 5, compile_script)
    _row(f"compile {COLUMNS} columns, {JOINS} joins", times)
    print(f"\ngoal for the last row: {GOAL_MS:,.0f} ms")


def wide_script() -> str:
    """A statement of `JOINS` joins over tables with `COLUMNS` columns each."""
    columns = ", ".join(f"c{each} STRING" for each in range(COLUMNS - 1))
    sources = [f"t{each}" for each in range(JOINS + 1)]
    options = "WITH ('connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'x')"
    tables = [f"CREATE TABLE {name} (id INT NOT NULL, {columns}) {options};" for name in sources]
    shown = ", ".join(f"t{each % (JOINS + 1)}.c{each % (COLUMNS - 1)}" for each in range(COLUMNS))
    names = ", ".join(f"o{each} STRING" for each in range(COLUMNS))
    joins = " ".join(f"JOIN {name} ON t0.id = {name}.id" for name in sources[1:])
    sink = f"CREATE TABLE wide ({names}) WITH ('connector' = 'blackhole');"
    return f"{' '.join(tables)} {sink} INSERT INTO wide SELECT {shown} FROM t0 {joins}"


def _scripts() -> list[str]:
    """The recorded queries that compile."""
    found = []
    for path in sorted((RECORDED / "plans").glob("*/query.sql")):
        try:
            compile_script(path.read_text())
        except SqlError:
            continue
        found.append(path.read_text())
    return found


def _plans() -> list[CompiledPlan]:
    """The recorded plans that hold all of their tables."""
    found = []
    for path in sorted((RECORDED / "plans").glob("*/plan.json")):
        try:
            found.append(load_plan(path.read_bytes()))
        except PlanError:
            continue
    return found


def _compared(pair: tuple[CompiledPlan, CompiledPlan]) -> object:
    return diff(*pair)


def _times(values: list[T], call: Callable[[T], object]) -> list[float]:
    """Seconds that each call took."""
    found = []
    for value in values:
        begun = time.perf_counter()
        call(value)
        found.append(time.perf_counter() - begun)
    return found


def _cold(number: int) -> float:
    """Seconds of the first compilation of a new process."""
    path = sorted((RECORDED / "plans").glob("*/query.sql"))[number]
    command = [sys.executable, "-c", COLD, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return float(run.stdout or "nan")


def _row(what: str, seconds: list[float]) -> None:
    times = sorted(each * 1_000 for each in seconds if not math.isnan(each))
    p99 = statistics.quantiles(times, n=100)[98] if len(times) > 1 else times[0]
    shown = f"{statistics.median(times):.2f} | {min(p99, times[-1]):.2f} | {times[-1]:.2f}"
    print(f"| {what} | {shown} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--cold", type=int, default=20)
    chosen = parser.parse_args()
    main(chosen.rounds, chosen.cold)
