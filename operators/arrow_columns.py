"""What Arrow columns of one logical type lie in: types made equal, and the memory itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


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


def plain_numbers(column: pa.Array, dtype: type[np.generic]) -> NDArray[np.generic]:
    """The values of a column of fixed width, as they lie in memory; of nulls they are any."""
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), dtype)
    return np.frombuffer(data, dtype)[column.offset : column.offset + len(column)]


def offsets_of(column: pa.Array) -> NDArray[np.int32]:
    """Where the values of a column of strings or bytes begin, and where the last one ends."""
    offsets = np.frombuffer(column.buffers()[1], np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]


def plain_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One plain array: chunks joined, dictionaries and large offsets resolved."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_dictionary(kind):
        return column.dictionary_decode()
    if pa.types.is_large_string(kind):
        return column.cast(pa.string())
    if pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    return column
