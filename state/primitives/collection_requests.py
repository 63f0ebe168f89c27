"""What operations on a spread collection read, and how its cell learns it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from state.backends.interface import HashGet, HashScan, SortedLength, SortedRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from state.primitives.collection_cell import CollectionCell


class WholeCollection:
    """The request for all elements of a spread collection."""

    __slots__ = ("_cell", "reads")

    def __init__(self, cell: CollectionCell) -> None:
        self._cell = cell
        self.reads = (HashScan(cell.key_group, cell.rows),)

    def take(self, replies: Sequence[Any]) -> None:
        """Let the cell have the elements that it does not know."""
        self._cell.looked_up_all(replies[0])


class Fields:
    """The request for some elements of a spread collection."""

    __slots__ = ("_cell", "_fields", "reads")

    def __init__(self, cell: CollectionCell, fields: Sequence[bytes]) -> None:
        self._cell = cell
        self._fields = fields
        read = HashGet(cell.key_group, cell.rows, fields)
        counts = (SortedLength(cell.key_group, cell.stamps),) if cell.wants_stamp_count else ()
        self.reads = (read, *counts)

    def take(self, replies: Sequence[Any]) -> None:
        """Let the cell have what the fields hold."""
        texts, *counts = replies
        for field, text in zip(self._fields, texts, strict=True):
            self._cell.looked_up(field, text)
        for count in counts:
            self._cell.stamp_count = count


class Expired:
    """The request for the oldest stamps of a spread collection."""

    __slots__ = ("_cell", "_elements_max", "reads")

    def __init__(self, cell: CollectionCell, elements_max: int) -> None:
        self._cell = cell
        self._elements_max = elements_max
        # Touched elements stand in the stored stamps with stamps that hold no more.
        limit = elements_max + cell.touched_count + 1
        self.reads = (
            SortedRange(cell.key_group, cell.stamps, -math.inf, math.inf, limit),
            SortedLength(cell.key_group, cell.stamps),
        )

    def take(self, replies: Sequence[Any]) -> None:
        """Let the cell remove what is expired."""
        if not self._cell.is_complete:
            oldest, stamped_count = replies
            self._cell.take_expired(oldest, stamped_count, self._elements_max)
