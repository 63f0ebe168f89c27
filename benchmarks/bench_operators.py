"""Keyed operators on heap and Redis: changes a second of one task, round trips, growth and skew.

An epoch is whole: rows out of Arrow columns, prefetch, the operator, emissions as columns, commit,
close and promotion. State is filled first, two changes a key. Then, in epochs of `--changes`
changes, of which the first one of each turn is not counted:

    once      1,000 keys, each touched once more: what a change costs then should not depend on how
              many keys there are
    spread    keys drawn at random from all of them
    skewed    half of all changes are of one key

`once` compares equal work. Each key that it touches has been touched by nothing but the filling: it
comes before the other workloads, touches no key twice, and state that has too few keys for that is
filled anew before each of its epochs. So a rank is as long, a row as often replaced, a key as
rarely gone with 1,000 keys as with a million. Keys are numbers of seven digits from the same range,
however many there are, so their texts are as long, and as far apart. And before all, each process
runs epochs as large as the largest ones that fill: what an allocator is left with then is the same.

    aggregate            COUNT(*), SUM(v) BY k; input +I, and -D of rows that came before
    aggregate with MIN   the same, and MIN(v)
    join, unique keys    k is unique on both sides; input -U and +U of both
    join, no keys        nothing is known of the rows; input +I, and -D of rows that came before
    left join ..         the same two, LEFT
    semi join, no keys   as the join, SEMI
    rank append          the first 10 by v descending, no rank numbers; input +I. In `spread` a
                         thousand keys have 10 rows each soon, and most new ones do not enter; a
                         million do not
    rank retract         the same; input +I, and -D of rows that came before
    deduplicate          the last row by arrival; input +I
    normalize            input +U, some -D

Rows are (k BIGINT, name STRING, v BIGINT). What stands in the table is changes a second of
processor time, of this process and of the Redis server together, since the machine is shared;
round trips are those of one epoch of the task, over 64 key groups (128 over two tasks). `once, us`
is what a change costs in `once`, in microseconds; `growth` that with the most keys, as a multiple
of that with the fewest (goal: 1.3); `skew` the cost of a change in `skewed`, as a multiple of that
in `spread`.

Each case with each number of keys has a process of its own, and all of them are measured in turns,
so that growth is no difference between two times of a shared machine. What knows the rows that are
there, and makes changes of them, is one more process that ends before the first turn: a worker has
no million objects beside its state either, between which its own would lie, and which a search for
garbage would walk through just before an epoch. No epoch is measured while Redis rewrites its
append-only file, as it does after a million keys were written.

With `--against` the same is measured with the packages of another checkout, in turns with these;
`ratio` is how many times as fast this one is, in `spread`.

    python -m benchmarks.bench_operators [--operators aggregate,join...] [--backends heap,redis]
                [--keys 1000,100000] [--changes 10000] [--rounds 3] [--turns 3]
                [--against CHECKOUT]
    python -m benchmarks.bench_operators --keys 1000 --changes 2000 --rounds 1     (quick)
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from collections import Counter
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from benchmarks.state_epochs import NODE, Ground, ground, load_text
from operators.aggregate.call import AggregateCall
from operators.aggregate.group_aggregate import GroupAggregateSpec
from operators.batch import ChangeBatch
from operators.changelog_normalize import ChangelogNormalizeSpec
from operators.deduplicate.spec import DeduplicateSpec
from operators.join.semi_anti import SemiAntiJoinSpec
from operators.join.streaming import StreamingJoinSpec
from operators.keyed import EpochTimes
from operators.keyed_runner import KeyedRunner
from operators.ordering import SortColumn
from operators.rank.spec import RankSpec
from operators.spec import InputSpec, RowSpec
from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport
from state.epochs import EpochLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from operators.spec import OperatorSpec
    from state.backends.interface import Ledger, StateBackend

GROUPS = 64
"""Key groups of one of two tasks."""
TYPES = ("BIGINT", "STRING", "BIGINT")
NAMES = ("k", "name", "v")
INPUT = InputSpec(types=TYPES, names=NAMES, key=(0,))
FILL_EPOCH = 50_000
ONCE_MAX = 1_000
ONCE_TIMES = 5
"""So many epochs of `once`, which are short, for each of another workload."""
FIRST_KEY = 1_000_000
"""All keys have seven digits."""
Changes = list[tuple[int, int, int, int]]
"""Input, kind, k and v of each change; `name` follows from k."""


class Case(NamedTuple):
    """An operator and its input."""

    spec: OperatorSpec
    changes: Callable[[Feed, int], Changes]
    """The changes for one touch of a key."""


class Feed:
    """Makes well-formed changes, and knows which rows are there."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows: dict[tuple[int, int], list[int]] = {}
        """The v of the rows that are there, by input and key."""
        self.touches: Counter[tuple[int, int]] = Counter()
        """How often, by input and key."""

    def some_v(self) -> int:
        """A value."""
        return int(self.rng.integers(0, 1_000_000))


