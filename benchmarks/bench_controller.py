"""What the controller costs where nothing ever waits: state on heap, or all in the epoch's cache.

The same changes go through the same operator in five ways, in turn, in one process:

    function     a plain function, called in a loop: nothing asynchronous at all
    coroutine    the operator as `async def`, driven by `send(None)` in a loop
    run_now      the same through the synchronous mode, the key set before each
    controller   the same through `Controller.submit`
    waiting      the same through the controller, but each change waits once for a request that a
                 blocking executor answers: what a change costs that does not find its state

Three operators: `empty` does nothing, so that only the way to it is measured; `count` adds one to
its key's number in a dictionary; `materializer` is the upsert materializer's plain `process`, with
histories on heap: each change finds its key's history, encodes the row, matches and emits. Figures:
nanoseconds of processor time a change, the median over rounds, and what each way costs beyond the
plain function. Goals: a change that never waits costs well under 2 microseconds more than a plain
call, and the controller at most 25 % of a materializer's time.

    python -m benchmarks.bench_controller [--changes 100000] [--rounds 9]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from operators.changelog import Change, RowKind
from operators.upsert_materializer import MaterializerSpec, UpsertMaterializer
from state.execution.controller import Controller
from state.execution.requests import wait_for
from state.execution.site import Site
from state.execution.sync import run_now
from state.multiset.packed import PackedMultiSet
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

KEYS = 10_000
PAYLOAD = "x" * 100
SPEC = MaterializerSpec(
    types=tuple(parse_type(each) for each in ("STRING", "BIGINT", "STRING")),
    names=("k", "id", "payload"),
    key=(0,),
    upsert_key=(1,),
)
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


class Materializer(Nothing):
    """The upsert materializer, a change at a time: insertions, each retracted two rounds later."""

    def __init__(self) -> None:
        super().__init__()
        self._operator = UpsertMaterializer(SPEC)
        self._histories: dict[bytes, PackedMultiSet] = {}

    def function(self, change: int) -> Change | None:
        """As a plain call."""
        history = self._histories.get(self.key)
        if history is None:
            history = self._histories[self.key] = PackedMultiSet(whole=False)
        kind = RowKind.DELETE if change // KEYS % 3 == 2 else RowKind.INSERT
        number = change - 2 * KEYS if kind is RowKind.DELETE else change
        row = (f"key-{change % KEYS}", number, PAYLOAD)
        return self._operator.process(Change(kind, row), history, 0)

    async def process(self, change: int) -> Change | None:
        """As a coroutine."""
        return self.function(change)

    async def waiting(self, change: int) -> Change | None:
        """As a coroutine that waits once."""
        await wait_for(self)
        return self.function(change)


Operator: TypeAlias = Empty | Count | Materializer


def by_function(operator: Operator, changes: Iterable[tuple[int, bytes, int]]) -> None:
    """Plain calls; the key is set, since any operator needs it."""
    for change, key, key_group in changes:
        operator.set_key(key, key_group)
        operator.function(change)


def by_coroutine(operator: Operator, changes: Iterable[tuple[int, bytes, int]]) -> None:
    """Coroutines, driven in place."""
    for change, key, key_group in changes:
        operator.set_key(key, key_group)
        try:  # noqa: SIM105 (a context manager would cost more than what is measured)
            operator.process(change).send(None)
        except StopIteration:
            pass


def by_run_now(operator: Operator, changes: Iterable[tuple[int, bytes, int]]) -> None:
    """The synchronous mode."""
    for change, key, key_group in changes:
        operator.set_key(key, key_group)
        run_now(operator.process(change), operator)


def by_controller(operator: Operator, changes: Iterable[tuple[int, bytes, int]]) -> None:
    """The controller; nothing waits."""
    controller = Controller(operator.process, operator, operator, SITE)
    for change, key, key_group in changes:
        controller.submit(change, key, key_group)
    controller.drain()
    assert controller.statistics().batches == 0


def by_waiting(operator: Operator, changes: Iterable[tuple[int, bytes, int]]) -> None:
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


def measured(operator_type: type[Operator], changes: Any, rounds: int) -> dict[str, float]:
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
    print("| operator | way | ns a change | beyond the function, ns | of the function |")
    print("|---|---|---:|---:|---:|")
    for operator_type in (Empty, Count, Materializer):
        result = measured(operator_type, changes, options.rounds)
        for name, each in result.items():
            beyond = each - result["function"]
            part = beyond / result["function"]
            columns = (operator_type.__name__.lower(), name, f"{each:.0f}", f"{beyond:.0f}")
            print(f"| {' | '.join(columns)} | {part:.0%} |")


if __name__ == "__main__":
    main()
