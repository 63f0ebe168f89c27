"""FIRST_VALUE and LAST_VALUE with retraction.

Where values expire, a retraction may be of one that has: the others of that value stay then. So
with a TTL it is kept when each value came:

    at   comes or goes   values that live   when x came   FIRST_VALUE, TTL 10
    0    +x              x                  0             x
    6    +x              x x                0 6           x
    7    +y              x x y              0 6           x
    12   -x              x y                6             x   (that of 0, which has expired)
    12   -x              y                                y

Source: FirstValueWithRetractAggFunction and LastValueWithRetractAggFunction: what a TTL makes of
their two maps, the orders of each value and the values of each order. There values that came in one
millisecond, which changes of one key hardly do, expire together.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from operators.aggregate.stored_functions import StoredSequence
from state.descriptors import JSON, MapDescriptor
from state.primitives.multisets import NotFound, RemovedAll, RemovedLast

if TYPE_CHECKING:
    from operators.aggregate.call import AggregateCall
    from operators.changelog import Row
    from operators.keyed import OpenEpoch
    from state.primitives.maps import MapHandle
    from state.primitives.multisets import Removal


class StoredEnd(StoredSequence):
    """A value at one end, which is `own`.

    Once it has expired it stays what is shown, until one that is equal is taken back, or a change
    brings another.
    """

    def __init__(self, call: AggregateCall, name: str, past: dict[str, Any]) -> None:
        super().__init__(call, name, past)
        self._arrivals: MapDescriptor[Row, list[int]] = MapDescriptor(
            name=f"{name}_times", key_codec=self._state.codec, codec=JSON, **past
        )
        self.descriptors = (self._state, self._arrivals)
        # They are kept on when a TTL is switched off: it may be switched on again.
        self._keeps_times = self._state.may_have_stamps
        if self._keeps_times:
            self.prefetched = self.descriptors

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles of an epoch."""
        super().open(epoch)
        if self._keeps_times:
            self._times: MapHandle[Row, list[int]] = epoch.session.map(self._arrivals)

    async def accumulate(self, own: Any, arguments: Row) -> Any:
        """One value more."""
        value = arguments[:1]
        await self._handle.append(value)
        if self._keeps_times:
            await self._times.put(value, [*(await self._times.get(value) or ()), self._now_ms])
        return self._with(own, arguments[0])

    async def retract(self, own: Any, arguments: Row) -> Any:
        """One value less: the oldest that is equal."""
        value = arguments[:1]
        if self._keeps_times and await self._is_of_expired(value):
            return own
        removed = await self._handle.remove(value)
        if isinstance(removed, NotFound):
            return own
        if own is None or self._encode((own,)) != self._encode(value):
            return own
        return None if isinstance(removed, RemovedAll) else await self._next(own, removed)

    async def value(self, own: Any) -> Any:
        """The value at the end."""
        return own

    async def clear(self) -> None:
        """Forget the current key."""
        await super().clear()
        if self._keeps_times:
            await self._times.clear()

    async def _is_of_expired(self, value: Row) -> bool:
        """Forget when the oldest of equal values came; whether that one has expired."""
        times = await self._times.get(value)
        if not times:
            return False
        oldest, *others = times
        if others:
            await self._times.put(value, others)
        else:
            await self._times.remove(value)
        ttl = self._state.ttl
        return ttl.is_enabled and oldest + ttl.ttl_ms <= self._now_ms

    @abstractmethod
    def _with(self, own: Any, value: Any) -> Any:
        """What is at the end once a value has come."""

    @abstractmethod
    async def _next(self, own: Any, removed: Removal[Row]) -> Any:
        """What is at the end once one that is equal to it went, and others are left."""


class StoredFirst(StoredEnd):
    """FIRST_VALUE: the oldest value that is there."""

    def _with(self, own: Any, value: Any) -> Any:
        return value if own is None else own

    async def _next(self, own: Any, removed: Removal[Row]) -> Any:
        first = await self._handle.first()
        return None if first is None else first.row[0]


class StoredLast(StoredEnd):
    """LAST_VALUE: the newest value that is there."""

    def _with(self, own: Any, value: Any) -> Any:
        return value

    async def _next(self, own: Any, removed: Removal[Row]) -> Any:
        return removed.now_last.row[0] if isinstance(removed, RemovedLast) else own
