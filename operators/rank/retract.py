"""Top-n of any input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.changelog import RowKind
from operators.processing_time import blanked
from operators.rank.buffer import RankBuffer
from operators.rank.ranking import removed
from state.descriptors import JSON, ValueDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.keyed import InputChange
    from operators.rank.spec import RankSpec
    from state.primitives.sorted_places import Taken


class RetractTopN(RankBuffer):
    """Show the rows of a range of ranks, of input with retractions.

    Ranks by p descending, 1 and 2 are shown:

        change      rows kept         emitted with ranks             emitted without
        +I a 10     a10               +I a 1                         +I a
        +I b 20     b20 a10           -U a 1  +U b 1  +I a 2         +I b
        +I c 15     b20 c15 a10       -U a 2  +U c 2                 -D a  +I c
        -D b 20     c15 a10           -U b 1  +U c 1  -U c 2  +U a 2   -D b  +I a
        -D a 10     c15               -D a 2                         -D a

    Characteristics:
        input       +I -U +U -D, keyed by the partition's columns
        output      with ranks +I -U +U -D, unique by partition and rank; without +I -D;
                    a range that begins behind rank 1: as with ranks, without their numbers
        state       all rows in order; nothing is left once all are retracted
        state cost  the rows of the range are read once an epoch (of more than 128: a count, and
                    the rows that shift), whatever the partition's size; a retraction reads the
                    rows with its sort key, too, one round trip for all of a key and epoch; one row
                    written or removed
        time        none
        unseen -D   an orphan

    Of equal rows the first is retracted. With a TTL it is `AgingTopN`, without an order
    `ArrivalTopN`. Source: Flink's RetractableTopNFunction. There a walk over all keys finds a
    rank, and retractions behind an OFFSET are lost, since it writes kinds of change into the rows
    that it keeps; neither is so here.
    """

    takes_bundles = True

    def __init__(self, spec: RankSpec) -> None:
        super().__init__(spec)
        self._proctime = spec.proctime
        self._counts: ValueDescriptor[list[tuple[str, int]]] = ValueDescriptor(
            name="counted", codec=JSON, ttl=spec.ttl_of(0), **spec.past_of("counted")
        )
        # Of `AgingTopN`, which a change of the TTL makes of this one.
        self.descriptors = (*self.descriptors, self._counts)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Process the changes of a key one by one; what they will look for is read at once."""
        if len(changes) > 1:
            await self._foresee(changes)
        for change in changes:
            await self.process(change)

    async def process(self, change: InputChange) -> None:
        """Put a row into its place, or take one out."""
        row = blanked(change.row, self._proctime)
        self.rows_codec.know(change)
        if change.kind.is_retraction:
            await self._retract(change, row)
        else:
            await self._accumulate(change, row)

    async def _accumulate(self, change: InputChange, row: Row) -> None:
        key, end = await self._new_key(row), await self.end.of(row)
        rank = await self.rank_behind(key, end)
        if end is None or rank <= end:
            await self.show(change, row, key, rank, end)
        await self.rows.add(key, row)

    async def _retract(self, change: InputChange, row: Row) -> None:
        key = await self._old_key(row)
        taken = None if key is None else await self.rows.take(key, row)
        if key is None or taken is None:
            change.orphan()
            return
        end = await self.end.of(row)
        rank = await self.rows.count_until(key, at_most=end) + taken.before + 1
        if end is None or rank <= end:
            await self._show_removed(change, taken, rank, end)
        if await self.rows.is_empty():
            await self.end.clear()

    async def _foresee(self, changes: Sequence[InputChange]) -> None:
        """Read the rows among which those are that these changes take back."""
        rows = (each.row for each in changes if each.kind.is_retraction)
        await self.rows.know_at(self.sort.of(blanked(row, self._proctime)) for row in rows)

    async def _new_key(self, row: Row) -> tuple[Any, ...]:
        """The sort key that a row gets."""
        return self.sort.of(row)

    async def _old_key(self, row: Row) -> tuple[Any, ...] | None:
        """The sort key that a row has; None if there is no such row."""
        return self.sort.of(row)

    async def _show_removed(
        self, change: InputChange, taken: Taken[Row], rank: int, end: int | None
    ) -> None:
        if self.ranking.counts_ranks:
            count = None if end is None else end - rank + 1
            following = await self.rows.values_from(taken.place, count)
            self.ranking.emit(change, removed(taken.value, rank, following, end), end)
            return
        change.emit(RowKind.DELETE, taken.value)
        entering = None if end is None else await self.rows.value_from(taken.place, end - rank)
        if entering is not None:
            change.emit(RowKind.INSERT, entering)
