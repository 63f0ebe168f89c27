"""Top-n of input that only grows, over all changes of an epoch at once.

What is emitted, and what is stored, is what `AppendTopN` defines, change by change. Here most
changes are thrown away by one comparison of columns: that with the last row that is kept of their
key. What is left comes into a table of the rows of all keys that have some left
(`operators.rank.tops`), and only these keys' rows are read, and written where they changed.

Keys with retractions, which are orphans, and keys whose state is not packed as we write it are left
to the other path, and so are single keys with long runs of rows each of which comes in.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Self

import numpy as np
import pyarrow as pa

from operators.arrow_columns import joined, of_types
from operators.batch import ChangeBatch
from operators.keyed_columns import DoneOnColumns
from operators.rank.shifts import in_order, shown_members, shown_ranks, together
from operators.rank.tops import Tops
from operators.sort_codes import CODE_MAX, CODE_MIN, has_codes, sort_codes
from state.types import arrow_type
from state.values import StoredTextCorrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from operators.keyed_columns import KeyedColumns
    from operators.rank.kept_lines import KeptLines, Lines
    from operators.rank.shifts import Shown
    from operators.rank.spec import RankSpec
    from operators.rank.tops import Round

    Integers = NDArray[np.int64]
    Flags = NDArray[np.bool_]

END_MAX: Final = 32
"""Above this a table with a line a key would be large, and nearly empty. So few rows are packed."""


class ColumnarTopN:
    """The columnar path of a top-n of input that only grows.

    Args:
        spec: The rank.
        end: The last rank that is shown.
        kept: The rows that are kept, opened for the epoch by the operator.
    """

    def __init__(self, spec: RankSpec, end: int, kept: KeptLines) -> None:
        (row,) = spec.inputs
        self._spec, self._end, self._kept = spec, end, kept
        self._codec = kept.codec
        self._types = row.types
        self._sorted = [each.column for each in spec.order]
        self._output_types = [arrow_type(each) for each in spec.output.types]
        self._shows_ranks = spec.with_number or spec.start > 1 or end == 1
        self._not_null = [at for at in self._sorted if not row.types[at].nullable]

    @classmethod
    def of(cls, spec: RankSpec, kept: KeptLines) -> ColumnarTopN | None:
        """The path of a rank; None: something in it cannot be done on columns."""
        types = spec.inputs[0].types
        if spec.strategy != "append" or spec.end is None or spec.end > END_MAX or not spec.order:
            return None
        if spec.start > 1 and not (spec.with_number or spec.update_before):
            # What is emitted is what the shifts add up to.
            return None
        if not all(has_codes(types[each.column]) for each in spec.order):
            return None
        return cls(spec, spec.end, kept)

    def run(self, changes: KeyedColumns) -> DoneOnColumns | None:
        """Process an epoch's changes; see `ColumnarPath.run`."""
        if any(changes.columns.arrays[at].null_count for at in self._not_null):
            # The other path says where.
            return None
        lines, left = self._stored(changes)
        try:
            sifted = self._sifted(changes, lines, left)
            if not sifted.size:
                none = ChangeBatch.of([pa.array([], each) for each in self._output_types], [])
                return DoneOnColumns(none, changes.rows_of(left))
            pool = _Pool.of(self._kept, changes, sifted, lines)
        except StoredTextCorrupt:
            # The other path says whose.
            return None
        codes = self._codes([pool.columns[at] for at in self._sorted])
        count = sifted.size
        tops = Tops(pool.keys.size, self._end)
        tops.begin(
            pool.old_key, pool.old_place, codes[count:], count + np.arange(pool.old_key.size)
        )
        shown = together([self._shown(each) for each in tops.come(pool.new_key, codes[:count])])
        left[pool.keys[tops.left]] = True
        self._write(changes, pool, tops)
        shown = shown.only(~tops.left[pool.new_key[shown.causes]])
        return DoneOnColumns(self._emitted(changes, pool, shown), changes.rows_of(left))

    def _stored(self, changes: KeyedColumns) -> tuple[list[Lines], Flags]:
        """The lines of each key, and whether it is left to the other path."""
        left = changes.taken_back()
        lines: list[Lines] = [[] for _ in changes.keys]
        asked = np.flatnonzero(~left).tolist()
        for number, each in zip(
            asked, self._kept.read([changes.keys[at] for at in asked]), strict=True
        ):
            if each is None or len(each) > self._end:
                left[number] = True
            else:
                lines[number] = each
        return lines, left

    def _sifted(self, changes: KeyedColumns, lines: Sequence[Lines], left: Flags) -> Integers:
        """The places of changes that the last row of their key does not keep out."""
        bounds = np.where(left, CODE_MIN, CODE_MAX)
        full = [at for at, each in enumerate(lines) if len(each) == self._end and not left[at]]
        new = [changes.columns.arrays[at] for at in self._sorted]
        if not full:
            return np.flatnonzero(~left[changes.key_of])
        last = self._codec.decode_columns(self._kept.rows([lines[at][-1] for at in full]))
        codes = self._codes(joined(new, [last[at] for at in self._sorted]))
        bounds[full] = codes[len(changes.batch) :]
        return np.flatnonzero(codes[changes.row_of] < bounds[changes.key_of])

    def _codes(self, columns: Sequence[pa.Array]) -> Integers:
        return sort_codes(columns, [self._types[at] for at in self._sorted], self._spec.order)

    def _shown(self, came: Round) -> Shown:
        if not self._shows_ranks:
            return shown_members(came)
        return shown_ranks(came, self._spec.start, update_before=self._spec.update_before)

    def _write(self, changes: KeyedColumns, pool: _Pool, tops: Tops) -> None:
        """Store the rows of keys of which one is new."""
        changed = np.flatnonzero(tops.changed & ~tops.left)
        held = tops.rows[changed]
        held = held[held >= 0]
        new = np.unique(held[held < pool.new_key.size])
        lines = np.empty(len(pool.columns[0]), object)
        lines[new] = self._kept.lines([each.take(pa.array(new)) for each in pool.columns])
        lines[pool.new_key.size :] = pool.old_lines
        all_lines = lines[held].tolist()
        ends = np.cumsum(tops.counts[changed]).tolist()
        self._kept.write(
            [changes.keys[at] for at in pool.keys[changed].tolist()],
            [all_lines[begin:end] for begin, end in zip([0, *ends], ends, strict=False)],
        )

    def _emitted(self, changes: KeyedColumns, pool: _Pool, shown: Shown) -> ChangeBatch:
        """What is shown, by rank of the cause."""
        causes = pool.new_rows[shown.causes]
        ordered = in_order(shown._replace(causes=causes), len(changes.batch))
        rows = pa.array(ordered.rows)
        columns = [each.take(rows) for each in pool.columns]
        if self._spec.with_number:
            columns.append(pa.array(ordered.ranks))
        return ChangeBatch(
            tuple(of_types(columns, self._output_types)),
            ordered.kinds.astype(np.int8),
            changes.batch.order[ordered.causes],
            np.zeros(ordered.causes.size, np.int32),
        )


