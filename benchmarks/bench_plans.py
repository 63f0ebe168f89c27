"""Plans: how long compiling SQL takes, and loading and explaining what was compiled.

Every recorded query of the oracles that Flink compiled is compiled by our planner, each `ROUNDS`
times in a warm process, and some of them once in a process of their own ("cold": the first
compilation after the imports). Then Flink's own plans are loaded, explained and compared. The last
rows are scripts of a size that nobody writes by hand: many joins, many columns, a megabyte. A
service ends a request's planning after `limits.planning_timeout_ms`.

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
    from collections.abc import Callable, Iterator

    from service.plan import CompiledPlan

T = TypeVar("T")
COLUMNS, JOINS = 200, 20
WIDEST = 10_000
SCRIPT_SIZE = 1024 * 1024
WITH = "'connector' = 'filesystem', 'format' = 'changelog-json', 'path' = 'x'"
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
    joins = f"compile {COLUMNS} columns, {JOINS} joins"
    _row(joins, _times([wide_script()] * 5, compile_script))
    _row(f"compile {WIDEST:,} columns", _times([columns_script()], compile_script))
    declarations, inserts = declared_script(), inserting_script()
    _row("compile 1 MB of declarations", _times([declarations], compile_script))
    _row("compile 1 MB of INSERT statements", _times([inserts], compile_script))
    print(f"\ngoal for {joins!r}: {GOAL_MS:,.0f} ms")


def wide_script() -> str:
    """A statement of `JOINS` joins over tables with `COLUMNS` columns each."""
    columns = ", ".join(f"c{each} STRING" for each in range(COLUMNS - 1))
    sources = [f"t{each}" for each in range(JOINS + 1)]
    tables = [
        f"CREATE TABLE {name} (id INT NOT NULL, {columns}) WITH ({WITH});" for name in sources
    ]
    shown = ", ".join(f"t{each % (JOINS + 1)}.c{each % (COLUMNS - 1)}" for each in range(COLUMNS))
    names = ", ".join(f"o{each} STRING" for each in range(COLUMNS))
    joins = " ".join(f"JOIN {name} ON t0.id = {name}.id" for name in sources[1:])
    sink = f"CREATE TABLE wide ({names}) WITH ('connector' = 'blackhole');"
    return f"{' '.join(tables)} {sink} INSERT INTO wide SELECT {shown} FROM t0 {joins}"


def columns_script() -> str:
    """A statement over a table of `WIDEST` columns, each by its name."""
    names = [f"c{each}" for each in range(WIDEST)]
    columns = ", ".join(f"{name} INT" for name in names)
    tables = (f"CREATE TABLE {name} ({columns}) WITH ({WITH});" for name in ("wide", "out"))
    return f"{' '.join(tables)} INSERT INTO out SELECT {', '.join(names)} FROM wide"


def declared_script() -> str:
    """Tables with watermarks, up to `SCRIPT_SIZE` characters, and a statement."""
    columns = "k INT, v STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
    tables = (f"CREATE TABLE t{each} ({columns}) WITH ({WITH});\n" for each in itertools.count())
    return f"{_filled(tables)}INSERT INTO t0 SELECT * FROM t1"


def inserting_script() -> str:
    """A statement set of filters, up to `SCRIPT_SIZE` characters."""
    tables = (f"CREATE TABLE {name} (k INT, v STRING) WITH ({WITH});" for name in ("s", "t"))
    inserts = (
        f"INSERT INTO t SELECT k, v FROM s WHERE k = {each};\n" for each in itertools.count()
    )
    return f"{' '.join(tables)} EXECUTE STATEMENT SET BEGIN {_filled(inserts)} END"


def _filled(statements: Iterator[str]) -> str:
    """As many statements as fit."""
    size, chosen = 0, []
    for each in statements:
        size += len(each)
        if size > SCRIPT_SIZE - 500:
            break
        chosen.append(each)
    return "".join(chosen)


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
