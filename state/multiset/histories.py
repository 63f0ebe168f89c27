"""What is loaded of an epoch's histories, and how it is put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from state.multiset.changes import LoadedEntries
from state.multiset.spread import BLOCK_ENTRIES, block_of
from state.multiset.text import NO_HISTORIES
from state.multiset.vectors import is_among, order_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from state.backends.interface import Write
    from state.multiset.spread_history import SpreadHistory
    from state.multiset.text import PackedHistories

    Integers = NDArray[np.int64]


@dataclass(slots=True)
class Histories:
    """The histories of an epoch's keys before it, and where their entries were found."""

    keys: list[bytes]
    """The touched keys, then those that are due to expire."""
    key_groups: Integers
    entries: LoadedEntries
    packed: PackedHistories
    """Entries of packed histories and of the blocks that were read, past their time or not."""
    packed_entry: Integers
    """Per loaded entry: its place in `packed`; -1 for one that goes and was not read."""
    spread: dict[int, SpreadHistory]
    """By key."""
    was_stored: NDArray[np.bool_]
    """Per key: there was a history, be it past its time."""
    expired: Integers
    """Per key: entries that were dropped as past their time."""
    written_ms: Integers
    """Per key: time of the last write, as LEGACY counts it; -1 if unknown, or not LEGACY."""
    due_from: int
    """Keys from here on are there only because something of them may be due to expire."""
    vanished: Integers
    """Keys of which the sink shows what has expired, ascending."""
    notes: list[tuple[int, Write]]
    """What the walk of the index is to remember, by key group."""
    vanished_place: Integers
    """Where in `packed` what the sink shows of each is; if that was gone before, the newest."""


def no_histories(
    keys: list[bytes], key_groups: Integers, due_from: int, notes: list[tuple[int, Write]]
) -> Histories:
    """Where no key has a history."""
    count, none = len(keys), np.zeros(0, np.int64)
    zeros, ones = np.zeros(count, np.int64), np.ones(count, np.int64)
    return Histories(
        keys=keys,
        key_groups=key_groups,
        entries=LoadedEntries(none, none, none, zeros, ones, zeros, zeros),
        packed=NO_HISTORIES,
        packed_entry=none,
        spread={},
        was_stored=np.zeros(count, np.bool_),
        expired=zeros,
        written_ms=zeros,
        due_from=due_from,
        vanished=none,
        vanished_place=none,
        notes=notes,
    )


def whole_written_ms(packed: PackedHistories) -> Integers:
    """Time of each value's last write; where no LEGACY header states it, that of its entries."""
    whole = packed.list_written_ms.copy()
    np.maximum.at(whole, packed.owner, packed.written_ms)
    return np.where(packed.list_written_ms >= 0, packed.list_written_ms, whole)


def unread_entries_of(history: SpreadHistory) -> tuple[Integers, Integers, Integers]:
    """Key, number and place, which is -1, of each entry in a block that needed not be read."""
    read = np.array([*history.blocks], np.int64)
    sequence = history.unread_entries[~is_among(block_of(history.unread_entries), read)]
    return np.full(sequence.size, history.key), sequence, np.full(sequence.size, -1)


def sorted_entries(
    parts: Sequence[tuple[Integers, Integers, Integers]], *, is_sorted: bool
) -> tuple[Integers, Integers, Integers]:
    """Keys, sequence numbers and places, by key and sequence number."""
    if is_sorted:
        return parts[0]
    key, sequence, place = (np.concatenate(column) for column in zip(*parts, strict=True))
    by_key = order_of(key, sequence)
    return key[by_key], sequence[by_key], place[by_key]


def windows_of(
    entry_key: Integers, sequence: Integers, count: int, spread: dict[int, SpreadHistory]
) -> Integers:
    """Per key, the entry from which on all are loaded: of a packed history the first."""
    window = entry_key.searchsorted(np.arange(count))
    for key, history in spread.items():
        if history.top.size:
            end = int(entry_key.searchsorted(key + 1))
            first = int(window[key])
            lowest = int(history.top[-1]) * BLOCK_ENTRIES
            window[key] = first + int(sequence[first:end].searchsorted(lowest))
    return window
