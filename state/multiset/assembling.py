"""Putting together what an epoch has read of histories: parsed, judged by TTL, and matched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from state.errors import StateCorrupt
from state.multiset.changes import LoadedEntries
from state.multiset.histories import (
    Histories,
    sorted_entries,
    unread_entries_of,
    whole_written_ms,
    windows_of,
)
from state.multiset.matching import EntriesToMatch, groups_of_entries
from state.multiset.strategy import HistoryPolicy, Strategy
from state.multiset.text import (
    GONE,
    NEWEST,
    NO_HISTORIES,
    PackedHistories,
    parse_packed,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from state.backends.interface import Write
    from state.multiset.spread_history import SpreadHistory
    from state.multiset.touched import Matching, Touched

    Integers = NDArray[np.int64]


class ReadHistories:
    """What was read of an epoch's histories.

    Args:
        policy: Of the operator.
        touched: The keys of the epoch's changes.
        matching: Which entries changes match.
        until_ms: What was written at or before this is past its time; None without a TTL.
    """

    def __init__(
        self, policy: HistoryPolicy, touched: Touched, matching: Matching, until_ms: int | None
    ) -> None:
        self._policy = policy
        self._touched = touched
        self._matching = matching
        self._until_ms = until_ms
        self.spread: dict[int, SpreadHistory] = {}
        """By key: what was read of spread ones."""
        self.packed = NO_HISTORIES
        """What was parsed."""
        self._values: list[bytes | None] = []
        self._packed_keys = np.zeros(0, np.int64)
        self._was_stored = np.zeros(0, np.bool_)
        """Per key: there is a value."""

    def take(self, values: list[bytes | None], spread: dict[int, SpreadHistory]) -> None:
        """Take the value of each key, and what was read of those that are spread."""
        self._values, self.spread = values, spread
        self._was_stored = np.array([value is not None for value in values], np.bool_)
        is_packed = self._was_stored.copy()
        is_packed[list(spread)] = False
        self._packed_keys = is_packed.nonzero()[0]

    def take_spread(self, histories: Sequence[SpreadHistory]) -> None:
        """Take spread histories only: those of all keys, whose headers are in them."""
        self._values, self._packed_keys = [b""] * len(histories), np.zeros(0, np.int64)
        self._was_stored = np.ones(len(histories), np.bool_)
        self.spread = {history.key: history for history in histories}

    def parse(self, chosen: Mapping[int, Sequence[int]] | None = None) -> None:
        """Parse what was read: packed values, then blocks, in the order of their histories.

        Args:
            chosen: Which blocks, by key; None: all that were read.
        """
        texts = [value for i in self._packed_keys if (value := self._values[i]) is not None]
        keys = [self._packed_keys]
        for key, history in self.spread.items():
            numbers = sorted(history.blocks) if chosen is None else chosen[key]
            texts += [history.blocks[number] for number in numbers]
            keys.append(np.full(len(numbers), key, np.int64))
        self.packed = parse_packed(texts) if texts else NO_HISTORIES
        self._owner = np.concatenate(keys)[self.packed.owner]
        """Per parsed entry: its key."""
        self._alive = self.live(self.packed, self._packed_keys.size)
        for key, history in self.spread.items():
            if history.due.size:
                history.expired_place = ((self._owner == key) & ~self._alive).nonzero()[0]
                history.expired = self.packed.sequence[history.expired_place]

    def assemble(
        self, keys: list[bytes], key_groups: Integers, notes: list[tuple[int, Write]]
    ) -> Histories:
        """The histories of these keys, for the kernel.

        Args:
            keys: Those of the values, in their order.
            key_groups: Of each.
            notes: What is to be remembered of a walk through them.

        Raises:
            StateCorrupt: An entry has a number that no entry can have yet.
        """
        values, packed_keys, packed = self._values, self._packed_keys, self.packed
        owner, spread = self._owner, self.spread
        count = len(values)
        following, shown = np.ones(count, np.int64), np.full(count, GONE, np.int64)
        following[packed_keys] = packed.following[: packed_keys.size]
        shown[packed_keys] = packed.shown[: packed_keys.size]
        # An assignment with repeated indices keeps the last one: the newest entry.
        newest = np.zeros(count, np.int64)
        newest[owner] = packed.sequence
        written_ms = np.full(count, -1, np.int64)
        if self._policy.strategy is Strategy.LEGACY:
            written_ms[packed_keys] = whole_written_ms(packed)[: packed_keys.size]
        kept = self._alive.nonzero()[0]
        expired = np.bincount(owner[~self._alive], minlength=count)
        size = np.bincount(owner[kept], minlength=count)
        for key, history in spread.items():
            size[key] = history.size - history.expired.size
            following[key], shown[key] = history.header.following, history.header.shown
        if (newest >= following).any():
            raise StateCorrupt("an entry of a history has a number that is still to be given")
        shown = np.where(shown == NEWEST, newest, shown)
        vanished, vanished_place = self._vanished(size, shown)
        shown[vanished] = GONE
        following[size == 0] = 1
        parts = [(owner[kept], packed.sequence[kept], kept)]
        parts += [unread_entries_of(history) for history in spread.values()]
        entry_key, sequence, packed_entry = sorted_entries(parts, is_sorted=not spread)
        if self._policy.emit_expired:
            remains = vanished[size[vanished] > 0]
            shown[remains] = sequence[entry_key.searchsorted(remains, side="right") - 1]
        entries = LoadedEntries(
            key=entry_key,
            group=groups_of_entries(
                self._touched,
                self._matching,
                EntriesToMatch(count, entry_key, sequence, packed, packed_entry, spread),
            ),
            sequence=sequence,
            size=size,
            following=following,
            shown=np.where(size == 0, GONE, shown),
            window=windows_of(entry_key, sequence, count, spread),
        )
        return Histories(
            keys=keys,
            key_groups=key_groups,
            entries=entries,
            packed=packed,
            packed_entry=packed_entry,
            spread=spread,
            was_stored=self._was_stored,
            expired=expired,
            written_ms=written_ms,
            due_from=len(self._touched.keys),
            vanished=vanished,
            vanished_place=vanished_place,
            notes=notes,
        )

    def _vanished(self, size: Integers, shown: Integers) -> tuple[Integers, Integers]:
        """See `Histories.vanished`; sizes and what is shown per key, the latter as stored."""
        expired = (~self._alive).nonzero()[0]
        key = self._owner[expired]
        is_shown = self.packed.sequence[expired] == shown[key]
        # Of repeated indices the last one counts: what is shown, else the newest of what expired.
        place = np.full(size.size, -1, np.int64)
        place[key[size[key] == 0]] = expired[size[key] == 0]
        place[key[is_shown]] = expired[is_shown]
        vanished = (place >= 0).nonzero()[0]
        return vanished, place[vanished]

    def live(self, packed: PackedHistories, whole_count: int | None) -> NDArray[np.bool_]:
        """Which entries are not past their time.

        Args:
            packed: Parsed values and blocks.
            whole_count: The first so many are histories, the others blocks: for those, LEGACY's
                time to live of the whole does not count. None: there are blocks only.
        """
        if self._until_ms is None:
            return np.ones(packed.owner.size, np.bool_)
        written_ms = packed.written_ms
        if self._policy.strategy is Strategy.LEGACY and whole_count:
            is_whole = packed.owner < whole_count
            written_ms = np.where(is_whole, whole_written_ms(packed)[packed.owner], written_ms)
        return written_ms > self._until_ms
