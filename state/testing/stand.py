"""What the conformance suites drive: a backend, its ledger, and a look from outside."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from state.backends.heap import HeapBackend, HeapLedger
from state.backends.interface import EpochStamp
from state.backends.names import is_reserved, key_group_prefix, slot_prefix
from state.backends.reads import command_of, value_of
from state.backends.redis import RedisBackend
from state.backends.transport import RedisTransport, checked
from state.epochs import EpochLedger
from state.reader import CommittedReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import redis

    from state.backends.interface import (
        Effect,
        EpochTransaction,
        Ledger,
        Read,
        StateBackend,
        StateView,
        Write,
    )

NODE = "1_materializer"
"""The node that tests use where any would do."""
PARALLELISM = 4
"""How many key groups a node of the tests has."""
START_MS = 1_700_000_000_000


@dataclass
class Stand:
    """A pipeline without anything in it, on some backend."""

    pipeline: str
    backend: StateBackend
    ledger: Ledger
    view: Callable[[str], StateView]
    slot: Callable[[Read], Any]
    """Reads in the pipeline's own slot, whatever the key group says."""
    names: Callable[[str, int], list[bytes]]
    """Names that hold something in a key group of a node, without those of the protocol."""

    def stamp(self, epoch: int, run: int = 1) -> EpochStamp:
        """A stamp; each epoch has its own time."""
        return EpochStamp(epoch, run, START_MS + epoch)

    def open_run(self, *nodes: str) -> int:
        """Begin a run."""
        return self.ledger.open_run(nodes or (NODE,), PARALLELISM)

    def begin(self, epoch: int, run: int = 1, *, node: str = NODE) -> EpochTransaction:
        """An attempt over all key groups."""
        return self.backend.begin(node, self.stamp(epoch, run), range(PARALLELISM))

    def attempt(
        self, epoch: int, writes: Mapping[int, Sequence[Write]], run: int = 1, *, node: str = NODE
    ) -> EpochTransaction:
        """An attempt that begins and commits."""
        transaction = self.begin(epoch, run, node=node)
        transaction.fetch([])
        transaction.commit(writes)
        return transaction

    def close(
        self, epoch: int, effects: Sequence[Effect] = (), run: int = 1, *, offset: int | None = None
    ) -> bool:
        """Close an epoch; its offsets follow from its number, if they are not given."""
        offsets = {"orders": {"end": epoch if offset is None else offset}}
        return self.ledger.close_epoch(self.stamp(epoch, run), offsets, effects)

    def run_epoch(self, epoch: int, writes: Sequence[Write], run: int = 1) -> None:
        """A whole epoch that writes in key group 0."""
        self.attempt(epoch, {0: writes}, run)
        self.close(epoch, run=run)

    def after(self, writes: Sequence[Write], *reads: Read) -> list[Any]:
        """What these reads give after a first epoch with these writes in key group 0."""
        run = self.open_run()
        self.run_epoch(1, writes, run)
        return self.begin(2, run).fetch(reads)


def heap_stand(pipeline: str = "orders") -> Stand:
    """A pipeline in this process."""
    backend = HeapBackend(pipeline=pipeline)
    ledger = HeapLedger(backend.store, pipeline=pipeline)

    def names(node: str, key_group: int) -> list[bytes]:
        ledger.promote_all([node], key_group + 1)
        return sorted(backend.store.key_group(node, key_group).space.structures)

    return Stand(pipeline, backend, ledger, backend.view, backend.store.slot.read, names)


@contextlib.contextmanager
def redis_stand(client: redis.Redis, pipeline: str = "orders") -> Iterator[Stand]:
    """A pipeline on the Redis of a client."""
    transport = RedisTransport(client)
    reader = CommittedReader(client, pipeline)
    prefix = slot_prefix(pipeline)

    def slot(read: Read) -> Any:
        command = command_of(read, prefix)
        return value_of(read, command and checked(transport.exchange([command]))[0])

    def names(node: str, key_group: int) -> list[bytes]:
        ledger.promote_all([node], key_group + 1)
        group = key_group_prefix(pipeline, node, key_group)
        keys = (each.removeprefix(group) for each in client.scan_iter(group + b"*"))
        return sorted(each for each in keys if not is_reserved(each))

    backend = RedisBackend(transport, pipeline)
    ledger = EpochLedger(transport, pipeline)
    try:
        yield Stand(pipeline, backend, ledger, reader.view, slot, names)
    finally:
        reader.close()
        backend.close()
