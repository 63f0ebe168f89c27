"""Deduplication of input that only grows, over all changes of an epoch at once.

What is emitted, and what is stored, is what `arrival` and `event` define, change by change. Keys
with retractions are left to them: these are orphans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from operators.changelog import RowKind
from operators.codes import dense_numbers
from operators.kept_rows import (
    NO_ROW,
    KeptRows,
    Replacements,
    RowEmitter,
    are_there,
    chosen,
    last_places,
)
from operators.keyed_columns import DoneOnColumns
from state.codec import CodecError
from state.multiset.vectors import bytes_of
from state.types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from operators.changelog import Row
    from operators.deduplicate.spec import DeduplicateSpec
    from operators.keyed_columns import KeyedColumns
    from state.codec import RowCodec
    from state.primitives.value import ValueHandle

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

_TRUE: Final = b"true"
_SEEN: Final = {_TRUE, None}
"""What is kept of a key of which a row was seen, and of one of which none was."""
_INSERTED: Final = b',"+I"]'
_TOLD: Final = {_INSERTED, b',"+U"]', None}
"""How the text of a row ends that tells how it was emitted; where there is none, None."""
_TOLD_SIZE: Final = 6
_KINDS: Final = pa.array(["+I", "+U"])


class FirstRowColumns:
    """The columnar path of `FirstRow`."""

    def __init__(self, spec: DeduplicateSpec) -> None:
        self._emitter = RowEmitter(spec.output)

    def open(self, seen: ValueHandle[bool]) -> None:
        """Take the handle of the state that a row was seen, for an epoch."""
        self._seen = seen

    def run(self, changes: KeyedColumns) -> DoneOnColumns | None:
        """Process an epoch's changes; see `ColumnarPath.run`."""
        changes, left = changes.growing()
        emits = np.zeros(changes.row_of.size, np.bool_)
        if changes.keys:
            seen = self._seen.read_all(changes.keys)
            if not _SEEN.issuperset(seen):
                # The other path says what is wrong with it.
                return None
            are_new = ~are_there(seen)
            emits[changes.first] = are_new
            new = chosen(changes.keys, are_new)
            self._seen.write_all_json(new, [_TRUE] * len(new))
        before = np.full(emits.size, NO_ROW)
        replacements = Replacements(emits, before, changes.row_of)
        return DoneOnColumns(self._emitter.emitted(changes, changes.columns, replacements), left)


class LastRowColumns:
    """The columnar path of `LastRow`.

    Args:
        spec: The deduplication.
        told: The codec of what is stored: a row, and how it was emitted.
    """

    def __init__(self, spec: DeduplicateSpec, told: RowCodec) -> None:
        self._bundles = spec.bundles
        self._is_stateless = not (spec.update_before or spec.tells_inserts)
        self._passes_repeats = not spec.ttl_of(0).is_enabled
        self._told = told
        blank = (*spec.proctime, *spec.inputs[0].key)
        self._compared = [at for at in range(len(spec.inputs[0].types)) if at not in blank]
        """Columns in which rows of a key may differ."""
        insert = RowKind.UPDATE_AFTER if self._is_stateless else RowKind.INSERT
        self._emitter = RowEmitter(spec.output, spec.update_before, insert)

    def open(self, row: ValueHandle[bytes]) -> None:
        """Take the handle of the state of rows for an epoch."""
        self._row = row

    def run(self, changes: KeyedColumns) -> DoneOnColumns | None:
        """Process an epoch's changes; see `ColumnarPath.run`."""
        changes, left = changes.growing()
        if self._bundles:
            changes = changes.one_each(changes.last)
        if self._is_stateless or not changes.keys:
            every = np.ones(changes.row_of.size, np.bool_)
            before = np.full(every.size, NO_ROW)
            columns, replacements = changes.columns, Replacements(every, before, changes.row_of)
        else:
            told = self._row.read_all(changes.keys)
            held = are_there(told)
            found = self._kept(changes, told, held)
            if found is None:
                return None
            kept, is_inserted = found
            columns, replacements = kept.columns, self._replaced(changes, kept, held, is_inserted)
            self._store(changes, held, replacements.emits)
        return DoneOnColumns(self._emitter.emitted(changes, columns, replacements), left)

    def _kept(
        self, changes: KeyedColumns, told: Sequence[bytes | None], held: Flags
    ) -> tuple[KeptRows, Flags] | None:
        """The rows, and by key whether the one that is kept was emitted as +I."""
        ends = [None if each is None else each[-_TOLD_SIZE:] for each in told]
        if not _TOLD.issuperset(ends):
            # The other path says what is wrong with it.
            return None
        texts = [each for each in told if each is not None]
        try:
            # Also where no row is asked for: what is corrupt is told, never replaced.
            stored = self._told.decode_columns(texts)[:-1] if texts else ()
        except CodecError:
            return None
        inserted = np.array([each == _INSERTED for each in ends], np.bool_)
        return KeptRows.of(changes, held, stored), inserted

    def _replaced(
        self, changes: KeyedColumns, kept: KeptRows, held: Flags, is_inserted: Flags
    ) -> Replacements:
        before, after = kept.before(changes), changes.row_of
        if not self._passes_repeats:
            return Replacements(np.ones(after.size, np.bool_), before, after)
        # The first row that is not equal to a +I, of each key whose row is one.
        is_passed = np.zeros(after.size, np.bool_)
        is_passed[changes.first] = ~held
        compared = ((~held | is_inserted)[changes.key_of] & ~is_passed).nonzero()[0]
        is_passed[compared] = kept.columns.are_equal(
            after[compared], before[compared], self._compared
        )
        ends = np.where(is_passed, after.size, np.arange(after.size))
        end = np.minimum.reduceat(ends, changes.first)
        is_passed = np.arange(after.size) < end[changes.key_of]
        # What it replaces is that +I, the first of the equal rows.
        replaces = end[end <= changes.last]
        of_key = changes.key_of[replaces]
        firsts = np.where(held, kept.stored, after[changes.first])
        later = replaces > changes.first[of_key]
        before[replaces[later]] = firsts[of_key[later]]
        is_passed[changes.first] &= held
        return Replacements(~is_passed, before, after)

    def _store(self, changes: KeyedColumns, held: Flags, emits: Flags) -> None:
        last = last_places(changes, emits)
        written = last >= 0
        is_update = (held | (last > changes.first))[written].astype(np.int64)
        rows = changes.columns.take(changes.row_of[last[written]])
        texts = self._told.encode_columns([*rows, _KINDS.take(pa.array(is_update))])
        keys = chosen(changes.keys, written)
        self._row.write_all_json(keys, bytes_of(texts))


