"""List state: elements of a key in the order in which they were added.

Packed, a line is an element. Spread, elements are numbered; adding to a list of any length reads
its header and writes one row, and a number is never used twice while the list lasts.

Source: Flink's ListState and TtlListState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from state.primitives.collection import CollectionHandle
from state.ttl import json_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from state.descriptors import ListDescriptor
    from state.primitives.collection_cell import CollectionCell
    from state.primitives.session import StateSession

T = TypeVar("T")


class ListHandle(CollectionHandle, Generic[T]):
    """A list of elements a key.

    Characteristics:
        get             packed: one field; spread: one field, then all elements in one round trip
        add, add_all    one field, the first time; a row for each element if spread, else the list
        update, clear   one field, the first time, whatever the size
        TTL             for each element; what is partly expired stays stored until clean-up, or
                        until nothing of it lives
    """

    before_element = b"\n"

    def __init__(self, session: StateSession, descriptor: ListDescriptor[T]) -> None:
        super().__init__(session, descriptor)
        self._codec = descriptor.codec

    async def get(self) -> list[T] | None:
        """The elements, in order; None if there are none.

        Flink's lazy iterator, read to its end: where no element lives, all are removed, having
        been returned once if the visibility allows it. Where reads count, what lives is rewritten
        with the stamp of now and what is expired goes, while the result still holds it if the
        visibility allows that.
        """
        cell = await self.whole()
        decode = self._codec.decode
        jsons = cell.plain_jsons()
        if jsons is not None:
            return [*map(decode, jsons)] or None
        cell.use_own_stamps()
        shown = [*cell.elements.items()]
        live = [each for each in shown if not self.has_expired(each[1])]
        if not live:
            cell.wipe()
        elif self.rules.refreshes_on_read:
            for field in cell.elements.keys() - dict(live).keys():
                cell.remove(field)
            for field, element in live:
                cell.put(field, self.refreshed_text(element))
            await self.settled(cell)
        if not self.rules.shows_expired:
            shown = live
        return [decode(json_of(text)) for _, text in shown] or None

    async def add(self, value: T) -> None:
        """Append an element.

        Raises:
            TypeError: It is None.
        """
        _require(value, "cannot add None to a list state")
        self._append(await self.loaded(), (value,))

    async def add_all(self, values: Iterable[T]) -> None:
        """Append elements, all with one stamp.

        Raises:
            TypeError: One of them is None; nothing was added.
        """
        self._append(await self.loaded(), _checked(values))

    async def update(self, values: Iterable[T]) -> None:
        """Replace the list; none clears it.

        Raises:
            TypeError: One of them is None; nothing was replaced.
        """
        checked = _checked(values)
        cell = await self.loaded()
        cell.wipe()
        self._append(cell, checked)

    async def merge_namespaces(self, target: bytes, sources: Sequence[bytes]) -> None:
        """Append the lists of source namespaces of the current key to one, and remove them.

        Elements keep their stamps. Cost: two round trips; all elements of the sources.

        Source: Flink's InternalListState.
        """
        held, *others = await self.loaded_namespaces((target, *sources))
        await self.completed(others)
        for each in others:
            each.use_own_stamps()
            for element in each.elements.values():
                held.adopt(b"%d" % held.next_number, element)
                held.next_number += 1
            each.wipe()

    def parse(self, next_number: int, lines: Sequence[bytes]) -> dict[bytes, bytes]:
        """Lines are elements; the last one has the number before the next one."""
        first = next_number - len(lines)
        return {b"%d" % (first + at): line for at, line in enumerate(lines)}

    def lines(self, elements: dict[bytes, bytes]) -> Collection[bytes]:
        """An element a line."""
        return elements.values()

    def ordered(self, elements: dict[bytes, bytes]) -> list[bytes]:
        """By number."""
        return sorted(elements, key=int)

    def _append(self, cell: CollectionCell, values: Sequence[T]) -> None:
        for value in values:
            cell.put_json(b"%d" % cell.next_number, self._codec.encode(value))
            cell.next_number += 1


def _checked(values: Iterable[T]) -> list[T]:
    checked = list(values)
    for each in checked:
        _require(each, "a list state cannot have None as an element")
    return checked


def _require(value: object, otherwise: str) -> None:
    if value is None:
        raise TypeError(otherwise)
