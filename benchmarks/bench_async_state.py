"""Asynchronous state against one request at a time, on Redis at a set distance.

An operator reads a value and writes it for every change. Four ways, in turn, over the same changes:

    one by one     no cache: each change reads its key's value, and the next change waits for it;
                   writes are gathered and committed with the epoch
    cached         the synchronous mode of the session: a change whose key the epoch has is answered
                   from its cache, every other one waits for a round trip of its own
    asynchronous   the controller over the same session: up to 6,000 changes in flight, batches of
                   1,000 requests
    heap           the controller over a session on the heap backend, where no change ever waits,
                   for the FLIP's other ratio (`of heap`: how fast asynchronous is against it)

Two inputs: 10,000 keys once each, and as many changes of one key. The distance (0, 0.2, 1, 5 ms a
round trip) is made by `state.testing.proxy` in a process of its own, and measured with PING. The
ways that wait for each change run on a part of the input when the distance is large; figures are
per change. `ratio` is one by one against asynchronous: what the FLIP calls the gain of asynchronous
execution.

Each run begins on an empty pipeline, and the commit is part of it.

A second table: watermarks every 100 changes, serial against parallel between them, at 1 ms; each
watermark waits for the changes before it, in serial mode at once.

    python -m benchmarks.bench_async_state [--changes 10000] [--rounds 3]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.neighbours import own_redis
from state.backends.heap import HeapBackend
from state.backends.interface import EpochStamp, HashGet, HashPut
from state.backends.redis import RedisBackend
from state.backends.transport import ClientSettings, RedisTransport
from state.descriptors import JSON, ValueDescriptor
from state.epochs import EpochLedger
from state.execution.controller import Controller
from state.execution.site import Site
from state.execution.stretches import StretchMode
from state.execution.sync import run_now
from state.primitives.session import StateSession
from state.ttl import TtlClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from state.backends.interface import EpochTransaction, StateBackend

    Changes = Sequence[tuple[int, bytes, int]]

NODE = "1_bench"
GROUPS = 16
SITE = Site("bench", NODE, 1)
VALUES = ValueDescriptor(name="values", codec=JSON)
DISTANCES_MS = (0.0, 0.2, 1.0, 5.0)
WAITING_S = 3.0
"""About how long a way that waits for every change may take in one round."""


def by_turns(transaction: EpochTransaction, changes: Changes) -> None:
    """A read for each change, answered before the next one."""
    written: dict[int, dict[bytes, bytes]] = {}
    for amount, key, key_group in changes:
        ((text,),) = transaction.fetch([HashGet(key_group, b"values", [key])])
        own = written.setdefault(key_group, {})
        value = JSON.decode(own.get(key) or text or b"0")
        own[key] = JSON.encode(value + amount)
    transaction.commit(
        {
            group: [HashPut(b"values", list(itertools.chain(*values.items())))]
            for group, values in written.items()
        }
    )


def by_cache(transaction: EpochTransaction, changes: Changes) -> None:
    """The session's synchronous mode."""
    session = StateSession(transaction, clock=TtlClock(1))
    values = session.value(VALUES)

    async def add(amount: int) -> None:
        await values.update((await values.value() or 0) + amount)

    for amount, key, key_group in changes:
        session.set_key(key, key_group)
        run_now(add(amount), session)
    transaction.commit(session.writes())


def by_controller(
    transaction: EpochTransaction,
    changes: Changes,
    *,
    mode: StretchMode = StretchMode.SERIAL_BETWEEN_EPOCH,
    watermark_every: int = 0,
    is_local: bool = False,
) -> None:
    """The controller over a session."""
    session = StateSession(transaction, clock=TtlClock(1), is_local=is_local)
    values = session.value(VALUES)

    async def add(amount: int) -> None:
        await values.update((await values.value() or 0) + amount)

    controller = Controller(add, session, session, SITE, mode=mode)
    for number, (amount, key, key_group) in enumerate(changes, 1):
        controller.submit(amount, key, key_group)
        if watermark_every and not number % watermark_every:
            controller.non_record(lambda: None)
    controller.drain()
    transaction.commit(session.writes())


def by_controller_here(transaction: EpochTransaction, changes: Changes) -> None:
    """The same where state is in this process, so that nothing ever waits."""
    by_controller(transaction, changes, is_local=True)


class Bench:
    """Pipelines on one backend, a new one for each run."""

    def __init__(self, backend_of: Callable[[str], StateBackend], open_run: Callable[[str], int]):
        self._backend_of = backend_of
        self._open_run = open_run
        self._numbers = itertools.count()

    def seconds(self, way: Callable[[EpochTransaction, Changes], None], changes: Changes) -> float:
        """How long an epoch takes."""
        pipeline = f"bench{next(self._numbers)}"
        stamp = EpochStamp(1, self._open_run(pipeline), 1)
        transaction = self._backend_of(pipeline).begin(NODE, stamp, range(GROUPS))
        started = time.perf_counter()
        way(transaction, changes)
        return time.perf_counter() - started


