"""What an epoch found and did to histories, and the rows of its changes: all that is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from state.multiset.changes import Groups, KeyedChanges, Outcome
    from state.multiset.histories import Histories
    from state.multiset.strategy import HistoryPolicy
    from state.row_pieces import Piece, RowPieces

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class Rows(Protocol):
    """The rows of the epoch's changes."""

    def of_changes(
        self, changes: Integers, before: Sequence[str | pa.Array] = ()
    ) -> pa.BinaryArray:
        """Canonical rows of the changes at these positions, with texts before each."""

    def pieces_of_changes(self, changes: Integers, before: Sequence[Piece]) -> RowPieces:
        """The same in pieces: for the blocks of a history, which have many rows each."""


@dataclass(frozen=True, slots=True)
class EpochResult:
    """What an epoch found and did: all that is to be written follows from it."""

    policy: HistoryPolicy
    histories: Histories
    changes: KeyedChanges
    groups: Groups
    outcome: Outcome
    replace: bool
    now_ms: int

    @property
    def stays(self) -> Flags:
        """Per loaded entry: it is still there, as it was."""
        return ~self.outcome.entry_removed & (self.outcome.entry_content < 0)

    def entries_of(self, key: int) -> slice:
        """The loaded entries of a key."""
        low, high = self.histories.entries.key.searchsorted([key, key + 1]).tolist()
        return slice(low, high)


@dataclass(frozen=True, slots=True)
class Puts:
    """Entries whose row an epoch wrote: born ones and replaced ones, by key and number."""

    key: Integers
    sequence: Integers
    group: Integers
    """Only set where an index or an upsert key asks for it."""
    is_new: Flags
    content: Integers
    """The change whose row it is."""

    def of(self, chosen: slice | Integers) -> Puts:
        """Some of them."""
        return Puts(
            self.key[chosen],
            self.sequence[chosen],
            self.group[chosen],
            self.is_new[chosen],
            self.content[chosen],
        )

    def of_key(self, key: int) -> Puts:
        """Those of a key."""
        low, high = self.key.searchsorted([key, key + 1]).tolist()
        return self.of(slice(low, high))
