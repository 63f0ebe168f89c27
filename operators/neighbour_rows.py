"""Rows in order, with what stands around a place: what LAG and LEAD keep.

ArrivedRows     in the order of arrival: a sequenced multiset
OrderedRows     in the order of columns: a sorted map
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from operators.over.sort_places import SortPlaces
from operators.stored_rows import StoredRows
from state.descriptors import MultisetDescriptor, SortedMapDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.ordering import SortColumn
    from operators.over.sort_places import PlaceKey
    from operators.spec import RowSpec
    from state.primitives.multisets import MultisetHandle
    from state.primitives.session import StateSession
    from state.primitives.sorted import SortedMapHandle

Around: TypeAlias = "tuple[list[Row], list[Row]]"
"""The rows before a place and behind it, each in order and at most as many as are asked for."""
Taken: TypeAlias = "tuple[list[Row], Row, list[Row]]"
"""A row that was taken out, between what stands around it."""


class NeighbourRows(Protocol):
    """The rows of the current key."""

    async def add(self, row: Row) -> Around:
        """Put a row into its place: what stands around it."""

    async def take(self, row: Row) -> Taken | None:
        """Take out the first row that is this; None: there is none."""

    async def is_empty(self) -> bool:
        """Whether there are none."""

    async def clear(self) -> None:
        """Forget all."""


class ArrivedRows:
    """Rows in the order of arrival.

    Args:
        row: Their columns.
        order: Not asked for.
        count: How many rows before and behind a place are told.
    """

    def __init__(self, row: RowSpec, order: Sequence[SortColumn], count: int) -> None:
        self._count = count
        self.descriptor: MultisetDescriptor[Row] = MultisetDescriptor(
            name="rows", codec=StoredRows(row)
        )

    def open(self, session: StateSession) -> NeighbourRows:
        """The handle for an epoch."""
        return _Arrived(session.multiset(self.descriptor), self._count)


class OrderedRows:
    """Rows in the order of columns, those with equal sort keys in that of arrival.

    Args:
        row: Their columns.
        order: At least one of them.
        count: How many rows before and behind a place are told.
    """

    def __init__(self, row: RowSpec, order: Sequence[SortColumn], count: int) -> None:
        self._count = count
        self._codec = StoredRows(row)
        self._places = SortPlaces(row, order, is_numbered=True)
        self.descriptor: SortedMapDescriptor[PlaceKey, Row] = SortedMapDescriptor(
            name="rows", key_codec=self._places.codec, codec=self._codec
        )

    def open(self, session: StateSession) -> NeighbourRows:
        """The handle for an epoch."""
        return _Ordered(session.sorted_map(self.descriptor), self._places, self._codec, self._count)


class _Arrived:
    def __init__(self, rows: MultisetHandle[Row], count: int) -> None:
        self._rows = rows
        self._count = count
        self.clear = rows.clear

    async def add(self, row: Row) -> Around:
        await self._rows.append(row)
        newest = await self._rows.last()
        assert newest is not None, "a row was appended"
        return await self._before(newest.sequence), []

    async def take(self, row: Row) -> Taken | None:
        found = await self._rows.find(row)
        if found is None:
            return None
        before, behind = await self._before(found.sequence), await self._behind(found.sequence)
        await self._rows.remove(row)
        return before, found.row, behind

    async def is_empty(self) -> bool:
        return await self._rows.last() is None

    async def _before(self, sequence: int) -> list[Row]:
        rows: list[Row] = []
        while len(rows) < self._count:
            entry = await self._rows.entry_before(sequence)
            if entry is None:
                break
            rows.append(entry.row)
            sequence = entry.sequence
        return rows[::-1]

    async def _behind(self, sequence: int) -> list[Row]:
        rows: list[Row] = []
        while len(rows) < self._count:
            entry = await self._rows.entry_after(sequence)
            if entry is None:
                break
            rows.append(entry.row)
            sequence = entry.sequence
        return rows


class _Ordered:
    def __init__(
        self,
        rows: SortedMapHandle[Any, Row],
        places: SortPlaces,
        codec: StoredRows,
        count: int,
    ) -> None:
        self._rows = rows
        self._places = places
        self._encode = codec.encode
        self._count = count
        self.clear, self.is_empty = rows.clear, rows.is_empty

    async def add(self, row: Row) -> Around:
        key = await self._places.new(self._rows, row)
        around = await self._before(key), await self._behind(key)
        await self._rows.add(key, row)
        return around

    async def take(self, row: Row) -> Taken | None:
        found = await self._places.find(self._rows, row, self._encode)
        if found is None:
            return None
        key, here, place = found
        around = await self._before(key), await self._behind(key)
        await self._rows.clear_entry_at(key)
        return around[0], here[place], around[1]

    async def _before(self, key: PlaceKey) -> list[Row]:
        rows: list[Row] = []
        while len(rows) < self._count:
            entry = await self._rows.last_entry_until(key)
            if entry is None:
                break
            key, here = entry
            rows += here
        return rows[::-1]

    async def _behind(self, key: PlaceKey) -> list[Row]:
        return await self._rows.values_from(self._rows.behind(key), self._count)
