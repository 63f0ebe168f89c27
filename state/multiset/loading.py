"""Reading what an epoch needs of its keys' histories, in as few round trips as possible.

    1   the value of every touched key (packed: its whole history); the keys due to expire; once
        after TTL was switched on, one more for keys that no index of expiry has yet
    2   spread histories: the buckets of the index for the match columns in question, and which
        blocks are the newest or hold what is past its time; values of the keys that are due
    3   those blocks, and the blocks of the entries found in the index, but those that go as a whole
    4   rarely, after the kernel has run: which blocks are the newest, further back
    5   these blocks

Where the epoch has so many changes that it wants the whole index of a history, and this process
wrote that history last, it is taken from memory: then the third goes with the beginning, and the
kernel runs meanwhile (`recalling`). Where that has all blocks, too, nothing is waited for before
the writes are made. If others wrote it since, the second goes with the first.

None of it grows with the length of a spread history, nor do the round trips with anything.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from state.backends.interface import HashGet, SortedRange
from state.multiset.assembling import ReadHistories
from state.multiset.changes import differs
from state.multiset.histories import Histories, no_histories
from state.multiset.memory import HistoryMemory
from state.multiset.probing import EVER, SpreadProber
from state.multiset.recalling import Recalled, recallable, remembered_by_group
from state.multiset.spread import EXPIRY, STATE
from state.multiset.text import are_spread, parse_packed
from state.multiset.walk import IndexWalk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from state.backends.interface import EpochTransaction, Read
    from state.multiset.changes import Outcome
    from state.multiset.memory import Remembered
    from state.multiset.spread_history import SpreadHistory
    from state.multiset.strategy import HistoryPolicy
    from state.multiset.touched import Matching, Touched

    Integers = NDArray[np.int64]


class HistoryLoader:
    """Loads histories for one epoch."""

    def __init__(
        self,
        policy: HistoryPolicy,
        transaction: EpochTransaction,
        touched: Touched,
        matching: Matching,
        now_ms: int,
        memory: HistoryMemory | None = None,
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
        self._memory = HistoryMemory() if memory is None else memory
        self._read = ReadHistories(policy, touched, matching, self._until_ms)
        self._responsible: Sequence[int] = ()
        self._recalled: Recalled | None = None
        """What is remembered, until it is settled whether it will do."""
        self._unconfirmed: Recalled | None = None
        """What is remembered and will do, until it is known to be what is stored."""

    def load(self, key_groups: Sequence[int]) -> Histories:
        """Load what the epoch needs; looks for due keys in all of these key groups.

        What it gives is whole once `settle` says so, and to be trusted once `confirm` does.
        """
        self._responsible = key_groups
        if remembered := self._remembered():
            return self._recall(remembered)
        return self._load()

    def settle(self, outcome: Outcome) -> Histories | None:
        """Load more where it is needed, and wait for what is under way, if something of it is.

        Args:
            outcome: What the kernel says; perhaps that it needs a deeper window for some keys.

        Returns:
            What the kernel is to be run on again; None if that is not needed.

        Raises:
            StateCorrupt: What is stored is wrong.
        """
        recalled, self._recalled = self._recalled, None
        if recalled is not None:
            parsed = None
            stay = self._policy.spread_after(outcome.size, np.ones(outcome.size.size, np.bool_))
            will_do = bool(stay.all()) and not outcome.sunk.any()
            if will_do and recalled.is_whole:
                # Nothing more is read: Redis may work until all that is to be written is there.
                self._unconfirmed = recalled
            else:
                blocks = recalled.waiting()
                if not self._is_stored(recalled):
                    return self._load()
                if blocks:
                    self._prober().take_blocks(recalled.histories, blocks)
            if will_do:
                parsed = recalled.keep_needed(outcome, self._touched.changes.key[outcome.born])
            self._read.parse(parsed)
            self._histories.packed = self._read.packed
            self._histories.packed_entry = recalled.packed_entries(self._read.packed.sequence)
        return self._deepen(outcome.sunk) if outcome.sunk.any() else None

    def confirm(self) -> Histories | None:
        """Ask whether what the epoch went on from is what is stored: before it commits.

        Returns:
            What the kernel is to be run on again; None if that is not needed.
        """
        recalled, self._unconfirmed = self._unconfirmed, None
        if recalled is None:
            return None
        recalled.waiting()
        return None if self._is_stored(recalled) else self._load()

    def _remembered(self) -> Mapping[int, Remembered]:
        """What is remembered of the keys, where that is of all of them, and of use."""
        if self._until_ms is not None or not self._memory:
            return {}
        found = recallable(self._memory, self._transaction, self._touched)
        prober = self._prober()
        is_wanted = all(prober.is_dense(key, each.header.buckets) for key, each in found.items())
        return found if is_wanted else {}

    def _is_stored(self, recalled: Recalled) -> bool:
        """Whether what was remembered is what is stored; if not, it is forgotten."""
        is_stored = True
        for key, each in recalled.remembered.items():
            if self._transaction.version_read(self._key_group(key)) != each.version:
                self._memory.forget(each.version.place, self._keys[key])
                is_stored = False
        return is_stored

    def _recall(self, remembered: Mapping[int, Remembered]) -> Histories:
        """Histories as they are remembered, while their blocks are under way."""
        recalled = self._recalled = Recalled.of(remembered, self._prober(), self._transaction)
        self._read.take_spread(recalled.histories)
        self._histories = recalled.loaded(self._keys, self._key_groups)
        return self._histories

    def _load(self) -> Histories:
        """Histories as they are stored."""
        values, spread = self._load_values(self._responsible)
        if values.count(None) == len(values) and not spread:
            due_from, notes = len(self._touched.keys), list(self._walk.notes())
            return no_histories(self._keys, self._key_groups, due_from, notes)
        self._read.take(values, spread)
        self._read.parse()
        blind = [each for each in spread.values() if not self._has_live_window(each)]
        if blind:
            self._read_deeper(blind)
        return self._assembled()

    def _deepen(self, sunk: NDArray[np.bool_]) -> Histories:
        """Load a deeper window of the newest entries of these keys: two round trips.

        Raises:
            StateCorrupt: The window was sure to do, so what is stored is wrong.
        """
        self._read_deeper([self._read.spread[key] for key in sunk.nonzero()[0].tolist()])
        return self._assembled()

    def _read_deeper(self, histories: Sequence[SpreadHistory]) -> None:
        prober, fetch = self._prober(), self._transaction.fetch
        prober.take_deeper(histories, fetch(prober.deeper_reads(histories)))
        if reads := prober.block_reads(histories):
            prober.take_blocks(histories, fetch(reads))
        self._read.parse()

    def _assembled(self) -> Histories:
        return self._read.assemble(self._keys, self._key_groups, list(self._walk.notes()))

    def _has_live_window(self, history: SpreadHistory) -> bool:
        """Whether one of the newest blocks holds something that is not past its time."""
        if not history.due.size or history.expired.size >= history.size:
            return True
        newest = [history.blocks[block] for block in history.top.tolist()]
        return bool(self._read.live(parse_packed(newest), None).any())

    def _prober(self) -> SpreadProber:
        return SpreadProber(self._touched, self._matching, self._keys, self._key_groups)

    # Round trips.

    def _load_values(
        self, key_groups: Sequence[int]
    ) -> tuple[list[bytes | None], dict[int, SpreadHistory]]:
        """Round trips 1 to 3: values of all keys, and what is needed of spread ones."""
        by_group = self._by_key_group(range(len(self._keys)))
        reads = self._value_reads(by_group)
        first_due = len(reads)
        limit: int | None = None
        if self._until_ms is not None:
            limit = self._policy.due_keys_max
            reads += [
                SortedRange(each, EXPIRY, -EVER, self._until_ms, limit) for each in key_groups
            ]
        self._walk = IndexWalk(key_groups, self._policy.enabled_ms, limit)
        first_walk = len(reads)
        reads += self._walk.reads()
        first_likely = len(reads)
        prober = self._prober()
        likely = prober.likely(self._guesses(), self._until_ms)
        reads += [read for each in likely for read in each.reads]
        if likely:
            waiting = self._transaction.expect(reads)
            prober.work_ahead(likely)
            replies = waiting()
        else:
            replies = self._transaction.fetch(reads)
        values: list[bytes | None] = [None] * len(self._keys)
        _take_values(values, by_group, replies)
        due = self._add_due_keys(key_groups, replies[first_due:first_walk])
        due += self._add_walked_keys(replies[first_walk:first_likely])
        values += [None] * len(due)
        known = prober.take_likely(likely, values, replies[first_likely:])
        return values, self._load_spread(due, values, known)

    def _guesses(self) -> Mapping[bytes, int]:
        """By key: how many buckets its index is likely to have, if its history is spread."""
        if not self._memory:
            return {}
        held = remembered_by_group(self._memory, self._transaction, self._touched)
        groups = self._touched.key_groups.tolist()
        return {
            name: held[key_group][name].header.buckets
            for name, key_group in zip(self._touched.keys, groups, strict=True)
            if name in held[key_group]
        }

    def _load_spread(
        self,
        due: Sequence[int],
        values: list[bytes | None],
        known: Sequence[SpreadHistory],
    ) -> dict[int, SpreadHistory]:
        """Round trips 2 and 3: values of due keys, and blocks of spread histories.

        Args:
            due: Keys that are there because something of them may be due to expire.
            values: The value of each key, as far as it is known.
            known: Spread histories whose index was read already.
        """
        taken = {history.key for history in known}
        open_ = [i for i in are_spread(values).nonzero()[0].tolist() if i not in taken]
        by_group = self._by_key_group(due)
        reads = self._value_reads(by_group)
        prober = self._prober()
        # A due key may be spread: with its value comes what is needed then.
        probes = prober.probes([*open_, *due], values, self._until_ms)
        first_probe = len(reads)
        reads += [read for probe in probes for read in probe.reads]
        replies = self._transaction.fetch(reads) if reads else []
        _take_values(values, by_group, replies)
        spread = [*known, *prober.take(probes, values, replies[first_probe:])]
        spread.sort(key=lambda each: each.key)
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
        places = np.array(indices, np.int64)
        groups = self._key_groups[places]
        by_group = np.argsort(groups, kind="stable")
        groups, ordered = groups[by_group], places[by_group].tolist()
        starts = differs(groups).nonzero()[0].tolist()
        limits = pairwise([*starts, len(ordered)])
        return [(int(groups[low]), ordered[low:high]) for low, high in limits]

    def _key_group(self, key: int) -> int:
        return int(self._key_groups[key])


def _take_values(
    values: list[bytes | None],
    by_group: Sequence[tuple[int, Sequence[int]]],
    replies: Sequence[Sequence[bytes | None]],
) -> None:
    """Put the replies to the reads of values, which come first, where their keys are."""
    for (_, members), reply in zip(by_group, replies, strict=False):
        for index, value in zip(members, reply, strict=True):
            values[index] = value
