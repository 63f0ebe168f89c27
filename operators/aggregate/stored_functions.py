"""Functions that remember every value, in a state of its own for each.

A group may be large, so a change reads and writes O(1) of its values, or O(log n) where they are
sorted:

    function                      state          a change costs
    MIN, MAX (retraction)         sorted map     one entry; the next extreme is one range read
    FIRST_VALUE, LAST_VALUE       multiset       one entry; what stands at the end is one read
    LISTAGG, ARRAY_AGG            multiset       one entry; the result needs all of them
    COLLECT                       map            one entry; the result needs all of them

Flink walks all values of the group to find the next extreme, first or last value
(MinWithRetractAggFunction.updateMin, FirstValueWithRetractAggFunction): here nothing is walked.

The extreme itself, and the first and last value, are kept with the accumulators, as in Flink: with
a TTL the entries of a collection expire one by one, each counted from its own last change, while
what the group shows stays until a change of the group brings another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from operators.aggregate.functions import JsonValue
from operators.aggregate.remembering import (
    Counts,
    Remembered,
    RetractableExtreme,
    joined,
    separator_of,
    value_codec,
)
from operators.stored_rows import StoredValues
from state.descriptors import JSON, MapDescriptor, MultisetDescriptor, SortedMapDescriptor
from state.lexicographic import LexicographicCodec
from state.primitives.multisets import NotFound, RemovedAll, RemovedLast

if TYPE_CHECKING:
    from collections.abc import Callable

    from operators.aggregate.call import AggregateCall
    from operators.changelog import Row
    from operators.keyed import OpenEpoch
    from state.descriptors import StateDescriptor
    from state.primitives.maps import MapHandle
    from state.primitives.multisets import MultisetHandle
    from state.primitives.sorted import SortedMapHandle


class StoredFunction(ABC):
    """What an aggregate function keeps outside of its accumulator.

    `own` is its part of the accumulators: small, whatever the group's size.
    """

    descriptor: StateDescriptor

    @abstractmethod
    def __init__(self, call: AggregateCall, name: str, past: dict[str, Any]) -> None:
        """Keep the values of a call in a state of this name.

        Args:
            call: What to compute.
            name: Of the state.
            past: Life and past of the state: arguments of its descriptor.
        """

    @abstractmethod
    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle of an epoch."""

    @abstractmethod
    def create(self) -> Any:
        """`own` of no rows."""

    @abstractmethod
    def to_json(self, own: Any) -> Any:
        """`own` as a JSON value."""

    @abstractmethod
    def from_json(self, stored: Any) -> Any:
        """`own` out of it."""

    @abstractmethod
    async def accumulate(self, own: Any, arguments: Row) -> Any:
        """Take a row in; gives the new `own`."""

    @abstractmethod
    async def retract(self, own: Any, arguments: Row) -> Any:
        """Take a row back; gives the new `own`."""

    @abstractmethod
    async def merge(self, own: Any, other: Any) -> Any:
        """Take in an accumulator in memory (`operators.aggregate.remembering`)."""

    @abstractmethod
    async def value(self, own: Any) -> Any:
        """The result."""

    def value_at_once(self) -> Callable[[Any], Any] | None:
        """What gives the result of `own` alone; None where the state must be asked."""
        return None

    @abstractmethod
    async def clear(self) -> None:
        """Forget the current key."""


