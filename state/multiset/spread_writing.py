"""Writing spread histories: the entries that came, went or were replaced, or a whole history."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state.backends.interface import HashDelete, HashPut, SortedPut, SortedRemove
from state.multiset.changes import differs
from state.multiset.spread import STATE, SpreadNames, block_of, index_fields, parse_numbers
from state.multiset.text import NEWEST, Header, before_rows, decimal_text, write_packed
from state.multiset.vectors import bytes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from state.backends.interface import Write
    from state.multiset.changes import Groups, KeyedChanges, Outcome
    from state.multiset.loading import Histories
    from state.multiset.probing import Matching, SpreadHistory
    from state.multiset.strategy import HistoryPolicy

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_T = TypeVar("_T")


class Rows(Protocol):
    """The rows of the epoch's changes."""

    def of_changes(
        self, changes: Integers, before: Sequence[str | pa.Array] = ()
    ) -> pa.BinaryArray:
        """Canonical rows of the changes at these positions, with texts before each."""


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


class SpreadWriter:
    """Writes of one history that is to be spread."""

    def __init__(self, epoch: EpochResult, key: int, puts: Puts, rows: Rows) -> None:
        self._epoch = epoch
        self._key = key
        self._puts = puts
        self._rows = rows
        self._names = SpreadNames.of(epoch.histories.keys[key])
        self._writes: list[Write] = []

    def change(self, looked_up: Sequence[tuple[bytes, bytes | None]]) -> list[Write]:
        """Write what changed of a history that was spread and stays so.

        Args:
            looked_up: Index fields of expired entries that no change of the epoch looked up, with
                their values.
        """
        epoch = self._epoch
        history = epoch.histories.spread[self._key]
        mine = epoch.entries_of(self._key)
        removed = epoch.histories.entries.sequence[mine][epoch.outcome.entry_removed[mine]]
        puts = self._puts
        touched = np.unique(block_of(np.concatenate([removed, history.expired, puts.sequence])))
        kept = mine.start + epoch.stays[mine].nonzero()[0]
        kept = kept[np.isin(block_of(epoch.histories.entries.sequence[kept]), touched)]
        written = self._put_blocks(kept, history)
        self._drop_blocks(np.setdiff1d(touched, written))
        self._change_index(history, np.concatenate([removed, history.expired]))
        self._forget_expired(history, looked_up)
        self._put_header()
        return self._writes

    def _change_index(self, history: SpreadHistory, absent: Integers) -> None:
        """Write the index fields of groups that gained or lost an entry."""
        if not history.groups.size:
            return
        names, puts, first = self._names, self._puts, int(history.groups[0])
        stays = ~np.isin(history.found, absent)
        fresh = puts.is_new
        group = np.concatenate([history.found_group[stays], puts.group[fresh]]) - first
        numbers = np.concatenate([history.found[stays], puts.sequence[fresh]])
        changed = np.zeros(history.groups.size, np.bool_)
        changed[history.found_group[~stays] - first] = True
        changed[puts.group[fresh] - first] = True
        by_group = np.lexsort((numbers, group))
        by_group = by_group[changed[group[by_group]]]
        counts = np.bincount(group[by_group], minlength=changed.size)
        texts = bytes_of(_joined_numbers(numbers[by_group], counts[counts > 0]))
        filled = counts.nonzero()[0].tolist()
        if filled:
            flat = _interleaved([history.fields[g] for g in filled], texts)
            self._writes.append(HashPut(names.index, flat))
        emptied = (changed & (counts == 0)).nonzero()[0].tolist()
        if emptied:
            self._writes.append(HashDelete(names.index, [history.fields[g] for g in emptied]))

    def _forget_expired(
        self, history: SpreadHistory, looked_up: Sequence[tuple[bytes, bytes | None]]
    ) -> None:
        """Take expired entries out of index fields that no change of the epoch looked up."""
        names, expired = self._names, set(history.expired.tolist())
        emptied: list[bytes] = []
        flat: list[bytes] = []
        for field, value in looked_up:
            numbers = [] if value is None else parse_numbers(value.split(b",")).tolist()
            left = [b"%d" % number for number in numbers if number not in expired]
            if left:
                flat += (field, b",".join(left))
            else:
                emptied.append(field)
        if flat:
            self._writes.append(HashPut(names.index, flat))
        if emptied:
            self._writes.append(HashDelete(names.index, emptied))

    def whole(self, matching: Matching) -> list[Write]:
        """Write a history in full that was packed, or is new."""
        epoch, puts = self._epoch, self._puts
        entries, packed = epoch.histories.entries, epoch.histories.packed
        mine = epoch.entries_of(self._key)
        kept = mine.start + epoch.stays[mine].nonzero()[0]
        sequence, matches = puts.sequence, matching.index_of_groups(puts.group)
        if kept.size:
            old = packed.rows(epoch.histories.packed_entry[kept])
            matches = pa.concat_arrays([matching.index_of_rows(old), matches])
            sequence = np.append(entries.sequence[kept], sequence)
            groups = matches.dictionary_encode().indices.to_numpy()
        else:
            # Rows of one group match, and all of them are here.
            groups = puts.group
        self._put_blocks(kept, None)
        self._put_index(sequence, matches, groups)
        self._put_header()
        return self._writes

    def _put_index(self, sequence: Integers, matches: pa.BinaryArray, groups: Integers) -> None:
        """Write a whole index; `groups` are equal where matches are."""
        by_group = np.lexsort((sequence, groups))
        ordered = groups[by_group]
        starts = np.append(True, ordered[1:] != ordered[:-1]).nonzero()[0]
        counts = np.diff(np.append(starts, groups.size))
        texts = bytes_of(_joined_numbers(sequence[by_group], counts))
        fields = index_fields(bytes_of(matches.take(pa.array(by_group[starts]))))
        self._writes.append(HashPut(self._names.index, _interleaved(fields, texts)))

    def _put_blocks(self, kept: Integers, known: SpreadHistory | None) -> Integers:
        """Write the blocks of these loaded entries and of the epoch's puts.

        Args:
            kept: Loaded entries that stay as they are.
            known: What was read of the history, if it was spread: its blocks are in the order.

        Returns:
            The numbers of the blocks, ascending.
        """
        epoch, names = self._epoch, self._names
        packed, place = epoch.histories.packed, epoch.histories.packed_entry[kept]
        sequence = np.append(epoch.histories.entries.sequence[kept], self._puts.sequence)
        if not sequence.size:
            return sequence
        new = before_rows(self._puts.sequence, epoch.now_ms)
        lines = self._rows.of_changes(self._puts.content, new)
        if kept.size:
            by_number = np.argsort(sequence)
            sequence = sequence[by_number]
            lines = pa.concat_arrays([packed.lines.take(pa.array(place)), lines])
            lines = lines.take(pa.array(by_number))
        block = block_of(sequence)
        start = differs(block).nonzero()[0]
        numbers = block[start]
        fields = [b"%d" % number for number in numbers.tolist()]
        texts = write_packed(fields, numbers.searchsorted(block), lines)
        self._writes.append(HashPut(names.blocks, _interleaved(fields, texts)))
        fresh = [each for each in numbers.tolist() if known is None or each not in known.blocks]
        if fresh:
            members = [b"%d" % number for number in fresh]
            self._writes.append(SortedPut(names.order, _interleaved(fresh, members)))
        written = np.append(packed.written_ms[place], np.full(self._puts.key.size, epoch.now_ms))
        written = written[by_number] if kept.size else written
        oldest = np.minimum.reduceat(written, start).tolist()
        self._writes.append(SortedPut(names.stamps, _interleaved(oldest, fields)))
        return numbers

    def _drop_blocks(self, blocks: Integers) -> None:
        """Remove blocks that hold nothing any more."""
        if not blocks.size:
            return
        names, gone = self._names, [b"%d" % number for number in blocks.tolist()]
        self._writes.append(HashDelete(names.blocks, gone))
        self._writes.append(SortedRemove(names.order, gone))
        self._writes.append(SortedRemove(names.stamps, gone))

    def _put_header(self) -> None:
        key, outcome = self._key, self._epoch.outcome
        shown = int(outcome.shown[key])
        header = Header(
            following=int(outcome.following[key]),
            shown=NEWEST if shown == int(outcome.newest[key]) else shown,
            size=int(outcome.size[key]),
        )
        flat = [self._epoch.histories.keys[key], header.format()]
        self._writes.append(HashPut(STATE, flat))


def _joined_numbers(numbers: Integers, counts: Integers) -> pa.BinaryArray:
    """Runs of numbers as text with commas between; the runs' lengths are given, none is 0."""
    text = decimal_text(numbers)
    if counts.size == numbers.size:
        return text
    offsets = np.zeros(counts.size + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), text), b",")


def _interleaved(left: Sequence[_T], right: Sequence[bytes]) -> list[_T | bytes]:
    flat: list[_T | bytes] = [b""] * (2 * len(left))
    flat[0::2] = left
    flat[1::2] = right
    return flat
