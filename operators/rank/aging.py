"""Top-n of any input where rows expire."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Any

from operators.changelog import RowKind
from operators.processing_time import blanked
from operators.rank.arrival import Arrivals
from operators.rank.ranking import inserted, removed
from operators.rank.retract import RetractTopN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from operators.changelog import Row
    from operators.keyed import InputChange, OpenEpoch
    from operators.rank.spec import RankSpec
    from state.primitives.value import ValueHandle


class AgingTopN(RetractTopN):
    """Show the rows of a range of ranks, of input with retractions, with a TTL.

    Rows of one sort key live and expire together, from the last change of one of them. What has
    expired keeps its rank as long as the partition changes: the sink still shows it, and what is
    behind it must not be shown beside it. It gives way when a change before it asks for the row.
    Ranks by p descending, 1 and 2 are shown, TTL 10:

        at    change    rows kept     ranks counted   emitted without ranks
        0     +I a 9    a9            9               +I a
        6     +I b 5    a9 b5         9 5             +I b
        12    +I c 7    c7 b5         9 7 5           -D b  +I c      (a keeps rank 1)
        13    -D a 9    c7 b5         7 5             an orphan; the sink keeps a
        13    +I d 8    d8 c7 b5      8 7 5           -D b  +I d      (the sink has no b)

    Characteristics:
        input, output   as RetractTopN
        state       its rows; by sort key, how many rows have a rank: one value, which expires with
                    the partition's last change
        state cost  that value is read and written once an epoch, and grows with the number of sort
                    keys; of the rows those are read that shift, and those with the sort key of a
                    change, which are written: each sort key once an epoch, but all of its rows. A
                    LIMIT has one sort key
        time        none; TTL of a sort key's rows, from the last change of one
        unseen -D   an orphan; one of an expired row makes its sort key count one row less

    Source: Flink's RetractableTopNFunction, where a TTL is what one sees of its two states. A job
    of Flink's fails where a sort key has fewer rows than are counted and one of those is asked
    for; here none is shown in its place.
    """

    takes_bundles = True

    def __init__(self, spec: RankSpec) -> None:
        super().__init__(spec)
        self._arrivals = None if spec.order else Arrivals(spec, self.rows_codec)
        self.prefetched = self.descriptors
        if self._arrivals is not None:
            self.prefetched = (*self.prefetched, self._arrivals.count)
            self.descriptors = (*self.descriptors, *self._arrivals.descriptors)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        super().open(epoch)
        if self._arrivals is not None:
            self._arrivals.open(epoch)
        self._counted: ValueHandle[list[tuple[str, int]]] = epoch.session.value(self._counts)

    async def process(self, change: InputChange) -> None:
        """As a bundle of one."""
        await self.process_bundle((change,))

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Put rows into their places, or take them out, one after the other."""
        await self._gather()
        stored = await self._counted.value()
        held = _Held(self)
        counts = _Counts(await self._alive() if stored is None else stored, held)
        for change in changes:
            row = blanked(change.row, self._proctime)
            self.rows_codec.know(change)
            end = await self.end.of(row)
            if change.kind.is_retraction:
                await self._take_back(change, row, end, counts)
            else:
                await self._add(change, row, end, counts)
            if self.end.is_kept and not counts.keys:
                await held.write()
                if await self.rows.is_empty():
                    await self.end.clear()
        await held.write()
        if counts.keys or not await self.rows.is_empty():
            # None at all is a number, too: rows may be left that have no rank.
            await self._counted.update(counts.stored())
        else:
            await self._counted.clear()

    async def _gather(self) -> None:
        """Give the rows that `ArrivalTopN` kept one sort key: with a TTL they live together."""
        if self._arrivals is None or not await self._arrivals.are_there():
            return
        found = await self.rows.entries()
        await self.rows.clear()
        await self.rows.put(self.sort.of(()), [row for _, rows in found for row in rows])
        await self._arrivals.clear()

    async def _alive(self) -> Iterable[tuple[str, int]]:
        """What is counted of a partition that was not, yet: there was no TTL, or all expired."""
        found = await self.rows.entries()
        return [(_text(self.sort.codec.encode(key)), len(rows)) for key, rows in found]

    async def _add(self, change: InputChange, row: Row, end: int | None, counts: _Counts) -> None:
        text = _text(self.sort.text(row))
        counts.add(text)
        rank = counts.before(text, end) + counts.of(text)
        if end is None or rank <= end:
            if self.ranking.counts_ranks:
                count = None if end is None else end - rank + 1
                displaced = await self._behind(text, count, counts)
                self.ranking.emit(change, inserted(row, rank, displaced, end), end)
            else:
                out = None if end is None else await self._out(text, rank, end, counts)
                if out is not None:
                    change.emit(RowKind.DELETE, out)
                change.emit(RowKind.INSERT, row)
        await counts.rows.add(text, row)

    async def _take_back(
        self, change: InputChange, row: Row, end: int | None, counts: _Counts
    ) -> None:
        text = _text(self.sort.text(row))
        rows = await counts.rows.at(text)
        before = counts.before(text, end)
        at = None if rows is None else counts.rows.place(text, row)
        if rows is None or at is None:
            change.orphan()
            if rows is None and (end is None or before <= end):
                counts.forget(text)
        else:
            taken = counts.rows.take(text, at)
            rank = before + at + 1
            if counts.of(text) and (end is None or rank <= end):
                await self._show_gone(change, taken, rank, rows[at:], text, end, counts)
        counts.remove(text)
        if rows is not None:
            counts.rows.touch(text)

    async def _show_gone(
        self,
        change: InputChange,
        taken: Row,
        rank: int,
        rest: Sequence[Row],
        text: str,
        end: int | None,
        counts: _Counts,
    ) -> None:
        """Emit what follows when a row of the range goes; the rest of its sort key's follows it."""
        if self.ranking.counts_ranks:
            count = None if end is None else end - rank + 1
            following = [*rest, *await self._behind(text, count, counts, len(rest))][:count]
            self.ranking.emit(change, removed(taken, rank, following, end), end)
            return
        change.emit(RowKind.DELETE, taken)
        entering = None if end is None else await self._in(rest, text, rank, end, counts)
        if entering is not None:
            change.emit(RowKind.INSERT, entering)

    async def _behind(
        self, text: str, count: int | None, counts: _Counts, known: int = 0
    ) -> list[Row]:
        """The rows behind a sort key, until there are so many; those that expired give way."""
        found: list[Row] = []
        while (count is None or known + len(found) < count) and (each := counts.behind(text)):
            rows = await counts.rows.at(each)
            if rows is None:
                counts.forget(each)
            else:
                found += rows
                text = each
        return found if count is None else found[: max(0, count - known)]

    async def _out(self, text: str, rank: int, end: int, counts: _Counts) -> Row | None:
        """The row that leaves the range when one comes to a rank; those that expired give way."""
        while rank <= end and (each := counts.behind(text)):
            rows = await counts.rows.at(each)
            if rows is None:
                counts.forget(each)
                continue
            if rank + counts.of(each) > end:
                return _at(rows, end - rank)
            rank += counts.of(each)
            text = each
        return None

    async def _in(
        self, rest: Sequence[Row], text: str, rank: int, end: int, counts: _Counts
    ) -> Row | None:
        """The row that comes into the range when one leaves a rank."""
        if end - rank < len(rest):
            return rest[end - rank]
        rank += len(rest)
        while each := counts.behind(text):
            behind = rank + counts.of(each)
            if behind > end:
                rows = await counts.rows.at(each)
                if rows is not None:
                    return _at(rows, end - rank)
                counts.forget(each)
            else:
                rank, text = behind, each
        return None


