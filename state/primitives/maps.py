"""Map state: entries of a key by user keys of their own.

Packed, a line is a user key, a tab and an element. Spread, an access to one entry reads and writes
that entry however many there are. A user key may map to None, which is not the same as being
absent. Entries are iterated in the order of the user keys' bytes: the same on every backend and in
every layout, so that what an operator emits from an iteration is, too.

Source: Flink's MapState and TtlMapState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar

from state.errors import StateCorrupt
from state.primitives.collection import CollectionHandle
from state.primitives.collection_requests import Fields
from state.ttl import json_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from state.descriptors import MapDescriptor
    from state.primitives.collection_cell import CollectionCell
    from state.primitives.many_maps import ManyMaps
    from state.primitives.session import StateSession
    from state.primitives.write_batch import WriteBatch

K = TypeVar("K")
T = TypeVar("T")
_NULL = b"null"


class MapHandle(CollectionHandle, Generic[K, T]):
    """A map from user keys to values a key.

    Characteristics:
        get, contains,    packed: one field, the first time; spread: one more for each entry, the
        put, remove       first time it is touched
        get_all, put_all  the same; one round trip for all entries
        entries, keys,    packed: one field; spread: one field, then all entries in one round trip
        values, iterator
        clear             one field, the first time, whatever the size
        TTL               for each entry
    """

    before_element = b"\t"

    def __init__(self, session: StateSession, descriptor: MapDescriptor[K, T]) -> None:
        super().__init__(session, descriptor)
        self._keys = descriptor.key_codec
        self._codec = descriptor.codec
        self.many: list[ManyMaps] = []
        """Maps that are read and changed without cells."""

    def write_cleaned(self, batch: WriteBatch) -> None:
        """See `StateHandle.write_cleaned`; and what was changed without cells."""
        super().write_cleaned(batch)
        for maps in self.many:
            maps.write(batch)

    def close(self) -> None:
        """Let go of all cells, and of what has none."""
        super().close()
        self.many = []

    async def get(self, user_key: K) -> T | None:
        """The value of a user key; None if it is absent, or has the value None."""
        cell = self.cells.get(self.session.stored_key)
        if cell is not None and cell.is_complete:
            element = cell.elements.get(self._keys.encode(user_key))
            start = cell.plain_start()
            json = element and (element[start:] if start >= 0 else cell.plain_json(element))
            if json is not None or element is None:
                if self.accesses is not None:
                    self.count_access()
                return None if json is None or json == _NULL else self._codec.decode(json)
        element = await self._read(user_key)
        return None if element is None else self.value_of(element)

    async def get_all(self, user_keys: Sequence[K]) -> list[T | None]:
        """What `get` gives of each user key. Cost: one round trip at most for all of them."""
        fields = [self._keys.encode(each) for each in user_keys]
        cell = await self._known(fields)
        found = [self.shown(cell, each) for each in fields]
        await self.settled(cell)
        return [None if each is None else self.value_of(each) for each in found]

    async def contains(self, user_key: K) -> bool:
        """Whether a user key has a value, be it None. It counts as a read of the entry."""
        return await self._read(user_key) is not None

    async def put(self, user_key: K, value: T | None) -> None:
        """Set the value of a user key; None is a value."""
        field = self._keys.encode(user_key)
        cell = await self._known((field,))
        self._set(cell, field, value)

    async def put_all(self, entries: Mapping[K, T | None] | None) -> None:
        """Set values, all with one stamp; None as a whole is no entry, as in Flink."""
        if not entries:
            return
        fields = [self._keys.encode(each) for each in entries]
        cell = await self._known(fields)
        for field, value in zip(fields, entries.values(), strict=True):
            self._set(cell, field, value)

    async def remove(self, user_key: K) -> None:
        """Remove the entry of a user key; nothing if there is none.

        Cost: as `get`; where it lets a spread map fall to `low`, one more round trip for the rest.
        """
        field = self._keys.encode(user_key)
        cell = await self._known((field,))
        cell.remove(field)
        await self.settled(cell)

    async def iterator(self) -> MapIterator[K, T]:
        """The entries one after another; see `MapIterator`."""
        return MapIterator(self, await self.whole())

    async def entries(self) -> list[tuple[K, T | None]]:
        """All entries, as a whole iteration gives them."""
        cell = await self.whole()
        if (start := cell.plain_start()) >= 0:
            elements, key_of, value_of = cell.elements, self._keys.decode, self.value_of
            return [
                (key_of(each), value_of(elements[each][start:])) for each in self.ordered(elements)
            ]
        return [*(await self.iterator())]

    async def keys(self) -> list[K]:
        """All user keys; a read of their entries, as in Flink."""
        return [key for key, _ in await self.iterator()]

    async def values(self) -> list[T | None]:
        """All values, in the order of their user keys."""
        return [value for _, value in await self.iterator()]

    def shown(self, cell: CollectionCell, field: bytes) -> bytes | None:
        """An entry that is known, as a read of now shows it, by the rules of TTL."""
        element = cell.elements.get(field)
        if element is None:
            return None
        if not self.rules.is_enabled or cell.plain_json(element) is not None:
            return element
        cell.use_own_stamps()
        element = cell.elements[field]
        if self.has_expired(element):
            cell.remove(field)
            return element if self.rules.shows_expired else None
        refreshed = self.refreshed_text(element)
        if refreshed is not element:
            cell.put(field, refreshed)
        return element

    def key_of(self, field: bytes) -> K:
        """The user key of a field."""
        return self._keys.decode(field)

    def value_of(self, element: bytes) -> T | None:
        """The value of a stored entry."""
        json = json_of(element)
        return None if json == _NULL else self._codec.decode(json)

    def parse(self, next_number: int, lines: Sequence[bytes]) -> dict[bytes, bytes]:
        """Lines are a user key, a tab and an element."""
        elements = {}
        for line in lines:
            field, tab, text = line.partition(b"\t")
            if not tab:
                raise StateCorrupt("a line of a packed map has no user key")
            elements[field] = text
        return elements

    def lines(self, elements: dict[bytes, bytes]) -> Collection[bytes]:
        """An entry a line, by user key."""
        return [b"%b\t%b" % each for each in sorted(elements.items())]

    def ordered(self, elements: dict[bytes, bytes]) -> list[bytes]:
        """By the bytes of the user keys."""
        return sorted(elements)

    async def _known(self, fields: Sequence[bytes]) -> CollectionCell:
        """The current key's cell, in which these fields are known."""
        cell = await self.loaded()
        if not cell.is_complete:
            missing = [each for each in fields if not cell.knows(each)]
            if missing:
                await self.answered(Fields(cell, missing))
        return cell

    async def _read(self, user_key: K) -> bytes | None:
        field = self._keys.encode(user_key)
        cell = await self._known((field,))
        element = self.shown(cell, field)
        await self.settled(cell)
        return element

    def _set(self, cell: CollectionCell, field: bytes, value: T | None) -> None:
        json = _NULL if value is None else self._codec.encode(value)
        cell.put_json(field, json)


class MapIterator(Generic[K, T]):
    """Entries of a map, by user key; each is judged when the iteration comes to it.

    An expired entry is removed as it is passed over, and returned only if the visibility allows
    it; a live one is refreshed where reads count. What is removed from the map meanwhile is not
    given; what is added, neither.

    Everything was read when the iterator was made, so it needs no request and is a plain iterator.
    """

    def __init__(self, handle: MapHandle[K, T], cell: CollectionCell) -> None:
        self._handle = handle
        self._cell = cell
        self._fields = iter(handle.ordered(cell.elements))
        self._last: bytes | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> tuple[K, T | None]:
        for field in self._fields:
            element = self._handle.shown(self._cell, field)
            if element is not None:
                self._last = field
                return self._handle.key_of(field), self._handle.value_of(element)
        self._last = None
        raise StopIteration

    def remove(self) -> None:
        """Remove the entry that was given last.

        Raises:
            RuntimeError: None was given since the last removal (Flink: IllegalStateException).
        """
        if self._last is None:
            raise RuntimeError("remove must directly follow the entry that it is to remove")
        self._cell.remove(self._last)
        self._last = None
