"""Pending-and-promote against undo, on the same writes: what docs/adr/0001 was decided by.

Both protocols run an epoch over the same key groups with the same reads and writes, in turn, on
one Redis; undo is `benchmarks/undo.lua`, with the library's own transport and chunks. Pending:
begin and read, commit, promote what was closed. Undo: begin and read, commit with its undo. The
close itself is the same for both and left out.

    packed   10,000 keys over 64 key groups, each value of 270 bytes replaced
    spread   one key: 500 rows of 250 bytes added and 500 removed, with order and index

Figures: milliseconds an epoch, medians; `task` is what the epoch's task waits for (begin, read,
commit), `whole` has the promotion after the close, too. Log bytes are those that the epoch appends
to Redis's append-only file.

    python -m benchmarks.bench_epoch_protocol [--rounds 15] [--redis redis://127.0.0.1:6379/0]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from benchmarks.neighbours import own_redis
from state.backends.chunks import encode_chunks
from state.backends.interface import (
    EpochStamp,
    HashDelete,
    HashGet,
    HashPut,
    SortedPut,
    SortedRemove,
    SortedTop,
)
from state.backends.names import key_group_prefix
from state.backends.reads import command_of
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport, checked
from state.epochs import EpochLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from state.backends.interface import Read, Write

    Epoch = tuple[list[Read], Mapping[int, Sequence[Write]]]

PARALLELISM = 64
NODE = "1_bench"
ROW = b"1767225600123\t" + b"x" * 250


def packed(epoch: int) -> Epoch:
    """Every one of 10,000 keys gets another value."""
    reads: list[Read] = []
    writes: dict[int, list[Write]] = {}
    for group in range(PARALLELISM):
        keys = [b'["key-%d-%d"]' % (group, number) for number in range(10_000 // PARALLELISM)]
        value = b"%d\n%d\t" % (epoch, epoch) + ROW
        reads.append(HashGet(group, b"history", keys))
        writes[group] = [HashPut(b"history", [each for key in keys for each in (key, value)])]
    return reads, writes


def spread(epoch: int) -> Epoch:
    """One key loses its 500 oldest rows and gets 500 new ones; it has 2,000."""
    new = [b"%d" % (2_000 + epoch * 500 + number) for number in range(500)]
    old = [b"%d" % (epoch * 500 + number) for number in range(500)]
    index = [b"#%040d" % int(each) for each in new]
    reads: list[Read] = [
        HashGet(0, b"history", [b"k"]),
        HashGet(0, b"history:k:index", [b"#%040d" % int(each) for each in old]),
        SortedTop(0, b"history:k:order", 501),
    ]
    writes: list[Write] = [
        HashPut(b"history:k:rows", [each for number in new for each in (number, ROW)]),
        HashDelete(b"history:k:rows", old),
        SortedPut(b"history:k:order", [each for number in new for each in (int(number), number)]),
        SortedRemove(b"history:k:order", old),
        HashPut(b"history:k:index", [x for pair in zip(index, new, strict=True) for x in pair]),
        HashDelete(b"history:k:index", [b"#%040d" % int(each) for each in old]),
        HashPut(b"history", [b"k", b"spread\t2000\t%d" % (2_500 + epoch * 500)]),
    ]
    return reads, {0: writes}


class Pending:
    """The library's protocol."""

    def __init__(self, client: redis.Redis) -> None:
        self._ledger = EpochLedger(client, "pending")
        self._backend = RedisBackend(client, "pending")
        self._run = self._ledger.open_run([NODE], PARALLELISM)

    def task(self, number: int, epoch: Epoch) -> None:
        """Begin, read, commit."""
        reads, writes = epoch
        stamp = EpochStamp(number, self._run, 0)
        transaction = self._backend.begin(NODE, stamp, list(writes))
        transaction.fetch(reads)
        transaction.commit(writes)

    def close(self, number: int) -> None:
        """Close the epoch; not measured."""
        self._ledger.close_epoch(EpochStamp(number, self._run, 0), {}, [])

    def settle(self) -> None:
        """What follows the close."""
        self._ledger.promote_all([NODE], PARALLELISM)


