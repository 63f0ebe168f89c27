"""Arrow columns of one logical type may be of several Arrow types: made equal where they meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def of_types(columns: Iterable[pa.Array], types: Iterable[pa.DataType]) -> list[pa.Array]:
    """The columns, each of the type beside it."""
    return [
        column if column.type == kind else column.cast(kind)
        for column, kind in zip(columns, types, strict=True)
    ]


def joined(first: Sequence[pa.Array], second: Sequence[pa.Array]) -> list[pa.Array]:
    """The rows of some columns, and behind them those of others, whose types they get."""
    fitting = of_types(first, [each.type for each in second])
    return [pa.concat_arrays(pair) for pair in zip(fitting, second, strict=True)]
