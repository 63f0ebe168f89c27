"""FLIP-544's table: 10,000 inserts on one key, some of them retracted, by strategy and length.

Rows are (id BIGINT, key INT, payload VARCHAR): 250 random bytes read as UTF-8, about 430 bytes, the
same in every row. Row `id - offset` is deleted after insert `id`, offset = (1 + delay) / 2, if
id >= delay and id % 100 < percentage (the rule of the FLIP's text; Flink's benchmark PR 106 deletes
from the first row on at 100 %). Heap: one epoch. Redis: epochs of 1,000 changes, each committed,
closed and promoted. Unit: inserts per ms, deletes not counted: of wall time, and in brackets of
this process's CPU time (without Redis's own), which says more where the machine is shared.

    python -m benchmarks.bench_flip544 [--backend heap,redis] [--strategy ...] [--repeat 5]
                                       [--delay 1000,5000] [--percentage 100]
                                       [--redis redis://127.0.0.1:6379/0] [--json FILE]

Without --redis a redis-server of its own is started on a free port, append-only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.neighbours import Neighbours, heap_neighbours, redis_neighbours
from operators.batch import ChangeBatch
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from state.backends.interface import EpochStamp
from state.multiset.strategy import Strategy
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator

INSERTS = 10_000
DELAYS = (2, 10, 50, 100, 1000, 5000)
PERCENTAGES = (100, 75)
EPOCH_CHANGES = {"heap": None, "redis": 1000}
_NODE = "bench_sink-materializer"


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of the table."""

    backend: str
    has_upsert_key: bool
    percentage: int
    delay: int
    strategy: Strategy


def changelog(percentage: int, delay: int) -> ChangeBatch:
    """All changes of a cell, in order."""
    ids = np.arange(INSERTS)
    deleted = (ids >= delay) & (ids % 100 < percentage)
    offset = (1 + delay) // 2
    places = ids + np.cumsum(deleted) - deleted
    count = INSERTS + int(deleted.sum())
    kinds = np.full(count, 3, np.int8)
    kinds[places] = 0
    values = np.empty(count, np.int64)
    values[places] = ids
    values[places[deleted] + 1] = ids[deleted] - offset
    payload = np.random.default_rng(544).bytes(250).decode("utf-8", "replace")
    columns = [
        pa.array(values),
        pa.array(np.zeros(count, np.int32)),
        pa.array([payload] * count, pa.string()),
    ]
    return ChangeBatch.of(columns, kinds)


def spec_of(cell: Cell) -> MaterializerSpec:
    """The operator of a cell."""
    return MaterializerSpec(
        types=tuple(map(parse_type, ("BIGINT", "INT", "VARCHAR(2147483647)"))),
        names=("id", "k", "payload"),
        key=(1,),
        upsert_key=(0,) if cell.has_upsert_key else None,
        strategy=cell.strategy,
        backend=cell.backend,
    )


def epochs_of(batch: ChangeBatch, size: int | None) -> Iterator[ChangeBatch]:
    """The batch in epochs of a number of changes; as one if None."""
    for start in range(0, len(batch), size or len(batch)):
        part = slice(start, start + (size or len(batch)))
        length = min(len(batch), part.stop) - start
        yield ChangeBatch(
            tuple(column.slice(start, length) for column in batch.columns),
            batch.kinds[part],
            batch.order[part],
            batch.key_groups[part],
        )


@dataclass(frozen=True, slots=True)
class Rate:
    """Inserts per ms."""

    wall: float
    cpu: float


def run_once(cell: Cell, batches: list[ChangeBatch], neighbours: Neighbours) -> Rate:
    """One run on empty state."""
    operator = UpsertMaterializer(spec_of(cell))
    ledger, backend = neighbours.ledger, neighbours.backend
    ledger.drop()
    run = ledger.open_run([_NODE], 1)
    started, started_cpu = time.perf_counter(), time.process_time()
    for number, batch in enumerate(batches, start=1):
        stamp = EpochStamp(epoch=number, run=run, time_ms=number)
        transaction = backend.begin(_NODE, stamp, [0])
        operator.run_epoch(batch, transaction, time_ms=number, key_groups=[0])
        ledger.close_epoch(stamp, {}, [])
    ledger.promote_all([_NODE], 1)
    wall, cpu = time.perf_counter() - started, time.process_time() - started_cpu
    return Rate(INSERTS / wall / 1000, INSERTS / cpu / 1000)


def measure(cell: Cell, neighbours: Neighbours, repeat: int) -> list[Rate]:
    """Several runs of a cell; the first one, which warms up, is left out."""
    batches = list(epochs_of(changelog(cell.percentage, cell.delay), EPOCH_CHANGES[cell.backend]))
    return [run_once(cell, batches, neighbours) for _ in range(repeat + 1)][1:]


@dataclass(frozen=True, slots=True)
class Asked:
    """Which cells, and how often."""

    strategies: list[Strategy]
    delays: list[int]
    percentages: list[int]
    repeat: int


def table(backend: str, asked: Asked, neighbours: Neighbours) -> list[dict[str, object]]:
    """Measure and print the cells of a backend; strategies of a cell right after each other."""
    rows: list[dict[str, object]] = []
    strategies = asked.strategies
    for has_upsert_key in (False, True):
        for percentage in asked.percentages:
            print(f"\n{backend}, upsert key {has_upsert_key}, {percentage} % retracted")
            print("| delay | " + " | ".join(each.value for each in strategies) + " |")
            print("|---:" * (len(strategies) + 1) + "|")
            for delay in asked.delays:
                figures = []
                for strategy in strategies:
                    cell = Cell(backend, has_upsert_key, percentage, delay, strategy)
                    runs = measure(cell, neighbours, asked.repeat)
                    wall = statistics.median(each.wall for each in runs)
                    cpu = statistics.median(each.cpu for each in runs)
                    figures.append(f"{wall:,.0f} ({cpu:,.0f})")
                    rows.append(
                        {
                            "backend": backend,
                            "upsert_key": has_upsert_key,
                            "percentage": percentage,
                            "delay": delay,
                            "strategy": strategy.value,
                            "inserts_per_ms": round(wall, 1),
                            "inserts_per_ms_best": round(max(each.wall for each in runs), 1),
                            "inserts_per_cpu_ms": round(cpu, 1),
                        }
                    )
                print(f"| {delay} | " + " | ".join(figures) + " |", flush=True)
    return rows


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="heap,redis")
    parser.add_argument("--strategy", default="LEGACY,VALUE,MAP,ADAPTIVE")
    parser.add_argument("--delay", default=",".join(map(str, DELAYS)))
    parser.add_argument("--percentage", default=",".join(map(str, PERCENTAGES)))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--redis", default=None, help="address; its own server if not given")
    parser.add_argument("--json", default=None, help="file for the figures")
    arguments = parser.parse_args()
    asked = Asked(
        strategies=[Strategy(each) for each in arguments.strategy.split(",")],
        delays=[int(each) for each in arguments.delay.split(",")],
        percentages=[int(each) for each in arguments.percentage.split(",")],
        repeat=arguments.repeat,
    )
    rows: list[dict[str, object]] = []
    for backend in arguments.backend.split(","):
        opened = heap_neighbours() if backend == "heap" else redis_neighbours(arguments.redis)
        with opened as neighbours:
            rows += table(backend, asked, neighbours)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
