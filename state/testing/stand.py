"""What the conformance suites drive: a backend, its ledger, and a look from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from state.backends.interface import EpochStamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
