"""Sorted map state against map state with lists, where FLIP-220 measured +130 % and +60 %.

Temporal sort: each key holds a backlog of rows that wait for the watermark. An epoch adds rows to
each key at times ahead of the watermark, moves it on, emits the rows up to it in order and removes
them. Temporal join: each key holds versions of the right side, as many as the backlog. An epoch
adds versions and joins left rows, each with the newest version at or before its time, then removes
the versions that none after the watermark can need.

    sorted       add; read and clear the range up to the watermark; last entry until a time
    scanned      a map from times to lists of rows; what is due is found by reading all of it
    by timer     the same map; what times are due is told by somebody else for nothing, as timers
                 would at a cost of their own that is not counted (sort only)

All emit the same rows, which is checked. Unit: rows in and out per ms of wall time, and in brackets
of this process's CPU time (without Redis's own), which says more where the machine is shared; the
ratio is of wall times of runs that follow each other. Redis: one round trip for the same step of
all keys, and everything is closed and promoted.

    python -m benchmarks.bench_sorted_state [--backend heap,redis] [--keys 20] [--rows 10]
                [--backlog 100,1000,10000] [--epochs 20] [--repeat 3] [--redis URL] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from benchmarks.neighbours import Neighbours, heap_neighbours, redis_neighbours
from state.backends.interface import EpochStamp
from state.descriptors import JSON, MapDescriptor, SortedMapDescriptor
from state.lexicographic import lexicographic_codec
from state.primitives.session import StateSession
from state.ttl import TtlClock
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from state.primitives.maps import MapHandle
    from state.primitives.sorted import SortedMapHandle

    Drive: TypeAlias = Coroutine[Any, None, None]

NODE = "bench_sorted"
GOALS = {("sort", "redis"): 4.0, ("join", "redis"): 2.5, ("sort", "heap"): 1.0}
"""Times as many rows as the scanned map: +300 %, +150 %, and not slower."""
VARIANTS = ("sorted", "scanned", "by timer")
PAYLOAD = "x" * 100
SORTED: SortedMapDescriptor[Any, Any] = SortedMapDescriptor(
    name="rows", key_codec=lexicographic_codec([parse_type("BIGINT NOT NULL")]), codec=JSON
)
MAP: MapDescriptor[int, list[Any]] = MapDescriptor(name="rows", key_codec=JSON, codec=JSON)


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows in and out per ms."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:,.1f} ({self.cpu:,.1f})"


@dataclass(frozen=True, slots=True)
class Work:
    """What every variant is given: times of rows, drawn once."""

    keys: list[bytes]
    fill: list[int]
    """Times of the backlog, in an order of arrival."""
    epochs: list[tuple[int, list[int]]]
    """The watermark, and the times of the rows before it."""

    @classmethod
    def of(cls, keys: int, rows: int, backlog: int, epochs: int) -> Work:
        """A backlog of so many rows for each key, and as many that come as go."""
        drawn = np.random.default_rng(220)
        ahead = backlog * 10
        fill = drawn.integers(0, ahead, backlog).tolist()
        step = ahead * rows // backlog
        steps = [
            (at * step, drawn.integers((at - 1) * step, (at - 1) * step + ahead, rows).tolist())
            for at in range(1, epochs + 1)
        ]
        return cls([b'["key%d"]' % each for each in range(keys)], fill, steps)


def row(at: int) -> list[Any]:
    """A row of about 120 bytes."""
    return [at, PAYLOAD]


class SortedVariant:
    """Sorted map state."""

    name = "sorted"

    def __init__(self, session: StateSession) -> None:
        self.state: SortedMapHandle[Any, Any] = session.sorted_map(SORTED)

    async def add(self, times: Iterable[int]) -> None:
        """Rows at their times."""
        for at in times:
            await self.state.add((at,), row(at))

    async def sort(self, watermark: int, emitted: list[Any]) -> None:
        """Emit and remove what is due."""
        due = await self.state.read_range_until((watermark,), inclusive_to=True)
        await self.state.clear_range_until((watermark,), inclusive_to=True)
        emitted += [each for _, rows in due for each in rows]

    async def join(self, lefts: list[int], watermark: int, emitted: list[Any]) -> None:
        """Emit the version of each left row, and remove versions that are over."""
        base = await self.state.last_entry_until((lefts[0],), inclusive_to=True)
        found = await self.state.read_range((lefts[0] + 1,), (watermark,), inclusive_to=True)
        versions = ([base] if base else []) + found
        times = [key[0] for key, _ in versions]
        for left in lefts:
            at = bisect_right(times, left)
            emitted.append(versions[at - 1][1][-1] if at else None)
        if times:
            await self.state.clear_range_until((times[-1],))


class ScannedVariant:
    """A map from times to lists, read as a whole."""

    name = "scanned"

    def __init__(self, session: StateSession) -> None:
        self.state: MapHandle[int, list[Any]] = session.map(MAP)

    async def add(self, times: Iterable[int]) -> None:
        """Rows at their times."""
        for at in times:
            await self.state.put(at, [*(await self.state.get(at) or ()), row(at)])

    async def due(self, watermark: int) -> list[tuple[int, Any]]:
        """What is due, by time."""
        return sorted(each for each in await self.state.entries() if each[0] <= watermark)

    async def sort(self, watermark: int, emitted: list[Any]) -> None:
        """Emit and remove what is due."""
        for at, rows in await self.due(watermark):
            emitted += rows
            await self.state.remove(at)

    async def join(self, lefts: list[int], watermark: int, emitted: list[Any]) -> None:
        """Emit the version of each left row, and remove versions that are over."""
        versions = await self.due(watermark)
        times = [at for at, _ in versions]
        for left in lefts:
            at = bisect_right(times, left)
            emitted.append(versions[at - 1][1][-1] if at else None)
        for over in times[:-1]:
            await self.state.remove(over)


class TimerVariant(ScannedVariant):
    """A map from times to lists, where somebody else knows what is due."""

    name = "by timer"

    def __init__(self, session: StateSession, timers: set[int]) -> None:
        super().__init__(session)
        self.timers = timers

    async def add(self, times: Iterable[int]) -> None:
        """Rows at their times."""
        self.timers.update(times)
        await super().add(times)

    async def due(self, watermark: int) -> list[tuple[int, Any]]:
        """What is due, by time."""
        fired = sorted(each for each in self.timers if each <= watermark)
        self.timers.difference_update(fired)
        return [(each, await self.state.get(each)) for each in fired]


def drive(session: StateSession, drives: list[tuple[bytes, Drive]]) -> None:
    """Drive a coroutine of each key to its end; each step of all is one round trip."""
    while drives:
        waiting, requests = [], []
        for key, coroutine in drives:
            session.set_key(key, 0)
            try:
                requests.append(coroutine.send(None))
            except StopIteration:
                continue
            waiting.append((key, coroutine))
        drives = waiting
        session.execute(requests)


class Runner:
    """One run of a variant on empty state."""

    def __init__(self, neighbours: Neighbours, variant: str, *, is_local: bool) -> None:
        self._neighbours = neighbours
        self._variant = variant
        self._is_local = is_local
        self._timers: dict[bytes, set[int]] = {}
        neighbours.ledger.drop()
        self._run = neighbours.ledger.open_run([NODE], 1)
        self._epoch = 0

    def settle(self) -> None:
        """Carry out what is pending: it belongs to what went before."""
        self._neighbours.ledger.promote_all([NODE], 1)

    def epoch(self, work: Work, of_key: Callable[[bytes, Any], Drive]) -> None:
        """A coroutine for each key, then the commit and the close."""
        self._epoch += 1
        stamp = EpochStamp(self._epoch, self._run, self._epoch)
        transaction = self._neighbours.backend.begin(NODE, stamp, [0])
        session = StateSession(transaction, clock=TtlClock(0), is_local=self._is_local)
        variants = {key: self._of(key, session) for key in work.keys}
        descriptor = variants[work.keys[0]].state.descriptor
        session.prefetch([(descriptor, [(key, 0) for key in work.keys])])
        drive(session, [(key, of_key(key, each)) for key, each in variants.items()])
        transaction.commit(session.writes())
        self._neighbours.ledger.close_epoch(stamp, {}, [])

    def _of(self, key: bytes, session: StateSession) -> Any:
        if self._variant == TimerVariant.name:
            return TimerVariant(session, self._timers.setdefault(key, set()))
        return {"sorted": SortedVariant, "scanned": ScannedVariant}[self._variant](session)


def run_once(case: str, work: Work, runner: Runner) -> tuple[Rate, list[Any]]:
    """Rows per ms, and the rows that were emitted."""
    runner.epoch(work, lambda _, variant: variant.add(work.fill))
    runner.settle()
    emitted: dict[bytes, list[Any]] = {}
    count = 0
    started, started_cpu = time.perf_counter(), time.process_time()
    for watermark, times in work.epochs:
        lefts = sorted(min(each, watermark) for each in times)

        async def of_key(
            key: bytes,
            variant: Any,
            at: int = watermark,
            rows: list[int] = times,
            left: list[int] = lefts,
        ) -> None:
            await variant.add(rows)
            out = emitted.setdefault(key, [])
            if case == "sort":
                await variant.sort(at, out)
            else:
                await variant.join(left, at, out)

        runner.epoch(work, of_key)
        count += len(work.keys) * len(times)
    runner.settle()
    wall, cpu = time.perf_counter() - started, time.process_time() - started_cpu
    out = [each for rows in emitted.values() for each in rows]
    moved = (count + len(out)) / 1000
    return Rate(moved / wall, moved / cpu), out


def measure(
    case: str, work: Work, neighbours: Neighbours, backend: str, repeat: int
) -> dict[str, Rate]:
    """The median of each variant, runs of variants after each other."""
    names = VARIANTS if case == "sort" else VARIANTS[:2]
    rates: dict[str, list[Rate]] = {each: [] for each in names}
    for _ in range(repeat):
        outputs = []
        for name in names:
            runner = Runner(neighbours, name, is_local=backend == "heap")
            rate, out = run_once(case, work, runner)
            rates[name].append(rate)
            outputs.append(out)
        if any(each != outputs[0] for each in outputs):
            raise AssertionError("the variants emitted different rows")
    return {
        name: Rate(
            statistics.median(each.wall for each in found),
            statistics.median(each.cpu for each in found),
        )
        for name, found in rates.items()
    }


def table(backend: str, neighbours: Neighbours, arguments: argparse.Namespace) -> list[Any]:
    """Measure and print the cells of a backend."""
    print(f"\n{backend}: {arguments.keys} keys, {arguments.rows} rows a key and epoch, rows per ms")
    print(f"| case | backlog | {' | '.join(VARIANTS)} | sorted : scanned | goal |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    rows = []
    for case in ("sort", "join"):
        for backlog in map(int, arguments.backlog.split(",")):
            work = Work.of(arguments.keys, arguments.rows, backlog, arguments.epochs)
            rates = measure(case, work, neighbours, backend, arguments.repeat)
            shown = [str(rates[each]) if each in rates else "-" for each in VARIANTS]
            ratio = rates["sorted"].wall / rates["scanned"].wall
            goal = GOALS.get((case, backend), 1.0)
            figures = " | ".join(shown)
            print(f"| {case} | {backlog} | {figures} | {ratio:.2f} | {goal:.2f} |", flush=True)
            cell = {"backend": backend, "case": case, "backlog": backlog}
            rows.append(cell | {name: each.wall for name, each in rates.items()})
    return rows


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="heap,redis")
    parser.add_argument("--keys", type=int, default=20)
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--backlog", default="100,1000,10000")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--redis", default=None, help="address; its own server if not given")
    parser.add_argument("--json", default=None, help="file for the figures")
    arguments = parser.parse_args()
    rows: list[Any] = []
    for backend in arguments.backend.split(","):
        opened = heap_neighbours() if backend == "heap" else redis_neighbours(arguments.redis)
        with opened as neighbours:
            rows += table(backend, neighbours, arguments)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
