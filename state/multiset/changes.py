"""An epoch's changes and entries as columns of numbers: what the kernel takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from state.orders import stable_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class Report(IntEnum):
    """What one change did to its key's history."""

    FIRST = 0
    """The history was empty; now it holds the change's row."""
    ADDED = 1
    """Appended, or put in the place of the entry that it matches."""
    UNCOVERED = 2
    """The newest entry was removed; an older one is the newest now."""
    EMPTIED = 3
    """The only entry was removed."""
    REMOVED = 4
    """An entry that was not the newest was removed."""
    MISSED = 5
    """A retraction that matched nothing."""


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """Changes sorted by key, then by order: the position of one is its time."""

    key: Integers
    """Index of the key, never decreasing."""
    accumulates: Flags
    """True for an addition, False for a retraction."""
    match: Integers
    """Code of the match columns: equal within a key where these are equal. Not dense."""


@dataclass(frozen=True)
class Groups:
    """The changes again, ordered by key, match code and time: each has a *slot*."""

    event: Integers
    """Position of the change in each slot."""
    accumulates: Flags
    """Per slot."""
    begins: Flags
    """Per slot: it is the first of its group; groups of a key are neighbours."""

    @cached_property
    def start(self) -> Integers:
        """First slot of each group, and the number of slots at the end."""
        return np.concatenate((self.begins.nonzero()[0], [self.event.size]))

    @cached_property
    def group(self) -> Integers:
        """Group of each slot."""
        groups: Integers = self.begins.cumsum()
        groups -= 1
        return groups

    @cached_property
    def first(self) -> Integers:
        """The first change of each group."""
        return self.event[self.start[:-1]]

    @cached_property
    def of_change(self) -> Integers:
        """Group of each change."""
        groups = np.empty(self.event.size, np.int64)
        groups[self.event] = self.group
        return groups


@dataclass(frozen=True, slots=True)
class LoadedEntries:
    """What is known of the histories before the epoch, sorted by key, then sequence number.

    Of a long history only some entries need be here: those that a change of the epoch matches, and
    a window of the newest ones. If an older entry than those of the window becomes the newest, the
    outcome says so, and is of no use. A window of as many entries as the key has retractions, and
    one more, always does.
    """

    key: Integers
    group: Integers
    """The group that matches the entry, -1 if no change of the epoch does."""
    sequence: Integers
    size: Integers
    """Per key: entries in the history, loaded or not."""
    following: Integers
    """Per key: the next sequence number; 1 if the history is empty."""
    shown: Integers
    """Per key: sequence number of the entry last emitted, 0 if that row is gone."""
    window: Integers
    """Per key: the loaded entry from which on all entries of the history are loaded."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the epoch did. A *source* is a change's position, or -1 - (index of a loaded entry)."""

    report: NDArray[np.int8]
    """Per change, a `Report`."""
    seen: Integers
    """The changes after which there is something to emit: reports up to EMPTIED."""
    source: Integers
    """Per change: where the row comes from that is now to be seen (for EMPTIED: the change)."""
    entry_removed: Flags
    """Per loaded entry: it was removed."""
    entry_content: Integers
    """Per loaded entry: the change whose row replaced its row, else -1."""
    born: Integers
    """The additions that made an entry which outlives the epoch, in key and sequence order."""
    born_content: Integers
    """Per born entry: the change whose row it holds now."""
    born_sequence: Integers
    size: Integers
    """Per key, as in `LoadedEntries`, after the epoch; likewise the next three."""
    following: Integers
    shown: Integers
    newest: Integers
    """Per key: sequence number of the newest entry, 0 if none."""
    sunk: Flags
    """Per key: the newest entry was at some time below the window, so all this may be wrong."""


def group_changes(changes: KeyedChanges) -> Groups:
    """Order changes by key and match code, keeping time."""
    count = changes.key.size
    if not count:
        return Groups(np.zeros(0, np.int64), changes.accumulates, changes.accumulates)
    keys, bound = int(changes.key[-1]) + 1, int(changes.match.max()) + 1
    if keys * bound < 1 << 63:
        pairs = changes.match if keys == 1 else changes.key * bound + changes.match
        event = stable_order(pairs, keys * bound)
        border = differs(pairs[event])
    else:
        event = np.lexsort((changes.match, changes.key))
        # Products may overflow here.
        border = differs(changes.match[event]) | differs(changes.key[event])
    return Groups(event, changes.accumulates[event], border)


def differs(codes: Integers) -> Flags:
    """True where a value is not that of the place before."""
    border = np.empty(codes.size, np.bool_)
    border[:1] = True
    np.not_equal(codes[1:], codes[:-1], out=border[1:])
    return border
