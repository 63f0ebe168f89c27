"""Which columns of a relation are the edges of windows that a table function cut.

Who ranks, joins or groups by both edges of a window is done with it when the watermark passes it,
and gets a node that keeps nothing longer. The edges may have gone through projections, filters,
ranks, unions, joins and aggregates of windows.

Source: Flink `FlinkRelMdWindowProperties`, `WindowUtil`, `WindowJoinUtil` (2.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from service.plan.rex import InputRef
from service.sql.algebra import Aggregate, Correlate, Expand, Filter, Join, Project, Relation, Union
from service.sql.join_keys import equal_columns
from service.sql.rex import conjuncts
from service.sql.window_relations import Rank, WindowTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from service.sql.terms import WindowSpec
    from state.types import LogicalType


@dataclass(frozen=True, slots=True)
class WindowColumns:
    """Windows, and the columns that tell of them; of each kind there may be several, or none."""

    window: WindowSpec
    """Of the table function; its columns are those of the function's input."""
    time: LogicalType
    """The type of the time that is cut."""
    starts: frozenset[int]
    ends: frozenset[int]
    times: frozenset[int]
    partition: tuple[int, ...]
    """Of sessions: the columns that they are of; shorter than the window's where one is lost."""

    @property
    def all(self) -> frozenset[int]:
        """Every column that is determined by the window."""
        return self.starts | self.ends | self.times

    def bound(self, columns: Iterable[int]) -> bool:
        """Whether these columns have both edges of the window."""
        given = frozenset(columns)
        return bool(given & self.starts) and bool(given & self.ends)

    def are_of(self, columns: Sequence[int]) -> bool:
        """Whether sessions are of exactly these columns."""
        is_whole = len(self.partition) == len(self.window.partition)
        return is_whole and sorted(columns) == sorted(self.partition)

    def is_as(self, other: WindowColumns) -> bool:
        """Whether both are cut in the same way; where their time stands does not matter."""
        own, theirs = (replace(each.window, time_column=0) for each in (self, other))
        return own == theirs and self.time.time_attribute == other.time.time_attribute


def window_columns(relation: Relation) -> WindowColumns | None:
    """The window columns of a relation; None if it has none."""
    match relation:
        case WindowTable():
            width = len(relation.input.row)
            time = relation.input.row.types[relation.spec.time_column]
            start, end, at = (frozenset({width + place}) for place in range(3))
            return WindowColumns(relation.spec, time, start, end, at, relation.spec.partition)
        case Project():
            return _projected(relation)
        case Filter() | Rank() | Expand() | Correlate():
            return window_columns(relation.input)
        case Aggregate():
            return _aggregated(relation)
        case Union():
            return _united(relation.inputs)
        case Join():
            return _joined(relation)
        case _:
            return None


def joined_windows(join: Join) -> tuple[WindowColumns, WindowColumns] | None:
    """The windows of both sides, if the join compares their edges; None if it is of no windows.

    Sessions are of their partition: the join must compare what they are of.
    """
    left, right = window_columns(join.left), window_columns(join.right)
    if left is None or right is None or not left.is_as(right):
        return None
    pairs, _ = equal_columns(conjuncts(join.condition), len(join.left.row))
    starts = any(first in left.starts and second in right.starts for first, second in pairs)
    ends = any(first in left.ends and second in right.ends for first, second in pairs)
    if not (starts and ends):
        return None
    if left.window.kind == "SESSION" and not _compares_sessions(pairs, left, right):
        return None
    return left, right


def _compares_sessions(
    pairs: Sequence[tuple[int, int]], left: WindowColumns, right: WindowColumns
) -> bool:
    kept = len(left.partition) == len(left.window.partition)
    return kept and all(pair in pairs for pair in zip(left.partition, right.partition, strict=True))


def _moved(
    found: WindowColumns | None, places: Callable[[int], Sequence[int]]
) -> WindowColumns | None:
    """The columns where each of the input's is now; None if no edge is left."""
    if found is None:
        return None
    starts, ends, times = (
        frozenset(place for each in columns for place in places(each))
        for columns in (found.starts, found.ends, found.times)
    )
    partition = tuple(next(iter(places(each))) for each in found.partition if places(each))
    made = replace(found, starts=starts, ends=ends, times=times, partition=partition)
    return made if made.all else None


def _projected(project: Project) -> WindowColumns | None:
    places: dict[int, list[int]] = {}
    for place, rex in enumerate(project.expressions):
        if isinstance(rex, InputRef):
            places.setdefault(rex.index, []).append(place)
    return _moved(window_columns(project.input), lambda column: places.get(column, []))


def _aggregated(aggregate: Aggregate) -> WindowColumns | None:
    """Only who groups by both edges has a row for each window."""
    found = window_columns(aggregate.input)
    if found is None or not found.bound(aggregate.grouping):
        return None
    grouping = aggregate.grouping
    return _moved(found, lambda column: [at for at, each in enumerate(grouping) if each == column])


def _united(sides: Sequence[Relation]) -> WindowColumns | None:
    first, *others = map(window_columns, sides)
    for each in others:
        if first is None or each is None or not first.is_as(each):
            return None
        first = replace(
            first,
            starts=first.starts & each.starts,
            ends=first.ends & each.ends,
            times=first.times & each.times,
        )
    return first if first is not None and first.all else None


def _joined(join: Join) -> WindowColumns | None:
    windows = joined_windows(join)
    if windows is None:
        return None
    left, right = windows
    if join.kind in ("SEMI", "ANTI"):
        return left
    width = len(join.left.row)
    moved = _moved(right, lambda column: [width + column])
    assert moved is not None, "the edges of the right side are compared"
    return replace(
        left,
        starts=left.starts | moved.starts,
        ends=left.ends | moved.ends,
        times=left.times | moved.times,
    )
