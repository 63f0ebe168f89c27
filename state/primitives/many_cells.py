"""The maps of many keys in one go where stamps ask for a look at each entry: by their cells.

Each entry is judged and stamped by the rules of `MapHandle`; what is saved are the coroutines of
its operations. A spread map is refused: it would have to be asked for what is not known of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from state.primitives.many_maps import Entries
from state.ttl import json_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from state.execution.requests import Request
    from state.primitives.collection_cell import CollectionCell
    from state.primitives.maps import MapHandle


class ManyCells:
    """Maps of one state, by the numbers of their keys; methods are as those of `ManyMaps`."""

    packs_at: Final = 0

    def __init__(
        self, handle: MapHandle[Any, Any], keys: Sequence[bytes], key_groups: Sequence[int]
    ) -> None:
        self._handle = handle
        pairs = [*zip(keys, key_groups, strict=True)]
        self._missing = handle.missing(pairs)
        self._cells: list[CollectionCell] = [handle.cell_of(*each) for each in pairs]

    @property
    def refused(self) -> set[int]:
        """Maps that are spread."""
        return {number for number, cell in enumerate(self._cells) if not cell.is_complete}

    def first_loads(self) -> list[Request]:
        """Requests for the packed texts and headers: one a key group."""
        return self._handle.first_loads(self._missing)

    def more(self, whole: Iterable[int], fields: Mapping[int, Sequence[bytes]]) -> list[Request]:
        """None: what is not packed is refused."""
        return []

    def size_if_spread(self, number: int) -> int | None:
        """None: what is not packed is refused."""
        return None

    def entries(self, numbers: Iterable[int]) -> Entries:
        """All entries of these maps that a read shows."""
        fields: list[bytes] = []
        values: list[bytes] = []
        counts: list[int] = []
        for number in numbers:
            cell = self._cells[number]
            before, start = len(fields), cell.plain_start()
            for field in self._handle.ordered(cell.elements):
                if start >= 0:
                    shown: bytes | None = cell.elements[field][start:]
                else:
                    shown = self._shown(cell, field)
                if shown is not None:
                    fields.append(field)
                    values.append(shown)
            counts.append(len(fields) - before)
        return Entries(fields, values, counts)

    def held(self, number: int, fields: Sequence[bytes]) -> list[bytes | None]:
        """The values of fields, in order."""
        cell = self._cells[number]
        return [self._shown(cell, each) for each in fields]

    def change(
        self, number: int, held: Mapping[bytes, bytes], values: Mapping[bytes, bytes | None]
    ) -> None:
        """Set and remove entries of a map by an access of now."""
        cell = self._cells[number]
        for field, value in values.items():
            if value is None:
                cell.remove(field)
            else:
                cell.put_json(field, value)

    def give_back(self, number: int) -> None:
        """Its cell is there."""

    def _shown(self, cell: CollectionCell, field: bytes) -> bytes | None:
        element = self._handle.shown(cell, field)
        return None if element is None else json_of(element)
