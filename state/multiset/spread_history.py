"""What an epoch has of one spread history."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from state.multiset.memory import NO_BLOCKS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from state.multiset.index import Characters
    from state.multiset.known_index import KnownIndex
    from state.multiset.memory import Blocks
    from state.multiset.text import Header

    Integers = NDArray[np.int64]


@dataclass(slots=True)
class SpreadHistory:
    """What was read of one spread history."""

    key: int
    header: Header
    groups: Integers
    """The groups of changes that were looked up in its index."""
    digests: Characters | None
    """Their digests; None where they were found without them."""
    index: KnownIndex
    found_line: Integers
    found_group: Integers
    found: Integers
    """Lines of the index that groups match, the group of each and its sequence number."""
    wanted: Integers
    """Blocks with entries that groups match, ascending."""
    unread: Integers
    """Those that are not read, since the epoch removes all entries that they have; none, where all
    that are wanted are remembered."""
    unread_entries: Integers
    """Sequence numbers of these entries, ascending."""
    top: Integers
    """Numbers of the newest blocks, newest first."""
    due: Integers
    """Numbers of the blocks with entries that are past their time."""
    oldest_ms: int | None
    """No entry of the other blocks was written before; None: there is none, or no TTL."""
    blocks: dict[int, bytes] = field(default_factory=dict)
    """What was read of the blocks, or remembered and is wanted, by number."""
    remembered: Blocks = NO_BLOCKS
    """Those that this process wrote, where the epoch goes on from what is remembered."""
    expired: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """Sequence numbers of entries past their time."""
    expired_place: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    """Where in `Histories.packed` they are."""
    is_complete: bool = False
    """Whether all blocks that are needed are known to be there."""
    depths: int = 0
    """How often a deeper window was asked for."""

    @property
    def size(self) -> int:
        """Entries in state, past their time or not."""
        return self.header.size or 0
