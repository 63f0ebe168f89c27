"""ChangelogNormalize without a condition, over all changes of an epoch at once.

What is emitted, and what is stored, is what `ChangelogNormalize` defines, change by change. Keys
with retractions of nothing are left to it.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

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
from operators.unavailable import Unavailable
from state.codec import CodecError
from state.multiset.vectors import bytes_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from operators.changelog_normalize import ChangelogNormalizeSpec
    from operators.keyed_columns import KeyedColumns
    from state.codec import RowCodec
    from state.primitives.value import ValueHandle

    Flags = NDArray[np.bool_]


class NormalizeColumns:
    """The columnar path of `ChangelogNormalize`.

    Args:
        spec: What it is to do.
        codec: Of its rows.
    """

    def __init__(self, spec: ChangelogNormalizeSpec, codec: RowCodec) -> None:
        self._bundles = spec.bundles
        self._passes_repeats = not spec.ttl_of(0).is_enabled
        self._codec = codec
        (row,) = spec.inputs
        self._compared = [at for at in range(len(row.types)) if at not in row.key]
        """Columns in which rows of a key may differ."""
        self._unavailable = (
            None if spec.placeholder is None else Unavailable(spec.placeholder, row.types, row.key)
        )
        self._emitter = RowEmitter(spec.output, spec.update_before)

    def open(self, row: ValueHandle[bytes]) -> None:
        """Take the handle of the state of rows for an epoch."""
        self._row = row

    def run(self, changes: KeyedColumns) -> DoneOnColumns | None:
        """Process an epoch's changes; see `ColumnarPath.run`."""
        if self._unavailable is not None and self._unavailable.in_columns(changes.batch.columns):
            # What they were is looked up change by change.
            return None
        every = changes
        # By key: a retraction that finds no row is no orphan, since the bundle itself put one.
        puts_itself = np.zeros(len(changes.keys), np.bool_)
        if self._bundles:
            puts_itself = np.logical_or.reduceat(_adds(changes), changes.first)
            changes = changes.one_each(changes.last)
        texts = self._row.read_all(changes.keys)
        held = are_there(texts)
        missing = ~_adds(changes) & ~_has_row(changes, held)
        orphaned = np.logical_or.reduceat(missing, changes.first) & ~puts_itself
        left = every.rows_of(orphaned)
        if left.size:
            changes, held = changes.without(orphaned), held[~orphaned]
            texts = [*compress(texts, (~orphaned).tolist())]
        try:
            stored = self._codec.decode_columns([each for each in texts if each is not None])
        except CodecError:
            # The other path says what is wrong with it.
            return None
        kept = KeptRows.of(changes, held, stored)
        replacements = self._replaced(changes, kept, held)
        if changes.keys:
            self._store(changes, replacements.emits)
        return DoneOnColumns(self._emitter.emitted(changes, kept.columns, replacements), left)

    def _replaced(self, changes: KeyedColumns, kept: KeptRows, held: Flags) -> Replacements:
        adds = _adds(changes)
        before = np.where(_has_row(changes, held), kept.before(changes), NO_ROW)
        after = np.where(adds, changes.row_of, NO_ROW)
        emits = adds | (before >= 0)
        if self._passes_repeats:
            compared = (adds & (before >= 0)).nonzero()[0]
            emits[compared] = ~kept.columns.are_equal(
                after[compared], before[compared], self._compared
            )
        return Replacements(emits, before, after)

    def _store(self, changes: KeyedColumns, emits: Flags) -> None:
        last = last_places(changes, emits)
        adds = _adds(changes)
        puts = (last >= 0) & adds[last]
        rows = changes.columns.take(changes.row_of[last[puts]])
        texts = bytes_of(self._codec.encode_columns(rows))
        self._row.write_all_json(chosen(changes.keys, puts), texts)
        self._row.clear_all(chosen(changes.keys, (last >= 0) & ~puts))


def _adds(changes: KeyedColumns) -> Flags:
    """By place: whether the change is no retraction."""
    adds: Flags = (changes.batch.kinds[changes.row_of] & 1) == 0
    return adds


def _has_row(changes: KeyedColumns, held: Flags) -> Flags:
    """By place: whether the key has a row before the change."""
    has_row = np.empty(changes.row_of.size, np.bool_)
    has_row[1:] = _adds(changes)[:-1]
    has_row[changes.first] = held
    return has_row
