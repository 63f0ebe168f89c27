"""Where a spread history becomes cheaper than a packed one: what ADAPTIVE's defaults rest on.

One key with a history of a given length; then epochs of a number of changes, half of them new rows,
half retractions from the middle, so that the length stays. Strategies VALUE (packed) and MAP
(spread) are measured right after each other; what counts is their ratio.

    python -m benchmarks.bench_adaptive_thresholds [--backend heap,redis] [--epochs 6]
                                                   [--changes 10,100,1000] [--payload 40]
"""

from __future__ import annotations

import argparse
import statistics
import time
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

LENGTHS = (50, 100, 200, 400, 800, 1600, 3200)
_NODE = "bench_sink-materializer"


def epochs_of(length: int, changes: int, epochs: int, payload: str) -> Iterator[ChangeBatch]:
    """The epoch that fills the history, then those that are measured."""
    yield batch_of(np.arange(length), np.zeros(length, np.int8), payload)
    half = changes // 2
    oldest = length // 2
    for number in range(epochs):
        ids, kinds = np.empty(2 * half, np.int64), np.zeros(2 * half, np.int8)
        ids[0::2] = length + number * half + np.arange(half)
        ids[1::2] = oldest + number * half + np.arange(half)
        kinds[1::2] = 3
        yield batch_of(ids, kinds, payload)


def batch_of(ids: np.ndarray, kinds: np.ndarray, payload: str) -> ChangeBatch:
    """Rows (id, key, payload), each payload its own."""
    payloads = [f"{each}{payload}" for each in ids.tolist()]
    key = pa.array(np.zeros(ids.size, np.int32))
    return ChangeBatch.of([pa.array(ids), key, pa.array(payloads)], kinds)


def epoch_ms(
    strategy: Strategy, batches: list[ChangeBatch], neighbours: Neighbours, backend: str
) -> float:
    """Median time of an epoch, with its commit, close and promotion."""
    spec = MaterializerSpec(
        types=tuple(map(parse_type, ("BIGINT", "INT", "VARCHAR(2147483647)"))),
        names=("id", "k", "payload"),
        key=(1,),
        upsert_key=None,
        strategy=strategy,
        backend=backend,
    )
    operator, ledger = UpsertMaterializer(spec), neighbours.ledger
    ledger.drop()
    run = ledger.open_run([_NODE], 1)
    times = []
    for number, batch in enumerate(batches, start=1):
        started = time.perf_counter()
        stamp = EpochStamp(number, run, number)
        transaction = neighbours.backend.begin(_NODE, stamp, [0])
        operator.run_epoch(batch, transaction, time_ms=number, key_groups=[0])
        ledger.close_epoch(stamp, {}, [])
        ledger.promote_all([_NODE], 1)
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times[1:])


def main() -> None:
    """Print a table for each backend: ms of an epoch packed / spread."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--backend", default="heap,redis")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--changes", default="10,100,1000")
    parser.add_argument("--payload", type=int, default=40, help="bytes, beside the id")
    options = parser.parse_args()
    sizes = [int(each) for each in options.changes.split(",")]
    for backend in options.backend.split(","):
        print(f"\n{backend}: ms of an epoch, packed / spread, by changes in the epoch")
        print("| length | " + " | ".join(map(str, sizes)) + " |")
        print("|---:" * (len(sizes) + 1) + "|")
        with heap_neighbours() if backend == "heap" else redis_neighbours() as neighbours:
            for length in LENGTHS:
                cells = []
                for size in sizes:
                    batches = list(epochs_of(length, size, options.epochs, "x" * options.payload))
                    packed, spread = (
                        epoch_ms(each, batches, neighbours, backend)
                        for each in (Strategy.VALUE, Strategy.MAP)
                    )
                    cells.append(f"{packed:.2f} / {spread:.2f}")
                print(f"| {length} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
