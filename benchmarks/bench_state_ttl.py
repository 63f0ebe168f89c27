"""TTL on against TTL off for each primitive, reading and writing, in whole epochs.

Two pipelines hold the same keys, one with a TTL (OnCreateAndWrite, one hour: nothing expires), one
without. They run epochs of the same operations, each key touched once: prefetch, operations,
clean-up, commit, close and promotion. The ratio is of processor time of this process and of Redis,
since others use the machine; beside it that of this process alone, and of wall time. Collections
hold 10 elements a key.

Two arms of a microsecond an operation differ by more than a TTL makes where one lies better in
memory than the other, and where the machine changes its speed between them. So epochs take turns,
one, other, other, one; both are built anew for each of some layouts, now this one first and now
that one; no garbage is looked for in between; and what is told is the median of the ratios of
pairs of epochs, with its interval of 95 % by a bootstrap over layouts and pairs. `--same` measures
no TTL against none, for what the benchmark makes of it by itself.

    python -m benchmarks.bench_state_ttl [--backend heap,redis] [--keys 10000]
                [--collection-keys 1000] [--layouts 10] [--pairs 24] [--same]
                [--update OnCreateAndWrite] [--kind value,...] [--access read,write]
"""

from __future__ import annotations

import argparse
import gc
import statistics
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

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
    from collections.abc import Callable, Coroutine, Iterator, Sequence

    from benchmarks.state_epochs import Ground, Pipeline, Spent
    from state.primitives.session import StateSession

    Operation: TypeAlias = Callable[[Any, int], Coroutine[Any, Any, Any]]

GOAL = 1.05
ELEMENTS = 10
COLLECTIONS = {"list", "map", "sorted_map", "multiset"}
WARM_TURNS = 3
"""Before those that count."""
DRAWS = 2_000
"""Of the bootstrap."""
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


async def _fill_number(handle: Any, at: int) -> None:
    # All bytes of length one that are equal are one object in CPython: a number of one digit, as
    # text, would be there already wherever it is read, and what has a stamp would not.
    await handle.clear()
    await handle.add(10_000 + at)


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
        _fill_number,
        lambda s, at: s.get(),
        lambda s, at: s.add(at),
    ),
    Case(
        AggregatingDescriptor(name="aggregating", codec=JSON, aggregator=Sum()),
        _fill_number,
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


class Ratio(NamedTuple):
    """What a TTL makes of an epoch's cost: a median, and between what it lies."""

    median: float
    low: float
    high: float
    """95 of 100 such measurements have their median between these two."""

    @property
    def verdict(self) -> str:
        """What it says of the goal."""
        if self.high <= GOAL:
            return "met"
        return "not met" if self.low > GOAL else "open"


def ratio(pairs: Sequence[Sequence[float]]) -> Ratio:
    """The median of ratios, of which each layout of memory has some.

    Ratios of one layout are more alike than others are, so the bootstrap draws layouts, and of
    each its ratios.
    """
    given = np.array(pairs)
    layouts, count = given.shape
    draw = np.random.default_rng(0).integers
    rows = draw(layouts, size=(DRAWS, layouts, 1))
    drawn = given[rows, draw(count, size=(DRAWS, layouts, count))].reshape(DRAWS, -1)
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return Ratio(float(np.median(given)), float(low), float(high))


def pairs_of(
    place: Ground, case: Case, operation: Operation, keys: int, given: Any, built: Sequence[int]
) -> list[tuple[Spent, Spent]]:
    """What epochs with and without a TTL took, in one layout of memory; arms in the order built."""
    place.clear()
    ttl = case.descriptor.ttl if given.same else TtlConfig(3_600_000, UpdateType(given.update))
    arms: dict[int, Arm] = {}
    for which in built:
        descriptor = case.descriptor if which else replace(case.descriptor, ttl=ttl)
        arms[which] = Arm(place.pipeline(f"bench{which}"), descriptor, keys)
        arms[which].fill(case)
    found: list[tuple[Spent, Spent]] = []
    with no_collection():
        for turn in range(-WARM_TURNS, given.pairs):
            spent: dict[int, Spent] = {}
            # One, other, other, one: each comes as often behind itself as behind the other.
            for which in (0, 1) if turn % 2 else (1, 0):
                if case.grows and operation is case.write:
                    arms[which].fill(case)
                count = given.operations or keys
                spent[which] = place.taken(partial(arms[which].epoch, operation, count))
            if turn >= 0:
                found.append((spent[0], spent[1]))
    return found


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage is looked for inside, where there is none: it would touch memory in its order."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def row(place: Ground, case: Case, access: str, keys: int, given: Any) -> str:
    """A line of the table."""
    layouts = [
        pairs_of(place, case, getattr(case, access), keys, given, built)
        for _, built in zip(range(given.layouts), cycle([(0, 1), (1, 0)]), strict=False)
    ]
    work, cpu, wall = (
        ratio([[getattr(on, what) / getattr(off, what) for on, off in each] for each in layouts])
        for what in ("work", "cpu", "wall")
    )
    us = statistics.median(off.work for each in layouts for _, off in each)
    us *= 1e6 / (given.operations or keys)
    return (
        f"| {case.descriptor.kind.replace('_', ' ')} | {access} | {keys} | {us:.2f} "
        f"| {work.median:.3f} | {work.low:.3f} to {work.high:.3f} | {work.verdict} "
        f"| {cpu.median:.3f} | {wall.median:.3f} |"
    )


def table(place: Ground, given: argparse.Namespace) -> None:
    """Measure and print a backend."""
    print(f"\n{place.name}, {given.layouts} layouts of {given.pairs} pairs, {load_text()}\n")
    print(
        "| primitive | access | keys | us without | with : without | 95 % | "
        f"{GOAL} | process alone | wall |"
    )
    print("|---|---|---:|---:|---:|---:|---|---:|---:|")
    for case in CASES:
        kind = case.descriptor.kind
        if given.kind and kind not in given.kind.split(","):
            continue
        keys = given.collection_keys if kind in COLLECTIONS else given.keys
        for access in given.access.split(","):
            print(row(place, case, access, keys, given), flush=True)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="heap,redis")
    parser.add_argument("--keys", type=int, default=10_000, help="of states of one element a key")
    parser.add_argument("--collection-keys", type=int, default=1_000)
    parser.add_argument("--operations", type=int, default=0, help="an epoch; 0: one a key")
    parser.add_argument("--layouts", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=24, help="of epochs, in each layout")
    parser.add_argument("--update", default=UpdateType.ON_CREATE_AND_WRITE.value)
    parser.add_argument("--kind", default="", help="only these primitives")
    parser.add_argument("--access", default="read,write")
    parser.add_argument("--same", action="store_true", help="no TTL in both: all should be 1")
    given = parser.parse_args()
    for name in given.backend.split(","):
        with ground(name) as place:
            table(place, given)


if __name__ == "__main__":
    main()
