"""Ticks without changes: for a table whose changes come by a source of Spark's, which has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.runtime.sources.base import ChangeReader, Chunk, Offset

if TYPE_CHECKING:
    from collections.abc import Iterator


class TicksReader(ChangeReader[None]):
    """An offset is a tick's number alone, which the base keeps."""

    def first_offset(self) -> Offset:
        """Nothing to read."""
        return {}

    def advance(self, start: Offset, rows_max: int | None) -> Offset:
        """Nothing new but the tick."""
        return {}

    def cuts(self, start: Offset, end: Offset) -> list[list[None]]:
        """No cut."""
        return []

    def read_cut(self, cut: None) -> Iterator[Chunk]:
        """No change."""
        yield from ()