def growing(feed: Feed, key: int) -> Changes:
    """+I."""
    return [(0, 0, key, feed.some_v())]


def retracting(feed: Feed, key: int, number: int = 0) -> Changes:
    """+I of new rows; from the third touch of a key on, every other one is -D of an old row."""
    rows = feed.rows.setdefault((number, key), [])
    feed.touches[number, key] += 1
    if len(rows) > 1 and feed.touches[number, key] % 2:
        return [(number, 3, key, rows.pop(0))]
    rows.append(feed.some_v())
    return [(number, 0, key, rows[-1])]


def updating_sides(feed: Feed, key: int) -> Changes:
    """One row of each key on both sides, replaced in turns; odd keys begin on the left."""
    feed.touches[0, key] += 1
    number = (feed.touches[0, key] + key) % 2
    rows = feed.rows.setdefault((number, key), [])
    old = [(number, 1, key, rows.pop())] if rows else []
    rows.append(feed.some_v())
    return [*old, (number, 2 if old else 0, key, rows[-1])]


def retracting_sides(feed: Feed, key: int) -> Changes:
    """As `retracting`, on either side."""
    return retracting(feed, key, int(feed.rng.integers(0, 2)))


def upserting(feed: Feed, key: int) -> Changes:
    """+U, and one in ten -D."""
    feed.touches[0, key] += 1
    return [(0, 3 if feed.touches[0, key] % 10 == 0 else 2, key, feed.some_v())]


def _call(function: str, name: str, arguments: tuple[int, ...] = ()) -> AggregateCall:
    return AggregateCall(
        function=function,
        name=name,
        arguments=arguments,
        argument_types=tuple(TYPES[at] for at in arguments),
        result_type="BIGINT",
        needs_retraction=True,
    )


def _aggregate(*calls: AggregateCall) -> OperatorSpec:
    names = ("k", *(each.name for each in calls))
    return GroupAggregateSpec.build(
        inputs=(INPUT,),
        output=RowSpec(types=("BIGINT",) * len(names), names=names),
        calls=calls,
        needs_retraction=True,
        generate_update_before=True,
    )


def _join(*unique_keys: tuple[int, ...], join_type: str = "INNER") -> OperatorSpec:
    return StreamingJoinSpec.build(
        inputs=(INPUT, INPUT),
        output=RowSpec(types=TYPES * 2, names=(*NAMES, "k0", "name0", "v0")),
        join_type=join_type,
        unique_keys=unique_keys,
        filter_nulls=(True,),
    )


def _rank(strategy: str) -> OperatorSpec:
    order = (SortColumn(column=2, descending=True),)
    return RankSpec.build(
        inputs=(INPUT,), output=INPUT_ROW, strategy=strategy, order=order, start=1, end=10
    )