class _Held:
    """The rows of a partition while a bundle is processed: each sort key is read and written once.

    A sort key may have all rows of a partition, as that of a LIMIT has.
    """

    __slots__ = ("_changed", "_operator", "_rows", "_texts")

    def __init__(self, operator: AgingTopN) -> None:
        self._operator = operator
        self._rows: dict[str, list[Row]] = {}
        self._texts: dict[str, list[bytes]] = {}
        """Rows as they are compared, of sort keys of which one was looked for."""
        self._changed: dict[str, None] = {}

    async def at(self, key: str) -> list[Row] | None:
        """The rows of a sort key; None where there are none."""
        if key not in self._rows:
            found = await self._operator.rows.values_at(self._sort_key(key))
            self._rows[key] = list(found or ())
        return self._rows[key] or None

    async def add(self, key: str, row: Row) -> None:
        """One row more."""
        await self.at(key)
        self._rows[key].append(row)
        if key in self._texts:
            self._texts[key].append(self._operator.rows_codec.encode(row))
        self.touch(key)

    def place(self, key: str, row: Row) -> int | None:
        """Where the first equal row stands, of a sort key that was asked for."""
        encode = self._operator.rows_codec.encode
        if key not in self._texts:
            self._texts[key] = [encode(each) for each in self._rows[key]]
        texts, wanted = self._texts[key], encode(row)
        return texts.index(wanted) if wanted in texts else None

    def take(self, key: str, place: int) -> Row:
        """One row less: that at a place."""
        del self._texts[key][place]
        return self._rows[key].pop(place)

    def touch(self, key: str) -> None:
        """Have the rows of a sort key live on from now."""
        self._changed[key] = None

    async def write(self) -> None:
        """Keep what has changed."""
        for key in self._changed:
            await self._operator.rows.put(self._sort_key(key), self._rows[key])

    def _sort_key(self, key: str) -> tuple[Any, ...]:
        return self._operator.sort.codec.decode(key.encode("latin-1"))