class StoredExtreme(StoredFunction):
    """MIN or MAX: `own` is the extreme and how many different values there are."""

    _handle: SortedMapHandle[Any, int]

    def __init__(self, call: AggregateCall, name: str, past: dict[str, Any]) -> None:
        value = call.argument_types[0].with_nullable(nullable=False)
        self._memory = RetractableExtreme(call)
        self._ordered = LexicographicCodec([value])
        self._json = JsonValue(value)
        self._is_max = call.function == "MAX"
        self._state: SortedMapDescriptor[Any, int] = SortedMapDescriptor(
            name=name, key_codec=self._ordered, codec=JSON, **past
        )
        self.descriptor = self._state

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle of an epoch."""
        self._handle = epoch.session.sorted_map(self._state)

    def create(self) -> tuple[Any, int]:
        """No value."""
        return None, 0

    def to_json(self, own: tuple[Any, int]) -> Any:
        """The extreme, and how many values."""
        return [self._json.to_json(own[0]), own[1]]

    def from_json(self, stored: Any) -> tuple[Any, int]:
        """The extreme, and how many values."""
        return self._json.from_json(stored[0]), stored[1]

    async def accumulate(self, own: tuple[Any, int], arguments: Row) -> tuple[Any, int]:
        """One value more."""
        return await self._added(own, self._handle.ordered_key(arguments), arguments, 1)

    async def retract(self, own: tuple[Any, int], arguments: Row) -> tuple[Any, int]:
        """One value less."""
        return await self._added(own, self._handle.ordered_key(arguments), arguments, -1)

    async def merge(self, own: tuple[Any, int], other: Counts) -> tuple[Any, int]:
        """All values; those that come first, so that what goes rarely is the extreme."""
        counts = sorted(other.counts.items(), key=lambda each: each[1] < 0)
        for text, count in counts:
            own = await self._added(own, text, (self._memory.value_of(text),), count)
        return own

    async def value(self, own: tuple[Any, int]) -> Any:
        """The extreme."""
        return _extreme(own)

    def value_at_once(self) -> Callable[[Any], Any]:
        """The extreme is in `own`."""
        return _extreme

    async def clear(self) -> None:
        """Forget the current key."""
        await self._handle.clear()

    async def _added(
        self, own: tuple[Any, int], text: bytes, key: Row, weight: int
    ) -> tuple[Any, int]:
        extreme, size = own
        held = await self._handle.values_at(key)
        before = held[0] if held else 0
        after = before + weight
        if after:
            await self._handle.put(key, [after])
        else:
            await self._handle.clear_entry_at(key)
        if before <= 0 < after:
            is_better = not size or self._is_before(text, self._ordered.encode((extreme,)))
            return key[0] if is_better else extreme, size + 1
        if after <= 0 < before:
            if size == 1:
                return None, 0
            if text == self._ordered.encode((extreme,)):
                return await self._next(size - 1)
            return extreme, size - 1
        return extreme, size

    def _is_before(self, text: bytes, other: bytes) -> bool:
        return text > other if self._is_max else text < other

    async def _next(self, size: int) -> tuple[Any, int]:
        """The extreme of what is left; nothing where all of it has expired."""
        handle = self._handle
        found = await (handle.last_entry() if self._is_max else handle.first_entry())
        if found is not None and found[1][0] <= 0:
            # More was taken back of it than came: rare, so all entries are looked at.
            entries = await handle.entries()
            live = [each for each in entries if each[1][0] > 0]
            found = live[-1 if self._is_max else 0] if live else None
        return (None, 0) if found is None else (found[0][0], size)


def _extreme(own: tuple[Any, int]) -> Any:
    return own[0] if own[1] > 0 else None


class StoredSequence(StoredFunction):
    """What functions share whose result depends on the order of values.

    `own` is the value of FIRST_VALUE and LAST_VALUE, the separator of LISTAGG; ARRAY_AGG has none.
    """

    _handle: MultisetHandle[Row]

    def __init__(self, call: AggregateCall, name: str, past: dict[str, Any]) -> None:
        codec = StoredValues(call.argument_types[:1])
        self._encode = codec.encode
        self._json = JsonValue(call.argument_types[0])
        self._state: MultisetDescriptor[Row] = MultisetDescriptor(name=name, codec=codec, **past)
        self.descriptor = self._state
        self._decode = codec.decode

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle of an epoch."""
        self._handle = epoch.session.multiset(self._state)

    def create(self) -> Any:
        """Nothing."""
        return None

    def to_json(self, own: Any) -> Any:
        """A value."""
        return self._json.to_json(own)

    def from_json(self, stored: Any) -> Any:
        """A value."""
        return self._json.from_json(stored)

    async def merge(self, own: Any, other: Remembered) -> Any:
        """All values; then what was taken back."""
        for text in other.values:
            own = await self.accumulate(own, (*self._decode(text), other.separator))
        for text in other.missing:
            own = await self.retract(own, (*self._decode(text), other.separator))
        return own

    async def clear(self) -> None:
        """Forget the current key."""
        await self._handle.clear()

    async def _values(self) -> list[Any]:
        return [each.row[0] for each in await self._handle.entries()]


