"""FLIP-220's custom time window, written by a user, against the built-in OVER window.

For each row, the sum of a column over the time before it, both with one row out for each row in:

    custom    `examples/custom_window`: a function of users with a sorted map and timers
    built in  `SUM(v) OVER (PARTITION BY k ORDER BY ts RANGE ...)`, the operator of the plan

Epochs are whole (rows out of Arrow columns, prefetch, operator, commit, close and promotion) and
bring the same rows: `--changes` of them over 100 keys, in the order of their times, the watermark
behind the last. What stands in the table is changes a second of processor time, of this process and
of the Redis server together; the first epochs, which fill the window, are not counted.

    python -m benchmarks.bench_custom_window [--changes 2000] [--rounds 3]
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.operator_task import Task, example_installed
from benchmarks.state_epochs import Ground, ground, load_text
from operators.aggregate.call import AggregateCall
from operators.batch import ChangeBatch
from operators.keyed import EpochTimes
from operators.over.over_aggregate import OverSpec
from operators.process_function import ProcessFunctionSpec
from operators.spec import InputSpec, RowSpec

if TYPE_CHECKING:
    from operators.spec import OperatorSpec

GROUPS = 4
KEYS = 100
ROWS_OF_WINDOW = (3, 10, 30, 100)
TYPES, NAMES = ("STRING", "BIGINT", "TIMESTAMP(3)"), ("k", "v", "ts")
INPUT = InputSpec(types=TYPES, names=NAMES, key=(0,))


def custom(size_ms: int) -> OperatorSpec:
    """The example."""
    return ProcessFunctionSpec.build(
        inputs=(INPUT,),
        output=RowSpec(types=TYPES, names=("k", "total", "rowtime")),
        function="CustomWindow",
        arguments={"column": "v", "size_ms": size_ms},
        time_columns=(2,),
    )


def built_in(size_ms: int) -> OperatorSpec:
    """The operator of an OVER aggregation."""
    total = AggregateCall(
        function="$SUM0",
        name="total",
        arguments=(1,),
        argument_types=("BIGINT",),
        result_type="BIGINT",
        needs_retraction=True,
    )
    return OverSpec.build(
        inputs=(INPUT,),
        output=RowSpec(types=(*TYPES, "BIGINT"), names=(*NAMES, "total")),
        calls=(total,),
        time_column=2,
        is_rows=False,
        preceding=size_ms,
    )


def run(task: Task, changes: int) -> float:
    """Run the next epoch, which has a millisecond for each key's row; its processor time."""
    epoch = task.epoch + 1
    steps = changes // KEYS
    before_ms, after_ms = ((epoch - at) * steps for at in (1, 0))
    times = np.repeat(np.arange(before_ms + 1, after_ms + 1), KEYS)
    keys = np.tile(np.arange(KEYS), steps)
    columns = (
        pa.array([f"k{each}" for each in keys.tolist()]),
        pa.array(times % 1_000),
        pa.array(times.astype("datetime64[ms]").astype("datetime64[us]")),
    )
    order = np.arange(times.size)
    batch = ChangeBatch.of(columns, np.zeros(times.size, np.int8), order, keys % GROUPS)
    spent = task.run([batch], EpochTimes(epoch, before_ms, after_ms))
    assert task.emitted == len(batch), "a row out for each row in"
    return spent


def rate(spec: OperatorSpec, where: Ground, rows: int, changes: int, rounds: int) -> float:
    """Changes a second of processor time, once the window is full: the best epoch."""
    task = Task(spec, where, GROUPS)
    for _ in range(2 + rows * KEYS // changes):
        run(task, changes)
    return changes / min(run(task, changes) for _ in range(rounds))


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.changes} changes an epoch, {load_text()}\n")
    print("| backend | rows in a key's window | custom | built in | custom / built in |")
    print("|---|---:|---:|---:|---:|")
    with example_installed():
        for backend in ("heap", "redis"):
            for rows in ROWS_OF_WINDOW:
                with ground(backend) as where:
                    found = [
                        rate(make(rows - 1), where, rows, options.changes, options.rounds)
                        for make in (custom, built_in)
                    ]
                ratio = found[0] / found[1]
                print(
                    f"| {backend} | {rows:,} | {found[0]:,.0f} | {found[1]:,.0f} | {ratio:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
