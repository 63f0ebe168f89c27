"""Births and deaths of entries, and what was the newest when: the interval half of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from state.multiset.changes import KeyedChanges, LoadedEntries
    from state.multiset.lives import Lives

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]


class Timeline:
    """The entries of every key in order of birth, each with its death.

    Entries are numbered across keys: a key's loaded ones first, then those born in the epoch.
    """

    __slots__ = (
        "_table",
        "born_before",
        "deaths",
        "entry_start",
        "events",
        "has_loaded",
        "key",
        "loaded_end",
        "never",
        "removal_numbers",
        "removals",
        "target",
    )

    def __init__(self, changes: KeyedChanges, loaded: LoadedEntries, lives: Lives) -> None:
        count, keys = changes.key.size, loaded.size.size
        self.key = changes.key
        self.target = lives.target
        self.never = count
        """Death of an entry that outlives the epoch."""
        self.events = changes.key.searchsorted(np.arange(keys + 1))
        """First change of each key, and the end."""
        loaded_start = loaded.key.searchsorted(np.arange(keys + 1))
        self.loaded_end = loaded_start[1:]
        """Loaded entries of each key and those before it."""
        self.has_loaded = loaded.key.size > 0
        self.born_before = np.zeros(count + 1, np.int64)
        """Births before each change, over all keys."""
        np.cumsum(lives.birth, out=self.born_before[1:])
        self.entry_start = loaded_start + self.born_before[self.events]
        self.deaths = np.full(int(self.entry_start[-1]), count)
        self.removals = lives.found.nonzero()[0]
        self.removal_numbers = self.numbers(self.removals)
        """Number of the entry that each removal takes."""
        self.deaths[self.removal_numbers] = self.removals
        self._table: _RangeMaximum | None = None

    def numbers(self, changes: Integers) -> Integers:
        """Numbers of the entries that these changes are about."""
        target = self.target[changes]
        if not self.has_loaded:
            return self.born_before[target]
        key = self.key[changes]
        born = self.born_before[np.maximum(target, 0)] + self.loaded_end[key]
        held = -1 - target + self.born_before[self.events[key]]
        return np.where(target >= 0, born, held)

    def born_numbers(self, births: Integers) -> Integers:
        """Numbers of the entries that these changes made."""
        number = self.born_before[births]
        if self.has_loaded:
            number += self.loaded_end[self.key[births]]
        return number

    def held_numbers(self, loaded: LoadedEntries) -> Integers:
        """Numbers of the loaded entries."""
        return np.arange(loaded.key.size) + self.born_before[self.events[loaded.key]]

    def newest_removals(self) -> Flags:
        """Which removals took the newest entry of their key."""
        removals = self.removals
        following = self.removal_numbers + 1
        end = self.born_numbers(removals)
        newest = following >= end
        # Mostly the very next entry is alive, which settles it without the table.
        open_ = (~newest).nonzero()[0]
        open_ = open_[self.deaths[following[open_]] < removals[open_]]
        if open_.size:
            latest = self._maxima().maximum(following[open_], end[open_])
            newest[open_] = latest < removals[open_]
        return newest

    def uncovered(self, removals: Integers) -> Integers:
        """For removals of a newest entry that leave others: the entry that is the newest then."""
        number = self.numbers(removals) - 1
        hidden = (self.deaths[number] <= removals).nonzero()[0]
        if hidden.size:
            floor = self.entry_start[self.key[removals[hidden]]]
            number[hidden] = self._maxima().descend(number[hidden], floor, removals[hidden])
        return number

    def _maxima(self) -> _RangeMaximum:
        if self._table is None:
            self._table = _RangeMaximum(self.deaths)
        return self._table


class _RangeMaximum:
    """Sparse table: maxima of all runs whose length is a power of two."""

    __slots__ = ("_levels",)

    def __init__(self, values: Integers) -> None:
        self._levels = [values]
        length = 1
        while 2 * length <= values.size:
            below = self._levels[-1]
            self._levels.append(np.maximum(below[:-length], below[length:]))
            length *= 2

    def maximum(self, low: Integers, high: Integers) -> Integers:
        """Largest value in each [low, high), none of them empty."""
        exponent = np.frexp((high - low).astype(np.float64))[1] - 1
        result = np.empty(low.size, np.int64)
        for level in np.unique(exponent).tolist():
            chosen = (exponent == level).nonzero()[0]
            row = self._levels[level]
            end = high[chosen] - (1 << level)
            result[chosen] = np.maximum(row[low[chosen]], row[end])
        return result

    def descend(self, start: Integers, floor: Integers, bound: Integers) -> Integers:
        """Largest index in [floor, start] whose value is above the bound; floor - 1 if none."""
        top = start.copy()
        for level in range(len(self._levels) - 1, -1, -1):
            row, length = self._levels[level], 1 << level
            low = top - length + 1
            fits = (low >= floor).nonzero()[0]
            jumps = fits[row[low[fits]] <= bound[fits]]
            top[jumps] -= length
        return top