class EventTimeColumns:
    """The columnar path of `EventTimeRow`."""

    def __init__(self, spec: DeduplicateSpec, rowtime: int) -> None:
        self._codec = spec.inputs[0].codec()
        self._rowtime = rowtime
        self._time = arrow_type(spec.inputs[0].types[rowtime])
        self._keeps_last = spec.keeps_last
        self._compacts = spec.bundles and spec.compacts
        tells_inserts = spec.update_before or spec.tells_inserts
        insert = RowKind.INSERT if tells_inserts else RowKind.UPDATE_AFTER
        self._emitter = RowEmitter(spec.output, spec.update_before, insert)

    def open(self, row: ValueHandle[Row]) -> None:
        """Take the handle of the state of rows for an epoch."""
        self._row = row

    def run(self, changes: KeyedColumns) -> DoneOnColumns | None:
        """Process an epoch's changes; see `ColumnarPath.run`."""
        changes, left = changes.growing()
        if changes.columns.arrays[self._rowtime].null_count:
            # The other path says that this cannot be.
            return None
        if not changes.keys:
            nothing = np.zeros(0, np.int64)
            replacements = Replacements(nothing.astype(np.bool_), nothing, nothing)
            columns = changes.columns
        else:
            if self._compacts:
                none = KeptRows(changes.columns, np.full(len(changes.keys), NO_ROW))
                shows = self._shows(changes, none)
                changes = changes.one_each(last_places(changes, shows))
            texts = self._row.read_all(changes.keys)
            held = are_there(texts)
            try:
                stored = self._codec.decode_columns([each for each in texts if each is not None])
            except CodecError:
                return None
            kept = KeptRows.of(changes, held, stored)
            if kept.columns.arrays[self._rowtime].null_count:
                return None
            columns, replacements = kept.columns, self._replaced(changes, kept)
            self._store(changes, replacements.emits)
        return DoneOnColumns(self._emitter.emitted(changes, columns, replacements), left)

    def _shows(self, changes: KeyedColumns, kept: KeptRows) -> Flags:
        """By place: whether the row takes the place of the one that is shown before it."""
        times_us = kept.columns.arrays[self._rowtime].cast(self._time).view(pa.int64())
        times = times_us.to_numpy() // 1000
        codes = dense_numbers(times, None)
        ranks = codes.values if self._keeps_last else codes.bound - 1 - codes.values
        # Later keys are above all of those before them; a key without a row begins with 0.
        begins = np.arange(len(changes.keys)) * (codes.bound + 1)
        heights = begins[changes.key_of] + ranks[changes.row_of] + 1
        shown = begins + np.where(kept.stored >= 0, ranks[kept.stored] + 1, 0)
        reached = heights.copy()
        reached[changes.first] = np.maximum(shown, heights[changes.first])
        reached = np.maximum.accumulate(reached)
        before = np.empty_like(reached)
        before[1:] = reached[:-1]
        before[changes.first] = shown
        shows: Flags = heights >= before if self._keeps_last else heights > before
        return shows

    def _replaced(self, changes: KeyedColumns, kept: KeptRows) -> Replacements:
        shows = self._shows(changes, kept)
        places = np.arange(shows.size)
        latest = np.maximum.accumulate(np.where(shows, places, -1))
        behind = np.where(
            latest >= changes.first[changes.key_of],
            changes.row_of[latest],
            kept.stored[changes.key_of],
        )
        before = np.empty_like(behind)
        before[1:] = behind[:-1]
        before[changes.first] = kept.stored
        return Replacements(shows, before, changes.row_of)

    def _store(self, changes: KeyedColumns, shows: Flags) -> None:
        last = last_places(changes, shows)
        written = last >= 0
        rows = changes.columns.take(changes.row_of[last[written]])
        keys = chosen(changes.keys, written)
        self._row.write_all_json(keys, bytes_of(self._codec.encode_columns(rows)))
