"""Expired elements cleaned a second, epochs without a record, until nothing is left.

    many keys     one element a key: value state, and packed maps
    one key       with very many elements that expire in the order of the map or list
    out of order  one sorted map whose elements expire in another order than they stand in

The clean-up of an epoch is bounded by `background_keys_max`; `elements an epoch` shows that it is
kept to. Filling is not measured. An epoch is whole: looking, removing, commit, close, promotion.
A second is one of wall time, and in brackets of processor time of this process and of Redis added
up: others use the machine.

    python -m benchmarks.bench_state_expiry [--backend heap,redis] [--entries 200000]
                [--bound 1000,20000] [--kind many-values,...]
"""

from __future__ import annotations

import argparse
import random
import statistics
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.state_epochs import ground, load_text
from state.descriptors import (
    JSON,
    ListDescriptor,
    MapDescriptor,
    SortedMapDescriptor,
    StateDescriptor,
    ValueDescriptor,
)
from state.execution.sync import run_now
from state.lexicographic import lexicographic_codec
from state.ttl import Cleanup, TtlConfig
from state.types import parse_type

if TYPE_CHECKING:
    from benchmarks.state_epochs import Ground
    from state.primitives.session import StateSession

GOAL = 200_000
TTL_MS = 10_000_000
BEGIN_MS = 1_767_225_600_000
"""Times of our age have 13 digits, which is what stamps are fast for."""
ROW = [7, "x" * 20]
FILLED_AT_ONCE = 20_000


class Case(NamedTuple):
    """What expires."""

    kind: str
    is_one_key: bool = False
    is_shuffled: bool = False


CASES = {
    "many values": Case("value"),
    "many maps": Case("map"),
    "one list": Case("list", is_one_key=True),
    "one map": Case("map", is_one_key=True),
    "one sorted map": Case("sorted_map", is_one_key=True),
    "one map, out of order": Case("map", is_one_key=True, is_shuffled=True),
    "one sorted map, out of order": Case("sorted_map", is_one_key=True, is_shuffled=True),
}
_ORDERED = lexicographic_codec([parse_type("BIGINT NOT NULL")])


def descriptor_of(kind: str, bound: int) -> StateDescriptor:
    """A state of this kind whose clean-up is bounded so."""
    ttl = TtlConfig(TTL_MS, cleanup=Cleanup(background_keys_max=bound))
    match kind:
        case "value":
            return ValueDescriptor(name="state", codec=JSON, ttl=ttl)
        case "list":
            return ListDescriptor(name="state", codec=JSON, ttl=ttl)
        case "map":
            return MapDescriptor(name="state", key_codec=JSON, codec=JSON, ttl=ttl)
        case _:
            return SortedMapDescriptor(name="state", key_codec=_ORDERED, codec=JSON, ttl=ttl)


async def put(handle: Any, kind: str, number: int) -> None:
    """One element."""
    match kind:
        case "value":
            await handle.update(ROW)
        case "list":
            await handle.add(ROW)
        case "map":
            await handle.put(number, ROW)
        case _:
            await handle.add((number,), ROW)


def fill(
    session: StateSession, descriptor: StateDescriptor, case: Case, start: int, count: int
) -> None:
    """Elements from a number on, each with a stamp of its own order: the clock moves on."""
    handle = getattr(session, descriptor.kind)(descriptor)
    order = list(range(start, start + count))
    if case.is_shuffled:
        random.Random(25).shuffle(order)
    first = session.clock

    async def all_of_them() -> None:
        for at, number in enumerate(order):
            if at % 64 == 0:
                session.clock = type(first)(first.processing_ms + at)
            key = b'["k"]' if case.is_one_key else b'["k%d"]' % number
            session.set_key(key, 0)
            await put(handle, case.kind, number)

    run_now(all_of_them(), session)


def measure(place: Ground, case: Case, entries: int, bound: int) -> list[str]:
    """A row of the table."""
    descriptor = descriptor_of(case.kind, bound)
    pipeline = place.pipeline("bench_expiry")
    for start in range(0, entries, FILLED_AT_ONCE):
        count = min(FILLED_AT_ONCE, entries - start)
        pipeline.epoch(
            BEGIN_MS + start,
            lambda s, at=start, n=count: fill(s, descriptor, case, at, n),
            cleans=False,
        )
    walls: list[float] = []
    works: list[float] = []
    removed: list[int] = []
    ms = BEGIN_MS + TTL_MS + 2 * entries + 1
    while True:
        spent = place.spent(
            lambda: pipeline.epoch(ms, lambda s: getattr(s, descriptor.kind)(descriptor))
        )
        if not pipeline.cleaned:
            break
        walls.append(spent.wall)
        works.append(spent.work)
        removed.append(pipeline.cleaned)
    if sum(removed) != entries:
        raise AssertionError(f"{sum(removed)} of {entries} elements were cleaned")
    rate, work_rate = sum(removed) / sum(walls), sum(removed) / sum(works)
    return [
        f"{rate:,.0f} ({work_rate:,.0f})",
        f"{len(removed)}",
        f"{max(removed):,}",
        f"{statistics.median(walls) * 1e3:.1f}",
        f"{max(walls) * 1e3:.1f}",
    ]


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="heap,redis")
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--bound", default="1000,20000")
    parser.add_argument("--kind", default=",".join(each.replace(", ", " ") for each in CASES))
    arguments = parser.parse_args()
    wanted = arguments.kind.split(",")
    for name in arguments.backend.split(","):
        with ground(name) as place:
            print(
                f"\n{name}, {arguments.entries:,} elements, {load_text()}; goal {GOAL:,} a second"
            )
            print("| case | bound | cleaned a second | epochs | most an epoch | ms | most ms |")
            print("|---|---:|---:|---:|---:|---:|---:|")
            for title, case in CASES.items():
                if title.replace(", ", " ") not in wanted:
                    continue
                for bound in map(int, arguments.bound.split(",")):
                    row = measure(place, case, arguments.entries, bound)
                    print(f"| {title} | {bound} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
