"""Real sizes on Redis: one key with 1,000,000 elements, and 1,000,000 keys with one.

For each state, in a pipeline of its own on an empty server, all with a TTL:

    bytes           by which `used_memory` of the server grew, divided by the elements
    operations      one epoch each, on the full state: round trips, commands, fields read and
                    written, which are those of a small state, and ms of wall time
    expiry          epochs without a record until nothing is left: none removes more than the bound
    peak            most memory that this process held, filling and cleaning apart

Then a map of so many entries a key, of which each change reads and writes one: the time of a change
must not depend on how many there are. Keys are driven side by side, as asynchronous state does.

    python -m benchmarks.bench_state_sizes [--entries 1000000] [--bound 20000]
                [--case "one map,..."] [--sizes 10,100,1000,10000]
"""

from __future__ import annotations

import argparse
import contextlib
import re
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bench_sorted_state import drive
from benchmarks.bench_state_expiry import BEGIN_MS, CASES, TTL_MS, descriptor_of, fill
from benchmarks.state_epochs import ground, load_text
from state.descriptors import JSON, MapDescriptor
from state.execution.sync import run_now

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from benchmarks.bench_state_expiry import Case
    from benchmarks.state_epochs import Ground, Pipeline
    from state.descriptors import StateDescriptor
    from state.primitives.session import StateSession

    Operation = Callable[[Any], Coroutine[Any, Any, Any]]

SHOWN = ("one list", "one map", "one sorted map", "many values", "many maps")
AT_ONCE = 20_000
ROW = [7, "x" * 20]


def operations(case: Case, entries: int) -> dict[str, Operation]:
    """What is done to the full state, by name."""
    middle = entries // 2
    match case.kind:
        case "value":
            return {
                "get": lambda s: s.value(),
                "put": lambda s: s.update(ROW),
                "remove": lambda s: s.clear(),
            }
        case "list":
            return {"add": lambda s: s.add(ROW), "is_empty": lambda s: s.is_empty()}
        case "map":
            return {
                "get": lambda s: s.get(middle),
                "put": lambda s: s.put(middle, ROW),
                "put new": lambda s: s.put(entries + 1, ROW),
                "remove": lambda s: s.remove(entries + 1),
            }
        case _:
            return {
                "values_at": lambda s: s.values_at((middle,)),
                "add": lambda s: s.add((entries + 1,), ROW),
                "first_entry": lambda s: s.first_entry(),
                "read_range of 10": lambda s: s.read_range((middle,), (middle + 10,)),
                "clear_entry_at": lambda s: s.clear_entry_at((entries + 1,)),
            }


def operate(
    session: StateSession, descriptor: StateDescriptor, key: bytes, what: Operation
) -> None:
    """One operation on one key."""
    handle = getattr(session, descriptor.kind)(descriptor)
    session.set_key(key, 0)
    run_now(what(handle), session)


def used_memory(place: Ground) -> int:
    """Bytes that the server holds."""
    if place.client is None:
        return 0
    told: Any = place.client.info("memory")
    return int(told["used_memory"])


def peak_mb() -> int:
    """Most memory that this process held since `forget_peak`, where the system tells."""
    told = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(told[1]) // 1024 if told else 0


def forget_peak() -> None:
    """Let the peak begin anew."""
    # Other systems have no such file: there the peak is that of the whole process.
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


