"""An epoch's changes sorted by key and order, for operators that work on columns.

Rows stay where they arrived; everything else is positions. A change's position in (key, order) is
its time for the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from operators.batch import ChangeBatch
from operators.codes import Codes, dense
from operators.columnar import Columns
from state.codec import RowCodec
from state.digits import leading_integers
from state.multiset.kernel import Groups, KeyedChanges, group_changes
from state.multiset.touched import Touched
from state.orders import stable_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from state.multiset.numbered import Numbered
    from state.multiset.text import TextSpans
    from state.row_pieces import Piece, RowPieces
    from state.types import LogicalType

    Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KeyedInput:
    """What must be known of a keyed operator's input; made once, as codecs take time to make."""

    types: tuple[LogicalType, ...]
    key: tuple[int, ...]
    """The columns that state is kept by."""
    match: tuple[int, ...]
    """The columns that changes and entries are compared by."""
    replaces: bool
    """Whether an addition takes the place of the entry that it matches."""
    row_codec: RowCodec
    key_codec: RowCodec
    match_codec: RowCodec

    @classmethod
    def of(
        cls,
        types: Sequence[LogicalType],
        names: Sequence[str],
        key: Sequence[int],
        upsert_key: Sequence[int] | None,
    ) -> KeyedInput:
        """The input of an operator that matches by upsert key, or by whole rows without one."""
        match = tuple(upsert_key or range(len(types)))
        codecs = [
            RowCodec([types[i] for i in columns], [names[i] for i in columns])
            for columns in (range(len(types)), key, match)
        ]
        return cls(tuple(types), tuple(key), match, bool(upsert_key), *codecs)


