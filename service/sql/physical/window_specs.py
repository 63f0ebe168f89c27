"""What the nodes of windows of time are; see `nodes`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from service.sql.physical.nodes import JoinKeys
    from service.sql.terms import AggregateCall, Ordering, RankRange, Row, WindowSpec
    from state.types import LogicalType


@dataclass(frozen=True, slots=True)
class AttachedWindow:
    """Windows that rows come with: how they were cut, and the columns that say where they end."""

    window: WindowSpec
    time: LogicalType
    start: int
    """-1: the rows do not say it."""
    end: int


@dataclass(frozen=True, slots=True)
class WindowAggregateSpec:
    """A row for each group and window; in one phase, or the local or global one of two."""

    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    window: WindowSpec
    phase: Literal["single", "local", "global"]
    retracts: bool
    properties: tuple[str, ...]
    """window_start, window_end, ..: in the order of the output."""
    input_row: Row
    """Of the whole aggregation, whatever the phase."""
    slice_column: int = -1
    """Of the global phase: the end of a slice, in its input."""
    attached: AttachedWindow | None = None
    """Where rows come with their windows; None: the node cuts the time itself."""

    @property
    def time(self) -> LogicalType:
        """The time that windows are of."""
        if self.attached is not None:
            return self.attached.time
        return self.input_row.types[self.window.time_column]


@dataclass(frozen=True, slots=True)
class GroupWindowsSpec:
    """A row for each group and window of GROUP BY TUMBLE(ts, ..) and its like."""

    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    window: WindowSpec
    time_name: str
    time: LogicalType
    properties: tuple[str, ...]
    """`w$start` and others, in the order of the output."""


@dataclass(frozen=True, slots=True)
class WindowTableSpec:
    """Appends a window's columns."""

    window: WindowSpec


@dataclass(frozen=True, slots=True)
class WindowRankSpec:
    """The first rows of each partition in each window, once the window has passed."""

    partition: tuple[int, ...]
    order: tuple[Ordering, ...]
    range: RankRange
    has_number: bool
    attached: AttachedWindow


@dataclass(frozen=True, slots=True)
class WindowDeduplicateSpec:
    """The first or last row by time of each partition in each window."""

    partition: tuple[int, ...]
    time_column: int
    keeps_last: bool
    attached: AttachedWindow


@dataclass(frozen=True, slots=True)
class WindowJoinSpec:
    """A join of rows of the same window."""

    keys: JoinKeys
    left: AttachedWindow
    right: AttachedWindow