class StoredFirst(StoredSequence):
    """FIRST_VALUE."""

    async def accumulate(self, own: Any, arguments: Row) -> Any:
        """One value more."""
        await self._handle.append(arguments[:1])
        return arguments[0] if own is None else own

    async def retract(self, own: Any, arguments: Row) -> Any:
        """One value less: the oldest that is equal."""
        removed = await self._handle.remove(arguments[:1])
        if isinstance(removed, NotFound):
            return own
        if isinstance(removed, RemovedAll):
            return None
        if own is None or self._encode((own,)) != self._encode(arguments[:1]):
            return own
        first = await self._handle.first()
        return None if first is None else first.row[0]

    async def value(self, own: Any) -> Any:
        """The oldest value that is there."""
        return own


class StoredLast(StoredSequence):
    """LAST_VALUE."""

    async def accumulate(self, own: Any, arguments: Row) -> Any:
        """One value more."""
        await self._handle.append(arguments[:1])
        return arguments[0]

    async def retract(self, own: Any, arguments: Row) -> Any:
        """One value less: the oldest that is equal."""
        removed = await self._handle.remove(arguments[:1])
        if isinstance(removed, RemovedAll):
            return None
        return removed.now_last.row[0] if isinstance(removed, RemovedLast) else own

    async def value(self, own: Any) -> Any:
        """The newest value that is there."""
        return own


class StoredArrayAgg(StoredSequence):
    """ARRAY_AGG."""

    async def accumulate(self, own: Any, arguments: Row) -> Any:
        """One value more."""
        await self._handle.append(arguments[:1])
        return own

    async def retract(self, own: Any, arguments: Row) -> Any:
        """One value less: the oldest that is equal."""
        await self._handle.remove(arguments[:1])
        return own

    async def value(self, own: Any) -> Any:
        """All values, oldest first; null of none."""
        return await self._values() or None


class StoredListAgg(StoredArrayAgg):
    """LISTAGG."""

    def create(self) -> Any:
        """The separator of no row."""
        return ","

    async def accumulate(self, own: Any, arguments: Row) -> Any:
        """One text more."""
        await self._handle.append(arguments[:1])
        return separator_of(arguments)

    async def retract(self, own: Any, arguments: Row) -> Any:
        """One text less: the oldest that is equal."""
        await self._handle.remove(arguments[:1])
        return separator_of(arguments)

    async def value(self, own: Any) -> Any:
        """All texts, oldest first."""
        return joined(await self._values(), own)


class StoredCollect(StoredFunction):
    """COLLECT: `own` is nothing."""

    _handle: MapHandle[Row, int]

    def __init__(self, call: AggregateCall, name: str, past: dict[str, Any]) -> None:
        codec = StoredValues(call.argument_types)
        self._decode = value_codec(call.argument_types[0]).decode
        self._state: MapDescriptor[Row, int] = MapDescriptor(
            name=name, key_codec=codec, codec=JSON, **past
        )
        self.descriptor = self._state

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle of an epoch."""
        self._handle = epoch.session.map(self._state)

    def create(self) -> Any:
        """Nothing."""
        return None

    def to_json(self, own: Any) -> Any:
        """Nothing."""
        return None

    def from_json(self, stored: Any) -> Any:
        """Nothing."""
        return None

    async def accumulate(self, own: Any, arguments: Row) -> Any:
        """One value more."""
        return await self._added(arguments, 1)

    async def retract(self, own: Any, arguments: Row) -> Any:
        """One value less."""
        return await self._added(arguments, -1)

    async def merge(self, own: Any, other: dict[bytes, int]) -> Any:
        """All values."""
        for text, count in other.items():
            await self._added(self._decode(text), count)

    async def value(self, own: Any) -> Any:
        """Values with their counts, by their canonical forms."""
        entries = await self._handle.entries()
        return [(key[0], count) for key, count in entries if count is not None and count > 0]

    async def clear(self) -> None:
        """Forget the current key."""
        await self._handle.clear()

    async def _added(self, key: Row, weight: int) -> None:
        count = (await self._handle.get(key) or 0) + weight
        if count:
            await self._handle.put(key, count)
        else:
            await self._handle.remove(key)


STORED: Final[dict[str, type[StoredFunction]]] = {
    "MIN": StoredExtreme,
    "MAX": StoredExtreme,
    "FIRST_VALUE": StoredFirst,
    "LAST_VALUE": StoredLast,
    "LISTAGG": StoredListAgg,
    "ARRAY_AGG": StoredArrayAgg,
    "COLLECT": StoredCollect,
}
"""What keeps the values of a call that remembers them."""