class Undo:
    """State written at once, with what takes it back."""

    def __init__(self, client: redis.Redis) -> None:
        source = Path(__file__).with_name("undo.lua").read_text(encoding="utf-8")
        client.function_load(source, replace=True)
        self._transport = RedisTransport(client)

    def task(self, number: int, epoch: Epoch) -> None:
        """Begin, read, commit."""
        reads, writes = epoch
        begins = [self._call("begin", group, number) for group in writes]
        asked = [command_of(each, _prefix(each.key_group)) for each in reads]
        self._exchange([*begins, *(each for each in asked if each)])
        self._exchange(
            [
                self._call("commit", group, number, *encode_chunks(w)[0])
                for group, w in writes.items()
            ]
        )

    def close(self, number: int) -> None:
        """Closing is the same for both."""

    def settle(self) -> None:
        """Nothing is left to do."""

    def _call(self, name: str, group: int, *arguments: Any) -> tuple[Any, ...]:
        keys = (_prefix(group) + b"meta", _prefix(group) + b"undo")
        return ("FCALL", f"bench_undo_{name}", 2, *keys, *arguments)

    def _exchange(self, commands: list[tuple[Any, ...]]) -> None:
        checked(self._transport.exchange(commands))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--redis", help="address; without it a server of its own is started")
    given = parser.parse_args(arguments)
    if given.redis:
        _run(given.redis, given.rounds)
        return
    with own_redis() as url:
        _run(url, given.rounds)


def _run(url: str, rounds: int) -> None:
    print("| workload | appendfsync | protocol | task ms | whole ms | log bytes | Redis CPU ms |")
    print("|---|---|---|---|---|---|---|")
    for fsync in ("always", "everysec"):
        for workload in (packed, spread):
            with redis.Redis.from_url(url) as client:
                client.flushall()
                client.config_set("appendfsync", fsync)
                _compare(client, fsync, workload, rounds)


def _compare(
    client: redis.Redis, fsync: str, workload: Callable[[int], Epoch], rounds: int
) -> None:
    protocols: dict[str, Pending | Undo] = {"pending": Pending(client), "undo": Undo(client)}
    seen: dict[str, list[tuple[float, ...]]] = {name: [] for name in protocols}
    for number in range(1, rounds + 6):
        epoch = workload(number)
        # In turn, and in turns of order, so that neither has the warmer machine.
        for name in sorted(protocols, reverse=bool(number % 2)):
            seen[name].append(_measure(client, protocols[name], number, epoch))
    # The first epochs fill the state.
    medians = {
        name: [statistics.median(column) for column in zip(*rows[5:], strict=True)]
        for name, rows in seen.items()
    }
    for name, (task, whole, log, cpu) in medians.items():
        print(
            f"| {workload.__name__} | {fsync} | {name} | {task:.1f} | {whole:.1f} | {log:,.0f} "
            f"| {cpu:.1f} |"
        )
    ratios = [undo / pending for pending, undo in zip(*medians.values(), strict=True)]
    task, whole, log, cpu = ratios
    print(
        f"| {workload.__name__} | {fsync} | **undo / pending** | **{task:.2f}** | **{whole:.2f}** "
        f"| **{log:.2f}** | **{cpu:.2f}** |"
    )


def _measure(
    client: redis.Redis, protocol: Pending | Undo, number: int, epoch: Epoch
) -> tuple[float, ...]:
    before_log, before_cpu = _log_and_cpu(client)
    started = time.perf_counter()
    protocol.task(number, epoch)
    task = time.perf_counter() - started
    protocol.close(number)
    started = time.perf_counter()
    protocol.settle()
    whole = task + time.perf_counter() - started
    log, cpu = _log_and_cpu(client)
    return task * 1e3, whole * 1e3, log - before_log, (cpu - before_cpu) * 1e3


def _log_and_cpu(client: redis.Redis) -> tuple[int, float]:
    info = client.info("persistence")
    cpu = client.info("cpu")
    return int(info["aof_current_size"]), cpu["used_cpu_user"] + cpu["used_cpu_sys"]


def _prefix(group: int) -> bytes:
    return key_group_prefix("undo", NODE, group)


if __name__ == "__main__":
    main()
