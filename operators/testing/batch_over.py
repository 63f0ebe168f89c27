"""What OVER means, as a plain function of all rows: each row with the rows of its frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

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
