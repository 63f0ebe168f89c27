"""Functions whose result depends on the order of values, which are in a multiset.

Where windows are merged, a list beside it has what was taken back before it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.aggregate.functions import JsonValue
from operators.aggregate.remembering import Remembered, joined, separator_of
from operators.aggregate.stored_functions import StoredFunction
from operators.stored_rows import StoredValues
from state.descriptors import ListDescriptor, MultisetDescriptor
from state.primitives.multisets import NotFound, RemovedAll

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.aggregate.call import AggregateCall
    from operators.aggregate.functions import StoredJson
    from operators.aggregate.stored_functions import Own
    from operators.changelog import Row
    from operators.keyed import OpenEpoch
    from state.primitives.handle import StateHandle
    from state.primitives.lists import ListHandle
    from state.primitives.multisets import MultisetHandle, Removal, SequencedRow


class StoredSequence(StoredFunction):
    """What functions share whose result depends on the order of values.

    `own` is the value of FIRST_VALUE and LAST_VALUE, the separator of LISTAGG; ARRAY_AGG has none.
    """

    _handle: MultisetHandle[Row]

    def __init__(
        self, call: AggregateCall, name: str, past: dict[str, Any], *, keeps_missing: bool = False
    ) -> None:
        codec = StoredValues(call.argument_types[:1])
        self._encode = codec.encode
        self._json = JsonValue(call.argument_types[0])
        self._state: MultisetDescriptor[Row] = MultisetDescriptor(name=name, codec=codec, **past)
        self.descriptors = self.prefetched = (self._state,)
        self._decode = codec.decode
        self._missing_list: ListDescriptor[Row] | None = None
        if keeps_missing:
            self._missing_list = ListDescriptor(name=f"{name}_missing", codec=codec, **past)
            self.descriptors = (self._state, self._missing_list)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handle of an epoch."""
        self._handle = epoch.session.multiset(self._state)
        self._now_ms = epoch.session.clock.now(self._state.ttl)
        self._missing: ListHandle[Row] | None = None
        if self._missing_list is not None:
            self._missing = epoch.session.list(self._missing_list)

    @property
    def handles(self) -> Sequence[StateHandle[Any]]:
        """Those of the values, and of what is missing."""
        return (self._handle,) if self._missing is None else (self._handle, self._missing)

    def create(self) -> Any:
        """Nothing."""
        return None

    def to_json(self, own: Own) -> Any:
        """A value."""
        return self._json.to_json(own)

    def from_json(self, stored: StoredJson) -> Any:
        """A value."""
        return self._json.from_json(stored)

    async def merge(self, own: Own, other: Remembered) -> Any:
        """All values; then what was taken back."""
        if not other.values and not other.missing:
            return own
        missing = [self._decode(text) for text in other.missing]
        if self._missing is not None:
            missing = [*(await self._missing.get() or ()), *missing]
            await self._missing.clear()
        for text in other.values:
            own = await self.accumulate(own, (*self._decode(text), other.separator))
        for value in missing:
            own = await self.retract(own, (*value, other.separator))
        return own

    async def moved(self, other: Remembered) -> Any:
        """All values, and what was taken back as it is: only a merge cancels one by the other."""
        own = self.create()
        for text in other.values:
            own = await self.accumulate(own, (*self._decode(text), other.separator))
        if self._missing is not None:
            for text in other.missing:
                await self._missing.add(self._decode(text))
        return own

    async def whole(self, own: Own) -> Remembered:
        """All values, oldest first, and those that are missing."""
        found = Remembered()
        found.values.extend([self._encode(each.row) for each in await self._handle.entries()])
        if self._missing is not None:
            found.missing = [self._encode(each) for each in await self._missing.get() or ()]
        return found

    async def clear(self) -> None:
        """Forget the current key."""
        await self._handle.clear()
        if self._missing is not None:
            await self._missing.clear()

    async def _removed(self, value: Row) -> Removal[Row]:
        """Take the oldest equal value out, if there is one."""
        removed = await self._handle.remove(value)
        if self._missing is not None and isinstance(removed, NotFound):
            await self._missing.add(value)
        return removed


class StoredArrayAgg(StoredSequence):
    """ARRAY_AGG: its values live as long as the group, as in Flink, where they are part of it."""

    async def accumulate(self, own: Own, arguments: Row) -> Any:
        """One value more."""
        await self._handle.append(arguments[:1])
        return own

    async def retract(self, own: Own, arguments: Row) -> Any:
        """One value less: the oldest that is equal."""
        await self._removed(arguments[:1])
        return own

    async def value(self, own: Own) -> Any:
        """All values, oldest first; null of none."""
        entries = await self._handle.entries()
        if self._state.ttl.is_enabled:
            await self._write_again(entries)
        return [each.row[0] for each in entries] or None

    async def _write_again(self, entries: Sequence[SequencedRow[Row]]) -> None:
        """Have all values live on from now, unless they do."""
        if any(each.stamp_ms < self._now_ms for each in entries):
            await self._handle.clear()
            for each in entries:
                await self._handle.append(each.row)


class StoredListAgg(StoredArrayAgg):
    """LISTAGG: a text expires from when it came, or another was taken back.

    In Flink the list is written as a whole when one is taken out of it.
    """

    def create(self) -> Any:
        """The separator of no row."""
        return ","

    async def accumulate(self, own: Own, arguments: Row) -> Any:
        """One text more."""
        await self._handle.append(arguments[:1])
        return separator_of(arguments)

    async def retract(self, own: Own, arguments: Row) -> Any:
        """One text less: the oldest that is equal."""
        removed = await self._removed(arguments[:1])
        if self._state.ttl.is_enabled and not isinstance(removed, NotFound | RemovedAll):
            await self._write_again(await self._handle.entries())
        return separator_of(arguments)

    async def whole(self, own: Own) -> Remembered:
        """All texts, oldest first, those that are missing, and the separator."""
        found = await super().whole(own)
        found.separator = own
        return found

    async def value(self, own: Own) -> Any:
        """All texts, oldest first."""
        texts: list[Any] = [each.row[0] for each in await self._handle.entries()]
        return joined(texts, own)
