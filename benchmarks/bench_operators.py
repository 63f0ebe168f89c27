"""Keyed operators on heap and Redis: changes a second of one task, round trips, growth and skew.

An epoch is whole: rows out of Arrow columns, prefetch, the operator, emissions as columns, commit,
close and promotion. State is filled first, two changes a key. Then, in epochs of `--changes`
changes, of which the first one of each turn, and of all of `once`, is not counted:

    once      1,000 keys, each touched once more: what a change costs then should not depend on how
              many keys there are
    spread    keys drawn at random from all of them
    skewed    half of all changes are of one key

`once` compares equal work. Each key that it touches has been touched by nothing but the filling: it
comes before the other workloads, touches no key twice, and state that has too few keys for that is
filled anew before each of its epochs. So a rank is as long, a row as often replaced, a key as
rarely gone with 1,000 keys as with a million. Time goes by before each of its epochs, so that none
has rows of another one in its windows. Where a key has state only while rows wait for the
watermark, or are in a frame of time, those that fill the state are of a time far ahead: all keys
have rows that wait, while the 1,000 have a window of their own, or a frame without older rows. Keys
are numbers of seven digits from the same range, however many there are, so their texts are as long,
and as far apart. And before all, each process runs epochs as large as the largest ones that fill:
what an allocator is left with then is the same.

What each case does stands in `operator_cases`, its changes in `operator_feeds`: a changelog that
takes rows back wherever the operator accepts one. An epoch lasts a second of event time, and the
watermark passes its end with it, so windows, which last as long, come out in every epoch. Before it
is measured, each case must give the kinds of changes that it should for a small input; `--smoke`
sees to that for all cases, and runs a few small epochs of each.

Rows are (k BIGINT, name STRING, v BIGINT), some with a time. What stands in the table is changes a
second of processor time, of this process and of the Redis server together, since the machine is
shared; `rows out` are emitted for a change; round trips are those of one epoch of the task, over 64
key groups (128 over two tasks), and on heap, where none is paid, how often something was read.
`once, us` is what a change costs in `once`, in microseconds, the median of its epochs; `skew` the
cost of a change in `skewed`, as a multiple of that in `spread`. `growth` is the cost of a change in
`once` as a multiple of that with the fewest keys (goal: 1.3).

Each case with each number of keys has a process of its own, and all of them are measured in turns.
A machine that is shared is a third faster at one minute than at the next, so the turns of `once`
are single epochs, and growth is the median of the ratios of epochs that came one behind the other.
What knows the rows that are there, and makes changes of them, is one more process that ends before
the first turn: a worker has no million objects beside its state either, between which its own would
lie, and which a search for garbage would walk through just before an epoch. Redis never rewrites
its append-only file: it forks for that, and behind it the first write to each page of its memory
faults, once a rewrite and not once a change.

With `--against` the same is measured with the packages of another checkout, in turns with these,
the cases being those of this one; `ratio` is how many times as fast this one is, in `spread`.

    python -m benchmarks.bench_operators [--operators aggregate,join...] [--backends heap,redis]
                [--keys 1000,100000] [--changes 10000] [--rounds 3] [--turns 3]
                [--fill 50000] [--against CHECKOUT]
    python -m benchmarks.bench_operators --keys 1000 --changes 2000 --fill 1000 --rounds 1 --turns 1
    python -m benchmarks.bench_operators --smoke
"""

from __future__ import annotations

import argparse
import gc
import json
import operator as op
import os
import subprocess
import sys
from itertools import chain, count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from benchmarks.operator_cases import CASES, Case
from benchmarks.operator_feeds import (
    AHEAD_MS,
    EPOCH_MS,
    FEED_SCHEMA,
    Changes,
    Feed,
    batches_of,
    to_batch,
)
from benchmarks.operator_task import Task, example_installed, prove
from benchmarks.state_epochs import Ground, ground, load_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from operators.batch import ChangeBatch

