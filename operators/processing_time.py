"""Columns of processing time, as operators see them.

Such a column has no value until a Calc makes one of it: in Flink it is null till then. Operators
that compare rows must hold to that, since a row is taken back at another time than it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from operators.changelog import Row


def blanked(row: Row, columns: Collection[int]) -> Row:
    """The row with null in these columns.

    >>> blanked((1, 2, 3), (1,))
    (1, None, 3)
    """
    if not columns:
        return row
    return tuple([None if at in columns else value for at, value in enumerate(row)])
