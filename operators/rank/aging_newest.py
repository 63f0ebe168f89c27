"""Top-n by arrival, the newest first, of any input where rows expire."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.changelog import RowKind
from operators.processing_time import blanked
from operators.rank.aging import AgingTopN
from operators.rank.ranking import inserted, removed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from operators.changelog import Row
    from operators.keyed import InputChange
    from operators.rank.spec import RankSpec


class AgingNewest(AgingTopN):
    """Show the rows of a range of ranks, what comes last stands first, with a TTL.

    The rows of a partition live and expire together, from its last change: a row that went by
    itself would stay in the sink, since expiry emits nothing. Ranks 1 and 2 are shown, TTL 10:

        at    change    rows kept     emitted without ranks
        0     +I a      a             +I a
        6     +I b      b a           +I b
        12    +I c      c b a         -D a  +I c
        13    -D c      b a           -D c  +I a
        23    +I d      d             +I d          (nothing is known of a and b)

    Characteristics:
        input, output   as RetractTopN
        state       all rows, in one list, by rank
        state cost  the list is read and written once an epoch
        time        none; TTL of a partition's rows, from the last change of it
        unseen -D   an orphan; of equal rows the newest is retracted

    Source: none. Flink keeps the oldest row in either order (see `ArrivalTopN`).
    """

    def __init__(self, spec: RankSpec) -> None:
        super().__init__(spec)
        # All rows are read with their partition, so nothing is counted beside them.
        self.prefetched = tuple(each for each in self.prefetched if each is not self._counts)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Put rows before all others, or take them out, one after the other."""
        await self._gather()
        key = self.sort.of(())
        found = (await self.rows.values_at(key) or [])[::-1]
        live = _Newest(found, self.rows_codec.encode)
        for change in changes:
            row = blanked(change.row, self._proctime)
            self.rows_codec.know(change)
            end = await self.end.of(row)
            if not change.kind.is_retraction:
                self._come(change, row, live, end)
            elif not self._go(change, row, live, end):
                change.orphan()
            if not live.rows:
                await self.end.clear()
        await self.rows.put(key, reversed(live.rows))
        await self.end.live_on()

    def _come(self, change: InputChange, row: Row, live: _Newest, end: int | None) -> None:
        if end is None or end > 0:
            if self.ranking.counts_ranks:
                self.ranking.emit(change, inserted(row, 1, live.ranks(1, end), end), end)
            else:
                for out in () if end is None else live.ranks(end, end):
                    change.emit(RowKind.DELETE, out)
                change.emit(RowKind.INSERT, row)
        live.add(row)

    def _go(self, change: InputChange, row: Row, live: _Newest, end: int | None) -> bool:
        rank = live.rank_of(row)
        if rank is None:
            return False
        gone = live.take(rank)
        if end is not None and rank > end:
            return True
        if self.ranking.counts_ranks:
            self.ranking.emit(change, removed(gone, rank, live.ranks(rank, end), end), end)
            return True
        change.emit(RowKind.DELETE, gone)
        for entering in () if end is None else live.ranks(end, end):
            change.emit(RowKind.INSERT, entering)
        return True


class _Newest:
    """The rows of a partition while a bundle is processed: in the order in which they came."""

    __slots__ = ("_encode", "_texts", "rows")

    def __init__(self, rows: list[Row], encode: Callable[[Row], bytes]) -> None:
        self.rows = rows
        self._encode = encode
        self._texts: list[bytes] | None = None
        """As they are compared, once one was looked for."""

    def add(self, row: Row) -> None:
        """One row more, before all others."""
        self.rows.append(row)
        if self._texts is not None:
            self._texts.append(self._encode(row))

    def ranks(self, first: int, last: int | None) -> list[Row]:
        """The rows of some ranks, as far as there are any."""
        count = len(self.rows)
        low = 0 if last is None else max(count - last, 0)
        return self.rows[low : count - first + 1][::-1] if first <= count else []

    def rank_of(self, row: Row) -> int | None:
        """The rank of the newest row that is equal to this; None: none is."""
        if self._texts is None:
            self._texts = [self._encode(each) for each in self.rows]
        text = self._encode(row)
        for rank, each in enumerate(reversed(self._texts), 1):
            if each == text:
                return rank
        return None

    def take(self, rank: int) -> Row:
        """One row less: that of a rank."""
        if self._texts is not None:
            del self._texts[-rank]
        return self.rows.pop(-rank)
