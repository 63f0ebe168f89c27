"""Where a change of a keyed operator takes longer with more keys, on heap, by function of C.

The epochs of `once` of `bench_operators`, and nothing else, are sampled by Linux's `perf`, which
must be installed, by processor time and without counters of the processor, so that it works in a
virtual machine, too. Sampling itself takes time: read shares and differences, not the sums.

    python -m benchmarks.profile_growth [--operator aggregate] [--keys 1000,1000000]
                [--epochs 300] [--rows 12]
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import takewhile
from pathlib import Path

import pyarrow as pa

from benchmarks.bench_operators import ONCE_TIMES, Plan
from benchmarks.operator_cases import CASES
from benchmarks.operator_feeds import FEED_SCHEMA, batches_of, to_batch
from benchmarks.operator_task import Task
from benchmarks.state_epochs import ground

SAMPLES_PER_S = 20_000
OTHERS = "all else"


class Sampler:
    """`perf record` of this process, between `resume` and `pause`."""

    def __init__(self, folder: Path) -> None:
        self._data = folder / "perf.data"
        orders, answers = folder / "orders", folder / "answers"
        for each in (orders, answers):
            os.mkfifo(each)
        command = ["perf", "record", "--quiet", "--event", "cpu-clock:u"]
        command += ["--freq", str(SAMPLES_PER_S), "--pid", str(os.getpid()), "--delay=-1"]
        command += ["--control", f"fifo:{orders},{answers}", "--output", str(self._data)]
        self._process = subprocess.Popen(command)
        self._orders = orders.open("w")
        self._answers = answers.open()

    def resume(self) -> None:
        """Sample from here on."""
        self._order("enable")

    def pause(self) -> None:
        """Sample no more."""
        self._order("disable")

    def end(self) -> Counter[str]:
        """The samples, by function."""
        self._order("stop")
        self._process.wait()
        lines = subprocess.run(
            ["perf", "script", "--input", str(self._data), "--fields", "ip,sym"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        ).stdout.splitlines()
        return Counter(line.split()[1] for line in lines if line.strip())

    def _order(self, order: str) -> None:
        self._orders.write(f"{order}\n")
        self._orders.flush()
        self._answers.readline()


def feed_here(options: argparse.Namespace) -> None:
    """Write the epochs up to the last one of `once`, an Arrow batch each."""
    turns = -(-options.epochs // ONCE_TIMES)
    of_plan = argparse.Namespace(
        keys=int(options.keys), changes=10_000, fill=50_000, turns=turns, rounds=1
    )
    epochs = Plan(CASES[options.operator](), of_plan).epochs()
    with pa.ipc.new_stream(sys.stdout.buffer, FEED_SCHEMA) as stream:
        for each in takewhile(lambda epoch: epoch.workload != "spread", epochs):
            stream.write_batch(to_batch(each.changes), {"workload": each.workload})


def measure_here(options: argparse.Namespace) -> None:
    """Print microseconds a change by function, of one number of keys, as JSON."""
    case = CASES[options.operator]()
    command = [sys.executable, "-m", "benchmarks.profile_growth", *sys.argv[1:], "--feed"]
    changes, is_frozen = 0, False
    gc.disable()
    with (
        tempfile.TemporaryDirectory() as folder,
        ground("heap") as where,
        subprocess.Popen(command, stdout=subprocess.PIPE) as feed,
    ):
        assert feed.stdout is not None
        task, sampler = Task(case.spec, where), Sampler(Path(folder))
        for columns, told in pa.ipc.open_stream(feed.stdout).iter_batches_with_custom_metadata():
            batches = batches_of(case.inputs, columns)
            match told["workload"].decode():
                case "anew":
                    task = Task(case.spec, where)
                case "once":
                    if not is_frozen:
                        gc.collect()
                        gc.freeze()
                        gc.enable()
                        is_frozen = True
                    sampler.resume()
                    task.apply(batches)
                    sampler.pause()
                    changes += sum(map(len, batches))
                case _:
                    task.apply(batches)
        samples = sampler.end()
    us = {name: count / SAMPLES_PER_S * 1e6 / changes for name, count in samples.items()}
    print(json.dumps(us))


def main() -> None:
    """Measure both numbers of keys, one after the other, and print what differs most."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--operator", default="aggregate", choices=sorted(CASES))
    parser.add_argument("--keys", default="1000,1000000")
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--rows", type=int, default=12)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--feed", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.feed:
        feed_here(options)
        return
    if options.one:
        measure_here(options)
        return
    few, many = (_measured(options, keys) for keys in options.keys.split(","))
    names = sorted(few.keys() | many.keys(), key=lambda each: few[each] - many[each])
    shown, others = names[: options.rows], names[options.rows :]
    rows = [(name, few[name], many[name]) for name in shown]
    rows.append((OTHERS, sum(few[each] for each in others), sum(many[each] for each in others)))
    rows.append(("sum", few.total(), many.total()))
    print("| function | {} keys, us | {} keys, us | more |".format(*options.keys.split(",")))
    print("|---|---:|---:|---:|")
    for name, first, second in rows:
        print(f"| {name} | {first:.2f} | {second:.2f} | {second - first:+.2f} |")


def _measured(options: argparse.Namespace, keys: str) -> Counter[str]:
    command = [sys.executable, "-m", "benchmarks.profile_growth", "--one", "--keys", keys]
    command += ["--operator", options.operator, "--epochs", str(options.epochs)]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return Counter(json.loads(found))


if __name__ == "__main__":
    main()