class _Counts:
    """How many rows of a partition have a rank, by sort key; a sort key is its ordered text."""

    __slots__ = ("keys", "numbers", "rows")

    def __init__(self, stored: Iterable[tuple[str, int]], rows: _Held) -> None:
        self.rows = rows
        """Those that have not expired."""
        self.numbers: dict[str, int] = dict(stored)
        self.keys = list(self.numbers)
        """In order."""

    def stored(self) -> list[tuple[str, int]]:
        """As it is kept."""
        return [(key, self.numbers[key]) for key in self.keys]

    def before(self, key: str, end: int | None) -> int:
        """How many have a rank before those of a sort key; not counted on behind the end."""
        total = 0
        for each in self.keys:
            if each >= key or (end is not None and total > end):
                break
            total += self.numbers[each]
        return total

    def behind(self, key: str) -> str | None:
        """The next sort key; texts are never empty."""
        at = bisect_right(self.keys, key)
        return self.keys[at] if at < len(self.keys) else None

    def add(self, key: str) -> None:
        """One row more."""
        if key not in self.numbers:
            insort(self.keys, key)
        self.numbers[key] = self.of(key) + 1

    def of(self, key: str) -> int:
        """How many a sort key has."""
        return self.numbers.get(key, 0)

    def remove(self, key: str) -> None:
        """One row less, if there is one."""
        number = self.of(key)
        if number > 1:
            self.numbers[key] = number - 1
        else:
            self.forget(key)

    def forget(self, key: str) -> None:
        """No row any more, if there was one."""
        if self.numbers.pop(key, None) is not None:
            del self.keys[bisect_left(self.keys, key)]


def _text(ordered: bytes) -> str:
    """A sort key's ordered bytes as text that sorts as they do."""
    return ordered.decode("latin-1")


def _at(rows: Sequence[Row], place: int) -> Row | None:
    return rows[place] if place < len(rows) else None
