"""FLIP-544's table: 10,000 inserts on one key, some of them retracted, by strategy and length.

Rows are (id BIGINT, key INT, payload VARCHAR): 250 random bytes read as UTF-8, about 430 bytes, the
same in every row (`--payload` takes another number). Row `id - offset` is deleted after insert
`id`, offset = (1 + delay) / 2, if id >= delay and id % 100 < percentage (the rule of the FLIP's
text; Flink's benchmark PR 106 deletes from the first row on at 100 %). Heap: one epoch. Redis:
epochs of 1,000 changes, each committed, closed and promoted. Memory is kept from epoch to epoch as
Spark's workers keep it. Unit: inserts per ms of wall time, deletes not counted.

The machine is shared, and its speed changes by half from minute to minute. So the table is gone
through in rounds, in each of which a cell is run a few times, and told is what a cell had in its
best round and in the median one. Beside it stands what the machine did meanwhile: how fast a fixed
piece of work was in each round, as a part of its best. The ratio of delays is taken within rounds,
where its two cells stand beside each other.

    python -m benchmarks.bench_flip544 [--backend heap,redis] [--strategy ...] [--rounds 7]
                                       [--repeat 3] [--delay 1000,5000] [--percentage 100]
                                       [--payload 250] [--redis redis://127.0.0.1:6379/0]
                                       [--json FILE]

Without --redis a redis-server of its own is started on a free port, append-only.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import orjson
import pyarrow as pa

from benchmarks.neighbours import Neighbours, heap_neighbours, redis_neighbours
from benchmarks.state_epochs import load_text
from operators.batch import ChangeBatch
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from service.runtime.daemon import keep_memory
from state.backends.interface import EpochStamp
from state.multiset.strategy import Strategy
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

INSERTS = 10_000
DELAYS = (2, 10, 50, 100, 1000, 5000)
SHORT_DELAY, LONG_DELAY = 10, 5000
"""Whose times are compared."""
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
    payload_bytes: int = 250


def changelog(percentage: int, delay: int, payload_bytes: int) -> ChangeBatch:
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
    payload = np.random.default_rng(544).bytes(payload_bytes).decode("utf-8", "replace")
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


def run_once(cell: Cell, batches: list[ChangeBatch], neighbours: Neighbours) -> float:
    """Inserts per ms of one run on empty state."""
    operator = UpsertMaterializer(spec_of(cell))
    ledger, backend = neighbours.ledger, neighbours.backend
    ledger.drop()
    run = ledger.open_run([_NODE], 1)
    started = time.perf_counter()
    for number, batch in enumerate(batches, start=1):
        stamp = EpochStamp(epoch=number, run=run, time_ms=number)
        transaction = backend.begin(_NODE, stamp, [0])
        operator.run_epoch(batch, transaction, time_ms=number, key_groups=[0])
        ledger.close_epoch(stamp, {}, [])
    ledger.promote_all([_NODE], 1)
    return INSERTS / (time.perf_counter() - started) / 1000


def measure(cell: Cell, neighbours: Neighbours, repeat: int) -> float:
    """The median of several runs of a cell; the first one, which warms up, is left out."""
    changes = changelog(cell.percentage, cell.delay, cell.payload_bytes)
    batches = list(epochs_of(changes, EPOCH_CHANGES[cell.backend]))
    return statistics.median([run_once(cell, batches, neighbours) for _ in range(repeat + 1)][1:])


def machine_speed() -> float:
    """How fast this machine is now: times a second that it does a fixed piece of work."""
    text, numbers = b"x" * 430, np.arange(20_000)
    taken = []
    for _ in range(5):
        started = time.perf_counter()
        digests = [blake2b(b"%d%b" % (each, text)).digest() for each in range(4_000)]
        np.argsort(numbers * 7919 % 20_011)
        sorted(digests)
        taken.append(time.perf_counter() - started)
    return 1 / min(taken)


def rounds_of(
    cells: Sequence[Cell], neighbours: Neighbours, rounds: int, repeat: int
) -> tuple[dict[Cell, list[float]], list[float]]:
    """What each cell had in each round, and how fast the machine was in it."""
    rates: dict[Cell, list[float]] = {cell: [] for cell in cells}
    speeds = []
    for _ in range(rounds):
        speeds.append(machine_speed())
        for cell in cells:
            rates[cell].append(measure(cell, neighbours, repeat))
    return rates, speeds


def print_table(rates: Mapping[Cell, Sequence[float]], strategies: Sequence[Strategy]) -> None:
    """Print the cells of a backend, best round first, the median one in brackets."""
    groups = dict.fromkeys((cell.has_upsert_key, cell.percentage) for cell in rates)
    for has_upsert_key, percentage in groups:
        rows: dict[int, dict[Strategy, Sequence[float]]] = {}
        for cell, found in rates.items():
            if (cell.has_upsert_key, cell.percentage) == (has_upsert_key, percentage):
                rows.setdefault(cell.delay, {})[cell.strategy] = found
        print(f"\n{percentage} % retracted, {'an' if has_upsert_key else 'no'} upsert key\n")
        print("| delay | " + " | ".join(each.value for each in strategies) + " |")
        print("|---:" * (len(strategies) + 1) + "|")
        for delay, row in rows.items():
            figures = [f"{max(row[s]):,.0f} ({statistics.median(row[s]):,.0f})" for s in strategies]
            print(f"| {delay} | " + " | ".join(figures) + " |")
        if {LONG_DELAY, SHORT_DELAY} <= rows.keys():
            figures = [
                f"{statistics.median(ratios(rows[SHORT_DELAY][s], rows[LONG_DELAY][s])):.2f}"
                for s in strategies
            ]
            print(f"| time at {LONG_DELAY} / {SHORT_DELAY} | " + " | ".join(figures) + " |")


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """The quotients, round by round."""
    return [one / other for one, other in zip(above, below, strict=True)]


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="heap,redis")
    parser.add_argument("--strategy", default="LEGACY,VALUE,MAP,ADAPTIVE")
    parser.add_argument("--delay", default=",".join(map(str, DELAYS)))
    parser.add_argument("--percentage", default=",".join(map(str, PERCENTAGES)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeat", type=int, default=3, help="runs of a cell in a round")
    parser.add_argument("--payload", type=int, default=250, help="random bytes of a row")
    parser.add_argument("--redis", default=None, help="address; its own server if not given")
    parser.add_argument("--json", default=None, help="file for the figures")
    given = parser.parse_args()
    keep_memory()
    strategies = [Strategy(each) for each in given.strategy.split(",")]
    written = []
    for backend in given.backend.split(","):
        cells = [
            Cell(backend, has_upsert_key, int(percentage), int(delay), strategy, given.payload)
            for has_upsert_key in (False, True)
            for percentage in given.percentage.split(",")
            for delay in given.delay.split(",")
            for strategy in strategies
        ]
        opened = heap_neighbours() if backend == "heap" else redis_neighbours(given.redis)
        with opened as neighbours:
            rates, speeds = rounds_of(cells, neighbours, given.rounds, given.repeat)
        told = ", ".join(f"{each / max(speeds):.2f}" for each in speeds)
        print(f"\n## {backend}\n\n{load_text()}; speed of the machine by round: {told}")
        print_table(rates, strategies)
        written += [{**asdict(cell), "inserts_per_ms": found} for cell, found in rates.items()]
    if given.json:
        Path(given.json).write_bytes(orjson.dumps(written, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