def on_heap() -> Bench:
    """State in this process."""
    backend = HeapBackend()
    number = itertools.count(1)

    def opened(_: str) -> StateBackend:
        nonlocal backend
        return backend

    def run(_: str) -> int:
        nonlocal backend
        backend = HeapBackend()
        next(number)
        return backend.ledger().open_run([NODE], GROUPS)

    return Bench(opened, run)


def on_redis(transport: RedisTransport) -> Bench:
    """State in Redis, through this transport."""
    return Bench(
        lambda pipeline: RedisBackend(transport, pipeline),
        lambda pipeline: EpochLedger(transport, pipeline).open_run([NODE], GROUPS),
    )


@contextlib.contextmanager
def at_distance(redis_port: int, round_trip_ms: float) -> Iterator[RedisTransport]:
    """A transport through a proxy in a process of its own."""
    command = [sys.executable, "-m", "state.testing.proxy", "--port", str(redis_port)]
    command += ["--round-trip-ms", str(round_trip_ms)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        port = int(process.stdout.readline())
        transport = RedisTransport(ClientSettings(f"redis://127.0.0.1:{port}/0"))
        try:
            yield transport
        finally:
            transport.close()
            process.stdin.close()
            process.wait(timeout=10)


def ping_ms(transport: RedisTransport) -> float:
    """The median round trip of a PING."""
    taken = []
    for _ in range(30):
        started = time.perf_counter()
        transport.exchange([("PING",)])
        taken.append((time.perf_counter() - started) * 1_000)
    return statistics.median(taken)


def inputs(count: int) -> dict[str, Changes]:
    """Changes of as many keys, and of one."""
    keys = [b'["key-%d"]' % number for number in range(count)]
    return {
        "10,000 keys" if count == 10_000 else f"{count} keys": [
            (1, key, number % GROUPS) for number, key in enumerate(keys)
        ],
        "one key": [(1, keys[0], 0)] * count,
    }


def part(changes: Changes, round_trip_ms: float) -> Changes:
    """As many changes as a way that waits for each can do in about `WAITING_S`."""
    return changes[: max(100, min(len(changes), int(WAITING_S * 1_000 / (round_trip_ms + 0.1))))]


def compared(transport: RedisTransport, changes: Changes, rounds: int) -> list[float]:
    """Microseconds a change of the four ways: medians, the ways in turn."""
    near, far = on_heap(), on_redis(transport)
    few = part(changes, ping_ms(transport))
    runs: list[tuple[Bench, Callable[[EpochTransaction, Changes], None], Changes]] = [
        (far, by_turns, few),
        (far, by_cache, few),
        (far, by_controller, changes),
        (near, by_controller_here, changes),
    ]
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(rounds):
        for (bench, way, given), each in zip(runs, taken, strict=True):
            each.append(bench.seconds(way, given) / len(given) * 1e6)
    return [statistics.median(each) for each in taken]


def compare_modes(transport: RedisTransport, changes: Changes, rounds: int) -> list[float]:
    """Microseconds a change, serial and parallel, with a watermark every 100 changes."""
    far = on_redis(transport)
    taken: dict[StretchMode, list[float]] = {mode: [] for mode in StretchMode}
    for _ in range(rounds):
        for mode in StretchMode:

            def way(
                transaction: EpochTransaction, given: Changes, mode: StretchMode = mode
            ) -> None:
                by_controller(transaction, given, mode=mode, watermark_every=100)

            taken[mode].append(far.seconds(way, changes) / len(changes) * 1e6)
    return [statistics.median(each) for each in taken.values()]


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    given = inputs(options.changes)
    with own_redis() as url:
        redis_port = int(url.rpartition(":")[2].partition("/")[0])
        print("us a change\n")
        print("| set ms | PING ms | input | one by one | cached | async | heap | ratio | of heap |")
        print("|---:|---:|---|---:|---:|---:|---:|---:|---:|")
        for distance in DISTANCES_MS:
            with at_distance(redis_port, distance) as transport:
                for name, changes in given.items():
                    by_one, cached, driven, near = compared(transport, changes, options.rounds)
                    print(
                        f"| {distance} | {ping_ms(transport):.2f} | {name} | {by_one:.1f}"
                        f" | {cached:.1f} | {driven:.1f} | {near:.1f}"
                        f" | {by_one / driven:.0f} | {near / driven:.2f} |",
                        flush=True,
                    )
        print("\n| set ms | watermark every | serial | parallel | parallel is faster by |")
        print("|---:|---:|---:|---:|---:|")
        with at_distance(redis_port, 1.0) as transport:
            changes = next(iter(given.values()))
            serial, parallel = compare_modes(transport, changes, options.rounds)
            print(f"| 1.0 | 100 | {serial:.1f} | {parallel:.1f} | {serial / parallel - 1:.0%} |")


if __name__ == "__main__":
    main()
