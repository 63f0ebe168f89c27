"""TTL on against TTL off for each primitive, reading and writing, in whole epochs.

Two pipelines hold the same keys, one with a TTL (OnCreateAndWrite, one hour: nothing expires), one
without. In turns, now one and now the other first, each runs an epoch of the same operations:
prefetch, operations, clean-up, commit, close and promotion. The ratio is the median over the turns
of time with TTL by time without: of processor time of this process and of Redis, since others use
the machine, and in brackets of wall time. Collections hold 10 elements a key.

    python -m benchmarks.bench_state_ttl [--backend heap,redis] [--keys 1000,10000]
                [--operations 10000] [--turns 15] [--update OnCreateAndWrite] [--kind value,...]
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from benchmarks.state_epochs import ground, load_text
from state.descriptors import (
    JSON,
    AggregatingDescriptor,
    ListDescriptor,
    MapDescriptor,
    MultisetDescriptor,
    ReducingDescriptor,
    SortedMapDescriptor,
    StateDescriptor,
    ValueDescriptor,
)
from state.execution.sync import run_now
from state.lexicographic import lexicographic_codec
from state.ttl import TtlConfig, UpdateType
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from benchmarks.state_epochs import Ground, Pipeline, Spent
    from state.primitives.session import StateSession

    Operation: TypeAlias = Callable[[Any, int], Coroutine[Any, Any, Any]]

GOAL = 1.05
ELEMENTS = 10
ROW = [7, "x" * 100]


class Sum:
    """A sum that is shown as it is."""

    def create_accumulator(self) -> int:
        """Nothing yet."""
        return 0

    def add(self, value: int, accumulator: int) -> int:
        """One more."""
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        """The sum."""
        return accumulator

    def merge(self, one: int, other: int) -> int:
        """Both."""
        return one + other


class Case(NamedTuple):
    """A primitive, and what is done to it; operations take the handle and their number."""

    descriptor: StateDescriptor
    fill: Operation
    """Makes a key what it is before each epoch."""
    read: Operation
    write: Operation
    grows: bool = False
    """Whether a write adds something, so that the key must be filled anew."""


async def _fill_sorted(handle: Any, at: int) -> None:
    await handle.clear()
    for each in range(ELEMENTS):
        await handle.add((each,), ROW)


async def _fill_multiset(handle: Any, at: int) -> None:
    await handle.clear()
    for each in range(ELEMENTS):
        await handle.append([each, ROW[1]])


_ORDERED = lexicographic_codec([parse_type("BIGINT NOT NULL")])
CASES = [
    Case(
        ValueDescriptor(name="value", codec=JSON),
        lambda s, at: s.update(ROW),
        lambda s, at: s.value(),
        lambda s, at: s.update([at, ROW[1]]),
    ),
    Case(
        ReducingDescriptor(name="reducing", codec=JSON, reduce=lambda one, other: one + other),
        lambda s, at: s.add(1),
        lambda s, at: s.get(),
        lambda s, at: s.add(at),
    ),
    Case(
        AggregatingDescriptor(name="aggregating", codec=JSON, aggregator=Sum()),
        lambda s, at: s.add(1),
        lambda s, at: s.get(),
        lambda s, at: s.add(at),
    ),
    Case(
        ListDescriptor(name="list", codec=JSON),
        lambda s, at: s.update([ROW] * ELEMENTS),
        lambda s, at: s.get(),
        lambda s, at: s.add([at, ROW[1]]),
        grows=True,
    ),
    Case(
        MapDescriptor(name="map", key_codec=JSON, codec=JSON),
        lambda s, at: s.put_all(dict.fromkeys(range(ELEMENTS), ROW)),
        lambda s, at: s.get(at % ELEMENTS),
        lambda s, at: s.put(at % ELEMENTS, [at, ROW[1]]),
    ),
    Case(
        SortedMapDescriptor(name="sorted_map", key_codec=_ORDERED, codec=JSON),
        _fill_sorted,
        lambda s, at: s.values_at((at % ELEMENTS,)),
        lambda s, at: s.add((at % ELEMENTS,), [at, ROW[1]]),
        grows=True,
    ),
    Case(
        MultisetDescriptor(name="multiset", codec=JSON),
        _fill_multiset,
        lambda s, at: s.last(),
        lambda s, at: s.append([at, ROW[1]]),
        grows=True,
    ),
]


class Arm:
    """One pipeline with the state of a case."""

    def __init__(self, pipeline: Pipeline, descriptor: StateDescriptor, keys: int) -> None:
        self._pipeline = pipeline
        self._descriptor = descriptor
        self._keys = [b'["key%d"]' % each for each in range(keys)]
        self._ms = 1_767_225_600_000
        self._done = 0

    def epoch(self, operation: Operation, count: int) -> None:
        """An epoch of so many operations, over the keys in turn."""
        self._ms += 1_000
        self._pipeline.epoch(self._ms, lambda session: self._operate(session, operation, count))

    def fill(self, case: Case) -> None:
        """Make every key what it is to be."""
        self.epoch(case.fill, len(self._keys))

    def _operate(self, session: StateSession, operation: Operation, count: int) -> None:
        handle = getattr(session, self._descriptor.kind)(self._descriptor)
        keys = self._keys
        session.prefetch([(self._descriptor, [(key, 0) for key in keys])], key_groups=(0,))
        # A write of what is there already would be none without a TTL, and one with it.
        first = self._done
        self._done += count

        async def all_of_them() -> None:
            for at in range(first, first + count):
                session.set_key(keys[at % len(keys)], 0)
                await operation(handle, at)

        run_now(all_of_them(), session)


def ratios(place: Ground, case: Case, operation: Operation, given: Any) -> tuple[Any, ...]:
    """Medians: time of an operation without TTL, ratio of processor time, ratio of wall time."""
    on = replace(case.descriptor, ttl=TtlConfig(3_600_000, UpdateType(given.update)))
    arms = [
        Arm(place.pipeline("bench_on"), on, given.keys),
        Arm(place.pipeline("bench_off"), case.descriptor, given.keys),
    ]
    for arm in arms:
        arm.fill(case)
    found: list[tuple[Spent, Spent]] = []
    for turn in range(given.turns + 1):
        spent: dict[int, Spent] = {}
        for which in (0, 1) if turn % 2 else (1, 0):
            if case.grows and operation is case.write:
                arms[which].fill(case)
            spent[which] = place.spent(partial(arms[which].epoch, operation, given.operations))
        # The first turn warms up.
        if turn:
            found.append((spent[0], spent[1]))
    return (
        statistics.median(off.work for _, off in found) / given.operations * 1e6,
        statistics.median(on.work / off.work for on, off in found),
        statistics.median(on.cpu / off.cpu for on, off in found),
        statistics.median(on.wall / off.wall for on, off in found),
    )


def table(place: Ground, arguments: argparse.Namespace) -> None:
    """Measure and print a backend."""
    sizes = [int(each) for each in arguments.keys.split(",")]
    print(f"\n{place.name}, {arguments.operations} operations an epoch, {load_text()}")
    print(
        "| primitive | access | keys | us without | with : without | process alone | wall | goal |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for case in CASES:
        kind = case.descriptor.kind
        if arguments.kind and kind not in arguments.kind.split(","):
            continue
        for access in ("read", "write"):
            for keys in sizes:
                given = argparse.Namespace(**vars(arguments) | {"keys": keys})
                cost, *three = ratios(place, case, getattr(case, access), given)
                shown = " | ".join(f"{each:.3f}" for each in three)
                print(f"| {kind} | {access} | {keys} | {cost:.2f} | {shown} | {GOAL} |", flush=True)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="heap,redis")
    parser.add_argument("--keys", default="1000,10000")
    parser.add_argument("--operations", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--update", default=UpdateType.ON_CREATE_AND_WRITE.value)
    parser.add_argument("--kind", default="", help="only these primitives")
    arguments = parser.parse_args()
    for name in arguments.backend.split(","):
        with ground(name) as place:
            table(place, arguments)


if __name__ == "__main__":
    main()
