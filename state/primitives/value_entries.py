"""The values of many keys as entries without a name: what `ManyMaps` is for maps, on their handle.

So whoever keeps one row of a key, or many, is written once. TTL is the handle's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from state.primitives.many_maps import Entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from state.execution.requests import Request
    from state.primitives.value import ValueHandle

UNNAMED: Final = b""
"""The field of a value."""


class ValueEntries:
    """Values of one state, by the numbers of their keys; methods are as those of `ManyMaps`."""

    packs_at: Final = 0

    def __init__(
        self, handle: ValueHandle[Any], keys: Sequence[bytes], key_groups: Sequence[int]
    ) -> None:
        self._handle = handle
        self._keys = keys
        self._key_groups = key_groups

    @property
    def refused(self) -> set[int]:
        """None."""
        return set()

    def first_loads(self) -> list[Request]:
        """Requests for the values: one a key group."""
        pairs = zip(self._keys, self._key_groups, strict=True)
        return self._handle.first_loads(self._handle.missing(pairs))

    def more(self, whole: Iterable[int], fields: Mapping[int, Sequence[bytes]]) -> list[Request]:
        """None: a value is known as a whole."""
        return []

    def size_if_spread(self, number: int) -> int | None:
        """None: a value is not spread."""
        return None

    def entries(self, numbers: Iterable[int]) -> Entries:
        """The values that are there."""
        found = self._handle.read_all([self._keys[each] for each in numbers])
        values = [each for each in found if each is not None]
        return Entries([UNNAMED] * len(values), values, [int(e is not None) for e in found])

    def held(self, number: int, fields: Sequence[bytes]) -> list[bytes | None]:
        """The value, for each field that is asked for."""
        return self._handle.read_all([self._keys[number]]) * len(fields)

    def change(
        self, number: int, held: Mapping[bytes, bytes], values: Mapping[bytes, bytes | None]
    ) -> None:
        """Set or remove a value."""
        value = values[UNNAMED]
        key = self._keys[number]
        if value is None:
            self._handle.cell_of(key, self._key_groups[number]).put(None)
        else:
            self._handle.write_all_json([key], [value])

    def give_back(self, number: int) -> None:
        """Its cell is there."""
