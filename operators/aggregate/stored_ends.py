"""FIRST_VALUE and LAST_VALUE with retraction.

Where values expire, a retraction may be of one that has: the others of that value stay then. So
with a TTL it is kept when each value came:

    at   comes or goes   values that live   when x came   FIRST_VALUE, TTL 10
    0    +x              x                  0             x
    6    +x              x x                0 6           x
    7    +y              x x y              0 6           x
    12   -x              x y                6             x   (that of 0, which has expired)
    12   -x              y                                y

Those that came in one epoch are one run, `[time, count]`, and so are all that have expired: a value
that comes again and again has as many runs as there are epochs in a TTL.

Source: FirstValueWithRetractAggFunction and LastValueWithRetractAggFunction: what a TTL makes of
their two maps, the orders of each value and the values of each order. There values that came in one
millisecond, which changes of one key hardly do, expire together.
"""

from __future__ import annotations

from abc import abstractmethod
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from operators.aggregate.stored_sequences import StoredSequence
from state.descriptors import JSON, MapDescriptor
from state.primitives.multisets import NotFound, RemovedAll, RemovedLast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.aggregate.call import AggregateCall
    from operators.aggregate.stored_functions import Own
    from operators.changelog import Row
    from operators.keyed import OpenEpoch
    from state.primitives.maps import MapHandle
    from state.primitives.multisets import Removal
    from state.ttl import TtlConfig


class StoredEnd(StoredSequence):
    """A value at one end, which is `own`.

    Once it has expired it stays what is shown, until one that is equal is taken back, or a change
    brings another.
    """

    def __init__(
        self, call: AggregateCall, name: str, past: dict[str, Any], *, keeps_missing: bool = False
    ) -> None:
        super().__init__(call, name, past, keeps_missing=keeps_missing)
        self._arrivals: MapDescriptor[Row, list[list[int]]] = MapDescriptor(
            name=f"{name}_times", key_codec=self._state.codec, codec=JSON, **past
        )
        self.descriptors = (*self.descriptors, self._arrivals)
        # They are kept on when a TTL is switched off: it may be switched on again.
        self._keeps_times = self._state.may_have_stamps
        if self._keeps_times:
            self.prefetched = (self._state, self._arrivals)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles of an epoch."""
        super().open(epoch)
        if self._keeps_times:
            self._times: MapHandle[Row, list[list[int]]] = epoch.session.map(self._arrivals)

    async def accumulate(self, own: Own, arguments: Row) -> Any:
        """One value more."""
        value = arguments[:1]
        await self._handle.append(value)
        if self._keeps_times:
            runs = await self._times.get(value) or []
            await self._times.put(value, with_arrival(runs, self._now_ms, self._state.ttl))
        return self._with(own, arguments[0])

    async def retract(self, own: Own, arguments: Row) -> Any:
        """One value less: the oldest that is equal."""
        value = arguments[:1]
        if self._keeps_times and await self._is_of_expired(value):
            return own
        removed = await self._removed(value)
        if isinstance(removed, NotFound):
            return own
        if own is None or self._encode((own,)) != self._encode(value):
            return own
        return None if isinstance(removed, RemovedAll) else await self._next(own, removed)

    async def value(self, own: Own) -> Any:
        """The value at the end."""
        return own

    async def clear(self) -> None:
        """Forget the current key."""
        await super().clear()
        if self._keeps_times:
            await self._times.clear()

    async def _is_of_expired(self, value: Row) -> bool:
        """Forget when the oldest of equal values came; whether that one has expired."""
        runs = await self._times.get(value)
        if not runs:
            return False
        (oldest, count), *others = runs
        if count > 1:
            await self._times.put(value, [[oldest, count - 1], *others])
        elif others:
            await self._times.put(value, others)
        else:
            await self._times.remove(value)
        return _has_expired(oldest, self._now_ms, self._state.ttl)

    @abstractmethod
    def _with(self, own: Own, value: object) -> Any:
        """What is at the end once a value has come."""

    @abstractmethod
    async def _next(self, own: Own, removed: Removal[Row]) -> Any:
        """What is at the end once one that is equal to it went, and others are left."""


class StoredFirst(StoredEnd):
    """FIRST_VALUE: the oldest value that is there."""

    def _with(self, own: Own, value: object) -> Any:
        return value if own is None else own

    async def _next(self, own: Own, removed: Removal[Row]) -> Any:
        first = await self._handle.first()
        return None if first is None else first.row[0]


class StoredLast(StoredEnd):
    """LAST_VALUE: the newest value that is there."""

    def _with(self, own: Own, value: object) -> Any:
        return value

    async def _next(self, own: Own, removed: Removal[Row]) -> Any:
        return removed.now_last.row[0] if isinstance(removed, RemovedLast) else own


def with_arrival(runs: Sequence[list[int]], now_ms: int, ttl: TtlConfig) -> list[list[int]]:
    """The runs of a value that comes once more.

    >>> from state.ttl import TtlConfig
    >>> with_arrival([[0, 1], [2, 2], [9, 1]], 12, TtlConfig(ttl_ms=10))
    [[2, 3], [9, 1], [12, 1]]
    """
    gone = list(takewhile(lambda run: _has_expired(run[0], now_ms, ttl), runs))
    merged = [[gone[-1][0], sum(count for _, count in gone)]] if gone else []
    found = [*merged, *runs[len(gone) :]]
    if found and found[-1][0] == now_ms:
        return [*found[:-1], [now_ms, found[-1][1] + 1]]
    return [*found, [now_ms, 1]]


def _has_expired(time_ms: int, now_ms: int, ttl: TtlConfig) -> bool:
    return ttl.is_enabled and time_ms + ttl.ttl_ms <= now_ms