@dataclass(frozen=True, slots=True)
class _Pool:
    """The rows that an epoch works with: changes that are left, and behind them stored rows."""

    columns: list[pa.Array]
    keys: Integers
    """The epoch's numbers of their keys, ascending; here a key is a place among these."""
    new_key: Integers
    """By change; ascending, and those of a key in their order."""
    new_rows: Integers
    """By change: its row of the batch."""
    old_key: Integers
    """By stored row."""
    old_place: Integers
    """By stored row: its place among those of its key."""
    old_lines: Lines
    """By stored row: as it is stored."""

    @classmethod
    def of(
        cls,
        kept: KeptLines,
        changes: KeyedColumns,
        sifted: Integers,
        lines: Sequence[Lines],
    ) -> Self:
        """The changes at some places, and all rows of their keys.

        Raises:
            StoredTextCorrupt: A line has no canonical row.
        """
        numbers = changes.key_of[sifted]
        is_first = np.ones(sifted.size, np.bool_)
        np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
        keys = numbers[is_first]
        mine = [lines[at] for at in keys.tolist()]
        counts = np.fromiter(map(len, mine), np.int64, keys.size)
        old_key = np.repeat(np.arange(keys.size), counts)
        begins = np.cumsum(counts) - counts
        old_lines = list(chain.from_iterable(mine))
        rows = changes.row_of[sifted]
        columns = of_types(changes.columns.take(rows), kept.codec.arrow_types)
        if old_lines:
            columns = joined(columns, kept.codec.decode_columns(kept.rows(old_lines)))
        return cls(
            columns=columns,
            keys=keys,
            new_key=np.cumsum(is_first) - 1,
            new_rows=rows,
            old_key=old_key,
            old_place=np.arange(old_key.size) - begins[old_key],
            old_lines=old_lines,
        )
