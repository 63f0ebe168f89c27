"""The rows of a VALUES node: numbered blanks, emitted once, which the dataflow fills in on the JVM.

The literals stay expressions: only the translator of expressions knows their types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from service.runtime.sources.base import ChangeReader, Chunk, Offset

if TYPE_CHECKING:
    from collections.abc import Iterator


class ValuesReader(ChangeReader[int]):
    """As many inserts as the node has rows, in the first epoch; then ticks only."""

    def first_offset(self) -> Offset:
        """Nothing emitted."""
        return {"rows": 0}

    def advance(self, start: Offset, rows_max: int | None) -> Offset:
        """All rows at once."""
        return {"rows": int(self.spec.options["rows"])}

    def is_last(self, end: Offset) -> bool:
        """There is one epoch of rows."""
        return True

    def cuts(self, start: Offset, end: Offset) -> list[list[int]]:
        """One cut with all rows."""
        return [[end["rows"]]] if end["rows"] > start["rows"] else []

    def read_cut(self, cut: int) -> Iterator[Chunk]:
        """Blank inserts, numbered in `_order`."""
        yield Chunk([], np.zeros(cut, np.int8), np.arange(cut, dtype=np.int64))
