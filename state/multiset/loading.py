"""Reading what an epoch needs of its keys' histories, in as few round trips as possible.

    1   the value of every touched key (packed: its whole history); the keys due to expire; once
        after TTL was switched on, one more for keys that no index of expiry has yet
    2   spread histories: the buckets of the index for the match columns in question, and which
        blocks are the newest or hold what is past its time; values of the keys that are due
    3   those blocks, and the blocks of the entries found in the index, but those that go as a whole
    4   rarely, after the kernel has run: which blocks are the newest, further back
    5   these blocks

None of it grows with the length of a spread history, nor do the round trips with anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from state.backends.interface import HashGet, SortedRange
from state.multiset.changes import LoadedEntries
from state.multiset.matching import EntriesToMatch, groups_of_entries
from state.multiset.probing import EVER, Matching, SpreadHistory, SpreadProber, Touched
from state.multiset.spread import BLOCK_ENTRIES, EXPIRY, STATE
from state.multiset.strategy import HistoryPolicy, Strategy
from state.multiset.text import (
    GONE,
    NEWEST,
    NO_HISTORIES,
    PackedHistories,
    is_spread,
    parse_packed,
)
from state.multiset.vectors import is_among, order_of
from state.multiset.walk import IndexWalk

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from state.backends.interface import EpochTransaction, Read, Write

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


class HistoryLoader:
    """Loads histories for one epoch."""

    def __init__(
        self,
        policy: HistoryPolicy,
        transaction: EpochTransaction,
        touched: Touched,
        matching: Matching,
        now_ms: int,
    ) -> None:
        self._policy = policy
        self._transaction = transaction
        self._touched = touched
        self._matching = matching
        self._until_ms = now_ms - policy.ttl_ms if policy.ttl_ms else None
        """What was written at or before this is past its time."""
        self._walk = IndexWalk((), None, 0)
        self._keys = list(touched.keys)
        self._key_groups = touched.key_groups

    def load(self, key_groups: Sequence[int]) -> Histories:
        """Load what the epoch needs; looks for due keys in all of these key groups."""
        self._values, self._spread = self._load_values(key_groups)
        values = self._values
        if not any(values) and not self._spread:
            return self._nothing(len(values))
        packed_keys = [i for i, v in enumerate(values) if v is not None and not is_spread(v)]
        self._packed_keys = np.array(packed_keys, np.int64)
        self._parse()
        blind = [each for each in self._spread.values() if not self._has_live_window(each)]
        if blind:
            self._read_deeper(blind)
        return self._assemble()

    def deepen(self, sunk: NDArray[np.bool_]) -> Histories:
        """Load a deeper window of the newest entries of these keys: two round trips.

        Raises:
            StateCorrupt: The window was sure to do, so what is stored is wrong.
        """
        self._read_deeper([self._spread[key] for key in sunk.nonzero()[0].tolist()])
        return self._assemble()

    def _read_deeper(self, histories: Sequence[SpreadHistory]) -> None:
        prober, fetch = self._prober(), self._transaction.fetch
        prober.take_deeper(histories, fetch(prober.deeper_reads(histories)))
        if reads := prober.block_reads(histories):
            prober.take_blocks(histories, fetch(reads))
        self._parse()

    def _has_live_window(self, history: SpreadHistory) -> bool:
        """Whether one of the newest blocks holds something that is not past its time."""
        if not history.due.size or history.expired.size >= history.size:
            return True
        newest = [history.blocks[block] for block in history.top.tolist()]
        return bool(self._live(parse_packed(newest), None).any())

    def _prober(self) -> SpreadProber:
        return SpreadProber(self._touched, self._matching, self._keys, self._key_groups)

    def _nothing(self, count: int) -> Histories:
        """No key has a history."""
        none, zeros = np.zeros(0, np.int64), np.zeros(count, np.int64)
        ones = np.ones(count, np.int64)
        entries = LoadedEntries(none, none, none, zeros, ones, zeros, zeros)
        return Histories(
            keys=self._keys,
            key_groups=self._key_groups,
            entries=entries,
            packed=NO_HISTORIES,
            packed_entry=none,
            spread={},
            was_stored=np.zeros(count, np.bool_),
            expired=zeros,
            written_ms=zeros,
            due_from=len(self._touched.keys),
            vanished=none,
            vanished_place=none,
            notes=list(self._walk.notes()),
        )

    # Round trips.

    def _load_values(
        self, key_groups: Sequence[int]
    ) -> tuple[list[bytes | None], dict[int, SpreadHistory]]:
        """Round trips 1 to 3: values of all keys, and what is needed of spread ones."""
        by_group = self._by_key_group(range(len(self._keys)))
        reads = self._value_reads(by_group)
        first_due = len(reads)
        if self._until_ms is not None:
            limit = self._policy.due_keys_max
            reads += [
                SortedRange(each, EXPIRY, -EVER, self._until_ms, limit) for each in key_groups
            ]
            self._walk = IndexWalk(key_groups, self._policy.enabled_ms, limit)
        first_walk = len(reads)
        reads += self._walk.reads()
        replies = self._transaction.fetch(reads)
        values: list[bytes | None] = [None] * len(self._keys)
        _take_values(values, by_group, replies)
        due = self._add_due_keys(key_groups, replies[first_due:first_walk])
        due += self._add_walked_keys(replies[first_walk:])
        values += [None] * len(due)
        return values, self._load_spread(due, values)

    def _load_spread(
        self, due: Sequence[int], values: list[bytes | None]
    ) -> dict[int, SpreadHistory]:
        """Round trips 2 and 3: values of due keys, and blocks of spread histories."""
        open_ = [i for i, value in enumerate(values) if value is not None and is_spread(value)]
        by_group = self._by_key_group(due)
        reads = self._value_reads(by_group)
        prober = self._prober()
        # A due key may be spread: with its value comes what is needed then.
        probes = prober.probes([*open_, *due], values, self._until_ms)
        first_probe = len(reads)
        reads += [read for probe in probes for read in probe.reads]
        if not reads:
            return {}
        replies = self._transaction.fetch(reads)
        _take_values(values, by_group, replies)
        spread = prober.take(probes, values, replies[first_probe:])
        if reads := prober.block_reads(spread):
            prober.take_blocks(spread, self._transaction.fetch(reads))
        return {history.key: history for history in spread}

    def _add_due_keys(
        self, key_groups: Sequence[int], replies: Sequence[Sequence[tuple[bytes, float]]]
    ) -> list[int]:
        """Append keys that are due and not touched; their indices."""
        if not any(replies):
            return []
        due = ([key for key, _ in reply] for reply in replies)
        return self._append_keys(zip(key_groups, due, strict=True))

    def _add_walked_keys(self, replies: Sequence[Any]) -> list[int]:
        """Append keys of key groups that are walked, as if they were due; their indices."""
        scans = self._walk.scans(replies)
        if not scans:
            return []
        return self._append_keys(self._walk.keys(self._transaction.fetch(scans)))

    def _append_keys(self, found: Iterable[tuple[int, Iterable[bytes]]]) -> list[int]:
        """Append those of the keys, by key group, that are not there yet; their indices."""
        known = set(self._keys)
        first, groups = len(self._keys), []
        for key_group, keys in found:
            news = [key for key in keys if key not in known]
            self._keys += news
            groups += [key_group] * len(news)
        self._key_groups = np.append(self._key_groups, np.array(groups, np.int64))
        return list(range(first, len(self._keys)))

    def _value_reads(self, by_group: Sequence[tuple[int, Sequence[int]]]) -> list[Read]:
        """The values of keys, one read a key group."""
        return [
            HashGet(each, STATE, [self._keys[i] for i in members]) for each, members in by_group
        ]

    def _by_key_group(self, indices: Sequence[int]) -> list[tuple[int, list[int]]]:
        """Indices of keys by key group."""
        groups: dict[int, list[int]] = {}
        for index in indices:
            groups.setdefault(self._key_group(index), []).append(index)
        return list(groups.items())

    def _key_group(self, key: int) -> int:
        return int(self._key_groups[key])

    # Putting it together.

    def _parse(self) -> None:
        """Parse what was read: packed values, then blocks, in the order of their histories."""
        texts = [value for i in self._packed_keys if (value := self._values[i]) is not None]
        keys = [self._packed_keys]
        for key, history in self._spread.items():
            numbers = sorted(history.blocks)
            texts += [history.blocks[number] for number in numbers]
            keys.append(np.full(len(numbers), key, np.int64))
        self._packed = parse_packed(texts)
        self._owner = np.concatenate(keys)[self._packed.owner]
        """Per parsed entry: its key."""
        self._alive = self._live(self._packed, self._packed_keys.size)
        for key, history in self._spread.items():
            if history.due.size:
                history.expired_place = ((self._owner == key) & ~self._alive).nonzero()[0]
                history.expired = self._packed.sequence[history.expired_place]

    def _assemble(self) -> Histories:
        values, packed_keys, packed = self._values, self._packed_keys, self._packed
        owner, spread = self._owner, self._spread
        count = len(values)
        following, shown = np.ones(count, np.int64), np.full(count, GONE, np.int64)
        following[packed_keys] = packed.following[: packed_keys.size]
        shown[packed_keys] = packed.shown[: packed_keys.size]
        # An assignment with repeated indices keeps the last one: the newest entry.
        newest = np.zeros(count, np.int64)
        newest[owner] = packed.sequence
        written_ms = np.full(count, -1, np.int64)
        if self._policy.strategy is Strategy.LEGACY:
            written_ms[packed_keys] = _whole_written_ms(packed)[: packed_keys.size]
        kept = self._alive.nonzero()[0]
        expired = np.bincount(owner[~self._alive], minlength=count)
        size = np.bincount(owner[kept], minlength=count)
        for key, history in spread.items():
            size[key] = history.size - history.expired.size
            following[key], shown[key] = history.header.following, history.header.shown
        shown = np.where(shown == NEWEST, newest, shown)
        vanished, vanished_place = self._vanished(size, shown)
        shown[vanished] = GONE
        following[size == 0] = 1
        parts = [(owner[kept], packed.sequence[kept], kept)]
        parts += [_unread_entries(history) for history in spread.values()]
        entry_key, sequence, packed_entry = _sorted_entries(parts, is_sorted=not spread)
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
            window=_windows(entry_key, sequence, count, spread),
        )
        return Histories(
            keys=self._keys,
            key_groups=self._key_groups,
            entries=entries,
            packed=packed,
            packed_entry=packed_entry,
            spread=spread,
            was_stored=np.fromiter((value is not None for value in values), np.bool_, count),
            expired=expired,
            written_ms=written_ms,
            due_from=len(self._touched.keys),
            vanished=vanished,
            vanished_place=vanished_place,
            notes=list(self._walk.notes()),
        )

    def _vanished(self, size: Integers, shown: Integers) -> tuple[Integers, Integers]:
        """See `Histories.vanished`; sizes and what is shown per key, the latter as stored."""
        expired = (~self._alive).nonzero()[0]
        key = self._owner[expired]
        is_shown = self._packed.sequence[expired] == shown[key]
        # Of repeated indices the last one counts: what is shown, else the newest of what expired.
        place = np.full(size.size, -1, np.int64)
        place[key[size[key] == 0]] = expired[size[key] == 0]
        place[key[is_shown]] = expired[is_shown]
        vanished = (place >= 0).nonzero()[0]
        return vanished, place[vanished]

    def _live(self, packed: PackedHistories, whole_count: int | None) -> NDArray[np.bool_]:
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
            written_ms = np.where(is_whole, _whole_written_ms(packed)[packed.owner], written_ms)
        return written_ms > self._until_ms


def _take_values(
    values: list[bytes | None],
    by_group: Sequence[tuple[int, Sequence[int]]],
    replies: Sequence[Sequence[bytes | None]],
) -> None:
    """Put the replies to the reads of values, which come first, where their keys are."""
    for (_, members), reply in zip(by_group, replies, strict=False):
        for index, value in zip(members, reply, strict=True):
            values[index] = value


def _whole_written_ms(packed: PackedHistories) -> Integers:
    """Time of each value's last write; where no LEGACY header states it, that of its entries."""
    whole = packed.list_written_ms.copy()
    np.maximum.at(whole, packed.owner, packed.written_ms)
    return np.where(packed.list_written_ms >= 0, packed.list_written_ms, whole)


def _unread_entries(history: SpreadHistory) -> tuple[Integers, Integers, Integers]:
    """Key, number and place, which is -1, of each entry in a block that needed not be read."""
    unread = history.unread[~is_among(history.unread, np.array([*history.blocks], np.int64))]
    sequence = (unread[:, None] * BLOCK_ENTRIES + np.arange(BLOCK_ENTRIES)).ravel()
    return np.full(sequence.size, history.key), sequence, np.full(sequence.size, -1)


def _sorted_entries(
    parts: Sequence[tuple[Integers, Integers, Integers]], *, is_sorted: bool
) -> tuple[Integers, Integers, Integers]:
    """Keys, sequence numbers and places, by key and sequence number."""
    if is_sorted:
        return parts[0]
    key, sequence, place = (np.concatenate(column) for column in zip(*parts, strict=True))
    by_key = order_of(key, sequence)
    return key[by_key], sequence[by_key], place[by_key]


def _windows(
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
