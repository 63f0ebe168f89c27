"""Join rows of two tables that are in the same window.

Rows come with the ends of their windows. When the watermark passes one, its rows of both sides with
the same key are joined, once; outer sides that have no match come out with nulls:

    join            what comes out of a window, by the order in which rows came
    INNER           each pair
    LEFT            each pair, and left rows without a match
    RIGHT           each pair, by right rows, and right rows without a match
    FULL            each pair and left rows without a match, then right rows without one
    SEMI, ANTI      left rows with, or without, a match

What matches is of one window and key and meets the condition, if there is one. A key with a null in
a column that `filter_nulls` marks has no match (SQL's `=`). A row whose window
has come out is late, dropped and counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import NonNegativeInt, model_validator

from operators.changelog import Row, RowKind
from operators.join.condition import compile_condition
from operators.keyed import KeyedOperator
from operators.spec import OperatorSpec
from operators.stored_rows import StoredRows
from operators.time_zones import UnknownZone
from operators.windows.spec import time_of
from operators.windows.zones import LocalTime
from state.descriptors import ListDescriptor, TimersDescriptor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from operators.keyed import FiredTimer, InputChange, OpenEpoch

JoinType = Literal["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]


class WindowJoinSpec(OperatorSpec):
    """A join of two tables with attached windows; keyed by the columns that are compared."""

    kind: Literal["window-join"] = "window-join"
    bundles: bool = True
    """What a key keeps is written once an epoch."""
    join: JoinType
    end_columns: tuple[NonNegativeInt, NonNegativeInt]
    """The column of each side that has the window's end."""
    filter_nulls: tuple[bool, ...] = ()
    """For each column of the key, whether null has no match."""
    condition: list[Any] | None = None
    """What else must be TRUE, over left and right columns one behind the other."""
    zone: str = "UTC"
    """Whose local time windows are of; UTC where they are of a TIMESTAMP."""

    @model_validator(mode="after")
    def _sides(self) -> Self:
        if len(self.inputs) != 2:
            raise ValueError("a window join has two inputs")
        left, right = (len(each.types) for each in self.inputs)
        width = left if self.join in ("SEMI", "ANTI") else left + right
        if len(self.output.types) != width:
            raise ValueError("the output has the columns of the sides that the join shows")
        if self.end_columns[0] >= left or self.end_columns[1] >= right:
            raise ValueError("the end of a window is not a column of its side")
        if len(self.filter_nulls) not in (0, len(self.inputs[0].key)):
            raise ValueError("each column of the key filters nulls or does not")
        try:
            LocalTime(self.zone)
        except UnknownZone as error:
            raise ValueError(str(error)) from error
        return self

    def operator(self) -> WindowJoin:
        """The operator of it."""
        return WindowJoin(self)


class WindowJoin(KeyedOperator):
    """Emit the joined rows of each window once, when the watermark passes it.

    Characteristics:
        input       +I with the end of its window, both sides keyed by what is compared
        output      +I
        state       `left`, `right`: the rows of a window, in a namespace of its end; nothing once
                    it has come out
        state cost  a row is written once and read once
        time        event time: a timer for each window
        unseen -D   there are none

    Source: Flink WindowJoinOperator, WindowJoinHelper.
    """

    def __init__(self, spec: WindowJoinSpec) -> None:
        self._spec = spec
        self._zone = LocalTime(spec.zone)
        self._epoch_ms = 0
        width = sum(len(each.types) for each in spec.inputs)
        self._condition = compile_condition(spec.condition, width, lambda: self._epoch_ms)
        self._descriptors: list[ListDescriptor[Row]] = [
            ListDescriptor(name=name, codec=StoredRows(side))
            for name, side in zip(("left", "right"), spec.inputs, strict=True)
        ]
        self.descriptors = self._descriptors
        self.event_timers = TimersDescriptor(name="event_timers")

    def open(self, epoch: OpenEpoch) -> None:
        """Take the handles."""
        self._session = epoch.session
        self._sides = [epoch.session.list(each) for each in self._descriptors]
        assert self.event_timers is not None
        self._timers = epoch.timers(self.event_timers)
        self._watermark_ms = epoch.times.watermark_ms
        self._epoch_ms = epoch.times.time_ms

    async def process(self, change: InputChange) -> None:
        """Let one row into its window."""
        await self.process_bundle((change,))

    async def process_bundle(self, changes: Sequence[InputChange]) -> None:
        """Let the rows of a key into their windows."""
        by_window: dict[int, tuple[list[Row], list[Row]]] = {}
        for change in changes:
            end = time_of(change.row, self._spec.end_columns[change.input])
            if end is None or self._watermark_ms >= self._zone.passed(end - 1):
                change.late()
            else:
                by_window.setdefault(end, ([], []))[change.input].append(change.row)
        for end, both in by_window.items():
            self._timers.register(self._zone.passed(end - 1), b"%d" % end)
            for side, rows in zip(self._sides, both, strict=True):
                self._session.set_namespace(b"%d" % end)
                await side.add_all(rows)

    async def on_event_timer(self, timer: FiredTimer) -> None:
        """The watermark has passed a window."""
        left, right = [await side.get() or [] for side in self._sides]
        filtered = self._spec.filter_nulls or (False,) * len(timer.key)
        pairs = zip(timer.key, filtered, strict=True)
        matches = not any(value is None and is_filtered for value, is_filtered in pairs)
        if matches and self._condition is not None:
            made = self._joined_where(left, right, self._condition)
        else:
            made = self._joined(left, right, matches=matches)
        for row in made:
            timer.emit(RowKind.INSERT, row)
        for side in self._sides:
            await side.clear()

    def _joined(self, left: Sequence[Row], right: Sequence[Row], *, matches: bool) -> Iterator[Row]:
        """The rows of a window and key: all pairs match, or none does."""
        join = self._spec.join
        no_left, no_right = ((None,) * len(each.types) for each in self._spec.inputs)
        if join in ("SEMI", "ANTI"):
            has_match = matches and bool(right)
            yield from left if has_match == (join == "SEMI") else ()
        elif matches and left and right and join == "RIGHT":
            yield from ((*one, *other) for other in right for one in left)
        elif matches and left and right:
            yield from ((*one, *other) for one in left for other in right)
        else:
            if join in ("LEFT", "FULL"):
                yield from ((*one, *no_right) for one in left)
            if join in ("RIGHT", "FULL"):
                yield from ((*no_left, *other) for other in right)

    def _joined_where(
        self, left: Sequence[Row], right: Sequence[Row], condition: Callable[[Row], bool]
    ) -> Iterator[Row]:
        """The rows of a window and key, of which those match that meet the condition."""
        join = self._spec.join
        no_left, no_right = ((None,) * len(each.types) for each in self._spec.inputs)
        if join in ("SEMI", "ANTI"):
            for one in left:
                if any(condition((*one, *other)) for other in right) == (join == "SEMI"):
                    yield one
            return
        if join == "RIGHT":
            for other in right:
                found = [(*one, *other) for one in left if condition((*one, *other))]
                yield from found or [(*no_left, *other)]
            return
        met: set[int] = set()
        for one in left:
            places = [at for at, other in enumerate(right) if condition((*one, *other))]
            met.update(places)
            yield from ((*one, *right[at]) for at in places)
            if not places and join in ("LEFT", "FULL"):
                yield (*one, *no_right)
        if join == "FULL":
            yield from ((*no_left, *row) for at, row in enumerate(right) if at not in met)