INPUT_ROW = RowSpec(types=TYPES, names=NAMES)
COUNT_SUM = (_call("COUNT", "rows_count"), _call("SUM", "total", (2,)))
CASES: dict[str, Callable[[], Case]] = {
    "aggregate": lambda: Case(_aggregate(*COUNT_SUM), retracting),
    "aggregate with MIN": lambda: Case(
        _aggregate(*COUNT_SUM, _call("MIN", "least", (2,))), retracting
    ),
    "join, unique keys": lambda: Case(_join((0,), (0,)), updating_sides),
    "join, no keys": lambda: Case(_join((), ()), retracting_sides),
    "left join, unique keys": lambda: Case(_join((0,), (0,), join_type="LEFT"), updating_sides),
    "left join, no keys": lambda: Case(_join((), (), join_type="LEFT"), retracting_sides),
    "semi join, no keys": lambda: Case(
        SemiAntiJoinSpec.build(
            inputs=(INPUT, INPUT), output=INPUT_ROW, join_type="SEMI", filter_nulls=(True,)
        ),
        retracting_sides,
    ),
    "rank append": lambda: Case(_rank("append"), growing),
    "rank retract": lambda: Case(_rank("retract"), retracting),
    "deduplicate": lambda: Case(
        DeduplicateSpec.build(inputs=(INPUT,), output=INPUT_ROW, keeps_last=True), growing
    ),
    "normalize": lambda: Case(
        ChangelogNormalizeSpec.build(inputs=(INPUT,), output=INPUT_ROW), upserting
    ),
}


class Task:
    """Epochs of one operator with state of its own; `bench_custom_window` has it, too."""

    def __init__(self, spec: OperatorSpec, where: Ground, groups: int = GROUPS) -> None:
        self._where = where
        self._groups = range(groups)
        self._runner = KeyedRunner(spec, NODE)
        self._backend: StateBackend
        self._ledger: Ledger
        if where.client is None:
            heap = HeapBackend()
            self._backend, self._ledger = heap, heap.ledger()
        else:
            transport = RedisTransport(where.client)
            self._ledger = EpochLedger(transport, "operators")
            self._ledger.drop()
            self._backend = RedisBackend(transport, "operators")
        self._run = self._ledger.open_run([NODE], groups)
        self.epoch = 0
        """The last one that was run."""
        self.round_trips = 0
        """Of the last epoch, as the task pays them."""
        self.emitted = 0
        """Rows of the last epoch."""

    def run(self, batches: list[ChangeBatch], times: EpochTimes | None = None) -> float:
        """Run a whole epoch; the seconds of processor time that it took, Redis's too."""
        return self._where.spent(lambda: self.apply(batches, times)).work

    def apply(self, batches: list[ChangeBatch], times: EpochTimes | None = None) -> None:
        """Run a whole epoch."""
        self.epoch += 1
        stamp = EpochStamp(self.epoch, self._run, self.epoch)
        output = self._runner.run_epoch(
            batches,
            self._backend.begin(NODE, stamp, self._groups),
            epoch=stamp.epoch,
            times=times or EpochTimes(self.epoch),
            key_groups=self._groups,
            is_local=self._where.client is None,
        )
        self._ledger.close_epoch(stamp, {}, [])
        self._ledger.promote_all([NODE], len(self._groups))
        self.round_trips = output.statistics["round_trips"]
        self.emitted = len(output.batch)


def batches_of(inputs: int, changes: pa.RecordBatch) -> list[ChangeBatch]:
    """Changes in order as the batches of the inputs."""
    found = []
    table = np.column_stack([each.to_numpy() for each in changes.columns])
    for number in range(inputs):
        order = np.flatnonzero(table[:, 0] == number)
        _, kinds, keys, values = table[order].T
        names = pa.array([f"name of {each}" for each in keys.tolist()], pa.string())
        columns = (pa.array(keys), names, pa.array(values))
        found.append(ChangeBatch.of(columns, kinds, order, keys % GROUPS))
    return found


