"""Tumbling, hopping, cumulating and session windows: which of them contain a time.

Times are ms since 1970 of local time (`operators.windows.zones`); a window contains its start and
not its end. All but sessions are cut into *slices*, so that a row is aggregated once, however many
windows it is in: a window's aggregate is that of its slices, merged. Windows and slices are named
by their ends.

    window      slices                    windows of a slice
    tumbling    the window itself         one
    hopping     one a slide               size / slide, each a slide later
    in panes    each as long as size and  those that begin at or before it and end with it or
                slide have it in common   later: one, several or none
    cumulating  one a step                those of the same start that end with it or later

Source: Flink SliceAssigners, TumblingWindowAssigner and its like, SlidingWindowAssigner's panes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

if TYPE_CHECKING:
    from collections.abc import Mapping


class Span(BaseModel):
    """A window: from `start` up to, not including, `end`; ms."""

    model_config = ConfigDict(frozen=True)

    start: int
    end: int


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tumbling(_Shape):
    """Windows of one size, one after the other."""

    type: Literal["tumbling"] = "tumbling"
    size_ms: PositiveInt
    offset_ms: int = 0
    """Windows begin so much after multiples of their size."""

    @property
    def slice_ms(self) -> int:
        """How long a slice is."""
        return self.size_ms

    def slice_end(self, at_ms: int) -> int:
        """The slice of a time."""
        return _start(at_ms, self.offset_ms, self.slice_ms) + self.slice_ms

    def window_start(self, window_end: int) -> int:
        """Where a window begins."""
        return window_end - self.size_ms

    def first_window_end(self, slice_end: int) -> int:
        """The first window that has a slice."""
        return slice_end

    def next_window_end(self, window_end: int) -> int:
        """The window after a window."""
        return window_end + self.size_ms

    def last_window_end(self, slice_end: int) -> int:
        """The last window that has a slice."""
        return slice_end

    def windows(self, at_ms: int) -> list[Span]:
        """All windows of a time, in the order in which Flink lists them."""
        end = self.slice_end(at_ms)
        return [Span(start=end - self.size_ms, end=end)]


class Hopping(_Shape):
    """Windows of one size, one a slide: they overlap."""

    type: Literal["hopping"] = "hopping"
    size_ms: PositiveInt
    slide_ms: PositiveInt
    offset_ms: int = 0
    has_panes: bool = False
    """`GROUP BY HOP(..)`: the size may be no multiple of the slide. Table functions' are."""

    @property
    def slice_ms(self) -> int:
        """How long a slice is."""
        return math.gcd(self.size_ms, self.slide_ms)

    @property
    def is_sliced(self) -> bool:
        """Whether windows are made of whole slices; else they have no aggregates, as in Flink."""
        return self.has_panes or self.size_ms % self.slide_ms == 0

    @property
    def has_gaps(self) -> bool:
        """Whether there are times that no window contains."""
        return self.size_ms < self.slide_ms

    def has_window(self, slice_end: int) -> bool:
        """Whether a window contains a slice."""
        return self.last_window_end(slice_end) >= slice_end

    def slice_end(self, at_ms: int) -> int:
        """The slice of a time."""
        return _start(at_ms, self.offset_ms, self.slice_ms) + self.slice_ms

    def slices(self, window_end: int) -> range:
        """The slices of a window in the order in which Flink merges them.

        The last one first; of panes the first one.
        """
        found = range(window_end, window_end - self.size_ms, -self.slice_ms)
        return found[::-1] if self.has_panes else found

    def window_start(self, window_end: int) -> int:
        """Where a window begins."""
        return window_end - self.size_ms

    def first_window_end(self, slice_end: int) -> int:
        """The first window that ends with a slice or later; it begins behind it if none has it."""
        return slice_end + (self.offset_ms + self.size_ms - slice_end) % self.slide_ms

    def next_window_end(self, window_end: int) -> int:
        """The window after a window."""
        return window_end + self.slide_ms

    def last_window_end(self, slice_end: int) -> int:
        """The last window that begins with a slice or before; it ends before it if none has it."""
        return _start(slice_end - self.slice_ms, self.offset_ms, self.slide_ms) + self.size_ms

    def windows(self, at_ms: int) -> list[Span]:
        """All windows of a time, the latest first."""
        last = _start(at_ms, self.offset_ms, self.slide_ms)
        starts = range(last, at_ms - self.size_ms, -self.slide_ms)
        return [Span(start=start, end=start + self.size_ms) for start in starts]


class Cumulating(_Shape):
    """Windows of one start that grow by a step, up to a size; then the next start."""

    type: Literal["cumulating"] = "cumulating"
    size_ms: PositiveInt
    step_ms: PositiveInt
    offset_ms: int = 0

    @model_validator(mode="after")
    def _whole_steps(self) -> Self:
        if self.size_ms % self.step_ms:
            raise ValueError("the size of cumulating windows must be a multiple of their step")
        return self

    @property
    def slice_ms(self) -> int:
        """How long a slice is."""
        return self.step_ms

    def slice_end(self, at_ms: int) -> int:
        """The slice of a time."""
        return _start(at_ms, self.offset_ms, self.step_ms) + self.step_ms

    def window_start(self, window_end: int) -> int:
        """Where a window begins."""
        return _start(window_end - 1, self.offset_ms, self.size_ms)

    def first_window_end(self, slice_end: int) -> int:
        """The first window that has a slice."""
        return slice_end

    def first_slice_end(self, window_end: int) -> int:
        """The slice that keeps what has come out of a window: the first one of its start."""
        return self.window_start(window_end) + self.step_ms

    def next_window_end(self, window_end: int) -> int:
        """The window after a window, of the same start or the next one."""
        return window_end + self.step_ms

    def last_window_end(self, slice_end: int) -> int:
        """The last window that has a slice."""
        return self.window_start(slice_end) + self.size_ms

    def windows(self, at_ms: int) -> list[Span]:
        """All windows of a time, the shortest first."""
        first = self.slice_end(at_ms)
        ends = range(first, self.last_window_end(first) + 1, self.step_ms)
        return [Span(start=self.window_start(end), end=end) for end in ends]


class Session(_Shape):
    """Windows that end when nothing has come for a gap."""

    type: Literal["session"] = "session"
    gap_ms: PositiveInt

    def with_row(self, at_ms: int, ends: Mapping[int, int]) -> tuple[Span, list[int]]:
        """The session that a row is in, and the starts of those that become one with it.

        Args:
            at_ms: The row's time.
            ends: Of the sessions there are, by their starts.
        """
        end = at_ms + self.gap_ms
        met = sorted(start for start, over in ends.items() if start <= end and over >= at_ms)
        whole = Span(start=min([at_ms, *met[:1]]), end=max([end, *(ends[start] for start in met)]))
        return whole, met


Sliced = Annotated[Tumbling | Hopping | Cumulating, Field(discriminator="type")]
"""Windows that are made of slices."""
Shape = Annotated[Tumbling | Hopping | Cumulating | Session, Field(discriminator="type")]


def _start(at_ms: int, offset_ms: int, size_ms: int) -> int:
    """The last multiple of a size, moved by an offset, that is not after a time."""
    return at_ms - (at_ms - offset_ms) % size_ms
