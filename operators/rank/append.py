"""Top-n of input that only grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from operators.rank.buffer import RankBuffer, is_retraction

if TYPE_CHECKING:
    from operators.keyed import InputChange


class AppendTopN(RankBuffer):
    """Show the rows of a range of ranks, of input without retractions.

    Ranks by p descending, 1 and 2 are shown:

        change      rows kept         emitted with ranks             emitted without
        +I a 10     a10               +I a 1                         +I a
        +I b 20     b20 a10           -U a 1  +U b 1  +I a 2         +I b
        +I c 15     b20 c15           -U a 2  +U c 2                 -D a  +I c
        +I d 15     b20 c15           (of equal rows the first stays)

    Characteristics:
        input       +I, keyed by the partition's columns
        output      with ranks +I -U +U, unique by partition and rank; without +I -D;
                    a range that begins behind rank 1: as with ranks, without their numbers
        state       the rows up to the last rank, in order
        state cost  the rows that are kept are read once an epoch (of more than 128: a count, and
                    the rows that shift); one written, one removed
        time        none; TTL per row, from its arrival
        unseen -D   any retraction: an orphan

    Source: Flink's AppendOnlyTopNFunction and AppendOnlyTopNHelper. Where a column says the last
    rank and it is above 100, Flink keeps no more than 100 rows at the end; here all are kept.
    """

    async def process(self, change: InputChange) -> None:
        """Put a row into its place, if that is in the range, and drop the one behind the range."""
        if is_retraction(change):
            return
        row, key = change.row, self.sort.of(change.row)
        end = await self.end.of(row)
        rank = await self.rank_behind(key, end)
        if end is not None and rank > end:
            return
        self.rows_codec.know(change)
        is_full = await self.show(change, row, key, rank, end)
        await self.rows.add(key, row)
        if is_full:
            await self.rows.pop_last()
