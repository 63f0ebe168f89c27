"""Top-n of any input by arrival: LIMIT, and ORDER BY processing time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from operators.processing_time import blanked
from operators.rank.retract import RetractTopN
from state.descriptors import JSON, MapDescriptor, SortedMapDescriptor, ValueDescriptor
from state.execution.combined import combine_all
from state.lexicographic import lexicographic_codec
from state.types import parse_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.keyed import InputChange, OpenEpoch
    from operators.rank.spec import RankSpec
    from operators.stored_rows import StoredRows
    from state.descriptors import StateDescriptor
    from state.primitives.value import ValueHandle

_PLACES: Final = lexicographic_codec([parse_type("STRING NOT NULL"), parse_type("BIGINT NOT NULL")])
"""A row's text, and the number of one of its arrivals."""
_LAST: Final = (1 << 63) - 1


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
        self._places: SortedMapDescriptor[tuple[Any, ...], int] = SortedMapDescriptor(
            name="arrived", key_codec=_PLACES, codec=JSON, ttl=ttl, **spec.past_of("arrived")
        )
        self._lists: MapDescriptor[Row, list[int]] = MapDescriptor(
            name="numbers", key_codec=rows, codec=JSON, ttl=ttl, **spec.past_of("numbers")
        )
        self._encode = rows.encode
        self._is_newest_first = spec.newest_first
        self.descriptors: tuple[StateDescriptor, ...] = (self.count, self._places)
        if spec.newest_first:
            # A version before kept the numbers of these so; all of them are older.
            self.descriptors = (*self.descriptors, self._lists)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        self._last: ValueHandle[int] = epoch.session.value(self.count)
        self._numbers = epoch.session.sorted_map(self._places)
        self._older = epoch.session.map(self._lists) if self._is_newest_first else None

    async def are_there(self) -> bool:
        """Whether rows of the current key have numbers."""
        return await self._last.value() is not None

    async def add(self, row: Row) -> int:
        """The number of a row that comes."""
        number = (await self._last.value() or 0) + 1
        await self._last.update(number)
        await self._numbers.add((self._encode(row).decode(), number), 1)
        return number

    async def find(self, row: Row) -> int | None:
        """The number of the first of these rows in the order; None: none has one."""
        text, numbers = self._encode(row).decode(), self._numbers
        look = numbers.last_entry_between if self._is_newest_first else numbers.first_entry_between
        found = await look((text, 0), (text, _LAST))
        return None if found is None else found[0][1]

    async def know_for(self, looks: int) -> None:
        """See that all numbers are known if that costs less than so many calls of `find`."""
        await self._numbers.know_for(looks)

    async def take(self, row: Row) -> int | None:
        """The number of the first of these rows in the order, which goes; None: there is none."""
        number = await self.find(row)
        if number is not None:
            await self._numbers.clear_entry_at((self._encode(row).decode(), number))
        elif self._older is not None and (older := await self._older.get(row)):
            *rest, number = older
            if rest:
                await self._older.put(row, rest)
            else:
                await self._older.remove(row)
        return number

    async def clear(self) -> None:
        """Forget the current key."""
        await self._last.clear()
        await self._numbers.clear()
        if self._older is not None:
            await self._older.clear()


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
        state cost  a row that comes: one entry more written; what takes one back looks for its
                    number, in one round trip for all of a key and epoch, then for the row. Nothing
                    grows with how many rows there are, or with how often one is there
        unseen -D   an orphan; of equal rows the first in the order is retracted

    With a TTL it is `AgingTopN` or `AgingNewest`.

    Rows that a version before kept without numbers stand before all others, oldest first; equal
    ones with numbers are taken back before them. What takes one of them back reads all of them.

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
        """Read the rows that these changes take back."""
        rows = [blanked(each.row, self._proctime) for each in changes if each.kind.is_retraction]
        if not rows:
            return
        texts = {self.rows_codec.encode(each): each for each in rows}
        # Beyond the newest row is nothing: rows that these changes bring need not be asked for.
        newest = self.rows.first_entry() if self._is_newest_first else self.rows.last_entry()
        await combine_all(newest, self._arrivals.know_for(len(texts)))
        found = await combine_all(*map(self._arrivals.find, texts.values()))
        await self.rows.know_at((each,) for each in found if each is not None)

    async def _new_key(self, row: Row) -> tuple[Any, ...]:
        return (await self._arrivals.add(row),)

    async def _old_key(self, row: Row) -> tuple[Any, ...] | None:
        number = await self._arrivals.take(row)
        if number is not None:
            return (number,)
        return None if self._is_newest_first else self.sort.of(row)
