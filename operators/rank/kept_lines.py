"""The rows that ranks keep, of many keys at once: as lines, a line a row, the first rank first.

A line is what state holds of a row. Only lines of new rows are made, and only of those that are
read the rows are decoded; the others go from what was stored to what is stored as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pyarrow.compute as pc

from state.multiset.vectors import bytes_of
from state.ordered_columns import ordered_texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from operators.changelog import Row
    from operators.ordering import SortKeys
    from operators.rank.spec import RankSpec
    from state.codec import RowCodec
    from state.primitives.sorted import SortedMapHandle
    from state.primitives.value import ValueHandle

Lines = list[bytes]


class KeptLines(Protocol):
    """The kept rows of keys that are loaded."""

    codec: RowCodec
    """Of rows."""

    def read(self, keys: Sequence[bytes]) -> list[Lines | None]:
        """The lines of keys; None where only operations can tell."""

    def rows(self, lines: Sequence[bytes]) -> list[bytes]:
        """The canonical rows of lines."""

    def lines(self, columns: Sequence[pa.Array]) -> Lines:
        """The lines of new rows.

        Raises:
            CodecError: A value has no canonical form.
        """

    def write(self, keys: Sequence[bytes], lines: Sequence[Lines]) -> None:
        """Replace the lines of keys that were read; none by none."""


class LinesInOrder:
    """Those of a sorted map: the sort key and the row.

    Args:
        spec: The rank.
        sort: Its sort keys.
    """

    def __init__(self, spec: RankSpec, sort: SortKeys) -> None:
        self.codec = spec.inputs[0].codec()
        self._sort = sort
        self._columns = [each.column for each in spec.order]

    def open(self, rows: SortedMapHandle[tuple[Any, ...], Row]) -> None:
        """Take the handle of the state for an epoch."""
        self._rows = rows

    def read(self, keys: Sequence[bytes]) -> list[Lines | None]:
        """See `KeptLines`."""
        return self._rows.packed_lines(keys)

    def rows(self, lines: Sequence[bytes]) -> list[bytes]:
        """See `KeptLines`."""
        return [each.partition(b"\t")[2] for each in lines]

    def lines(self, columns: Sequence[pa.Array]) -> Lines:
        """See `KeptLines`."""
        keys = ordered_texts(self._sort.codec, [columns[at] for at in self._columns])
        rows = self.codec.encode_columns(columns)
        return bytes_of(pc.binary_join_element_wise(keys, rows, b"\t"))

    def write(self, keys: Sequence[bytes], lines: Sequence[Lines]) -> None:
        """See `KeptLines`."""
        self._rows.pack_lines(keys, lines)


class LineAlone:
    """That of a value: one row.

    Args:
        spec: The rank.
    """

    def __init__(self, spec: RankSpec) -> None:
        self.codec = spec.inputs[0].codec()

    def open(self, row: ValueHandle[Row]) -> None:
        """Take the handle of the state for an epoch."""
        self._row = row

    def read(self, keys: Sequence[bytes]) -> list[Lines | None]:
        """See `KeptLines`."""
        return [[] if each is None else [each] for each in self._row.read_all(keys)]

    def rows(self, lines: Sequence[bytes]) -> list[bytes]:
        """See `KeptLines`."""
        return list(lines)

    def lines(self, columns: Sequence[pa.Array]) -> Lines:
        """See `KeptLines`."""
        return bytes_of(self.codec.encode_columns(columns))

    def write(self, keys: Sequence[bytes], lines: Sequence[Lines]) -> None:
        """See `KeptLines`."""
        self._row.write_all_json(keys, [each[0] for each in lines])
