"""What the controller costs where nothing ever waits: state on heap, or all in the epoch's cache.

The same changes go through the same operator in five ways, in turn, in one process:

    function     a plain function, called in a loop: nothing asynchronous at all
    coroutine    the operator as `async def`, driven by `send(None)` in a loop
    run_now      the same through the synchronous mode, the key set before each
    controller   the same through `Controller.submit`
    waiting      the same through the controller, but each change waits once for a request that a
                 blocking executor answers: what a change costs that does not find its state

Two operators: `empty` does nothing, so that only the way to it is measured; `count` adds one to its
key's number in a dictionary. Figures: nanoseconds of processor time a change, the median over
rounds, and what each way costs beyond the plain function. The goal is that a change that never
waits costs well under 2 microseconds more than a plain call.

    python -m benchmarks.bench_controller [--changes 100000] [--rounds 9]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import TYPE_CHECKING, Any

from state.execution.controller import Controller
from state.execution.requests import wait_for
from state.execution.site import Site
from state.execution.sync import run_now

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

KEYS = 10_000
SITE = Site("bench", "1_bench", 1)


class Nothing:
    """A request without reads, an executor of it, and a key context: as light as they can be."""

    __slots__ = ("context", "counts", "key")
    reads = ()

    def __init__(self) -> None:
        self.counts: dict[bytes, int] = {}
        self.key = b""
        self.context: Any = None

    def set_key(self, key: bytes, key_group: int, *, event_ms: int | None = None) -> None:
        """Remember the key."""
        self.key = key

    def set_namespace(self, namespace: bytes) -> None:
        """There are none."""

    def execute(self, requests: Sequence[Any]) -> None:
        """There is nothing to read."""

    def take(self, replies: Sequence[Any]) -> None:
        """There is nothing to take."""


class Empty(Nothing):
    """An operator that does nothing."""

    def function(self, change: int) -> None:
        """As a plain call."""

    async def process(self, change: int) -> None:
        """As a coroutine."""

    async def waiting(self, change: int) -> None:
        """As a coroutine that waits once."""
        await wait_for(self)


class Count(Nothing):
    """An operator that counts the changes of a key."""

    def function(self, change: int) -> None:
        """As a plain call."""
        self.counts[self.key] = self.counts.get(self.key, 0) + 1

    async def process(self, change: int) -> None:
        """As a coroutine."""
        self.counts[self.key] = self.counts.get(self.key, 0) + 1

    async def waiting(self, change: int) -> None:
        """As a coroutine that waits once."""
        await wait_for(self)
        self.counts[self.key] = self.counts.get(self.key, 0) + 1


def by_function(operator: Empty | Count, changes: Iterable[tuple[int, bytes, int]]) -> None:
    """Plain calls; the key is set, since any operator needs it."""
    for change, key, key_group in changes:
        operator.set_key(key, key_group)
        operator.function(change)


def by_coroutine(operator: Empty | Count, changes: Iterable[tuple[int, bytes, int]]) -> None:
    """Coroutines, driven in place."""
    for change, key, key_group in changes:
        operator.set_key(key, key_group)
        try:  # noqa: SIM105 (a context manager would cost more than what is measured)
            operator.process(change).send(None)
        except StopIteration:
            pass


def by_run_now(operator: Empty | Count, changes: Iterable[tuple[int, bytes, int]]) -> None:
    """The synchronous mode."""
    for change, key, key_group in changes:
        operator.set_key(key, key_group)
        run_now(operator.process(change), operator)


def by_controller(operator: Empty | Count, changes: Iterable[tuple[int, bytes, int]]) -> None:
    """The controller; nothing waits."""
    controller = Controller(operator.process, operator, operator, SITE)
    for change, key, key_group in changes:
        controller.submit(change, key, key_group)
    controller.drain()
    assert controller.statistics().batches == 0


def by_waiting(operator: Empty | Count, changes: Iterable[tuple[int, bytes, int]]) -> None:
    """The controller; each change waits once."""
    controller = Controller(operator.waiting, operator, operator, SITE)
    for change, key, key_group in changes:
        controller.submit(change, key, key_group)
    controller.drain()


WAYS: dict[str, Callable[[Any, Any], None]] = {
    "function": by_function,
    "coroutine": by_coroutine,
    "run_now": by_run_now,
    "controller": by_controller,
    "waiting": by_waiting,
}


def measured(operator_type: type[Empty | Count], changes: Any, rounds: int) -> dict[str, float]:
    """Nanoseconds a change of each way: the median over rounds, the ways in turn."""
    taken: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds):
        for name, way in WAYS.items():
            operator = operator_type()
            gc.collect()
            started = time.process_time_ns()
            way(operator, changes)
            taken[name].append((time.process_time_ns() - started) / len(changes))
    return {name: statistics.median(each) for name, each in taken.items()}


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    keys = [b'["key-%d"]' % number for number in range(KEYS)]
    changes = [(number, keys[number % KEYS], 0) for number in range(options.changes)]
    print("| operator | way | ns a change | beyond the function, ns |")
    print("|---|---|---:|---:|")
    for operator_type in (Empty, Count):
        result = measured(operator_type, changes, options.rounds)
        for name, each in result.items():
            beyond = each - result["function"]
            print(f"| {operator_type.__name__.lower()} | {name} | {each:.0f} | {beyond:.0f} |")


if __name__ == "__main__":
    main()
