"""The calls of an OVER in the order of time: rows come into the frame, and leave it.

What grows with the frame, or with the partition where the frame has no beginning, lies in states of
its own (`operators.aggregate.stored`): a row that comes or leaves reads and writes its own entries.

    accumulators                 small, whatever the frame holds
    accumulators_values_<n>      what a function remembers
    accumulators_distinct_<n>    distinct arguments -> counts
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.aggregate.beside import WholeAccumulators, beside_codec
from operators.aggregate.stored import StoredAggregates
from operators.over.calls import CallOrder, OverAccumulators, OverCodec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.keyed import OpenEpoch
    from operators.over.over_aggregate import OverSpec
    from state.descriptors import StateDescriptor


class FrameCalls:
    """The calls over the rows of the current key's frame; the operator keeps the accumulators.

    Args:
        spec: The operator's.
    """

    def __init__(self, spec: OverSpec) -> None:
        self._order = CallOrder(spec.calls, spec.constants)
        self._stored = StoredAggregates(
            spec,
            self._order.aggregates,
            counts_rows=spec.preceding is not None,
            state="accumulators",
            ages=False,
        )
        self.codec = OverCodec(beside_codec(self._stored), self._order)
        """Of the accumulators, in state."""
        self.descriptors: Sequence[StateDescriptor] = self._stored.descriptors
        """The states beside them."""
        self.prefetched: Sequence[StateDescriptor] = self._stored.prefetched
        """Those that nearly every row reads."""

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles of an epoch."""
        self._stored.open(epoch)

    async def begin(self, held: OverAccumulators | None, rows: Sequence[Row]) -> OverAccumulators:
        """Accumulators that can be changed.

        Args:
            held: Those that are stored; None: of no rows.
            rows: That may come or leave: what that reads is read at once.
        """
        if held is None:
            held = OverAccumulators(self._stored.create(), self._order.create())
        if self._stored.has_states:
            await self._stored.load((b"",))
            if isinstance(held.aggregates, WholeAccumulators):
                held.aggregates = await self._stored.moved(held.aggregates)
            await self._stored.known([row + self._order.constants for row in rows])
        return held

    async def accumulate(self, held: OverAccumulators, row: Row, at_ms: int) -> None:
        """Take a row of a time in."""
        whole = row + self._order.constants
        self._stored.add_plain(held.aggregates, whole, is_retraction=False)
        if self._stored.has_states:
            await self._stored.add_stored(held.aggregates, whole, is_retraction=False)
        self._order.accumulate(held.positions, whole, at_ms)

    async def retract(self, held: OverAccumulators, row: Row) -> None:
        """Take a row back."""
        whole = row + self._order.constants
        self._stored.add_plain(held.aggregates, whole, is_retraction=True)
        if self._stored.has_states:
            await self._stored.add_stored(held.aggregates, whole, is_retraction=True)

    async def values(self, held: OverAccumulators) -> Row:
        """The value of each call."""
        return self._order.values(await self._stored.values(held.aggregates), held.positions)

    async def clear(self) -> None:
        """Forget what the current key has beside its accumulators."""
        await self._stored.clear()
