"""What relations and the nodes of a plan are both described with: columns, calls, orders, windows.

Columns are known by position; names are kept because a plan shows them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from state.types import LogicalType

JoinKind = Literal["INNER", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"]
WindowKind = Literal["TUMBLE", "HOP", "CUMULATE", "SESSION"]
GROUPING = "GROUPING"
"""The function of a call whose arguments are groups, and which tells what sets leave out."""


@dataclass(frozen=True, slots=True)
class Row:
    """Names and types of columns."""

    names: tuple[str, ...]
    types: tuple[LogicalType, ...]

    def __len__(self) -> int:
        return len(self.names)

    def nullable(self) -> Row:
        """The same columns, each of which may be NULL."""
        return Row(self.names, tuple(each.with_nullable(True) for each in self.types))

    def joined(self, other: Row) -> Row:
        """These columns, then those, whose names are made different."""
        return Row(self.names + unique_names(self.names, other.names), self.types + other.types)


@dataclass(frozen=True, slots=True)
class LookupRetries:
    """Keys without rows are asked for again: the retries of a LOOKUP hint."""

    delay_ms: int
    attempts_max: int
    """After the first time."""


def unique_names(taken: Iterable[str], names: Iterable[str], sign: str = "") -> tuple[str, ...]:
    """Names that are not taken: the sign and a number are appended to those that are.

    >>> unique_names(["id", "id0"], ["id", "k"])
    ('id1', 'k')
    >>> unique_names(["$e", "$e_0"], ["$e", "$e"], "_")
    ('$e_1', '$e_2')
    """
    used = set(taken)
    numbers: dict[str, int] = {}
    made = []
    for name in names:
        # Numbers that were taken stay so: thousands of equal names must not try each again.
        number, candidate = numbers.get(name, 0), name
        while candidate in used:
            candidate, number = f"{name}{sign}{number}", number + 1
        numbers[name] = number
        used.add(candidate)
        made.append(candidate)
    return tuple(made)


def join_row(left: Row, right: Row, kind: JoinKind) -> Row:
    """What a join of two rows gives."""
    if kind in ("SEMI", "ANTI"):
        return left
    if kind in ("RIGHT", "FULL"):
        left = left.nullable()
    if kind in ("LEFT", "FULL"):
        right = right.nullable()
    return left.joined(right)


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate of a group."""

    function: str
    arguments: tuple[int, ...]
    type: LogicalType
    name: str | None = None
    filter: int | None = None
    """A boolean column: rows for which it is not true are passed over."""
    is_distinct: bool = False
    ignores_nulls: bool = False
    """Of ARRAY_AGG: IGNORE NULLS."""

    @property
    def identity(self) -> tuple[object, ...]:
        """What makes two calls one."""
        how = (self.is_distinct, self.ignores_nulls)
        return (self.function, self.arguments, self.filter, how)

    def over(self, place: Callable[[int], int]) -> AggregateCall:
        """The same call where each column that it reads has another place."""
        arguments = tuple(map(place, self.arguments))
        return replace(
            self, arguments=arguments, filter=None if self.filter is None else place(self.filter)
        )


def aggregate_row(row: Row, grouping: tuple[int, ...], calls: tuple[AggregateCall, ...]) -> Row:
    """The columns of an aggregate; a call without a name is `$f` and its position."""
    names = [row.names[index] for index in grouping]
    called = [each.name or f"$f{len(grouping) + at}" for at, each in enumerate(calls)]
    names += unique_names(names, called, "_")
    grouped = tuple(row.types[index] for index in grouping)
    return Row(tuple(names), grouped + tuple(each.type for each in calls))


@dataclass(frozen=True, slots=True)
class Ordering:
    """A column of the input and a direction."""

    column: int
    is_ascending: bool = True
    nulls_last: bool = False


@dataclass(frozen=True, slots=True)
class RankRange:
    """Which ranks are kept: from 1 to `end`, or to what column `end_column` says."""

    start: int = 1
    end: int | None = None
    end_column: int | None = None


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """How a window table function cuts time."""

    kind: WindowKind
    time_column: int
    size_ms: int
    """Of SESSION: the gap."""
    step_ms: int | None = None
    """Of HOP: the slide. Of CUMULATE: the step."""
    offset_ms: int | None = None
    partition: tuple[int, ...] = ()
