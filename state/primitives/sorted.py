"""Sorted map state: lists of values by user keys that are kept in order, and ranges of them.

FLIP-220's `BinarySortedState`: a multimap whose user keys are in the order of the bytes that their
codec gives (`state.lexicographic`), for whatever is asked for by order: rows up to a watermark, the
newest version at a time, what lies around a time. Kept as a map of lists, each of these means to
read all of it; here it means to read what is asked for.

The range of a spread map is one command, however large the map; `state.primitives.sorted_cell`
tells how it is kept, and how the epoch's own additions and removals are seen in it at once.

Bounds: `from_` is included; `to` is not, unless `inclusive_to` says so. A range whose bounds are
the wrong way round is empty. Values of one user key come in the order that they were added in.

Source: FLIP-220 and its discussion. It has no `last_entry_until`, which a temporal join needs, and
no places (`state.primitives.sorted_places`), which top-n needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from state.primitives.intervals import BOTTOM, TOP
from state.primitives.sorted_places import SortedPlaces, refuse_none
from state.primitives.sorted_text import cuts_of
from state.ttl import json_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from state.primitives.intervals import Cut
    from state.primitives.sorted_cell import SortedCell
    from state.primitives.sorted_text import Entry

K = TypeVar("K")
T = TypeVar("T")


class SortedMapHandle(SortedPlaces[K, T]):
    """Lists of values by user keys in order, for each key.

    All operations first need the key's header or packed map: one field, the first time in an epoch.
    What that does not hold costs, for a spread map, one round trip an operation:

    Characteristics:
        add                    nothing more; one member written for each value
        range, values_at,      one command for a range, unless it is known; all its values; only
        entries                the parts that are not known where some are; one that goes on at the
                               end of the one before reads on behind its own, ever further
        first_entry(_between), one command, 16 values; more only where a user key has more values
        last_entry(_between,   or where all of them are expired
        _until)
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

        Cost: one round trip, with one command for each user key that is not known; with one for all
        of a map that is no longer than eight times as many, and not above 65,536.
        """
        cell = await self.loaded()
        if not cell.is_complete:
            ordered = dict.fromkeys(map(self._ordered, user_keys))
            await cell.know_each(map(cuts_of, ordered))

    async def know_for(self, looks: int) -> None:
        """See that all is known if reading it costs less than so many looks at one user key."""
        await (await self.loaded()).know_for(looks)

    async def add(self, user_key: K, value: T) -> None:
        """Append a value to those of a user key.

        Raises:
            TypeError: One of them is None.
        """
        refuse_none(value, "cannot add None to a sorted map state")
        ordered_key = self._ordered(user_key)
        self._append(await self.loaded(), ordered_key, value)

    async def put(self, user_key: K, values: Iterable[T]) -> None:
        """Replace the values of a user key; none removes it.

        Raises:
            TypeError: The key or one of the values is None; nothing was replaced.
        """
        checked = list(values)
        for each in checked:
            refuse_none(each, "a sorted map state cannot have None as a value")
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

    async def first_entry_between(self, from_: K, to: K) -> tuple[K, list[T]] | None:
        """The lowest user key between two bounds with its values; None if there is none."""
        return await self._nearest(self._start(from_), self._end(to, False), reverse=False)

    async def last_entry_between(self, from_: K, to: K) -> tuple[K, list[T]] | None:
        """The highest user key between two bounds with its values; None if there is none."""
        return await self._nearest(self._start(from_), self._end(to, False), reverse=True)

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

    async def is_empty(self) -> bool:
        """Whether nothing is stored: expired values that were not removed count, as in Flink."""
        return not (await self.loaded()).size

    def _start(self, from_: K) -> Cut:
        return self._cuts(from_)[0]

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
        decode_key, decode, keys = self._keys.decode, self._codec.decode, self._read_keys
        shown: list[tuple[K, list[T]]] = []
        before: bytes | None = None
        for (ordered_key, _, _), json in zip(entries, jsons, strict=True):
            if ordered_key == before:
                shown[-1][1].append(decode(json))
                continue
            before = ordered_key
            user_key = keys.get(ordered_key)
            if user_key is None:
                user_key = keys[ordered_key] = decode_key(ordered_key)
            shown.append((user_key, [decode(json)]))
        return shown
