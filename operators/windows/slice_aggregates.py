"""Aggregates of slices and sessions: what grows with their rows lies in states of their own.

A slice's accumulators are read and written whole, so they must stay small. Sets of distinct
arguments, and the values of functions that remember them, are therefore maps, sorted maps and
multisets (`operators.aggregate.stored`) in a namespace for each slice: a change reads and writes
its own entries. Where windows come out of several slices, these are read whole, once a window.

    slices                 key     slice end -> accumulators, small
    slices_distinct_<n>    key, slice end as namespace: distinct arguments -> counts
    slices_values_<n>      the same: what a function remembers
    slices_values_<n>_missing      what was taken back before it came: a merge may bring it

Calls that need no such state have none, and accumulators as they are in memory. How they are
written, and that versions before had them whole: `operators.aggregate.beside`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.aggregate.aggregates import Accumulators, Aggregates
from operators.aggregate.beside import WholeAccumulators, beside_codec
from operators.aggregate.stored import StoredAggregates

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from operators.changelog import Row
    from operators.keyed import InputChange, OpenEpoch
    from operators.windows.spec import WindowAggregateSpec
    from state.descriptors import StateDescriptor


class SliceAggregates:
    """The calls of a window aggregate over the rows of its slices.

    A slice is named by a number, unique among those of a key: the namespace of its states. The
    operator keeps the accumulators; all methods leave the key's empty namespace current.

    Args:
        spec: The operator's.
        state: What names of states begin with.
    """

    def __init__(self, spec: WindowAggregateSpec, state: str) -> None:
        self._memory = Aggregates(spec.calls)
        stored = StoredAggregates(
            spec, spec.calls, counts_rows=True, state=state, ages=False, keeps_missing=True
        )
        self._stored = stored if stored.has_states else None
        self.codec = beside_codec(stored)
        """Of what the operator keeps of a slice."""

    @property
    def descriptors(self) -> Sequence[StateDescriptor]:
        """The states beside the accumulators."""
        return () if self._stored is None else self._stored.descriptors

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles of an epoch."""
        self._session = epoch.session
        if self._stored is not None:
            self._stored.open(epoch)

    def create(self) -> Accumulators:
        """Of no rows."""
        return self._memory.create() if self._stored is None else self._stored.create()

    async def load(self, slices: Iterable[int]) -> None:
        """Read at once what operations on several slices would read one after the other."""
        if self._stored is not None:
            await self._stored.load([b"%d" % each for each in slices])

    async def add(
        self, held: Accumulators | None, at: int, changes: Sequence[InputChange]
    ) -> Accumulators:
        """Take rows into a slice, or back; None: it has none yet.

        Cost: the entries of the rows' values, whatever else the slice holds.
        """
        stored = self._stored
        if stored is None:
            held = held or self._memory.create()
            for change in changes:
                if change.kind.is_retraction:
                    self._memory.retract(held, change.row)
                else:
                    self._memory.accumulate(held, change.row)
            return held
        held = await self.apart(held or stored.create(), at)
        self._session.set_namespace(b"%d" % at)
        await stored.known([change.row for change in changes])
        for change in changes:
            is_retraction = change.kind.is_retraction
            stored.add_plain(held, change.row, is_retraction=is_retraction)
            await stored.add_stored(held, change.row, is_retraction=is_retraction)
        self._session.set_namespace(b"")
        return held

    async def apart(self, held: Accumulators, at: int) -> Accumulators:
        """Accumulators that can be written; of whole ones the rest moves into states."""
        if self._stored is None or not isinstance(held, WholeAccumulators):
            return held
        self._session.set_namespace(b"%d" % at)
        small = await self._stored.moved(held)
        self._session.set_namespace(b"")
        return small

    async def whole(self, held: Accumulators, at: int) -> Accumulators:
        """All of a slice in memory, for `gathered`; what is given must not be used any more."""
        if self._stored is None or isinstance(held, WholeAccumulators):
            return held
        self._session.set_namespace(b"%d" % at)
        found = WholeAccumulators.of(await self._stored.whole(held))
        self._session.set_namespace(b"")
        return found

    def gathered(self, held: Accumulators | None, more: Accumulators) -> Accumulators:
        """Whole slices in one; they must not be used any more."""
        if held is None:
            return more
        self._memory.merge(held, more)
        return held

    async def merge(
        self, held: Accumulators | None, at: int, more: Accumulators, more_at: int
    ) -> Accumulators:
        """Move a slice into another, whose rows came before; of None it is all there is.

        Cost: all of the slice that moves, in few round trips; nothing of the other's size.
        """
        stored = self._stored
        if stored is None:
            return self.gathered(held, more)
        if held is not None:
            held = await self.apart(held, at)
        moved = await self.whole(more, more_at)
        await self.clear(more_at)
        if held is None:
            return await self.apart(moved, at)
        self._session.set_namespace(b"%d" % at)
        await stored.merge(held, moved)
        self._session.set_namespace(b"")
        return held

    async def values(self, held: Accumulators, at: int) -> Row:
        """The value of each call."""
        if self._stored is None or isinstance(held, WholeAccumulators):
            return self._memory.values(held)
        self._session.set_namespace(b"%d" % at)
        values = await self._stored.values(held)
        self._session.set_namespace(b"")
        return values

    async def clear(self, at: int) -> None:
        """Forget what a slice has beside its accumulators."""
        if self._stored is None:
            return
        await self.load((at,))
        self._session.set_namespace(b"%d" % at)
        await self._stored.clear()
        self._session.set_namespace(b"")
