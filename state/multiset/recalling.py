"""Going on from what is remembered of spread histories, while Redis still works.

All that the kernel needs of a history is in its index: which entries there are, and which of them
changes match. Blocks, which have the rows, are needed only for what is written and emitted. So they
are asked for, and waited for after the kernel has run; where all are remembered, what is to be
written is made before anything is waited for: see `state.multiset.memory`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from state.errors import StateCorrupt
from state.multiset.changes import LoadedEntries
from state.multiset.histories import Histories
from state.multiset.spread import BLOCK_ENTRIES, block_of, places_in, spans_of_blocks
from state.multiset.text import NEWEST, NO_HISTORIES
from state.multiset.vectors import distinct, is_among

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from state.backends.interface import EpochTransaction
    from state.multiset.changes import Outcome
    from state.multiset.memory import HistoryMemory, Remembered
    from state.multiset.probing import SpreadProber
    from state.multiset.spread_history import SpreadHistory
    from state.multiset.touched import Touched

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


@dataclass(slots=True)
class Recalled:
    """Histories of all keys of an epoch, as they are remembered."""

    remembered: Mapping[int, Remembered]
    """By key."""
    histories: list[SpreadHistory]
    """In the order of their keys; with those blocks only that are remembered."""
    entries: LoadedEntries
    is_read: Flags
    """Per entry: its block is under way; the others go, and are not read."""
    waiting: Callable[[], list[Any]]
    """Gives the replies to `SpreadProber.block_reads`; nothing, where all blocks are remembered."""
    is_whole: bool
    """Whether all blocks are remembered."""

    @classmethod
    def of(
        cls,
        remembered: Mapping[int, Remembered],
        prober: SpreadProber,
        transaction: EpochTransaction,
    ) -> Recalled:
        """Ask for what is needed of these histories beside what is remembered."""
        histories = prober.recalled(remembered)
        reads = prober.block_reads(histories)
        waiting = transaction.expect(reads)
        entries, is_read = _entries_of(histories)
        return cls(remembered, histories, entries, is_read, waiting, not reads)

    def loaded(self, keys: list[bytes], key_groups: Integers) -> Histories:
        """These histories; what was parsed of their blocks is still to come."""
        count, none = len(keys), np.zeros(0, np.int64)
        return Histories(
            keys=keys,
            key_groups=key_groups,
            entries=self.entries,
            packed=NO_HISTORIES,
            packed_entry=none,
            spread={history.key: history for history in self.histories},
            was_stored=np.ones(count, np.bool_),
            expired=np.zeros(count, np.int64),
            written_ms=np.full(count, -1, np.int64),
            due_from=count,
            vanished=none,
            vanished_place=none,
            notes=[],
        )

    def keep_needed(self, outcome: Outcome, born_key: Integers) -> dict[int, list[int]]:
        """Leave out blocks that are neither written anew nor have a row that is emitted.

        Args:
            outcome: What the kernel says; it needs no deeper window, and no history is packed.
            born_key: The key of each born entry.

        Returns:
            By key, the blocks that have a row which is emitted: the others need not be parsed.
        """
        key, block = self.entries.key, block_of(self.entries.sequence)
        source = outcome.source[outcome.seen]
        is_shown = np.zeros(key.size, np.bool_)
        is_shown[-1 - source[source < 0]] = True
        is_wanted = is_shown | outcome.entry_removed | (outcome.entry_content >= 0)
        born_block = block_of(outcome.born_sequence)
        shown = {}
        for place, history in enumerate(self.histories):
            low, high = key.searchsorted([place, place + 1]).tolist()
            first, end = born_key.searchsorted([place, place + 1]).tolist()
            wanted = set(distinct(block[low:high][is_wanted[low:high]]).tolist())
            wanted.update(distinct(born_block[first:end]).tolist())
            history.blocks = {
                number: text for number, text in history.blocks.items() if number in wanted
            }
            emitted = set(block[low:high][is_shown[low:high]].tolist())
            shown[history.key] = sorted(emitted.intersection(history.blocks))
            self.is_read[low:high] &= is_among(
                block[low:high], np.array(shown[history.key], np.int64)
            )
        return shown

    def packed_entries(self, sequence: Integers) -> Integers:
        """Per entry its place among those of the blocks, -1 where its block was not read.

        Args:
            sequence: Numbers of the entries of the blocks, in their order.

        Raises:
            StateCorrupt: The blocks have other entries than the index.
        """
        if not np.array_equal(self.entries.sequence[self.is_read], sequence):
            raise StateCorrupt("blocks of a history have other entries than its index")
        place = np.full(self.is_read.size, -1)
        place[self.is_read] = np.arange(sequence.size)
        return place


def remembered_by_group(
    memory: HistoryMemory, transaction: EpochTransaction, touched: Touched
) -> dict[int, Mapping[bytes, Remembered]]:
    """What is remembered of the key groups of these keys, of whatever version."""
    held: dict[int, Mapping[bytes, Remembered]] = {}
    for key_group in set(touched.key_groups.tolist()):
        written = transaction.version_written(key_group)
        held[key_group] = {} if written is None else memory.of(written.place)
    return held


def recallable(
    memory: HistoryMemory, transaction: EpochTransaction, touched: Touched
) -> dict[int, Remembered]:
    """What is remembered of the keys, if it is of all of them as the epoch before left them."""
    found: dict[int, Remembered] = {}
    if len(memory) < len(touched.keys):
        return found
    held = remembered_by_group(memory, transaction, touched)
    for key, key_group in enumerate(touched.key_groups.tolist()):
        known = held[key_group].get(touched.keys[key])
        written = transaction.version_written(key_group)
        if known is None or known.index is None or written is None:
            return {}
        if known.version != written._replace(epoch=written.epoch - 1):
            return {}
        found[key] = known
    return found


def _entries_of(histories: Sequence[SpreadHistory]) -> tuple[LoadedEntries, Flags]:
    """The entries that are loaded of these histories, and which of them are read."""
    sequences, groups, reads = [], [], []
    for history in histories:
        numbers = history.index.numbers
        wanted = distinct(np.concatenate([history.wanted, history.top]))
        low, high = spans_of_blocks(numbers, wanted)
        chosen = places_in((low, high))
        group = np.full(numbers.size, -1, np.int64)
        group[history.found_line] = history.found_group
        sequences.append(numbers[chosen])
        groups.append(group[chosen])
        # The newest blocks are read even where all of their entries go.
        is_read = np.ones(wanted.size, np.bool_)
        if history.unread.size:
            is_read = ~is_among(wanted, history.unread) | is_among(wanted, history.top)
        reads.append(is_read.repeat(high - low))
    counts = np.array([each.size for each in sequences], np.int64)
    ends = counts.cumsum()
    window, shown = ends - counts, []
    for place, history in enumerate(histories):
        lowest = int(history.top[-1]) * BLOCK_ENTRIES
        window[place] += sequences[place].searchsorted(lowest)
        is_newest = history.header.shown == NEWEST
        shown.append(int(sequences[place][-1]) if is_newest else history.header.shown)
    entries = LoadedEntries(
        key=np.arange(counts.size).repeat(counts),
        group=np.concatenate(groups),
        sequence=np.concatenate(sequences),
        size=np.array([each.size for each in histories], np.int64),
        following=np.array([each.header.following for each in histories], np.int64),
        shown=np.array(shown, np.int64),
        window=window,
    )
    return entries, np.concatenate(reads)
