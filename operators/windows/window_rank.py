"""The first rows of each window: window rank, and window deduplication, which is its first row.

Rows come with the end of their window. When the watermark passes it, the first rows by an order
come out, once, lowest rank first. Rows that are equal in the order are ranked as they came; with
`ties_last` the other way round. A row whose window has come out is late, dropped and counted.

Worked example, the two highest v of a window of 10 s:

    +I (a, 3, end 00:10)    +I (b, 7, end 00:10)    +I (c, 5, end 00:10)
    watermark 00:09.999     +I (b, 7, end 00:10)    +I (c, 5, end 00:10)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, model_validator

from operators.changelog import RowKind
from operators.stored_rows import StoredRows
from operators.windows.spec import WindowedSpec, time_of
from operators.windows.windowed import WindowedOperator
from state.descriptors import SortedMapDescriptor
from state.lexicographic import Order, lexicographic_codec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operators.changelog import Row
    from operators.keyed import FiredTimer, InputChange, OpenEpoch


class OrderColumn(BaseModel):
    """A column of an order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: NonNegativeInt
    descending: bool = False
    nulls_last: bool = False


class WindowRankSpec(WindowedSpec):
    """The first rows of each window; the output has the input's columns, and perhaps the rank."""

    kind: Literal["window-rank"] = "window-rank"
    order: tuple[OrderColumn, ...]
    first: PositiveInt = 1
    """The lowest rank that comes out."""
    last: PositiveInt
    """The highest one."""
    with_rank: bool = False
    """Whether the rank stands behind the input's columns."""
    ties_last: bool = False
    """Of rows that are equal in the order, the one that came last is first."""

    @model_validator(mode="after")
    def _columns(self) -> Self:
        width = len(self.inputs[0].types)
        if len(self.output.types) != width + self.with_rank:
            raise ValueError(
                "the output has the input's columns, and the rank where it is asked for"
            )
        if not self.order or any(each.column >= width for each in self.order):
            raise ValueError("the order names columns of the input")
        if self.end_column is None or self.first > self.last:
            raise ValueError("ranks go from the first to the last, of windows that rows come with")
        return self

    def operator(self) -> WindowRank:
        """The operator of it."""
        return WindowRank(self)


class WindowRank(WindowedOperator):
    """Emit the first rows of each window once, when the watermark passes it.

    Characteristics:
        input       +I with the end of its window, keyed by partition
        output      +I, by rank
        state       `rows`: the rows of a window that may still come out, by order, in a namespace
                    of the window's end; nothing once the window has come out
        state cost  a window's rows are read and written once an epoch, `last` of them at most
        time        event time: a timer for each window
        unseen -D   there are none

    Source: Flink SlicingWindowOperator with WindowRankProcessor and RowTimeWindowDeduplicate-
    Processor.
    """

    def __init__(self, spec: WindowRankSpec) -> None:
        super().__init__(spec)
        self._spec = spec
        types = spec.inputs[0].types
        orders = [Order(each.descending, each.nulls_last) for each in spec.order]
        self._codec = lexicographic_codec([types[each.column] for each in spec.order], orders)
        self._row_lists: SortedMapDescriptor[tuple[Any, ...], Row] = SortedMapDescriptor(
            name="rows", key_codec=self._codec, codec=StoredRows(spec.inputs[0])
        )
        self.descriptors = (self._row_lists,)

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        super().open(epoch)
        self._session = epoch.session
        self._rows = epoch.session.sorted_map(self._row_lists)

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Let the rows of a key into their windows."""
        by_window: dict[int, list[Row]] = {}
        for change in changes:
            assert self._spec.end_column is not None
            end = time_of(change.row, self._spec.end_column)
            if end is None or self._has_passed(end):
                change.late()
            else:
                by_window.setdefault(end, []).append(change.row)
        for end, rows in by_window.items():
            self._timers.register(self._fires_ms(end), b"%d" % end)
            self._session.set_namespace(b"%d" % end)
            await self._add(rows)

    async def _fire(self, timer: FiredTimer) -> None:
        """Emit the first rows of a window, whose namespace is current."""
        rank = 0
        for _, rows in await self._rows.entries():
            for row in reversed(rows) if self._spec.ties_last else rows:
                rank += 1
                if self._spec.first <= rank <= self._spec.last:
                    out = (*row, rank) if self._spec.with_rank else row
                    timer.emit(RowKind.INSERT, out)
        await self._rows.clear()

    async def _add(self, rows: Sequence[Row]) -> None:
        """Keep, of a window's rows, those that may still come out."""
        held = {self._codec.encode(key): (key, mine) for key, mine in await self._rows.entries()}
        changed: set[bytes] = set()
        for row in rows:
            key = tuple(row[each.column] for each in self._spec.order)
            text = self._codec.encode(key)
            held.setdefault(text, (key, []))[1].append(row)
            changed.add(text)
        room = self._spec.last
        for text, (_, mine) in sorted(held.items()):
            if len(mine) > room:
                mine[:] = mine[len(mine) - room :] if self._spec.ties_last else mine[:room]
                changed.add(text)
            room -= len(mine)
        for text in sorted(changed):
            key, mine = held[text]
            await self._rows.put(key, mine)
