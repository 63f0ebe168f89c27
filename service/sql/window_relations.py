"""Relations of windows: of rows, as OVER has them, and of time.

Over          OVER functions, taken out of a projection
Rank          the first rows of each partition
WindowTable   TUMBLE, HOP, CUMULATE, SESSION in FROM
GroupWindows  GROUP BY TUMBLE(ts, ..), HOP, SESSION
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from service.sql.terms import Row, aggregate_row
from service.sql.types import BIGINT, PROCTIME
from state.types import LogicalType, TypeRoot

if TYPE_CHECKING:
    from service.sql.algebra import Relation
    from service.sql.rex import Frame, OverCall
    from service.sql.terms import AggregateCall, Ordering, RankRange, WindowSpec


def names_beside(taken: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Names for so many functions of windows, as Calcite makes them, that no column has.

    Where windows stand behind each other what they compute goes side by side.
    """
    for number in itertools.count():
        names = tuple(f"w{number}$o{position}" for position in range(count))
        if not set(names) & set(taken):
            return names
    raise AssertionError("a row has fewer names than there are numbers")


@dataclass(frozen=True)
class Over:
    """Appends functions over windows of rows: all with the same partition, order and frame."""

    input: Relation
    calls: tuple[OverCall, ...]
    """Their expressions are columns of the input."""
    partition: tuple[int, ...]
    order: tuple[Ordering, ...]
    frame: Frame

    @cached_property
    def row(self) -> Row:
        """The input's, then the calls."""
        names = names_beside(self.input.row.names, len(self.calls))
        types = tuple(each.type for each in self.calls)
        return Row(self.input.row.names + names, self.input.row.types + types)


@dataclass(frozen=True)
class Rank:
    """The first rows of each partition by an order."""

    input: Relation
    partition: tuple[int, ...]
    order: tuple[Ordering, ...]
    range: RankRange
    number_name: str | None
    """Name of the column with the rank, which comes last; None: there is none."""

    @cached_property
    def row(self) -> Row:
        """The input's, and the rank if it is asked for."""
        row = self.input.row
        if self.number_name is None:
            return row
        number = BIGINT.with_nullable(False)
        return Row((*row.names, self.number_name), (*row.types, number))

    @property
    def planned_row(self) -> Row:
        """The same as the plan has it: the rank has the name of a function of a window."""
        row = self.row
        if self.number_name is None:
            return row
        return Row((*self.input.row.names, *names_beside(self.input.row.names, 1)), row.types)


@dataclass(frozen=True)
class WindowTable:
    """Appends window_start, window_end and window_time."""

    input: Relation
    spec: WindowSpec

    @cached_property
    def row(self) -> Row:
        """The input's, then the window's columns."""
        time = self.input.row.types[self.spec.time_column].with_nullable(False)
        edge = LogicalType(TypeRoot.TIMESTAMP, nullable=False, precision=3)
        row = self.input.row
        names = (*row.names, "window_start", "window_end", "window_time")
        return Row(names, (*row.types, edge, edge, time))


@dataclass(frozen=True)
class GroupWindows:
    """A row for each group and window that it cuts itself: GROUP BY TUMBLE(ts, ..) and its like."""

    input: Relation
    grouping: tuple[int, ...]
    calls: tuple[AggregateCall, ...]
    spec: WindowSpec
    tells: bool
    """Whether the row tells of the window: its start and end, and its time."""

    @cached_property
    def row(self) -> Row:
        """The grouping columns, the calls, and what is told of the window."""
        row = aggregate_row(self.input.row, self.grouping, self.calls)
        if not self.tells:
            return row
        time = self.input.row.types[self.spec.time_column]
        edge = LogicalType(TypeRoot.TIMESTAMP, nullable=False, precision=3)
        told = [("w$start", edge), ("w$end", edge)]
        if time.time_attribute == "ROWTIME":
            told.append(("w$rowtime", time))
        told.append(("w$proctime", PROCTIME.with_nullable(True)))
        names, kinds = zip(*told, strict=True)
        return Row((*row.names, *names), (*row.types, *kinds))
