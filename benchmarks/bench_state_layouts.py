"""Packed against spread for map and list state, by how many elements a key holds.

Two pipelines hold the same keys, one with every collection packed, one with every collection
spread. In turns each runs an epoch in which every key gets so many changes; keys are driven side by
side, as asynchronous state does. Shown are us of processor time of this process and of Redis a
change, packed / spread, medians; in brackets spread by packed, the median of the turns. Where it
falls below 1, spreading pays.

    map     a change reads one entry and writes it
    list    a change adds an element; nothing reads the list, which favours spread
    TTL     on, one hour

    python -m benchmarks.bench_state_layouts [--backend heap,redis] [--turns 7]
                [--sizes 16,32,64,128,256,512] [--changes 1,10] [--keys 200] [--payload 20,200]
"""

from __future__ import annotations

import argparse
import statistics
from typing import TYPE_CHECKING, Any

from benchmarks.bench_sorted_state import drive
from benchmarks.state_epochs import ground, load_text
from state.descriptors import JSON, ListDescriptor, MapDescriptor
from state.testing.sessions import PACKED, SPREAD
from state.ttl import TtlConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from benchmarks.state_epochs import Ground, Pipeline
    from state.descriptors import StateDescriptor
    from state.primitives.session import StateSession

TTL = TtlConfig(3_600_000)
START_MS = 1_767_225_600_000
DESCRIPTORS: dict[str, StateDescriptor] = {
    "map": MapDescriptor(name="state", key_codec=JSON, codec=JSON, ttl=TTL),
    "list": ListDescriptor(name="state", codec=JSON, ttl=TTL),
}


class Arm:
    """One layout with its keys."""

    def __init__(self, pipeline: Pipeline, kind: str, given: argparse.Namespace) -> None:
        self._pipeline, self._kind, self._given = pipeline, kind, given
        self._keys = [b'["k%d"]' % each for each in range(given.keys)]
        self._row = [7, "x" * given.payload]
        self._ms = START_MS

    def fill(self) -> None:
        """Let every key hold as many elements as were asked for."""
        rows = [self._row] * self._given.size
        if self._kind == "map":
            self._each(lambda s: s.put_all(dict(enumerate(rows))))
        else:
            self._each(lambda s: s.update(rows))

    def change(self) -> None:
        """The epoch that is measured."""
        self._each(self._map_changes if self._kind == "map" else self._list_changes)

    async def _map_changes(self, handle: Any) -> None:
        for at in range(self._given.change):
            user_key = (at * 37 + self._ms // 1_000) % self._given.size
            held = await handle.get(user_key)
            await handle.put(user_key, [self._ms, held[1]])

    async def _list_changes(self, handle: Any) -> None:
        for _ in range(self._given.change):
            await handle.add(self._row)

    def _each(self, of_key: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        self._ms += 1_000
        descriptor = DESCRIPTORS[self._kind]

        def operate(session: StateSession) -> None:
            handle = getattr(session, self._kind)(descriptor)
            session.prefetch([(descriptor, [(key, 0) for key in self._keys])])
            drive(session, [(key, of_key(handle)) for key in self._keys])

        self._pipeline.epoch(self._ms, operate)


def cell(place: Ground, kind: str, given: argparse.Namespace) -> str:
    """One figure of the table."""
    arms = [
        Arm(place.pipeline("packed", PACKED), kind, given),
        Arm(place.pipeline("spread", SPREAD), kind, given),
    ]
    found: list[list[float]] = []
    for arm in arms:
        arm.fill()
    for turn in range(given.turns + 1):
        spent = [0.0, 0.0]
        for which in (0, 1) if turn % 2 else (1, 0):
            if kind == "list":
                arms[which].fill()
            spent[which] = place.spent(arms[which].change).work
        if turn:
            found.append(spent)
    changes = given.keys * given.change
    packed, spread = (statistics.median(each[at] for each in found) / changes for at in (0, 1))
    ratio = statistics.median(spread / packed for packed, spread in found)
    return f"{packed * 1e6:.1f} / {spread * 1e6:.1f} ({ratio:.2f})"


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="heap,redis")
    parser.add_argument("--sizes", default="16,32,64,128,256,512")
    parser.add_argument("--changes", default="1,10")
    parser.add_argument("--payload", default="20,200")
    parser.add_argument("--keys", type=int, default=200)
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    sizes = [int(each) for each in arguments.sizes.split(",")]
    for name in arguments.backend.split(","):
        with ground(name) as place:
            print(
                f"\n{name}, {arguments.keys} keys an epoch, packed / spread (ratio), {load_text()}"
            )
            print(f"| state | changes a key | bytes | {' | '.join(map(str, sizes))} |")
            print(f"|---|---:|---:|{'---:|' * len(sizes)}")
            for kind in DESCRIPTORS:
                for change in map(int, arguments.changes.split(",")):
                    for payload in map(int, arguments.payload.split(",")):
                        shown = []
                        for size in sizes:
                            more = {"size": size, "change": change, "payload": payload}
                            given = argparse.Namespace(**{**vars(arguments), **more})
                            shown.append(cell(place, kind, given))
                        print(
                            f"| {kind} | {change} | {payload} | {' | '.join(shown)} |", flush=True
                        )


if __name__ == "__main__":
    main()
