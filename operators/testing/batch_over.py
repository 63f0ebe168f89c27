"""What OVER means, as a plain function of all rows: each row with the rows of its frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from operators.changelog import Row


def frames(
    rows: Iterable[tuple[object, int, Row]], *, is_rows: bool, preceding: int | None
) -> list[tuple[Row, list[Row]]]:
    """Each row with the rows of its frame, oldest first, by partition and time.

    Args:
        rows: Partition, time in ms, and row, in order of arrival.
        is_rows: ROWS; else RANGE, where rows of one time share a frame.
        preceding: How many rows, or ms, the frame reaches back; None: to the first row.
    """
    found: list[tuple[Row, list[Row]]] = []
    by_time = sorted(enumerate(rows), key=lambda each: (repr(each[1][0]), each[1][1], each[0]))
    ordered = [given for _, given in by_time]
    for partition in dict.fromkeys(given[0] for given in ordered):
        mine = [(at_ms, row) for key, at_ms, row in ordered if key == partition]
        for number, (at_ms, row) in enumerate(mine):
            if is_rows:
                start = 0 if preceding is None else max(0, number - preceding)
                found.append((row, [each for _, each in mine[start : number + 1]]))
            else:
                found.append(
                    (
                        row,
                        [
                            each
                            for when, each in mine
                            if when <= at_ms and (preceding is None or when >= at_ms - preceding)
                        ],
                    )
                )
    return found


def in_order(
    rows: Iterable[Row], partition: int, key: Callable[[Row], tuple[int, ...]]
) -> list[list[tuple[object, Row]]]:
    """The rows of each partition with their sort keys, in order; equal ones as they arrived.

    Args:
        rows: In the order of arrival.
        partition: The column of the partition.
        key: The sort key of a row: something that sorts.
    """
    found: dict[object, list[Row]] = {}
    for row in rows:
        found.setdefault(row[partition], []).append(row)
    return [[(key(row), row) for row in sorted(each, key=key)] for each in found.values()]


def running_frames(
    ordered: Sequence[tuple[object, Row]], *, is_rows: bool
) -> list[tuple[Row, list[Row]]]:
    """Each row of a partition with those of its frame, from the first one to itself.

    Args:
        ordered: Sort keys and rows, in order.
        is_rows: ROWS; else RANGE, where rows with one sort key share a frame.
    """
    found: list[tuple[Row, list[Row]]] = []
    for number, (key, row) in enumerate(ordered):
        end = number + 1
        while not is_rows and end < len(ordered) and ordered[end][0] == key:
            end += 1
        found.append((row, [each for _, each in ordered[:end]]))
    return found


def neighbour(
    ordered: Sequence[tuple[object, Row]], place: int, distance: int, default: Row
) -> Row:
    """The row of a partition that is so far from a place; else another one."""
    at = place + distance
    return ordered[at][1] if 0 <= at < len(ordered) else default