class Filled:
    """A pipeline whose one state holds so many elements."""

    def __init__(self, place: Ground, case: Case, entries: int, bound: int) -> None:
        self.place, self.case, self.entries = place, case, entries
        self.descriptor = descriptor_of(case.kind, bound)
        self.pipeline: Pipeline = place.pipeline("bench_sizes")
        self.key = b'["k"]' if case.is_one_key else b'["k%d"]' % (entries // 2)
        before = used_memory(place)
        for start in range(0, entries, AT_ONCE):
            self.pipeline.epoch(BEGIN_MS, lambda s, at=start: self._fill(s, at), cleans=False)
        self.bytes_each = (used_memory(place) - before) / entries

    def _fill(self, session: StateSession, start: int) -> None:
        fill(session, self.descriptor, self.case, start, min(AT_ONCE, self.entries - start))

    def structures(self) -> Iterable[str]:
        """What MEMORY USAGE says of each structure, in MB."""
        client = self.place.client
        if client is None:
            return
        for name in sorted(client.keys("*bench_sizes:*:0}:*")):
            held = client.memory_usage(name, samples=1000) or 0
            yield f"{name.decode().rpartition('}:')[2]} {held / 1e6:.1f} MB"

    def costs(self) -> Iterable[str]:
        """A row for each operation."""
        for name, what in operations(self.case, self.entries).items():
            spent = self.place.spent(
                lambda op=what: self.pipeline.epoch(
                    BEGIN_MS + 1,
                    lambda s: operate(s, self.descriptor, self.key, op),
                    cleans=False,
                )
            )
            cost = self.pipeline.cost
            yield (
                f"{name} | {cost.round_trips} | {cost.commands} | {cost.reads} | {cost.writes} | "
                f"{spent.wall * 1e3:.1f}"
            )

    def expire(self) -> tuple[list[int], list[float], float]:
        """Elements removed by each epoch, seconds of each, and processor time in all."""
        removed, walls, work = [], [], 0.0
        while True:
            spent = self.place.spent(
                lambda: self.pipeline.epoch(BEGIN_MS + TTL_MS * 3, lambda s: self._open(s))
            )
            if not self.pipeline.cleaned:
                return removed, walls, work
            removed.append(self.pipeline.cleaned)
            walls.append(spent.wall)
            work += spent.work

    def _open(self, session: StateSession) -> None:
        getattr(session, self.descriptor.kind)(self.descriptor)

    def names_left(self) -> int:
        """Keys of the state that are still in the server."""
        client = self.place.client
        left = [] if client is None else client.keys("*bench_sizes:*:0}:state*")
        return len(left)


def show(title: str, case: Case, arguments: argparse.Namespace) -> None:
    """Measure and print one state."""
    with ground("redis") as place:
        forget_peak()
        held = Filled(place, case, arguments.entries, arguments.bound)
        filled_mb = peak_mb()
        print(f"\n{title}, {arguments.entries:,} elements, {load_text()}\n")
        print(f"{held.bytes_each:.0f} bytes an element; {', '.join(held.structures())}\n")
        print("| operation | round trips | commands | read | written | ms |")
        print("|---|---:|---:|---:|---:|---:|")
        for row in held.costs():
            print(f"| {row} |", flush=True)
        forget_peak()
        removed, walls, work = held.expire()
        print(
            f"\nexpiry: {sum(removed):,} in {len(removed)} epochs, at most {max(removed):,} in one "
            f"(bound {arguments.bound:,}), {sum(removed) / sum(walls):,.0f} a second of wall, "
            f"{sum(removed) / work:,.0f} of processor time; "
            f"median {statistics.median(walls) * 1e3:.0f} ms, most {max(walls) * 1e3:.0f} ms; "
            f"keys of the state left: {held.names_left()}"
        )
        print(f"peak of this process: {filled_mb} MB filling, {peak_mb()} MB cleaning", flush=True)


def by_size(sizes: list[int]) -> None:
    """A map of so many entries a key, one read and written a change."""
    print(f"\nmap, 50 keys, 1,000 changes an epoch, {load_text()}\n")
    print("| entries a key | us a change, processor | wall | round trips | read | written |")
    print("|---:|---:|---:|---:|---:|---:|")
    descriptor: MapDescriptor[int, Any] = MapDescriptor(name="state", key_codec=JSON, codec=JSON)
    keys = [b'["k%d"]' % each for each in range(50)]
    with ground("redis") as place:
        pipelines = {size: place.pipeline(f"by_size_{size}") for size in sizes}
        for size, pipeline in pipelines.items():
            content = dict.fromkeys(range(size), ROW)
            for key in keys:
                pipeline.epoch(
                    0, lambda s, k=key, c=content: operate(s, descriptor, k, lambda h: h.put_all(c))
                )

        def change(session: StateSession, size: int, turn: int) -> None:
            handle = session.map(descriptor)
            session.prefetch([(descriptor, [(key, 0) for key in keys])])

            async def of_key() -> None:
                for at in range(20):
                    user_key = (at * 37 + turn) % size
                    held = await handle.get(user_key)
                    await handle.put(user_key, [turn, held and held[1]])

            drive(session, [(key, of_key()) for key in keys])

        spent: dict[int, list[Any]] = {size: [] for size in sizes}
        for turn in range(9):
            for size, pipeline in pipelines.items():
                spent[size].append(
                    place.spent(
                        lambda p=pipeline, n=size, t=turn: p.epoch(t, lambda s: change(s, n, t))
                    )
                )
        for size, pipeline in pipelines.items():
            work = statistics.median(each.work for each in spent[size]) * 1e3
            wall = statistics.median(each.wall for each in spent[size]) * 1e3
            cost = pipeline.cost
            counts = f"{cost.round_trips} | {cost.reads} | {cost.writes}"
            print(f"| {size} | {work:.0f} | {wall:.0f} | {counts} |", flush=True)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--bound", type=int, default=20_000)
    parser.add_argument("--case", default=",".join(SHOWN))
    parser.add_argument("--sizes", default="10,100,1000,10000")
    arguments = parser.parse_args()
    for title in arguments.case.split(",") if arguments.case else ():
        show(title, CASES[title], arguments)
    if arguments.sizes:
        by_size([int(each) for each in arguments.sizes.split(",")])


if __name__ == "__main__":
    main()