class KeyedEpoch:
    """An epoch's changes sorted by key and order, and their rows and match columns as asked for.

    Args:
        of: The input.
        batch: The changes in order (`ChangeBatch.in_order`). What is made of them, down to the
            bytes that are committed, depends on it: attempts of an epoch must commit the same.
    """

    def __init__(self, of: KeyedInput, batch: ChangeBatch) -> None:
        self._of = of
        self._batch = batch
        self._columns = Columns(batch.columns, of.types)
        self.row_of: Integers
        """Row of the batch of each change."""
        key = dense(self._columns.codes(of.key))
        others = [column for column in of.match if column not in of.key]
        match = self._columns.codes(others)
        self._sort(key, match)
        self.touched = self._touch()

    def _sort(self, key: Codes, match: Codes) -> None:
        # Kinds 0 and 2 accumulate, 1 and 3 retract.
        accumulates = (self._batch.kinds & 1) == 0
        self._is_one_key = key.bound == 1
        if self._is_one_key:
            self.row_of = np.arange(len(self._batch))
            self.changes = KeyedChanges(key.values, accumulates, match.values)
        else:
            self.row_of = stable_order(key.values, key.bound)
            self.changes = KeyedChanges(
                key.values[self.row_of], accumulates[self.row_of], match.values[self.row_of]
            )
        self.groups: Groups = group_changes(self.changes)

    def _touch(self) -> Touched:
        changes, groups = self.changes, self.groups
        count = int(changes.key[-1]) + 1 if changes.key.size else 0
        first = np.searchsorted(changes.key, np.arange(count))
        rows = self.row_of[first]
        keys = self._columns.encoded(self._of.key_codec, rows, self._of.key)
        return Touched(
            keys=keys,
            key_groups=self._batch.key_groups[rows].astype(np.int64),
            changes=changes,
            groups=groups,
            replace=self._of.replaces,
        )

    # What state asks for: rows and match columns, canonical.

    def of_changes(
        self, changes: Integers, before: Sequence[str | pa.Array] = ()
    ) -> pa.BinaryArray:
        """Canonical rows of changes, with texts before each."""
        everything = range(len(self._of.types))
        rows = self.row_of[changes]
        return self._columns.encode(self._of.row_codec, rows, everything, before)

    def pieces_of_changes(self, changes: Integers, before: Sequence[Piece]) -> RowPieces:
        """The same in pieces."""
        everything = range(len(self._of.types))
        return self._columns.pieces(self._of.row_codec, self.row_of[changes], everything, before)

    def of_groups(self, groups: Integers) -> pa.BinaryArray:
        """Canonical match columns of groups of changes."""
        rows = self.row_of[self.groups.first[groups]]
        return self._columns.encode(self._of.match_codec, rows, self._of.match)

    def of_rows(self, rows: pa.BinaryArray) -> pa.BinaryArray:
        """Canonical match columns of canonical rows."""
        if not self._of.replaces:
            return rows
        columns = self._of.row_codec.decode_leading(rows, max(self._of.match) + 1)
        return self._of.match_codec.encode_columns([columns[i] for i in self._of.match])

    def index_of_groups(self, groups: Integers) -> list[bytes]:
        """Match columns of groups of changes, as histories are indexed by them."""
        rows = self.row_of[self.groups.first[groups]]
        return self._columns.shortened(self._of.match_codec, rows, self._of.match)

    def numbered(self, groups: Integers) -> Numbered | None:
        """Match columns of groups as numbers, where one column of integers tells them apart."""
        rows = self._numbered_rows
        if rows is None:
            return None
        return rows.with_values(rows.values[self.row_of[self.groups.first[groups]]])

    @cached_property
    def _numbered_rows(self) -> Numbered | None:
        """The same of all rows of the batch."""
        return self._columns.numbered(self._of.match_codec, self._of.match, is_short=True)

    @cached_property
    def _numbered_whole(self) -> Numbered | None:
        """Canonical match columns of all rows of the batch as numbers."""
        return self._columns.numbered(self._of.match_codec, self._of.match, is_short=False)

    def index_of_rows(self, rows: pa.BinaryArray) -> list[bytes]:
        """Match columns of canonical rows, as histories are indexed by them."""
        if not len(rows):
            return []
        leading = self._of.row_codec.decode_leading(rows, max(self._of.match) + 1)
        columns = Columns(leading, self._of.types[: len(leading)])
        return columns.shortened(self._of.match_codec, np.arange(len(rows)), self._of.match)

    def numbers(self, groups: Integers, rows: TextSpans) -> tuple[Integers, Integers] | None:
        """See `state.multiset.touched.Matching`: where one column of integers tells them apart."""
        if not self._of.replaces:
            whole = self._numbered_whole
            found = None if whole is None else whole.read(rows.texts())
            if whole is None or found is None:
                return None
            return whole.values[self.row_of[self.groups.first[groups]]], found
        others = [column for column in self._of.match if column not in self._of.key]
        if len(others) != 1:
            return None
        column = others[0]
        array = self._columns.arrays[column]
        if array.null_count or not pa.types.is_integer(array.type):
            return None
        found = leading_integers(self._of.types, rows.content, rows.start, rows.end, column)
        if found is None:
            return None
        values = array.take(pa.array(self.row_of[self.groups.first[groups]]))
        return values.to_numpy().astype(np.int64), found

    def narrow(self, groups: Integers, rows: pa.BinaryArray) -> Integers:
        """Those of the groups that may match one of a few canonical rows.

        One column that varies tells most of them apart, long before canonical bytes are compared.
        """
        column = self._columns.telling(self._of.match, self._of.key)
        if column is None or not len(rows):
            return groups
        values = self._columns.arrays[column].take(pa.array(self.row_of[self.groups.first[groups]]))
        held = self._of.row_codec.decode_leading(rows, column + 1)[column]
        chosen: Integers = groups[pc.is_in(values, value_set=held).to_numpy(zero_copy_only=False)]
        return chosen

    def keys_of(self, changes: Integers) -> list[bytes]:
        """The canonical key of each of these changes."""
        return [self.touched.keys[key] for key in self.changes.key[changes].tolist()]

    def kinds_of(self, changes: Integers) -> list[int]:
        """The kind of each of these changes."""
        kinds: list[int] = self._batch.kinds[self.row_of[changes]].tolist()
        return kinds

    # What goes out.

    def emit(
        self,
        emitted: Integers,
        kinds: NDArray[np.int8],
        source: Integers,
        loaded: Integers,
        loaded_rows: pa.BinaryArray,
    ) -> ChangeBatch:
        """The batch of emissions, by order.

        Args:
            emitted: Changes that emit, ascending.
            kinds: Kind of each emission.
            source: Per emission: the change whose row it carries, or -1 - (a loaded entry).
            loaded: The loaded entries in question, ascending.
            loaded_rows: Their canonical rows.
        """
        order, key_groups = self._batch.order, self._batch.key_groups
        if not self._is_one_key and emitted.size == len(self._batch):
            # Each row of the batch has one.
            source_of, kind_of = np.empty_like(source), np.empty_like(kinds)
            source_of[self.row_of], kind_of[self.row_of] = source, kinds
            source, kinds = source_of, kind_of
        elif not self._is_one_key:
            place = np.full(len(self._batch), -1, np.int64)
            place[self.row_of[emitted]] = np.arange(emitted.size)
            by_order = place[place >= 0]
            source, kinds = source[by_order], kinds[by_order]
            emitted = emitted[by_order]
        if emitted.size < len(self._batch):
            # Else each row of the batch has one, in their order.
            rows = self.row_of[emitted]
            order, key_groups = order[rows], key_groups[rows]
        return ChangeBatch(
            columns=tuple(self._rows_from(source, loaded, loaded_rows)),
            kinds=kinds,
            order=order,
            key_groups=key_groups,
        )

    def _rows_from(
        self, source: Integers, loaded: Integers, loaded_rows: pa.BinaryArray
    ) -> list[pa.Array]:
        if not loaded.size:
            return self._columns.take(self.row_of[source])
        places = np.where(
            source >= 0,
            self.row_of[np.maximum(source, 0)],
            len(self._batch) + np.searchsorted(loaded, -1 - source),
        )
        decoded = self._of.row_codec.decode_columns(loaded_rows)
        indices = pa.array(places)
        return [
            pa.concat_arrays([column, old]).take(indices)
            for column, old in zip(self._columns.arrays, decoded, strict=True)
        ]