HERE = Path(__file__).resolve().parent.parent
RUN_HERE = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import benchmarks; del sys.path[0]\n"
    "from benchmarks.bench_operators import main; main()"
)
"""Runs this benchmark of this tree with the packages that PYTHONPATH leads to; then options."""
ONCE_MAX = 1_000
ONCE_TIMES = 10
"""So many epochs of `once`, which are short, for each that counts of another workload."""
QUIET = 8
"""Epochs without changes before each of `once`: no window, frame or interval of these cases lasts
longer, where it is to be over."""
FIRST_KEY = 1_000_000
"""All keys have seven digits."""


class Epoch(NamedTuple):
    """What a task is to do."""

    workload: str
    """"anew" begins without state, "fill" fills it, "quiet" lets time go by, "behind" is
    the end of `once`."""
    changes: Changes


class Plan:
    """The epochs of one case with a number of keys, as its feed gives them and its task runs them.

    Args:
        case: The operator and its input.
        options: How many keys, changes and epochs.
    """

    def __init__(self, case: Case, options: argparse.Namespace) -> None:
        self._case = case
        self._fill: int = options.fill
        self._keys: int = options.keys
        self._changes: int = options.changes
        self._turns: int = options.turns
        self._rounds: int = options.rounds
        self._once = min(self._keys, ONCE_MAX, self._changes)
        self._seeds = count()
        self._feed = Feed(next(self._seeds))

    def epochs(self) -> Iterator[Epoch]:
        """All epochs: those that fill the state, then those of each turn."""
        times = epochs_of_once(self._turns, self._rounds)
        is_filled_once = times * self._once <= self._keys
        if self._keys < self._fill:
            yield from self._filled(self._fill)
        yield from self._filled(self._keys)
        untouched = self._feed.rng.permutation(self._keys)
        for at in range(times):
            if is_filled_once:
                drawn = untouched[at * self._once : (at + 1) * self._once]
            else:
                if at:
                    yield from self._filled(self._keys)
                drawn = self._feed.rng.permutation(self._keys)[: self._once]
            for _ in range(QUIET):
                yield self._touching("quiet", ())
            yield self._touching("once", drawn.tolist())
            for _ in range(self._case.behind):
                yield self._touching("behind", ())
        for workload in ("spread", "skewed") * self._turns:
            for _ in range(1 + self._rounds):
                drawn = self._feed.rng.integers(0, self._keys, self._changes)
                if workload == "skewed":
                    drawn[::2] = 0
                yield self._touching(workload, drawn.tolist())

    def _filled(self, keys: int) -> Iterator[Epoch]:
        self._feed = Feed(next(self._seeds))
        self._feed.ahead_ms = AHEAD_MS if self._case.waits else 0
        if self._case.waits and 2 * keys // self._fill * EPOCH_MS > AHEAD_MS // 2:
            raise SystemExit("the filling takes so long that what is to wait would come out")
        yield Epoch("anew", [])
        for _ in range(2):
            for start in range(0, keys, self._fill):
                yield self._touching("fill", range(start, min(start + self._fill, keys)))
        self._feed.ahead_ms = 0

    def _touching(self, workload: str, keys: Iterable[int]) -> Epoch:
        feed, apart = self._feed, max(FIRST_KEY // self._keys, 1) | 1
        feed.epoch += 1
        touched = (FIRST_KEY + key * apart for key in keys)
        return Epoch(workload, [each for key in touched for each in self._case.changes(feed, key)])


def epochs_of_once(turns: int, rounds: int) -> int:
    """How many there are, with the one that is not counted."""
    return 1 + turns * rounds * ONCE_TIMES


def feed_here(options: argparse.Namespace) -> None:
    """Write the epochs of one case, an Arrow batch each."""
    with pa.ipc.new_stream(sys.stdout.buffer, FEED_SCHEMA) as stream:
        for epoch in Plan(CASES[options.one](), options).epochs():
            stream.write_batch(to_batch(epoch.changes), {"workload": epoch.workload})


class Measured:
    """A case whose state is filled, and the epochs of all of its turns."""

    def __init__(self, where: Ground, options: argparse.Namespace) -> None:
        self._case = CASES[options.one]()
        if where.client is not None:
            where.client.config_set("auto-aof-rewrite-percentage", 0)
        prove(self._case, where)
        self._where = where
        self._rounds: int = options.rounds
        self._task: Task
        # The feed knows all rows, as objects by the million: no worker has those beside its state.
        command = [sys.executable, "-P", "-c", RUN_HERE, str(HERE), *sys.argv[1:], "--feed"]
        gc.disable()
        with subprocess.Popen(command, stdout=subprocess.PIPE) as feed:
            assert feed.stdout is not None
            given = self._read(pa.ipc.open_stream(feed.stdout))
            for first in given:
                if not self._prepares(*first):
                    break
            self._given = iter([first, *given])
        if feed.returncode:
            raise SystemExit("the feed failed")
        gc.collect()
        gc.freeze()
        gc.enable()

    def turn(self, workload: str) -> list[float]:
        """Microseconds a change of a workload, round trips, and rows emitted a change.

        Of `once` it is one epoch, of others the least of those of a turn.
        """
        taken: list[float] = []
        emitted = 0
        while len(taken) < (1 if workload == "once" else 1 + self._rounds):
            given, batches = next(self._given)
            if self._prepares(given, batches):
                continue
            seconds, emitted = self._task.run(batches), emitted + self._task.emitted
            for _ in range(self._case.behind if workload == "once" else 0):
                _, nothing = next(self._given)
                seconds, emitted = seconds + self._task.run(nothing), emitted + self._task.emitted
            taken.append(seconds / len_of(batches) * 1e6)
        if not (emitted or self._case.is_limit):
            raise SystemExit("the operator emits nothing")
        least = min(taken[1:] or taken)
        return [least, self._task.round_trips, self._task.emitted / len_of(batches)]

    def _prepares(self, workload: str, batches: list[ChangeBatch]) -> bool:
        """Whether it was an epoch before those that are measured; then it was run."""
        if workload == "anew":
            self._task = Task(self._case.spec, self._where)
        elif workload in ("fill", "quiet"):
            self._task.apply(batches)
        return workload in ("anew", "fill", "quiet")

    def _read(self, stream: pa.RecordBatchStreamReader) -> Iterator[tuple[str, list[ChangeBatch]]]:
        for changes, told in stream.iter_batches_with_custom_metadata():
            yield told["workload"].decode(), batches_of(self._case.inputs, changes)


def len_of(batches: list[ChangeBatch]) -> int:
    """How many changes these are."""
    return sum(map(len, batches))


def measure_here(options: argparse.Namespace) -> None:
    """Measure one case in this process: the workload of each line that comes, printed as JSON."""
    with example_installed(), ground(options.backends) as where:
        measured = Measured(where, options)
        print("{}", flush=True)
        for line in sys.stdin:
            workload = line.strip()
            print(json.dumps({workload: measured.turn(workload)}), flush=True)


def smoke(name: str, where: Ground) -> None:
    """Prove a case, and run the epochs that its feed gives, with few keys and changes.

    Raises:
        ValueError: It gives other kinds than it must, or nothing at all.
    """
    case = CASES[name]()
    prove(case, where)
    task = Task(case.spec, where)
    few = argparse.Namespace(keys=20, changes=100, fill=20, turns=1, rounds=0)
    for epoch in Plan(case, few).epochs():
        if epoch.workload == "anew":
            task = Task(case.spec, where)
        else:
            task.apply(batches_of(case.inputs, to_batch(epoch.changes)))
    if not task.emitted:
        raise ValueError("its feed has it emit nothing")


class Arm:
    """One case in a process of its own, with the packages of a checkout."""

    def __init__(
        self, root: Path, name: str, backend: str, keys: int, options: argparse.Namespace
    ) -> None:
        command = [sys.executable, "-P", "-c", RUN_HERE, str(HERE)]
        command += ["--one", name, "--backends", backend]
        command += ["--keys", str(keys), "--changes", str(options.changes)]
        command += ["--rounds", str(options.rounds), "--turns", str(options.turns)]
        command += ["--fill", str(options.fill)]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.found: dict[str, list[list[float]]] = {}
        """What each turn of a workload gave."""
        self._answer()

    def turn(self, workload: str) -> None:
        """Have it measure a workload once more; `once` before all others."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{workload}\n")
        self._process.stdin.flush()
        self.found.setdefault(workload, []).append(self._answer()[workload])

    @property
    def once(self) -> list[float]:
        """Microseconds a change, of each epoch of `once` that counts."""
        return [found[0] for found in self.found["once"][1:]]

    def least(self, workload: str) -> list[float]:
        """What the turn of another workload gave that took least."""
        return min(self.found[workload])

    def end(self) -> None:
        """Let its process end."""
        self._process.communicate()

    def _answer(self) -> dict[str, list[float]]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(self._process.wait() or "a measurement ended early")
        answer: dict[str, list[float]] = json.loads(line)
        return answer


def measure(name: str, backend: str, options: argparse.Namespace) -> dict[int, list[Arm]]:
    """Measure a case with each number of keys, in turns; the other checkout behind this one."""
    roots = [HERE]
    roots += [options.against] if options.against else []
    arms: dict[int, list[Arm]] = {
        keys: [Arm(root, name, backend, keys, options) for root in roots]
        for keys in map(int, options.keys.split(","))
    }
    once = ("once",) * epochs_of_once(options.turns, options.rounds)
    for workload in once + ("spread", "skewed") * options.turns:
        for arm in chain.from_iterable(arms.values()):
            arm.turn(workload)
    for arm in chain.from_iterable(arms.values()):
        arm.end()
    return arms


def parsed() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", default="", help="beginnings of names; all without any")
    parser.add_argument("--backends", default="heap,redis")
    parser.add_argument("--keys", default="1000,100000")
    parser.add_argument("--changes", type=int, default=10_000)
    parser.add_argument("--fill", type=int, default=50_000, help="keys of an epoch that fills")
    parser.add_argument("--rounds", type=int, default=3, help="epochs that count, in a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--smoke", action="store_true", help="see that every case works")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--feed", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Measure, and print the table."""
    options = parsed()
    if options.one:
        options.keys = int(options.keys)
        (feed_here if options.feed else measure_here)(options)
        return
    begins = tuple(options.operators.split(","))
    names = [each for each in CASES if each.startswith(begins)]
    backends = options.backends.split(",")
    if options.smoke:
        smoke_all(names, backends)
        return
    print(
        f"{options.changes} changes an epoch, {load_text()}, changes a second of processor time\n"
    )
    print(
        "| operator | backend | keys | spread | ratio | skewed | skew | rows out | round trips"
        " | once, us | growth |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in names:
        for backend in backends:
            print_rows(name, backend, measure(name, backend, options))


def smoke_all(names: list[str], backends: list[str]) -> None:
    """See that cases work, and say so."""
    with example_installed():
        for backend in backends:
            with ground(backend) as where:
                for name in names:
                    smoke(name, where)
            print(f"{len(names)} cases work on {backend}", flush=True)


def growth_of(once: list[float], fewest: list[float]) -> float:
    """How many times as much a change costs as with the fewest keys.

    Args:
        once: What it costs, by epoch.
        fewest: The same with the fewest keys, in epochs that came just before these.
    """
    return median(map(op.truediv, once, fewest))


def print_rows(name: str, backend: str, arms: dict[int, list[Arm]]) -> None:
    """Print what was found of a case, a row for each number of keys."""
    fewest: list[float] = []
    for keys, (here, *others) in arms.items():
        spread, round_trips, emitted = here.least("spread")
        skewed = here.least("skewed")[0]
        ratio = "-"
        for other in others:
            ratio = f"{other.least('spread')[0] / spread:.1f}"
        growth = "-"
        if fewest:
            growth = f"{growth_of(here.once, fewest):.2f}"
        fewest = fewest or here.once
        print(
            f"| {name} | {backend} | {keys:,} | {1e6 / spread:,.0f} | {ratio}"
            f" | {1e6 / skewed:,.0f} | {skewed / spread:.2f} | {emitted:.2f}"
            f" | {round_trips} | {median(here.once):.2f} | {growth} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
