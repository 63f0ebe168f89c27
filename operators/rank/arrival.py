"""Top-n of any input by arrival: LIMIT, and ORDER BY processing time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.processing_time import blanked
from operators.rank.retract import RetractTopN
from state.descriptors import JSON, MapDescriptor, ValueDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.keyed import InputChange, OpenEpoch
    from operators.rank.spec import RankSpec
    from operators.stored_rows import StoredRows
    from state.primitives.maps import MapHandle
    from state.primitives.value import ValueHandle


class Arrivals:
    """Numbers of rows in the order of their arrival, and which ones equal rows have.

    Args:
        spec: The rank.
        rows: The codec of its rows.
    """

    def __init__(self, spec: RankSpec, rows: StoredRows) -> None:
        ttl = spec.ttl_of(0)
        self.count: ValueDescriptor[int] = ValueDescriptor(
            name="arrivals", codec=JSON, ttl=ttl, **spec.past_of("arrivals")
        )
        self._numbers: MapDescriptor[Row, list[int]] = MapDescriptor(
            name="numbers", key_codec=rows, codec=JSON, ttl=ttl, **spec.past_of("numbers")
        )
        self._first = -1 if spec.newest_first else 0
        self.descriptors = (self.count, self._numbers)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        self._last: ValueHandle[int] = epoch.session.value(self.count)
        self._of_row: MapHandle[Row, list[int]] = epoch.session.map(self._numbers)

    async def are_there(self) -> bool:
        """Whether rows of the current key have numbers."""
        return await self._last.value() is not None

    async def add(self, row: Row) -> int:
        """The number of a row that comes."""
        number = (await self._last.value() or 0) + 1
        await self._last.update(number)
        await self._of_row.put(row, [*(await self._of_row.get(row) or ()), number])
        return number

    async def take(self, row: Row) -> int | None:
        """The number of the first of these rows in the order, which goes; None: there is none."""
        numbers = await self._of_row.get(row)
        if not numbers:
            return None
        taken = numbers.pop(self._first)
        if numbers:
            await self._of_row.put(row, numbers)
        else:
            await self._of_row.remove(row)
        return taken

    async def known(self, rows: Sequence[Row]) -> list[int | None]:
        """Read at once what these rows have: what `take` would give of each."""
        found = await self._of_row.get_all(rows)
        return [each[self._first] if each else None for each in found]

    async def clear(self) -> None:
        """Forget the current key."""
        await self._last.clear()
        await self._of_row.clear()


class ArrivalTopN(RetractTopN):
    """Show the rows of a range of ranks by arrival, of input with retractions.

    Oldest first: LIMIT, and ORDER BY processing time. Newest first: ORDER BY processing time DESC;
    with rank 1 alone, the last row of each key that was not taken back, which is deduplication of a
    changelog (FLIP-544's open case). For rank 1:

        change     rows, newest first   emitted        rows, oldest first   emitted
        +I a       a                    +I a           a                    +I a
        +I b       b a                  -D a  +I b     a b
        -D b       a                    -D b  +I a     a

    Characteristics:
        as RetractTopN, but
        state       the rows in order of arrival; by row, the numbers of its arrivals
        state cost  an entry by row, of all rows of a key and epoch in one round trip; none grows
                    with how many rows there are, but with how often one is there
        unseen -D   an orphan; of equal rows the first in the order is retracted

    Rows that a version before kept without numbers stand before all others, oldest first; what
    takes one of them back reads all of them.

    Source: Flink plans a RetractableTopNFunction. Of a LIMIT it walks over all rows; by processing
    time, which its rows do not have yet, it keeps the oldest row in either order.
    """

    def __init__(self, spec: RankSpec) -> None:
        super().__init__(spec)
        self._is_newest_first = spec.newest_first
        self._arrivals = Arrivals(spec, self.rows_codec)
        self.prefetched = (*self.prefetched, *self._arrivals.descriptors)
        self.descriptors = (*self.descriptors, *self._arrivals.descriptors)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        super().open(epoch)
        self._arrivals.open(epoch)

    async def process(self, change: InputChange) -> None:
        """Put a row behind or before all others, or take one out."""
        await super().process(change)
        if await self.rows.is_empty():
            await self._arrivals.clear()

    async def _foresee(self, changes: Sequence[InputChange]) -> None:
        """Read the numbers of all rows, and the rows of those that are taken back."""
        taken: list[Row] = []
        others: list[Row] = []
        for each in changes:
            row = blanked(each.row, self._proctime)
            (taken if each.kind.is_retraction else others).append(row)
        found = await self._arrivals.known([*taken, *others])
        await self.rows.know_at((each,) for each in found[: len(taken)] if each is not None)

    async def _new_key(self, row: Row) -> tuple[Any, ...]:
        return (await self._arrivals.add(row),)

    async def _old_key(self, row: Row) -> tuple[Any, ...] | None:
        number = await self._arrivals.take(row)
        if number is not None:
            return (number,)
        return None if self._is_newest_first else self.sort.of(row)
