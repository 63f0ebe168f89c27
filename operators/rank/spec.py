"""What a rank operator is to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import NonNegativeInt, PositiveInt, model_validator

from operators.ordering import SortColumn
from operators.rank.aging import AgingTopN
from operators.rank.aging_newest import AgingNewest
from operators.rank.append import AppendTopN
from operators.rank.arrival import ArrivalTopN
from operators.rank.first import FirstN, Top1
from operators.rank.retract import RetractTopN
from operators.rank.update import UpdateTopN
from operators.spec import OperatorSpec
from state.types import TypeRoot

if TYPE_CHECKING:
    from operators.keyed import KeyedOperator

_COUNTS = frozenset({TypeRoot.SMALLINT, TypeRoot.INTEGER, TypeRoot.BIGINT})


class RankSpec(OperatorSpec):
    """Shows the rows of each key whose row number by an order lies in a range.

    The one input is keyed by the partition's columns; without columns all rows are one partition.
    """

    kind: Literal["rank"] = "rank"
    strategy: Literal["append", "update", "retract"]
    """What is known of the input: it only grows; rows only rise, by unique key; nothing."""
    order: tuple[SortColumn, ...] = ()
    """Empty: whatever comes first stands first."""
    newest_first: bool = False
    """Of `retract`, without an order: whatever comes last stands first."""
    proctime: tuple[NonNegativeInt, ...] = ()
    """Columns of processing time. They are null, as in Flink where none was made of them yet: a
    row is taken back at another time than it came."""
    start: PositiveInt = 1
    """The first rank that is shown."""
    end: int | None = None
    """The last rank that is shown; None: see `end_column`, or there is no last one."""
    end_column: NonNegativeInt | None = None
    """The column that says the last rank; the first row of a partition counts."""
    unique_key: tuple[NonNegativeInt, ...] = ()
    """Of `update`: columns that say which row an update is about; without any, there is one row."""
    with_number: bool = False
    """Rows are emitted with their rank as a last column."""
    update_before: bool = True
    """Updates are emitted with what they replace."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        (row,) = self.inputs
        columns = range(len(row.types))
        named = (*(each.column for each in self.order), *self.unique_key, *self.proctime)
        if any(at not in columns for at in named):
            raise ValueError("order, unique key and times must name columns of the input")
        if self.end is not None and self.end_column is not None:
            raise ValueError("the last rank is a number or a column, not both")
        if self.end is not None and self.end < self.start:
            raise ValueError(f"no rank lies in the range {self.start} to {self.end}")
        if self.end_column is not None and (
            self.end_column not in columns or row.types[self.end_column].root not in _COUNTS
        ):
            raise ValueError("the column of the last rank must be SMALLINT, INTEGER or BIGINT")
        if self.unique_key and self.strategy != "update":
            raise ValueError("a unique key belongs to strategy update, and to no other")
        if self.newest_first and (self.order or self.strategy != "retract"):
            raise ValueError("the newest row stands first where there is no other order")
        if self.strategy == "update" and not self.order:
            raise ValueError("rows can only rise in an order")
        if len(self.output.types) != len(row.types) + self.with_number:
            raise ValueError("the output must be the input's columns, and the rank if it is shown")
        return self

    def operator(self) -> KeyedOperator:
        """The operator that needs the least state."""
        if self.strategy == "retract":
            return self._retracting()
        if self.strategy == "append" and not self.order:
            return FirstN(self)
        if (self.start, self.end) == (1, 1):
            return Top1(self)
        return AppendTopN(self) if self.strategy == "append" else UpdateTopN(self)

    def _retracting(self) -> KeyedOperator:
        # What was ever counted must be counted on: a TTL may be switched off, and on again.
        ages = self.ttl_of(0).is_enabled or "rows" in self.is_stamped
        if ages:
            return AgingNewest(self) if self.newest_first else AgingTopN(self)
        return RetractTopN(self) if self.order else ArrivalTopN(self)
