"""Sorted map state: lists of values by user keys that are kept in order, and ranges of them.

FLIP-220's `BinarySortedState`: a multimap whose user keys are in the order of the bytes that their
codec gives (`state.lexicographic`), for whatever is asked for by order: rows up to a watermark, the
newest version at a time, what lies around a time. Kept as a map of lists, each of these means to
read all of it; here it means to read what is asked for.

The range of a spread map is one command, however large the map; `state.primitives.sorted_cell`
tells how it is kept, and how the epoch's own additions and removals are seen in it at once.

Bounds: `from_` is included; `to` is not, unless `inclusive_to` says so. A range whose bounds are
the wrong way round is empty. Values of one user key come in the order that they were added in.

*Places*. What ranks rows needs more than user keys: how many values stand before one, which come
behind it, and single values out of a long list of one user key. A place is a point in the order of
all values; it stays what it is when values come and go.

Source: FLIP-220 and its discussion. It has no `last_entry_until`, which a temporal join needs, and
no places, which top-n needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from state.primitives.intervals import BOTTOM, TOP
from state.primitives.layout import judged_lines
from state.primitives.sorted_packed import PackedTexts
from state.primitives.sorted_text import LAST, cuts_of
from state.ttl import json_of, unstamped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from state.descriptors import SortedMapDescriptor
    from state.primitives.cells import Element
    from state.primitives.intervals import Cut
    from state.primitives.session import StateSession
    from state.primitives.sorted_cell import SortedCell
    from state.primitives.sorted_text import Entry
    from state.ttl import TtlClock

_KEY: Final = itemgetter(0)
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


class SortedMapHandle(PackedTexts, Generic[K, T]):
    """Lists of values by user keys in order, for each key.

    All operations first need the key's header or packed map: one field, the first time in an epoch.
    What that does not hold costs, for a spread map, one round trip an operation:

    Characteristics:
        add                    nothing more; one member written for each value
        range, values_at,      one command for a range, unless it is known; all its values; only
        entries                the parts that are not known where some are
        first_entry,           one command, 16 values; more only where a user key has more values
        last_entry(_until)     or where all of them are expired
        clear of a range, put  one command written; one read that counts, unless it is known; with
                               TTL the values themselves, since the stamps must go with them
        clear                  nothing more, whatever the size
        count_until            one command that counts; of few, or with TTL, a range
        values_from,           one command for as many values as are asked for, 16 at least
        entries_behind
        value_from             the same, for those up to it
        take, replace_where    the values of the user key as `values_at`; one member written
        last_value, pop_last   as `last_entry`, but for a user key with more values
        TTL                    for each value; a read removes what it finds expired
    """

    def __init__(self, session: StateSession, descriptor: SortedMapDescriptor[K, T]) -> None:
        super().__init__(session, descriptor)
        self._keys = descriptor.key_codec
        self._codec = descriptor.codec
        self._last_key: Any = ()
        self._last_text = b""

    def set_clock(self, clock: TtlClock) -> None:
        """Work out anew what accesses compare with and write; cells must be looked at again."""
        super().set_clock(clock)
        for cell in self.cells.values():
            cell.judge_again()

    def judged(self, text: bytes) -> tuple[int, int | None] | None:
        """Whether all of a packed map is expired, or nothing; see `StateHandle.judged`."""
        return judged_lines(text, b"\t", self.expired_until_ms)

    async def values_at(self, user_key: K) -> list[T] | None:
        """The values of a user key; None if there are none."""
        low, high = self._cuts(user_key)
        cell = await self.loaded()
        if (start := cell.plain_start()) >= 0:
            decode = self._codec.decode
            return [decode(text[start:]) for _, _, text in cell.between(low, high)] or None
        found = await self._shown(cell, low, high)
        return found[0][1] if found else None

    async def know_at(self, user_keys: Iterable[K]) -> None:
        """See that the values of some user keys are known, so that no access must ask for them.

        Args:
            user_keys: May repeat; not looked at where all of the map is known.

        Cost: one round trip, with one command for each user key that is not known.
        """
        cell = await self.loaded()
        if not cell.is_complete:
            ordered = dict.fromkeys(map(self._ordered, user_keys))
            await cell.know_each(map(cuts_of, ordered))

    async def add(self, user_key: K, value: T) -> None:
        """Append a value to those of a user key.

        Raises:
            TypeError: One of them is None.
        """
        _require(value, "cannot add None to a sorted map state")
        ordered_key = self._ordered(user_key)
        self._append(await self.loaded(), ordered_key, value)

    async def put(self, user_key: K, values: Iterable[T]) -> None:
        """Replace the values of a user key; none removes it.

        Raises:
            TypeError: The key or one of the values is None; nothing was replaced.
        """
        checked = list(values)
        for each in checked:
            _require(each, "a sorted map state cannot have None as a value")
        ordered_key = self._ordered(user_key)
        cell = await self._cleared(*cuts_of(ordered_key))
        for each in checked:
            self._append(cell, ordered_key, each)
        if not cell.is_complete:
            await cell.settle()

    async def first_entry(self) -> tuple[K, list[T]] | None:
        """The lowest user key with its values; None if there is none."""
        return await self._nearest(BOTTOM, TOP, reverse=False)

    async def last_entry(self) -> tuple[K, list[T]] | None:
        """The highest user key with its values; None if there is none."""
        return await self._nearest(BOTTOM, TOP, reverse=True)

    async def last_entry_until(
        self, to: K, *, inclusive_to: bool = False
    ) -> tuple[K, list[T]] | None:
        """The highest user key below a bound with its values; None if there is none."""
        return await self._nearest(BOTTOM, self._end(to, inclusive_to), reverse=True)

    async def entries(self) -> list[tuple[K, list[T]]]:
        """All user keys with their values, in order."""
        return await self._read(BOTTOM, TOP)

    async def read_range(
        self, from_: K, to: K, *, inclusive_to: bool = False
    ) -> list[tuple[K, list[T]]]:
        """The user keys between two bounds with their values, in order."""
        return await self._read(self._start(from_), self._end(to, inclusive_to))

    async def read_range_until(
        self, to: K, *, inclusive_to: bool = False
    ) -> list[tuple[K, list[T]]]:
        """The user keys below a bound with their values, in order."""
        return await self._read(BOTTOM, self._end(to, inclusive_to))

    async def read_range_from(self, from_: K) -> list[tuple[K, list[T]]]:
        """The user keys from a bound on with their values, in order."""
        return await self._read(self._start(from_), TOP)

    async def clear_range(self, from_: K, to: K, *, inclusive_to: bool = False) -> None:
        """Remove the user keys between two bounds."""
        await self._clear(self._start(from_), self._end(to, inclusive_to))

    async def clear_range_until(self, to: K, *, inclusive_to: bool = False) -> None:
        """Remove the user keys below a bound."""
        await self._clear(BOTTOM, self._end(to, inclusive_to))

    async def clear_range_from(self, from_: K) -> None:
        """Remove the user keys from a bound on."""
        await self._clear(self._start(from_), TOP)

    async def clear_entry_at(self, user_key: K) -> None:
        """Remove a user key with its values."""
        await self._clear(*self._cuts(user_key))

    async def clear(self) -> None:
        """Remove all user keys."""
        (await self.loaded()).wipe()

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
        return await self._take(user_key, lambda json: is_it(self._codec.decode(json)))

    async def replace_where(
        self, user_key: K, is_it: Callable[[T], bool], value: T
    ) -> Taken[T] | None:
        """Put a value in the place of the first one that this holds of; None if there is none."""
        found = await self._find(user_key, lambda json: is_it(self._codec.decode(json)))
        if found is None:
            return None
        cell, taken = found
        cell.use_own_stamps()
        json = self._codec.encode(value)
        for entry in cell.between(taken.place, (*taken.place, LAST)):
            cell.rewrite(entry, self.written(json, unstamped(entry[2])))
        return taken

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

    async def is_empty(self) -> bool:
        """Whether nothing is stored: expired values that were not removed count, as in Flink."""
        return not (await self.loaded()).size

    def _ordered(self, user_key: K) -> bytes:
        # A change asks for its key several times, and hands the same tuple over.
        if user_key is self._last_key and user_key:
            return self._last_text
        _require(user_key, "a sorted map state has no key None")
        text = self._keys.encode(user_key)
        if isinstance(user_key, tuple):
            self._last_key, self._last_text = user_key, text
        return text

    def _cuts(self, user_key: K) -> tuple[Cut, Cut]:
        return cuts_of(self._ordered(user_key))

    def _start(self, from_: K) -> Cut:
        return self._cuts(from_)[0]

    def _end(self, to: K, inclusive_to: bool) -> Cut:
        return self._cuts(to)[inclusive_to]

    def _append(self, cell: SortedCell, ordered_key: bytes, value: T) -> None:
        cell.append(ordered_key, self._codec.encode(value))

    async def _read(self, low: Cut, high: Cut) -> list[tuple[K, list[T]]]:
        """What an interval holds, by the rules of TTL."""
        return await self._shown(await self.loaded(), low, high) if low < high else []

    async def _nearest(self, low: Cut, high: Cut, *, reverse: bool) -> tuple[K, list[T]] | None:
        """The user key at one end of an interval; of those that a read shows."""
        cell = await self.loaded()
        while (entry := await cell.nearest(low, high, reverse=reverse)) is not None:
            found = await self._shown(cell, *cuts_of(entry[0]))
            if found:
                return found[0]
        return None

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

    async def _take(self, user_key: K, is_it: Callable[[bytes], bool]) -> Taken[T] | None:
        found = await self._find(user_key, is_it)
        if found is None:
            return None
        cell, taken = found
        cell.remove(cell.between(taken.place, (*taken.place, LAST)))
        if not cell.is_complete:
            await cell.settle()
        return taken

    async def _cleared(self, low: Cut, high: Cut) -> SortedCell:
        """The cell, without what an interval held."""
        cell = await self.loaded()
        if cell.is_complete:
            cell.clear_between(low, high)
            return cell
        if self.may_have_stamps:
            await cell.know(low, high)
        cell.clear_between(low, high, unseen=await cell.count_unseen(low, high))
        return cell

    async def _clear(self, low: Cut, high: Cut) -> None:
        if low < high:
            cell = await self._cleared(low, high)
            await cell.settle()

    async def _shown(self, cell: SortedCell, low: Cut, high: Cut) -> list[tuple[K, list[T]]]:
        """An interval as a read of now shows it: expired values go, others may be refreshed."""
        await cell.know(low, high)
        entries: Sequence[Entry] = cell.between(low, high)
        start = cell.plain_start()
        jsons = cell.plain_jsons(entries) if start < 0 else [text[start:] for _, _, text in entries]
        if jsons is None:
            if cell.use_own_stamps():
                entries = cell.between(low, high)
            entries = self._live(cell, entries)
            jsons = [json_of(text) for _, _, text in entries]
            await cell.settle()
        decode_key, decode = self._keys.decode, self._codec.decode
        shown = zip(map(_KEY, entries), jsons, strict=True)
        return [
            (decode_key(ordered_key), [decode(json) for _, json in group])
            for ordered_key, group in groupby(shown, _KEY)
        ]

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


def _require(value: object, otherwise: str) -> None:
    if value is None:
        raise TypeError(otherwise)
