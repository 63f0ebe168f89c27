"""Which layout a history is kept in, and when it changes.

Source: FLIP-544 and Flink's `table.exec.sink.upsert-materialize-strategy.*` options.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from state.errors import InvalidThresholds

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Strategy(Enum):
    """How histories are kept. All give the same output where no entry expires."""

    LEGACY = "LEGACY"
    """Packed; time to live counts for the whole history, from its last write."""
    VALUE = "VALUE"
    """Packed; time to live counts for each entry."""
    MAP = "MAP"
    """Spread."""
    ADAPTIVE = "ADAPTIVE"
    """Packed while short, spread while long."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When an ADAPTIVE history changes its layout; both inclusive, as in Flink.

    Raises:
        InvalidThresholds: The pair does not leave a gap, or is negative.
    """

    high: int
    """A packed history of this many entries or more is spread."""
    low: int
    """A spread history of this many entries or fewer is packed."""

    def __post_init__(self) -> None:
        if not self.high > self.low >= 0:
            raise InvalidThresholds(
                f"threshold high ({self.high}) must be above low ({self.low}), and low at least 0"
            )

    @classmethod
    def of(cls, backend: str, high: int | None = None, low: int | None = None) -> Thresholds:
        """The pair for a backend ("heap", "redis"), with what is overridden.

        If only one is given, the other keeps the default pair's distance where it must, so that an
        override of one alone is never refused for the default of the other.

        Raises:
            InvalidThresholds: Both are given and leave no gap, or one is negative.
        """
        default = DEFAULT_THRESHOLDS[backend]
        if high is not None and low is None:
            low = min(default.low, high * default.low // default.high)
        if low is not None and high is None:
            high = max(default.high, low + default.high - default.low)
        return cls(default.high if high is None else high, default.low if low is None else low)


DEFAULT_THRESHOLDS = {
    "heap": Thresholds(high=8000, low=6000),
    "redis": Thresholds(high=400, low=300),
}
"""Measured: see docs/adr/0002-adaptive-thresholds.md."""


@dataclass(frozen=True, slots=True)
class HistoryPolicy:
    """What one operator does with all of its histories."""

    strategy: Strategy
    thresholds: Thresholds
    ttl_ms: int = 0
    """How long an entry lives after its last write; 0 is for ever."""
    due_keys_max: int = 1000
    """Keys of one key group that an epoch looks at only because something of them may be due."""
    enabled_ms: int | None = None
    """When TTL was switched on for histories that were there already; None: it always was."""
    emit_expired: bool = False
    """What the sink shows changes when it expires; else expiry emits nothing, as in Flink."""
    is_stamped: bool = False
    """Whether some run had a TTL, so that keys may be in the index of expiry."""

    def spread_after(
        self, size: NDArray[np.int64], is_spread: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which histories of these sizes are to be spread, given which are now."""
        if self.strategy is Strategy.ADAPTIVE:
            return np.where(is_spread, size > self.thresholds.low, size >= self.thresholds.high)
        return np.full(size.size, self.strategy is Strategy.MAP)

    def is_expired(self, written_ms: int, now_ms: int) -> bool:
        """Whether what was written then is past its time."""
        return bool(self.ttl_ms) and written_ms + self.ttl_ms <= now_ms
