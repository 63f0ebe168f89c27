"""Top-n of input whose rows only rise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operators.changelog import RowKind
from operators.rank.buffer import RankBuffer, is_retraction
from operators.rank.ranking import fallen, risen
from operators.stored_rows import StoredRows
from state.descriptors import MapDescriptor

if TYPE_CHECKING:
    from operators.changelog import Row
    from operators.keyed import InputChange, OpenEpoch
    from operators.rank.spec import RankSpec
    from state.primitives.maps import MapHandle


class UpdateTopN(RankBuffer):
    """Show the rows of a range of ranks, of rows with a unique key that only ever rise.

    A row that left the range can come back only by rising, so none behind it is kept. Ranks by c
    descending, 1 and 2 are shown:

        change     rows kept    emitted with ranks                        emitted without
        +I a 1     a1           +I a1 1                                   +I a1
        +I b 1     a1 b1        +I b1 2                                   +I b1
        +U b 2     b2 a1        -U a1 1  -U b1 2  +U b2 1  +U a1 2        -U b1  +U b2
        +U c 2     b2 c2        -U a1 2  +U c2 2                          -D a1  +I c2

    Characteristics:
        input       +I +U by unique key, which includes the partition's columns; -U is passed over
        output      with ranks +I -U +U, unique by partition and rank; without +I -U +U -D;
                    a range that begins behind rank 1: as with ranks, without their numbers
        state       the rows up to the last rank, in order; the sort key of each by unique key
        state cost  an entry by unique key; the rows that are kept as for input that only grows; two
                    written
        time        none; TTL per row, from its last update
        unseen -D   any -D: an orphan

    A row that falls all the same keeps being shown, at the last place that it can have among the
    rows that are kept: others that would be better now are not known. As in Flink, where state of
    an operator before it expired too early.

    Source: Flink's UpdatableTopNFunction and UpdatableTopNHelper.
    """

    def __init__(self, spec: RankSpec) -> None:
        super().__init__(spec)
        (row,) = spec.inputs
        self._unique_key = spec.unique_key
        self._identity = StoredRows(row.part(spec.unique_key))
        self._keys: MapDescriptor[Row, Row] = MapDescriptor(
            name="sort_keys",
            key_codec=self._identity,
            codec=StoredRows(row.part(tuple(each.column for each in spec.order))),
            ttl=spec.ttl_of(0),
            **spec.past_of("sort_keys"),
        )
        self.descriptors = self.prefetched = (*self.descriptors, self._keys)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        super().open(epoch)
        self._sort_keys: MapHandle[Row, Row] = epoch.session.map(self._keys)

    async def process(self, change: InputChange) -> None:
        """Put a row into its place, or let it rise."""
        if change.kind is RowKind.UPDATE_BEFORE or is_retraction(change):
            return
        old_key = await self._sort_keys.get(self._identify(change.row))
        if old_key is None:
            await self._insert(change)
        elif self.sort.codec.encode(old_key) == self.sort.text(change.row):
            await self._replace(change)
        else:
            await self._move(change, old_key)

    async def _insert(self, change: InputChange) -> None:
        row, key = change.row, self.sort.of(change.row)
        end = await self.end.of(row)
        rank = await self.rank_behind(key, end)
        if end is not None and rank > end:
            return
        is_full = await self.show(change, row, key, rank, end)
        await self._add(key, row)
        if is_full:
            out = await self.rows.pop_last()
            if out is not None:
                await self._sort_keys.remove(self._identify(out))

    async def _replace(self, change: InputChange) -> None:
        """The sort key is the same, and so is the rank."""
        row, key = change.row, self.sort.of(change.row)
        taken = await self.rows.replace_where(key, self._is(row), row)
        if taken is None:
            await self._insert(change)
            return
        await self._sort_keys.put(self._identify(row), key)
        end = await self.end.of(row)
        rank = await self._rank(key, taken.before)
        self.ranking.emit(change, risen(taken.value, rank, row, rank, ()), end)

    async def _move(self, change: InputChange, old_key: Row) -> None:
        row, key = change.row, self.sort.of(change.row)
        taken = await self.rows.take_where(old_key, self._is(row))
        if taken is None:
            await self._insert(change)
            return
        old, end = taken.value, await self.end.of(row)
        if not self.ranking.counts_ranks:
            self.ranking.emit(change, risen(old, 1, row, 1, ()), end)
        else:
            old_rank = await self._rank(old_key, taken.before)
            # The old row is out already, so one that fell has one row less before it.
            rank = await self.rank_behind(key, None)
            shifted = abs(old_rank - rank)
            if rank <= old_rank:
                between = await self.rows.values_from(self.rows.behind(key), shifted)
                self.ranking.emit(change, risen(old, old_rank, row, rank, between), end)
            else:
                between = await self.rows.values_from(taken.place, shifted)
                self.ranking.emit(change, fallen(old, old_rank, row, rank, between), end)
        await self._add(key, row)

    async def _add(self, key: tuple[Any, ...], row: Row) -> None:
        await self.rows.add(key, row)
        await self._sort_keys.put(self._identify(row), key)

    async def _rank(self, key: tuple[Any, ...], before: int) -> int:
        return await self.rows.count_until(key) + before + 1

    def _identify(self, row: Row) -> Row:
        return tuple([row[at] for at in self._unique_key])

    def _is(self, row: Row) -> Any:
        """Whether a row has the same unique key."""
        wanted = self._identity.encode(self._identify(row))
        return lambda other: self._identity.encode(self._identify(other)) == wanted