class Epoch(NamedTuple):
    """What a task is to do."""

    workload: str
    """"anew" begins without state, "fill" fills it."""
    changes: Changes


class Plan:
    """The epochs of one case with a number of keys, as its feed gives them and its task runs them.

    Args:
        case: The operator and its input.
        options: How many keys, changes and epochs.
    """

    def __init__(self, case: Case, options: argparse.Namespace) -> None:
        self._case = case
        self._keys: int = options.keys
        self._changes: int = options.changes
        self._turns: int = options.turns
        self._rounds: int = options.rounds
        self._once = min(self._keys, ONCE_MAX, self._changes)
        self._seeds = count()
        self._feed = Feed(next(self._seeds))

    def epochs(self) -> Iterator[Epoch]:
        """All epochs: those that fill the state, then those of each turn."""
        times = self._turns * (1 + self._rounds * ONCE_TIMES)
        is_filled_once = times * self._once <= self._keys
        if self._keys < FILL_EPOCH:
            yield from self._filled(FILL_EPOCH)
        yield from self._filled(self._keys)
        untouched = self._feed.rng.permutation(self._keys)
        for at in range(times):
            if is_filled_once:
                drawn = untouched[at * self._once : (at + 1) * self._once]
            else:
                if at:
                    yield from self._filled(self._keys)
                drawn = self._feed.rng.permutation(self._keys)[: self._once]
            yield self._touching("once", drawn.tolist())
        for workload in ("spread", "skewed") * self._turns:
            for _ in range(1 + self._rounds):
                drawn = self._feed.rng.integers(0, self._keys, self._changes)
                if workload == "skewed":
                    drawn[::2] = 0
                yield self._touching(workload, drawn.tolist())

    def _filled(self, keys: int) -> Iterator[Epoch]:
        self._feed = Feed(next(self._seeds))
        yield Epoch("anew", [])
        for _ in range(2):
            for start in range(0, keys, FILL_EPOCH):
                yield self._touching("fill", range(start, min(start + FILL_EPOCH, keys)))

    def _touching(self, workload: str, keys: Iterable[int]) -> Epoch:
        feed, apart = self._feed, max(FIRST_KEY // self._keys, 1) | 1
        touched = (FIRST_KEY + key * apart for key in keys)
        return Epoch(workload, [each for key in touched for each in self._case.changes(feed, key)])


FEED_SCHEMA = pa.schema([(each, pa.int64()) for each in ("input", "kind", "k", "v")])


def feed_here(options: argparse.Namespace) -> None:
    """Write the epochs of one case, an Arrow batch each."""
    with pa.ipc.new_stream(sys.stdout.buffer, FEED_SCHEMA) as stream:
        for epoch in Plan(CASES[options.one](), options).epochs():
            columns = np.array(epoch.changes, np.int64).reshape(-1, 4).T
            batch = pa.record_batch([*map(pa.array, columns)], schema=FEED_SCHEMA)
            stream.write_batch(batch, {"workload": epoch.workload})


class Measured:
    """A case whose state is filled, and the epochs of all of its turns."""

    def __init__(self, where: Ground, options: argparse.Namespace) -> None:
        self._spec = CASES[options.one]().spec
        self._where = where
        self._rounds: int = options.rounds
        self._task: Task
        # The feed knows all rows, as objects by the million: no worker has those beside its state.
        command = [sys.executable, "-P", __file__, *sys.argv[1:], "--feed"]
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
        """Microseconds a change of a workload, and round trips."""
        client = self._where.client
        while client is not None and client.info("persistence")["aof_rewrite_in_progress"]:
            # Meanwhile a write copies a page of memory.
            time.sleep(0.1)
        taken: list[float] = []
        while len(taken) <= self._rounds * (ONCE_TIMES if workload == "once" else 1):
            given, batches = next(self._given)
            if not self._prepares(given, batches):
                taken.append(self._task.run(batches) / sum(map(len, batches)) * 1e6)
        return [min(taken[1:]), self._task.round_trips]

    def _prepares(self, workload: str, batches: list[ChangeBatch]) -> bool:
        """Whether it was an epoch before those that are measured; then it was run."""
        if workload == "anew":
            self._task = Task(self._spec, self._where)
        elif workload == "fill":
            self._task.apply(batches)
        return workload in ("anew", "fill")

    def _read(self, stream: pa.RecordBatchStreamReader) -> Iterator[tuple[str, list[ChangeBatch]]]:
        inputs = len(self._spec.inputs)
        for changes, told in stream.iter_batches_with_custom_metadata():
            yield told["workload"].decode(), batches_of(inputs, changes)


def measure_here(options: argparse.Namespace) -> None:
    """Measure one case in this process: the workload of each line that comes, printed as JSON."""
    with ground(options.backends) as where:
        measured = Measured(where, options)
        print("{}", flush=True)
        for line in sys.stdin:
            workload = line.strip()
            print(json.dumps({workload: measured.turn(workload)}), flush=True)


class Arm:
    """One case in a process of its own, with the packages of a checkout."""

    def __init__(
        self, root: Path, name: str, backend: str, keys: int, options: argparse.Namespace
    ) -> None:
        command = [sys.executable, "-P", __file__, "--one", name, "--backends", backend]
        command += ["--keys", str(keys), "--changes", str(options.changes)]
        command += ["--rounds", str(options.rounds), "--turns", str(options.turns)]
        self._process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.least: dict[str, list[float]] = {}
        """Of all turns."""
        self._answer()

    def turn(self, workload: str) -> None:
        """Have it measure a workload once more; `once` before all others."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{workload}\n")
        self._process.stdin.flush()
        found = self._answer()[workload]
        self.least[workload] = min(found, self.least.get(workload, found))

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
    roots = [Path(__file__).resolve().parent.parent]
    roots += [options.against] if options.against else []
    arms: dict[int, list[Arm]] = {
        keys: [Arm(root, name, backend, keys, options) for root in roots]
        for keys in map(int, options.keys.split(","))
    }
    for workload in ("once",) * options.turns + ("spread", "skewed") * options.turns:
        for arm in chain.from_iterable(arms.values()):
            arm.turn(workload)
    for arm in chain.from_iterable(arms.values()):
        arm.end()
    return arms


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", default="", help="beginnings of names; all without any")
    parser.add_argument("--backends", default="heap,redis")
    parser.add_argument("--keys", default="1000,100000")
    parser.add_argument("--changes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3, help="epochs that count, in a turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--against", type=Path, help="another checkout")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--feed", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        options.keys = int(options.keys)
        (feed_here if options.feed else measure_here)(options)
        return
    begins = tuple(options.operators.split(","))
    print(
        f"{options.changes} changes an epoch, {load_text()}, changes a second of processor time\n"
    )
    print(
        "| operator | backend | keys | spread | ratio | skewed | skew | round trips | once, us"
        " | growth |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in (each for each in CASES if each.startswith(begins)):
        for backend in options.backends.split(","):
            least: float | None = None
            for keys, (here, *others) in measure(name, backend, options).items():
                found = here.least
                spread, once = found["spread"][0], found["once"][0]
                ratio = "-"
                for other in others:
                    ratio = f"{other.least['spread'][0] / spread:.1f}"
                growth = "-" if least is None else f"{once / least:.2f}"
                least = least or once
                skewed = found["skewed"][0]
                print(
                    f"| {name} | {backend} | {keys:,} | {1e6 / spread:,.0f} | {ratio}"
                    f" | {1e6 / skewed:,.0f} | {skewed / spread:.2f}"
                    f" | {found['spread'][1]} | {once:.2f} | {growth} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
