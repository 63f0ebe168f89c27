"""Places of a sorted map: counts, parts, and single values out of many.

What ranks rows needs more than user keys: how many values stand before one, which come behind it,
and single values out of a long list of one user key. A *place* is a point in the order of all
values; it stays what it is when values come and go.

Source: top-n needs it; FLIP-220 has no places.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from state.primitives.intervals import BOTTOM, TOP
from state.primitives.layout import judged_lines
from state.primitives.sorted_packed import PackedTexts
from state.primitives.sorted_text import LAST, cuts_of
from state.ttl import json_of, unstamped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from state.descriptors import SortedMapDescriptor
    from state.primitives.cells import Element
    from state.primitives.intervals import Cut
    from state.primitives.session import StateSession
    from state.primitives.sorted_cell import SortedCell
    from state.primitives.sorted_text import Entry
    from state.ttl import TtlClock

READ_MAX: Final = 128
"""So many values are rather read than counted: what was read is known for the whole epoch."""
K = TypeVar("K")
T = TypeVar("T")

Place: TypeAlias = "Cut"
"""A point in the order of all values: before it, behind it, never on one. Made by the handle."""


@dataclass(frozen=True, slots=True)
class Taken(Generic[T]):
    """A value that was taken out of a sorted map, or replaced."""

    value: T
    place: Place
    """Where it stood: before the values that came behind it."""
    before: int
    """How many values of its user key stood before it."""


class SortedPlaces(PackedTexts, Generic[K, T]):
    """What a sorted map does by places, and what all of its operations share."""

    def __init__(self, session: StateSession, descriptor: SortedMapDescriptor[K, T]) -> None:
        super().__init__(session, descriptor)
        self._keys = descriptor.key_codec
        self._codec = descriptor.codec
        self._last_key: K | tuple[()] = ()
        self._last_text = b""
        self._read_keys: dict[bytes, K] = {}
        """User keys that were read, by their ordered bytes: ranges often overlap."""

    def set_clock(self, clock: TtlClock) -> None:
        """Work out anew what accesses compare with and write; cells must be looked at again."""
        super().set_clock(clock)
        for cell in self.cells.values():
            cell.judge_again()

    def judged(self, text: bytes) -> tuple[int, int | None] | None:
        """Whether all of a packed map is expired, or nothing; see `StateHandle.judged`."""
        return judged_lines(text, b"\t", self.expired_until_ms)

    def ordered_key(self, user_key: K) -> bytes:
        """A user key as bytes that order as the keys do."""
        return self._ordered(user_key)

    @property
    def start(self) -> Place:
        """The place before all values."""
        return BOTTOM

    def behind(self, user_key: K) -> Place:
        """The place behind the values of a user key, whether it has any or not."""
        return self._cuts(user_key)[1]

    async def count_until(
        self, to: K, *, inclusive_to: bool = False, at_most: int | None = None
    ) -> int:
        """How many values user keys below a bound have, one for one.

        Args:
            to: The bound.
            inclusive_to: Whether it is counted, too.
            at_most: When there are so many, it does not matter how many there are: any number
                from this one on may be the answer. Few are read, once an epoch and key, and need
                not be counted again; with TTL each value must be looked at.
        """
        cell, high = await self.loaded(), self._end(to, inclusive_to)
        if self.rules.is_enabled:
            return len(await self._first_shown(cell, BOTTOM, high, at_most))
        if cell.is_complete:
            return cell.count_between(BOTTOM, high)
        if (at_most is None or at_most > READ_MAX) and not cell.is_scattered(BOTTOM, high):
            return cell.count_between(BOTTOM, high) + await cell.count_unseen(BOTTOM, high)
        if at_most is None:
            await cell.know(BOTTOM, high)
        else:
            high = min(high, await cell.know_first(BOTTOM, TOP, at_most))
        return cell.count_between(BOTTOM, high)

    async def values_from(self, place: Place, count: int | None = None) -> list[T]:
        """The values behind a place, in order; at most so many, None: all."""
        found = await self._first_shown(await self.loaded(), place, TOP, count)
        return [self._codec.decode(json_of(text)) for _, _, text in found]

    async def entries_behind(self, place: Place, count: int) -> list[tuple[K, T]]:
        """The values behind a place, in order, each with its user key; at most so many."""
        found = await self._first_shown(await self.loaded(), place, TOP, count)
        keys, values = self._keys.decode, self._codec.decode
        return [(keys(key), values(json_of(text))) for key, _, text in found]

    async def ordered_texts(self) -> list[tuple[bytes, bytes]]:
        """All values in order, each as its JSON behind `ordered_key` of its user key."""
        found = await self._first_shown(await self.loaded(), BOTTOM, TOP, None)
        return [(key, json_of(text)) for key, _, text in found]

    async def value_from(self, place: Place, distance: int) -> T | None:
        """The value behind a place that has so many others between; None if there are fewer."""
        found = await self._first_shown(await self.loaded(), place, TOP, distance + 1)
        return self._codec.decode(json_of(found[distance][2])) if len(found) > distance else None

    async def take(self, user_key: K, value: T) -> Taken[T] | None:
        """Remove the first one of a user key's values that is this; None if none is."""
        json = self._codec.encode(value)
        return await self._take(user_key, json.__eq__)

    async def take_where(self, user_key: K, is_it: Callable[[T], bool]) -> Taken[T] | None:
        """Remove the first one of a user key's values that this holds of; None if there is none."""
        return await self._take(user_key, self._like(is_it))

    async def replace_where(
        self, user_key: K, is_it: Callable[[T], bool], value: T
    ) -> Taken[T] | None:
        """Put a value in the place of the first one that this holds of; None if there is none.

        An expired one is none, whether a read shows it or not.
        """
        json = self._codec.encode(value)
        while (found := await self._find(user_key, self._like(is_it))) is not None:
            cell, taken = found
            cell.use_own_stamps()
            for entry in cell.between(taken.place, (*taken.place, LAST)):
                cell.rewrite(entry, self.written(json, unstamped(entry[2])))
                return taken
        return None

    async def last_value(self) -> T | None:
        """The last value of all; None if there is none."""
        found = await self._last()
        return None if found is None else self._codec.decode(json_of(found[2]))

    async def pop_last(self) -> T | None:
        """Remove the last value of all, and give it; None if there is none."""
        found = await self._last()
        if found is None:
            return None
        cell = await self.loaded()
        cell.remove(cell.between(found[:2], (*found[:2], LAST)))
        if not cell.is_complete:
            await cell.settle()
        return self._codec.decode(json_of(found[2]))

    def _ordered(self, user_key: K) -> bytes:
        # A change asks for its key several times, and hands the same tuple over.
        if user_key is self._last_key and user_key:
            return self._last_text
        refuse_none(user_key, "a sorted map state has no key None")
        text = self._keys.encode(user_key)
        if isinstance(user_key, tuple):
            self._last_key, self._last_text = user_key, text
        return text

    def _cuts(self, user_key: K) -> tuple[Cut, Cut]:
        return cuts_of(self._ordered(user_key))

    def _end(self, to: K, inclusive_to: bool) -> Cut:
        return self._cuts(to)[inclusive_to]

    async def _first_shown(
        self, cell: SortedCell, low: Cut, high: Cut, count: int | None
    ) -> Sequence[Entry]:
        """The first elements of an interval that a read of now shows."""
        if low >= high:
            return []
        if cell.plain_start() >= 0:
            return cell.first_between(low, high, count)
        while True:
            if count is None:
                await cell.know(low, high)
                end = high
            else:
                end = await cell.know_first(low, high, count)
            entries = cell.between(low, end)
            if cell.plain_jsons(entries) is not None:
                return entries
            if cell.use_own_stamps():
                entries = cell.between(low, end)
            shown = self._live(cell, entries)
            await cell.settle()
            if len(shown) == len(entries):
                return shown

    async def _last(self) -> Entry | None:
        """The last element that a read of now shows."""
        cell = await self.loaded()
        while (entry := await cell.nearest(BOTTOM, TOP, reverse=True)) is not None:
            if cell.plain_jsons((entry,)) is not None:
                return entry
            if not cell.use_own_stamps():
                if self._live(cell, (entry,)):
                    return entry
                await cell.settle()
        return None

    async def _find(
        self, user_key: K, is_it: Callable[[bytes], bool]
    ) -> tuple[SortedCell, Taken[T]] | None:
        """The first element of a user key whose JSON is the one."""
        cell, (low, high) = await self.loaded(), self._cuts(user_key)
        for before, entry in enumerate(await self._first_shown(cell, low, high, None)):
            json = json_of(entry[2])
            if is_it(json):
                return cell, Taken(self._codec.decode(json), entry[:2], before)
        return None

    def _like(self, is_it: Callable[[T], bool]) -> Callable[[bytes], bool]:
        """The same of a value's JSON."""
        return lambda json: is_it(self._codec.decode(json))

    async def _take(self, user_key: K, is_it: Callable[[bytes], bool]) -> Taken[T] | None:
        found = await self._find(user_key, is_it)
        if found is None:
            return None
        cell, taken = found
        cell.remove(cell.between(taken.place, (*taken.place, LAST)))
        if not cell.is_complete:
            await cell.settle()
        return taken

    def _live(self, cell: SortedCell, entries: Sequence[Entry]) -> Sequence[Entry]:
        expired: list[Entry] = []
        refreshed: list[tuple[Entry, Element]] = []
        for entry in entries:
            element = unstamped(entry[2])
            if self.is_expired(element):
                expired.append(entry)
            elif (again := self.refreshed(element)) != element:
                refreshed.append((entry, again))
        for entry, element in refreshed:
            cell.rewrite(entry, element)
        cell.remove(expired)
        if self.rules.shows_expired or not expired:
            return entries
        gone = set(expired)
        return [each for each in entries if each not in gone]


def refuse_none(value: object, otherwise: str) -> None:
    """See that something is not None.

    Raises:
        TypeError: It is; the message is the one given.
    """
    if value is None:
        raise TypeError(otherwise)
