"""Epochs of state sessions on a stand: what tests, models and replays of the primitives drive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from state.multiset.strategy import Thresholds
from state.primitives.session import PRIMITIVE_THRESHOLDS, StateSession
from state.testing.stand import NODE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from state.backends.interface import EpochTransaction, Read, Write
    from state.testing.stand import Stand
    from state.ttl import TtlClock

PACKED = Thresholds(high=1 << 40, low=1)
"""No collection is ever spread."""
SPREAD = Thresholds(high=1, low=0)
"""Every collection is spread."""
LAYOUTS = {"packed": PACKED, "spread": SPREAD}
"""The forced layouts, by name."""


class SessionStand:
    """Epochs over one node, one after another; each is begun, used and ended."""

    def __init__(
        self,
        stand: Stand,
        *,
        thresholds: Thresholds = PRIMITIVE_THRESHOLDS,
        node: str = NODE,
        key_groups: Sequence[int] = (0,),
        after_epoch: int = 0,
        is_local: bool = False,
    ) -> None:
        """Open a run.

        Args:
            stand: Where state is; nothing else runs on it meanwhile.
            thresholds: Layouts of collections.
            node: Whose state.
            key_groups: The key groups of each epoch.
            after_epoch: The epoch that the stand closed last.
            is_local: Whether operations never suspend.
        """
        self.stand = stand
        self.epoch = after_epoch
        self.key_groups = key_groups
        self._thresholds = thresholds
        self._node = node
        self._is_local = is_local
        self._run = stand.ledger.open_run([node], max(key_groups) + 1)
        self.transaction: EpochTransaction

    def begin(self, clock: TtlClock) -> StateSession:
        """A session of the next epoch."""
        stamp = self.stand.stamp(self.epoch + 1, self._run)
        self.transaction = self.stand.backend.begin(self._node, stamp, self.key_groups)
        return StateSession(
            self.transaction, clock=clock, thresholds=self._thresholds, is_local=self._is_local
        )

    def end(self, session: StateSession) -> None:
        """Commit what the session wrote, and close the epoch."""
        self.commit(session.writes())

    def commit(self, writes: Mapping[int, Sequence[Write]]) -> None:
        """Commit writes in the epoch that was begun, and close it."""
        self.transaction.commit(writes)
        self.epoch += 1
        self.stand.close(self.epoch, run=self._run)

    def commit_only(self, writes: Mapping[int, Sequence[Write]]) -> None:
        """Commit writes in the epoch that was begun, which is then never closed."""
        self.transaction.commit(writes)

    def fetch(self, *reads: Read) -> list[Any]:
        """What is stored after the epochs that were ended."""
        return self.stand.view(self._node).fetch(reads)

    def names(self) -> list[bytes]:
        """Every name that holds something: none once all is cleared or expired."""
        return [name for each in self.key_groups for name in self.stand.names(self._node, each)]

    def reopen(self) -> None:
        """Begin another run, as after a restart."""
        self._run = self.stand.ledger.open_run([self._node], max(self.key_groups) + 1)
