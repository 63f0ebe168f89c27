"""What a deduplication is to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import NonNegativeInt, model_validator

from operators.deduplicate.arrival import FirstRow, LastRow
from operators.deduplicate.event import EventTimeRow, FirstRowOnce
from operators.deduplicate.retracting import RetractingRow
from operators.event_time import is_time
from operators.spec import OperatorSpec

if TYPE_CHECKING:
    from operators.keyed import KeyedOperator


class DeduplicateSpec(OperatorSpec):
    """Keeps one row of each key. The one input is keyed by the columns that make rows duplicates.

    `ROW_NUMBER() OVER (PARTITION BY key ORDER BY time) = 1`.
    """

    kind: Literal["deduplicate"] = "deduplicate"
    keeps_last: bool
    """The last row is kept; else the first."""
    rowtime: NonNegativeInt | None = None
    """The column of event time that orders rows; None: they are ordered by arrival."""
    proctime: tuple[NonNegativeInt, ...] = ()
    """Columns of processing time: no part of what makes rows equal."""
    once: bool = False
    """By event time: a row is emitted when the watermark says that it is the first, for good."""
    update_before: bool = True
    """Updates are emitted with what they replace."""
    tells_inserts: bool = True
    """+I and +U are told apart; else, without `update_before`, all is +U and nothing need be kept.
    """
    compacts: bool = False
    """A bundle by event time emits what it adds up to, not each of its changes."""
    retracts: bool = False
    """The input takes rows back."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        (row,) = self.inputs
        if self.rowtime is not None and not is_time(row, self.rowtime):
            raise ValueError("the column of event time must be TIMESTAMP or TIMESTAMP_LTZ")
        if self.once and (self.rowtime is None or self.keeps_last or self.retracts):
            raise ValueError(
                "only the first row by event time of what is never taken back is final"
            )
        if any(at >= len(row.types) for at in self.proctime):
            raise ValueError("the columns of processing time must be columns of the input")
        return self

    @property
    def needed_times(self) -> tuple[tuple[int, int], ...]:
        """See `OperatorSpec`."""
        return () if self.rowtime is None else ((0, self.rowtime),)

    def operator(self) -> KeyedOperator:
        """The operator that needs the least state."""
        if self.retracts:
            return RetractingRow(self)
        if self.rowtime is not None:
            return FirstRowOnce(self) if self.once else EventTimeRow(self)
        return LastRow(self) if self.keeps_last else FirstRow(self)
