"""Functions that remember every value, in a state of its own for each.

A group may be large, so a change reads and writes O(1) of its values, or O(log n) where they are
sorted:

Those whose result depends on the order of values are in `operators.aggregate.stored_sequences` and
`stored_ends`.

    function                      state          a change costs
    MIN, MAX (retraction)         sorted map     one entry; the next extreme is one range read
    FIRST_VALUE, LAST_VALUE       multiset       one entry; what stands at the end is one read;
                                                 with a TTL the times of the value
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
from typing import TYPE_CHECKING, Any, TypeAlias

from operators.aggregate.functions import JsonValue
from operators.aggregate.remembering import Counts, RetractableExtreme, value_codec
from operators.stored_rows import StoredValues
from state.descriptors import JSON, MapDescriptor, SortedMapDescriptor
from state.lexicographic import LexicographicCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.aggregate.call import AggregateCall
    from operators.aggregate.functions import Accumulator, StoredJson
    from operators.changelog import Row
    from operators.keyed import OpenEpoch
    from state.descriptors import StateDescriptor
    from state.primitives.handle import StateHandle
    from state.primitives.maps import MapHandle
    from state.primitives.sorted import SortedMapHandle


Own: TypeAlias = Any
"""What a stored function has in the accumulators: each has its own kind, and an aggregate that
holds them by number cannot tell a checker which."""


class StoredFunction(ABC):
    """What an aggregate function keeps outside of its accumulator.

    `own` is its part of the accumulators: small, whatever the group's size.
    """

    descriptors: tuple[StateDescriptor, ...]
    """What it keeps, or would with another TTL."""
    prefetched: tuple[StateDescriptor, ...]
    """What a change reads."""

    @abstractmethod
    def __init__(
        self, call: AggregateCall, name: str, past: dict[str, Any], *, keeps_missing: bool = False
    ) -> None:
        """Keep the values of a call in a state of this name.

        Args:
            call: What to compute.
            name: Of the state.
            past: Life and past of the state: arguments of its descriptor.
            keeps_missing: Whether what is taken back before it came is kept, to cancel it when it
                comes by a merge; counts, which go below zero, always do.
        """

    @abstractmethod
    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle of an epoch."""

    @property
    @abstractmethod
    def handles(self) -> Sequence[StateHandle[Any]]:
        """Those that were taken."""

    @abstractmethod
    def create(self) -> Any:
        """`own` of no rows."""

    @abstractmethod
    def to_json(self, own: Own) -> Any:
        """`own` as a JSON value."""

    @abstractmethod
    def from_json(self, stored: StoredJson) -> Any:
        """`own` out of it."""

    @abstractmethod
    async def accumulate(self, own: Own, arguments: Row) -> Any:
        """Take a row in; gives the new `own`."""

    @abstractmethod
    async def retract(self, own: Own, arguments: Row) -> Any:
        """Take a row back; gives the new `own`."""

    @abstractmethod
    async def merge(self, own: Own, other: Accumulator) -> Any:
        """Take in an accumulator in memory (`operators.aggregate.remembering`)."""

    async def moved(self, other: Accumulator) -> Any:
        """`own` of an accumulator in memory, all of which a key takes that has nothing."""
        return await self.merge(self.create(), other)

    @abstractmethod
    async def whole(self, own: Own) -> Any:
        """All of it as an accumulator in memory, the counterpart of `merge`."""

    def arguments_of(self, other: Accumulator) -> Sequence[Row]:
        """Of an accumulator in memory, what `known` is to read before a merge."""
        return ()

    async def known(self, arguments: Sequence[Row]) -> None:
        """Read at once what taking these in, or back, would read one after the other.

        Of sequences nothing: what their changes need is mostly read by the first one.
        """
        return

    @abstractmethod
    async def value(self, own: Own) -> Any:
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

    def __init__(
        self, call: AggregateCall, name: str, past: dict[str, Any], *, keeps_missing: bool = False
    ) -> None:
        value = call.argument_types[0].with_nullable(nullable=False)
        self._memory = RetractableExtreme(call)
        self._ordered = LexicographicCodec([value])
        self._json = JsonValue(value)
        self._is_max = call.function == "MAX"
        self._state: SortedMapDescriptor[Any, int] = SortedMapDescriptor(
            name=name, key_codec=self._ordered, codec=JSON, **past
        )
        self.descriptors = self.prefetched = (self._state,)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle of an epoch."""
        self._handle = epoch.session.sorted_map(self._state)

    @property
    def handles(self) -> Sequence[StateHandle[Any]]:
        """That of the values."""
        return (self._handle,)

    def create(self) -> tuple[Any, int]:
        """No value."""
        return None, 0

    def to_json(self, own: tuple[Any, int]) -> Any:
        """The extreme, and how many values."""
        return [self._json.to_json(own[0]), own[1]]

    def from_json(self, stored: StoredJson) -> tuple[Any, int]:
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

    async def whole(self, own: tuple[Any, int]) -> Counts:
        """All values with their counts."""
        found = Counts()
        for key, counts in await self._handle.entries():
            found.add(self._ordered.encode(key), counts[0])
        return found

    def arguments_of(self, other: Counts) -> Sequence[Row]:
        """The values."""
        return [(self._memory.value_of(text),) for text in other.counts]

    async def known(self, arguments: Sequence[Row]) -> None:
        """Read the counts of these values."""
        await self._handle.know_at(arguments)

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
        # Where values expire, one may come of which more was taken back than is known; in Flink it
        # may be the extreme all the same.
        if before <= 0 < after or (self._state.ttl.is_enabled and weight > 0):
            is_better = not size or self._is_before(text, self._ordered.encode((extreme,)))
            return key[0] if is_better else extreme, size + (before <= 0 < after)
        # A group that went before its values, as its TTL was off for a while, counts none of them.
        if after <= 0 < before and size:
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
        if found is not None and found[1][0] <= 0 and not self._state.ttl.is_enabled:
            # More was taken back of it than came: rare, so all entries are looked at.
            entries = await handle.entries()
            live = [each for each in entries if each[1][0] > 0]
            found = live[-1 if self._is_max else 0] if live else None
        return (None, 0) if found is None else (found[0][0], size)


def _extreme(own: tuple[Any, int]) -> Any:
    return own[0] if own[1] > 0 else None


class StoredCollect(StoredFunction):
    """COLLECT: `own` is nothing."""

    _handle: MapHandle[Row, int]

    def __init__(
        self, call: AggregateCall, name: str, past: dict[str, Any], *, keeps_missing: bool = False
    ) -> None:
        codec = StoredValues(call.argument_types)
        self._encode = codec.encode
        self._decode = value_codec(call.argument_types[0]).decode
        self._state: MapDescriptor[Row, int] = MapDescriptor(
            name=name, key_codec=codec, codec=JSON, **past
        )
        self.descriptors = self.prefetched = (self._state,)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle of an epoch."""
        self._handle = epoch.session.map(self._state)

    @property
    def handles(self) -> Sequence[StateHandle[Any]]:
        """That of the values."""
        return (self._handle,)

    def create(self) -> Any:
        """Nothing."""
        return None

    def to_json(self, own: Own) -> Any:
        """Nothing."""
        return None

    def from_json(self, stored: StoredJson) -> Any:
        """Nothing."""
        return None

    async def accumulate(self, own: Own, arguments: Row) -> Any:
        """One value more."""
        return await self._added(arguments, 1)

    async def retract(self, own: Own, arguments: Row) -> Any:
        """One value less."""
        return await self._added(arguments, -1)

    async def merge(self, own: Own, other: dict[bytes, int]) -> Any:
        """All values."""
        for text, count in other.items():
            await self._added(self._decode(text), count)

    async def whole(self, own: Own) -> dict[bytes, int]:
        """All values with their counts."""
        entries = await self._handle.entries()
        return {self._encode(key): count for key, count in entries if count is not None}

    def arguments_of(self, other: dict[bytes, int]) -> Sequence[Row]:
        """The values."""
        return [self._decode(text) for text in other]

    async def known(self, arguments: Sequence[Row]) -> None:
        """Read the counts of these values."""
        await self._handle.get_all(arguments)

    async def value(self, own: Own) -> Any:
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
